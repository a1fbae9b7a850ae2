# The CMake functions of ditc.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  # The precompiled header is hashed by content, and needs these two sloppiness settings to be cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_link_options(-fuse-ld=lld)
endif()

# ditc_library(name sources... [LINK libs...]): a static library that uses MLIR and the shared header.
function(ditc_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ditc_mlir ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM ditc_pch)
endfunction()

# ditc_tablegen(target td-file DIALECT name PREFIX out-prefix): operations, enums, attributes, dialect.
function(ditc_tablegen target td prefix dialect)
  set(LLVM_TARGET_DEFINITIONS ${td})
  mlir_tablegen(${prefix}.h.inc -gen-op-decls)
  mlir_tablegen(${prefix}.cpp.inc -gen-op-defs)
  mlir_tablegen(${prefix}Dialect.h.inc -gen-dialect-decls -dialect=${dialect})
  mlir_tablegen(${prefix}Dialect.cpp.inc -gen-dialect-defs -dialect=${dialect})
  mlir_tablegen(${prefix}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${prefix}Enums.cpp.inc -gen-enum-defs)
  mlir_tablegen(${prefix}Attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${dialect})
  mlir_tablegen(${prefix}Attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${dialect})
  add_public_tablegen_target(${target})
endfunction()

# ditc_executable(name sources... [LINK libs...]): a program that uses MLIR and the shared header. The header
# is compiled with -fPIC, so the program's sources are too, instead of CMake's -fPIE.
function(ditc_executable name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ditc_mlir ${ARG_LINK})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ditc_pch)
endfunction()
