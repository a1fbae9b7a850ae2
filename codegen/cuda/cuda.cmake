# Compiling CUDA kernels: no CUDA toolkit is needed to build this, NVRTC is looked for when it is used.
add_library(ditc_nvrtc STATIC ${CMAKE_CURRENT_LIST_DIR}/Nvrtc.cpp)
target_link_libraries(ditc_nvrtc PUBLIC ditc_base PRIVATE ${CMAKE_DL_LIBS})
