# Unit tests of the runtime. Included from tests/CMakeLists.txt, so paths start there.
add_library(ditc_test_kernels MODULE unit/runtime_kernels.c)

add_executable(ditc_runtime_test
  unit/RuntimeFixture.cpp unit/cache_test.cpp unit/compare_test.cpp unit/compressed_package_test.cpp unit/compression_test.cpp unit/cuda_blas_types_test.cpp
  unit/cuda_launch_test.cpp unit/ditc_run_test.cpp
  unit/host_device_test.cpp unit/kernel_file_test.cpp unit/package_test.cpp
  unit/padding_test.cpp unit/plan_test.cpp unit/request_test.cpp unit/session_test.cpp unit/tuning_test.cpp)
target_link_libraries(ditc_runtime_test PRIVATE ditc_runtime nlohmann_json::nlohmann_json GTest::gtest_main)

# The C API is tested through the shared library that is deployed.
add_executable(ditc_c_api_test unit/RuntimeFixture.cpp unit/c_api_calls.c unit/c_api_test.cpp)
set_source_files_properties(unit/c_api_calls.c PROPERTIES COMPILE_OPTIONS "-std=c99;-pedantic;-Werror")
target_link_libraries(ditc_c_api_test PRIVATE ditrt ditc_runtime nlohmann_json::nlohmann_json GTest::gtest_main)

foreach(test ditc_runtime_test ditc_c_api_test)
  target_include_directories(${test} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/runtime/include)
  target_compile_definitions(${test} PRIVATE DITC_TEST_KERNELS="$<TARGET_FILE:ditc_test_kernels>"
                                             DITC_RUN="$<TARGET_FILE:ditc-run>")
  add_dependencies(${test} ditc_test_kernels ditc-run)
endforeach()
gtest_discover_tests(ditc_runtime_test TEST_PREFIX runtime. DISCOVERY_TIMEOUT 60)
gtest_discover_tests(ditc_c_api_test TEST_PREFIX c-api. DISCOVERY_TIMEOUT 60)

# The CUDA device on the fakes of tests/cuda_emulator. NVRTC's caller is compiled in: a build of the runtime alone has no
# library with it.
add_executable(ditc_cuda_device_test
  unit/CudaFixture.cpp unit/RuntimeFixture.cpp unit/cuda_padding_test.cpp unit/cuda_products_test.cpp
  unit/cuda_run_test.cpp unit/cuda_session_test.cpp unit/cuda_upload_test.cpp
  unit/cuda_weights_test.cpp ${CMAKE_SOURCE_DIR}/codegen/cuda/Nvrtc.cpp)
target_link_libraries(ditc_cuda_device_test PRIVATE ditc_runtime ditc_cuda_fakes nlohmann_json::nlohmann_json GTest::gtest)
target_include_directories(ditc_cuda_device_test PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(ditc_cuda_device_test PRIVATE DITC_TEST_KERNELS="$<TARGET_FILE:ditc_test_kernels>"
                                                       DITC_RUN="$<TARGET_FILE:ditc-run>")
add_dependencies(ditc_cuda_device_test ditc_test_kernels ditc-run)
gtest_discover_tests(ditc_cuda_device_test TEST_PREFIX cuda-device. DISCOVERY_TIMEOUT 60)

# What is deployed must start on a machine that has neither a compiler, CUDA nor a BLAS.
foreach(deployed ditc-run ditrt)
  add_test(NAME links-${deployed} COMMAND ldd $<TARGET_FILE:${deployed}>)
  set_tests_properties(links-${deployed} PROPERTIES FAIL_REGULAR_EXPRESSION
    "MLIR;LLVM;libcu;libnv;blas;mkl;torch;python;libfmt;libzstd;not found")
endforeach()
add_test(NAME exports-ditrt COMMAND sh -c "! nm -D --defined-only $<TARGET_FILE:ditrt> | grep -v ' ditc_'")

# The C program in docs/runtime.md compiles against the header as it is.
set(example_command [[awk '/^```c$/{on=1;next}/^```$/{on=0}on' "$1" | "$2" -std=c99 -pedantic -Wall -Werror -fsyntax-only "-I$3" -x c -]])
add_test(NAME docs-runtime-example COMMAND sh -c "${example_command}" sh
  ${CMAKE_SOURCE_DIR}/docs/runtime.md ${CMAKE_C_COMPILER} ${CMAKE_SOURCE_DIR}/runtime/include)
