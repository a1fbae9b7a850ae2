// SPDX-License-Identifier: Apache-2.0
//
// srepr text <-> tree. The grammar is a call of names with arguments; all knowledge of functions is in the
// evaluator, so a new function is one row there.
#include "compiler/import/SymExpr.h"

#include "runtime/Error.h"
#include "runtime/Text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace ditc {

namespace {

constexpr int kMaxDepth = 200;
constexpr size_t kMaxText = 1 << 20;

/// Recursive descent over
///   expr := NAME '(' [item (',' item)*] ')' | 'true' | 'false'
///   item := expr | INT | 'quoted string' | NAME '=' (INT | True | False)
class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  SymExprPtr parse() {
    if (text.size() > kMaxText)
      reject("it is longer than a megabyte");
    SymExprPtr expr = parseExpr(0);
    skipSpace();
    if (position != text.size())
      reject(fmt::format("unexpected text at position {}", position));
    return expr;
  }

private:
  [[noreturn]] void reject(const std::string &why) {
    fail("symbolic size '{}': {}; expected sympy's srepr text such as Symbol('s0') or Mul(Integer(2), Symbol('s0')), "
         "export the model again with torch 2.6 or newer",
         printable(text), why);
  }

  void skipSpace() {
    while (position < text.size() && text[position] == ' ')
      ++position;
  }

  bool take(char character) {
    skipSpace();
    if (position >= text.size() || text[position] != character)
      return false;
    ++position;
    return true;
  }

  void expect(char character) {
    if (!take(character))
      reject(fmt::format("expected '{}' at position {}", character, position));
  }

  bool atNumber() {
    skipSpace();
    return position < text.size() &&
           (text[position] == '-' || std::isdigit(static_cast<unsigned char>(text[position])));
  }

  std::string_view parseName() {
    skipSpace();
    size_t start = position;
    auto isNamePart = [&](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); };
    while (position < text.size() && isNamePart(text[position]))
      ++position;
    std::string_view name = text.substr(start, position - start);
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())))
      reject(fmt::format("expected a name at position {}", start));
    return name;
  }

  /// torch compares sizes that depend on data with numbers beyond 2^63. No size reaches the largest below that either.
  int64_t parseInt() {
    skipSpace();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data() + position, text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range && text[position] != '-')
      value = INT64_MAX, error = std::errc();
    if (error == std::errc::result_out_of_range)
      reject(fmt::format("the number at position {} does not fit into 64 bits", position));
    if (error != std::errc())
      reject(fmt::format("expected a number at position {}", position));
    position = static_cast<size_t>(end - text.data());
    return value;
  }

  std::string_view parseQuoted() {
    skipSpace();
    char quote = position < text.size() ? text[position] : '\0';
    if (quote != '\'' && quote != '"')
      reject(fmt::format("expected a quoted string at position {}", position));
    size_t end = text.find(quote, position + 1);
    if (end == std::string_view::npos)
      reject("a quoted string does not end");
    std::string_view content = text.substr(position + 1, end - position - 1);
    position = end + 1;
    if (content.empty() || content.find('\\') != std::string_view::npos)
      reject("a quoted string is empty or has an escape");
    return content;
  }

  /// ", name=value" pairs up to the closing parenthesis: assumptions and precision, which change no value.
  void parseKeywords() {
    while (take(',')) {
      parseName();
      expect('=');
      if (atNumber())
        parseInt();
      else if (std::string_view word = parseName(); word != "True" && word != "False")
        reject(fmt::format("'{}' is not a keyword's value", printable(word)));
    }
    expect(')');
  }

  SymExprPtr parseExpr(int depth) {
    if (depth > kMaxDepth)
      reject(fmt::format("it is nested deeper than {} levels", kMaxDepth));
    SymExpr expr;
    expr.function = parseName();
    if (expr.function == "true" || expr.function == "false") {
      expr.value = expr.function == "true";
      return std::make_shared<const SymExpr>(std::move(expr));
    }
    expect('(');
    if (expr.function == "Symbol") {
      expr.text = parseQuoted();
      parseKeywords();
    } else if (expr.function == "Integer") {
      expr.value = parseInt();
      parseKeywords();
    } else if (expr.function == "Float") {
      expr.value = parseFloat();
      parseKeywords();
    } else {
      parseArgs(expr, depth);
    }
    return std::make_shared<const SymExpr>(std::move(expr));
  }

  double parseFloat() {
    std::string_view digits = parseQuoted();
    double value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
      reject(fmt::format("'{}' is not a number", printable(digits)));
    return value;
  }

  void parseArgs(SymExpr &expr, int depth) {
    if (take(')'))
      return;
    do {
      if (atNumber())
        expr.args.push_back(integer(parseInt()));
      else
        expr.args.push_back(parseExpr(depth + 1));
    } while (take(','));
    expect(')');
  }

  static SymExprPtr integer(int64_t value) {
    SymExpr expr;
    expr.function = "Integer";
    expr.value = value;
    return std::make_shared<const SymExpr>(std::move(expr));
  }

  std::string_view text;
  size_t position = 0;
};

