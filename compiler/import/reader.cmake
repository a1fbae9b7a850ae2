# ditc_reader: .pt2 archives and exported programs as plain structs. No MLIR.
set(DITC_READER_SOURCES
  ArgumentReader.cpp ExportedProgram.cpp GraphReader.cpp JsonReader.cpp JsonTree.cpp NameCheck.cpp
  Pickle.cpp PickleCalls.cpp Pt2Archive.cpp Pt2Container.cpp Pt2Tensors.cpp SignatureReader.cpp StoredTensor.cpp
  SymEvaluate.cpp SymExpr.cpp SymNumber.cpp TreeSpec.cpp)
list(TRANSFORM DITC_READER_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
find_path(DITC_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

add_library(ditc_reader STATIC ${DITC_READER_SOURCES})
target_include_directories(ditc_reader SYSTEM PRIVATE ${DITC_XXHASH_INCLUDE_DIR})
target_link_libraries(ditc_reader PUBLIC ditc_base)
