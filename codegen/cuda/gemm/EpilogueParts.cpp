// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/EpilogueParts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

namespace ditc {

namespace {

/// Ranges that one function serves. `pointers[i]` is which pointer each range has in place of the first one's i-th.
struct Group {
  std::vector<const EpiloguePart *> parts;
  std::vector<std::map<unsigned, unsigned>> pointers; ///< per range: the first one's pointer -> its own
};

/// Words and what is between them: `in12` is one token.
std::vector<std::string> tokensOf(const std::string &text) {
  std::vector<std::string> tokens;
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (isWord(text[at]) && end < text.size() && isWord(text[end]))
      ++end;
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

std::optional<unsigned> pointerOf(llvm::StringRef token) {
  unsigned number;
  if (!token.consume_front("in") || token.empty() || token.getAsInteger(10, number))
    return std::nullopt;
  return number;
}

/// Which pointer of `b` stands where `a` has its own; nothing when they differ in anything else.
std::optional<std::map<unsigned, unsigned>> match(const std::string &a, const std::string &b, const std::vector<std::string> &types) {
  std::vector<std::string> x = tokensOf(a), y = tokensOf(b);
  if (x.size() != y.size())
    return std::nullopt;
  std::map<unsigned, unsigned> pointers;
  for (auto [p, q] : llvm::zip(x, y)) {
    std::optional<unsigned> from = pointerOf(p), to = pointerOf(q);
    if (!from || !to) {
      if (p != q)
        return std::nullopt;
      continue;
    }
    if (types[*from] != types[*to] || pointers.try_emplace(*from, *to).first->second != *to)
      return std::nullopt;
  }
  return pointers;
}

std::vector<Group> groupsOf(const std::vector<EpiloguePart> &parts, const std::vector<std::string> &types) {
  std::vector<Group> groups;
  for (const EpiloguePart &part : parts) {
    auto pointers = groups.empty() ? std::nullopt : match(groups.back().parts.front()->body, part.body, types);
    if (!pointers) {
      groups.emplace_back();
      pointers = match(part.body, part.body, types);
    }
    groups.back().parts.push_back(&part);
    groups.back().pointers.push_back(*pointers);
  }
  return groups;
}

/// Pointers that a group's ranges do not have in common.
std::vector<unsigned> ownPointers(const Group &group) {
  std::vector<unsigned> own;
  for (auto [from, first] : group.pointers.front())
    if (llvm::any_of(group.pointers, [from = from](const auto &pointers) { return pointers.at(from) != from; }))
      own.push_back(from);
  return own;
}

std::string withBegin(std::string text, int64_t begin, bool isParameter) {
  const std::string added = " + BEGIN", value = isParameter ? " + begin" : begin != 0 ? fmt::format(" + {}", begin) : "";
  for (size_t at = text.find(added); at != std::string::npos; at = text.find(added, at))
    text.replace(at, added.size(), value);
  const std::string mark = " - BEGIN)";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    if (isParameter) {
      text.replace(at, mark.size(), " - begin)");
    } else if (begin != 0) {
      text.replace(at, mark.size(), fmt::format(" - {})", begin));
    } else { // the parentheses are for the difference
      int depth = 1;
      size_t open = at;
      while (depth > 0)
        depth += text[--open] == ')' ? 1 : text[open] == '(' ? -1 : 0;
      text.erase(at, mark.size()).erase(open, 1);
    }
  }
  return text;
}

std::string renamed(const std::string &text, const std::vector<unsigned> &own) {
  std::string result;
  for (const std::string &token : tokensOf(text)) {
    std::optional<unsigned> pointer = pointerOf(token);
    auto found = pointer ? llvm::find(own, *pointer) : own.end();
    result += found == own.end() ? token : fmt::format("own{}", found - own.begin());
  }
  return result;
}

/// The value for range `which`, as code: a chain of choices.
std::string choice(const std::vector<std::string> &values) {
  if (llvm::all_equal(values))
    return values.front();
  std::string text;
  for (size_t i = 0; i + 1 < values.size(); ++i)
    text += fmt::format("which == {} ? {} : ", i, values[i]);
  return text + values.back();
}

class Writer {
public:
  Writer(const std::vector<std::string> &types, const std::string &parameters, const std::string &arguments) : types(types), parameters(parameters), arguments(arguments) {}

  void add(const Group &group, bool isLast) {
    std::vector<unsigned> own = ownPointers(group);
    bool isMerged = group.parts.size() > 1, usesBegin = isMerged && llvm::StringRef(group.parts.front()->body).contains("BEGIN");
    int64_t begin = group.parts.front()->begin, end = group.parts.back()->begin + group.parts.back()->columns;

    std::string extra = usesBegin ? ", int begin" : "", call = fmt::format("part{}({}", count, arguments);
    if (usesBegin)
      call += ", " + choice(valuesOf(group, [](const EpiloguePart &part, const auto &) { return std::to_string(part.begin); }));
    for (auto [i, pointer] : llvm::enumerate(own)) {
      extra += fmt::format(", const {} *own{}", types[pointer], i);
      call += ", " + choice(valuesOf(group, [pointer = pointer](const EpiloguePart &, const auto &pointers) { return fmt::format("in{}", pointers.at(pointer)); }));
    }
    result.definitions += fmt::format("\n  /// Columns {} to {}.\n  template <class Place>\n  __device__ void part{}({}{}) const {{\n{}  }}\n", begin, end - 1, count, parameters, extra,
                                      renamed(withBegin(group.parts.front()->body, begin, usesBegin), own));
    addCall(group, call + ")", end, isMerged && call.find("which") != std::string::npos, isLast);
    ++count;
  }

  EpilogueFunctions result;

private:
  template <class Function>
  std::vector<std::string> valuesOf(const Group &group, Function value) const {
    std::vector<std::string> values;
    for (auto [part, pointers] : llvm::zip(group.parts, group.pointers))
      values.push_back(value(*part, pointers));
    return values;
  }

  void addCall(const Group &group, const std::string &call, int64_t end, bool chooses, bool isLast) {
    std::string which;
    if (chooses)
      for (const EpiloguePart *part : llvm::drop_begin(group.parts))
        which += fmt::format("{}(at.firstColumn >= {})", which.empty() ? "" : " + ", part->begin);
    if (isLast)
      result.dispatch += (chooses ? fmt::format("    int which = {};\n", which) : "") + fmt::format("    {};\n", call);
    else if (chooses)
      result.dispatch += fmt::format("    if (at.firstColumn < {}) {{\n      int which = {};\n      return {};\n    }}\n", end, which, call);
    else
      result.dispatch += fmt::format("    if (at.firstColumn < {})\n      return {};\n", end, call);
  }

  const std::vector<std::string> &types;
  const std::string &parameters, &arguments;
  size_t count = 0;
};

} // namespace

EpilogueFunctions writeParts(const std::vector<EpiloguePart> &parts, const std::vector<std::string> &pointerTypes, const std::string &parameters, const std::string &arguments) {
  std::vector<Group> groups = groupsOf(parts, pointerTypes);
  Writer writer(pointerTypes, parameters, arguments);
  for (const Group &group : groups)
    writer.add(group, &group == &groups.back());
  return writer.result;
}

} // namespace ditc
