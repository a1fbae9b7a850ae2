// SPDX-License-Identifier: Apache-2.0
//
// What a kernel hands to its template: one constant structure per family, with every shape, stride and option.
// Both sides include this file: the compiler fills the structures, the templates (built as bitcode) read them.
// Every field has 8 bytes, so that a structure is also an array of words. Strides count elements.
#pragma once

#ifdef __cplusplus
#include <stdint.h>
#endif

namespace ditc {

enum ElementCode : int64_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool, kF8 };
enum ReduceCode : int64_t { kSum, kMean, kProd, kMax, kMin, kAny, kAll };

constexpr int kMaxLoops = 8;    ///< dimensions that remain after merging
constexpr int kMaxOperands = 4; ///< arguments that a nest walks at once

/// Loops, outermost first, over up to four arguments; `stride[k]` is how far argument k moves. Loops of
/// size 1 are left out and neighbours that walk like one are merged, so the last loop is the longest run.
struct Nest {
  int64_t rank;
  int64_t size[kMaxLoops];
  int64_t stride[kMaxLoops][kMaxOperands];
};

constexpr int64_t kNormRow = 4096; ///< longest row that ditc_norm_short takes

struct NormDescriptor {
  int64_t type_x, type_weight, type_bias, type_out;
  int64_t arg_weight, arg_bias, arg_out; ///< positions among the arguments; -1 when absent
  int64_t rms;
  int64_t count; ///< elements that are normalised together
  double eps;
  Nest rows;  ///< x, out
  Nest inner; ///< x, weight, bias, out
};

struct ReduceDescriptor {
  int64_t type_in, type_out, kind, count;
  Nest kept;    ///< in, out
  Nest reduced; ///< in
};

/// arg_reduce, scan and sort work along one axis.
struct AxisDescriptor {
  int64_t type_in, type_out, kind, descending;
  int64_t size;      ///< length of the axis
  int64_t stride[3]; ///< along the axis: in, out (values), indices
  Nest outer;        ///< in, out (values), indices
};

struct AttentionDescriptor {
  int64_t type_q, type_k, type_v, type_mask, type_out;
  int64_t arg_mask, arg_out; ///< positions among the arguments; -1 when absent
  int64_t before, after; ///< keys that a query sees beside its own; large when all
  double scale, soft_cap; ///< scores s become soft_cap · tanh(s / soft_cap) when that is above 0
  int64_t batch, heads, key_heads, queries, keys, dim, value_dim;
  int64_t stride_q[4], stride_k[4], stride_v[4], stride_mask[4], stride_out[4];
};

struct ConvDescriptor {
  int64_t type_in, type_filter, type_bias, type_out;
  int64_t arg_bias, arg_out;
  int64_t batch, groups, in_channels, out_channels; ///< channels of one group
  int64_t in_size[3], window[3], out_size[3], step[3], padding[3], dilation[3]; ///< missing dimensions have size 1
  int64_t stride_in[5], stride_filter[5], stride_bias, stride_out[5];
  int64_t filter_step; ///< stride of one filter's elements in the order (channel, window); 0 when they have none
};

struct GatherDescriptor {
  int64_t element_bytes, type_index;
  int64_t table_size, table_stride;
  Nest outer;   ///< table, out: dimensions before the axis
  Nest indices; ///< indices, out
  Nest inner;   ///< table, out: dimensions behind the axis
};

struct ScatterDescriptor {
  int64_t type, element_bytes, type_index, add;
  int64_t table_size, table_stride; ///< of the output
  int64_t updates, index_stride, update_stride;
  Nest copy;  ///< base, out
  Nest inner; ///< updates, out: one row
};

struct MatmulDescriptor {
  int64_t type_a, type_b, type_out;
  int64_t m, n, k;
  int64_t stride_a[2], stride_b[2], stride_out[2]; ///< of the last two dimensions
  Nest batch;                                      ///< a, b, out
};

struct PadDescriptor {
  int64_t element_bytes, value; ///< the bits of the border
  int64_t offset;               ///< element of the output where the input's first lands
  Nest border;                  ///< out
  Nest inside;                  ///< in, out
};

} // namespace ditc
