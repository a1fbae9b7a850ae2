// SPDX-License-Identifier: Apache-2.0
//
// Weights on the (fake) GPU: loaded once, let go of when only the preparation reads them, borrowed, updated in place
// under recorded graphs, and reverted.
#include "CudaFixture.h"

#include <atomic>
#include <thread>

using namespace ditc;
using namespace ditc::test;

namespace {

std::vector<float> changedW() {
  std::vector<float> w = weightW();
  w[0] = 9;
  w[5] = -3;
  return w;
}

/// A plan whose product reads w itself.
void withoutPreparation(Plan &plan) {
  plan.prepare.clear();
  auto &gemm = std::get<GemmOp>(plan.step[0].body);
  gemm.b = {{2, 0}, kIn, true, {}};
}

} // namespace

using CudaWeights = CudaTest;

TEST_F(CudaWeights, OnceForAllBuckets) {
  std::shared_ptr<Session> session = open();
  run(session, 2);
  SessionMemory memory = session->memory();
  EXPECT_EQ(memory.prepared, 48u);
  EXPECT_EQ(memory.weights, 32u) << "b and the table; w was only needed for the preparation";
  run(session, 4);
  EXPECT_EQ(session->memory().prepared, 48u) << "both buckets prepare the same";
  EXPECT_EQ(session->memory().weights, 32u);
  EXPECT_EQ(session->memory().context, testPlan(4, "").arenaBytes) << "the library wants no scratch for so small products";
}

TEST_F(CudaWeights, CompressedTablesAreUploadedOnceForAllBuckets) {
  std::shared_ptr<Session> session = open({.table = largeTable()});
  uint64_t bytes = largeTable().size() * sizeof(float);
  for (int64_t rows : {2, 4}) {
    EXPECT_EQ(run(session, rows), expectedY(inputX(rows)));
    EXPECT_EQ(session->memory().weights, 16 + bytes) << "b and the table as kernels read it";
  }
}

TEST_F(CudaWeights, BucketsThatPrepareDifferentlyShareNothing) {
  std::shared_ptr<Session> session = open({.plan = [](Plan &plan) {
    if (plan.inputs[0].shape[0] == 2)
      return;
    plan.preparedBytes += 64;
    plan.buffers[5].offset = 64;
  }});
  EXPECT_EQ(run(session, 2), expectedY(inputX(2)));
  EXPECT_EQ(run(session, 4), expectedY(inputX(4)));
  EXPECT_EQ(session->memory().prepared, 48u + 112u);
  std::vector<float> w = changedW();
  TensorRef ref = tensor("w", w, {kOut, kIn});
  session->updateWeights({&ref, 1});
  EXPECT_EQ(run(session, 2), expectedY(inputX(2), w));
  EXPECT_EQ(run(session, 4), expectedY(inputX(4), w));
}

TEST_F(CudaWeights, SetFromHostAndDevice) {
  std::vector<float> w = changedW();
  for (Ownership ownership : {Ownership::Copy, Ownership::Borrow})
    for (bool prepared : {true, false}) {
      std::shared_ptr<Session> session =
          open({.weights = WeightPlace::Absent, .plan = prepared ? [](Plan &) {} : withoutPreparation});
      EXPECT_ERROR(run(session), "1 weights of", "are missing: w;");
      TensorRef host = tensor("w", w, {kOut, kIn});
      session->setWeights({&host, 1}, ownership);
      EXPECT_EQ(run(session), expectedY(inputX(2), w));
      DeviceBuffer device(weightW());
      TensorRef ref = device.tensor("w", {kOut, kIn});
      session->setWeights({&ref, 1}, ownership);
      EXPECT_EQ(run(session), expectedY(inputX(2)));
    }
}

TEST_F(CudaWeights, BorrowedMemoryIsNotCopied) {
  std::shared_ptr<Session> session = open({.plan = withoutPreparation});
  DeviceBuffer device(weightW());
  TensorRef ref = device.tensor("w", {kOut, kIn});
  session->setWeights({&ref, 1}, Ownership::Borrow);
  EXPECT_EQ(run(session), expectedY(inputX(2)));
  EXPECT_EQ(session->memory().weights, 32u);
  device.write(changedW());
  EXPECT_EQ(run(session), expectedY(inputX(2), changedW()));
}

