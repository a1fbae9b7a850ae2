// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt counts columns first, plans count rows first. The same memory read the other way is the transpose, so
// C = A · B is asked for as Cᵀ = Bᵀ · Aᵀ: operands and sizes change places, and nothing is copied.
#include "runtime/cuda/CublasLt.h"

#include "runtime/Error.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/LibraryFolders.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/ranges.h>

namespace ditc::cuda {
namespace {

constexpr const char *kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char *kWheels[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};

int typeOf(DType dtype) {
  return dtype == DType::f64 ? lt::kR64F : dtype == DType::bf16 ? lt::kR16BF : dtype == DType::f16 ? lt::kR16F : lt::kR32F;
}

/// What addresses can be counted on for; no algorithm asks for more than 16 bytes.
uint32_t alignmentOf(const char *address) {
  uintptr_t value = reinterpret_cast<uintptr_t>(address) | 16;
  return static_cast<uint32_t>(value & (~value + 1));
}

bool isEmpty(const GemmOp &op) {
  return op.m == 0 || op.n == 0 || std::find(op.batch.begin(), op.batch.end(), 0) != op.batch.end();
}

/// One dimension of the batch, strides in elements.
struct BatchDim {
  int64_t size = 1, a = 0, b = 0, c = 0;
};

/// The batch in as few dimensions as its strides allow, the largest last: that one is left to cuBLASLt.
std::vector<BatchDim> collapse(const GemmOp &op) {
  std::vector<BatchDim> out;
  for (size_t i = 0; i < op.batch.size(); ++i) {
    BatchDim dim{op.batch[i], op.a.batchStrides[i], op.b.batchStrides[i], op.c.batchStrides[i]};
    if (dim.size == 1)
      continue;
    if (!out.empty()) {
      BatchDim &outer = out.back();
      bool joins = outer.a == dim.a * dim.size && outer.b == dim.b * dim.size && outer.c == dim.c * dim.size;
      if (joins) {
        outer = {outer.size * dim.size, dim.a, dim.b, dim.c};
        continue;
      }
    }
    out.push_back(dim);
  }
  auto largest = std::max_element(out.begin(), out.end(), [](const BatchDim &x, const BatchDim &y) { return x.size < y.size; });
  if (largest != out.end())
    std::iter_swap(largest, out.end() - 1);
  return out;
}

struct LayoutDelete {
  lt::Status (*destroy)(lt::MatrixLayout);
  void operator()(lt::MatrixLayout layout) const { destroy(layout); }
};
struct DescDelete {
  lt::Status (*destroy)(lt::MatmulDesc);
  void operator()(lt::MatmulDesc desc) const { destroy(desc); }
};
using LayoutPtr = std::unique_ptr<lt::OpaqueMatrixLayout, LayoutDelete>;
using DescPtr = std::unique_ptr<lt::OpaqueMatmulDesc, DescDelete>;

/// A row-major matrix, read column-major: its rows are the columns.
LayoutPtr makeLayout(const CublasLt &lib, DType dtype, int64_t rows, int64_t columns, int64_t rowStride,
                     int64_t batch, int64_t batchStride) {
  lt::MatrixLayout layout = nullptr;
  lib.check(lib.functions.matrixLayoutCreate(&layout, typeOf(dtype), static_cast<uint64_t>(columns),
                                             static_cast<uint64_t>(rows), rowStride),
            "describing a matrix");
  LayoutPtr out(layout, {lib.functions.matrixLayoutDestroy});
  auto count = static_cast<int32_t>(batch);
  lib.check(lib.functions.matrixLayoutSetAttribute(layout, lt::kLayoutBatchCount, &count, sizeof count), "setting the batch");
  lib.check(lib.functions.matrixLayoutSetAttribute(layout, lt::kLayoutBatchStride, &batchStride, sizeof batchStride),
            "setting the batch stride");
  return out;
}

DescPtr makeDesc(const CublasLt &lib, const GemmOp &op, const char *bias) {
  bool wide = op.dtype == DType::f64;
  lt::MatmulDesc desc = nullptr;
  lib.check(lib.functions.matmulDescCreate(&desc, wide ? lt::kCompute64F : lt::kCompute32F, wide ? lt::kR64F : lt::kR32F),
            "describing a matrix product");
  DescPtr out(desc, {lib.functions.matmulDescDestroy});
  auto set = [&](int attribute, const auto &value) {
    lib.check(lib.functions.matmulDescSetAttribute(desc, attribute, &value, sizeof value), "describing a matrix product");
  };
  set(lt::kDescTransA, op.b.transposed ? lt::kOpT : lt::kOpN); // cuBLASLt's A is the plan's B
  set(lt::kDescTransB, op.a.transposed ? lt::kOpT : lt::kOpN);
  set(lt::kDescEpilogue, bias ? lt::kEpilogueBias : lt::kEpilogueDefault);
  if (bias) {
    set(lt::kDescBiasPointer, bias);
    set(lt::kDescBiasType, typeOf(op.dtype));
  }
  return out;
}

} // namespace

class Product {
public:
  Product(CublasLt &lib, const GemmOp &op, const ProductAddresses &at, uint64_t scratch);

