# The reference evaluator: what each operation of the dialect computes.
set(DITC_REFERENCE_SOURCES
  Elements.cpp Evaluate.cpp EvaluateAttention.cpp EvaluateIndexing.cpp EvaluateLinear.cpp EvaluateMap.cpp EvaluateProducts.cpp
  EvaluateReduce.cpp ScalarKernels.cpp)
list(TRANSFORM DITC_REFERENCE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
ditc_library(ditc_reference ${DITC_REFERENCE_SOURCES} LINK ditc_dialects)
