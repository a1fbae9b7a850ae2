// SPDX-License-Identifier: Apache-2.0
//
// Reductions over any set of dimensions.
//
//   sum, mean, prod, max, min; any and all of booleans. Nothing to reduce gives 0, NaN, 1, -inf, inf, false, true.
//
// Layout: `kept` walks input and output over results, `reduced` walks the input within one result; any strides.
// Where the input is dense along the reduced run, results are computed one by one from blocks of it; else (a sum
// over rows) a block of results is computed at once, and each read is a dense piece of one row.
// Accuracy: sums and products of floats run in double, sums in several lanes; the result is rounded once.
// NaN propagates through max and min.
#include "blocks.h"
#include "nest.h"

namespace ditc {
namespace {

/// What sums and products of T run in.
template <class T> struct WideOf {
  using Type = double;
};
template <> struct WideOf<int64_t> {
  using Type = int64_t;
};

/// Each combines blocks of T into one State.
template <class T> struct SumOf {
  using State = typename WideOf<T>::Type;
  static State identity(int64_t) { return 0; }
  static State combine(State a, State b) { return a + b; }
  static State fold(const T *x, int64_t n, int64_t) {
#pragma clang fp reassociate(on)
    State sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += x[i];
    return sum;
  }
};

template <class T> struct ProductOf {
  using State = typename WideOf<T>::Type;
  static State identity(int64_t) { return 1; }
  static State combine(State a, State b) { return a * b; }
  static State fold(const T *x, int64_t n, int64_t) {
    State product = 1;
    for (int64_t i = 0; i < n; ++i)
      product *= x[i];
    return product;
  }
};

/// Also `any` (of 0 and 1).
template <class T> struct MaxOf {
  using State = T;
  static State identity(int64_t type) {
    if constexpr (__is_same(T, int64_t))
      return type == kBool ? 0 : INT64_MIN;
    else
      return -static_cast<T>(__builtin_inff());
  }
  static State combine(State a, State b) {
    if constexpr (__is_same(T, int64_t))
      return a > b ? a : b;
    else
      return __builtin_elementwise_maximum(a, b);
  }
  static State fold(const T *x, int64_t n, int64_t type) {
    State top = identity(type);
    for (int64_t i = 0; i < n; ++i)
      top = combine(top, x[i]);
    return top;
  }
};

/// Also `all`.
template <class T> struct MinOf {
  using State = T;
  static State identity(int64_t type) {
    if constexpr (__is_same(T, int64_t))
      return type == kBool ? 1 : INT64_MAX;
    else
      return static_cast<T>(__builtin_inff());
  }
  static State combine(State a, State b) {
    if constexpr (__is_same(T, int64_t))
      return a < b ? a : b;
    else
      return __builtin_elementwise_minimum(a, b);
  }
  static State fold(const T *x, int64_t n, int64_t type) {
    State bottom = identity(type);
    for (int64_t i = 0; i < n; ++i)
      bottom = combine(bottom, x[i]);
    return bottom;
  }
};

template <class T, class Kind> class Reduction {
public:
  using State = typename Kind::State;

  Reduction(char *const *args, const ReduceDescriptor &d) : d(d), in(args[0]), out(args[1]) {}

  void run() {
    bool denseRun = d.reduced.rank > 0 && d.reduced.stride[d.reduced.rank - 1][0] == 1;
    bool denseResults = d.kept.rank > 0 && d.kept.stride[d.kept.rank - 1][0] == 1;
    forEachRun(d.kept, [&](const Offsets &at, int64_t n, const int64_t *strides) {
      if (denseResults && !denseRun)
        together(at, n, strides);
      else
        oneByOne(at, n, strides);
    });
  }

private:
  T finish(State state) {
    if (d.kind != kMean)
      return static_cast<T>(state);
    if constexpr (__is_same(T, int64_t))
      return d.count == 0 ? 0 : state / d.count;
    else
      return static_cast<T>(state / static_cast<State>(d.count));
  }

  void oneByOne(Offsets at, int64_t n, const int64_t *strides) {
    for (int64_t i = 0; i < n; ++i) {
      State state = Kind::identity(d.type_in);
      forEachRun(d.reduced, [&](const Offsets &run, int64_t size, const int64_t *step) {
        T scratch[kBlock];
        for (int64_t first = 0; first < size; first += kBlock) {
          int64_t count = smaller(kBlock, size - first);
          const char *from = elementAt(in, d.type_in, at.at[0] + run.at[0] + first * step[0]);
          state = Kind::combine(state, Kind::fold(viewBlock(scratch, from, step[0], count, d.type_in), count, d.type_in));
        }
      });
      T result = finish(state);
      storeBlock(elementAt(out, d.type_out, at.at[1]), &result, 1, 1, d.type_out);
      at.at[0] += strides[0];
      at.at[1] += strides[1];
    }
  }

  void together(const Offsets &at, int64_t n, const int64_t *strides) {
    for (int64_t first = 0; first < n; first += kBlock) {
      int64_t count = smaller(kBlock, n - first);
      State states[kBlock];
      for (int64_t i = 0; i < count; ++i)
        states[i] = Kind::identity(d.type_in);
      forEachElement(d.reduced, [&](const Offsets &row) {
        T scratch[kBlock];
        const T *x = viewBlock(scratch, elementAt(in, d.type_in, at.at[0] + first + row.at[0]), 1, count, d.type_in);
        for (int64_t i = 0; i < count; ++i)
          states[i] = Kind::combine(states[i], static_cast<State>(x[i]));
      });
      T results[kBlock];
      for (int64_t i = 0; i < count; ++i)
        results[i] = finish(states[i]);
      storeBlock(elementAt(out, d.type_out, at.at[1] + first * strides[1]), results, strides[1], count, d.type_out);
    }
  }

  const ReduceDescriptor &d;
  char *in, *out;
};

template <class T, template <class> class Kind> void reduce(char *const *args, const ReduceDescriptor *d) { Reduction<T, Kind<T>>(args, *d).run(); }

} // namespace

// One function for each kind, so that a kernel brings in no more than it uses.
extern "C" void ditc_reduce_sum_f32(char *const *args, const ReduceDescriptor *d) { reduce<float, SumOf>(args, d); }
extern "C" void ditc_reduce_sum_f64(char *const *args, const ReduceDescriptor *d) { reduce<double, SumOf>(args, d); }
extern "C" void ditc_reduce_sum_i64(char *const *args, const ReduceDescriptor *d) { reduce<int64_t, SumOf>(args, d); }
extern "C" void ditc_reduce_prod_f32(char *const *args, const ReduceDescriptor *d) { reduce<float, ProductOf>(args, d); }
extern "C" void ditc_reduce_prod_f64(char *const *args, const ReduceDescriptor *d) { reduce<double, ProductOf>(args, d); }
extern "C" void ditc_reduce_prod_i64(char *const *args, const ReduceDescriptor *d) { reduce<int64_t, ProductOf>(args, d); }
extern "C" void ditc_reduce_max_f32(char *const *args, const ReduceDescriptor *d) { reduce<float, MaxOf>(args, d); }
extern "C" void ditc_reduce_max_f64(char *const *args, const ReduceDescriptor *d) { reduce<double, MaxOf>(args, d); }
extern "C" void ditc_reduce_max_i64(char *const *args, const ReduceDescriptor *d) { reduce<int64_t, MaxOf>(args, d); }
extern "C" void ditc_reduce_min_f32(char *const *args, const ReduceDescriptor *d) { reduce<float, MinOf>(args, d); }
extern "C" void ditc_reduce_min_f64(char *const *args, const ReduceDescriptor *d) { reduce<double, MinOf>(args, d); }
extern "C" void ditc_reduce_min_i64(char *const *args, const ReduceDescriptor *d) { reduce<int64_t, MinOf>(args, d); }

} // namespace ditc
