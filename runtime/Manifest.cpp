// SPDX-License-Identifier: Apache-2.0
//
// manifest.json to structs and back, and the checks that need nothing but the manifest itself.
#include "runtime/Manifest.h"

#include "runtime/JsonFields.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ditc {
namespace {

constexpr const char *kCompression = "zstd";

//===-- writing ---------------------------------------------------------------------------------------===//

OrderedJson toJson(const ManifestPort &port) {
  OrderedJson shape = OrderedJson::array();
  for (const ManifestDim &dim : port.shape)
    std::visit([&](const auto &value) { shape.push_back(value); }, dim);
  OrderedJson out = {{"name", port.name}, {"dtype", nameOf(port.dtype)}, {"shape", std::move(shape)}};
  if (!port.graphName.empty())
    out["graph_name"] = port.graphName;
  return out;
}

OrderedJson toJson(const ManifestWeight &weight) {
  OrderedJson out = {{"dtype", nameOf(weight.dtype)}, {"shape", weight.shape}};
  if (!weight.entry.empty())
    out["entry"] = weight.entry;
  if (weight.file.empty())
    return out;
  out["file"] = weight.file;
  out["offset"] = weight.offset;
  out["bytes"] = weight.bytes;
  if (!weight.strides.empty())
    out["strides"] = weight.strides;
  if (!weight.xxh128.empty())
    out["xxh128"] = weight.xxh128;
  return out;
}

OrderedJson toJson(const ManifestTarget &target) {
  OrderedJson out = {{"name", target.name}};
  for (const auto &[key, value] : {std::pair("object", target.object), std::pair("triple", target.triple),
                                   std::pair("cpu", target.cpu)})
    if (!value.empty())
      out[key] = value;
  if (!target.instructionSets.empty())
    out["instruction_sets"] = target.instructionSets;
  return out;
}

OrderedJson toJson(const ManifestBucket &bucket) {
  return {{"name", bucket.name}, {"symbols", OrderedJson(bucket.symbols)}, {"plans", OrderedJson(bucket.plans)}};
}

OrderedJson toJson(const PaddedInput &input) {
  OrderedJson out = {{"name", input.name}, {"dim", input.dim}};
  if (input.value && std::isinf(*input.value)) // JSON has no infinity
    out["value"] = *input.value < 0 ? "-inf" : "inf";
  else if (input.value)
    out["value"] = *input.value;
  return out;
}

OrderedJson toJson(const CroppedOutput &output) { return {{"name", output.name}, {"dim", output.dim}}; }

OrderedJson toJson(const ConstantValue &value) {
  return std::visit(
      [](const auto &held) -> OrderedJson {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

OrderedJson toJson(const MemberRecord &record) {
  OrderedJson out = {{"bytes", record.bytes}, {"xxh128", record.xxh128}};
  if (record.unpackedBytes > 0) {
    out["compression"] = kCompression;
    out["unpacked_bytes"] = record.unpackedBytes;
  }
  return out;
}

OrderedJson toJson(const PaddingRule &rule);

template <typename T> OrderedJson listOf(const std::vector<T> &items) {
  OrderedJson out = OrderedJson::array();
  for (const T &item : items)
    out.push_back(toJson(item));
  return out;
}

OrderedJson toJson(const PaddingRule &rule) {
  return {{"symbol", rule.symbol}, {"inputs", listOf(rule.inputs)}, {"outputs", listOf(rule.outputs)}};
}

template <typename T> OrderedJson objectOf(const std::map<std::string, T> &items) {
  OrderedJson out = OrderedJson::object();
  // Straight into the list behind the object: names are unique, and operator[] would search each time.
  for (const auto &[name, item] : items)
    out.get_ref<OrderedJson::object_t &>().emplace_back(name, toJson(item));
  return out;
}

//===-- reading ---------------------------------------------------------------------------------------===//

std::string optionalText(const JsonField &field, const char *key) {
  return field.has(key) ? field.at(key).text() : "";
}

ManifestPort readPort(const JsonField &field) {
  ManifestPort out;
  out.name = field.at("name").text();
  out.dtype = field.at("dtype").dtype();
  if (field.value->contains("graph_name"))
    out.graphName = field.at("graph_name").text();
  out.shape = field.at("shape").list([](const JsonField &dim) -> ManifestDim {
    if (dim.value->is_string())
      return dim.text();
    return static_cast<int64_t>(dim.count());
  });
  return out;
}

/// Bytes from element 0 to the end of the last element of a strided tensor.
uint64_t stridedExtent(const ManifestWeight &weight, const JsonField &field) {
  if (weight.strides.size() != weight.shape.size())
    fail("{}: {} strides for {} dimensions; the file is damaged, compile again", field.where,
         weight.strides.size(), weight.shape.size());
  uint64_t last = 0;
  for (size_t i = 0; i < weight.shape.size(); ++i) {
    if (weight.shape[i] == 0)
      return 0;
    uint64_t reach;
    if (__builtin_mul_overflow(static_cast<uint64_t>(weight.shape[i] - 1), static_cast<uint64_t>(weight.strides[i]),
                               &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > (UINT64_MAX >> 8))
      fail("{}: strides [{}] are too large; the file is damaged, compile again", field.where,
           fmt::join(weight.strides, ", "));
  }
  return (last + 1) * byteSize(weight.dtype);
}

ManifestWeight readWeight(const JsonField &field, const std::string &name) {
  ManifestWeight out;
  out.dtype = field.at("dtype").dtype();
  out.shape = field.at("shape").sizes();
  uint64_t dense = PortDesc{name, out.dtype, out.shape}.bytes();
  out.entry = optionalText(field, "entry");
  out.file = optionalText(field, "file");
  if (!out.entry.empty() && !out.file.empty())
    fail("{}: a weight has either 'entry' or 'file', not both; the file is damaged, compile again", field.where);
  if (out.file.empty())
    return out;
  out.offset = field.at("offset").count();
  out.bytes = field.at("bytes").count();
  out.xxh128 = optionalText(field, "xxh128");
  if (field.has("strides"))
    out.strides = field.at("strides").sizes();
  uint64_t needed = out.strides.empty() ? dense : stridedExtent(out, field);
  if (out.bytes < needed)
    fail("{}: {} bytes for a tensor that covers {}; the file is damaged, compile again", field.where, out.bytes,
         needed);
  return out;
}

ManifestTarget readTarget(const JsonField &field) {
  return {field.at("name").text(), optionalText(field, "object"), optionalText(field, "triple"),
          optionalText(field, "cpu"),
          field.has("instruction_sets") ? field.at("instruction_sets").texts() : std::vector<std::string>()};
}

ManifestBucket readBucket(const JsonField &field) {
  ManifestBucket out{field.at("name").text(), {}, {}};
  field.at("symbols").members(
      [&](const std::string &name, const JsonField &value) { out.symbols[name] = value.integer(); });
  field.at("plans").members(
      [&](const std::string &target, const JsonField &value) { out.plans[target] = value.text(); });
  return out;
}

PaddedInput readPaddedInput(const JsonField &field) {
  PaddedInput out{field.at("name").text(), field.at("dim").index(), {}};
  if (!field.has("value"))
    return out;
  JsonField value = field.at("value");
  if (value.value->is_string() && (value.text() == "-inf" || value.text() == "inf"))
    out.value = value.text() == "inf" ? HUGE_VAL : -HUGE_VAL;
  else if (value.value->is_number())
    out.value = value.value->get<double>();
  else
    value.misfit("a number, \"inf\" or \"-inf\"");
  return out;
}

PaddingRule readPadding(const JsonField &field) {
  return {field.at("symbol").text(), field.at("inputs").list(readPaddedInput),
          field.at("outputs").list([](const JsonField &output) {
            return CroppedOutput{output.at("name").text(), output.at("dim").index()};
          })};
}

ConstantValue readConstant(const JsonField &field) {
  const Json &value = *field.value;
  if (value.is_null())
    return std::monostate();
  if (value.is_boolean())
    return value.get<bool>();
  if (value.is_number_integer())
    return field.integer();
  if (value.is_number_float())
    return value.get<double>();
  return field.text();
}

/// Tables may be compressed, nothing else: whoever reads another member takes its bytes as they are.
MemberRecord readRecord(std::string_view member, const JsonField &field, int version) {
  MemberRecord out{field.at("bytes").count(), field.at("xxh128").text()};
  if (!field.has("compression"))
    return out;
  if (!member.starts_with(kConstantPrefix))
    fail("{}: the member '{}' is compressed and is no constant; the file is damaged, compile again", field.where, member);
  if (version < kPackageVersion)
    fail("{}: compression in a package of version {}, which has none; the file is damaged, compile again", field.where, version);
  if (field.at("compression").text() != kCompression)
    field.at("compression").misfit("\"zstd\"");
  out.unpackedBytes = field.at("unpacked_bytes").count();
  if (out.unpackedBytes == 0)
    field.at("unpacked_bytes").misfit("a number above 0");
  return out;
}

/// Rules speak of dimensions that the ports have.
void checkPadding(const Manifest &manifest, std::string_view source) {
  auto check = [&](const std::vector<ManifestPort> &ports, const std::string &name, uint32_t dim) {
    auto port = std::find_if(ports.begin(), ports.end(), [&](const ManifestPort &p) { return p.name == name; });
    if (port == ports.end() || dim >= port->shape.size())
      fail("'{}': padding of dimension {} of '{}', which is none; the file is damaged, compile again", source, dim, name);
  };
  std::map<std::string, double> values;
  for (const PaddingRule &rule : manifest.padding) {
    if (rule.inputs.empty())
      fail("'{}': padding of {} by no input; the file is damaged, compile again", source, rule.symbol);
    for (const PaddedInput &input : rule.inputs) {
      check(manifest.inputs, input.name, input.dim);
      if (input.value && values.emplace(input.name, *input.value).first->second != *input.value)
        fail("'{}': '{}' is padded with two values; the file is damaged, compile again", source, input.name);
    }
    for (const CroppedOutput &output : rule.outputs)
      check(manifest.outputs, output.name, output.dim);
  }
}

/// Each bucket has a plan for each target, and none for others.
void checkPlans(const Manifest &manifest, std::string_view source) {
  for (const ManifestBucket &bucket : manifest.buckets) {
    for (const ManifestTarget &target : manifest.targets)
      if (!bucket.plans.contains(target.name))
        fail("'{}': bucket '{}' has no plan for the target '{}'; the file is damaged, compile again", source,
             bucket.name, target.name);
    for (const auto &[target, plan] : bucket.plans)
      if (!manifest.findTarget(target))
        fail("'{}': bucket '{}' has a plan for '{}', which is no target; the file is damaged, compile again", source,
             bucket.name, target);
  }
}

template <typename T> void checkNames(const std::vector<T> &items, std::string_view what, std::string_view source) {
  std::set<std::string_view> seen;
  for (const T &item : items)
    if (item.name.empty() || !seen.insert(item.name).second)
      fail("'{}': the {} name '{}' is empty or not unique; the file is damaged, compile again", source, what,
           item.name);
}

Manifest readFields(const JsonField &root) {
  Manifest out;
  out.producer = root.at("producer").text();
  JsonField model = root.at("model");
  out.modelName = optionalText(model, "name");
  out.sourceHash = optionalText(model, "source_hash");
  out.torchVersion = optionalText(model, "torch_version");
  out.targets = root.at("targets").list(readTarget);
  root.at("weights").members(
      [&](const std::string &name, const JsonField &field) { out.weights[name] = readWeight(field, name); });
  out.inputs = root.at("inputs").list(readPort);
  out.outputs = root.at("outputs").list(readPort);
  if (root.has("none_outputs"))
    out.noneOutputs = root.at("none_outputs").texts();
  root.at("constant_inputs").members([&](const std::string &name, const JsonField &field) {
    out.constantInputs[name] = readConstant(field);
  });
  out.pinned = root.at("pinned").texts();
  out.buckets = root.at("buckets").list(readBucket);
  if (root.has("padding"))
    out.padding = root.at("padding").list(readPadding);
  if (root.has("not_padded"))
    root.at("not_padded").members(
        [&](const std::string &symbol, const JsonField &why) { out.notPadded[symbol] = why.text(); });
  return out;
}

OrderedJson toJson(const Manifest &manifest, int version) {
  OrderedJson out = {{"format", "dita"}, {"version", version}, {"producer", manifest.producer}};
  out["model"] = {{"name", manifest.modelName},
                  {"source_hash", manifest.sourceHash},
                  {"torch_version", manifest.torchVersion}};
  out["targets"] = listOf(manifest.targets);
  out["weights"] = objectOf(manifest.weights);
  out["inputs"] = listOf(manifest.inputs);
  out["outputs"] = listOf(manifest.outputs);
  if (!manifest.noneOutputs.empty())
    out["none_outputs"] = manifest.noneOutputs;
  out["constant_inputs"] = objectOf(manifest.constantInputs);
  out["pinned"] = manifest.pinned;
  out["buckets"] = listOf(manifest.buckets);
  if (!manifest.padding.empty())
    out["padding"] = listOf(manifest.padding);
  if (!manifest.notPadded.empty())
    out["not_padded"] = manifest.notPadded;
  return out;
}

} // namespace

std::string writeManifest(const Manifest &manifest, const std::map<std::string, MemberRecord> &members) {
  bool compresses = std::any_of(members.begin(), members.end(), [](const auto &m) { return m.second.unpackedBytes > 0; });
  OrderedJson out = toJson(manifest, compresses ? kPackageVersion : kPlainPackageVersion); // readers of old take what they can
  out["entries"] = objectOf(members);
  return out.dump(1) + "\n";
}

std::string writeManifest(const Manifest &manifest) { return toJson(manifest, manifest.version).dump(1) + "\n"; }

std::pair<Manifest, std::map<std::string, MemberRecord>> parseManifest(std::string_view text,
                                                                       std::string_view source) {
  Json json = parseJson(text, source);
  JsonField root(json, fmt::format("'{}'", source));
  if (root.at("format").text() != "dita")
    fail("'{}' has format '{}', expected 'dita'; it is not a ditc package", source, root.at("format").text());
  int64_t version = root.at("version").integer();
  if (version < kPlainPackageVersion || version > kPackageVersion)
    fail("'{}' has package version {}, this runtime reads versions {} to {}; {}", source, version, kPlainPackageVersion, kPackageVersion,
         version > kPackageVersion ? "update the runtime" : "compile again with this version of ditc");
  Manifest manifest = readFields(root);
  manifest.version = static_cast<int>(version);
  checkNames(manifest.targets, "target", source);
  checkNames(manifest.inputs, "input", source);
  checkNames(manifest.outputs, "output", source);
  checkNames(manifest.buckets, "bucket", source);
  if (manifest.buckets.empty())
    fail("'{}' has no buckets; the file is damaged, compile again", source);
  checkPlans(manifest, source);
  checkPadding(manifest, source);
  std::map<std::string, MemberRecord> members;
  root.at("entries").members([&](const std::string &name, const JsonField &field) {
    members[name] = readRecord(name, field, manifest.version);
  });
  return {std::move(manifest), std::move(members)};
}

const ManifestBucket *Manifest::findBucket(std::string_view name) const {
  auto found = std::find_if(buckets.begin(), buckets.end(), [&](const auto &b) { return b.name == name; });
  return found == buckets.end() ? nullptr : &*found;
}

const ManifestTarget *Manifest::findTarget(std::string_view name) const {
  auto found = std::find_if(targets.begin(), targets.end(), [&](const auto &t) { return t.name == name; });
  return found == targets.end() ? nullptr : &*found;
}

std::string Manifest::bucketList() const {
  std::vector<std::string_view> names;
  for (const ManifestBucket &bucket : buckets)
    names.push_back(bucket.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Manifest::targetList() const {
  std::vector<std::string_view> names;
  for (const ManifestTarget &target : targets)
    names.push_back(target.name);
  return names.empty() ? "no targets" : fmt::format("{}", fmt::join(names, ", "));
}

} // namespace ditc
