// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of a model's weights come from: the .pt2 archives, or safetensors files by parameter
// name, which win. Checks types and shapes, and puts weights into a package.
#pragma once

#include "compiler/Options.h"
#include "compiler/import/Pt2Archive.h"
#include "runtime/Package.h"
#include "runtime/Safetensors.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace ditc {

class WeightSource {
public:
  /// `archives`: exports of one model. Throws Error (Input) listing by name what is wrong: a weight that the
  /// safetensors files have with another shape or type; archives that disagree about a weight.
  WeightSource(const std::vector<Pt2Archive> &archives, const std::vector<std::string> &safetensorsPaths);

  /// Throws Error (Input) listing the names in `used` that have no bytes, when some others have: a model
  /// with half of its weights is a mistake, one without any is a graph-only export.
  void checkComplete(const std::set<std::string> &used) const;
  bool hasAnyBytes() const;
  /// Tensors in the safetensors files that the model does not have.
  const std::vector<std::string> &extraNames() const { return extra; }

  /// Adds `used` to `manifest`, and their bytes to `writer` when `mode` is Embed. References are relative
  /// to the folder of `packagePath`.
  void store(const std::set<std::string> &used, WeightsMode mode, const std::string &packagePath, PackageWriter &writer, Manifest &manifest) const;

private:
  struct External {
    SafetensorsFile file;
    std::string name;
  };

  void addArchive(const Pt2Archive &archive);
  void addExternal(const SafetensorsFile &file);
  void embed(const std::string &name, PackageWriter &writer, ManifestWeight &weight, std::map<std::string, std::string> &stored) const;
  void refer(const std::string &name, const std::string &packagePath, ManifestWeight &weight) const;

  std::map<std::string, StoredTensor> declared;  ///< every weight of the model: type, shape, archive bytes
  std::map<std::string, External> external;      ///< weights whose bytes are in a safetensors file
  std::vector<std::string> extra, problems;
};

} // namespace ditc
