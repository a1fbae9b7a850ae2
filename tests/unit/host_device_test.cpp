// SPDX-License-Identifier: Apache-2.0
//
// The host device: matrix products in every form, and what is said when something is missing.
#include "RuntimeFixture.h"

#include "runtime/HostDevice.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

using namespace ditc;
using namespace ditc::test;

namespace {

std::vector<float> randomValues(size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float &value : out)
    value = uniform(random);
  return out;
}

struct Product {
  int64_t m, n, k;
  bool transA = false, transB = false;
};

GemmOp gemmOf(const Product &p) {
  GemmOp op;
  op.m = p.m;
  op.n = p.n;
  op.k = p.k;
  op.a = {{}, std::max<int64_t>(p.transA ? p.m : p.k, 1), p.transA, {}};
  op.b = {{}, std::max<int64_t>(p.transB ? p.k : p.n, 1), p.transB, {}};
  op.c = {{}, std::max<int64_t>(p.n, 1), false, {}};
  return op;
}

/// C of the definition, in double.
std::vector<float> reference(const GemmOp &op, const std::vector<float> &a, const std::vector<float> &b) {
  std::vector<float> c;
  for (int64_t i = 0; i < op.m; ++i)
    for (int64_t j = 0; j < op.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < op.k; ++l)
        sum += static_cast<double>(a[static_cast<size_t>(op.a.transposed ? l * op.a.rowStride + i : i * op.a.rowStride + l)]) *
               b[static_cast<size_t>(op.b.transposed ? j * op.b.rowStride + l : l * op.b.rowStride + j)];
      c.push_back(static_cast<float>(sum));
    }
  return c;
}

void call(const Blas &blas, const GemmOp &op, const std::vector<float> &a, const std::vector<float> &b,
          std::vector<float> &c) {
  blas.gemm(op, reinterpret_cast<const char *>(a.data()), reinterpret_cast<const char *>(b.data()),
            reinterpret_cast<char *>(c.data()));
}

/// Sets an environment variable for the life of the object.
struct Environment {
  Environment(const char *name, const char *value) : name(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name); }
  const char *name;
};

const float kNaN = std::numeric_limits<float>::quiet_NaN();

} // namespace

TEST(Blas, ProductsOfEveryShape) {
  std::shared_ptr<const Blas> blas = Blas::load(0);
  EXPECT_NE(blas->library(), "");
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (auto [m, n, k] : {std::array{5, 7, 3}, {1, 7, 3}, {5, 1, 3}, {5, 7, 1}, {1, 1, 300}, {1, 300, 200}, {300, 1, 200}, {64, 33, 129}}) {
        GemmOp op = gemmOf({m, n, k, transA, transB});
        std::vector<float> a = randomValues(static_cast<size_t>(m * k)), b = randomValues(static_cast<size_t>(k * n));
        std::vector<float> c(static_cast<size_t>(m * n), kNaN), expected = reference(op, a, b); // NaN: C is only written
        call(*blas, op, a, b, c);
        for (size_t i = 0; i < c.size(); ++i)
          ASSERT_NEAR(c[i], expected[i], 1e-4) << m << "x" << n << "x" << k << " " << transA << transB;
      }
}

TEST(Blas, EmptyProducts) {
  std::shared_ptr<const Blas> blas = Blas::load(1);
  std::vector<float> a(4), b(4), c(6, kNaN);
  GemmOp op = gemmOf({2, 2, 0});
  op.c.rowStride = 3;
  call(*blas, op, a, b, c);
  EXPECT_EQ(std::vector<float>({c[0], c[1], c[3], c[4]}), std::vector<float>(4, 0.0f));
  EXPECT_TRUE(std::isnan(c[2])); // between rows
  c.assign(6, 9);
  call(*blas, gemmOf({0, 2, 2}), a, b, c);
  call(*blas, gemmOf({2, 0, 2}), a, b, c);
  GemmOp none = gemmOf({1, 1, 1});
  none.batch = {2, 0};
  none.a.batchStrides = none.b.batchStrides = none.c.batchStrides = {1, 1};
  call(*blas, none, a, b, c);
  EXPECT_EQ(c, std::vector<float>(6, 9));
}

TEST(Blas, BatchesWithRepeatedOperands) {
  std::shared_ptr<const Blas> blas = Blas::load(1);
  GemmOp op = gemmOf({1, 1, 2}); // six dot products, a per row and b per column
  op.batch = {3, 2};
  op.a.batchStrides = {2, 0};
  op.b.batchStrides = {0, 2};
  op.c.batchStrides = {2, 1};
  std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 1, 10, 1}, c(6);
  call(*blas, op, a, b, c);
  EXPECT_EQ(c, std::vector<float>({3, 12, 7, 34, 11, 56}));
}

