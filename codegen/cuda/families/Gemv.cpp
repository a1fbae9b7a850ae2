// SPDX-License-Identifier: Apache-2.0
//
// Products of few rows with many weights: results of one shape share a Config, and all share one launch.
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"
#include "codegen/cuda/families/GemvProgram.h"

#include "codegen/cuda/ScalarText.h"
#include "dialects/Locations.h"
#include "dialects/dit/Dit.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>
#include <limits>

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kMaxRows = 16, kFewRows = 4;
constexpr int64_t kWarps = 8;                      // gemv.cuh
constexpr int64_t kInputBytes = 96 << 10;          // of x in shared memory; what is longer comes in parts

/// Results of one Config.
struct Group {
  std::string config;
  std::vector<GemvResult *> results;
  int64_t blocksEach = 0, sharedBytes = 0;
  int64_t residents = 0; ///< blocks that a multiprocessor has registers for
};

MemRefType swapped(MemRefType type) {
  plan::Layout layout = plan::layoutOf(type);
  return plan::makeMemRef({type.getDimSize(1), type.getDimSize(0)}, type.getElementType(), {{layout.strides[1], layout.strides[0]}, 0});
}

class GemvEmitter {
public:
  explicit GemvEmitter(plan::KernelOp kernel) : kernel(kernel), unit(kernel), r(unit.read()) {}

  FailureOr<CudaUnit> run() {
    readResults();
    if (r.failed())
      return unit.failure();
    for (const GemvResult &result : results)
      totalColumns += result.columns;
    for (auto [i, result] : llvm::enumerate(results)) {
      Group group = groupOf(result, r.numArgs() - results.size() + i);
      if (r.failed())
        return unit.failure();
      Group &known = groups.insert({group.config, group}).first->second;
      known.results.push_back(&result);
    }
    return write();
  }

private:
  void readResults() {
    r.expect(kernel.getBody().hasOneBlock(), "a gemv needs a body with one dit.matmul per product");
    if (r.failed())
      return;
    Block &body = kernel.getBody().front();
    Verdict verdict = readGemv(body, results);
    r.expect(static_cast<bool>(verdict), "is no gemv kernel: " + llvm::Twine(explain(verdict.reason)));
    r.expect(r.failed() || (results.size() == r.outputs() && body.getNumArguments() + r.outputs() == r.numArgs()), "the body does not fit the arguments");
  }

  Group groupOf(GemvResult &result, unsigned output) {
    MemRefType weight = r.type(result.weight), out = r.type(output);
    r.expect(isa<FloatType>(weight.getElementType()) && isa<FloatType>(out.getElementType()), "a gemv needs floating-point arguments");
    r.expect(result.prepare || r.type(result.inputs[0]).getElementType() == weight.getElementType(), "a gemv needs input and weight of one type");
    if (r.failed())
      return {};
    if (!result.product.getTransposeRhs())
      weight = swapped(weight); // [N, K]
    MemRefType input = r.type(result.inputs[0]);
    int64_t k = input.getShape().back(), rows = k > 0 ? input.getNumElements() / k : 0;
    r.expect(rows >= 1 && rows <= kMaxRows, llvm::Twine(rows) + " rows; a gemv takes 1 to " + llvm::Twine(kMaxRows));
    r.expect(weight.getDimSize(1) == k && result.begin + result.columns <= weight.getDimSize(0) && out.getShape().back() == result.columns && out.getNumElements() == rows * result.columns,
             "the shapes of the product do not fit");
    if (r.failed())
      return {};
    bool alongK = plan::layoutOf(weight).strides[1] == 1;
    int64_t bytes = weight.getElementTypeBitWidth() / 8, compute = std::max<int64_t>(bytes, 4), alignment = alignmentBehind(result.weight, weightOffset(result));
    weight = plan::makeMemRef({result.columns, k}, weight.getElementType(), {plan::layoutOf(weight).strides, 0});
    int64_t chunk = std::min<int64_t>(llvm::alignTo(k, 256), kInputBytes / (compute * rows) / 256 * 256);
    Group group;
    auto line = [&](StringRef name, const std::string &type) { return ("  using " + name + " = " + type + ";\n").str(); };
    auto argument = [&](unsigned arg) { return tensorTypeText(r.type(arg), unit.alignmentOf(arg)); };
    group.config = line("Input", argument(result.inputs[0])) + line("Second", result.inputs.size() > 1 ? argument(result.inputs[1]) : "void") +
                   line("Weight", tensorTypeText(alongK ? weight : swapped(weight), alignment)) + line("Bias", result.bias ? biasType(result) : "void") + line("Output", argument(output));
    group.config += "  static constexpr bool ALONG_K = " + std::string(alongK ? "true" : "false") + ";\n";
    int64_t columns = rows <= kFewRows ? 2 : 4, passes = passesOf(rows, columns);
    group.residents = residentsOf(rows, k, bytes, alongK && passes > 1);
    group.config += llvm::formatv("  static constexpr int K_CHUNK = {0}, PASSES = {1}, COLUMNS = {2};\n", chunk, passes, columns).str();
    group.config += functionsOf(result, bytes == 8 ? "double" : "float");
    int64_t laneColumns = laneColumnsOf(weight, alignment, rows);
    group.blocksEach = llvm::divideCeil(result.columns, alongK ? passes * kWarps * columns : 32 * laneColumns);
    group.sharedBytes = compute * rows * std::max(chunk, alongK ? 0 : kWarps * 32 * laneColumns);
    return group;
  }