  GemmOp op;
  std::vector<BatchDim> loops; ///< batch dimensions that are walked here
  LayoutPtr a, b, c;
  DescPtr desc;                ///< null with a bias, whose address is part of it
  lt::Algorithm algorithm = {};
  uint64_t workspaceBytes = 0; ///< of the algorithm
  bool biasFirst = false;      ///< the bias is written into C before, since no algorithm adds it

private:
  bool choose(CublasLt &lib, const ProductAddresses &at, const char *bias, uint64_t scratch);
};

/// Asks for an algorithm; false when there is none.
bool Product::choose(CublasLt &lib, const ProductAddresses &at, const char *bias, uint64_t scratch) {
  lt::Preference preference = nullptr;
  lib.check(lib.functions.preferenceCreate(&preference), "describing preferences");
  std::unique_ptr<lt::OpaquePreference, lt::Status (*)(lt::Preference)> guard(preference, lib.functions.preferenceDestroy);
  auto set = [&](int attribute, const auto &value) {
    lib.check(lib.functions.preferenceSetAttribute(preference, attribute, &value, sizeof value), "setting a preference");
  };
  set(lt::kPrefWorkspaceBytes, size_t{scratch});
  set(lt::kPrefReductionMask, lt::kReductionInComputeType);
  set(lt::kPrefAlignmentA, alignmentOf(at.b));
  set(lt::kPrefAlignmentB, alignmentOf(at.a));
  set(lt::kPrefAlignmentC, alignmentOf(at.c));
  set(lt::kPrefAlignmentD, alignmentOf(at.c));
  DescPtr wanted = makeDesc(lib, op, bias);
  lt::HeuristicResult result = {};
  int found = 0;
  lt::Status status = lib.functions.algoGetHeuristic(lib.handle, wanted.get(), b.get(), a.get(), c.get(), c.get(),
                                                     preference, 1, &result, &found);
  if (status != lt::kSuccess || found == 0)
    return false;
  algorithm = result.algorithm;
  workspaceBytes = result.workspaceBytes;
  if (!bias)
    desc = std::move(wanted);
  return true;
}

Product::Product(CublasLt &lib, const GemmOp &op, const ProductAddresses &at, uint64_t scratch) : op(op), loops(collapse(op)) {
  if (isEmpty(op) || op.k == 0)
    return; // nothing for cuBLASLt to do
  BatchDim inner;
  if (!loops.empty()) {
    inner = loops.back();
    loops.pop_back();
  }
  auto layout = [&](const GemmOperand &operand, int64_t rows, int64_t columns, int64_t stride) {
    if (operand.transposed)
      std::swap(rows, columns);
    return makeLayout(lib, op.dtype, rows, columns, operand.rowStride, inner.size, stride);
  };
  a = layout(op.a, op.m, op.k, inner.a);
  b = layout(op.b, op.k, op.n, inner.b);
  c = layout(op.c, op.m, op.n, inner.c);
  if (choose(lib, at, at.bias, scratch))
    return;
  biasFirst = at.bias && choose(lib, at, nullptr, scratch);
  if (!biasFirst)
    fail("cuBLASLt ({}) has no algorithm for the product {}x{}x{} of {}; another version may have", lib.library(), op.m,
         op.n, op.k, nameOf(op.dtype));
}

//===-- loading ---------------------------------------------------------------------------------------===//

void CublasLt::check(lt::Status status, std::string_view what) const {
  if (status != lt::kSuccess)
    fail("cuBLASLt ({}) failed in {}: status {}", path, what, status);
}

bool CublasLt::open(const std::string &file) {
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    reason = dlerror();
    return false;
  }
  auto find = [&](const char *symbol, auto &function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function)
      reason = fmt::format("{}: no function {} in it", file, symbol);
    return function != nullptr;
  };
  lt::Functions &f = functions;
  bool all = find("cublasLtCreate", f.create) && find("cublasLtDestroy", f.destroy) &&
             find("cublasLtMatmulDescCreate", f.matmulDescCreate) &&
             find("cublasLtMatmulDescDestroy", f.matmulDescDestroy) &&
             find("cublasLtMatmulDescSetAttribute", f.matmulDescSetAttribute) &&
             find("cublasLtMatrixLayoutCreate", f.matrixLayoutCreate) &&
             find("cublasLtMatrixLayoutDestroy", f.matrixLayoutDestroy) &&
             find("cublasLtMatrixLayoutSetAttribute", f.matrixLayoutSetAttribute) &&
             find("cublasLtMatmulPreferenceCreate", f.preferenceCreate) &&
             find("cublasLtMatmulPreferenceDestroy", f.preferenceDestroy) &&
             find("cublasLtMatmulPreferenceSetAttribute", f.preferenceSetAttribute) &&
             find("cublasLtMatmulAlgoGetHeuristic", f.algoGetHeuristic) && find("cublasLtMatmul", f.matmul);
  if (!all)
    return false; // not closed: it is the wrong library, and closing it may run its code
  path = file;
  return true;
}