TEST_F(CudaWeights, UpdateAndRevertUnderAGraph) {
  for (bool prepared : {true, false}) {
    std::shared_ptr<Session> session = open({.plan = prepared ? [](Plan &) {} : withoutPreparation});
    Context context(session);
    DeviceBuffer x(inputX(2)), y(32);
    auto result = [&] {
      y.write(std::vector<float>(8, -1));
      runOn(context, x, y);
      return y.read(8);
    };
    for (int i = 0; i < 3; ++i) // the third replays a graph
      EXPECT_EQ(result(), expectedY(inputX(2)));
    Addresses before = session->bind("two")->addresses;
    std::vector<float> w = changedW();
    TensorRef ref = tensor("w", w, {kOut, kIn});
    session->updateWeights({&ref, 1});
    EXPECT_EQ(session->bind("two")->addresses, before);
    EXPECT_EQ(result(), expectedY(inputX(2), w));
    session->revertWeights();
    EXPECT_EQ(session->bind("two")->addresses, before);
    EXPECT_EQ(result(), expectedY(inputX(2)));
    EXPECT_ERROR(session->revertWeights(), "no update of weights to take back");
    DeviceBuffer device(w);
    ref = device.tensor("w", {kOut, kIn});
    session->updateWeights({&ref, 1}); // twice: the second one is taken back to the first
    std::vector<float> other = weightW();
    other[2] = 5;
    TensorRef again = tensor("w", other, {kOut, kIn});
    session->updateWeights({&again, 1});
    EXPECT_EQ(result(), expectedY(inputX(2), other));
    session->revertWeights();
    EXPECT_EQ(result(), expectedY(inputX(2), w));
    EXPECT_EQ(run(session, 4), expectedY(inputX(4), w)) << "a bucket that is bound later";
  }
}

TEST_F(CudaWeights, UpdateOfBorrowedWeightsLeavesTheCallersMemory) {
  std::shared_ptr<Session> session = open({.plan = withoutPreparation});
  Context context(session);
  DeviceBuffer device(weightW()), x(inputX(2)), y(32);
  TensorRef ref = device.tensor("w", {kOut, kIn});
  session->setWeights({&ref, 1}, Ownership::Borrow);
  std::vector<float> w = changedW();
  TensorRef update = tensor("w", w, {kOut, kIn});
  for (int i = 0; i < 3; ++i)
    runOn(context, x, y);
  session->updateWeights({&update, 1});
  runOn(context, x, y);
  EXPECT_EQ(y.read(8), expectedY(inputX(2), w));
  EXPECT_EQ(device.read(12), weightW());
  session->revertWeights();
  runOn(context, x, y);
  EXPECT_EQ(y.read(8), expectedY(inputX(2)));
}

TEST_F(CudaWeights, UpdatesAreAllOrNothing) {
  std::shared_ptr<Session> session = open();
  std::vector<float> w = changedW(), b(4, 100);
  run(session);
  TensorRef wrong[] = {tensor("b", b, {kOut}), tensor("w", w, {kIn, kOut})};
  EXPECT_ERROR(session->updateWeights(wrong), "weight 'w' is f32 [3, 4]");
  TensorRef twice[] = {tensor("b", b, {kOut}), tensor("b", b, {kOut})};
  EXPECT_ERROR(session->updateWeights(twice), "'b' is given twice");
  EXPECT_EQ(run(session), expectedY(inputX(2)));
  EXPECT_ERROR(session->revertWeights(), "no update");
}

TEST_F(CudaWeights, UpdatesWhileOthersRun) {
  std::shared_ptr<Session> session = open();
  std::vector<float> a = weightW(), b = changedW(), ya = expectedY(inputX(2)), yb = expectedY(inputX(2), b);
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread runner([&] {
    Context context(session);
    while (!stop) {
      std::vector<float> y = run(context);
      wrong += y != ya && y != yb;
    }
  });
  TensorRef refs[2] = {tensor("w", a, {kOut, kIn}), tensor("w", b, {kOut, kIn})};
  for (int i = 0; i < 40; ++i)
    session->updateWeights({&refs[i % 2], 1});
  stop = true;
  runner.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(run(session), yb);
}
