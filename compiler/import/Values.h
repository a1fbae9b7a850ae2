// SPDX-License-Identifier: Apache-2.0
//
// What the names of a graph stand for while in-place ops exist. A name is a base, which owns a storage, or
// a view of another name. A write makes a new value and carries it to the base through the inverses of
// the views in between; a view whose base was written since is made again when it is read.
#pragma once

#include "compiler/import/Emit.h"

#include <string>
#include <vector>

namespace ditc {

/// Where a storage comes from, which decides whether it may be written.
enum class Origin { Local, UserInput, Parameter, Buffer, Constant };

class Values {
public:
  using Id = size_t;

  explicit Values(Emit &emit) : emit(emit) {}

  /// A new storage that holds `value`. `name` is for messages.
  Id addBase(Value value, Origin origin, std::string name);
  /// A name whose `value` was made from read(parent). When that took view ops only, writes can follow
  /// them back; otherwise the view becomes unreadable once its base is written.
  Id addView(Id parent, Value value, std::string name);

  Value read(Id id);
  /// Throws Error when the storage must not change, or the views cannot be followed back.
  void write(Id id, Value value);
  Origin originOf(Id id) const;

private:
  struct Entry {
    std::string name;
    Origin origin = Origin::Local;
    Value value;
    uint64_t version = 0;      ///< of a base: how often it was written; of a view: the base's when `value` was made
    uint64_t stepsVersion = 0; ///< of a view: the base's when `steps` were made
    bool isView = false;
    Id parent = 0;
    bool opaque = false;                           ///< made from its parent by something else than views
    llvm::SmallVector<mlir::Operation *, 4> steps; ///< the view ops from the parent's value to this one
  };

  Id rootOf(Id id) const;
  void remake(Id id);
  Value undo(mlir::Operation *step, Value before, Value after);

  Emit &emit;
  std::vector<Entry> entries;
};

/// `base` with the elements start, start+step, ... along `dim` replaced by `update`.
Value replaceSlice(Emit &emit, Value base, Value update, int64_t dim, int64_t start, int64_t step);

} // namespace ditc
