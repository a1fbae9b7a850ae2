// SPDX-License-Identifier: Apache-2.0
//
// The tensor index of an archive: from a JSON config (layout C) or from a torch.save pickle inside of the
// archive (layouts A and B) to views of bytes in the file. Private to the archive reader.
#pragma once

#include "compiler/import/Pt2Archive.h"
#include "compiler/import/Pt2Container.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ditc {

/// Bytes of the storage that the view reaches; 0 when it has no elements. Nothing when a size or a stride is
/// negative, ranks differ, or a number overflows.
std::optional<uint64_t> neededBytes(const StoredTensor &tensor);

/// Tensors of one folder ("weights" or "constants") by FQN.
struct TensorIndex {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> unreadable; ///< FQN -> why
  std::vector<std::string> warnings;
};

/// Which of the archive's two indices.
enum class TensorFolder { Weights, Constants };

/// Reads the index in whatever form it has. Weights must have one; missing constants are none.
TensorIndex readTensorIndex(const Pt2Container &file, TensorFolder folder);

} // namespace ditc
