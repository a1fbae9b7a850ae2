// SPDX-License-Identifier: Apache-2.0
//
// kernels.json to structs and back. Like a plan it comes from a file that nobody vouches for, so launch shapes,
// parameter sizes and patches are held against what the driver takes before anything is loaded.
#include "runtime/cuda/KernelFile.h"

#include "runtime/JsonFields.h"

#include <algorithm>
#include <set>

namespace ditc::cuda {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxParameterBytes = 32764; ///< of a kernel, since CUDA 12.1
constexpr uint32_t kMaxArgs = 1u << 16;
constexpr uint64_t kTensorMapBytes = sizeof(TensorMap);

//===-- writing ---------------------------------------------------------------------------------------===//

/// Hexadecimal digits without the zeros at the end: most parameters are addresses that are filled in later.
std::string hexOf(const std::vector<uint8_t> &bytes) {
  size_t used = bytes.size();
  while (used > 0 && bytes[used - 1] == 0)
    --used;
  std::string out;
  for (size_t i = 0; i < used; ++i)
    out += fmt::format("{:02x}", bytes[i]);
  return out;
}

OrderedJson toJson(const ParameterPatch &patch) {
  if (const auto *pointer = std::get_if<PointerPatch>(&patch.value))
    return OrderedJson::array({patch.offset, pointer->arg, pointer->add});
  const auto &map = std::get<TensorMapPatch>(patch.value);
  return {{"offset", patch.offset}, {"arg", map.arg},         {"add", map.add}, {"dtype", nameOf(map.dtype)},
          {"sizes", map.sizes},     {"strides", map.strides}, {"box", map.box}, {"swizzle", static_cast<int>(map.swizzle)}};
}

OrderedJson toJson(const KernelParameter &parameter) {
  OrderedJson out = {{"size", parameter.bytes.size()}};
  if (std::string hex = hexOf(parameter.bytes); !hex.empty())
    out["bytes"] = hex;
  out["patches"] = OrderedJson::array();
  for (const ParameterPatch &patch : parameter.patches)
    out["patches"].push_back(toJson(patch));
  return out;
}

OrderedJson toJson(const KernelImage &kernel) {
  const LaunchShape &launch = kernel.launch;
  OrderedJson out = {{"name", kernel.name},
                     {"image", kernel.image},
                     {"args", kernel.args},
                     {"grid", launch.grid},
                     {"threads", launch.threads},
                     {"shared_bytes", launch.sharedBytes},
                     {"cluster", launch.cluster},
                     {"blocks_per_sm", launch.blocksPerSm},
                     {"overlaps_previous", launch.overlapsPrevious},
                     {"parameters", OrderedJson::array()}};
  for (const KernelParameter &parameter : kernel.parameters)
    out["parameters"].push_back(toJson(parameter));
  return out;
}

//===-- reading ---------------------------------------------------------------------------------------===//

uint32_t indexWithin(const JsonField &field, uint32_t lowest, uint32_t highest) {
  uint32_t value = field.index();
  if (value < lowest || value > highest)
    field.misfit(fmt::format("an integer from {} to {}", lowest, highest));
  return value;
}

std::vector<uint8_t> readBytes(const JsonField &field) {
  std::vector<uint8_t> out(field.at("size").count() <= kMaxParameterBytes ? field.at("size").count() : 0);
  if (out.empty())
    field.at("size").misfit(fmt::format("1 to {} bytes", kMaxParameterBytes));
  if (!field.has("bytes"))
    return out;
  JsonField digits = field.at("bytes");
  std::string text = digits.text();
  if (text.size() % 2 != 0 || text.size() / 2 > out.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    digits.misfit(fmt::format("two hexadecimal digits for each of at most {} bytes", out.size()));
  for (size_t i = 0; i < text.size() / 2; ++i)
    out[i] = static_cast<uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  return out;
}

/// What cuTensorMapEncodeTiled takes; the address itself is checked when it is known.
void checkTensorMap(const TensorMapPatch &map, const JsonField &field) {
  auto refuse = [&](std::string_view what) {
    fail("{}: {}; the file is damaged or of another version, compile again", field.where, what);
  };
  size_t rank = map.sizes.size();
  if (rank < 1 || rank > 5 || map.strides.size() != rank - 1 || map.box.size() != rank)
    refuse(fmt::format("a tensor map of {} sizes, {} strides and {} box sizes", rank, map.strides.size(), map.box.size()));
  if (map.dtype != DType::bf16 && map.dtype != DType::f16 && map.dtype != DType::f32 && byteSize(map.dtype) != 1)
    refuse(fmt::format("tensor maps of {} do not exist", nameOf(map.dtype)));
  for (uint64_t size : map.sizes)
    if (size == 0 || size > (uint64_t{1} << 32))
      refuse(fmt::format("tensor map size {} is not within 1 and 2^32", size));
  for (uint64_t stride : map.strides)
    if (stride % 16 != 0 || stride >= (uint64_t{1} << 40))
      refuse(fmt::format("tensor map stride {} is not a multiple of 16 below 2^40", stride));
  for (uint32_t box : map.box)
    if (box == 0 || box > 256)
      refuse(fmt::format("tensor map box size {} is not within 1 and 256", box));
  uint64_t row = map.box[0] * byteSize(map.dtype);
  uint64_t span = map.swizzle == TensorMapSwizzle::None ? UINT64_MAX : 16ull << static_cast<int>(map.swizzle);
  if (row % 16 != 0 || row > span)
    refuse(fmt::format("tensor map box rows of {} bytes are not a multiple of 16 within the swizzle", row));
}

ParameterPatch readPatch(const JsonField &field) {
  ParameterPatch out;
  if (field.value->is_array()) {
    if (field.size() != 3)
      field.misfit("[offset, argument, added bytes]");
    out.offset = field.at(size_t{0}).index();
    out.value = PointerPatch{field.at(size_t{1}).index(), field.at(size_t{2}).integer()};
    return out;
  }
  out.offset = field.at("offset").index();
  TensorMapPatch map;
  map.arg = field.at("arg").index();
  map.add = field.at("add").integer();
  map.dtype = field.at("dtype").dtype();
  map.sizes = field.at("sizes").list([](const JsonField &f) { return f.count(); });
  map.strides = field.at("strides").list([](const JsonField &f) { return f.count(); });
  map.box = field.at("box").list([](const JsonField &f) { return f.index(); });
  map.swizzle = static_cast<TensorMapSwizzle>(indexWithin(field.at("swizzle"), 0, 3));
  checkTensorMap(map, field);
  out.value = std::move(map);
  return out;
}

void checkPatch(const ParameterPatch &patch, size_t bytes, uint32_t args, const JsonField &field) {
  bool isMap = std::holds_alternative<TensorMapPatch>(patch.value);
  uint64_t end = uint64_t{patch.offset} + (isMap ? kTensorMapBytes : sizeof(Pointer));
  uint32_t arg = isMap ? std::get<TensorMapPatch>(patch.value).arg : std::get<PointerPatch>(patch.value).arg;
  if (end > bytes || patch.offset % (isMap ? alignof(TensorMap) : alignof(Pointer)) != 0)
    fail("{}: {} bytes at {} of a parameter of {}; the file is damaged, compile again", field.where,
         end - patch.offset, patch.offset, bytes);
  if (arg >= args)
    fail("{}: argument {} of {}; the file is damaged, compile again", field.where, arg, args);
}

LaunchShape readLaunch(const JsonField &field) {
  LaunchShape out;
  JsonField grid = field.at("grid");
  if (grid.size() != 3)
    grid.misfit("three sizes");
  for (size_t i = 0; i < 3; ++i)
    out.grid[i] = indexWithin(grid.at(i), 1, i == 0 ? INT32_MAX : 65535);
  out.threads = indexWithin(field.at("threads"), 1, 1024);
  out.sharedBytes = indexWithin(field.at("shared_bytes"), 0, 1u << 20);
  out.cluster = indexWithin(field.at("cluster"), 1, 8); // more is not portable
  out.blocksPerSm = indexWithin(field.at("blocks_per_sm"), 0, 32);
  out.overlapsPrevious = field.at("overlaps_previous").boolean();
  if (out.grid[0] % out.cluster != 0)
    grid.misfit(fmt::format("whole clusters of {} blocks", out.cluster));
  return out;
}

KernelImage readKernel(const JsonField &field) {
  KernelImage out;
  out.name = field.at("name").text();
  out.image = field.at("image").text();
  out.args = indexWithin(field.at("args"), 1, kMaxArgs);
  out.launch = readLaunch(field);
  size_t total = 0;
  out.parameters = field.at("parameters").list([&](const JsonField &item) {
    KernelParameter parameter{readBytes(item), item.at("patches").list(readPatch)};
    for (size_t i = 0; i < parameter.patches.size(); ++i)
      checkPatch(parameter.patches[i], parameter.bytes.size(), out.args, item.at("patches").at(i));
    total += parameter.bytes.size();
    return parameter;
  });
  if (total > kMaxParameterBytes)
    fail("{}: {} bytes of parameters, a kernel takes at most {}; compile again", field.where, total, kMaxParameterBytes);
  return out;
}

} // namespace

const KernelImage *KernelFile::find(std::string_view name) const {
  auto found = std::find_if(kernels.begin(), kernels.end(), [&](const KernelImage &k) { return k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

std::string writeKernelFile(const KernelFile &file) {
  std::string out = fmt::format("{{\n  \"version\": {},\n  \"arch\": {},\n  \"lowest_driver\": {},\n  \"kernels\": [", kVersion,
                                OrderedJson(file.arch).dump(), file.lowestDriver);
  for (size_t i = 0; i < file.kernels.size(); ++i) // one a line: people compare such files
    out += (i ? ",\n    " : "\n    ") + toJson(file.kernels[i]).dump();
  return out + (file.kernels.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

KernelFile parseKernelFile(std::string_view text, std::string_view source) {
  Json json = parseJson(text, source);
  JsonField root(json, fmt::format("'{}'", source));
  if (int64_t version = root.at("version").integer(); version != kVersion)
    fail("'{}' has kernel file version {}, this runtime reads version {}; compile again or update the runtime", source,
         version, kVersion);
  KernelFile out;
  out.arch = root.at("arch").text();
  out.lowestDriver = static_cast<int>(indexWithin(root.at("lowest_driver"), 0, INT32_MAX));
  out.kernels = root.at("kernels").list(readKernel);
  std::set<std::string_view> names;
  for (const KernelImage &kernel : out.kernels)
    if (kernel.name.empty() || !names.insert(kernel.name).second)
      fail("'{}': the kernel name '{}' is empty or not unique; the file is damaged, compile again", source, kernel.name);
  return out;
}

} // namespace ditc::cuda
