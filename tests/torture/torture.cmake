# The persistent cache under kills, damage and a cap; see cache_torture.py. Included from tests/CMakeLists.txt.
add_executable(ditc_cache_worker torture/cache_worker.cpp)
target_link_libraries(ditc_cache_worker PRIVATE ditc_runtime)
add_test(NAME cache-torture COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/torture/cache_torture.py
  --worker $<TARGET_FILE:ditc_cache_worker> --ditc-run $<TARGET_FILE:ditc-run>)
