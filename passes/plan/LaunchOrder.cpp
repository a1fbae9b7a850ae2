// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/LaunchOrder.h"

#include "passes/plan/Lifetimes.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace ditc {
namespace {

/// A peak is lowered by this part of it at least, or the order stays.
constexpr int64_t kWorthwhile = 64;

/// Moves begin or end at most this far from the peak, but for the launches that write or free what is in use there.
constexpr int kNear = 64;

/// How an operation touches a buffer.
enum class Access { None, Read, Written };

/// True for the operand that the operation writes.
bool isWritten(Operation *op, OpOperand &operand) {
  if (auto gemm = dyn_cast<plan::GemmOp>(op))
    return operand.get() == gemm.getC();
  if (auto copy = dyn_cast<plan::CopyOp>(op))
    return operand.get() == copy.getTarget();
  auto launch = cast<plan::LaunchOp>(op);
  auto kernel = SymbolTable::lookupNearestSymbolFrom<plan::KernelOp>(launch, launch.getKernelAttr());
  return !kernel || operand.getOperandNumber() + kernel.getOutputs() >= launch->getNumOperands();
}

class LaunchOrder {
public:
  explicit LaunchOrder(Block &step) {
    for (Operation &op : step)
      order.push_back(addLaunch(&op));
    update();
  }

  std::vector<Operation *> lower() {
    while (lowerOnce())
      update();
    std::vector<Operation *> operations;
    for (int launch : order)
      operations.push_back(launches[launch].op);
    return operations;
  }

private:
  struct Use {
    int buffer;
    Access access;
  };
  struct Launch {
    Operation *op;
    std::vector<Use> uses; ///< one for each buffer
  };
  struct Buffer {
    int64_t bytes;           ///< 0 outside the arena
    int first = 0, last = 0; ///< positions in `order`
  };
  /// The launches from position `begin` on in another order.
  struct Move {
    int begin = 0;
    std::vector<int> launches;
    int64_t peak = 0; ///< most bytes in use there
  };

  int addLaunch(Operation *op) {
    Launch launch{op, {}};
    for (OpOperand &operand : op->getOpOperands()) {
      plan::BufferOp buffer = plan::rootBuffer(operand.get());
      auto [entry, isNew] = index.try_emplace(buffer, buffers.size());
      if (isNew)
        buffers.push_back({buffer.getSpace() == plan::Space::Arena ? placedBytes(buffer) : 0});
      if (buffer.getSpace() == plan::Space::Zeroed)
        continue; // zeros before and after every launch, so it orders nothing
      Access access = isWritten(op, operand) ? Access::Written : Access::Read;
      auto use = llvm::find_if(launch.uses, [&](const Use &use) { return use.buffer == entry->second; });
      if (use == launch.uses.end())
        launch.uses.push_back({entry->second, access});
      else
        use->access = std::max(use->access, access);
    }
    launches.push_back(std::move(launch));
    return launches.size() - 1;
  }

  /// Lifetimes and bytes in use for the order as it is.
  void update() {
    for (Buffer &buffer : buffers)
      buffer.first = order.size(), buffer.last = -1;
    for (auto [position, launch] : llvm::enumerate(order))
      for (const Use &use : launches[launch].uses) {
        buffers[use.buffer].first = std::min<int>(buffers[use.buffer].first, position);
        buffers[use.buffer].last = position;
      }
    inUse.assign(order.size() + 1, 0);
    for (const Buffer &buffer : buffers)
      if (buffer.last >= 0) {
        inUse[buffer.first] += buffer.bytes;
        inUse[buffer.last + 1] -= buffer.bytes;
      }
    for (size_t i = 1; i < inUse.size(); ++i)
      inUse[i] += inUse[i - 1];
  }

