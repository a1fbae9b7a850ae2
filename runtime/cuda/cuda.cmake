# The CUDA driver by dlopen: builds and links without any CUDA toolkit.
add_library(ditc_cuda_driver STATIC ${CMAKE_CURRENT_LIST_DIR}/Driver.cpp)
target_link_libraries(ditc_cuda_driver PUBLIC ditc_base PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(ditc_cuda_driver PROPERTIES POSITION_INDEPENDENT_CODE ON)

# The CUDA device, part of ditc_runtime.
set(DITC_CUDA_RUNTIME_SOURCES
  CublasLt.cpp CudaDevice.cpp CudaExecutable.cpp CudaMemory.cpp CudaQueue.cpp KernelFile.cpp Launch.cpp
  LibraryFolders.cpp PinnedRing.cpp Target.cpp)
list(TRANSFORM DITC_CUDA_RUNTIME_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
