// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/tuning/TunedTiles.h"

#include "codegen/cuda/TuningTexts.h"

#include <fmt/format.h>

namespace ditc {

ChosenTiles chooseTiles(const GemmTuning &gemm, const tuning::Database *database, std::string_view gpu) {
  ChosenTiles chosen{.key = gemm.key(), .tiles = gemm.modelTiles(), .time = gemm.modelTime()};
  const tuning::Entry *entry = database ? database->find(chosen.key, gpu) : nullptr;
  if (!entry)
    return chosen;
  if (std::string why = gemm.misfit(entry->best.tiles); !why.empty()) {
    chosen.note = fmt::format("the entry of {} with tiles {} is not used: {}", entry->gpu, tuning::textOf(entry->best.tiles), why);
    return chosen;
  }
  chosen.tiles = entry->best.tiles;
  chosen.gpu = entry->gpu;
  return chosen;
}

tuning::Database shippedTuning() {
  tuning::Database all;
  for (const auto &[name, text] : kTuningTexts)
    all.overrideBy(tuning::Database::parse(text, name));
  return all;
}

} // namespace ditc
