# Emitters of single operations that are not rowwise.
ditc_library(ditc_cuda_families
  ${CMAKE_CURRENT_LIST_DIR}/Attention.cpp ${CMAKE_CURRENT_LIST_DIR}/AttentionTiles.cpp ${CMAKE_CURRENT_LIST_DIR}/Axis.cpp ${CMAKE_CURRENT_LIST_DIR}/Conv.cpp ${CMAKE_CURRENT_LIST_DIR}/ConvProblem.cpp
  ${CMAKE_CURRENT_LIST_DIR}/Depthwise.cpp
  ${CMAKE_CURRENT_LIST_DIR}/FamilyUnit.cpp ${CMAKE_CURRENT_LIST_DIR}/Gemv.cpp ${CMAKE_CURRENT_LIST_DIR}/GemvProgram.cpp ${CMAKE_CURRENT_LIST_DIR}/Linear.cpp ${CMAKE_CURRENT_LIST_DIR}/Matmul.cpp
  LINK ditc_cuda_rowwise ditc_host_codegen ditc_dialects) # CudaKernel.cpp; KernelReader.cpp
