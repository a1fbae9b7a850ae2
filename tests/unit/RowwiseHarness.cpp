// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/RowwiseHarness.h"

#include "codegen/cuda/rowwise/Rowwise.h"
#include "dialects/reference/Evaluate.h"
#include "tests/cuda_emulator/run_unit.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <random>
#include <sstream>

using namespace mlir;

namespace ditc::test {
namespace {

class Case {
public:
  Case(const std::string &function, const RowwiseOptions &options) : options(options), context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<dit::DitDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(function, &context);
    if (module)
      source = *module->getOps<func::FuncOp>().begin();
  }

  bool parsed() const { return static_cast<bool>(module); }

  plan::KernelOp makeKernel();
  void makeArguments();
  std::string runAndCompare(const CudaUnit &unit);

  const RowwiseOptions &options;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp source;
  std::vector<MemRefType> types;
  SmallVector<dit::TensorValue> arguments;

private:
  MemRefType layoutOf(unsigned i, Type type);
  plan::Layout scrambled(ArrayRef<int64_t> shape, bool isOutput);
  std::string compare(const dit::TensorValue &expected, const dit::TensorValue &actual, size_t output) const;
};

/// Dimensions in any order in memory, gaps between them, and for inputs some that repeat.
plan::Layout Case::scrambled(ArrayRef<int64_t> shape, bool isOutput) {
  std::mt19937 random(options.seed * 31 + types.size());
  SmallVector<size_t> order = llvm::to_vector(llvm::seq<size_t>(0, shape.size()));
  if (random() % 3 == 0)
    std::shuffle(order.begin(), order.end(), random);
  plan::Layout layout{SmallVector<int64_t>(shape.size(), 1), 0};
  int64_t stride = random() % 5 == 0 ? 2 : 1;
  for (size_t dim : llvm::reverse(order)) {
    bool repeats = !isOutput && random() % 6 == 0;
    layout.strides[dim] = repeats ? 0 : stride;
    if (!repeats)
      stride *= shape[dim];
    if (random() % 4 == 0)
      stride += random() % 2 ? 8 : 3;
  }
  return layout;
}

MemRefType Case::layoutOf(unsigned i, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  plan::Layout layout{plan::contiguousStrides(tensor.getShape()), 0};
  if (options.scramble)
    layout = scrambled(tensor.getShape(), i >= source.getNumArguments());
  if (auto found = options.strides.find(i); found != options.strides.end())
    layout.strides.assign(found->second.begin(), found->second.end());
  return plan::makeMemRef(tensor.getShape(), tensor.getElementType(), layout);
}

plan::KernelOp Case::makeKernel() {
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  FunctionType type = source.getFunctionType();
  SmallVector<Attribute> attrs;
  for (Type argument : llvm::concat<const Type>(type.getInputs(), type.getResults())) {
    types.push_back(layoutOf(types.size(), argument));
    attrs.push_back(TypeAttr::get(types.back()));
  }
  SmallVector<NamedAttribute> config;
  if (options.aligned)
    config.push_back({b.getStringAttr("alignments"), b.getDenseI64ArrayAttr(SmallVector<int64_t>(types.size(), 16))});
  if (options.keepRoundings)
    config.push_back({b.getStringAttr("keep_roundings"), b.getUnitAttr()});
  auto kernel = plan::KernelOp::create(b, source.getLoc(), b.getStringAttr("rowwise_case"), b.getStringAttr("rowwise"), b.getArrayAttr(attrs),
                                       b.getI64IntegerAttr(type.getNumResults()), b.getDictionaryAttr(config));
  IRMapping mapping;
  source.getBody().cloneInto(&kernel.getBody(), mapping);
  Operation *end = kernel.getBody().front().getTerminator();
  b.setInsertionPoint(end);
  dit::YieldOp::create(b, end->getLoc(), end->getOperands());
  end->erase();
  return kernel;
}

double anyFloat(std::mt19937 &random, bool special) {
  static const double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, INFINITY, -INFINITY, NAN, 3e38, -1e-40, 100.0, 7.25, 1e19, -1e19};
  return special && random() % 3 ? kSpecial[random() % std::size(kSpecial)] : std::normal_distribution<double>(0, 1)(random);
}

int64_t anyInteger(std::mt19937 &random, bool special) {
  static const int64_t kSpecial[] = {0, 1, -1, 2, 3, -3, INT64_MIN, INT64_MAX, 62, 63, 64, 65, 1000, -7};
  return special && random() % 3 ? kSpecial[random() % std::size(kSpecial)] : int64_t(random() % 21) - 5;
}

/// Floats near 1 in size, small integers, coins; with `special` values that break things.
void Case::makeArguments() {
  std::mt19937 random(options.seed);
  for (Type type : source.getFunctionType().getInputs()) {
    auto tensor = cast<RankedTensorType>(type);
    Type element = tensor.getElementType();
    SmallVector<Attribute> values;
    Builder b(&context);
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      if (auto number = dyn_cast<FloatType>(element))
        values.push_back(FloatAttr::get(number, anyFloat(random, options.special)));
      else if (element.isInteger(1))
        values.push_back(b.getBoolAttr(random() & 1));
      else
        values.push_back(IntegerAttr::get(element, APInt(64, anyInteger(random, options.special), true).sextOrTrunc(element.getIntOrFloatBitWidth())));
    }
    arguments.push_back(dit::fromElements(DenseElementsAttr::get(tensor, values)));
  }
}

