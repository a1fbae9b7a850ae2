// SPDX-License-Identifier: Apache-2.0
//
// See HostHarness.h.
#include "HostHarness.h"
#include "Float8Grid.h"

#include "codegen/host/HostTarget.h"
#include "dialects/dit/Dit.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ditc::test {

//===-- Element types -----------------------------------------------------------------------------===//

bool isFloatElement(const std::string &element) { return element[0] == 'f' || element[0] == 'b'; }

int64_t elementSize(const std::string &element) {
  if (element == "i1")
    return 1;
  return std::stol(element.substr(element.find_first_of("0123456789"))) / 8;
}

std::string computeType(const std::string &element) {
  if (isFloatElement(element))
    return element == "f64" ? "f64" : "f32";
  return element == "i1" ? "i1" : "i64";
}

static double roundToFloat(double value, int precision, int smallestExponent, double largest) {
  if (std::isnan(value) || std::isinf(value) || value == 0)
    return value;
  int exponent = std::max(std::ilogb(value), smallestExponent);
  double quantum = std::ldexp(1.0, exponent - (precision - 1));
  double rounded = std::nearbyint(value / quantum) * quantum;
  return std::fabs(rounded) > largest ? std::copysign(kInf, value) : rounded;
}

double roundTo(const std::string &element, double value) {
  if (element == "f64")
    return value;
  if (element == "f32")
    return static_cast<float>(value);
  if (element == "bf16")
    return roundToFloat(static_cast<float>(value), 8, -126, 0x1.fep127);
  if (element == "f16")
    return roundToFloat(static_cast<float>(value), 11, -14, 65504);
  if (element == kFloat8) {
    double rounded = roundToFloat(static_cast<float>(value), 4, -6, 448);
    return std::isinf(rounded) ? std::copysign(kNan, value) : rounded;
  }
  return element == "i1" ? value != 0 : value;
}

/// Bits of a value that the small float type holds exactly: sign, biased exponent, fraction.
static uint16_t smallBits(double value, int fractionBits, int bias) {
  int sign = std::signbit(value) ? 0x8000 : 0, infinity = (2 * bias + 1) << fractionBits;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | infinity | 1 << (fractionBits - 1));
  if (std::isinf(value))
    return static_cast<uint16_t>(sign | infinity);
  double units = std::ldexp(std::fabs(value), bias - 1 + fractionBits); // in units of the smallest subnormal
  if (units < std::ldexp(1.0, fractionBits))
    return static_cast<uint16_t>(sign | static_cast<int>(units));
  int exponent = std::ilogb(value);
  int fraction = static_cast<int>(std::ldexp(std::fabs(value), fractionBits - exponent)) - (1 << fractionBits);
  return static_cast<uint16_t>(sign | (exponent + bias) << fractionBits | fraction);
}

static double fromSmallBits(uint16_t bits, int fractionBits, int bias) {
  double sign = bits & 0x8000 ? -1 : 1;
  int exponent = (bits & 0x7fff) >> fractionBits, fraction = bits & ((1 << fractionBits) - 1);
  if (exponent == 2 * bias + 1)
    return fraction ? kNan : sign * kInf;
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - fractionBits);
  return sign * std::ldexp(fraction + (1 << fractionBits), exponent - bias - fractionBits);
}

template <class T> static T readAs(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <class T> static void writeAs(char *at, double value) {
  T stored = static_cast<T>(value);
  std::memcpy(at, &stored, sizeof(T));
}

//===-- Tensors -----------------------------------------------------------------------------------===//

static constexpr char kPattern = 0x5a;

FencedBytes::FencedBytes(size_t size) : bytes(size) {
  size_t page = sysconf(_SC_PAGESIZE);
  room = (size + page - 1) / page * page;
  void *memory = mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(static_cast<char *>(memory) + room, page, PROT_NONE) != 0)
    abort();
  pages = static_cast<char *>(memory);
}

FencedBytes::FencedBytes(const FencedBytes &other) : FencedBytes(other.bytes) { std::memcpy(data(), other.data(), bytes); }
FencedBytes::~FencedBytes() { munmap(pages, room + sysconf(_SC_PAGESIZE)); }

static Index denseStrides(const Index &shape) {
  Index strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// From the first element to behind the last.
static int64_t span(const Index &shape, const Index &strides) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0)
      return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

Tensor::Tensor(std::string element, Index shape, Index strides)
    : element(element), shape(shape), strides(strides.empty() ? denseStrides(shape) : strides), bytes(span(shape, this->strides) * elementSize(element) + kGuard) {
  clear();
}

void Tensor::clear() { std::memset(bytes.data(), kPattern, bytes.size()); }

int64_t Tensor::count() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

int64_t Tensor::offsetOf(const Index &index) const {
  int64_t offset = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    offset += index[i] * strides[i];
  return kGuard + offset * elementSize(element);
}

