// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/rowwise/Rowwise.h"

#include "codegen/cuda/ScalarText.h"
#include "codegen/cuda/rowwise/Emitter.h"
#include "dialects/Locations.h"

#include "llvm/ADT/StringExtras.h"

#include <array>

using namespace mlir;

namespace ditc {

using namespace rowwise;

/// A statistic may be computed this often before it is cheaper to store it.
constexpr double kMostRecomputation = 4;
/// Widenings of rowwise.cuh.
constexpr std::array<uint32_t, 12> kWidenings = {16, 0xffff0000, ~0u, 16, 0xffff0000, ~0u, 16, 0xffff0000, ~0u, 16, 0xffff0000, ~0u};
/// Module paths that the comment on top of a unit lists.
constexpr size_t kMostNames = 6;

/// The first operation that no rowwise kernel has.
static Verdict acceptsOperations(Block &body) {
  for (Operation &op : body.without_terminator()) {
    if (!isa<dit::MapOp, dit::NormOp, dit::ReduceOp, dit::GatherOp, dit::ViewOp, dit::PermuteOp, dit::SliceOp, dit::ConcatOp, dit::PadOp, dit::ExpandOp,
             dit::ConstantOp>(op))
      return {Reason::NoSlot, op.getNumResults() > 0 ? op.getResult(0) : Value()};
    if (auto map = dyn_cast<dit::MapOp>(op); map && firstUnprintableScalar(map.getBodyBlock()))
      return {Reason::TypeUnsupported, map.getResult()};
    if (auto constant = dyn_cast<dit::ConstantOp>(op)) {
      auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!values || (!values.isSplat() && values.getNumElements() > kLargestTable))
        return {Reason::NoSlot, constant.getResult()};
    }
  }
  return {};
}

Verdict acceptsRowwise(Block &body) {
  if (Verdict verdict = acceptsOperations(body); !verdict)
    return verdict;
  Problem problem = Problem::of(body);
  for (const Part &part : findParts(problem))
    if (recomputation(problem, part) > kMostRecomputation)
      return {Reason::CrossesRows, problem.result(part.outputs.front().output)};
  return {};
}

//===-- The unit ------------------------------------------------------------------------------------===//

namespace {

struct EmittedPart {
  std::string text;
  int64_t blocks;
};

std::string headComment(plan::KernelOp kernel, const Problem &problem) {
  std::vector<std::string> names;
  for (Operation &op : problem.body->without_terminator())
    for (const NodeName &node : namesOf(op.getLoc()))
      if (std::string name = writeNodeName(node); !llvm::is_contained(names, name))
        names.push_back(name);
  std::string text = "// " + kernel.getSymName().str() + ", a rowwise kernel\n";
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += "//   " + names[i] + "\n";
  if (names.size() > kMostNames)
    text += "//   and " + std::to_string(names.size() - kMostNames) + " more\n";
  return text;
}

std::string describe(const Part &part) {
  if (!part.hasRows)
    return "// " + std::to_string(part.columns) + " elements, " + std::to_string(part.width) + " in a thread\n";
  return "// " + std::to_string(part.rows) + " rows of " + std::to_string(part.longestRow) + ": " + std::to_string(part.group) +
         (part.group > 1 ? " threads" : " thread") + " a row, chunks of " + std::to_string(chunkWidth(part.longestRow, part.width)) + "\n";
}

std::string indented(const std::string &text, size_t depth) {
  std::string result, indent(depth, ' ');
  for (StringRef rest = text; !rest.empty();) {
    auto [line, tail] = rest.split('\n');
    result += line.empty() ? "\n" : indent + line.str() + "\n";
    rest = tail;
  }
  return result;
}

/// Emits all parts, with narrower chunks where wide ones do not work. Nothing when single elements do not work either.
std::optional<std::vector<EmittedPart>> emitParts(const Problem &problem, std::vector<Part> &parts, Declarations &declarations,
                                                  SmallVectorImpl<Argument> &arguments, int64_t &threads, bool &usesShared) {
  for (;;) {
    threads = chooseThreads(parts);
    declarations = {};
    usesShared = false;
    std::vector<EmittedPart> emitted;
    for (Part &part : parts) {
      Emitter emitter(problem, declarations, arguments);
      std::optional<std::string> text = emitter.emit(part, threads, usesShared);
      if (!text && part.width == 1)
        return std::nullopt;
      if (!text) {
        part.width /= 2;
        break;
      }
      if (std::optional<Part> wider = withOneChunk(part); wider && !emitter.mixesRounds()) {
        Emitter again(problem, declarations, arguments);
        if (std::optional<std::string> better = again.emit(*wider, threads, usesShared)) {
          part = *wider;
          text = better;
        }
      }
      int64_t units = part.hasRows ? part.rows : part.columns / part.width, perBlock = part.hasRows ? threads / part.group * part.rowsEach : threads;
      emitted.push_back({*text, (units + perBlock - 1) / perBlock});
    }
    if (emitted.size() == parts.size())
      return emitted;
  }
}

/// Behind the parenthesis that closes the one before `at`.
size_t afterParenthesis(StringRef code, size_t at) {
  for (int depth = 1; depth > 0; ++at)
    depth += code[at] == '(' ? 1 : code[at] == ')' ? -1 : 0;
  return at;
}

/// The functions of maps with those of rowwise.cuh instead of the library's tanh, which branches; in GELU it is 1 + tanh.
std::string withoutBranches(std::string functions) {
  constexpr StringRef name = "tanhf(", one = " + 1.0f)";
  for (size_t at = 0; (at = functions.find(name, at)) != std::string::npos; ++at) {
    if (llvm::isAlnum(functions[at - 1])) // atanhf
      continue;
    size_t end = afterParenthesis(functions, at + name.size());
    bool isOnePlus = functions[at - 1] == '(' && StringRef(functions).substr(end).starts_with(one);
    if (isOnePlus)
      functions.erase(end, one.size() - 1);
    functions.replace(at, name.size(), isOnePlus ? "onePlusTanh(" : "hyperbolicTangent(");
    at = functions.find('(', at);
  }
  return functions;
}

/// A part whose blocks start at `first`.
std::string withBlock(const Part &part, const EmittedPart &emitted, int64_t first) {
  std::string block = "const Index block = blockIdx.x" + (first ? " - " + std::to_string(first) : std::string()) + ";\n";
  bool usesBlock = emitted.text.find(" block") != std::string::npos;
  return describe(part) + (usesBlock ? block : "") + emitted.text;
}

/// The parts, each for its range of blocks.
std::string chooseByBlock(ArrayRef<Part> parts, ArrayRef<EmittedPart> emitted) {
  if (parts.size() == 1)
    return withBlock(parts[0], emitted[0], 0);
  std::string text;
  int64_t first = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    int64_t end = first + emitted[i].blocks;
    std::string head = i + 1 < parts.size() ? "if (blockIdx.x < " + std::to_string(end) + ") {" : "{";
    text += (i ? " else " : "") + head + "\n" + indented(withBlock(part, emitted[i], first), 2) + "}";
    first = end;
  }
  return text + "\n";
}

} // namespace

