// SPDX-License-Identifier: Apache-2.0
//
// The C boundary: exceptions become status codes and a text per thread, C structs become the session's.
#include "runtime/include/ditc.h"

#include "runtime/Error.h"
#include "runtime/Session.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

using namespace ditc;

static_assert(static_cast<int>(DType::f64) == DITC_F64 && static_cast<int>(DType::f32) == DITC_F32 &&
              static_cast<int>(DType::bf16) == DITC_BF16 && static_cast<int>(DType::i64) == DITC_I64 &&
              static_cast<int>(DType::u8) == DITC_U8 && static_cast<int>(DType::u64) == DITC_U64 &&
              static_cast<int>(DType::b1) == DITC_BOOL && static_cast<int>(DType::c128) == DITC_C128 &&
              static_cast<int>(DType::f8e5m2) == DITC_F8_E5M2);

/// What to do with shapes that no bucket has. Set before runs, read by them.
struct BucketPolicy {
  std::mutex mutex;
  bool pad = false;
  ditc_fallback fallback = nullptr; ///< null: an error
  void *user = nullptr;
};

struct ditc_package {
  std::shared_ptr<Session> session;
  std::shared_ptr<BucketPolicy> policy = std::make_shared<BucketPolicy>();
  std::vector<std::pair<std::string, const ManifestWeight *>> weights; ///< sorted, for access by index
};

struct ditc_context {
  explicit ditc_context(const ditc_package &package)
      : session(package.session), policy(package.policy), context(package.session) {}
  std::shared_ptr<Session> session;
  std::shared_ptr<BucketPolicy> policy;
  Context context;
};

