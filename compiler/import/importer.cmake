# The importer: from an exported program to `dit` IR.
include(${CMAKE_CURRENT_LIST_DIR}/aten_math.cmake)
set(DITC_IMPORT_SOURCES
  Importer.cpp Nodes.cpp Regions.cpp Loops.cpp Values.cpp Unsupported.cpp MaskedRows.cpp
  Buckets.cpp Guards.cpp
  Emit.cpp EmitViews.cpp OpContext.cpp
  AtenTable.cpp AtenViews.cpp AtenCasts.cpp AtenJoins.cpp AtenRearrange.cpp AtenFactories.cpp
  AtenIndexing.cpp AtenScatter.cpp AtenMasks.cpp AtenPatches.cpp AtenComplex.cpp
  ${DITC_ATEN_MATH_SOURCES})
list(TRANSFORM DITC_IMPORT_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
ditc_library(ditc_import ${DITC_IMPORT_SOURCES} LINK ditc_dialects ditc_reference ditc_reader)
