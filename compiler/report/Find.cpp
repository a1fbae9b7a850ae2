// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Find.h"

#include "compiler/report/Names.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <functional>
#include <map>

namespace ditc {

using nlohmann::json;

int64_t blockIndexOf(const json &bucket, const json &kernel, size_t launch) {
  int block = kernel["block"];
  return block < 0 ? -1 : bucket["blocks"][block]["indices"][launch].get<int64_t>();
}

namespace {

enum class Quality { None, Module, Node };

/// A query in the forms in which it is compared.
class Query {
public:
  explicit Query(std::string text) : text(std::move(text)) {
    for (size_t star = this->text.find('*'); star != std::string::npos; star = this->text.find('*'))
      this->text.replace(star, 1, "{i}");
    isOpen = this->text.find("{i}") != std::string::npos;
  }

  bool meansEveryBlock() const { return isOpen; }

  /// `pattern` is the path with its block's index left open.
  Quality compare(const std::string &pattern, const std::string &path, const std::string &node) const {
    const std::string &compared = isOpen ? pattern : path;
    if (node == text || compared + ":" + node == text)
      return Quality::Node;
    return compared == text || compared.starts_with(text + ".") ? Quality::Module : Quality::None;
  }

private:
  std::string text;
  bool isOpen = false; ///< means every block
};

using Visitor = std::function<void(const std::string &pattern, Match match, bool isMain)>;

void visitKernels(const json &bucket, const Visitor &visit) {
  for (const json &kernel : bucket["kernels"])
    for (size_t launch = 0; launch < kernel["launches"].size(); ++launch)
      for (const json &op : kernel["ops"])
        for (const json &part : op["parts"]) {
          std::string pattern = part["path"];
          int64_t index = blockIndexOf(bucket, kernel, launch);
          visit(pattern, {&kernel, launch, op["op"], index < 0 ? pattern : specialise(pattern, index), part["nodes"].at(launch)}, &part == &op["parts"].back());
        }
}

void visitFree(const json &bucket, const Visitor &visit) {
  for (const json &entry : bucket["free"])
    for (const json &node : entry["nodes"]) {
      std::string pattern = entry["path"];
      visit(pattern, {nullptr, 0, entry["op"], node.size() > 1 ? specialise(pattern, node[1]) : pattern, node[0]}, true);
    }
}

std::vector<Match> opsOfKernel(const json &bucket, const std::string &id) {
  std::vector<Match> matches;
  visitKernels(bucket, [&](const std::string &, Match match, bool isMain) {
    if (isMain && (*match.kernel)["launches"][match.launch] == id)
      matches.push_back(std::move(match));
  });
  return matches;
}

} // namespace

std::vector<Match> findOps(const json &bucket, const std::string &text) {
  if (std::vector<Match> ops = opsOfKernel(bucket, text); !ops.empty())
    return ops;
  Query query(text);
  std::map<Quality, std::vector<Match>> found;
  auto visit = [&](const std::string &pattern, Match match, bool) {
    if (query.meansEveryBlock() && match.launch > 0)
      return; // blocks are equal: the first one stands for all
    if (Quality quality = query.compare(pattern, match.path, match.node); quality != Quality::None)
      found[quality].push_back(std::move(match));
  };
  visitKernels(bucket, visit);
  visitFree(bucket, visit);
  return found[found[Quality::Node].empty() ? Quality::Module : Quality::Node];
}

std::vector<std::string> nearestNames(const json &bucket, const std::string &text, size_t most) {
  std::map<std::string, unsigned> distances;
  auto consider = [&](const std::string &name) {
    if (!name.empty() && !distances.contains(name))
      distances[name] = llvm::StringRef(name).edit_distance(text, true, 0) + (name.find(text) != std::string::npos ? 0 : 2);
  };
  auto visit = [&](const std::string &, Match match, bool) {
    consider(match.path);
    consider(match.node);
  };
  visitKernels(bucket, visit);
  visitFree(bucket, visit);
  std::vector<std::pair<unsigned, std::string>> order;
  for (const auto &[name, distance] : distances)
    order.emplace_back(distance, name);
  std::ranges::sort(order);
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(most, order.size()); ++i)
    names.push_back(order[i].second);
  return names;
}

} // namespace ditc