int64_t bytesFor(MemRefType type) {
  plan::Layout layout = plan::layoutOf(type);
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), layout.strides))
    last += std::max<int64_t>(size - 1, 0) * stride;
  return (last + 1) * dit::elementBytes(type.getElementType());
}

/// Calls `visit(row-major number, offset)` for all elements.
template <typename Visit> void forEachElement(MemRefType type, Visit visit) {
  plan::Layout layout = plan::layoutOf(type);
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t rest = i, offset = 0;
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      offset += rest % type.getDimSize(dim) * layout.strides[dim];
      rest /= type.getDimSize(dim);
    }
    visit(i, offset);
  }
}

std::string Case::compare(const dit::TensorValue &expected, const dit::TensorValue &actual, size_t output) const {
  Type element = expected.type.getElementType();
  double tolerance = options.tolerance;
  if (tolerance == 0)
    tolerance = element.isF64()    ? 1e-9
                : element.isF32()  ? 3e-5
                : element.isF16()  ? (options.keepRoundings ? 2e-3 : 6e-3)
                : element.isBF16() ? (options.keepRoundings ? 1e-2 : 4e-2)
                                   : 0;
  int64_t wrong = 0;
  std::ostringstream text;
  for (int64_t i = 0; i < expected.type.getNumElements(); ++i) {
    double want = expected.at(i), got = actual.at(i);
    bool same = want == got || (std::isnan(want) && std::isnan(got)) || std::abs(want - got) <= tolerance * (1 + std::abs(want));
    if (!same && wrong++ < 4)
      text << "output " << output << " element " << i << ": " << got << ", expected " << want << "; ";
  }
  if (wrong)
    text << wrong << " of " << expected.type.getNumElements() << " differ";
  return text.str();
}

std::string Case::runAndCompare(const CudaUnit &unit) {
  makeArguments();
  std::vector<std::unique_ptr<emulator::GuardedMemory>> memory;
  std::vector<void *> addresses;
  for (auto [i, type] : llvm::enumerate(types)) {
    memory.push_back(std::make_unique<emulator::GuardedMemory>(bytesFor(type)));
    addresses.push_back(memory.back()->data());
    int64_t size = dit::elementBytes(type.getElementType());
    if (i < arguments.size())
      forEachElement(type, [&, i = i](int64_t number, int64_t offset) {
        std::memcpy(memory.back()->as<uint8_t>() + offset * size, arguments[i].bytes->data() + number * size, size);
      });
  }
  for (size_t i = 0; i < arguments.size(); ++i) { // what lies there: repeated dimensions were written several times
    arguments[i] = dit::TensorValue::zeros(arguments[i].type);
    int64_t size = dit::elementBytes(types[i].getElementType());
    forEachElement(types[i], [&](int64_t number, int64_t offset) {
      std::memcpy(arguments[i].bytes->data() + number * size, memory[i]->as<uint8_t>() + offset * size, size);
    });
  }
  auto expected = dit::evaluateFunction(source, arguments, [](StringRef) { return dit::TensorValue(); });
  if (failed(expected))
    return "the reference cannot evaluate it";
  emulator::EmulatedUnit compiled(unit.text, std::string(DITC_SOURCE_DIR) + "/codegen/templates/cuda");
  compiled.launch("rowwise_case", unit.launch, unit.parameters, addresses);
  std::string problems;
  for (size_t k = 0; k < expected->size(); ++k) {
    MemRefType type = types[arguments.size() + k];
    int64_t size = dit::elementBytes(type.getElementType());
    dit::TensorValue actual = dit::TensorValue::zeros((*expected)[k].type);
    forEachElement(type, [&](int64_t number, int64_t offset) {
      std::memcpy(actual.bytes->data() + number * size, memory[arguments.size() + k]->as<uint8_t>() + offset * size, size);
    });
    problems += compare((*expected)[k], actual, k);
  }
  return problems;
}

} // namespace

static RowwiseOutcome outcomeOf(const std::string &function, const RowwiseOptions &options, bool run) {
  Case one(function, options);
  if (!one.parsed())
    return {"", "the case does not parse", 0, 0};
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&one.context, [&](Diagnostic &diagnostic) { diagnostics += diagnostic.str(); });
  FailureOr<CudaUnit> unit = emitRowwise(one.makeKernel(), {"sm_80", 80});
  if (failed(unit))
    return {"", "refused: " + diagnostics, 0, 0};
  RowwiseOutcome outcome{unit->text, "", unit->launch.threads, unit->launch.grid[0]};
  if (unit->text.find("void " + unit->bounds.text()) == std::string::npos) // what is compiled again after a spill replaces them
    outcome.problem = "its text has no " + unit->bounds.text();
  if (!run || !outcome.problem.empty())
    return outcome;
  try {
    outcome.problem = one.runAndCompare(*unit);
  } catch (const std::exception &error) {
    outcome.problem = error.what();
  }
  return outcome;
}

RowwiseOutcome runRowwise(const std::string &function, const RowwiseOptions &options) { return outcomeOf(function, options, true); }
RowwiseOutcome emitRowwiseUnit(const std::string &function, const RowwiseOptions &options) { return outcomeOf(function, options, false); }

std::string rowwiseVerdict(const std::string &function) {
  RowwiseOptions options;
  Case one(function, options);
  return one.parsed() ? std::string(nameOf(acceptsRowwise(one.makeKernel().getBody().front()).reason)) : "does not parse";
}

} // namespace ditc::test
