// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Buckets.h"

#include "compiler/import/Guards.h"
#include "runtime/Error.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ditc {

namespace {

/// A size or integer of the inputs that depends on symbols.
struct Place {
  std::string name; ///< "hidden_states.1", or the name of an integer input
  SymInt size;
};

template <typename... Args> [[noreturn]] void usage(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(ErrorKind::Usage, fmt::format(format, std::forward<Args>(args)...));
}

/// All sizes of user inputs, constant ones too.
std::vector<Place> placesOf(const ExportedProgram &program) {
  std::vector<Place> places;
  for (size_t i = 0; i < program.inputSpecs.size(); ++i) {
    const InputSpec &spec = program.inputSpecs[i];
    const Argument &argument = program.graph.inputs[i];
    if (spec.kind != InputSpec::Kind::UserInput)
      continue;
    if (argument.kind == Argument::Kind::Tensor) {
      const std::vector<SymInt> &sizes = program.graph.tensorValues.at(argument.text).sizes;
      for (size_t d = 0; d < sizes.size(); ++d)
        places.push_back({fmt::format("{}.{}", spec.userName, d), sizes[d]});
    } else if (argument.kind == Argument::Kind::SymInt) {
      const SymScalar &symbol = program.graph.symValues.at(argument.text);
      SymInt size;
      size.expr = symbol.expr;
      size.hasHint = std::holds_alternative<int64_t>(symbol.value);
      size.value = size.hasHint ? std::get<int64_t>(symbol.value) : 0;
      places.push_back({spec.userName, size});
    }
  }
  return places;
}

std::set<std::string> symbolsOf(const std::vector<Place> &places) {
  std::set<std::string> symbols;
  for (const Place &place : places)
    if (place.size.expr)
      collectSymbols(*place.size.expr, symbols);
  return symbols;
}

//===-- Solving -----------------------------------------------------------------------------------===//

/// factor · symbol + offset, where all other symbols are bound.
struct Linear {
  int64_t factor = 0, offset = 0;
};

std::optional<Linear> linearIn(const SymExpr &expr, const std::string &symbol, const SymBindings &bound) {
  std::set<std::string> names;
  collectSymbols(expr, names);
  if (!names.count(symbol))
    return Linear{0, evaluateInt(expr, bound)};
  if (expr.function == "Symbol")
    return Linear{1, 0};
  if (expr.function != "Add" && expr.function != "Mul")
    return std::nullopt;
  Linear result{0, expr.function == "Mul"};
  for (const SymExprPtr &arg : expr.args) {
    std::optional<Linear> term = linearIn(*arg, symbol, bound);
    if (!term)
      return std::nullopt;
    if (expr.function == "Add") {
      result = {result.factor + term->factor, result.offset + term->offset};
    } else {
      if (result.factor != 0 && term->factor != 0)
        return std::nullopt;
      result = {result.factor * term->offset + term->factor * result.offset, result.offset * term->offset};
    }
  }
  return result;
}

/// The only unbound symbol of `expr`; empty when there are none or several.
std::string onlyUnknown(const SymExpr &expr, const SymBindings &bound) {
  std::set<std::string> names;
  collectSymbols(expr, names);
  std::string unknown;
  for (const std::string &name : names)
    if (!bound.count(name)) {
      if (!unknown.empty())
        return "";
      unknown = name;
    }
  return unknown;
}

/// A demanded value of a place.
struct Demand {
  const Place *place;
  int64_t value;
};

/// Binds what the demands determine, until nothing changes.
void solve(const std::vector<Demand> &demands, SymBindings &bound) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Demand &demand : demands) {
      const SymExprPtr &expr = demand.place->size.expr;
      std::string unknown = expr ? onlyUnknown(*expr, bound) : "";
      std::optional<Linear> line = unknown.empty() ? std::nullopt : linearIn(*expr, unknown, bound);
      if (!line || line->factor == 0)
        continue;
      int64_t numerator = demand.value - line->offset;
      if (numerator % line->factor != 0)
        fail("{} = {} does not fit {}: not divisible by {}", demand.place->name, demand.value, toString(*expr),
             std::abs(line->factor));
      bound[unknown] = numerator / line->factor;
      changed = true;
    }
  }
}

