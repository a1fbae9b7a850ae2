# Unit tests of the rowwise emitter: its units run on the CPU by the emulator. Included from tests/CMakeLists.txt, so
# paths start there.
ditc_library(ditc_rowwise_harness unit/RandomRowwise.cpp unit/RowwiseBodies.cpp unit/RowwiseHarness.cpp LINK ditc_cuda_rowwise ditc_reference)
target_link_libraries(ditc_rowwise_harness PUBLIC ditc_emulator)
target_compile_definitions(ditc_rowwise_harness PRIVATE DITC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

add_executable(ditc_rowwise_test unit/cuda_rowwise_numbers_test.cpp unit/cuda_rowwise_test.cpp)
target_include_directories(ditc_rowwise_test PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(ditc_rowwise_test PRIVATE ditc_rowwise_harness ditc_cuda_codegen GTest::gmock GTest::gtest_main)
target_compile_definitions(ditc_rowwise_test PRIVATE DITC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
gtest_discover_tests(ditc_rowwise_test TEST_PREFIX cuda-rowwise. DISCOVERY_TIMEOUT 60)
