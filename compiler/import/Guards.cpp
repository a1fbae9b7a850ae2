// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Guards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

namespace ditc {

namespace {

/// Thrown, and caught below, when a guard leaves the grammar.
struct NotUnderstood {};

/// Recursive descent over Python's expression grammar, as far as guards use it. All numbers are integers.
class GuardReader {
public:
  GuardReader(std::string_view text, const SizeLookup &sizes) : rest(text), sizes(sizes) {}

  bool truth() {
    bool value = disjunction();
    skipSpace();
    if (!rest.empty())
      throw NotUnderstood();
    return value;
  }

private:
  void skipSpace() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
      rest.remove_prefix(1);
  }

  bool take(std::string_view token) {
    skipSpace();
    if (!rest.starts_with(token))
      return false;
    bool isWord = std::isalpha(static_cast<unsigned char>(token.back()));
    if (isWord && rest.size() > token.size() && std::isalnum(static_cast<unsigned char>(rest[token.size()])))
      return false;
    rest.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token))
      throw NotUnderstood();
  }

  int64_t disjunction() {
    int64_t value = conjunction();
    while (take("or")) {
      int64_t right = conjunction();
      value = value != 0 || right != 0;
    }
    return value;
  }

  int64_t conjunction() {
    int64_t value = negation();
    while (take("and")) {
      int64_t right = negation();
      value = value != 0 && right != 0;
    }
    return value;
  }

  int64_t negation() {
    bool negate = false;
    while (take("not"))
      negate = !negate;
    return negate ? !comparison() : comparison();
  }

  int64_t comparison() {
    int64_t left = sum();
    bool compared = false, holds = true;
    for (;;) {
      std::string_view sign;
      for (std::string_view candidate : {"==", "!=", "<=", ">=", "<", ">"})
        if (sign.empty() && take(candidate))
          sign = candidate;
      if (sign.empty())
        return compared ? holds : left;
      int64_t right = sum();
      holds &= compare(left, sign, right);
      left = right;
      compared = true;
    }
  }

  static bool compare(int64_t left, std::string_view sign, int64_t right) {
    if (sign == "==")
      return left == right;
    if (sign == "!=")
      return left != right;
    if (sign == "<=")
      return left <= right;
    if (sign == ">=")
      return left >= right;
    return sign == "<" ? left < right : left > right;
  }

  static int64_t checked(bool overflow, int64_t value) {
    if (overflow)
      throw NotUnderstood();
    return value;
  }

  static int64_t floorDivide(int64_t a, int64_t b) {
    if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1))
      throw NotUnderstood();
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  }

  int64_t sum() {
    int64_t value = product(), result = 0;
    for (;;) {
      bool overflow = false;
      if (take("+"))
        overflow = __builtin_add_overflow(value, product(), &result);
      else if (take("-"))
        overflow = __builtin_sub_overflow(value, product(), &result);
      else
        return value;
      value = checked(overflow, result);
    }
  }

  int64_t product() {
    int64_t value = unary(), result = 0;
    for (;;) {
      if (take("**"))
        throw NotUnderstood();
      if (take("*")) {
        bool overflow = __builtin_mul_overflow(value, unary(), &result);
        value = checked(overflow, result);
      } else if (take("//")) {
        value = floorDivide(value, unary());
      } else if (take("%")) {
        int64_t divisor = unary();
        value -= floorDivide(value, divisor) * divisor;
      } else {
        return value;
      }
    }
  }

  int64_t unary() {
    bool negate = false;
    while (take("-"))
      negate = !negate;
    int64_t value = primary(), result = 0;
    return negate ? checked(__builtin_sub_overflow(int64_t{0}, value, &result), result) : value;
  }

  int64_t primary() {
    if (++depth > 200)
      throw NotUnderstood();
    int64_t value = 0;
    if (take("(")) {
      value = disjunction();
      expect(")");
    } else if (take("torch.sym_max") || take("max")) {
      value = extreme(/*largest=*/true);
    } else if (take("torch.sym_min") || take("min")) {
      value = extreme(/*largest=*/false);
    } else if (take("True")) {
      value = 1;
    } else if (take("False")) {
      value = 0;
    } else if (take("L[")) {
      value = input();
    } else {
      value = integer();
    }
    --depth;
    return value;
  }

  int64_t extreme(bool largest) {
    expect("(");
    int64_t value = disjunction();
    while (take(",")) {
      int64_t other = disjunction();
      value = largest ? std::max(value, other) : std::min(value, other);
    }
    expect(")");
    return value;
  }

  int64_t integer() {
    skipSpace();
    int64_t value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc())
      throw NotUnderstood();
    rest.remove_prefix(end - rest.data());
    return value;
  }

  /// What stands in brackets: 'name' or a number, as text.
  std::string key() {
    skipSpace();
    if (rest.empty() || (rest.front() != '\'' && rest.front() != '"')) {
      std::string text = std::to_string(integer());
      expect("]");
      return text;
    }
    size_t close = rest.find(rest.front(), 1);
    if (close == std::string_view::npos)
      throw NotUnderstood();
    std::string text(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
    expect("]");
    return text;
  }

  /// L['a']['b'].size()[i], or L['n'].
  int64_t input() {
    std::string name = key();
    while (take("["))
      name += "." + key();
    if (take(".size()["))
      name += "." + key();
    else if (rest.starts_with("."))
      throw NotUnderstood();
    std::optional<int64_t> size = sizes(name);
    if (!size)
      throw NotUnderstood();
    return *size;
  }

  std::string_view rest;
  const SizeLookup &sizes;
  int depth = 0;
};

} // namespace

std::optional<bool> evaluateGuard(std::string_view guard, const SizeLookup &sizes) {
  try {
    return GuardReader(guard, sizes).truth();
  } catch (const NotUnderstood &) {
    return std::nullopt;
  }
}

std::string readableGuard(std::string_view guard) {
  // L['x'].size()[2] -> x.2
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRules{
      {{"L['", ""}, {"']['", "."}, {"'].size()[", "."}, {"torch.sym_", ""}}};
  std::string text;
  bool inSize = false;
  while (!guard.empty()) {
    bool replaced = false;
    for (auto [from, to] : kRules)
      if (!replaced && guard.starts_with(from)) {
        text += to;
        inSize |= from == "'].size()[";
        guard.remove_prefix(from.size());
        replaced = true;
      }
    if (replaced)
      continue;
    if (inSize && guard.front() == ']')
      inSize = false;
    else
      text += guard.front();
    guard.remove_prefix(1);
  }
  return text;
}

} // namespace ditc