std::shared_ptr<CublasLt> CublasLt::load() {
  std::shared_ptr<CublasLt> lib(new CublasLt());
  const char *chosen = std::getenv("DITC_CUBLASLT");
  if (chosen && *chosen) {
    if (!lib->open(chosen))
      fail("the library '{}' that DITC_CUBLASLT names cannot be used: {}; name another one or unset DITC_CUBLASLT", chosen,
           lib->reason);
  } else {
    std::vector<std::string> files = libraryFiles(kNames, kWheels);
    if (std::none_of(files.begin(), files.end(), [&](const std::string &file) { return lib->open(file); }))
      fail("cuBLASLt, which does the package's matrix products, was not found (tried {}); install the CUDA toolkit's "
           "libcublas or the Python wheel nvidia-cublas, and name its libcublasLt.so.13 in DITC_CUBLASLT if it lies "
           "elsewhere",
           fmt::join(files, ", "));
  }
  lib->check(lib->functions.create(&lib->handle), "starting");
  return lib;
}

CublasLt::~CublasLt() {
  products.clear();
  if (handle)
    functions.destroy(handle);
}

//===-- products --------------------------------------------------------------------------------------===//

CublasLt::Key CublasLt::keyOf(const GemmOp &op, const ProductAddresses &at, uint64_t scratch) {
  Key key{static_cast<int64_t>(op.dtype), op.m, op.n, op.k, at.bias != nullptr, static_cast<int64_t>(scratch)};
  for (auto [operand, address] : {std::pair(&op.a, at.a), std::pair(&op.b, at.b), std::pair(&op.c, at.c)}) {
    key.insert(key.end(), {operand->rowStride, operand->transposed, alignmentOf(address)});
    key.insert(key.end(), operand->batchStrides.begin(), operand->batchStrides.end());
  }
  key.insert(key.end(), op.batch.begin(), op.batch.end());
  return key;
}

std::shared_ptr<const Product> CublasLt::find(const GemmOp &op, const ProductAddresses &addresses, uint64_t scratch) {
  std::lock_guard lock(mutex);
  std::shared_ptr<const Product> &product = products[keyOf(op, addresses, scratch)];
  if (!product)
    product = std::make_shared<Product>(*this, op, addresses, scratch);
  return product;
}

