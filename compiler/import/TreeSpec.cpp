// SPDX-License-Identifier: Apache-2.0
//
// Only order and names matter here, so a type that nobody registered is read like any other: its children
// count, and its context names them when it looks like a list of names.
#include "compiler/import/TreeSpec.h"

namespace ditc {

namespace {

// Names of real inputs are short; long keys times many leaves is how a small file would fill the memory.
constexpr size_t kMaxPath = 1024;

bool isDict(const std::string &type) {
  return type == "builtins.dict" || type == "collections.OrderedDict" || type == "collections.defaultdict";
}

/// A key as the user would write it; keys of a dict may be numbers.
std::string keyText(const Json &key) { return key.is_string() ? key.get<std::string>() : key.dump(); }

/// The list of keys in a context: [k...] of dicts and model outputs, [[present], [None]] of dataclasses,
/// [factory, [k...]] of defaultdicts. Null when it is something else.
const Json *keyList(const std::string &type, const Json &context) {
  if (!context.is_array())
    return nullptr;
  if (type == "collections.defaultdict")
    return context.size() == 2 && context[1].is_array() ? &context[1] : nullptr;
  bool isDataclass = context.size() == 2 && context[0].is_array() && context[1].is_array();
  return isDataclass ? &context[0] : &context;
}

std::vector<std::string> readKeys(const TreeSpec &spec, const Json &context, const NamedTupleFields &fields,
                                  const JsonReader &reader) {
  if (spec.type == "collections.namedtuple") {
    auto known = context.is_string() ? fields.find(context.get<std::string>()) : fields.end();
    bool fits = known != fields.end() && known->second.size() == spec.children.size();
    return fits ? known->second : std::vector<std::string>();
  }
  if (spec.type == "builtins.tuple" || spec.type == "builtins.list" || !context.is_string())
    return {};
  const std::string &text = context.get_ref<const std::string &>();
  Json parsed = isDict(spec.type) ? parseTree(text, "a dict's keys in a tree spec") : Json();
  if (!isDict(spec.type) && !text.empty() && text.front() == '[' && Json::accept(text))
    parsed = parseTree(text, "the context of a tree spec");
  std::vector<std::string> keys;
  if (const Json *list = keyList(spec.type, parsed))
    for (const Json &key : *list)
      if (key.is_primitive())
        keys.push_back(keyText(key));
  if (keys.size() == spec.children.size())
    return keys;
  if (isDict(spec.type))
    reader.damaged("a tree spec of type '{}' has {} keys for {} children", spec.type, keys.size(),
                   spec.children.size());
  return {};
}

TreeSpec readSpec(const Json &node, const NamedTupleFields &fields, const JsonReader &reader) {
  TreeSpec spec;
  if (const Json *type = reader.find(node, "type"))
    spec.type = reader.asText(*type, "type");
  if (spec.type.empty())
    return spec;
  for (const Json &child : reader.list(node, "children_spec"))
    spec.children.push_back(readSpec(child, fields, reader));
  const Json *context = reader.find(node, "context");
  spec.keys = readKeys(spec, context ? *context : Json(), fields, reader);
  return spec;
}

void collectPaths(const TreeSpec &spec, const std::string &path, std::vector<std::string> &paths) {
  if (path.size() > kMaxPath)
    fail("an input or output is called '{}', which is longer than {} bytes; rename it and export the model again",
         printable(path), kMaxPath);
  if (spec.type.empty()) {
    paths.push_back(path);
    return;
  }
  for (size_t i = 0; i < spec.children.size(); ++i) {
    std::string step = spec.keys.empty() ? std::to_string(i) : spec.keys[i];
    collectPaths(spec.children[i], path.empty() ? step : path + "." + step, paths);
  }
}

} // namespace

TreeSpec parseTreeSpec(const std::string &text, const NamedTupleFields &fields, const JsonReader &reader) {
  Json tree = parseTree(text, "a tree spec");
  if (!tree.is_array() || tree.size() != 2)
    reader.damaged("a tree spec is not a pair of protocol and tree");
  if (tree[0] != 1)
    reader.damaged("a tree spec has the protocol {}, expected 1", printable(tree[0].dump()));
  return readSpec(tree[1], fields, reader);
}

std::vector<std::string> leafPaths(const TreeSpec &spec, const std::string &prefix) {
  std::vector<std::string> paths;
  collectPaths(spec, prefix, paths);
  return paths;
}

} // namespace ditc