  /// Bytes in front of the first row of the weight that the result is made of, and of the bias.
  int64_t weightOffset(GemvResult &result) {
    MemRefType type = r.type(result.weight);
    return result.begin * plan::layoutOf(type).strides[result.product.getTransposeRhs() ? 0 : 1] * (type.getElementTypeBitWidth() / 8);
  }
  int64_t biasOffset(const GemvResult &result) {
    MemRefType type = r.type(*result.bias);
    return result.begin * plan::layoutOf(type).strides[0] * (type.getElementTypeBitWidth() / 8);
  }
  int64_t alignmentBehind(unsigned arg, int64_t offset) { return std::gcd(unit.alignmentOf(arg), offset); }

  std::string biasType(const GemvResult &result) {
    MemRefType type = r.type(*result.bias);
    return tensorTypeText(plan::makeMemRef({result.columns}, type.getElementType(), {plan::layoutOf(type).strides, 0}), alignmentBehind(*result.bias, biasOffset(result)));
  }

  /// What makes x of the inputs, and a result of a product.
  std::string functionsOf(const GemvResult &result, const std::string &compute) {
    std::string finished = "x";
    for (dit::MapOp map : result.maps)
      finished = call(map, finished);
    std::string parameters = compute + " a" + (result.inputs.size() > 1 ? ", " + compute + " b" : ""), arguments = result.inputs.size() > 1 ? "a, b" : "a";
    return "  __device__ static " + compute + " prepare(" + parameters + ") { return " + (result.prepare ? call(result.prepare, arguments) : "a") + "; }\n" +
           "  __device__ static " + compute + " finish(" + compute + " x) { return " + finished + "; }\n";
  }

  /// Applied to `arguments`. Maps with equal bodies are one function; a cast is none.
  std::string call(dit::MapOp map, const std::string &arguments) {
    if (map.isIdentity())
      return arguments;
    auto [entry, isNew] = functions.insert({printScalarFunction("NAME", map.getBodyBlock()), "f" + std::to_string(functions.size())});
    if (isNew) {
      std::string definition = entry->first;
      definition.replace(definition.find("NAME"), 4, entry->second);
      definitions += definition + "\n";
    }
    return entry->second + "(" + arguments + ")";
  }

  /// A block makes x once for several groups of columns, as long as there are blocks for every multiprocessor of a large
  /// GPU. One row is made so fast that more blocks are better.
  int64_t passesOf(int64_t rows, int64_t columns) const {
    constexpr int64_t kBlocksWanted = 200;
    int64_t passes = rows > 1 ? 4 : 1;
    while (passes > 1 && totalColumns / (passes * kWarps * columns) < kBlocksWanted)
      passes /= 2;
    return passes;
  }

  /// The most blocks whose registers hold sums and weights: all of a short row (gemv.cuh's DEPTH), and 64-bit ones, are many.
  static int64_t residentsOf(int64_t rows, int64_t k, int64_t bytes, bool repeats) {
    constexpr int64_t kShortRow = 5 * 256;
    if (rows > kFewRows)
      return 1;
    if (bytes == 8)
      return 2;
    return repeats && bytes == 2 && (rows <= 2 || k > kShortRow) ? 4 : 3;
  }

