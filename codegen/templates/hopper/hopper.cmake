# Descriptors of the Hopper templates: what each takes as one launch.
ditc_library(ditc_hopper
  ${CMAKE_CURRENT_LIST_DIR}/Catalogue.cpp ${CMAKE_CURRENT_LIST_DIR}/Others.cpp ${CMAKE_CURRENT_LIST_DIR}/Products.cpp
  LINK ditc_dialects ditc_cuda_codegen)