namespace {

constexpr const char *kVersion = "0.1.0";

std::string &lastError() {
  thread_local std::string text;
  return text;
}

ditc_status report(ditc_status status, const char *text) {
  try {
    lastError() = text;
  } catch (...) { // no memory for the text: the status must do
  }
  return status;
}

/// Runs `body` and turns what it throws into a status.
template <typename Body> ditc_status guarded(Body body) {
  try {
    body();
    return DITC_OK;
  } catch (const Error &error) {
    return report(static_cast<ditc_status>(error.kind()), error.what());
  } catch (const std::bad_alloc &) {
    return report(DITC_ERROR_INPUT, "out of memory; free memory or use a smaller bucket");
  } catch (const std::exception &error) {
    return report(DITC_ERROR_INTERNAL, error.what());
  } catch (...) {
    return report(DITC_ERROR_INTERNAL, "unknown exception");
  }
}

template <typename... Args> [[noreturn]] void misuse(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(ErrorKind::Usage, fmt::format(format, std::forward<Args>(args)...));
}

template <typename T> void need(const T *pointer, const char *function, const char *argument) {
  if (!pointer)
    misuse("{}: argument '{}' is null", function, argument);
}

bool isDType(int value) { return value >= DITC_F64 && value <= DITC_F8_E5M2; }

std::vector<TensorRef> convert(const ditc_tensor *tensors, size_t count, const char *function, const char *argument) {
  if (count > 0)
    need(tensors, function, argument);
  std::vector<TensorRef> out;
  for (size_t i = 0; i < count; ++i) {
    const ditc_tensor &from = tensors[i];
    if (!from.name || !isDType(from.dtype) || from.ndim < 0 || from.ndim > 64 || (from.ndim > 0 && !from.shape))
      misuse("{}: {}[{}] needs a name, a ditc_dtype, 0 to 64 dimensions and their sizes", function, argument, i);
    if (from.device != DITC_HOST && from.device != DITC_CUDA)
      misuse("{}: {}[{}] ('{}') is on device {}; this runtime takes memory of the host and of CUDA GPUs", function,
             argument, i, from.name, static_cast<int>(from.device));
    TensorRef &to = out.emplace_back();
    to.name = from.name;
    to.dtype = static_cast<DType>(from.dtype);
    if (from.ndim > 0)
      to.shape.assign(from.shape, from.shape + from.ndim);
    if (from.strides)
      to.strides.assign(from.strides, from.strides + from.ndim);
    to.data = from.data;
    to.onDevice = from.device == DITC_CUDA;
  }
  return out;
}

const Plan &planOf(const ditc_package &package, const char *bucket) {
  const PlanMap &plans = package.session->plans();
  const Manifest &manifest = package.session->package().manifest();
  if (!bucket && plans.size() > 1)
    misuse("a bucket must be named, since the package has several: {}", manifest.bucketList());
  auto found = bucket ? plans.find(bucket) : plans.begin();
  if (found == plans.end())
    fail("'{}' has no bucket '{}'; it has {}", package.session->package().path(), bucket, manifest.bucketList());
  return found->second;
}

ditc_status portInfo(const ditc_package *package, const char *bucket, size_t index, ditc_tensor_info *out,
                     const char *function, std::vector<PortDesc> Plan::*ports) {
  return guarded([&] {
    need(package, function, "package");
    need(out, function, "out");
    const std::vector<PortDesc> &list = planOf(*package, bucket).*ports;
    if (index >= list.size())
      misuse("{}: index {} of {}", function, index, list.size());
    const PortDesc &port = list[index];
    *out = {port.name.c_str(), static_cast<ditc_dtype>(port.dtype), static_cast<int32_t>(port.shape.size()),
            port.shape.data()};
  });
}

/// By the package's policy.
BucketChoice choiceOf(const ditc_package &package, const char *bucket, std::span<const TensorRef> inputs) {
  std::lock_guard lock(package.policy->mutex);
  return chooseBucket(package.session->package(), package.session->plans(), bucket ? bucket : "", inputs,
                      package.policy->pad ? Padding::Allowed : Padding::No);
}

/// The fields that the caller's version of the struct has.
SessionOptions convert(const ditc_options *callers) {
  SessionOptions out;
  if (!callers)
    return out;
  // Programs that were compiled with an older header have a shorter struct.
  constexpr size_t kFirstVersion = offsetof(ditc_options, memory_budget);
  if (callers->size < kFirstVersion || callers->size > sizeof(ditc_options))
    misuse("ditc_open: options.size is {}, expected {} to {}; initialise options with DITC_OPTIONS_INIT of this version",
           callers->size, kFirstVersion, sizeof(ditc_options));
  ditc_options options = {};
  std::memcpy(&options, callers, callers->size);
  if (options.device)
    out.device = options.device;
  out.threads = options.threads;
  out.verifyWeights = !options.skip_weight_check;
  out.memoryBudget = options.memory_budget;
  out.graphs = !options.no_graphs;
  out.jit = !options.no_jit;
  if (options.weight_file_count > 0)
    need(options.weight_files, "ditc_open", "options.weight_files");
  for (size_t i = 0; i < options.weight_file_count; ++i) {
    need(options.weight_files[i], "ditc_open", "options.weight_files[i]");
    out.weightFiles.push_back(options.weight_files[i]);
  }
  return out;
}

} // namespace

const char *ditc_version(void) { return kVersion; }
const char *ditc_last_error(void) { return lastError().c_str(); }

const char *ditc_dtype_name(ditc_dtype dtype) {
  return isDType(dtype) ? nameOf(static_cast<DType>(dtype)).data() : nullptr;
}

size_t ditc_dtype_size(ditc_dtype dtype) { return isDType(dtype) ? byteSize(static_cast<DType>(dtype)) : 0; }

ditc_status ditc_open(const char *path, const ditc_options *options, ditc_package **out) {
  return guarded([&] {
    need(path, "ditc_open", "path");
    need(out, "ditc_open", "out");
    auto package = std::make_unique<ditc_package>();
    package->session = Session::open(path, convert(options));
    for (const auto &[name, weight] : package->session->package().manifest().weights)
      package->weights.emplace_back(name, &weight);
    *out = package.release();
  });
}

void ditc_close(ditc_package *package) { delete package; }

size_t ditc_bucket_count(const ditc_package *package) {
  return package ? package->session->package().manifest().buckets.size() : 0;
}

const char *ditc_bucket_name(const ditc_package *package, size_t index) {
  return index < ditc_bucket_count(package) ? package->session->package().manifest().buckets[index].name.c_str()
                                            : nullptr;
}

size_t ditc_input_count(const ditc_package *package) {
  return package ? package->session->package().manifest().inputs.size() : 0;
}

size_t ditc_output_count(const ditc_package *package) {
  return package ? package->session->package().manifest().outputs.size() : 0;
}

