// SPDX-License-Identifier: Apache-2.0
//
// One bucket's records as JSON: kernels folded over blocks, what was not fused folded the same way, totals.
#pragma once

#include "compiler/report/Fold.h"
#include "compiler/report/Memory.h"
#include "compiler/report/RemarkCollector.h"

#include <nlohmann/json.hpp>

namespace ditc {

nlohmann::json kernelsJson(const GraphRecord &graph, const Folded &folded);
nlohmann::json blocksJson(const GraphRecord &graph, const Folded &folded);
/// Operations without a launch, folded by module path.
nlohmann::json freeJson(const GraphRecord &graph);
/// Missed fusions with their reason, sentence, producer, reader and operand.
nlohmann::json notFusedJson(const std::vector<FusionRemark> &remarks, const GraphRecord &graph, const Folded &folded);
/// Kernels that a target launches otherwise than planned, with the reason.
nlohmann::json deviationsJson(const std::vector<FusionRemark> &remarks, const GraphRecord &graph, const Folded &folded);
/// Launches, bytes, floating-point operations of one step.
nlohmann::json totalsJson(const GraphRecord &graph, const UnfusedRecord &unfused);
nlohmann::json memoryJson(const MemoryRecord &memory);

} // namespace ditc
