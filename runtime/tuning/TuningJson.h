// SPDX-License-Identifier: Apache-2.0
//
// Keys and tiles in JSON, which databases and bundles share. Private to this folder.
#pragma once

#include "runtime/JsonFields.h"
#include "runtime/tuning/Database.h"

namespace ditc::tuning {

OrderedJson toJson(const Key &key);
Key readKey(const JsonField &field);
Tiles readTiles(const JsonField &field);

} // namespace ditc::tuning
