// SPDX-License-Identifier: Apache-2.0
//
// fp8 (f8E4M3FN) from its definition, for tests of everything that reads and writes it: the number of each code, the code
// nearest to a number by looking at all of them, and numbers to round.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace ditc::test {

inline double numberOfFloat8(int code) {
  int exponent = code >> 3 & 15, fraction = code & 7;
  double magnitude = exponent == 0 ? std::ldexp(fraction / 8.0, -6) : std::ldexp(1 + fraction / 8.0, exponent - 7);
  if (exponent == 15 && fraction == 7)
    magnitude = std::numeric_limits<double>::quiet_NaN();
  return std::copysign(magnitude, code & 0x80 ? -1.0 : 1.0);
}

/// Ties go to the even code. NaN is the code behind 448, where 480 would be, and all that is too large.
inline int nearestFloat8(float value) {
  int sign = std::signbit(value) ? 0x80 : 0, best = 0x7f;
  double magnitude = std::fabs(static_cast<double>(value)), least = std::fabs(magnitude - 480);
  if (std::isnan(magnitude) || magnitude >= 480)
    return sign | best;
  for (int code = 0; code < 0x7f; ++code) {
    double distance = std::fabs(magnitude - numberOfFloat8(code));
    if (distance < least || (distance == least && code % 2 == 0))
      least = distance, best = code;
  }
  return sign | best;
}

/// All numbers of fp8, all ties between neighbours, what lies next to both, a few thousand more of every size, and what
/// is too small, too large or no number; of both signs.
inline std::vector<float> numbersToRound() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers{0, 1e-45f, 1e-38f, 1e-10f, 447, 449, 465, 479, 480, 500, 1e6f, 3e38f, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  for (int code = 0; code < 0x7f; ++code) {
    auto number = static_cast<float>(numberOfFloat8(code)), next = code == 0x7e ? 480 : static_cast<float>(numberOfFloat8(code + 1));
    for (float at : {number, (number + next) / 2})
      for (float near : {at, std::nextafter(at, kInfinity), std::nextafter(at, -kInfinity)})
        numbers.push_back(std::fabs(near));
  }
  std::mt19937 random(8);
  for (int i = 0; i < 3000; ++i)
    numbers.push_back(std::ldexp(1 + static_cast<float>(random() >> 8) * 0x1p-24f, static_cast<int>(random() % 24) - 13));
  for (size_t i = 0, count = numbers.size(); i < count; ++i)
    numbers.push_back(-numbers[i]);
  return numbers;
}

} // namespace ditc::test
