# Which symbols of a bucket may be smaller at run time than they were compiled for.
set(DITC_PADDING_SOURCES KnownScalars.cpp PaddedShape.cpp PaddingProof.cpp Padding.cpp)
list(TRANSFORM DITC_PADDING_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
