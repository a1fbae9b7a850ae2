# Unit tests of the report. Included from tests/CMakeLists.txt, so paths start there.
add_library(ditc_report_test_objects OBJECT unit/report_test.cpp unit/report_quantized_test.cpp unit/report_remarks_test.cpp)
target_link_libraries(ditc_report_test_objects PUBLIC ditc_compiler GTest::gmock GTest::gtest_main)
target_precompile_headers(ditc_report_test_objects REUSE_FROM ditc_pch)
add_executable(ditc_report_test)
target_link_libraries(ditc_report_test PRIVATE ditc_report_test_objects)
gtest_discover_tests(ditc_report_test TEST_PREFIX report. DISCOVERY_TIMEOUT 60)
