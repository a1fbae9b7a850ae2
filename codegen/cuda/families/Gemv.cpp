// SPDX-License-Identifier: Apache-2.0
//
// Products of few rows with many weights: problems of one shape share a Config, and all share one launch.
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"

#include "dialects/Locations.h"
#include "dialects/dit/Dit.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kMaxRows = 16;
constexpr size_t kParameterBytes = 32764;          // of a kernel, since CUDA 12.1
constexpr int64_t kWarps = 8, kWarpColumns = 4;    // gemv.cuh
constexpr int64_t kInputBytes = 96 << 10;          // of x in shared memory; what is longer comes in parts

/// As it lies in device memory: gemv::Problem.
struct ProblemPointers {
  uint64_t input, weight, bias, output;
};

/// Arguments of one product.
struct Product {
  unsigned input, weight, output;
  std::optional<unsigned> bias;
  bool transposed; ///< the weight is [N, K]
};

/// Products of one Config.
struct Group {
  std::string config;
  std::vector<Product> products;
  int64_t blocksEach = 0, sharedBytes = 0;
};

std::optional<unsigned> argumentOf(Value value) {
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  return argument ? std::optional(argument.getArgNumber()) : std::nullopt;
}

MemRefType swapped(MemRefType type) {
  plan::Layout layout = plan::layoutOf(type);
  return plan::makeMemRef({type.getDimSize(1), type.getDimSize(0)}, type.getElementType(), {{layout.strides[1], layout.strides[0]}, 0});
}

class GemvEmitter {
public:
  explicit GemvEmitter(plan::KernelOp kernel) : kernel(kernel), unit(kernel), r(unit.read()) {}

  FailureOr<CudaUnit> run() {
    readProducts();
    if (r.failed())
      return unit.failure();
    for (const Product &product : products)
      totalColumns += r.type(product.output).getShape().back();
    for (const Product &product : products) {
      Group group = groupOf(product);
      if (r.failed())
        return unit.failure();
      Group &known = groups.insert({group.config, group}).first->second;
      known.products.push_back(product);
    }
    r.expect(products.size() * sizeof(ProblemPointers) <= kParameterBytes,
             llvm::Twine(products.size()) + " products in one launch, at most " + llvm::Twine(kParameterBytes / sizeof(ProblemPointers)) + " fit");
    if (r.failed())
      return unit.failure();
    return write();
  }

private:
  void readProducts() {
    r.expect(kernel.getBody().hasOneBlock(), "a gemv needs a body with one dit.matmul per product");
    if (r.failed())
      return;
    Block &body = kernel.getBody().front();
    auto yield = dyn_cast<dit::YieldOp>(body.getTerminator());
    unsigned inputs = body.getNumArguments(), outputs = r.outputs();
    r.expect(yield && yield.getValues().size() == outputs && inputs + outputs == r.numArgs(), "the body does not fit the arguments");
    for (Operation &op : body.without_terminator())
      r.expect(isa<dit::MatmulOp>(op), "the body holds '" + op.getName().getStringRef() + "'; only dit.matmul is allowed");
    for (unsigned i = 0; i < outputs && !r.failed(); ++i) {
      auto matmul = yield.getValues()[i].getDefiningOp<dit::MatmulOp>();
      std::optional<unsigned> lhs = matmul ? argumentOf(matmul.getLhs()) : std::nullopt, rhs = matmul ? argumentOf(matmul.getRhs()) : std::nullopt;
      std::optional<unsigned> bias = matmul ? argumentOf(matmul.getBias()) : std::nullopt;
      r.expect(lhs && rhs && (bias || !matmul.getBias()), "result " + llvm::Twine(i) + " is not a product of arguments");
      if (!r.failed())
        products.push_back({*lhs, *rhs, inputs + i, bias, matmul.getTransposeRhs()});
    }
    r.expect(r.failed() || !products.empty(), "no products");
  }

