// SPDX-License-Identifier: Apache-2.0
//
// Finding a BLAS and calling it. Only the C interface (cblas_*) with 32-bit sizes is used; the plan's
// check has made sure that sizes fit.
#include "runtime/Blas.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <thread>

namespace ditc {
namespace {

constexpr const char *kCandidates[] = {"libopenblas.so.0", "libmkl_rt.so.2", "libmkl_rt.so",
                                       "libblis.so.4",     "libcblas.so.3",  "libblas.so.3"};

// From cblas.h, which need not be installed.
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;
using SgemmFunction = void(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                           float *, int);
using DgemmFunction = void(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                           double *, int);

/// Calls visit(offset of a, of b, of c) in elements for each index of the batch, last dimension fastest.
template <typename Visit> void forEachBatch(const GemmOp &op, Visit visit) {
  size_t rank = op.batch.size();
  std::vector<int64_t> index(rank, 0);
  if (std::find(op.batch.begin(), op.batch.end(), 0) != op.batch.end())
    return;
  for (;;) {
    int64_t a = 0, b = 0, c = 0;
    for (size_t i = 0; i < rank; ++i) {
      a += index[i] * op.a.batchStrides[i];
      b += index[i] * op.b.batchStrides[i];
      c += index[i] * op.c.batchStrides[i];
    }
    visit(a, b, c);
    size_t i = rank;
    while (i > 0 && ++index[i - 1] == op.batch[i - 1])
      index[--i] = 0;
    if (i == 0)
      return;
  }
}

/// Threads that OpenBLAS starts when it is loaded.
unsigned threadsOfOpenBlas() {
  for (const char *name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const char *text = std::getenv(name))
      if (int count = std::atoi(text); count > 0)
        return count;
  return std::max(1u, std::thread::hardware_concurrency());
}

/// OpenBLAS maps memory for each of its threads (up to 128 MiB, by build) and tries again without an end where an
/// address-space limit (ulimit -v) leaves no room, already while it is loaded. Says what stops it, or nothing.
std::string whatStopsOpenBlas() {
  constexpr size_t kBytesOfThread = size_t(128) << 20;
  auto fits = [](unsigned threads) {
    size_t bytes = (threads + 1) * kBytesOfThread; // one for the library itself and what else the process will map
    void *room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, bytes) == 0;
  };
  unsigned wanted = threadsOfOpenBlas(), threads = wanted;
  while (threads > 0 && !fits(threads))
    --threads;
  if (threads == wanted)
    return "";
  return fmt::format("its {} threads need up to 128 MiB of address space each, and a limit of this process (ulimit -v) "
                     "leaves less; raise it{}",
                     wanted, threads ? fmt::format(" or set OPENBLAS_NUM_THREADS={}", threads) : "");
}

/// libblas and libcblas may be OpenBLAS under other names.
bool mayBeOpenBlas(std::string_view file) {
  return file.find("mkl") == file.npos && file.find("blis") == file.npos;
}

} // namespace

bool Blas::open(const std::string &file, const std::string &openBlasStop) {
  if (!openBlasStop.empty() && mayBeOpenBlas(file)) {
    reason = fmt::format("{}: {}", file, openBlasStop);
    return false;
  }
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    reason = dlerror();
    return false;
  }
  sgemm = dlsym(handle, "cblas_sgemm");
  dgemm = dlsym(handle, "cblas_dgemm");
  if (!sgemm || !dgemm) {
    dlclose(handle);
    reason = fmt::format("{}: no cblas_sgemm and cblas_dgemm in it", file);
    return false;
  }
  library_ = handle;
  path = file;
  return true;
}

void Blas::setThreads(unsigned threads) const {
  int count = static_cast<int>(threads ? threads : std::max(1u, std::thread::hardware_concurrency()));
  for (const char *name : {"openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads"})
    if (auto set = reinterpret_cast<void (*)(int)>(dlsym(library_, name))) {
      set(count);
      return;
    }
}

std::span<const char *const> Blas::defaultCandidates() { return kCandidates; }

std::shared_ptr<const Blas> Blas::load(unsigned threads, std::span<const char *const> candidates) {
  std::shared_ptr<Blas> blas(new Blas());
  std::string stop = whatStopsOpenBlas();
  const char *chosen = std::getenv("DITC_BLAS");
  if (chosen && *chosen) {
    if (!blas->open(chosen, stop))
      fail("the BLAS library '{}' that DITC_BLAS names cannot be used: {}; name another one or unset DITC_BLAS", chosen,
           blas->reason);
  } else if (std::none_of(candidates.begin(), candidates.end(),
                          [&](const char *file) { return blas->open(file, stop); })) {
    fail("no BLAS library for matrix products was found (tried {}): {}; install one, on Debian and Ubuntu "
         "libopenblas0-pthread, or name a library with cblas_sgemm in DITC_BLAS",
         fmt::join(candidates, ", "), blas->reason);
  }
  blas->setThreads(threads);
  return blas;
}

Blas::~Blas() {
  // Not closed: BLAS libraries keep threads of their own, and unloading code under a thread is a crash.
}

template <typename T, typename Function>
void Blas::gemmBatch(Function *function, const GemmOp &op, const T *a, const T *b, T *c) const {
  if (op.m == 0 || op.n == 0)
    return;
  int m = static_cast<int>(op.m), n = static_cast<int>(op.n), k = static_cast<int>(op.k);
  int lda = static_cast<int>(op.a.rowStride), ldb = static_cast<int>(op.b.rowStride);
  int ldc = static_cast<int>(op.c.rowStride);
  forEachBatch(op, [&](int64_t offsetA, int64_t offsetB, int64_t offsetC) {
    T *out = c + offsetC;
    if (k == 0) { // Libraries differ in whether they write C then.
      for (int row = 0; row < m; ++row)
        std::fill_n(out + static_cast<int64_t>(row) * ldc, n, T(0));
      return;
    }
    function(kRowMajor, op.a.transposed ? kTranspose : kNoTranspose, op.b.transposed ? kTranspose : kNoTranspose, m,
             n, k, T(1), a + offsetA, lda, b + offsetB, ldb, T(0), out, ldc);
  });
}

void Blas::gemm(const GemmOp &op, const char *a, const char *b, char *c) const {
  if (op.dtype == DType::f64)
    gemmBatch(reinterpret_cast<DgemmFunction *>(dgemm), op, reinterpret_cast<const double *>(a),
              reinterpret_cast<const double *>(b), reinterpret_cast<double *>(c));
  else
    gemmBatch(reinterpret_cast<SgemmFunction *>(sgemm), op, reinterpret_cast<const float *>(a),
              reinterpret_cast<const float *>(b), reinterpret_cast<float *>(c));
}

} // namespace ditc