//===-- Checks ------------------------------------------------------------------------------------===//

int64_t integerOf(const SymValue &value) {
  return std::holds_alternative<int64_t>(value) ? std::get<int64_t>(value) : 0;
}

void checkDemands(const std::string &bucket, const std::vector<Demand> &demands, const SymBindings &bound) {
  for (const Demand &demand : demands) {
    const SymInt &size = demand.place->size;
    int64_t actual = evaluateSize(size, bound);
    if (actual == demand.value)
      continue;
    if (!size.expr)
      fail("bucket '{}': {} is {} in the export, it cannot be {}", bucket, demand.place->name, actual, demand.value);
    fail("bucket '{}': {} = {} contradicts the other sizes, which make it {} ({})", bucket, demand.place->name,
         demand.value, actual, toString(*size.expr));
  }
}

void checkRanges(const std::string &bucket, const ExportedProgram &program, const std::vector<Place> &places,
                 const SymBindings &bound) {
  for (const auto &[symbol, value] : bound) {
    auto range = program.ranges.find(symbol);
    int64_t number = integerOf(value);
    if (range != program.ranges.end() &&
        ((range->second.min && number < *range->second.min) || (range->second.max && number > *range->second.max)))
      fail("bucket '{}': {} = {} is outside {}..{}, the range that the model was exported for", bucket, symbol, number,
           range->second.min ? std::to_string(*range->second.min) : "",
           range->second.max ? std::to_string(*range->second.max) : "");
  }
  for (const Place &place : places)
    if (int64_t size = evaluateSize(place.size, bound); size < 0)
      fail("bucket '{}': {} would be {}", bucket, place.name, size);
}

/// "a != b" without any other comparison: what the exporter notes wherever it looked whether sizes are equal.
bool isInequality(std::string_view guard) {
  return guard.find("!=") != std::string_view::npos && guard.find("==") == std::string_view::npos &&
         guard.find_first_of("<>") == std::string_view::npos;
}

void checkGuards(Bucket &bucket, const ExportedProgram &program, const std::vector<Place> &places) {
  std::map<std::string, int64_t> sizes;
  for (const Place &place : places)
    sizes[place.name] = evaluateSize(place.size, bucket.symbols);
  SizeLookup lookup = [&](const std::string &name) {
    auto size = sizes.find(name);
    return size == sizes.end() ? std::nullopt : std::optional(size->second);
  };
  for (const std::string &guard : program.guards) {
    if (evaluateGuard(guard, lookup) != std::optional(false))
      continue;
    if (!isInequality(guard))
      fail("bucket '{}': the export holds only while {}", bucket.name, readableGuard(guard));
    bucket.broken.push_back(readableGuard(guard));
  }
}

//===-- Text --------------------------------------------------------------------------------------===//

struct Assignment {
  std::string key;
  int64_t value;
};

struct Spec {
  std::string name;
  std::vector<Assignment> assignments;
};

Spec parseSpec(const std::string &text) {
  Spec spec;
  size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  if (spec.name.empty() || !std::all_of(spec.name.begin(), spec.name.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '_' || c == '-' || c == '.';
      }))
    usage("bucket '{}' needs a name of letters, digits, '_', '-' and '.': NAME:SYMBOL=VALUE,INPUT.DIM=VALUE", text);
  std::string_view rest = colon == std::string::npos ? std::string_view() : std::string_view(text).substr(colon + 1);
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    size_t equals = item.find('=');
    int64_t value = 0;
    std::string_view digits = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (equals == 0 || digits.empty() || error != std::errc() || end != digits.data() + digits.size())
      usage("'{}' in bucket '{}' is not SYMBOL=VALUE or INPUT.DIM=VALUE", item, spec.name);
    spec.assignments.push_back({std::string(item.substr(0, equals)), value});
  }
  return spec;
}

