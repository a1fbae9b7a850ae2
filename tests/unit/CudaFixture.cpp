// SPDX-License-Identifier: Apache-2.0
#include "CudaFixture.h"

#include "codegen/cuda/Nvrtc.h"
#include "fakes.h"

#include <algorithm>

namespace ditc::test {
namespace {

/// The kernels of runtime_kernels.c.
constexpr const char *kTranspose = R"(
extern "C" __global__ void transpose(const float *w, float *out) {
  for (int i = threadIdx.x; i < 12; i += blockDim.x)
    out[i % 3 * 4 + i / 3] = w[i];
})";

constexpr const char *kBiasRelu = R"(
extern "C" __global__ void bias_relu_ROWS(const float *h, const float *b, const float *table, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = i % 4;
  float value = h[i] + b[n];
  y[i] = (value > 0 ? value : 0) + table[n];
})";

std::string biasRelu(int64_t rows) {
  std::string text = kBiasRelu;
  return text.replace(text.find("ROWS"), 4, std::to_string(rows));
}

cuda::KernelParameter pointer(uint32_t arg) { return {std::vector<uint8_t>(8), {{0, cuda::PointerPatch{arg, 0}}}}; }

cuda::KernelImage kernelOf(const std::string &name, const std::string &arch, uint32_t args, uint32_t blocks,
                           uint32_t threads) {
  cuda::KernelImage kernel{name, arch + "/" + name + ".cubin", {{blocks, 1, 1}, threads, 0, 1, 0, true}, {}, args};
  for (uint32_t i = 0; i < args; ++i)
    kernel.parameters.push_back(pointer(i));
  return kernel;
}

} // namespace

void writeCudaPackage(const std::string &path, const CudaPackageChange &change) {
  PackageWriter writer(path);
  Manifest manifest;
  manifest.producer = "ditc test";
  manifest.modelName = "affine";
  manifest.targets = {{change.arch, change.arch + "/kernels.json", "", ""}};
  manifest.inputs = {{.name = "x", .graphName = "", .dtype = DType::f32, .shape = {std::string("rows"), kIn}}};
  manifest.outputs = {{.name = "y", .graphName = "", .dtype = DType::f32, .shape = {std::string("rows"), kOut}}};
  cuda::KernelFile file{change.arch, 12000, {}};
  file.kernels = {kernelOf("transpose", change.arch, 2, 1, 8), kernelOf("bias_relu_2", change.arch, 4, 2, 4),
                  kernelOf("bias_relu_4", change.arch, 4, 2, 8)};
  for (const auto &[name, text] : {std::pair<std::string, std::string>("transpose", kTranspose),
                                   {"bias_relu_2", biasRelu(2)}, {"bias_relu_4", biasRelu(4)}})
    writer.add(change.arch + "/" + name + ".cubin", Nvrtc::get().compile({name + ".cu", text, {}, change.arch, {}}).image);
  change.kernels(file);
  writer.add(change.arch + "/kernels.json", cuda::writeKernelFile(file));
  ManifestWeight w{DType::f32, {kOut, kIn}, "", "", 0, 0, {}, ""};
  if (change.weights == WeightPlace::Entry) {
    w.entry = "weights/w";
    writer.add(w.entry, bytesOf(weightW()));
  }
  manifest.weights["w"] = w;
  manifest.weights["b"] = {DType::f32, {kOut}, "weights/b", "", 0, 0, {}, ""};
  writer.add("weights/b", bytesOf(weightB()));
  std::string tableMember = writer.addConstant(bytesOf(change.table));
  for (auto [name, rows] : {std::pair("two", 2), std::pair("four", 4)}) {
    Plan plan = testPlan(rows, tableMember, change.table.size() * sizeof(float));
    change.plan(plan);
    manifest.buckets.push_back({name, {{"rows", rows}}, {{change.arch, writer.addPlan(name, change.arch, plan)}}});
  }
  writer.finish(manifest);
}

//===-- device memory ---------------------------------------------------------------------------------===//

DeviceBuffer::DeviceBuffer(uint64_t bytes) {
  const cuda::Driver &driver = cuda::Driver::get();
  cuda::Context context = nullptr;
  driver.check(driver.devicePrimaryCtxRetain(&context, 0), "context");
  driver.check(driver.ctxSetCurrent(context), "context");
  driver.check(driver.memAlloc(&address, bytes), "allocating");
}

DeviceBuffer::DeviceBuffer(const std::vector<float> &values) : DeviceBuffer(values.size() * 4) { write(values); }

DeviceBuffer::~DeviceBuffer() {
  cuda::Driver::get().memFree(address);
  cuda::Driver::get().devicePrimaryCtxRelease(0);
}

void DeviceBuffer::write(const std::vector<float> &values) {
  const cuda::Driver &driver = cuda::Driver::get();
  driver.check(driver.memcpyHtoDAsync(address, values.data(), values.size() * 4, nullptr), "copying");
  driver.check(driver.streamSynchronize(nullptr), "waiting");
}

std::vector<float> DeviceBuffer::read(size_t count) const {
  const cuda::Driver &driver = cuda::Driver::get();
  std::vector<float> values(count);
  driver.check(driver.memcpyDtoHAsync(values.data(), address, count * 4, nullptr), "copying");
  driver.check(driver.streamSynchronize(nullptr), "waiting");
  return values;
}

//===-- runs ------------------------------------------------------------------------------------------===//

std::vector<float> CudaTest::run(Context &context, int64_t rows, bool poison) {
  std::vector<float> x = inputX(rows), y(static_cast<size_t>(rows * kOut));
  TensorRef in = tensor("x", x, {rows, kIn}), out = tensor("y", y, {rows, kOut});
  context.run({"", {&in, 1}, {&out, 1}, false, poison, nullptr});
  return y;
}

void CudaTest::runOn(Context &context, const DeviceBuffer &x, const DeviceBuffer &y, int64_t rows) {
  TensorRef in = x.tensor("x", {rows, kIn}), out = y.tensor("y", {rows, kOut});
  context.run({"", {&in, 1}, {&out, 1}, false, false, kDefaultStream});
}

} // namespace ditc::test

int main(int argc, char **argv) {
  fakes::use();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