FailureOr<CudaUnit> emitRowwise(plan::KernelOp kernel, const CudaArch &arch) {
  FailureOr<Problem> problem = Problem::read(kernel);
  if (failed(problem))
    return failure();
  if (Verdict verdict = acceptsOperations(*problem->body); !verdict)
    return kernel.emitOpError("a rowwise kernel cannot compute ") << verdict.operand << ": " << std::string(explain(verdict.reason));
  std::vector<Part> parts = findParts(*problem);
  Declarations declarations;
  SmallVector<Argument> arguments = problem->inputs;
  llvm::append_range(arguments, problem->outputs);
  bool usesShared = false;
  int64_t threads = 32;
  std::optional<std::vector<EmittedPart>> emitted = emitParts(*problem, parts, declarations, arguments, threads, usesShared);
  if (!emitted)
    return kernel.emitOpError("the rowwise emitter found no code for this body");

  CudaUnit unit;
  int64_t blocks = 0;
  for (const EmittedPart &part : *emitted)
    blocks += part.blocks;
  if (blocks > INT32_MAX)
    return kernel.emitOpError("needs ") << blocks << " blocks, more than a launch has";
  unit.launch.grid[0] = std::max<int64_t>(blocks, 1);
  unit.launch.threads = threads;
  unit.launch.overlapsPrevious = gainsByOverlap(0, argumentBytes(kernel));
  std::string parameters, moves;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    if (!argument.used)
      continue;
    unit.addPointer(i);
    bool isInput = i < problem->inputs.size();
    parameters += parameters.empty() ? "" : ",\n    ";
    parameters += std::string(isInput ? "const " : "") + elementName(argument.element) + " *__restrict__ " + argument.name;
    if (isInput && unit.launch.overlapsPrevious)
      moves += (moves.empty() ? "const int nothing = nothingYet();\n" : "") + argument.name + " += nothing;\n";
  }
  if (llvm::any_of(*emitted, [](const EmittedPart &part) { return part.text.find("widening.") != std::string::npos; })) {
    unit.addValue(kWidenings);
    parameters += ",\n    const Widenings widening";
  }
  unit.bounds = {static_cast<int>(threads), static_cast<int>(residentBlocks(parts, threads))};
  std::string body = usesShared ? "__shared__ double shared[2][32];\n" : "";
  body += "followPreviousKernel();\n" + moves + (emitted->empty() ? "" : chooseByBlock(parts, *emitted));
  unit.text = headComment(kernel, *problem) + "#include \"rowwise.cuh\"\n\nusing namespace ditc;\n";
  unit.text += std::string("using Index = ") + (problem->needsWideIndices() ? "long long" : "int") + ";\n\n";
  if (!declarations.text().empty())
    unit.text += withoutBranches(declarations.text()) + "\n";
  unit.text += "extern \"C\" __global__ void " + unit.bounds.text() + "\n" + kernel.getSymName().str() + "(\n    " + parameters + ") {\n" +
               indented(body, 2) + "}\n";
  return unit;
}

} // namespace ditc
