# Unit tests of the reference evaluator and of the ATen rows that compute. Included from tests/CMakeLists.txt,
# so paths start there. Object libraries, because the precompiled header is for position-independent code.
add_library(ditc_evaluate_test_objects OBJECT unit/evaluate_test.cpp)
target_link_libraries(ditc_evaluate_test_objects PUBLIC ditc_reference GTest::gtest_main)
target_precompile_headers(ditc_evaluate_test_objects REUSE_FROM ditc_pch)
add_executable(ditc_evaluate_test)
target_link_libraries(ditc_evaluate_test PRIVATE ditc_evaluate_test_objects)
gtest_discover_tests(ditc_evaluate_test TEST_PREFIX reference. DISCOVERY_TIMEOUT 60)

add_library(ditc_aten_test_objects OBJECT unit/ImportFixture.cpp unit/aten_ops_test.cpp unit/aten_products_test.cpp
  unit/import_refusals_test.cpp)
target_compile_definitions(ditc_aten_test_objects PRIVATE DITC_TEST_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/models")
target_link_libraries(ditc_aten_test_objects PUBLIC ditc_import GTest::gmock GTest::gtest_main)
target_precompile_headers(ditc_aten_test_objects REUSE_FROM ditc_pch)
add_executable(ditc_aten_test)
target_link_libraries(ditc_aten_test PRIVATE ditc_aten_test_objects)
gtest_discover_tests(ditc_aten_test TEST_PREFIX aten. DISCOVERY_TIMEOUT 60)