ditc_status ditc_input_info(const ditc_package *package, const char *bucket, size_t index, ditc_tensor_info *out) {
  return portInfo(package, bucket, index, out, "ditc_input_info", &Plan::inputs);
}

ditc_status ditc_output_info(const ditc_package *package, const char *bucket, size_t index, ditc_tensor_info *out) {
  return portInfo(package, bucket, index, out, "ditc_output_info", &Plan::outputs);
}

size_t ditc_weight_count(const ditc_package *package) { return package ? package->weights.size() : 0; }

ditc_status ditc_weight_info(const ditc_package *package, size_t index, ditc_tensor_info *out) {
  return guarded([&] {
    need(package, "ditc_weight_info", "package");
    need(out, "ditc_weight_info", "out");
    if (index >= package->weights.size())
      misuse("ditc_weight_info: index {} of {}", index, package->weights.size());
    const auto &[name, weight] = package->weights[index];
    *out = {name.c_str(), static_cast<ditc_dtype>(weight->dtype), static_cast<int32_t>(weight->shape.size()),
            weight->shape.data()};
  });
}

int ditc_weight_is_missing(const ditc_package *package, const char *name) {
  if (!package || !name || !package->session->package().manifest().weights.contains(name))
    return -1;
  int missing = -1;
  guarded([&] {
    std::vector<std::string> names = package->session->missingWeights();
    missing = std::binary_search(names.begin(), names.end(), name);
  });
  return missing;
}

ditc_status ditc_set_weights(ditc_package *package, const ditc_tensor *weights, size_t count, int borrow) {
  return guarded([&] {
    need(package, "ditc_set_weights", "package");
    std::vector<TensorRef> tensors = convert(weights, count, "ditc_set_weights", "weights");
    package->session->setWeights(tensors, borrow ? Ownership::Borrow : Ownership::Copy);
  });
}

ditc_status ditc_update_weights(ditc_package *package, const ditc_tensor *weights, size_t count) {
  return guarded([&] {
    need(package, "ditc_update_weights", "package");
    std::vector<TensorRef> tensors = convert(weights, count, "ditc_update_weights", "weights");
    package->session->updateWeights(tensors);
  });
}

ditc_status ditc_revert_weights(ditc_package *package) {
  return guarded([&] {
    need(package, "ditc_revert_weights", "package");
    package->session->revertWeights();
  });
}

ditc_status ditc_memory(const ditc_package *package, ditc_memory_info *out) {
  return guarded([&] {
    need(package, "ditc_memory", "package");
    need(out, "ditc_memory", "out");
    if (out->size != sizeof(ditc_memory_info))
      misuse("ditc_memory: out->size is {}, expected {}; set it to sizeof(ditc_memory_info)", out->size,
             sizeof(ditc_memory_info));
    SessionMemory memory = package->session->memory();
    *out = {sizeof(ditc_memory_info), memory.weights, memory.prepared, memory.context};
  });
}

ditc_status ditc_set_bucket_policy(ditc_package *package, ditc_bucket_policy policy, ditc_fallback fallback, void *user) {
  return guarded([&] {
    need(package, "ditc_set_bucket_policy", "package");
    if (policy < DITC_BUCKET_EXACT || policy > DITC_BUCKET_FALLBACK)
      misuse("ditc_set_bucket_policy: {} is no policy", static_cast<int>(policy));
    if (policy == DITC_BUCKET_NEAREST)
      needPadding(package->session->package());
    if (policy == DITC_BUCKET_FALLBACK && !fallback)
      misuse("ditc_set_bucket_policy: the fallback policy needs a callback");
    std::lock_guard lock(package->policy->mutex);
    package->policy->pad = policy == DITC_BUCKET_NEAREST;
    package->policy->fallback = policy == DITC_BUCKET_FALLBACK ? fallback : nullptr;
    package->policy->user = user;
  });
}

ditc_status ditc_prepare(ditc_package *package, const char *bucket) {
  return guarded([&] {
    need(package, "ditc_prepare", "package");
    for (const auto &[name, plan] : package->session->plans())
      if (!bucket)
        package->session->bind(name);
    if (bucket)
      package->session->bind(bucket);
  });
}

