# Unit tests of the host target's code generator. Included from tests/CMakeLists.txt, so paths start there.
# The harness alone sees MLIR; the tests themselves compile quickly.
ditc_library(ditc_host_harness unit/HostHarness.cpp LINK ditc_host_codegen)
target_link_libraries(ditc_host_harness PRIVATE GTest::gtest ${CMAKE_DL_LIBS})

add_executable(ditc_host_test
  unit/host_attention_test.cpp unit/host_contraction_test.cpp unit/host_functions_test.cpp unit/host_indexed_test.cpp
  unit/host_map_test.cpp unit/host_norm_test.cpp unit/host_quantized_attention_test.cpp unit/host_scalar_ops_test.cpp unit/host_target_test.cpp)
target_include_directories(ditc_host_test PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(ditc_host_test PRIVATE ditc_host_harness GTest::gtest_main)
gtest_discover_tests(ditc_host_test TEST_PREFIX host. DISCOVERY_TIMEOUT 60)
