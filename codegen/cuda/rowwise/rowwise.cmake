# Rowwise kernels of the CUDA target: from a body of tensor operations to CUDA C++.
set(rowwise ${CMAKE_CURRENT_LIST_DIR})
ditc_library(ditc_cuda_rowwise
  ${rowwise}/../CudaKernel.cpp ${rowwise}/../ScalarText.cpp
  ${rowwise}/Arguments.cpp ${rowwise}/Emitter.cpp ${rowwise}/Indices.cpp ${rowwise}/Layouts.cpp ${rowwise}/Pulls.cpp
  ${rowwise}/Rowwise.cpp ${rowwise}/Spaces.cpp ${rowwise}/Statistics.cpp ${rowwise}/Threads.cpp
  LINK ditc_dialects)