ditc_status ditc_choose_bucket(const ditc_package *package, const ditc_tensor *inputs, size_t count,
                               const char **out) {
  return guarded([&] {
    need(package, "ditc_choose_bucket", "package");
    need(out, "ditc_choose_bucket", "out");
    std::vector<TensorRef> tensors = convert(inputs, count, "ditc_choose_bucket", "inputs");
    BucketChoice choice = choiceOf(*package, nullptr, tensors);
    *out = package->session->package().manifest().findBucket(choice.bucket)->name.c_str();
  });
}

ditc_status ditc_output_shape(const ditc_package *package, const char *bucket, const ditc_tensor *inputs, size_t count,
                              size_t index, int64_t *shape) {
  return guarded([&] {
    need(package, "ditc_output_shape", "package");
    need(shape, "ditc_output_shape", "shape");
    std::vector<TensorRef> tensors = convert(inputs, count, "ditc_output_shape", "inputs");
    BucketChoice choice = choiceOf(*package, bucket, tensors);
    const Session &session = *package->session;
    std::vector<PortDesc> ports =
        outputPorts(session.package().manifest(), session.plans().at(choice.bucket), choice.sizes);
    if (index >= ports.size())
      misuse("ditc_output_shape: index {} of {}", index, ports.size());
    std::copy(ports[index].shape.begin(), ports[index].shape.end(), shape);
  });
}

ditc_status ditc_context_create(ditc_package *package, ditc_context **out) {
  return guarded([&] {
    need(package, "ditc_context_create", "package");
    need(out, "ditc_context_create", "out");
    *out = new ditc_context(*package);
  });
}

void ditc_context_destroy(ditc_context *context) { delete context; }

namespace {

/// One call of ditc_run or ditc_run_on.
struct RunCall {
  const char *function;
  ditc_context *context;
  const char *bucket;
  const ditc_tensor *inputs;
  size_t inputCount;
  const ditc_tensor *outputs;
  size_t outputCount;
  void *stream; ///< null: wait
};

/// Runs the call in the package; false when its shapes are for the fallback.
bool runInPackage(const RunCall &call, bool pad, bool mayFallBack) {
  need(call.context, call.function, "context");
  std::vector<TensorRef> in = convert(call.inputs, call.inputCount, call.function, "inputs");
  std::vector<TensorRef> out = convert(call.outputs, call.outputCount, call.function, "outputs");
  const Session &session = *call.context->session;
  if (mayFallBack && !call.bucket && !fitsSomeBucket(session.package(), session.plans(), in))
    return false;
  RunRequest request;
  request.bucket = call.bucket ? call.bucket : "";
  request.inputs = in;
  request.outputs = out;
  request.pad = pad;
  request.stream = call.stream;
  call.context->context.run(request);
  return true;
}

ditc_status runCall(const RunCall &call, void *callersStream) {
  ditc_fallback fallback = nullptr;
  void *user = nullptr;
  bool pad = false;
  if (call.context) {
    std::lock_guard lock(call.context->policy->mutex);
    fallback = call.context->policy->fallback;
    user = call.context->policy->user;
    pad = call.context->policy->pad;
  }
  bool ran = false;
  ditc_status status = guarded([&] { ran = runInPackage(call, pad, fallback != nullptr); });
  if (status != DITC_OK || ran)
    return status;
  status = fallback(user, call.inputs, call.inputCount, call.outputs, call.outputCount, callersStream);
  if (status != DITC_OK)
    guarded([&] { lastError() = fmt::format("{}: no bucket has these inputs, and the fallback returned status {}", call.function, static_cast<int>(status)); });
  return status;
}

} // namespace

ditc_status ditc_run(ditc_context *context, const char *bucket, const ditc_tensor *inputs, size_t input_count,
                     const ditc_tensor *outputs, size_t output_count) {
  return runCall({"ditc_run", context, bucket, inputs, input_count, outputs, output_count, nullptr}, nullptr);
}

ditc_status ditc_run_on(ditc_context *context, const char *bucket, const ditc_tensor *inputs, size_t input_count,
                        const ditc_tensor *outputs, size_t output_count, void *stream) {
  return runCall({"ditc_run_on", context, bucket, inputs, input_count, outputs, output_count,
                  stream ? stream : kDefaultStream},
                 stream);
}
