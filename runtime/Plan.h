// SPDX-License-Identifier: Apache-2.0
//
// The launch plan of one bucket: plan.json as structs. The compiler fills them and writes them into a
// package, the runtime reads them back. A plan is data from a file that somebody handed over, so nothing
// of it is used before `validatePlan` has checked every index, offset and size; docs/package-format.md
// describes the fields.
#pragma once

#include "runtime/DType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ditc {

/// An input or output of one bucket: dense, row-major, with the bucket's numbers as sizes.
struct PortDesc {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;

  /// Product of the sizes times the element's bytes. Throws Error (Input) on a negative size or overflow.
  uint64_t bytes() const;
};

/// An input whose values are compiled in. A caller may leave it out; one that is handed over must have
/// this type, shape and content (XXH3-128 of the dense bytes, 32 hex digits; empty: content not checked).
struct PinnedInput : PortDesc {
  std::string xxh128;
};

/// Where a buffer's bytes live.
enum class Space : uint8_t {
  Input,    ///< the caller's memory, inputs[index]
  Output,   ///< the caller's memory, outputs[index]
  Weight,   ///< the weight called `name`, shared by all buckets
  Constant, ///< the package member called `name`
  Prepared, ///< filled once per set of weights by the prepare ops, then read-only
  Arena,    ///< scratch of one context, undefined between runs
  Zeroed,   ///< scratch of one context, zero before the first run, and again whenever a kernel has used it
};

struct PlanBuffer {
  Space space = Space::Arena;
  uint32_t index = 0;  ///< Input, Output
  std::string name;    ///< Weight: its name; Constant: the package member
  uint64_t offset = 0; ///< Prepared, Arena, Zeroed: bytes from the start of the space
  uint64_t bytes = 0;  ///< all but Input and Output, whose sizes follow from the port
};

/// A byte offset into plan.buffers[buffer].
struct PlanPointer {
  uint32_t buffer = 0;
  uint64_t offset = 0;
};

/// Calls `void kernel(char *const *args)`; shapes are compiled in, the last arguments are the outputs.
struct LaunchOp {
  uint32_t kernel = 0; ///< index into plan.kernels
  std::vector<PlanPointer> args;
};

/// One operand of a GemmOp: a stored row-major matrix per batch element.
struct GemmOperand {
  PlanPointer at;
  int64_t rowStride = 0;              ///< elements between rows of the stored matrix
  bool transposed = false;            ///< the stored matrix is the transpose of the operand (a and b only)
  std::vector<int64_t> batchStrides;  ///< elements per batch dimension, 0 repeats the matrix (a and b only)
};

/// Row-major C[i] = op(A[i]) * op(B[i]) + bias, op(A) m x k, op(B) k x n, for every index i of the batch. k = 0
/// gives zeros (or the bias). Sums are f32, of f64 in f64. bf16, f16 and a bias are for CUDA only.
struct GemmOp {
  DType dtype = DType::f32; ///< of operands and product: f32, f64, bf16 or f16
  int64_t m = 0, n = 0, k = 0;
  std::vector<int64_t> batch; ///< sizes of the batch dimensions, possibly none
  GemmOperand a, b, c;
  std::optional<PlanPointer> bias = {}; ///< [n], added to each row
};

struct CopyOp {
  PlanPointer src, dst;
  uint64_t bytes = 0;
};

/// What a launch moves and computes at least, for profiles; zeros when it is not known.
struct LaunchWork {
  double bytes = 0;
  double matrixFlops = 0; ///< of products, attention and convolutions of numbers of 16 or 8 bits
  double scalarFlops = 0;
  double fp8Flops = 0;    ///< of matrixFlops, those on fp8 numbers, which run at twice the rate
};

struct PlanOp {
  std::variant<LaunchOp, GemmOp, CopyOp> body;
  std::string where;    ///< module path or FX node, for profiles and messages
  LaunchWork work = {}; ///< of a launch
};

struct Plan {
  uint64_t arenaBytes = 0;
  uint64_t preparedBytes = 0;
  uint64_t zeroedBytes = 0;
  std::vector<PortDesc> inputs;
  std::vector<PortDesc> outputs;
  std::vector<PinnedInput> pinned;
  std::vector<PlanBuffer> buffers;
  std::vector<std::string> kernels; ///< symbols of the target's object
  std::vector<PlanOp> prepare;      ///< weights, constants, arena -> prepared
  std::vector<PlanOp> step;         ///< one run
};

inline constexpr int kPlanVersion = 1;

/// Equal plans give equal text.
std::string writePlan(const Plan &plan);

/// Parses and validates. `source` names the file in messages. Throws Error (Input): not JSON, another
/// version, a missing or misfit field, or what validatePlan refuses.
Plan parsePlan(std::string_view text, std::string_view source);

/// Throws Error (Input) unless every index, offset and size fits: pointers within their buffers, buffers
/// within their spaces, whole gemm operands and copies within their buffers, no op writes a weight, a
/// constant or an input, prepare ops touch no input or output, step ops do not write prepared memory.
void validatePlan(const Plan &plan, std::string_view source);

/// Size of plan.buffers[index]; for inputs and outputs the size of the port.
uint64_t bufferBytes(const Plan &plan, size_t index);

/// "input", "weight", ...: the spelling in plan.json.
std::string_view nameOf(Space space);

} // namespace ditc
