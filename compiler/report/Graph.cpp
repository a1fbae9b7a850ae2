// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Graph.h"

#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

#include <algorithm>

using namespace mlir;

namespace ditc {

namespace {

/// The IR of a kernel is cut to this many lines of this many characters: enough for every kernel of a block;
/// the modulation of all blocks is one launch of hundreds of equal products.
constexpr size_t kMaxIrLines = 150, kMaxIrWidth = 500;

std::string typeText(Value value) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(tensorType(value).getShape(), stream, "x");
  if (!tensorType(value).getShape().empty())
    stream << "x";
  stream << tensorType(value).getElementType();
  return text;
}

bool isLeaf(Operation *op) { return isa<dit::ConstantOp, dit::WeightOp>(op); }

/// A concat whose parts are written in their places needs no launch.
bool isFree(Operation *op) { return dit::isViewOp(op) || isa<dit::ConcatOp>(op); }

/// Bytes that a launch reads of each operand, as Cost.h counts them.
double bytesReadOf(Operation *op, unsigned operand) {
  auto fusion = dyn_cast<dit::FusionOp>(op);
  if (!fusion)
    return dit::tensorBytes(tensorType(op->getOperand(operand)));
  double most = dit::tensorBytes(tensorType(fusion.getInputs()[operand]));
  for (Operation *user : fusion.getBodyBlock().getArgument(operand).getUsers())
    if (auto gather = dyn_cast<dit::GatherOp>(user); gather && gather.getTable() == fusion.getBodyBlock().getArgument(operand))
      most = std::min<double>(most, dit::tensorBytes(tensorType(gather.getResult())));
  return most;
}

std::string cut(const std::string &text) {
  std::string result;
  size_t lines = 0, dropped = 0;
  for (StringRef rest = text; !rest.empty();) {
    auto [line, next] = rest.split('\n');
    rest = next;
    if (lines++ >= kMaxIrLines) {
      ++dropped;
      continue;
    }
    result += line.size() > kMaxIrWidth ? line.take_front(kMaxIrWidth).str() + " ..." : line.str();
    result += "\n";
  }
  return dropped ? result + "... " + std::to_string(dropped) + " more lines\n" : result;
}

class GraphReader {
public:
  explicit GraphReader(func::FuncOp function) : function(function), printing(function, printFlags()) {}

  void read(GraphRecord &graph) {
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (isLeaf(&op))
        continue;
      if (isFree(&op)) {
        graph.free.push_back({{op.getName().stripDialect().str(), namesOf(op.getLoc()), {}}, typeText(op.getResult(0))});
        if (isStableOp(&op))
          stable.insert(op.result_begin(), op.result_end());
        continue;
      }
      graph.kernels.push_back(readKernel(&op, graph.kernels.size() + 1));
    }
    measureMinimum(graph);
  }

private:
  static OpPrintingFlags printFlags() {
    OpPrintingFlags flags;
    return flags.elideLargeElementsAttrs(16).elideLargeResourceString(64).printNameLocAsPrefix(true);
  }

  bool isStable(Value value) const {
    Operation *def = value.getDefiningOp();
    return def && (isLeaf(def) || stable.contains(value));
  }
  bool isStableOp(Operation *op) const {
    return llvm::all_of(op->getOperands(), [&](Value operand) { return isStable(operand); });
  }

  /// Kernels, inputs and leaves that a value comes from, behind what is free.
  void collectSources(Value value, std::vector<std::string> &sources) const {
    Operation *def = value.getDefiningOp();
    auto add = [&](std::string text) {
      if (std::ranges::find(sources, text) == sources.end())
        sources.push_back(std::move(text));
    };
    if (!def) {
      auto name = func::FuncOp(function).getArgAttrOfType<StringAttr>(cast<BlockArgument>(value).getArgNumber(), "dit.name");
      return add("input " + (name ? name.str() : std::to_string(cast<BlockArgument>(value).getArgNumber())));
    }
    if (auto weight = dyn_cast<dit::WeightOp>(def))
      return add("weight " + weight.getName().str());
    if (isa<dit::ConstantOp>(def))
      return add("constant");
    if (auto kernel = launchOf.find(def); kernel != launchOf.end())
      return add("kernel " + std::to_string(kernel->second) + "#" + std::to_string(cast<OpResult>(value).getResultNumber()));
    for (Value operand : def->getOperands())
      collectSources(operand, sources);
  }

  KernelRecord readKernel(Operation *op, size_t launch) {
    KernelRecord kernel;
    kernel.prepare = isStableOp(op) || op->hasAttr("step_invariant");
    kernel.work = workOf(op);
    auto fusion = dyn_cast<dit::FusionOp>(op);
    kernel.family = fusion ? fusion.getFamily().str() : isa<dit::LinearStateOp, dit::LinearApplyOp>(op) ? "attention" : "layout";
    for (auto [i, input] : llvm::enumerate(op->getOperands())) {
      ValueRecord record{{}, nameOf(input), typeText(input), bytesReadOf(op, i), isStable(input), -1};
      collectSources(input, record.from);
      if (record.stable)
        kernel.weightBytes += record.bytes;
      kernel.inputs.push_back(std::move(record));
    }
    kernel.weightBytes = std::min(kernel.weightBytes, kernel.work.bytesRead);
    if (fusion)
      readBody(fusion, kernel);
    else
      readSingle(op, kernel);
    llvm::raw_string_ostream stream(kernel.ir);
    op->print(stream, printing);
    kernel.ir = cut(kernel.ir);
    launchOf[op] = launch;
    if (isStableOp(op))
      stable.insert(op->result_begin(), op->result_end());
    return kernel;
  }

