// SPDX-License-Identifier: Apache-2.0
//
// ditc doctor: what this machine has of all that compiling and running want, and what to install. Most people compile on
// one machine and run on another, so nothing that is absent is an error here.
#include "tools/ditc/Commands.h"

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/Nvrtc.h"
#include "codegen/host/Machine.h"
#include "codegen/host/SharedObject.h"
#include "compiler/Version.h"
#include "runtime/Blas.h"
#include "runtime/Cache.h"
#include "runtime/Error.h"
#include "runtime/HostDevice.h"
#include "runtime/JsonText.h"
#include "runtime/cuda/CublasLt.h"
#include "runtime/cuda/CudaMemory.h"
#include "runtime/cuda/Target.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

namespace ditc::cli {

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char *kDoctorHelp = R"(Says what this machine has for compiling and running, what is missing, and what to install.

To compile for the host: the linker. To compile for CUDA: NVRTC; no GPU is needed. To run on the host: a BLAS.
To run on a GPU: the CUDA driver, and cuBLASLt where the package leaves products to it.)";

/// What was found out about one part.
struct Finding {
  std::string part;
  std::string state; ///< "ok", "missing", or "-" for what cannot be told or is not needed here
  std::string text;  ///< for people: one sentence, with the remedy when something is missing
  Json details = Json::object();
};

/// Runs `look`; an Error becomes a finding that says what is missing.
template <typename Look>
Finding finding(const std::string &part, Look look) {
  Finding found{part, "ok", ""};
  try {
    look(found);
  } catch (const Error &error) {
    found.state = "missing";
    found.text = error.what();
  }
  return found;
}

std::string versionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void lookAtProcessor(Finding &found) {
  utsname machine{};
  uname(&machine);
  std::string architecture = machine.machine, level = architecture;
  for (const char *candidate : {"x86-64-v2", "x86-64-v3", "x86-64-v4"})
    if (architecture == "x86_64" && missingForTarget({.name = "host", .object = "", .triple = "", .cpu = candidate}).empty())
      level = candidate;
  auto native = resolveMachine("native"), standard = resolveMachine("");
  if (!native || !standard)
    throw Error(ErrorKind::Input, llvm::toString(joinErrors(native.takeError(), standard.takeError())));
  std::string lacks = missingForTarget({.name = "host", .object = "", .triple = standard->triple, .cpu = standard->cpu});
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  found.details = {{"level", level}, {"cpu", native->cpu}, {"threads", threads}, {"default_target", standard->cpu}};
  found.state = lacks.empty() ? "ok" : "missing";
  found.text = fmt::format("{} ({}), {} threads; {}", level, native->cpu, threads,
                           lacks.empty() ? fmt::format("runs packages for the default, {}", standard->cpu)
                                         : fmt::format("packages for the default, {}, need {}; compile with --host-cpu native", standard->cpu, lacks));
}

void lookForLinker(Finding &found) {
  llvm::Expected<std::string> linker = findLinker("");
  if (!linker)
    throw Error(ErrorKind::Input, llvm::toString(linker.takeError()));
  found.text = *linker;
  found.details = {{"path", *linker}};
}

void lookForNvrtc(Finding &found) {
  const Nvrtc &nvrtc = Nvrtc::get();
  std::vector<int> numbers = nvrtc.architectures();
  std::vector<std::string> targets;
  for (const std::string &name : cudaArchNames())
    if (std::find(numbers.begin(), numbers.end(), parseCudaArch(name)->number) != numbers.end())
      targets.push_back(name);
  std::string version = fmt::format("{}.{}", nvrtc.version().first, nvrtc.version().second);
  found.details = {{"path", nvrtc.path()}, {"version", version}, {"architectures", numbers}, {"targets", targets}};
  found.text = fmt::format("{}, {}; compiles for {}", version, nvrtc.path(), fmt::join(targets, ", "));
}

/// The GPU, and the best of ditc's targets for it.
Json describeGpu(int ordinal) {
  const cuda::Driver &driver = cuda::Driver::get();
  cuda::Device device = 0;
  char name[128] = "";
  size_t bytes = 0;
  cuda::ComputeCapability capability;
  driver.check(driver.deviceGet(&device, ordinal), "opening the GPU");
  driver.check(driver.deviceGetName(name, sizeof name, device), "asking for the GPU's name");
  driver.check(driver.deviceTotalMem(&bytes, device), "asking for the GPU's memory");
  driver.check(driver.deviceGetAttribute(&capability.major, cuda::DeviceAttribute::ComputeCapabilityMajor, device), "asking for the compute capability");
  driver.check(driver.deviceGetAttribute(&capability.minor, cuda::DeviceAttribute::ComputeCapabilityMinor, device), "asking for the compute capability");
  Json gpu = {{"ordinal", ordinal}, {"name", name}, {"compute_capability", capability.text()}, {"bytes", bytes}, {"target", nullptr}};
  if (std::string_view target = cuda::targetFor(capability); !target.empty()) // not older than anything that ditc compiles for
    gpu["target"] = target;
  return gpu;
}

