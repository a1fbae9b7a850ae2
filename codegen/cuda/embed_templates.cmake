# cmake -DFOLDER=templates/cuda -DFILES=a.cuh,b.cuh -DNAME=kTemplateTexts -DOUTPUT=TemplateTexts.h -P embed_templates.cmake:
# a header with the files as raw strings in a table of that name, in pieces that every compiler takes; `sv` has lengths from
# the compiler, which would count them within the steps of a constant expression.
string(REPLACE "," ";" files "${FILES}")
set(text "#pragma once\n\n#include <string_view>\n#include <utility>\n\nnamespace ditc {\n\nusing std::literals::string_view_literals::operator\"\"sv;\n\ninline constexpr std::pair<std::string_view, std::string_view> ${NAME}[] = {\n")
foreach(file IN LISTS files)
  file(READ ${FOLDER}/${file} content)
  string(LENGTH "${content}" length)
  string(APPEND text "{\"${file}\",\n")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 8000 piece)
    string(APPEND text "R\"CUH(${piece})CUH\"sv\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND text "},\n")
endforeach()
file(WRITE ${OUTPUT} "${text}};\n\n} // namespace ditc\n")