  static NodeName nameOf(Value value) {
    std::vector<NodeName> names = namesOf(value.getLoc());
    return names.empty() ? NodeName{} : names.back();
  }

  static void readSingle(Operation *op, KernelRecord &kernel) {
    OpRecord record{op->getName().stripDialect().str(), namesOf(op->getLoc()), {}};
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      record.args.push_back(-1 - static_cast<int>(i));
    kernel.ops.push_back(std::move(record));
    for (Value result : op->getResults())
      kernel.results.push_back({{}, nameOf(result), typeText(result), static_cast<double>(dit::tensorBytes(tensorType(result))), false, 0});
  }

  static void readBody(dit::FusionOp fusion, KernelRecord &kernel) {
    llvm::DenseMap<Value, int> known;
    for (BlockArgument argument : fusion.getBodyBlock().getArguments())
      known[argument] = -1 - static_cast<int>(argument.getArgNumber());
    int best = -1;
    for (Operation &op : fusion.getBodyBlock().without_terminator()) {
      int index = kernel.ops.size(), weight = importance(&op);
      OpRecord record{op.getName().stripDialect().str(), namesOf(op.getLoc()), {}};
      for (Value operand : op.getOperands())
        record.args.push_back(known.lookup(operand));
      for (Value result : op.getResults()) {
        known[result] = index;
        if (!dit::isViewOp(&op) && !isYielded(result))
          kernel.savedBytes += 2.0 * dit::tensorBytes(tensorType(result));
      }
      if (weight > best) {
        best = weight;
        kernel.anchor = index;
      }
      kernel.ops.push_back(std::move(record));
    }
    for (auto [inner, result] : llvm::zip(fusion.getBodyBlock().getTerminator()->getOperands(), fusion.getResults()))
      kernel.results.push_back({{}, nameOf(inner), typeText(result), static_cast<double>(dit::tensorBytes(tensorType(result))), false, known.lookup(inner)});
  }

  static bool isYielded(Value value) { return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<dit::YieldOp>(user); }); }

  /// The first operation of the highest rank is what a kernel is about.
  static int importance(Operation *op) {
    if (isa<dit::MatmulOp, dit::AttentionOp, dit::LinearStateOp, dit::LinearApplyOp, dit::ConvOp>(op))
      return 3;
    if (isa<dit::NormOp, dit::ReduceOp>(op))
      return 2;
    return dit::isViewOp(op) ? 0 : 1;
  }

  /// Each value that crosses kernels counts once written and once read, whoever reads it.
  void measureMinimum(GraphRecord &graph) {
    llvm::DenseMap<Value, double> mostRead;
    auto root = [](Value value) {
      while (Operation *def = value.getDefiningOp()) {
        if (!dit::isViewOp(def))
          break;
        value = def->getOperand(0);
      }
      return value;
    };
    for (auto &[op, launch] : launchOf)
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        double &most = mostRead[root(operand)];
        most = std::max(most, bytesReadOf(op, i));
      }
    for (auto [value, bytes] : mostRead) {
      graph.minimumBytes += bytes;
      graph.minimumActivationBytes += isStable(value) ? 0 : bytes;
    }
    for (const KernelRecord &kernel : graph.kernels) {
      graph.minimumBytes += kernel.work.bytesWritten;
      graph.minimumActivationBytes += kernel.prepare ? 0 : kernel.work.bytesWritten;
    }
  }

  func::FuncOp function;
  AsmState printing;
  llvm::DenseMap<Operation *, size_t> launchOf;
  llvm::DenseSet<Value> stable;
};

} // namespace

GraphRecord readGraph(ModuleOp fused) {
  GraphRecord graph;
  for (func::FuncOp function : fused.getOps<func::FuncOp>())
    GraphReader(function).read(graph);
  return graph;
}

UnfusedRecord measureUnfused(ModuleOp specialised) {
  UnfusedRecord record;
  for (func::FuncOp function : specialised.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (isLeaf(&op) || dit::isViewOp(&op))
        continue;
      ++record.launches;
      record.bytes += workOf(&op).bytes();
      llvm::SmallPtrSet<Value, 8> counted;
      for (auto [i, operand] : llvm::enumerate(op.getOperands()))
        if (Operation *def = operand.getDefiningOp(); def && isLeaf(def) && counted.insert(operand).second)
          record.weightBytes += bytesReadOf(&op, i);
    }
  return record;
}

} // namespace ditc