std::shared_ptr<const Product> CublasLt::product(const GemmOp &op, const ProductAddresses &addresses, uint64_t scratch) {
  std::shared_ptr<const Product> preferred = find(op, addresses, kWorkspaceBytes);
  return preferred->workspaceBytes <= scratch ? preferred : find(op, addresses, scratch);
}

std::shared_ptr<const Product> CublasLt::product(const GemmOp &op) {
  auto at = [](const PlanPointer &pointer) { return reinterpret_cast<char *>(uintptr_t{256} + pointer.offset); }; // never read
  return product(op, {at(op.a.at), at(op.b.at), at(op.c.at), op.bias ? at(*op.bias) : nullptr});
}

uint64_t CublasLt::workspaceBytes(const Product &product) { return product.workspaceBytes; }

namespace {

/// Calls visit(a, b, c), offsets in elements, for each index of the dimensions.
template <typename Visit> void forEachIndex(std::span<const BatchDim> dims, int64_t a, int64_t b, int64_t c, Visit visit) {
  if (dims.empty())
    return visit(a, b, c);
  for (int64_t i = 0; i < dims.front().size; ++i)
    forEachIndex(dims.subspan(1), a + i * dims.front().a, b + i * dims.front().b, c + i * dims.front().c, visit);
}

/// Rows of one matrix of C become the bias, or zeros.
void fillRows(const GemmOp &op, char *c, const char *bias, Stream stream) {
  const Driver &driver = Driver::get();
  auto at = [](const char *address) { return reinterpret_cast<Pointer>(address); };
  uint64_t unit = byteSize(op.dtype), row = static_cast<uint64_t>(op.n) * unit;
  uint64_t stride = static_cast<uint64_t>(op.c.rowStride) * unit, rows = static_cast<uint64_t>(op.m);
  if (!bias && stride == row) {
    driver.check(driver.memsetD8Async(at(c), 0, row * rows, stream), "zeroing a product");
    return;
  }
  for (uint64_t done = 0; done < rows;) { // dense rows are doubled
    uint64_t count = stride == row && done > 0 ? std::min(done, rows - done) : 1;
    char *target = c + done * stride;
    driver.check(bias ? driver.memcpyDtoDAsync(at(target), at(done > 0 ? c : bias), count * row, stream)
                      : driver.memsetD8Async(at(target), 0, row, stream),
                 "filling a product");
    done += count;
  }
}

} // namespace

void CublasLt::run(const Product &product, const ProductAddresses &at, char *workspace, Stream stream) const {
  const GemmOp &op = product.op;
  if (isEmpty(op))
    return;
  auto unit = static_cast<int64_t>(byteSize(op.dtype));
  std::span<const BatchDim> loops(product.loops);
  if (op.k == 0 || product.biasFirst) {
    std::vector<BatchDim> all = collapse(op);
    forEachIndex(all, 0, 0, 0, [&](int64_t, int64_t, int64_t c) { fillRows(op, at.c + c * unit, at.bias, stream); });
  }
  if (op.k == 0)
    return;
  DescPtr own;
  if (!product.desc)
    own = makeDesc(*this, op, at.bias);
  lt::MatmulDesc desc = product.desc ? product.desc.get() : own.get();
  double one = 1, zero = 0;
  float one32 = 1, zero32 = 0;
  bool wide = op.dtype == DType::f64;
  const void *alpha = wide ? static_cast<const void *>(&one) : &one32;
  const void *none = wide ? static_cast<const void *>(&zero) : &zero32;
  forEachIndex(loops, 0, 0, 0, [&](int64_t a, int64_t b, int64_t c) {
    char *target = at.c + c * unit;
    check(functions.matmul(handle, desc, alpha, at.b + b * unit, product.b.get(), at.a + a * unit, product.a.get(),
                           product.biasFirst ? alpha : none, target, product.c.get(), target, product.c.get(),
                           &product.algorithm, workspace, product.workspaceBytes, stream),
          "a matrix product");
  });
}

} // namespace ditc::cuda
