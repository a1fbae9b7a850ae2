# ditc_base: files and formats that the compiler and the runtime share. No MLIR; deployed with the runtime.
# fmt is compiled in (header-only), so that a deployed program needs no libfmt.so.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/zstd.cmake)

set(DITC_RUNTIME_BASE_SOURCES
  AtomicFile.cpp Compress.cpp DType.cpp Decompress.cpp FileKind.cpp MappedFile.cpp Safetensors.cpp SafetensorsSet.cpp Text.cpp
  ZipFormat.cpp ZipReader.cpp ZipWriter.cpp tuning/Database.cpp)
list(TRANSFORM DITC_RUNTIME_BASE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH DITC_SOURCE_ROOT)

add_library(ditc_base STATIC ${DITC_RUNTIME_BASE_SOURCES})
target_include_directories(ditc_base PUBLIC ${DITC_SOURCE_ROOT})
target_link_libraries(ditc_base PUBLIC fmt::fmt-header-only nlohmann_json::nlohmann_json ZLIB::ZLIB ditc_zstd)
set_target_properties(ditc_base PROPERTIES POSITION_INDEPENDENT_CODE ON)
