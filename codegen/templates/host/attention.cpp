// SPDX-License-Identifier: Apache-2.0
//
// Exact attention of floats; attention_kernel.h has the algorithm.
#include "attention_kernel.h"

namespace ditc {

extern "C" void ditc_attention_f32(char *const *args, const AttentionDescriptor *d, char *scratch) { Attention<float>(args, *d, scratch).run(); }
extern "C" void ditc_attention_f64(char *const *args, const AttentionDescriptor *d, char *scratch) { Attention<double>(args, *d, scratch).run(); }

} // namespace ditc
