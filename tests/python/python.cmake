# Tests of the Python package. They need Python alone; what needs numpy, torch or diffusers is skipped without.
# A library with sanitizers cannot be loaded by a plain interpreter.
if(DITC_SANITIZE)
  return()
endif()

# An interpreter with numpy is preferred; one with torch may be named for a second run.
set(DITC_TORCH_PYTHON "" CACHE FILEPATH "An interpreter with torch and diffusers, for the tests that hand over their tensors")
set(python_with_numpy ${Python3_EXECUTABLE})
foreach(candidate ${Python3_EXECUTABLE} /usr/bin/python3)
  execute_process(COMMAND ${candidate} -c "import numpy" RESULT_VARIABLE no_numpy OUTPUT_QUIET ERROR_QUIET)
  if(no_numpy EQUAL 0)
    set(python_with_numpy ${candidate})
    break()
  endif()
endforeach()

function(ditc_python_test name interpreter)
  add_test(NAME ${name} COMMAND ${interpreter} -m unittest WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/python)
  set(environment "PYTHONPATH=${CMAKE_SOURCE_DIR}/runtime/python" PYTHONDONTWRITEBYTECODE=1
    "DITC_RUNTIME=$<TARGET_FILE_DIR:ditrt>" "DITC_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache" "CC=${CMAKE_C_COMPILER}")
  if(NOT DITC_RUNTIME_ONLY)
    list(APPEND environment "DITC_BINARY=$<TARGET_FILE:ditc>")
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
endfunction()

ditc_python_test(python ${python_with_numpy})
if(DITC_TORCH_PYTHON)
  ditc_python_test(python-torch ${DITC_TORCH_PYTHON})
endif()
