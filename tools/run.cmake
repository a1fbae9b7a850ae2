# ditc-run: the program for the machine where packages run; the runtime and nothing else.
find_package(CLI11 REQUIRED)
add_executable(ditc-run ditc-run.cpp Completion.cpp run/Bench.cpp run/CacheCommand.cpp run/CommandLine.cpp run/Common.cpp run/Info.cpp run/Run.cpp run/Tune.cpp)
target_include_directories(ditc-run PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(ditc-run PRIVATE ditc_runtime CLI11::CLI11 nlohmann_json::nlohmann_json)
set_target_properties(ditc-run PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
install(TARGETS ditc-run RUNTIME DESTINATION bin)