  Group groupOf(const Product &p) {
    MemRefType input = r.type(p.input), weight = r.type(p.weight), output = r.type(p.output);
    r.expect(isa<FloatType>(weight.getElementType()) && input.getElementType() == weight.getElementType() && isa<FloatType>(output.getElementType()),
             "a gemv needs floating-point arguments, input and weight of one type");
    r.expect(weight.getRank() == 2 && input.getRank() >= 2 && output.getRank() == input.getRank(), "a gemv needs weights of rank 2");
    if (r.failed())
      return {};
    if (!p.transposed)
      weight = swapped(weight); // [N, K]
    int64_t k = input.getShape().back(), n = output.getShape().back(), rows = k > 0 ? input.getNumElements() / k : 0;
    r.expect(rows >= 1 && rows <= kMaxRows, llvm::Twine(rows) + " rows; a gemv takes 1 to " + llvm::Twine(kMaxRows));
    r.expect(weight.getDimSize(0) == n && weight.getDimSize(1) == k, "the shapes of the product do not fit");
    if (r.failed())
      return {};
    bool alongK = plan::layoutOf(weight).strides[1] == 1;
    int64_t bytes = weight.getElementTypeBitWidth() / 8, compute = std::max<int64_t>(bytes, 4);
    int64_t chunk = std::min<int64_t>(llvm::alignTo(k, 256), kInputBytes / (compute * rows) / 256 * 256);
    std::string weightText = tensorTypeText(alongK ? weight : swapped(weight), unit.alignmentOf(p.weight));
    Group group;
    auto line = [&](StringRef name, unsigned arg) { return ("  using " + name + " = " + tensorTypeText(r.type(arg), unit.alignmentOf(arg)) + ";\n").str(); };
    group.config = line("Input", p.input) + "  using Weight = " + weightText + ";\n" + (p.bias ? line("Bias", *p.bias) : "  using Bias = void;\n") +
                   line("Output", p.output);
    group.config += "  static constexpr bool ALONG_K = " + std::string(alongK ? "true" : "false") + ";\n";
    group.config += "  static constexpr int K_CHUNK = " + std::to_string(chunk) + ", PASSES = " + std::to_string(passes()) + ";\n";
    int64_t laneColumns = laneColumnsOf(weight, unit.alignmentOf(p.weight), rows);
    group.blocksEach = llvm::divideCeil(n, alongK ? passes() * kWarps * kWarpColumns : 32 * laneColumns);
    group.sharedBytes = compute * rows * std::max(chunk, alongK ? 0 : kWarps * 32 * laneColumns);
    return group;
  }

  /// Blocks share the cost of bringing x to shared memory among more columns while there are enough of them to fill a
  /// large GPU several times.
  int64_t passes() const {
    constexpr int64_t kBlocksWanted = 4096;
    int64_t passes = 4;
    while (passes > 1 && totalColumns / (passes * kWarps * kWarpColumns) < kBlocksWanted)
      passes /= 2;
    return passes;
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
    int64_t blocks = 0, sharedBytes = 0;
    size_t problem = 0;
    for (auto [i, entry] : llvm::enumerate(groups)) {
      const Group &group = entry.second;
      int64_t next = blocks + group.blocksEach * group.products.size();
      std::string name = "Config" + std::to_string(i);
      structs += llvm::formatv("/// {0} products\nstruct {1} {{\n{2}};\n\n", group.products.size(), name, group.config);
      std::string guard = i + 1 < groups.size() ? "if (block < " + std::to_string(next) + ") " : "";
      calls += llvm::formatv("  {0}{1}gemv::run<{2}>(params.problems + {3}, block - {4});\n", i ? "else " : "", guard, name, problem, blocks);
      for (const Product &product : group.products)
        addPointers(parameter, product);
      problem += group.products.size();
      blocks = next;
      sharedBytes = std::max(sharedBytes, group.sharedBytes);
    }
    r.expect(blocks < int64_t(1) << 31, "needs too many blocks");
    if (r.failed())
      return unit.failure();
    result.parameters.push_back(std::move(parameter));
    std::string path = writeNodeName(nameOf(kernel.getLoc()));
    result.text = "// gemv" + (path.empty() ? "" : " of " + path) + "\n#include \"gemv.cuh\"\n\nusing namespace ditc;\n\n" + structs +
                  "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(32 * kWarps) + ")\n" + kernel.getSymName().str() +
                  "(const __grid_constant__ gemv::Params<" + std::to_string(products.size()) +
                  "> params) {\n  int block = blockIdx.x;\n  followPreviousKernel();\n" + calls + "}\n";
    result.launch = {
        .grid = {static_cast<uint32_t>(blocks), 1, 1}, .threads = 32 * kWarps, .sharedBytes = static_cast<uint32_t>(sharedBytes), .overlapsPrevious = true};
    return result;
  }

  static void addPointers(cuda::KernelParameter &parameter, const Product &product) {
    auto patch = [&](std::optional<unsigned> arg) {
      if (arg)
        parameter.patches.push_back({static_cast<uint32_t>(parameter.bytes.size()), cuda::PointerPatch{*arg, 0}});
      parameter.bytes.resize(parameter.bytes.size() + sizeof(uint64_t));
    };
    patch(product.input);
    patch(product.weight);
    patch(product.bias);
    patch(product.output);
  }

  plan::KernelOp kernel;
  FamilyUnit unit;
  KernelReader &r;
  std::vector<Product> products;
  int64_t totalColumns = 0;
  llvm::MapVector<std::string, Group, std::map<std::string, unsigned>> groups;
};

} // namespace

FailureOr<CudaUnit> emitGemv(plan::KernelOp kernel, const CudaArch &) { return GemvEmitter(kernel).run(); }

} // namespace ditc
