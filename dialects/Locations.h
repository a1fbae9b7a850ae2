// SPDX-License-Identifier: Apache-2.0
//
// Operations carry where they come from as MLIR locations: NameLoc(node, NameLoc(module path)), fused when
// operations are. Here they are read back: by remarks, plans, diagnostics and the report.
#pragma once

#include "mlir/IR/Location.h"

#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// One node of the source graph: its module path (may be empty) and its name.
struct NodeName {
  std::string path, node;

  bool operator==(const NodeName &) const = default;
};

/// Every node that a location was made of; the last one stands for the operation.
std::vector<NodeName> namesOf(mlir::Location loc);

/// The node that stands for the operation; both parts empty when the location names none.
NodeName nameOf(mlir::Location loc);

/// "transformer_blocks.3.ff:linear_88", the spelling in remarks, and back.
std::string writeNodeName(const NodeName &name);
NodeName parseNodeName(std::string_view text);

} // namespace ditc
