// SPDX-License-Identifier: Apache-2.0
//
// How long results are wanted: products of one input that join side by side are all there from the first reader on, so what
// joins early for the sake of one launch may hold memory for a whole model.
#pragma once

#include "passes/ClusterGraph.h"

namespace ditc {

/// Bytes of the results of `id`, a kernel of products, that would be there while nothing of `into` is wanted any more: all,
/// when `into` has been read to the end where `id` stands in the program.
int64_t keptBytes(const ClusterGraph &graph, ClusterGraph::Id into, ClusterGraph::Id id);

/// Bytes that results of both, made at once, take more than those of one after the other: of the smaller one, where the first
/// is read to the end before the second stands in the program.
int64_t besideBytes(const ClusterGraph &graph, ClusterGraph::Id a, ClusterGraph::Id b);

} // namespace ditc
