# Unit tests of attention on Hopper: which template, which tiles, which parameters; the units compile with NVRTC where it
# is, and masks are packed and operands quantised on the CPU by the emulator. Included from tests/CMakeLists.txt, so paths start there.
add_library(ditc_attention_objects OBJECT unit/cuda_attention_choice_test.cpp unit/cuda_attention_mask_test.cpp unit/cuda_attention_nvrtc_test.cpp
  unit/cuda_attention_quantize_test.cpp unit/cuda_attention_codes_test.cpp)
target_link_libraries(ditc_attention_objects PUBLIC ditc_cuda_codegen ditc_emulator GTest::gtest_main)
target_precompile_headers(ditc_attention_objects REUSE_FROM ditc_pch)
target_compile_definitions(ditc_attention_objects PRIVATE DITC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
add_executable(ditc_attention_test)
target_link_libraries(ditc_attention_test PRIVATE ditc_attention_objects)
gtest_discover_tests(ditc_attention_test TEST_PREFIX cuda-attention. DISCOVERY_TIMEOUT 60)
