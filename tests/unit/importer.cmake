# Unit tests of the importer. Included from tests/CMakeLists.txt, so paths start there.
# An object library, because the precompiled header is for position-independent code, not for executables.
add_library(ditc_import_test_objects OBJECT
  unit/ImportFixture.cpp unit/buckets_test.cpp unit/import_models_test.cpp unit/importer_test.cpp unit/inplace_test.cpp)
target_compile_definitions(ditc_import_test_objects PRIVATE DITC_TEST_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/models")
target_link_libraries(ditc_import_test_objects PUBLIC ditc_import ditc_runtime GTest::gmock GTest::gtest_main)
target_precompile_headers(ditc_import_test_objects REUSE_FROM ditc_pch)
add_executable(ditc_import_test)
target_link_libraries(ditc_import_test PRIVATE ditc_import_test_objects)
gtest_discover_tests(ditc_import_test TEST_PREFIX import. DISCOVERY_TIMEOUT 60)
