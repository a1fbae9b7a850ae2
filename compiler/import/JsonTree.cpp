// SPDX-License-Identifier: Apache-2.0
//
// JSON text -> tree by events, so that depth is bounded while parsing and the nodes' metadata never enters
// the tree.
#include "compiler/import/JsonReader.h"

#include <vector>

namespace ditc {

namespace {

constexpr size_t kMaxDepth = 200;
constexpr size_t kMaxText = size_t{256} << 20;

/// Builds the tree. With `dropsMetadata`, an object in a list called "nodes" loses its field "metadata".
class TreeBuilder final : public Json::json_sax_t {
public:
  explicit TreeBuilder(bool dropsMetadata) : dropsMetadata(dropsMetadata) {}

  Json root;
  bool isTooDeep = false;
  size_t errorPosition = 0;

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string &) override { return scalar(value); }
  bool binary(Json::binary_t &) override { return false; }

  bool string(std::string &value) override {
    if (skipped == 1 && lastKey == "nn_module_stack")
      (*stack.back().value)[lastKey] = std::move(value);
    else
      scalar(std::move(value));
    return true;
  }

  bool key(std::string &value) override {
    lastKey = std::move(value);
    isMetadata = dropsMetadata && skipped == 0 && stack.back().isNode && lastKey == "metadata";
    return true;
  }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t position, const std::string &, const Json::exception &) override {
    errorPosition = position;
    return false;
  }

private:
  struct Frame {
    Json *value;
    bool isNodeList, isNode;
  };

  /// Pointers on the stack stay valid: a container gets its next child only when the one before is closed.
  Json *place(Json &&value) {
    if (stack.empty())
      return &(root = std::move(value));
    Json &parent = *stack.back().value;
    if (parent.is_array())
      return &parent.get_ref<Json::array_t &>().emplace_back(std::move(value));
    return &(parent.get_ref<Json::object_t &>()[lastKey] = std::move(value));
  }

  bool scalar(Json &&value) {
    if (skipped == 0 && !isMetadata)
      place(std::move(value));
    isMetadata = false;
    return true;
  }

  bool open(Json &&value) {
    if (stack.size() + skipped >= kMaxDepth) {
      isTooDeep = true;
      return false;
    }
    if (skipped > 0 || isMetadata) {
      ++skipped;
      isMetadata = false;
      return true;
    }
    bool isArray = value.is_array();
    bool inObject = !stack.empty() && stack.back().value->is_object();
    bool inNodeList = !stack.empty() && stack.back().isNodeList;
    stack.push_back({place(std::move(value)), isArray && inObject && lastKey == "nodes", !isArray && inNodeList});
    return true;
  }

  bool close() {
    if (skipped > 0)
      --skipped;
    else
      stack.pop_back();
    return true;
  }

  bool dropsMetadata;
  std::vector<Frame> stack;
  std::string lastKey;
  bool isMetadata = false; ///< the value that comes next is a node's metadata
  size_t skipped = 0;      ///< depth inside of dropped metadata
};

Json build(std::string_view text, const std::string &source, bool dropsMetadata) {
  if (text.size() > kMaxText)
    fail("'{}' has {} bytes of JSON, more than the {} that ditc accepts; check that it is the right file", source,
         text.size(), kMaxText);
  TreeBuilder builder(dropsMetadata);
  if (Json::sax_parse(text.begin(), text.end(), &builder))
    return std::move(builder.root);
  if (builder.isTooDeep)
    fail("'{}': the JSON is nested deeper than {} levels, which no export writes; check that it is the right file",
         source, kMaxDepth);
  fail("'{}' is not valid JSON (error at byte {} of {}); the file is damaged or truncated, export the model again",
       source, builder.errorPosition, text.size());
}

/// Puts quotes around the tokens NaN, Infinity and -Infinity, which Python's json module writes outside of
/// strings although JSON has no such thing. Empty when there are none, which is the rule.
std::string quoteNonFinite(std::string_view text) {
  std::string out;
  size_t copied = 0;
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '"') { // skip the string literal
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
      ++i;
      continue;
    }
    std::string_view token;
    if (c == 'N' || c == 'I' || c == '-')
      for (std::string_view name : {"NaN", "Infinity", "-Infinity"})
        if (text.substr(i).starts_with(name))
          token = name;
    if (token.empty()) {
      ++i;
      continue;
    }
    out.append(text.substr(copied, i - copied)).append("\"").append(token).append("\"");
    i += token.size();
    copied = i;
  }
  return copied == 0 ? std::string() : out.append(text.substr(copied));
}

} // namespace

Json parseTree(std::string_view text, const std::string &source) { return build(text, source, false); }

Json parseProgramTree(std::string_view text, const std::string &source) {
  std::string quoted = quoteNonFinite(text);
  return build(quoted.empty() ? text : quoted, source, true);
}

} // namespace ditc
