// SPDX-License-Identifier: Apache-2.0
//
// Positions in three spatial dimensions, which are the last three of a Tensor of rank 5.
#pragma once

#include "common/tensor.cuh"

namespace ditc::conv {

struct Place {
  int z, y, x;
};

/// Position `index` of the last three dimensions.
template <class T>
__device__ inline Place placeOf(int index) {
  constexpr int X = T::size(4), Y = T::size(3);
  return {index / X / Y, index / X % Y, index % X};
}

}  // namespace ditc::conv
