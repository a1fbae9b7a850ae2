# Unit tests of archives and programs. Included from tests/CMakeLists.txt, so paths start there. Real files come
# from the folders DITC_PT2_CORPUS_DIR and DITC_ZOO_DIR of the environment; those tests are skipped without.
if(NOT TARGET ditc_reader) # a build of the runtime alone
  return()
endif()

add_executable(ditc_reader_test
  unit/ReaderFixture.cpp unit/corpus_test.cpp unit/dtype_test.cpp unit/exported_program_test.cpp unit/pickle_test.cpp unit/program_errors_test.cpp
  unit/pt2_archive_test.cpp unit/pt2_pickled_test.cpp unit/safetensors_test.cpp unit/sym_expr_test.cpp unit/tree_spec_test.cpp
  unit/zip_test.cpp unit/zip_writer_test.cpp)
target_link_libraries(ditc_reader_test PRIVATE ditc_reader GTest::gmock GTest::gtest_main)
gtest_discover_tests(ditc_reader_test TEST_PREFIX reader. DISCOVERY_TIMEOUT 60)
