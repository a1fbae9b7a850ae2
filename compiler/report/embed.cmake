# cmake -DINPUT=report.html -DOUTPUT=ReportTemplate.h -P embed.cmake: a header with the file as a raw string, in
# pieces that every compiler takes.
file(READ ${INPUT} text)
string(LENGTH "${text}" length)
set(pieces "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND pieces "R\"PAGE(${piece})PAGE\"\n")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${OUTPUT} "#pragma once\n\n#include <string_view>\n\nnamespace ditc {\n\ninline constexpr std::string_view kReportTemplate =\n${pieces};\n\n} // namespace ditc\n")
