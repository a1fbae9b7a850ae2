// SPDX-License-Identifier: Apache-2.0
//
// torch's pytree specs: how nested arguments and results were flattened. They alone know what the user
// called an input; placeholder names may be wrong (torch 2.6 misnames keyword arguments).
#pragma once

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/JsonReader.h"

#include <map>
#include <string>
#include <vector>

namespace ditc {

/// Registered namedtuple type -> field names (treespec_namedtuple_fields).
using NamedTupleFields = std::map<std::string, std::vector<std::string>>;

/// Parses the JSON text of a spec ("[1, {...}]").
TreeSpec parseTreeSpec(const std::string &text, const NamedTupleFields &fields, const JsonReader &reader);

/// One path per leaf, depth first: `prefix` itself for a bare leaf, else keys or positions joined by dots
/// and led by `prefix` where that is not empty ("output.0", "sample", "added_cond_kwargs.text_embeds").
std::vector<std::string> leafPaths(const TreeSpec &spec, const std::string &prefix);

} // namespace ditc
