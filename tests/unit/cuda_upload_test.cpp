// SPDX-License-Identifier: Apache-2.0
//
// Uploads on the (fake) GPU: large ones go through pinned pieces that several threads fill.
#include "CudaFixture.h"

#include "runtime/cuda/PinnedRing.h"

#include <algorithm>
#include <thread>

using namespace ditc;
using namespace ditc::test;

namespace {

class CudaUpload : public CudaTest {
protected:
  static std::vector<uint8_t> numbers(size_t bytes, uint32_t seed) {
    std::vector<uint8_t> out(bytes);
    for (uint8_t &byte : out)
      byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
    return out;
  }

  /// What arrives; the source is overwritten as soon as the call is over.
  static std::vector<uint8_t> sent(Device &device, Queue &queue, std::vector<uint8_t> source) {
    MemoryRef memory = device.allocate(source.size(), "a test");
    queue.upload(memory->data(), source);
    std::fill(source.begin(), source.end(), 0xee);
    std::vector<uint8_t> back(source.size());
    queue.download(back, memory->data());
    queue.wait();
    return back;
  }
};

} // namespace

TEST_F(CudaUpload, EveryByteArrives) {
  std::shared_ptr<Session> session = open();
  std::unique_ptr<Queue> queue = session->device().openQueue();
  constexpr size_t kLeast = PinnedRing::kLeastBytes;
  for (size_t bytes : {size_t(1), kLeast - 1, kLeast, kLeast + 1, 5 * kLeast + 12345, 8 * kLeast}) {
    std::vector<uint8_t> source = numbers(bytes, static_cast<uint32_t>(bytes));
    EXPECT_TRUE(sent(session->device(), *queue, source) == source) << bytes;
  }
}

TEST_F(CudaUpload, QueuesOfSeveralThreads) {
  std::shared_ptr<Session> session = open();
  std::vector<std::jthread> threads;
  for (uint32_t seed = 1; seed <= 3; ++seed)
    threads.emplace_back([&, seed] {
      std::unique_ptr<Queue> queue = session->device().openQueue();
      std::vector<uint8_t> source = numbers(3 * PinnedRing::kLeastBytes + seed, seed);
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(sent(session->device(), *queue, source) == source) << seed;
    });
}

TEST_F(CudaUpload, PinnedMemoryIsTakenAsItIs) {
  std::shared_ptr<Session> session = open();
  const cuda::Driver &driver = cuda::Driver::get();
  std::vector<uint8_t> pageable(64);
  EXPECT_FALSE(PinnedRing::isPinned(driver, pageable.data()));
  void *memory = nullptr;
  DeviceBuffer makesAContextCurrent(16);
  ASSERT_EQ(driver.memHostAlloc(&memory, 4096, 0), cuda::kSuccess);
  EXPECT_TRUE(PinnedRing::isPinned(driver, static_cast<char *>(memory) + 4095));
  EXPECT_EQ(driver.memFreeHost(memory), cuda::kSuccess);
  EXPECT_FALSE(PinnedRing::isPinned(driver, memory));
}