/// How tightly an infix operator binds; calls and leaves bind tightest.
enum Precedence { kOr, kAnd, kComparison, kSum, kProduct, kPower, kAtom };

struct Infix {
  std::string_view function, symbol;
  Precedence precedence;
};

// The symbols are Python's, because that is what the user wrote.
constexpr Infix kInfix[] = {
    {"Or", " or ", kOr},
    {"And", " and ", kAnd},
    {"Equality", " == ", kComparison},
    {"Unequality", " != ", kComparison},
    {"StrictLessThan", " < ", kComparison},
    {"LessThan", " <= ", kComparison},
    {"StrictGreaterThan", " > ", kComparison},
    {"GreaterThan", " >= ", kComparison},
    {"Add", " + ", kSum},
    {"Mul", "*", kProduct},
    {"FloorDiv", "//", kProduct},
    {"CleanDiv", "//", kProduct},
    {"IntTrueDiv", "/", kProduct},
    {"FloatTrueDiv", "/", kProduct},
    {"Rational", "/", kProduct},
    {"Mod", "%", kProduct},
    {"PythonMod", "%", kProduct},
    {"Pow", "**", kPower},
    {"FloatPow", "**", kPower},
    {"PowByNatural", "**", kPower},
};

const Infix *infixOf(const SymExpr &expr) {
  if (expr.args.size() < 2)
    return nullptr;
  for (const Infix &row : kInfix)
    if (row.function == expr.function)
      return &row;
  return nullptr;
}

std::string leafText(const SymExpr &expr) {
  if (expr.function == "Symbol")
    return expr.text;
  if (const int64_t *integer = std::get_if<int64_t>(&expr.value))
    return fmt::format("{}", *integer);
  if (const double *number = std::get_if<double>(&expr.value))
    return fmt::format("{}", *number);
  return expr.function;
}

bool isInteger(const SymExpr &expr, int64_t value) {
  return expr.function == "Integer" && std::get<int64_t>(expr.value) == value;
}

bool isNegative(const SymExpr &expr) {
  if (expr.function != "Integer")
    return false;
  int64_t value = std::get<int64_t>(expr.value);
  return value < 0 && value > std::numeric_limits<int64_t>::min();
}

std::string callText(const SymExpr &expr) {
  std::string out = expr.function + "(";
  for (size_t i = 0; i < expr.args.size(); ++i)
    out += (i ? ", " : "") + toString(*expr.args[i]);
  return out + ")";
}

std::string infixText(const SymExpr &expr, const Infix &infix) {
  std::string out;
  for (size_t i = 0; i < expr.args.size(); ++i) {
    const SymExpr *arg = expr.args[i].get();
    std::string_view symbol = i ? infix.symbol : "";
    bool isNegation = arg->function == "Mul" && arg->args.size() == 2 && isInteger(*arg->args[0], -1);
    if (infix.function == "Add" && i && isNegation) { // a + -1*b reads better as a - b
      symbol = " - ";
      arg = arg->args[1].get();
    } else if (infix.function == "Add" && i && isNegative(*arg)) {
      out += fmt::format(" - {}", -std::get<int64_t>(arg->value));
      continue;
    }
    const Infix *inner = infixOf(*arg);
    bool isSum = infix.function == "Add" && inner && inner->precedence > kSum;
    bool needsBrackets = inner && !isSum;
    out += symbol;
    out += needsBrackets ? "(" + toString(*arg) + ")" : toString(*arg);
  }
  return out;
}

} // namespace

SymExprPtr parseSymExpr(std::string_view text) { return Parser(text).parse(); }

void collectSymbols(const SymExpr &expr, std::set<std::string> &symbols) {
  if (expr.function == "Symbol")
    symbols.insert(expr.text);
  for (const SymExprPtr &arg : expr.args)
    collectSymbols(*arg, symbols);
}

std::string toString(const SymExpr &expr) {
  if (expr.args.empty() && (expr.function == "Symbol" || expr.function == "Integer" || expr.function == "Float" ||
                            expr.function == "true" || expr.function == "false"))
    return leafText(expr);
  const Infix *infix = infixOf(expr);
  return infix ? infixText(expr, *infix) : callText(expr);
}

} // namespace ditc
