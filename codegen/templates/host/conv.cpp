// SPDX-License-Identifier: Apache-2.0
//
// Convolution with one to three spatial dimensions (missing ones have size 1), as a product of blocks:
//
//   out[o, x] = bias[o] + Σ_k filter[o, k] · patch[k, x]     k runs over channel and window, x over positions
//   patch[(c, w), x] = in[c, x · step + w · dilation - padding], 0 outside the input
//
// Layout: any strides. For kPositions positions and up to kChannels output channels, patches are gathered in pieces
// of kDepth rows and the filter is read in pieces of kFilterRows rows; both are dense blocks of the compute type.
// Accuracy: sums in the compute type, in the order of k, with fused multiply-adds.
#include "block_product.h"
#include "blocks.h"

namespace ditc {
namespace {

constexpr int64_t kPositions = 64, kChannels = 256, kDepth = 128, kFilterRows = 16;

/// A position in the three spatial dimensions, or in the window.
struct Place {
  int64_t at[3];
};

inline Place placeOf(int64_t index, const int64_t *size) { return {{index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]}}; }

template <class T> class Conv {
public:
  Conv(char *const *args, const ConvDescriptor &d)
      : d(d), in(args[0]), filter(args[1]), bias(d.arg_bias < 0 ? nullptr : args[d.arg_bias]), out(args[d.arg_out]),
        positions(d.out_size[0] * d.out_size[1] * d.out_size[2]), window(d.window[0] * d.window[1] * d.window[2]), depth(d.in_channels * window) {}

  void run() {
    for (int64_t n = 0; n < d.batch; ++n)
      for (int64_t g = 0; g < d.groups; ++g)
        for (int64_t x = 0; x < positions; x += kPositions)
          for (int64_t o = 0; o < d.out_channels; o += kChannels)
            runTile(n, g, x, smaller(kPositions, positions - x), o, smaller(kChannels, d.out_channels - o));
  }

private:
  void runTile(int64_t n, int64_t g, int64_t x, int64_t count, int64_t o, int64_t channels) {
    T sum[kChannels * kPositions], patches[kDepth * kPositions];
    int64_t first = g * d.out_channels + o;
    for (int64_t r = 0; r < channels; ++r) {
      T start = bias ? biasOf(first + r) : T(0);
      for (int64_t i = 0; i < kPositions; ++i)
        sum[r * kPositions + i] = start;
    }
    for (int64_t k = 0; k < depth; k += kDepth) {
      int64_t rows = smaller(kDepth, depth - k);
      gatherPatches(patches, n, g, x, count, k, rows);
      for (int64_t r = 0; r < channels; r += kFilterRows)
        multiplyFilter(sum + r * kPositions, patches, first + r, smaller(kFilterRows, channels - r), k, rows);
    }
    for (int64_t r = 0; r < channels; ++r)
      storePositions(sum + r * kPositions, n, first + r, x, count);
  }

  T biasOf(int64_t channel) {
    T value;
    loadBlock(&value, elementAt(bias, d.type_bias, channel * d.stride_bias), 1, 1, d.type_bias);
    return value;
  }

  void gatherPatches(T *patches, int64_t n, int64_t g, int64_t x, int64_t count, int64_t k, int64_t rows) {
    for (int64_t p = 0; p < rows; ++p) {
      int64_t channel = g * d.in_channels + (k + p) / window;
      Place w = placeOf((k + p) % window, d.window);
      T *row = patches + p * kPositions;
      int64_t base = n * d.stride_in[0] + channel * d.stride_in[1];
      for (int64_t i = 0; i < count;) {
        Place place = placeOf(x + i, d.out_size);
        int64_t run = smaller(count - i, d.out_size[2] - place.at[2]); // positions of one output row
        gatherRun(row + i, base, w, place, run);
        i += run;
      }
      for (int64_t i = count; i < kPositions; ++i)
        row[i] = 0;
    }
  }

  int64_t inputIndex(int dim, const Place &w, const Place &place) { return place.at[dim] * d.step[dim] + w.at[dim] * d.dilation[dim] - d.padding[dim]; }

  /// `run` positions along the last dimension, zeros where the window reaches outside.
  void gatherRun(T *row, int64_t base, const Place &w, const Place &place, int64_t run) {
    int64_t y = inputIndex(0, w, place), z = inputIndex(1, w, place), start = inputIndex(2, w, place), step = d.step[2];
    bool inside = y >= 0 && y < d.in_size[0] && z >= 0 && z < d.in_size[1];
    int64_t before = start < 0 ? smaller((-start + step - 1) / step, run) : 0;
    int64_t end = start < d.in_size[2] ? smaller((d.in_size[2] - start + step - 1) / step, run) : 0;
    if (!inside || end < before)
      before = end = 0;
    for (int64_t i = 0; i < before; ++i)
      row[i] = 0;
    for (int64_t i = end; i < run; ++i)
      row[i] = 0;
    int64_t index = base + y * d.stride_in[2] + z * d.stride_in[3] + (start + before * step) * d.stride_in[4];
    if (end > before)
      loadBlock(row + before, elementAt(in, d.type_in, index), step * d.stride_in[4], end - before, d.type_in);
  }

  /// Rows of the filter as [rows][depth of this piece].
  void multiplyFilter(T *sum, const T *patches, int64_t channel, int64_t rows, int64_t k, int64_t count) {
    T weights[kFilterRows * kDepth];
    const int64_t *s = d.stride_filter;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t base = (channel + r) * s[0];
      T *row = weights + r * kDepth;
      if (d.filter_step != 0)
        loadBlock(row, elementAt(filter, d.type_filter, base + k * d.filter_step), d.filter_step, count, d.type_filter);
      else
        for (int64_t p = 0; p < count; ++p) {
          Place w = placeOf((k + p) % window, d.window);
          int64_t index = base + (k + p) / window * s[1] + w.at[0] * s[2] + w.at[1] * s[3] + w.at[2] * s[4];
          loadBlock(row + p, elementAt(filter, d.type_filter, index), 1, 1, d.type_filter);
        }
    }
    multiplyBlock(sum, kPositions, weights, kDepth, int64_t(1), patches, kPositions, rows, kPositions, count);
  }

  void storePositions(const T *sum, int64_t n, int64_t channel, int64_t x, int64_t count) {
    int64_t base = n * d.stride_out[0] + channel * d.stride_out[1];
    for (int64_t i = 0; i < count;) {
      Place place = placeOf(x + i, d.out_size);
      int64_t run = smaller(count - i, d.out_size[2] - place.at[2]);
      int64_t index = base + place.at[0] * d.stride_out[2] + place.at[1] * d.stride_out[3] + place.at[2] * d.stride_out[4];
      storeBlock(elementAt(out, d.type_out, index), sum + i, d.stride_out[4], run, d.type_out);
      i += run;
    }
  }

  const ConvDescriptor &d;
  char *in, *filter, *bias, *out;
  int64_t positions, window, depth; ///< output positions, elements of the window, rows of a patch
};

} // namespace

extern "C" void ditc_conv_f32(char *const *args, const ConvDescriptor *d) { Conv<float>(args, *d).run(); }
extern "C" void ditc_conv_f64(char *const *args, const ConvDescriptor *d) { Conv<double>(args, *d).run(); }

} // namespace ditc
