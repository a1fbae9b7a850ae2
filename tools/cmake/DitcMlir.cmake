# Finds MLIR 22 (Debian's packages) and defines the precompiled header that all MLIR-using libraries share.
# Link exactly `MLIR LLVM` (the shared libraries), never a static MLIR archive beside them.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS}) # mlir-tblgen takes its include path from here
separate_arguments(DITC_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})
set(DITC_LLVM_TOOLS_DIR ${LLVM_TOOLS_BINARY_DIR} CACHE PATH "Folder of clang, ld.lld, FileCheck, lit")

add_library(ditc_mlir INTERFACE)
target_include_directories(ditc_mlir SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_include_directories(ditc_mlir INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_definitions(ditc_mlir INTERFACE ${DITC_LLVM_DEFINITIONS})
target_link_libraries(ditc_mlir INTERFACE MLIR LLVM)

# One precompiled header of upstream headers only, so that ours can change without rebuilding it.
file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp "// Carrier of the shared precompiled header.\n")
add_library(ditc_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
target_link_libraries(ditc_pch PUBLIC ditc_mlir)
target_precompile_headers(ditc_pch PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Dialect/Math/IR/Math.h>
  <mlir/IR/Builders.h> <mlir/IR/PatternMatch.h> <mlir/Pass/Pass.h>
  <fmt/format.h> <map> <string> <vector> <optional> <memory> <functional>)
