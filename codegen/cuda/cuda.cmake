# Compiling CUDA kernels: no CUDA toolkit is needed to build this, NVRTC is looked for when it is used.
add_library(ditc_nvrtc STATIC ${CMAKE_CURRENT_LIST_DIR}/Nvrtc.cpp)
target_link_libraries(ditc_nvrtc PUBLIC ditc_base PRIVATE ${CMAKE_DL_LIBS})

# FOLDER's files of a kind, also in folders below it, as text in the program: `name` is the table in the header ${output}.
function(ditc_embed output name folder pattern)
  file(GLOB_RECURSE files RELATIVE ${folder} CONFIGURE_DEPENDS ${folder}/${pattern})
  list(TRANSFORM files PREPEND ${folder}/ OUTPUT_VARIABLE paths)
  list(JOIN files "," list)
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed_templates.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DFILES=${list} -DNAME=${name} -DOUTPUT=${output} -P ${script}
    DEPENDS ${paths} ${script} VERBATIM)
endfunction()
set(DITC_CUDA_TEMPLATES ${CMAKE_CURRENT_LIST_DIR}/../templates/cuda)
set(template_texts ${CMAKE_BINARY_DIR}/codegen/cuda/TemplateTexts.h)
ditc_embed(${template_texts} kTemplateTexts ${DITC_CUDA_TEMPLATES} *.cuh)
set(tuning_texts ${CMAKE_BINARY_DIR}/codegen/cuda/TuningTexts.h) # the databases that are shipped
ditc_embed(${tuning_texts} kTuningTexts ${CMAKE_CURRENT_LIST_DIR}/../tuning *.json)

ditc_library(ditc_cuda_codegen ${CMAKE_CURRENT_LIST_DIR}/CudaTarget.cpp ${CMAKE_CURRENT_LIST_DIR}/Images.cpp ${CMAKE_CURRENT_LIST_DIR}/Templates.cpp ${template_texts} ${tuning_texts}
  ${CMAKE_CURRENT_LIST_DIR}/tuning/GemmTuning.cpp ${CMAKE_CURRENT_LIST_DIR}/tuning/TileFields.cpp ${CMAKE_CURRENT_LIST_DIR}/tuning/TunedTiles.cpp
  ${CMAKE_CURRENT_LIST_DIR}/conv/MmaConv.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gemm/ElementRuns.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/ElementText.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/EpilogueParts.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gemm/EpilogueText.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/GemmKernel.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/MmaGemm.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/MmaTiles.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gemm/RowSplit.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/TileIndex.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/TileLanes.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gemm/TileProgram.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm/TilePull.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sm90/Attention.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/AttentionProblem.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/AttentionQuantize.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/Conv.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/Gemm.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/GemmTiles.cpp ${CMAKE_CURRENT_LIST_DIR}/sm90/MaskPack.cpp
  LINK ditc_cuda_rowwise ditc_cuda_families ditc_nvrtc ditc_dialects ditc_runtime)
