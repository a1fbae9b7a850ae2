// SPDX-License-Identifier: Apache-2.0
//
// What the templates of matrix products share: limits of a kernel's argument list, and the test whether an
// operation fits into an epilogue.
#pragma once

#include "dialects/fusion/DimRoles.h"

namespace ditc {

/// Tensors that the epilogue of one product reads beside the accumulator.
constexpr size_t kMaxEpilogueOperands = 12;
/// A gemv's operands are rows: tables of all blocks, found through one list of pointers.
constexpr size_t kMaxGemvOperands = 1024;
/// The widest tile: a head must fit into one.
constexpr int64_t kMaxTileWidth = 256;
/// Products with at most this many rows are bound by reading the weights.
constexpr int64_t kMaxGemvRows = 16;
/// Their addresses are parameters of the kernel.
constexpr size_t kMaxGemvProducts = 1000;

/// A gemm reads so many weights side by side where they are, each in whole tiles; more are copied into one.
constexpr size_t kMaxGemmWeights = 4;
constexpr int64_t kNarrowestTile = 64;
/// Inputs that the products of a gemm have, and results for each.
constexpr size_t kMaxGemmStreams = 2, kMaxGemmResults = 4;

/// Columns of a result that one thread block of such a product computes.
constexpr int64_t kGemvColumns = 8;

/// Epilogues compute and store floats; integers and booleans are made by kernels of their own.
bool isEpilogueType(mlir::Operation *op);

/// Rows of a product: everything but its last dimension.
int64_t productRows(dit::MatmulOp op);

/// A map whose readers all reduce rows (the magnitudes of a row that is quantised), of a value that others read too. It belongs
/// to the kernel of the reductions: a kernel that could not reduce would store it beside the value.
bool feedsOnlyReductions(mlir::Operation *op);

/// May `op` join the epilogue of the products of `cluster`, which may read `maxOperands` tensors?
Verdict acceptsInEpilogue(const Cluster &cluster, mlir::Operation *op, size_t maxOperands);

/// Counts values from outside that the cluster with `op` would read.
size_t outsideOperands(const Cluster &cluster, mlir::Operation *op);

} // namespace ditc