  /// Takes the best move away from the first place with the peak; false when none is worth it.
  bool lowerOnce() {
    int at = std::ranges::max_element(inUse) - inUse.begin();
    std::set<int> starts, ends; // a launch whose result is needed only behind the peak may move with those before it
    for (const Buffer &buffer : buffers)
      if (buffer.bytes > 0 && buffer.first <= at && at <= buffer.last) {
        starts.insert(buffer.first);
        ends.insert(buffer.last);
      }
    for (int distance = 1; distance <= kNear; ++distance) {
      starts.insert(std::max(at - distance, 0));
      ends.insert(std::min<int>(at + distance, order.size() - 1));
    }
    Move best{0, {}, inUse[at] - inUse[at] / kWorthwhile};
    auto consider = [&](Move move) {
      if (move.launches.empty())
        return;
      move.peak = peakOf(move);
      if (move.peak < best.peak || (move.peak == best.peak && !best.launches.empty() && move.launches.size() < best.launches.size()))
        best = std::move(move);
    };
    int last = order.size() - 1;
    for (int far : {0, kNear}) {
      for (int start : starts)
        if (start < at)
          consider(behind(start, at, std::min(at + far, last)));
      for (int end : ends)
        if (end > at)
          consider(before(end, at, std::max(at - far, 0)));
    }
    std::ranges::copy(best.launches, order.begin() + best.begin);
    return !best.launches.empty();
  }

  /// Launch `start`, and what depends on it, behind position `at`: at `end`, or before what needs them. No launches when that
  /// at `at` is one of them.
  Move behind(int start, int at, int end) {
    std::vector<int> launches = moved(llvm::seq(start, end + 1), at);
    return {start, std::move(launches)};
  }

  /// Launch `end`, and what it depends on, in front of position `at`: at `start`, or behind what they need. No launches when
  /// that at `at` is one of them.
  Move before(int end, int at, int start) {
    std::vector<int> launches = moved(llvm::reverse(llvm::seq(start, end + 1)), at);
    std::ranges::reverse(launches);
    return {end + 1 - static_cast<int>(launches.size()), std::move(launches)};
  }

  /// The launches at `positions` with the first one, and those that must keep their place behind it, at the end. Positions
  /// end before the first one past `at` that must keep its place; none are left when `at` must.
  template <typename Positions> std::vector<int> moved(Positions positions, int at) {
    std::vector<int> stay, go;
    llvm::DenseMap<int, Access> touched; // by those that go
    bool isPast = false;
    for (int position : positions) {
      const std::vector<Use> &uses = launches[order[position]].uses;
      bool goes = go.empty() || llvm::any_of(uses, [&](const Use &use) {
        Access other = touched.lookup(use.buffer);
        return other == Access::Written || (other == Access::Read && use.access == Access::Written);
      });
      if (goes && position == at)
        return {};
      if (goes && isPast)
        break;
      isPast |= position == at;
      (goes ? go : stay).push_back(order[position]);
      if (goes)
        for (const Use &use : uses)
          touched[use.buffer] = std::max(touched[use.buffer], use.access);
    }
    stay.insert(stay.end(), go.begin(), go.end());
    return stay;
  }

  /// Most bytes in use among the launches of a move.
  int64_t peakOf(const Move &move) const {
    int begin = move.begin, end = begin + static_cast<int>(move.launches.size()) - 1;
    llvm::DenseMap<int, int> remaining; // uses of a buffer that are still to come
    for (int launch : move.launches)
      for (const Use &use : launches[launch].uses)
        ++remaining[use.buffer];
    int64_t bytes = inUse[begin], peak = 0;
    for (const Use &use : launches[order[begin]].uses)
      if (buffers[use.buffer].first == begin)
        bytes -= buffers[use.buffer].bytes;
    llvm::DenseSet<int> seen;
    for (int launch : move.launches) {
      for (const Use &use : launches[launch].uses)
        if (buffers[use.buffer].first >= begin && seen.insert(use.buffer).second)
          bytes += buffers[use.buffer].bytes;
      peak = std::max(peak, bytes);
      for (const Use &use : launches[launch].uses)
        if (--remaining[use.buffer] == 0 && buffers[use.buffer].last <= end)
          bytes -= buffers[use.buffer].bytes;
    }
    return peak;
  }

  std::vector<Launch> launches;
  std::vector<int> order;
  std::vector<Buffer> buffers;
  std::vector<int64_t> inUse; ///< by position, and 0 behind the last
  llvm::DenseMap<Operation *, int> index;
};

} // namespace

std::vector<Operation *> lowerPeak(Block &step) { return LaunchOrder(step).lower(); }

} // namespace ditc
