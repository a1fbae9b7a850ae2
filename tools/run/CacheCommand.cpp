// SPDX-License-Identifier: Apache-2.0
//
// ditc-run cache: what is in the persistent cache, and its upkeep.
#include "tools/run/Commands.h"

#include "runtime/Cache.h"
#include "runtime/JsonText.h"
#include "runtime/Error.h"

#include <cstdio>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ditc::run {
namespace {

using Json = nlohmann::ordered_json;

int list(const Cache &cache, bool json) {
  std::vector<CacheEntry> entries = cache.list();
  uint64_t total = 0;
  Json rows = Json::array();
  for (const CacheEntry &entry : entries) {
    total += entry.bytes;
    if (json)
      rows.push_back({{"key", entry.key}, {"bytes", entry.bytes}, {"last_used", entry.lastUsed}});
    else
      fmt::print("{:>12}  {:%Y-%m-%d %H:%M}  {}\n", formatBytes(entry.bytes),
                 fmt::localtime(static_cast<std::time_t>(entry.lastUsed)), entry.key);
  }
  if (json)
    fmt::print("{}\n", jsonText(Json({{"folder", cache.folder()}, {"max_bytes", cache.maxBytes()}, {"bytes", total}, {"entries", rows}}), 2));
  else
    fmt::print("{} entries, {} of {} in '{}'\n", entries.size(), formatBytes(total), formatBytes(cache.maxBytes()),
               cache.folder());
  return 0;
}

CacheSweep sweepOf(Cache &cache, const CacheArgs &args) {
  if (args.action == CacheAction::Verify)
    return cache.verify();
  if (args.action == CacheAction::Clear)
    return cache.clear();
  return args.maxBytes ? cache.prune(*args.maxBytes) : cache.prune();
}

} // namespace

int cacheCommand(const CacheArgs &args) {
  Cache cache;
  if (cache.folder().empty())
    fail("there is no cache folder: set DITC_CACHE_DIR (or HOME)");
  if (args.action == CacheAction::List)
    return list(cache, args.json);
  CacheSweep sweep = sweepOf(cache, args);
  std::vector<std::string> warnings = cache.takeWarnings();
  if (args.json)
    fmt::print("{}\n", jsonText(Json({{"folder", cache.folder()}, {"removed", sweep.removed}, {"freed_bytes", sweep.bytes},
                                      {"kept", sweep.kept}, {"warnings", warnings}}), 2));
  else
    fmt::print("{} {}entries removed, {} freed; {} left in '{}'\n", sweep.removed.size(),
               args.action == CacheAction::Verify ? "damaged " : "", formatBytes(sweep.bytes), sweep.kept,
               cache.folder());
  for (const std::string &warning : warnings)
    fmt::print(stderr, "ditc-run: warning: {}\n", warning);
  return warnings.empty() ? 0 : 1;
}

} // namespace ditc::run
