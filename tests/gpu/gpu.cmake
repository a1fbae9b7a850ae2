# Tests of CUDA code generation that need no GPU, and the programs that compile bundles for a machine that has one.
# Included from tests/CMakeLists.txt; ditc_nvrtc and ditc_cuda_driver come from codegen/cuda and runtime/cuda.
add_executable(compile_units ${CMAKE_CURRENT_LIST_DIR}/compile_units.cpp)
target_include_directories(compile_units PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(compile_units PRIVATE ditc_nvrtc)

add_executable(compile_kernels ${CMAKE_CURRENT_LIST_DIR}/compile_kernels.cpp)
target_include_directories(compile_kernels PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(compile_kernels PRIVATE ditc_cuda_codegen nlohmann_json::nlohmann_json)

add_executable(ditc_cuda_test
  ${CMAKE_CURRENT_LIST_DIR}/../unit/cuda_driver_test.cpp ${CMAKE_CURRENT_LIST_DIR}/../unit/nvrtc_test.cpp)
target_include_directories(ditc_cuda_test PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(ditc_cuda_test PRIVATE ditc_cuda_codegen ditc_cuda_driver GTest::gtest_main)
# Where a toolkit is installed, its header is compared with our declarations.
find_path(DITC_CUDA_INCLUDE cuda.h HINTS /usr/local/cuda/include)
if(DITC_CUDA_INCLUDE)
  target_include_directories(ditc_cuda_test SYSTEM PRIVATE ${DITC_CUDA_INCLUDE})
endif()
gtest_discover_tests(ditc_cuda_test TEST_PREFIX cuda. DISCOVERY_TIMEOUT 60)
add_test(NAME gpu-scripts COMMAND Python3::Interpreter -m unittest test_build_models test_kernel_text WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})
