// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/Bundle.h"

#include "runtime/FileKind.h"
#include "runtime/JsonText.h"
#include "runtime/Zip.h"
#include "runtime/cuda/Launch.h"
#include "runtime/tuning/TuningJson.h"

#include <algorithm>

namespace ditc::tuning {
namespace {

constexpr int kVersion = 1;
constexpr uint64_t kMaxArgumentBytes = 1ull << 40;
constexpr std::string_view kAdvice = "the file is damaged or of another version; write the bundle again";

//===-- writing ---------------------------------------------------------------------------------------===//

OrderedJson toJson(const Job &job) {
  OrderedJson out = {{"key", toJson(job.key)}, {"where", job.where}, {"launches", job.launches}};
  out["arguments"] = OrderedJson::array();
  for (const Argument &argument : job.arguments) {
    OrderedJson item = {{"dtype", nameOf(argument.dtype)}, {"bytes", argument.bytes}, {"output", argument.isOutput}};
    if (!argument.isOutput)
      item["scale"] = argument.scale;
    out["arguments"].push_back(std::move(item));
  }
  out["products"] = OrderedJson::array();
  for (const Product &product : job.products)
    out["products"].push_back({product.rows, product.columns, product.k});
  out["candidates"] = OrderedJson::array();
  for (const Candidate &candidate : job.candidates)
    out["candidates"].push_back({{"kernel", candidate.kernel}, {"entry", candidate.entry}, {"tiles", candidate.tiles}});
  return out;
}

//===-- reading ---------------------------------------------------------------------------------------===//

int64_t size(const JsonField &field) {
  int64_t value = field.integer();
  if (value < 1 || value > INT32_MAX)
    field.misfit("a size");
  return value;
}

Argument readArgument(const JsonField &field) {
  Argument out;
  out.dtype = field.at("dtype").dtype();
  out.bytes = field.at("bytes").count();
  if (out.bytes == 0 || out.bytes > kMaxArgumentBytes || out.bytes % byteSize(out.dtype) != 0)
    field.at("bytes").misfit("whole elements");
  out.isOutput = field.at("output").boolean();
  if (!out.isOutput)
    out.scale = field.at("scale").number();
  return out;
}

Job readJob(const JsonField &field) {
  Job out;
  out.key = readKey(field.at("key"));
  out.where = field.at("where").text();
  out.launches = field.at("launches").index();
  out.arguments = field.at("arguments").list(readArgument);
  out.products = field.at("products").list([](const JsonField &item) {
    if (item.size() != 3)
      item.misfit("[rows, columns, k]");
    return Product{size(item.at(size_t{0})), size(item.at(size_t{1})), size(item.at(size_t{2}))};
  });
  out.candidates = field.at("candidates").list([](const JsonField &item) {
    return Candidate{item.at("kernel").text(), item.at("entry").text(), readTiles(item.at("tiles"))};
  });
  if (out.candidates.empty())
    field.at("candidates").misfit("at least one");
  return out;
}

} // namespace

double Job::flop() const {
  double sum = 0;
  for (const Product &p : products)
    sum += 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.columns) * static_cast<double>(p.k);
  return sum;
}

std::string writeBundle(const Bundle &bundle) {
  OrderedJson producer = bundle.producer, arch = bundle.arch;
  std::string out = fmt::format("{{\n  \"ditc_tuning_bundle\": {},\n  \"producer\": {},\n  \"arch\": {},\n  \"jobs\": [", kVersion,
                                jsonText(producer), jsonText(arch));
  for (size_t i = 0; i < bundle.jobs.size(); ++i)
    out += (i ? ",\n    " : "\n    ") + jsonText(toJson(bundle.jobs[i]));
  return out + (bundle.jobs.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

Bundle parseBundle(std::string_view text, std::string_view source) {
  Json json = parseJson(text, source);
  JsonField root(json, fmt::format("'{}'", source), kAdvice);
  if (int64_t version = root.at("ditc_tuning_bundle").integer(); version != kVersion)
    fail("'{}' has bundle version {}, this program reads version {}; write the bundle again or update ditc-run", source,
         version, kVersion);
  Bundle out;
  out.producer = root.at("producer").text();
  out.arch = root.at("arch").text();
  out.jobs = root.at("jobs").list(readJob);
  return out;
}

//===-- file ------------------------------------------------------------------------------------------===//

BundleFile::~BundleFile() = default;
BundleFile::BundleFile(BundleFile &&) noexcept = default;

BundleFile BundleFile::open(const std::string &path) {
  BundleFile out;
  out.name = path;
  out.zip = readAs(FileKind::TuningBundle, path, [&] {
    auto zip = std::make_unique<ZipReader>(ZipReader::open(path));
    if (!zip->find("bundle.json"))
      fail("'{}' is no tuning bundle: it has no bundle.json; expected what `ditc compile --tuning-bundle` writes", path);
    return zip;
  });
  auto member = [&](const std::string &name) {
    const ZipEntry *found = out.zip->find(name);
    if (!found || !out.zip->checkCrc(*found))
      fail("'{}': the member '{}' is {}; {}", path, name, found ? "damaged" : "missing", kAdvice);
    return out.zip->text(*found);
  };
  out.content = parseBundle(member("bundle.json"), path + ": bundle.json");
  std::string kernels = out.content.arch + "/kernels.json";
  out.kernelFile = cuda::parseKernelFile(member(kernels), path + ": " + kernels);
  out.check();
  return out;
}

/// Every candidate is a kernel that stays inside of the job's arguments.
void BundleFile::check() const {
  if (kernelFile.arch != content.arch)
    fail("'{}' is for '{}', its kernels for '{}'; {}", name, content.arch, kernelFile.arch, kAdvice);
  for (const char *tool : {kFillKernel, kCompareKernel})
    if (!kernelFile.find(tool))
      fail("'{}' has no kernel '{}'; {}", name, tool, kAdvice);
  for (const Job &job : content.jobs) {
    std::vector<uint64_t> before(job.arguments.size()), room;
    for (const Argument &argument : job.arguments)
      room.push_back(argument.bytes);
    for (const Candidate &candidate : job.candidates) {
      const cuda::KernelImage *kernel = kernelFile.find(candidate.kernel);
      if (!kernel || kernel->args != job.arguments.size())
        fail("'{}': kernel '{}' of {} is missing or has other arguments; {}", name, candidate.kernel, job.key.text(), kAdvice);
      cuda::checkPatches(*kernel, before, room, name);
    }
  }
}

std::string BundleFile::image(const std::string &member) const {
  const ZipEntry *entry = zip->find(member);
  if (!entry || !zip->checkCrc(*entry))
    fail("'{}': the member '{}' is {}; {}", name, member, entry ? "damaged" : "missing", kAdvice);
  return std::string(zip->text(*entry)); // std::string keeps a zero at its end
}

} // namespace ditc::tuning
