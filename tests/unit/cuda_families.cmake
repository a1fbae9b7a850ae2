# Unit tests of the CUDA target's emitters of single operations: their units run on the CPU by the emulator, and compile
# with NVRTC where it is. Included from tests/CMakeLists.txt, so paths start there.
add_library(ditc_families_objects OBJECT
  unit/CudaFamilies.cpp unit/cuda_conv_test.cpp unit/cuda_families_attention_test.cpp unit/cuda_families_nvrtc_test.cpp unit/cuda_families_test.cpp unit/cuda_hopper_conv_test.cpp unit/cuda_linear_test.cpp)
target_link_libraries(ditc_families_objects PUBLIC ditc_cuda_codegen ditc_reference ditc_emulator GTest::gtest_main)
target_precompile_headers(ditc_families_objects REUSE_FROM ditc_pch)
target_compile_definitions(ditc_families_objects PRIVATE DITC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_executable(ditc_families_test)
target_link_libraries(ditc_families_test PRIVATE ditc_families_objects)
gtest_discover_tests(ditc_families_test TEST_PREFIX cuda-families. DISCOVERY_TIMEOUT 60)
