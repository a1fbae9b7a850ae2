// SPDX-License-Identifier: Apache-2.0
//
// Work along one axis: the position of an extreme element, running sums and products, sorting.
//
//   arg_reduce: index of the largest or smallest element; the first of equal ones; NaN counts as the extreme
//   scan:       y[i] = x[0] + ... + x[i], or the product
//   sort:       values in order and the indices they came from; stable; NaN is larger than every number
//
// Layout: `outer` walks the lines, `stride` goes along one; any strides. Lines are read in blocks.
// Accuracy: scans of floats run in double and round each result once. Sorting moves elements without change. It is
// a heap sort of the output's indices under (value, index), which is a total order: the result is the stable one,
// in place, whatever the order of the comparisons.
#include "blocks.h"
#include "nest.h"

namespace ditc {
namespace {

template <class T> class Line {
public:
  Line(char *base, int64_t type, int64_t first, int64_t stride) : base(base), type(type), first(first), stride(stride) {}

  const char *at(int64_t i) const { return elementAt(base, type, first + i * stride); }
  char *at(int64_t i) { return elementAt(base, type, first + i * stride); }
  T get(int64_t i) const {
    T value;
    loadBlock(&value, at(i), 1, 1, type);
    return value;
  }
  void set(int64_t i, T value) { storeBlock(at(i), &value, 1, 1, type); }

  /// Calls `visit(values, index of the first, count)` for each block.
  template <class Visit> void forEachBlock(int64_t size, Visit visit) const {
    T scratch[kBlock];
    for (int64_t i = 0; i < size; i += kBlock) {
      int64_t n = smaller(kBlock, size - i);
      visit(viewBlock(scratch, at(i), stride, n, type), i, n);
    }
  }

private:
  char *base;
  int64_t type, first, stride;
};

template <class T> Line<T> lineOf(char *const *args, const AxisDescriptor &d, int argument, int64_t type, const Offsets &at) {
  return Line<T>(args[argument], type, at.at[argument], d.stride[argument]);
}

template <class T> bool isBetter(T value, T best, bool largest) {
  if (best != best)
    return false;
  return value != value || (largest ? value > best : value < best);
}

template <class T> void argReduce(char *const *args, const AxisDescriptor &d) {
  forEachElement(d.outer, [&](const Offsets &at) {
    Line<T> in = lineOf<T>(args, d, 0, d.type_in, at);
    T best = in.get(0);
    int64_t where = 0;
    in.forEachBlock(d.size, [&](const T *x, int64_t first, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        if (isBetter(x[i], best, d.kind == kMax)) {
          best = x[i];
          where = first + i;
        }
    });
    lineOf<int64_t>(args, d, 1, d.type_out, at).set(0, where);
  });
}

/// `State` is double for floats: the sum of a long line keeps its digits.
template <class T, class State> void scan(char *const *args, const AxisDescriptor &d) {
  forEachElement(d.outer, [&](const Offsets &at) {
    Line<T> out = lineOf<T>(args, d, 1, d.type_out, at);
    State state = d.kind == kProd ? 1 : 0;
    lineOf<T>(args, d, 0, d.type_in, at).forEachBlock(d.size, [&](const T *x, int64_t first, int64_t n) {
      T y[kBlock];
      for (int64_t i = 0; i < n; ++i) {
        state = d.kind == kProd ? state * static_cast<State>(x[i]) : state + static_cast<State>(x[i]);
        y[i] = static_cast<T>(state);
      }
      storeBlock(out.at(first), y, d.stride[1], n, d.type_out);
    });
  });
}

template <class T> class Sorter {
public:
  Sorter(const Line<T> &values, Line<int64_t> &order, bool descending) : values(values), order(order), descending(descending) {}

  void sort(int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      order.set(i, i);
    for (int64_t i = n / 2; i-- > 0;)
      sink(i, n);
    for (int64_t end = n - 1; end > 0; --end) {
      int64_t first = order.get(0);
      order.set(0, order.get(end));
      order.set(end, first);
      sink(0, end);
    }
  }

private:
  static bool less(T a, T b) { return a < b || (b != b && a == a); }

  bool before(int64_t a, int64_t b) const {
    T x = values.get(a), y = values.get(b);
    if (descending ? less(y, x) : less(x, y))
      return true;
    return !(descending ? less(x, y) : less(y, x)) && a < b;
  }

  /// Moves the entry at `i` down until no child comes behind it.
  void sink(int64_t i, int64_t n) {
    int64_t moving = order.get(i);
    while (2 * i + 1 < n) {
      int64_t child = 2 * i + 1;
      if (child + 1 < n && before(order.get(child), order.get(child + 1)))
        ++child;
      if (!before(moving, order.get(child)))
        break;
      order.set(i, order.get(child));
      i = child;
    }
    order.set(i, moving);
  }

  const Line<T> &values;
  Line<int64_t> &order;
  bool descending;
};

template <class T> void sort(char *const *args, const AxisDescriptor &d) {
  int64_t bytes = elementBytes(d.type_in);
  forEachElement(d.outer, [&](const Offsets &at) {
    Line<T> in = lineOf<T>(args, d, 0, d.type_in, at), values = lineOf<T>(args, d, 1, d.type_out, at);
    Line<int64_t> indices = lineOf<int64_t>(args, d, 2, kI64, at);
    Sorter<T>(in, indices, d.descending).sort(d.size);
    for (int64_t i = 0; i < d.size; ++i)
      copyElements(values.at(i), 1, in.at(indices.get(i)), 1, 1, bytes);
  });
}

} // namespace

extern "C" void ditc_arg_reduce_f32(char *const *args, const AxisDescriptor *d) { argReduce<float>(args, *d); }
extern "C" void ditc_arg_reduce_f64(char *const *args, const AxisDescriptor *d) { argReduce<double>(args, *d); }
extern "C" void ditc_arg_reduce_i64(char *const *args, const AxisDescriptor *d) { argReduce<int64_t>(args, *d); }
extern "C" void ditc_scan_f32(char *const *args, const AxisDescriptor *d) { scan<float, double>(args, *d); }
extern "C" void ditc_scan_f64(char *const *args, const AxisDescriptor *d) { scan<double, double>(args, *d); }
extern "C" void ditc_scan_i64(char *const *args, const AxisDescriptor *d) { scan<int64_t, int64_t>(args, *d); }
extern "C" void ditc_sort_f32(char *const *args, const AxisDescriptor *d) { sort<float>(args, *d); }
extern "C" void ditc_sort_f64(char *const *args, const AxisDescriptor *d) { sort<double>(args, *d); }
extern "C" void ditc_sort_i64(char *const *args, const AxisDescriptor *d) { sort<int64_t>(args, *d); }

} // namespace ditc
