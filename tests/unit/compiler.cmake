# Random graphs through the whole compiler. Included from tests/CMakeLists.txt, so paths start there.
add_library(ditc_random_graphs_objects OBJECT unit/RandomGraph.cpp unit/random_graphs_test.cpp)
target_link_libraries(ditc_random_graphs_objects PUBLIC ditc_compiler GTest::gtest_main)
target_precompile_headers(ditc_random_graphs_objects REUSE_FROM ditc_pch)
add_executable(ditc_random_graphs_test)
target_link_libraries(ditc_random_graphs_test PRIVATE ditc_random_graphs_objects)
add_test(NAME random-graphs COMMAND ditc_random_graphs_test) # one process: starting MLIR 240 times would cost more

# The padding proof, on functions written by hand.
add_library(ditc_padding_proof_objects OBJECT unit/padding_proof_test.cpp)
target_link_libraries(ditc_padding_proof_objects PUBLIC ditc_compiler GTest::gmock GTest::gtest_main)
target_precompile_headers(ditc_padding_proof_objects REUSE_FROM ditc_pch)
add_executable(ditc_padding_proof_test)
target_link_libraries(ditc_padding_proof_test PRIVATE ditc_padding_proof_objects)
add_test(NAME padding-proof COMMAND ditc_padding_proof_test)

# Plans in text: the order of launches and the places of buffers.
add_library(ditc_launch_order_objects OBJECT unit/launch_order_test.cpp)
target_link_libraries(ditc_launch_order_objects PUBLIC ditc_passes GTest::gtest_main)
add_executable(ditc_launch_order_test)
target_link_libraries(ditc_launch_order_test PRIVATE ditc_launch_order_objects)
add_test(NAME launch-order COMMAND ditc_launch_order_test)

# Quantised products and attention, by the reference evaluator.
add_library(ditc_quantize_objects OBJECT unit/quantize_attention_test.cpp unit/quantize_products_test.cpp)
target_link_libraries(ditc_quantize_objects PUBLIC ditc_passes ditc_reference GTest::gtest_main)
add_executable(ditc_quantize_test)
target_link_libraries(ditc_quantize_test PRIVATE ditc_quantize_objects)
add_test(NAME quantize COMMAND ditc_quantize_test)

# Parts of values, by the reference evaluator.
add_library(ditc_parts_of_values_objects OBJECT unit/parts_of_values_test.cpp)
target_link_libraries(ditc_parts_of_values_objects PUBLIC ditc_passes GTest::gtest_main)
add_executable(ditc_parts_of_values_test)
target_link_libraries(ditc_parts_of_values_test PRIVATE ditc_parts_of_values_objects)
add_test(NAME parts-of-values COMMAND ditc_parts_of_values_test)

# The cost model, on operations in text.
add_library(ditc_cost_objects OBJECT unit/cost_test.cpp)
target_link_libraries(ditc_cost_objects PUBLIC ditc_dialects GTest::gtest_main)
add_executable(ditc_cost_test)
target_link_libraries(ditc_cost_test PRIVATE ditc_cost_objects)
add_test(NAME cost COMMAND ditc_cost_test)
