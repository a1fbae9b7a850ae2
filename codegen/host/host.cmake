# The host target. Templates are compiled to bitcode by LLVM 22's own clang, whatever compiler builds ditc, and
# their bytes are assembled into the library.
find_program(DITC_CLANG NAMES clang++-22 clang++ HINTS ${DITC_LLVM_TOOLS_DIR} NO_DEFAULT_PATH)
find_program(DITC_CLANG NAMES clang++-22)
if(NOT DITC_CLANG)
  message(FATAL_ERROR "clang++-22 is needed to build the host templates (package clang-22)")
endif()

set(DITC_HOST_TEMPLATES attention attention_quantized axis blocks conv gather math matmul norm pad reduce) # TemplateLibrary.cpp has the same list
set(template_dir ${CMAKE_CURRENT_LIST_DIR}/../templates/host)
set(template_flags -std=c++20 -O1 -emit-llvm -c -fPIC -ffp-contract=off -fno-math-errno -fno-exceptions -fno-rtti
    -fno-strict-aliasing -fwrapv -fno-stack-protector -fno-asynchronous-unwind-tables -fno-ident -nostdlibinc -Wall -Wextra -Wno-psabi)
set(assembly "    .section .note.GNU-stack,\"\",@progbits\n    .section .rodata\n")
set(bitcode_files)
foreach(name IN LISTS DITC_HOST_TEMPLATES)
  set(bitcode ${CMAKE_CURRENT_BINARY_DIR}/templates/${name}.bc)
  add_custom_command(OUTPUT ${bitcode}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/templates
    COMMAND ${DITC_CLANG} ${template_flags} -MD -MT ${bitcode} -MF ${bitcode}.d -o ${bitcode} ${name}.cpp
    WORKING_DIRECTORY ${template_dir} # file names inside the bitcode do not name the checkout
    DEPENDS ${template_dir}/${name}.cpp DEPFILE ${bitcode}.d
    COMMENT "Host template ${name}")
  list(APPEND bitcode_files ${bitcode})
  string(APPEND assembly "    .balign 16\n    .globl ditc_template_${name}_begin\n    .hidden ditc_template_${name}_begin\nditc_template_${name}_begin:\n"
    "    .incbin \"${bitcode}\"\n    .globl ditc_template_${name}_end\n    .hidden ditc_template_${name}_end\nditc_template_${name}_end:\n    .byte 0\n")
endforeach()
set(embedding ${CMAKE_CURRENT_BINARY_DIR}/template_bitcode.S)
file(CONFIGURE OUTPUT ${embedding} CONTENT "${assembly}" @ONLY)
enable_language(ASM)
set_source_files_properties(${embedding} PROPERTIES OBJECT_DEPENDS "${bitcode_files}" SKIP_PRECOMPILE_HEADERS ON)

ditc_library(ditc_host_codegen
  host/Elements.cpp host/Families.cpp host/HostTarget.cpp host/KernelModule.cpp host/KernelReader.cpp host/Machine.cpp
  host/MapEmitter.cpp host/ScalarOps.cpp host/SharedObject.cpp host/StridedLoops.cpp host/TemplateLibrary.cpp
  ${embedding}
  LINK ditc_dialects)
set_source_files_properties(host/SharedObject.cpp PROPERTIES COMPILE_DEFINITIONS "DITC_LLVM_TOOLS_DIR=\"${DITC_LLVM_TOOLS_DIR}\"")