void lookForDriver(Finding &found) {
  const cuda::Driver &driver = cuda::Driver::get();
  found.text = fmt::format("supports CUDA {}", versionText(driver.version()));
  found.details = {{"cuda", versionText(driver.version())}};
}

void lookForGpus(Finding &found) {
  if (!cuda::Driver::available()) {
    found.state = "-";
    found.text = "none without the driver";
    return;
  }
  const cuda::Driver &driver = cuda::Driver::get();
  int count = 0;
  driver.check(driver.deviceGetCount(&count), "counting GPUs");
  if (count == 0)
    fail("the driver shows no GPU (CUDA_VISIBLE_DEVICES hides some)");
  std::vector<std::string> lines;
  Json gpus = Json::array();
  for (int i = 0; i < count; ++i) {
    Json gpu = describeGpu(i);
    std::string target = gpu["target"].is_null() ? "which ditc has no target for" : fmt::format("--target {}", gpu["target"].get<std::string>());
    lines.push_back(fmt::format("cuda:{}: {}, compute capability {}, {:.1f} GiB, {}", i, gpu["name"].get<std::string>(), gpu["compute_capability"].get<std::string>(),
                                gpu["bytes"].get<double>() / (1 << 30), target));
    gpus.push_back(std::move(gpu));
  }
  found.text = fmt::format("{}", fmt::join(lines, "\n"));
  found.details = {{"list", std::move(gpus)}};
}

void lookForCublasLt(Finding &found) {
  int count = 0;
  if (!cuda::Driver::available() || cuda::Driver::get().deviceGetCount(&count) != cuda::kSuccess || count == 0) {
    found.state = "-";
    found.text = "only looked for where there is a GPU";
    return;
  }
  CudaContext context(0);
  CudaContext::Current current(context);
  found.text = cuda::CublasLt::load()->library();
  found.details = {{"path", found.text}};
}

void lookAtCache(Finding &found) {
  Cache cache;
  if (cache.folder().empty())
    fail("no folder: set DITC_CACHE_DIR or HOME; until then nothing is kept");
  fs::path existing = fs::absolute(cache.folder());
  std::error_code ignored;
  while (!fs::exists(existing, ignored) && existing.has_relative_path())
    existing = existing.parent_path();
  bool writable = fs::is_directory(existing, ignored) && access(existing.c_str(), W_OK | X_OK) == 0;
  uint64_t bytes = 0;
  size_t entries = 0;
  for (const CacheEntry &entry : cache.list())
    bytes += entry.bytes, ++entries;
  found.state = writable ? "ok" : "missing";
  found.text = fmt::format("'{}': {} entries, {:.1f} of {:.1f} MiB{}", cache.folder(), entries, static_cast<double>(bytes) / (1 << 20), static_cast<double>(cache.maxBytes()) / (1 << 20),
                           writable ? "" : "; it cannot be written, so nothing is kept: set DITC_CACHE_DIR to another folder");
  found.details = {{"path", cache.folder()}, {"entries", entries}, {"bytes", bytes}, {"max_bytes", cache.maxBytes()}, {"writable", writable}};
}

std::vector<Finding> examine() {
  return {finding("processor", lookAtProcessor),
          finding("linker", lookForLinker),
          finding("blas", [](Finding &found) { found.text = Blas::load(0)->library(), found.details = {{"path", found.text}}; }),
          finding("nvrtc", lookForNvrtc),
          finding("driver", lookForDriver),
          finding("gpus", lookForGpus),
          finding("cublaslt", lookForCublasLt),
          finding("cache", lookAtCache)};
}

void print(const std::vector<Finding> &findings) {
  fmt::print("{:<8} {:<10} {}\n", "", "ditc", kVersion);
  for (const Finding &found : findings) {
    // Messages of libraries end in all the places that were tried, which JSON has.
    std::string text = found.text.substr(0, found.state == "missing" ? found.text.find("; tried") : std::string::npos);
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 21)
      text.replace(at, 1, "\n" + std::string(20, ' '));
    fmt::print("{:<8} {:<10} {}\n", found.state, found.part, text);
  }
}

} // namespace

void addDoctor(CLI::App &app, std::function<int()> &action) {
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("doctor", kDoctorHelp);
  command->add_flag("--json", *json, "print JSON");
  command->callback([json, &action] {
    action = [json] {
      std::vector<Finding> findings = examine();
      if (!*json) {
        print(findings);
        return 0;
      }
      Json out = {{"version", kVersion}};
      for (Finding &found : findings) {
        out[found.part] = {{"state", found.state}, {"text", found.text}};
        out[found.part].update(found.details);
      }
      fmt::print("{}\n", jsonText(out, 1));
      return 0;
    };
  });
}

} // namespace ditc::cli