TEST(Blas, Doubles) {
  GemmOp op = gemmOf({1, 1, 2});
  op.dtype = DType::f64;
  std::vector<double> a{1e-9, 1}, b{1, 1}, c(1);
  Blas::load(1)->gemm(op, reinterpret_cast<char *>(a.data()), reinterpret_cast<char *>(b.data()),
                      reinterpret_cast<char *>(c.data()));
  EXPECT_EQ(c[0], 1 + 1e-9);
}

TEST(Blas, TheSameBitsEveryTime) {
  std::shared_ptr<const Blas> blas = Blas::load(0);
  GemmOp op = gemmOf({257, 129, 511, false, true});
  std::vector<float> a = randomValues(257 * 511), b = randomValues(129 * 511), first(257 * 129), again(257 * 129);
  call(*blas, op, a, b, first);
  for (int i = 0; i < 5; ++i) {
    call(*blas, op, a, b, again);
    ASSERT_EQ(first, again);
  }
}

TEST(Blas, NamedLibraries) {
  {
    Environment blas("DITC_BLAS", "/none.so");
    EXPECT_ERROR(Blas::load(0), "the BLAS library '/none.so' that DITC_BLAS names cannot be used", "unset DITC_BLAS");
  }
  Environment blas("DITC_BLAS", DITC_TEST_KERNELS);
  EXPECT_ERROR(Blas::load(0), "no cblas_sgemm and cblas_dgemm in it");
}

TEST(Blas, NoneFound) {
  const char *candidates[] = {"libnone.so.1", "libnone.so.2"};
  EXPECT_ERROR(Blas::load(0, candidates), "no BLAS library for matrix products was found (tried libnone.so.1, libnone.so.2)",
               "libopenblas0-pthread", "DITC_BLAS");
}

TEST(HostDevice, WrongTargets) {
  TempFolder folder;
  std::string path = folder / "p.dita";
  auto open = [&](const std::string &device, const std::function<void(Manifest &)> &change) {
    writeTestPackage(path, {.manifest = change});
    openDevice(device, Package::open(path), {});
  };
  for (const char *device : {"sm_90a", "", "cuda:", "cuda:x", "cuda:-1", "cuda1", "cuda:1x"})
    EXPECT_ERROR(open(device, [](Manifest &) {}), "this runtime has no device '", "it has host, cuda and cuda:N");
  EXPECT_ERROR(open("host", [](Manifest &m) {
                 m.targets[0].name = "sm_90a";
                 for (ManifestBucket &bucket : m.buckets)
                   bucket.plans = {{"sm_90a", bucket.plans.at("host")}};
               }),
               "was not compiled for the device 'host'; it has sm_90a; run it on the device 'cuda'");
  EXPECT_ERROR(open("host", [](Manifest &m) { m.targets[0].object = ""; }), "target 'host' names no kernels");
  EXPECT_ERROR(open("host", [](Manifest &m) { m.targets[0].triple = "vax-dec-vms"; m.targets[0].cpu = "780"; }),
               "was compiled for '780' on 'vax-dec-vms' and needs a vax processor");
}

TEST(HostDevice, ProcessorLevels) {
  auto missing = [](const std::string &cpu, std::vector<std::string> sets = {}) {
    return missingForTarget({"host", "", "", cpu, std::move(sets)});
  };
  EXPECT_EQ(missing("x86-64-v1"), "");
  EXPECT_EQ(missing("znver9"), ""); // no level: what it has is said by its instruction sets
  EXPECT_EQ(missing("znver9", {"sse3", "avx1024f"}), "a processor with avx1024f");
  bool hasV4 = readText("/proc/cpuinfo").find("avx512bw") != std::string::npos;
  EXPECT_EQ(missing("x86-64-v4"), hasV4 ? "" : "a processor of level x86-64-v4");
}

TEST(HostDevice, NotASharedObject) {
  std::vector<uint8_t> bytes(100, 'x');
  EXPECT_ERROR(SharedObject(bytes, "p: kernels"), "the kernels 'p: kernels' cannot be loaded");
}

TEST(HostDevice, SeveralObjectsStayApart) {
  std::string text = readText(DITC_TEST_KERNELS);
  std::span bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  SharedObject first(bytes, "first"), second(bytes, "second");
  EXPECT_NE(first.find("transpose"), nullptr);
  EXPECT_NE(first.find("transpose"), second.find("transpose"));
  EXPECT_EQ(first.find("none"), nullptr);
}

TEST(HostDevice, TooMuchMemory) {
  TempFolder folder;
  writeTestPackage(folder / "p.dita");
  std::shared_ptr<Device> device = openDevice("host", Package::open(folder / "p.dita"), {});
  EXPECT_ERROR(device->allocate(uint64_t{1} << 60, "the scratch of bucket 'b'"),
               "cannot allocate 1152921504606846976 bytes for the scratch of bucket 'b'");
  MemoryRef memory = device->allocate(0, "nothing");
  EXPECT_NE(memory->data(), nullptr);
}