std::string choices(const std::vector<Place> &places, const std::set<std::string> &symbols) {
  std::vector<std::string> names(symbols.begin(), symbols.end());
  for (const Place &place : places)
    if (place.size.expr)
      names.push_back(place.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The values that the export was made with.
SymBindings hintsOf(const std::vector<Place> &places) {
  std::vector<Demand> demands;
  for (const Place &place : places)
    if (place.size.expr && place.size.hasHint)
      demands.push_back({&place, place.size.value});
  SymBindings bound;
  solve(demands, bound);
  return bound;
}

Bucket resolve(const ExportedProgram &program, const Spec &spec, const std::vector<Place> &places) {
  std::set<std::string> symbols = symbolsOf(places);
  Bucket bucket{spec.name, {}, {}};
  std::vector<Demand> demands;
  for (const Assignment &assignment : spec.assignments) {
    auto place = std::find_if(places.begin(), places.end(),
                              [&](const Place &candidate) { return candidate.name == assignment.key; });
    if (place != places.end()) {
      demands.push_back({&*place, assignment.value});
    } else if (!symbols.count(assignment.key)) {
      if (symbols.empty())
        usage("bucket '{}' sets '{}', but the sizes of the model are fixed", spec.name, assignment.key);
      usage("bucket '{}' sets '{}', which is no symbol or input of the model; known are {}", spec.name, assignment.key,
            choices(places, symbols));
    } else if (auto [known, isNew] = bucket.symbols.emplace(assignment.key, assignment.value);
               !isNew && integerOf(known->second) != assignment.value) {
      usage("bucket '{}' sets '{}' twice", spec.name, assignment.key);
    }
  }
  if (spec.assignments.empty())
    bucket.symbols = hintsOf(places);
  try {
    solve(demands, bucket.symbols);
  } catch (const Error &error) {
    fail("bucket '{}': {}", spec.name, error.what());
  }
  std::vector<std::string> missing;
  for (const std::string &symbol : symbols)
    if (!bucket.symbols.count(symbol))
      missing.push_back(symbol);
  if (!missing.empty())
    fail("bucket '{}' leaves {} open; the symbols of the model are: {}", spec.name, fmt::join(missing, ", "),
         fmt::join(describeSymbols(program), "; "));
  checkDemands(spec.name, demands, bucket.symbols);
  checkRanges(spec.name, program, places, bucket.symbols);
  checkGuards(bucket, program, places);
  return bucket;
}

} // namespace

std::vector<Bucket> resolveBuckets(const ExportedProgram &program, const std::vector<std::string> &specs) {
  std::vector<Place> places = placesOf(program);
  if (specs.empty())
    return {resolve(program, {"default", {}}, places)};
  std::vector<Bucket> buckets;
  for (const std::string &text : specs) {
    Spec spec = parseSpec(text);
    for (const Bucket &bucket : buckets)
      if (bucket.name == spec.name)
        usage("two buckets are called '{}'", spec.name);
    buckets.push_back(resolve(program, spec, places));
  }
  return buckets;
}

std::vector<std::string> describeSymbols(const ExportedProgram &program) {
  std::vector<Place> places = placesOf(program);
  SymBindings hints = hintsOf(places);
  std::vector<std::string> lines;
  for (const std::string &symbol : symbolsOf(places)) {
    auto range = program.ranges.find(symbol);
    std::string line = symbol;
    if (range != program.ranges.end())
      line += fmt::format(" in {}..{}", range->second.min ? std::to_string(*range->second.min) : "",
                          range->second.max ? std::to_string(*range->second.max) : "");
    if (auto hint = hints.find(symbol); hint != hints.end())
      line += fmt::format(" (exported with {})", integerOf(hint->second));
    std::vector<std::string> uses;
    for (const Place &place : places) {
      std::set<std::string> names;
      if (place.size.expr)
        collectSymbols(*place.size.expr, names);
      if (names.count(symbol))
        uses.push_back(place.size.expr->function == "Symbol"
                           ? place.name
                           : fmt::format("{} = {}", place.name, toString(*place.size.expr)));
    }
    lines.push_back(fmt::format("{}: {}", line, fmt::join(uses, ", ")));
  }
  return lines;
}

} // namespace ditc