void Tensor::forEach(const std::function<void(const Index &)> &visit) const {
  Index index(shape.size(), 0);
  for (int64_t n = count(); n > 0; --n) {
    visit(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

int64_t Tensor::getInteger(const Index &index) const {
  const char *at = bytes.data() + offsetOf(index);
  if (element == "i64")
    return readAs<int64_t>(at);
  if (element == "i32")
    return readAs<int32_t>(at);
  if (element == "i16")
    return readAs<int16_t>(at);
  return element == "i8" ? readAs<int8_t>(at) : readAs<uint8_t>(at);
}

double Tensor::get(const Index &index) const {
  const char *at = bytes.data() + offsetOf(index);
  if (element == "f64")
    return readAs<double>(at);
  if (element == "f32")
    return readAs<float>(at);
  if (element == "f16")
    return fromSmallBits(readAs<uint16_t>(at), 10, 15);
  if (element == "bf16")
    return fromSmallBits(readAs<uint16_t>(at), 7, 127);
  if (element == kFloat8)
    return numberOfFloat8(readAs<uint8_t>(at));
  return static_cast<double>(getInteger(index));
}

void Tensor::set(const Index &index, double value) {
  char *at = bytes.data() + offsetOf(index);
  value = roundTo(element, value);
  if (element == "f64")
    writeAs<double>(at, value);
  else if (element == "f32")
    writeAs<float>(at, value);
  else if (element == "f16" || element == "bf16")
    writeAs<uint16_t>(at, smallBits(value, element == "f16" ? 10 : 7, element == "f16" ? 15 : 127));
  else if (element == kFloat8)
    writeAs<uint8_t>(at, nearestFloat8(static_cast<float>(value)));
  else if (element == "i64")
    writeAs<int64_t>(at, value);
  else if (element == "i32")
    writeAs<int32_t>(at, value);
  else if (element == "i16")
    writeAs<int16_t>(at, value);
  else if (element == "i8")
    writeAs<int8_t>(at, value);
  else
    writeAs<uint8_t>(at, value);
}

Tensor &Tensor::fillWith(const std::function<double(const Index &)> &value) {
  forEach([&](const Index &index) { set(index, value(index)); });
  return *this;
}

Tensor &Tensor::fill(unsigned seed) {
  std::mt19937 random(seed);
  return fillWith([&](const Index &) -> double {
    int number = static_cast<int>(random() >> 8);
    if (isFloatElement(element))
      return (number % 512 - 256) / 64.0;
    if (element == "i1")
      return number & 1;
    return element == "ui8" ? number % 256 : number % 200 - 100;
  });
}

std::string Tensor::type() const {
  std::string text = "memref<", stride;
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  for (int64_t s : strides)
    stride += (stride.empty() ? "" : ", ") + std::to_string(s);
  return text + element + ", strided<[" + stride + "]>>";
}

bool Tensor::gapsAreIntact() const {
  std::vector<bool> used(bytes.size(), false);
  forEach([&](const Index &index) {
    for (int64_t i = 0; i < elementSize(element); ++i)
      used[offsetOf(index) + i] = true;
  });
  for (size_t i = 0; i < bytes.size(); ++i)
    if (!used[i] && bytes.data()[i] != kPattern)
      return false;
  return true;
}

Index clampToShape(const Index &index, const Index &shape) {
  Index result = index;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 1)
      result[i] = 0;
  return result;
}

//===-- Kernels -----------------------------------------------------------------------------------===//

std::string kernelText(const std::string &name, const std::string &family, const std::vector<Tensor *> &args, int outputs, const std::string &config,
                       const std::string &body) {
  std::string types;
  for (Tensor *tensor : args)
    types += (types.empty() ? "" : ", ") + tensor->type();
  return "plan.kernel @" + name + " family \"" + family + "\" args [" + types + "] outputs " + std::to_string(outputs) + " config {" + config + "} " +
         (body.empty() ? "{}" : body) + "\n";
}

std::string mapBody(const std::vector<std::string> &types, const std::string &lines, const std::string &resultType, const std::string &result) {
  std::string arguments;
  for (size_t i = 0; i < types.size(); ++i)
    arguments += (i ? ", %a" : "%a") + std::to_string(i) + ": " + types[i];
  return "{\n^bb0(" + arguments + "):\n" + lines + "\n  dit.yield " + result + " : " + resultType + "\n}";
}

struct HostModule::State {
  mlir::MLIRContext context;
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  HostObject object;
  void *handle = nullptr;

  mlir::ScopedDiagnosticHandler collect() {
    return mlir::ScopedDiagnosticHandler(&context, [this](mlir::Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; });
  }

  void load() {
    int file = memfd_create("kernels", 0);
    ssize_t written = write(file, object.sharedObject.data(), object.sharedObject.size());
    if (written == static_cast<ssize_t>(object.sharedObject.size()))
      handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      messages += dlerror();
    close(file);
  }
};

/// DITC_TEST_CPU runs every test that names no CPU for another one.
static HostOptions withTestCpu(HostOptions options) {
  if (const char *cpu = std::getenv("DITC_TEST_CPU"); cpu && options.cpu.empty())
    options.cpu = cpu;
  return options;
}

HostModule::HostModule(const std::string &text, const HostOptions &options) : state(std::make_unique<State>()) {
  state->context.loadDialect<dit::DitDialect, plan::PlanDialect, mlir::arith::ArithDialect, mlir::math::MathDialect>();
  auto handler = state->collect();
  state->module = mlir::parseSourceString<mlir::ModuleOp>(text, &state->context);
  if (!state->module)
    return;
  mlir::FailureOr<HostObject> result = emitHost(*state->module, withTestCpu(options));
  if (failed(result))
    return;
  state->object = std::move(*result);
  state->load();
}

HostModule::~HostModule() {
  if (state->handle)
    dlclose(state->handle);
}

bool HostModule::isLoaded() const { return state->handle != nullptr; }
const std::string &HostModule::diagnostics() const { return state->messages; }
const HostObject &HostModule::object() const { return state->object; }

std::string HostModule::printKernel(const std::string &name, const HostOptions &options) {
  auto handler = state->collect();
  mlir::FailureOr<std::string> text = printHostKernel(state->module->lookupSymbol<plan::KernelOp>(name), options);
  return succeeded(text) ? *text : "";
}

void HostModule::call(const std::string &name, const std::vector<Tensor *> &args) {
  auto kernel = reinterpret_cast<void (*)(char *const *)>(dlsym(state->handle, name.c_str()));
  ASSERT_NE(kernel, nullptr) << name;
  std::vector<char *> pointers;
  for (Tensor *tensor : args)
    pointers.push_back(tensor->data());
  kernel(pointers.data());
}

void runKernel(const std::string &family, const std::vector<Tensor *> &args, int outputs, const std::string &config, const std::string &body,
               const HostOptions &options) {
  std::string text = kernelText("k", family, args, outputs, config, body);
  HostModule module(text, options);
  ASSERT_TRUE(module.isLoaded()) << module.diagnostics() << text;
  module.call("k", args);
  for (size_t i = args.size() - outputs; i < args.size(); ++i)
    EXPECT_TRUE(args[i]->gapsAreIntact()) << text;
}

Tensor &KernelBatch::tensor(const std::string &element, const Index &shape, const Index &strides) {
  tensors.push_back(std::make_unique<Tensor>(element, shape, strides));
  return *tensors.back();
}

void KernelBatch::add(const std::string &family, const std::vector<Tensor *> &args, int outputs, const std::string &config, const std::string &body,
                      std::function<void()> check) {
  entries.push_back({family, config, body, args, outputs, std::move(check)});
}

void KernelBatch::runAndCheck(HostModule &module, const Entry &entry, const std::string &name) {
  SCOPED_TRACE(kernelText(name, entry.family, entry.args, entry.outputs, entry.config, entry.body));
  module.call(name, entry.args);
  for (size_t i = entry.args.size() - entry.outputs; i < entry.args.size(); ++i)
    EXPECT_TRUE(entry.args[i]->gapsAreIntact());
  entry.check();
}

void KernelBatch::run(const HostOptions &options) {
  std::string text;
  auto textOf = [&](size_t i) {
    const Entry &e = entries[i];
    return kernelText("k" + std::to_string(i), e.family, e.args, e.outputs, e.config, e.body);
  };
  for (size_t i = 0; i < entries.size(); ++i)
    text += textOf(i);
  HostModule together(text, options);
  ASSERT_TRUE(together.isLoaded()) << together.diagnostics();
  for (size_t i = 0; i < entries.size(); ++i)
    runAndCheck(together, entries[i], "k" + std::to_string(i));
  for (size_t i = 0; i < entries.size(); i += 9) {
    HostModule alone(textOf(i), options);
    ASSERT_TRUE(alone.isLoaded()) << alone.diagnostics();
    for (Tensor *output : llvm::ArrayRef(entries[i].args).take_back(entries[i].outputs))
      output->clear();
    runAndCheck(alone, entries[i], "k" + std::to_string(i));
  }
}

void expectElements(const Tensor &actual, const std::function<double(const Index &)> &expected, double tolerance) {
  int mismatches = 0;
  actual.forEach([&](const Index &index) {
    double want = roundTo(actual.element, expected(index)), got = actual.get(index);
    bool same = std::isnan(want) ? std::isnan(got) : want == got;
    if (!same && tolerance > 0 && std::isfinite(want))
      same = std::fabs(want - got) <= tolerance * std::max(1.0, std::fabs(want));
    if (same || ++mismatches > 5)
      return;
    std::string place;
    for (int64_t i : index)
      place += " " + std::to_string(i);
    ADD_FAILURE() << actual.type() << " at" << place << ": " << got << ", expected " << want;
  });
  EXPECT_LE(mismatches, 0) << actual.type();
}

} // namespace ditc::test
