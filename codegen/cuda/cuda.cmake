# Compiling CUDA kernels: no CUDA toolkit is needed to build this, NVRTC is looked for when it is used.
add_library(ditc_nvrtc STATIC ${CMAKE_CURRENT_LIST_DIR}/Nvrtc.cpp)
target_link_libraries(ditc_nvrtc PUBLIC ditc_base PRIVATE ${CMAKE_DL_LIBS})

# The device headers, as text in the program.
set(DITC_CUDA_TEMPLATES ${CMAKE_CURRENT_LIST_DIR}/../templates/cuda)
file(GLOB_RECURSE template_files RELATIVE ${DITC_CUDA_TEMPLATES} CONFIGURE_DEPENDS ${DITC_CUDA_TEMPLATES}/*.cuh)
list(TRANSFORM template_files PREPEND ${DITC_CUDA_TEMPLATES}/ OUTPUT_VARIABLE template_paths)
list(JOIN template_files "," template_list)
set(template_texts ${CMAKE_BINARY_DIR}/codegen/cuda/TemplateTexts.h)
add_custom_command(OUTPUT ${template_texts}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${DITC_CUDA_TEMPLATES} -DFILES=${template_list} -DNAME=kTemplateTexts -DOUTPUT=${template_texts} -P ${CMAKE_CURRENT_LIST_DIR}/embed_templates.cmake
  DEPENDS ${template_paths} ${CMAKE_CURRENT_LIST_DIR}/embed_templates.cmake VERBATIM)

# The tuning databases that are shipped.
set(DITC_TUNING ${CMAKE_CURRENT_LIST_DIR}/../tuning)
file(GLOB tuning_files RELATIVE ${DITC_TUNING} CONFIGURE_DEPENDS ${DITC_TUNING}/*.json)
list(TRANSFORM tuning_files PREPEND ${DITC_TUNING}/ OUTPUT_VARIABLE tuning_paths)
list(JOIN tuning_files "," tuning_list)
set(tuning_texts ${CMAKE_BINARY_DIR}/codegen/cuda/TuningTexts.h)
add_custom_command(OUTPUT ${tuning_texts}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${DITC_TUNING} -DFILES=${tuning_list} -DNAME=kTuningTexts -DOUTPUT=${tuning_texts} -P ${CMAKE_CURRENT_LIST_DIR}/embed_templates.cmake
  DEPENDS ${tuning_paths} ${CMAKE_CURRENT_LIST_DIR}/embed_templates.cmake VERBATIM)

ditc_library(ditc_cuda_codegen ${CMAKE_CURRENT_LIST_DIR}/CudaTarget.cpp ${CMAKE_CURRENT_LIST_DIR}/Images.cpp ${CMAKE_CURRENT_LIST_DIR}/Templates.cpp ${template_texts} ${tuning_texts}
  ${CMAKE_CURRENT_LIST_DIR}/tuning/GemmTuning.cpp ${CMAKE_CURRENT_LIST_DIR}/tuning/TileFields.cpp ${CMAKE_CURRENT_LIST_DIR}/tuning/TunedTiles.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gemm/EpilogueText.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/GemmKernel.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/MmaGemm.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/MmaTiles.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gemm/RowSplit.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/TileIndex.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/TileProgram.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/TilePull.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sm90/Attention.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/AttentionProblem.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/Gemm.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/GemmTiles.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/MaskPack.cpp
  LINK ditc_cuda_rowwise ditc_cuda_families ditc_nvrtc ditc_dialects ditc_runtime)
