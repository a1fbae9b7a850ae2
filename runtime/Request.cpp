// SPDX-License-Identifier: Apache-2.0
//
// The checks of a run's tensors, in the order in which a person would fix the mistakes: names, then types,
// then shapes and the bucket, then values.
#include "runtime/Request.h"

#include "runtime/Compare.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"

#include <algorithm>
#include <optional>
#include <set>

namespace ditc {
namespace {

const TensorRef *findTensor(std::span<const TensorRef> tensors, std::string_view name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorRef &t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string portList(const std::vector<ManifestPort> &ports) {
  std::vector<std::string> texts;
  for (const ManifestPort &port : ports)
    texts.push_back(fmt::format("'{}' {}", port.name, describe(port)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void checkUsable(const TensorRef &tensor, std::string_view what) {
  if (!tensor.strides.empty() && tensor.strides.size() != tensor.shape.size())
    fail("{} '{}' has {} strides for {} dimensions", what, tensor.name, tensor.strides.size(), tensor.shape.size());
  if (!tensor.data && PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes() > 0)
    fail("{} '{}' has no data (null pointer)", what, tensor.name);
}

/// Names and types, which are the same in all buckets.
void checkNamesAndTypes(const std::vector<ManifestPort> &ports, std::span<const TensorRef> tensors,
                        const std::set<std::string> &optional, std::string_view what, const Package &package) {
  std::set<std::string_view> seen;
  for (const TensorRef &tensor : tensors) {
    if (!seen.insert(tensor.name).second)
      fail("{} '{}' is given twice", what, tensor.name);
    bool known = std::any_of(ports.begin(), ports.end(), [&](const auto &p) { return p.name == tensor.name; });
    if (!known && !optional.contains(tensor.name))
      fail("unknown {} '{}'; '{}' has {}", what, tensor.name, package.path(), portList(ports));
  }
  for (const ManifestPort &port : ports) {
    const TensorRef *tensor = findTensor(tensors, port.name);
    if (!tensor)
      fail("{} '{}' is missing; '{}' has {}", what, port.name, package.path(), portList(ports));
    if (tensor->dtype != port.dtype)
      fail("{} '{}' is {}, expected {}; convert it before the call", what, port.name, nameOf(tensor->dtype),
           nameOf(port.dtype));
  }
}

/// The first tensor whose shape the ports do not have, as text; empty when all fit.
std::string firstMisfit(const std::vector<PortDesc> &ports, std::span<const TensorRef> tensors) {
  for (const PortDesc &port : ports) {
    const TensorRef &tensor = *findTensor(tensors, port.name);
    if (tensor.shape != port.shape)
      return fmt::format("expects '{}' {}, got {}", port.name, describe(port.shape), describe(tensor.shape));
  }
  return "";
}

/// Nothing when no bucket has the inputs' shapes; `misfits` then says why.
std::optional<std::string> bucketOfShapes(const Package &package, const PlanMap &plans, std::span<const TensorRef> inputs,
                                          std::vector<std::string> &misfits) {
  for (const ManifestBucket &bucket : package.manifest().buckets) {
    std::string misfit = firstMisfit(plans.at(bucket.name).inputs, inputs);
    if (misfit.empty())
      return bucket.name;
    misfits.push_back(fmt::format("{} {}", bucket.name, misfit));
  }
  return std::nullopt;
}

uint64_t bytesOf(const std::vector<PortDesc> &ports) {
  uint64_t bytes = 0;
  for (const PortDesc &port : ports)
    bytes += port.bytes();
  return bytes;
}

/// The smallest bucket that holds the inputs: the one with the fewest bytes of inputs, the first of equals.
std::optional<BucketChoice> bucketByPadding(const Package &package, const PlanMap &plans,
                                            std::span<const TensorRef> inputs, std::vector<std::string> &misfits) {
  std::optional<BucketChoice> best;
  uint64_t fewest = 0;
  for (const ManifestBucket &bucket : package.manifest().buckets) {
    const Plan &plan = plans.at(bucket.name);
    std::string misfit;
    std::optional<PaddedSizes> sizes = fitByPadding(package.manifest(), plan, inputs, misfit);
    misfits.push_back(fmt::format("{} {}", bucket.name, misfit));
    if (!sizes || (best && bytesOf(plan.inputs) >= fewest))
      continue;
    fewest = bytesOf(plan.inputs);
    best = {bucket.name, *sizes};
  }
  return best;
}

/// "; s1 of larger buckets may be padded, s0 not: …"
std::string paddingText(const Manifest &manifest) {
  std::vector<std::string> symbols, reasons;
  for (const PaddingRule &rule : manifest.padding)
    symbols.push_back(rule.symbol);
  for (const auto &[symbol, reason] : manifest.notPadded)
    reasons.push_back(fmt::format("{} not, since {}", symbol, reason));
  return fmt::format("; {} of a larger bucket may be padded{}{}", fmt::join(symbols, ", "), reasons.empty() ? "" : ", ",
                     fmt::join(reasons, ", "));
}

BucketChoice needBucketOfShapes(const Package &package, const PlanMap &plans, std::span<const TensorRef> inputs,
                                Padding padding) {
  std::vector<std::string> misfits;
  if (std::optional<std::string> bucket = bucketOfShapes(package, plans, inputs, misfits))
    return {*bucket, {}};
  if (padding == Padding::Allowed) {
    misfits.clear();
    if (std::optional<BucketChoice> choice = bucketByPadding(package, plans, inputs, misfits))
      return *choice;
  }
  fail("no bucket of '{}' takes these shapes: {}{}; use one of these shapes or compile a bucket for yours",
       package.path(), fmt::join(misfits, "; "),
       padding == Padding::Allowed ? paddingText(package.manifest()) : "");
}

std::string hashOf(const TensorRef &tensor) {
  uint64_t bytes = PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes();
  if (tensor.isDense())
    return hashHex(std::span(static_cast<const uint8_t *>(tensor.data), bytes));
  std::vector<uint8_t> dense(bytes);
  copyToDense(reinterpret_cast<char *>(dense.data()), tensor);
  return hashHex(dense);
}

/// Inputs whose values are compiled in may be left out; when given, they must be the same.
void checkFixedInputs(const Package &package, const Plan &plan, std::span<const TensorRef> inputs) {
  for (const auto &[name, value] : package.manifest().constantInputs) {
    const TensorRef *tensor = findTensor(inputs, name);
    if (tensor && !equalsConstant(*tensor, value))
      fail("input '{}' is compiled into '{}' as {}; leave it out, give that value, or compile again", name,
           package.path(), describe(value));
  }
  for (const PinnedInput &pinned : plan.pinned) {
    const TensorRef *tensor = findTensor(inputs, pinned.name);
    if (!tensor)
      continue;
    if (tensor->dtype != pinned.dtype || tensor->shape != pinned.shape)
      fail("input '{}' is {}, but '{}' was compiled with it pinned as {}; leave it out or compile again", pinned.name,
           describe(tensor->dtype, tensor->shape), package.path(), describe(pinned.dtype, pinned.shape));
    if (!pinned.xxh128.empty() && hashOf(*tensor) != pinned.xxh128)
      fail("input '{}' has other values than those that '{}' was compiled with (it is pinned); leave it out or compile "
           "again without pinning it",
           pinned.name, package.path());
  }
}

struct Range {
  std::string name;
  const char *begin, *end;
};

/// Strided tensors are staged, so only dense ones can get into each other's way.
std::optional<Range> rangeOf(const TensorRef &tensor) {
  uint64_t bytes = PortDesc{tensor.name, tensor.dtype, tensor.shape}.bytes();
  const char *begin = static_cast<const char *>(tensor.data);
  return tensor.isDense() && bytes > 0 ? std::optional(Range{tensor.name, begin, begin + bytes}) : std::nullopt;
}

void checkOverlaps(const CheckedRequest &request) {
  std::vector<Range> outputs;
  auto check = [&](const std::optional<Range> &range, std::string_view what) {
    for (const Range &output : outputs)
      if (range && range->begin < output.end && output.begin < range->end)
        fail("output '{}' overlaps {} '{}' in memory; give it memory of its own", output.name, what, range->name);
  };
  for (const TensorRef &tensor : request.outputs) {
    std::optional<Range> range = rangeOf(tensor);
    check(range, "output");
    if (range)
      outputs.push_back(*range);
  }
  for (const TensorRef &tensor : request.inputs)
    check(rangeOf(tensor), "input");
}

std::vector<TensorRef> inPlanOrder(const std::vector<PortDesc> &ports, std::span<const TensorRef> tensors) {
  std::vector<TensorRef> out;
  for (const PortDesc &port : ports)
    out.push_back(*findTensor(tensors, port.name));
  return out;
}

} // namespace

namespace {

void checkInputs(const Package &package, std::span<const TensorRef> inputs) {
  const Manifest &manifest = package.manifest();
  std::set<std::string> optional(manifest.pinned.begin(), manifest.pinned.end());
  for (const auto &[name, value] : manifest.constantInputs)
    optional.insert(name);
  checkNamesAndTypes(manifest.inputs, inputs, optional, "input", package);
}

} // namespace

bool fitsSomeBucket(const Package &package, const PlanMap &plans, std::span<const TensorRef> inputs) {
  checkInputs(package, inputs);
  std::vector<std::string> misfits;
  return bucketOfShapes(package, plans, inputs, misfits).has_value();
}

BucketChoice chooseBucket(const Package &package, const PlanMap &plans, const std::string &named,
                          std::span<const TensorRef> inputs, Padding padding) {
  const Manifest &manifest = package.manifest();
  if (!named.empty() && !manifest.findBucket(named))
    fail("'{}' has no bucket '{}'; it has {}", package.path(), named, manifest.bucketList());
  checkInputs(package, inputs);
  if (named.empty())
    return needBucketOfShapes(package, plans, inputs, padding);
  std::string misfit = firstMisfit(plans.at(named).inputs, inputs);
  if (misfit.empty())
    return {named, {}};
  if (padding == Padding::Allowed)
    if (std::optional<PaddedSizes> sizes = fitByPadding(manifest, plans.at(named), inputs, misfit))
      return {named, *sizes};
  fail("bucket '{}' {}{}; '{}' has the buckets {}", named, misfit,
       padding == Padding::Allowed ? paddingText(manifest) : "", package.path(), manifest.bucketList());
}

void needPadding(const Package &package) {
  const Manifest &manifest = package.manifest();
  if (!manifest.padding.empty())
    return;
  std::vector<std::string> reasons;
  for (const auto &[symbol, reason] : manifest.notPadded)
    reasons.push_back(fmt::format("{}: {}", symbol, reason));
  fail("inputs of '{}' cannot be padded to a larger bucket without changing results: {}; use the exact policy or a "
       "fallback, or compile a bucket for these shapes",
       package.path(),
       reasons.empty() ? "it was compiled from exports without symbolic sizes" : fmt::format("{}", fmt::join(reasons, "; ")));
}

CheckedRequest checkRequest(const Package &package, const PlanMap &plans, const std::string &named,
                            std::span<const TensorRef> inputs, std::span<const TensorRef> outputs, Padding padding) {
  CheckedRequest out;
  out.choice = chooseBucket(package, plans, named, inputs, padding);
  const Plan &plan = plans.at(out.choice.bucket);
  for (const TensorRef &tensor : inputs)
    checkUsable(tensor, "input");
  checkFixedInputs(package, plan, inputs);
  checkNamesAndTypes(package.manifest().outputs, outputs, {}, "output", package);
  std::vector<PortDesc> ports = outputPorts(package.manifest(), plan, out.choice.sizes);
  if (std::string misfit = firstMisfit(ports, outputs); !misfit.empty())
    fail("bucket '{}' {}; allocate the output with {}", out.choice.bucket, misfit,
         out.choice.sizes.empty() ? "the bucket's shape" : "the shape that the inputs make it");
  out.inputs = inPlanOrder(plan.inputs, inputs);
  out.outputs = inPlanOrder(plan.outputs, outputs);
  for (const TensorRef &tensor : out.outputs) {
    checkUsable(tensor, "output");
    for (size_t i = 0; i < tensor.strides.size() && !tensor.isEmpty(); ++i)
      if (tensor.strides[i] == 0 && tensor.shape[i] > 1)
        fail("output '{}' has stride 0 in dimension {}, so its elements would overwrite each other", tensor.name, i);
  }
  checkOverlaps(out);
  return out;
}

bool equalsConstant(const TensorRef &tensor, const ConstantValue &value) {
  for (int64_t size : tensor.shape)
    if (size != 1)
      return false;
  if (isComplex(tensor.dtype))
    return false;
  std::span<const uint8_t> bytes(static_cast<const uint8_t *>(tensor.data), byteSize(tensor.dtype));
  double number = elementAsDouble(tensor.dtype, bytes.data());
  if (const bool *boolean = std::get_if<bool>(&value))
    return number == (*boolean ? 1.0 : 0.0);
  if (const int64_t *integer = std::get_if<int64_t>(&value))
    return number == static_cast<double>(*integer);
  const double *real = std::get_if<double>(&value);
  // A value that came as f32 equals the double that it was rounded from.
  return real && (number == *real || (tensor.dtype == DType::f32 && number == static_cast<float>(*real)));
}

std::string describe(const ConstantValue &value) {
  struct Printer {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool held) const { return held ? "true" : "false"; }
    std::string operator()(int64_t held) const { return std::to_string(held); }
    std::string operator()(double held) const { return fmt::format("{}", held); }
    std::string operator()(const std::string &held) const { return fmt::format("\"{}\"", held); }
  };
  return std::visit(Printer(), value);
}

std::string describe(const ManifestPort &port) {
  std::vector<std::string> dims;
  for (const ManifestDim &dim : port.shape)
    dims.push_back(std::visit([](const auto &value) { return fmt::format("{}", value); }, dim));
  return fmt::format("{} [{}]", nameOf(port.dtype), fmt::join(dims, ", "));
}

} // namespace ditc
