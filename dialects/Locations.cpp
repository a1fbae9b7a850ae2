// SPDX-License-Identifier: Apache-2.0
#include "dialects/Locations.h"

#include <algorithm>

using namespace mlir;

namespace ditc {

static void collectNames(Location loc, std::vector<NodeName> &names) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
    return;
  }
  auto node = dyn_cast<NameLoc>(loc);
  if (!node)
    return;
  auto path = dyn_cast<NameLoc>(node.getChildLoc());
  NodeName name{path ? path.getName().str() : "", node.getName().str()};
  auto known = std::ranges::find(names, name);
  if (known != names.end()) // the last mention counts
    names.erase(known);
  names.push_back(std::move(name));
}

std::vector<NodeName> namesOf(Location loc) {
  std::vector<NodeName> names;
  collectNames(loc, names);
  return names;
}

NodeName nameOf(Location loc) {
  while (auto fused = dyn_cast<FusedLoc>(loc)) { // the last part is the operation that the others were fused into
    if (fused.getLocations().empty())
      return {};
    loc = fused.getLocations().back();
  }
  std::vector<NodeName> names = namesOf(loc);
  return names.empty() ? NodeName() : names.back();
}

std::string writeNodeName(const NodeName &name) { return name.path.empty() ? name.node : name.path + ":" + name.node; }

NodeName parseNodeName(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return {"", std::string(text)};
  return {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

} // namespace ditc
