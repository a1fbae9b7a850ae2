// SPDX-License-Identifier: Apache-2.0
//
// Runs with fewer rows than a bucket has on the (fake) GPU: from the host and from the GPU, with graphs and without.
#include "CudaFixture.h"

using namespace ditc;
using namespace ditc::test;

namespace {

class CudaPadding : public CudaTest {
protected:
  /// The rule pads x's rows with copies, or with a value.
  std::shared_ptr<Session> openPadded(SessionOptions options = {}, const Json &value = nullptr) {
    writeCudaPackage(folder / "plain.dita");
    forgePackage(folder / "plain.dita", path, [&](Json &manifest) {
      Json input = {{"name", "x"}, {"dim", 0}};
      if (!value.is_null())
        input["value"] = value;
      manifest["padding"] = {{{"symbol", "rows"}, {"inputs", {input}}, {"outputs", {{{"name", "y"}, {"dim", 0}}}}}};
    });
    options.device = "cuda";
    return Session::open(path, options);
  }

  static void runPadded(Context &context, const TensorRef &x, const TensorRef &y, void *stream = kDefaultStream) {
    RunRequest request{"", {&x, 1}, {&y, 1}, false, false, stream, true};
    context.run(request);
  }
};

} // namespace

TEST_F(CudaPadding, FromHostMemory) {
  Context context(openPadded());
  for (int64_t rows : {3, 1, 4, 3, 3, 3}) {
    std::vector<float> x = inputX(rows), y(rows * kOut);
    runPadded(context, tensor("x", x, {rows, kIn}), tensor("y", y, {rows, kOut}), nullptr);
    EXPECT_EQ(y, expectedY(x)) << rows;
  }
}

TEST_F(CudaPadding, OnTheGpuWithAndWithoutGraphs) {
  for (bool graphs : {true, false}) {
    SessionOptions options;
    options.graphs = graphs;
    Context context(openPadded(options));
    for (int64_t rows : {3, 1, 3, 3, 1, 1, 4, 3}) {
      DeviceBuffer x(inputX(rows)), y(std::vector<float>(4 * kOut, -1));
      runPadded(context, x.tensor("x", {rows, kIn}), y.tensor("y", {rows, kOut}));
      std::vector<float> all = y.read(4 * kOut), expected = expectedY(inputX(rows));
      EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + rows * kOut), expected) << rows;
      for (size_t i = rows * kOut; i < all.size(); ++i)
        EXPECT_EQ(all[i], -1) << "written behind the output";
    }
  }
}

TEST_F(CudaPadding, ValuesFollowTheSizes) {
  Context context(openPadded({}, "-inf"));
  for (int64_t rows : {3, 1, 3, 1, 3, 3}) {
    DeviceBuffer x(inputX(rows)), y(64);
    runPadded(context, x.tensor("x", {rows, kIn}), y.tensor("y", {rows, kOut}));
    EXPECT_EQ(y.read(rows * kOut), expectedY(inputX(rows))) << rows;
  }
}

TEST_F(CudaPadding, DamagedKernelParameters) {
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &file) { file.kernels[1].parameters.pop_back(); }})),
               "gives the kernel 'bias_relu_2' 3 parameters", "has more");
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &file) { file.kernels[1].parameters.push_back(file.kernels[1].parameters[0]); }})),
               "gives the kernel 'bias_relu_2' 5 parameters", "has 4");
  EXPECT_ERROR(run(open({.kernels = [](cuda::KernelFile &file) { file.kernels[1].parameters[0] = {std::vector<uint8_t>(4), {}}; }})),
               "gives the kernel 'bias_relu_2' 4 parameters", "larger ones");
}

TEST_F(CudaPadding, CopiesOntoThemselves) {
  // x goes into scratch, up by one byte and back again, then into the product. Byte by byte this were 32 million copies.
  constexpr uint64_t kBytes = 16 << 20;
  auto plan = [](Plan &plan) {
    uint32_t buffer = static_cast<uint32_t>(plan.buffers.size());
    plan.buffers.push_back({Space::Arena, 0, "", (plan.arenaBytes + 63) / 64 * 64, kBytes + 64});
    plan.arenaBytes = plan.buffers.back().offset + plan.buffers.back().bytes;
    for (PlanOp &op : plan.step)
      if (auto *gemm = std::get_if<GemmOp>(&op.body)) {
        CopyOp in{gemm->a.at, {buffer, 0}, 2 * kIn * sizeof(float)};
        gemm->a.at = {buffer, 0};
        CopyOp up{{buffer, 0}, {buffer, 1}, kBytes}, down{{buffer, 1}, {buffer, 0}, kBytes};
        plan.step.insert(plan.step.begin(), {{in, "in"}, {up, "up"}, {down, "down"}});
        return;
      }
  };
  EXPECT_EQ(run(open({.plan = plan})), expectedY(inputX(2)));
}
