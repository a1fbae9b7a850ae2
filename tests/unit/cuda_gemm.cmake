# Unit tests of the CUDA target's matrix products with epilogues: their units run on the CPU by the emulator, and compile
# with NVRTC where it is. Included from tests/CMakeLists.txt, so paths start there.
add_library(ditc_gemm_objects OBJECT
  unit/CudaFamilies.cpp unit/GemmBodies.cpp unit/cuda_gemm_nvrtc_test.cpp unit/cuda_gemm_test.cpp unit/cuda_gemm_tiles_test.cpp unit/cuda_images_test.cpp unit/column_parts_test.cpp unit/cuda_epilogue_parts_test.cpp unit/cuda_legalize_test.cpp unit/cuda_tile_test.cpp unit/cuda_tuning_test.cpp unit/deep_chains_test.cpp)
target_link_libraries(ditc_gemm_objects PUBLIC ditc_cuda_codegen ditc_passes ditc_reference ditc_emulator GTest::gmock GTest::gtest_main)
target_precompile_headers(ditc_gemm_objects REUSE_FROM ditc_pch)
target_compile_definitions(ditc_gemm_objects PRIVATE DITC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_executable(ditc_gemm_test)
target_link_libraries(ditc_gemm_test PRIVATE ditc_gemm_objects)
gtest_discover_tests(ditc_gemm_test TEST_PREFIX cuda-gemm. DISCOVERY_TIMEOUT 60)
