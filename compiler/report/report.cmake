# The report: what the compiler did and why, as JSON, text and a page. The page is a file of its own, which a
# custom command turns into a header.
set(DITC_REPORT_SOURCES
  BucketJson.cpp Diff.cpp Explain.cpp FailIf.cpp Find.cpp Fold.cpp Gpu.cpp Graph.cpp Html.cpp Memory.cpp Names.cpp
  Quantized.cpp RemarkCollector.cpp Report.cpp Text.cpp)
list(TRANSFORM DITC_REPORT_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

set(DITC_REPORT_TEMPLATE ${CMAKE_BINARY_DIR}/compiler/report/ReportTemplate.h)
add_custom_command(OUTPUT ${DITC_REPORT_TEMPLATE}
  COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_LIST_DIR}/report.html -DOUTPUT=${DITC_REPORT_TEMPLATE} -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/report.html ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  VERBATIM)
list(APPEND DITC_REPORT_SOURCES ${DITC_REPORT_TEMPLATE})