  /// As Layout::LANE_COLUMNS, for a weight seen as [N, K] that is not stored along K.
  static int64_t laneColumnsOf(MemRefType weight, int64_t alignment, int64_t rows) {
    plan::Layout layout = plan::layoutOf(weight);
    if (layout.strides[0] != 1)
      return 1;
    int64_t bytes = weight.getElementTypeBitWidth() / 8, n = weight.getDimSize(0);
    int64_t start = std::gcd(std::gcd(int64_t(16), alignment), weight.getDimSize(1) > 1 ? layout.strides[1] * bytes : 0);
    int64_t most = rows <= 2 ? 16 : rows <= 4 ? 8 : rows <= 8 ? 4 : 2;
    return std::gcd(std::gcd(std::max<int64_t>(1, start / bytes), n), most);
  }

  FailureOr<CudaUnit> write() {
    CudaUnit result;
    std::string structs, calls;
    cuda::KernelParameter parameter;
    int64_t blocks = 0, sharedBytes = 0, residents = std::numeric_limits<int64_t>::max();
    size_t problem = 0, pointers = llvm::any_of(results, [](const GemvResult &each) { return each.inputs.size() > 1; }) ? kGemvPointersOfTwo : kGemvPointers;
    for (auto [i, entry] : llvm::enumerate(groups)) {
      const Group &group = entry.second;
      int64_t next = blocks + group.blocksEach * group.results.size();
      std::string name = "Config" + std::to_string(i);
      structs += llvm::formatv("/// {0} products\nstruct {1} {{\n{2}};\n\n", group.results.size(), name, group.config);
      std::string guard = i + 1 < groups.size() ? "if (block < " + std::to_string(next) + ") " : "";
      calls += llvm::formatv("  {0}{1}gemv::run<{2}>(params.problems + {3}, block - {4});\n", i ? "else " : "", guard, name, problem, blocks);
      for (GemvResult *each : group.results)
        addPointers(parameter, *each, pointers);
      problem += group.results.size();
      blocks = next;
      sharedBytes = std::max(sharedBytes, group.sharedBytes);
      residents = std::min(residents, group.residents);
    }
    r.expect(blocks < int64_t(1) << 31, "needs too many blocks");
    if (r.failed())
      return unit.failure();
    result.parameters.push_back(std::move(parameter));
    std::string path = writeNodeName(nameOf(kernel.getLoc()));
    result.text = "// gemv" + (path.empty() ? "" : " of " + path) + "\n#include \"gemv.cuh\"\n\nusing namespace ditc;\n\n" + definitions + structs +
                  "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(32 * kWarps) + ", " + std::to_string(residents) + ")\n" + kernel.getSymName().str() +
                  "(const __grid_constant__ gemv::Params<" + std::to_string(results.size()) +
                  (pointers == kGemvPointersOfTwo ? ", 2" : "") + "> params) {\n  int block = blockIdx.x;\n  followPreviousKernel();\n" + calls + "}\n";
    result.launch = {
        .grid = {static_cast<uint32_t>(blocks), 1, 1}, .threads = 32 * kWarps, .sharedBytes = static_cast<uint32_t>(sharedBytes), .overlapsPrevious = true};
    return result;
  }

  void addPointers(cuda::KernelParameter &parameter, GemvResult &result, size_t count) {
    size_t begin = parameter.bytes.size();
    auto patch = [&](std::optional<unsigned> arg, int64_t add) {
      if (arg)
        parameter.patches.push_back({static_cast<uint32_t>(parameter.bytes.size()), cuda::PointerPatch{*arg, add}});
      parameter.bytes.resize(parameter.bytes.size() + sizeof(uint64_t));
    };
    patch(result.inputs[0], 0);
    patch(result.weight, weightOffset(result));
    patch(result.bias, result.bias ? biasOffset(result) : 0);
    patch(r.numArgs() - results.size() + (&result - results.data()), 0);
    if (result.inputs.size() > 1)
      patch(result.inputs[1], 0);
    parameter.bytes.resize(begin + count * sizeof(uint64_t));
  }

  plan::KernelOp kernel;
  FamilyUnit unit;
  KernelReader &r;
  std::vector<GemvResult> results;
  std::map<std::string, std::string> functions; ///< text with a blank for the name -> name
  std::string definitions;
  int64_t totalColumns = 0;
  llvm::MapVector<std::string, Group, std::map<std::string, unsigned>> groups;
};

} // namespace

Verdict acceptsGemv(dit::FusionOp fusion) {
  std::vector<GemvResult> results;
  return readGemv(fusion.getBodyBlock(), results);
}

FailureOr<CudaUnit> emitGemv(plan::KernelOp kernel, const CudaArch &) { return GemvEmitter(kernel).run(); }

} // namespace ditc
