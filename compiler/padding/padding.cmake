# Which symbols of a bucket may be smaller at run time than they were compiled for.
set(DITC_PADDING_SOURCES ComputingRules.cpp KnownScalars.cpp MovingRules.cpp PaddedShape.cpp PaddingProof.cpp PaddingWalk.cpp Padding.cpp)
list(TRANSFORM DITC_PADDING_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
