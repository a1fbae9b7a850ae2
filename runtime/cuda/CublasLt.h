// SPDX-License-Identifier: Apache-2.0
//
// The matrix products of plans by cuBLASLt, which is found with dlopen when the first plan needs it. Only algorithms
// that give the same bits each time, sums in f32 (f64 for f64), never TF32.
#pragma once

#include "runtime/Plan.h"
#include "runtime/cuda/BlasTypes.h"
#include "runtime/cuda/DriverTypes.h"

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace ditc::cuda {

/// Addresses of one product.
struct ProductAddresses {
  char *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
};

/// A product with its algorithm, ready to be queued. Shared by all ops of one shape.
class Product;

class CublasLt {
public:
  /// The most scratch that an algorithm may ask for.
  static constexpr uint64_t kWorkspaceBytes = 32ull << 20;

  /// Loads the library that DITC_CUBLASLT names, else the toolkit's or a wheel's. The device's context must be current.
  /// Throws Error (Input) when there is none, saying what to install.
  static std::shared_ptr<CublasLt> load();
  ~CublasLt();

  /// The file that was loaded, for reports.
  const std::string &library() const { return path; }
  /// The product of op's shape for addresses with this alignment: the algorithm that cuBLASLt prefers, or where that needs
  /// more than `scratch` bytes, the one that it prefers among those that do not. Throws Error (Input): there is none.
  std::shared_ptr<const Product> product(const GemmOp &op, const ProductAddresses &addresses, uint64_t scratch = kWorkspaceBytes);
  /// The product for addresses as plans place them: buffers begin on 16 bytes.
  std::shared_ptr<const Product> product(const GemmOp &op);
  /// What run() needs of 256-byte aligned scratch; mostly none.
  static uint64_t workspaceBytes(const Product &product);
  /// Queues it.
  void run(const Product &product, const ProductAddresses &addresses, char *workspace, Stream stream) const;

  /// An error of cuBLASLt as an Error.
  void check(lt::Status status, std::string_view what) const;
  lt::Functions functions = {};
  lt::Handle handle = nullptr;

private:
  CublasLt() = default;
  bool open(const std::string &file);

  /// All that the choice of an algorithm depends on.
  using Key = std::vector<int64_t>;
  static Key keyOf(const GemmOp &op, const ProductAddresses &addresses, uint64_t scratch);
  std::shared_ptr<const Product> find(const GemmOp &op, const ProductAddresses &addresses, uint64_t scratch);

  std::string path, reason; ///< reason: why the last candidate could not be used
  std::mutex mutex;         ///< guards `products`
  std::map<Key, std::shared_ptr<const Product>> products;
};

} // namespace ditc::cuda
