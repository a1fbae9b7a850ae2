// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/RandomRowwise.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace ditc::test {
namespace {

using Shape = std::vector<int64_t>;

struct Tensor {
  std::string name;
  Shape shape;
  std::string element;
};

int64_t elements(const Shape &shape) { return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>()); }

std::string joined(const Shape &list) {
  std::string text;
  for (int64_t number : list)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string typeOf(const Tensor &tensor) {
  std::string text = "tensor<";
  for (int64_t size : tensor.shape)
    text += std::to_string(size) + "x";
  return text + tensor.element + ">";
}

bool isFloat(const std::string &element) { return element.find('f') != std::string::npos; }
std::string computeType(const std::string &element) { return element == "f64" ? "f64" : isFloat(element) ? "f32" : element == "i1" ? "i1" : "i64"; }

class Generator {
public:
  explicit Generator(uint32_t seed) : random(seed) {}

  RandomBody generate();

private:
  int64_t below(int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); }
  bool coin(int percent = 50) { return below(100) < percent; }
  template <typename T> T oneOf(const std::vector<T> &list) { return list[below(list.size())]; }

  std::string anyElement() { return oneOf<std::string>({"f32", "f32", "f32", "bf16", "f16", "f64", "i64", "i32", "i8", "i1", "i16", "ui8"}); }
  Shape anyShape();
  Tensor addArgument(const Shape &shape, const std::string &element);
  Tensor define(const Shape &shape, const std::string &element, const std::string &text);
  Tensor pickValue() { return values[below(values.size())]; }

  void addMap(const Tensor &first);
  std::string castTo(const std::string &value, const std::string &from, const std::string &to, std::string &code);
  void addNorm(const Tensor &input);
  void addReduce(const Tensor &input);
  void addView(const Tensor &input);
  void addPermute(const Tensor &input);
  void addSlice(const Tensor &input);
  void addConcat(const Tensor &input);
  void addPad(const Tensor &input);
  void addExpand(const Tensor &input);
  void addGather(const Tensor &input);
  void addRotary(const Tensor &input);
  void addOperation();

  std::mt19937 random;
  std::vector<Tensor> arguments, values;
  std::string body;
  int count = 0;
};

Shape Generator::anyShape() {
  static const std::vector<int64_t> kSizes = {1, 2, 3, 4, 6, 8, 9, 16, 24, 33, 64, 72, 100, 128};
  Shape shape(1 + below(4));
  for (int64_t &size : shape)
    size = oneOf(kSizes);
  while (elements(shape) > 6000)
    shape[below(shape.size())] = oneOf<int64_t>({1, 2, 3});
  return shape;
}

Tensor Generator::addArgument(const Shape &shape, const std::string &element) {
  arguments.push_back({"%arg" + std::to_string(arguments.size()), shape, element});
  return arguments.back();
}

Tensor Generator::define(const Shape &shape, const std::string &element, const std::string &text) {
  Tensor tensor{"%v" + std::to_string(count++), shape, element};
  body += "  " + tensor.name + " = " + text + "\n";
  values.push_back(tensor);
  return tensor;
}

std::string Generator::castTo(const std::string &value, const std::string &from, const std::string &to, std::string &code) {
  if (from == to)
    return value;
  std::string name = "%s" + std::to_string(count++), op;
  if (isFloat(from) && isFloat(to))
    op = from == "f32" ? "arith.extf" : "arith.truncf";
  else if (isFloat(to))
    op = from == "i1" ? "arith.uitofp" : "arith.sitofp";
  else if (isFloat(from))
    op = to == "i64" ? "arith.fptosi" : "";
  else
    op = from == "i1" ? "arith.extui" : "arith.trunci";
  if (op.empty()) { // a float as a bool
    code += "    %z" + name.substr(1) + " = arith.constant 0.0 : " + from + "\n";
    code += "    " + name + " = arith.cmpf une, " + value + ", %z" + name.substr(1) + " : " + from + "\n";
  } else {
    code += "    " + name + " = " + op + " " + value + " : " + from + " to " + to + "\n";
  }
  return name;
}

/// One to three operands, some of them repeated along dimensions of size 1.
void Generator::addMap(const Tensor &first) {
  std::vector<Tensor> operands = {first};
  for (const Tensor &value : values)
    if (operands.size() < 3 && coin(30) && value.shape == first.shape)
      operands.push_back(value);
  while (operands.size() < 3 && coin(40)) {
    Shape shape = first.shape;
    for (int64_t &size : shape)
      size = coin(40) ? 1 : size;
    operands.push_back(addArgument(shape, coin(60) ? first.element : anyElement()));
  }
  std::string element = coin(75) ? first.element : anyElement();
  if (isFloat(first.element) && !isFloat(element) && element != "i64")
    element = first.element; // a rounding off in front of a cast would show
  std::string work = computeType(first.element), names, types, parameters, code;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string letter = "%a" + std::to_string(i);
    names += (i ? ", " : "") + operands[i].name;
    types += (i ? ", " : "") + typeOf(operands[i]);
    parameters += (i ? ", " : "") + letter + ": " + computeType(operands[i].element);
  }
  std::string value = "%a0";
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string from = computeType(operands[i].element);
    if (isFloat(from) && !isFloat(work)) // see above
      continue;
    std::string other = castTo("%a" + std::to_string(i), from, work, code), name = "%m" + std::to_string(count++);
    std::string op = isFloat(work)  ? oneOf<std::string>({"arith.addf", "arith.mulf", "arith.subf", "arith.maximumf"})
                     : work == "i1" ? oneOf<std::string>({"arith.andi", "arith.xori"})
                                    : oneOf<std::string>({"arith.addi", "arith.muli", "arith.remsi", "arith.divsi"});
    code += "    " + name + " = " + op + " " + value + ", " + other + " : " + work + "\n";
    value = name;
  }
  if (isFloat(work) && coin(30)) {
    std::string name = "%u" + std::to_string(count++);
    code += "    " + name + " = " + oneOf<std::string>({"math.tanh", "math.sin", "arith.negf", "math.absf"}) + " " + value + " : " + work + "\n";
    value = name;
  }
  if (isFloat(work) && element == "i64") {
    std::string name = "%w" + std::to_string(count++);
    code += "    " + name + " = arith.bitcast " + (work == "f32" ? "%a0 : f32 to i32" : "%a0 : f64 to i64") + "\n";
    value = castTo(name, "i64", "i64", code);
    if (work == "f32") {
      code += "    " + name + "x = arith.extsi " + name + " : i32 to i64\n";
      value = name + "x";
    }
    if (first.name.substr(0, 2) == "%v") { // only bits that were loaded are exact
      code.clear();
      element = first.element, value = "%a0";
    }
  } else {
    value = castTo(value, work, computeType(element), code);
  }
  Tensor result{"", first.shape, element};
  define(first.shape, element,
         "dit.map(" + names + ") : (" + types + ") -> " + typeOf(result) + " {\n  ^bb0(" + parameters + "):\n" + code + "    dit.yield " + value + " : " +
             computeType(element) + "\n  }");
}

void Generator::addNorm(const Tensor &input) {
  if (!isFloat(input.element))
    return;
  int64_t axes = 1 + below(std::min<int64_t>(input.shape.size(), 2));
  Shape inner(input.shape.end() - axes, input.shape.end());
  bool weight = coin(), bias = weight && coin();
  std::string text = std::string("dit.norm ") + (coin() ? "layer " : "rms ") + input.name, types = typeOf(input);
  for (auto [use, word] : {std::pair(weight, " weight "), std::pair(bias, " bias ")})
    if (use) {
      Tensor operand = addArgument(inner, input.element);
      text += word + operand.name;
      types += ", " + typeOf(operand);
    }
  define(input.shape, input.element, text + " axes " + std::to_string(axes) + " eps 0.1 : (" + types + ") -> " + typeOf(input));
}

void Generator::addReduce(const Tensor &input) {
  Shape axes, shape = input.shape;
  for (size_t i = 0; i < shape.size(); ++i)
    if (coin()) {
      axes.push_back(i);
      shape[i] = 1;
    }
  if (axes.empty())
    return;
  std::string kind = input.element == "i1" ? oneOf<std::string>({"any", "all"}) : oneOf<std::string>({"sum", "mean", "max", "min"});
  if (!isFloat(input.element) && kind == "mean")
    kind = "sum";
  Tensor result{"", shape, input.element};
  define(shape, input.element, "dit.reduce " + kind + " " + input.name + " axes " + joined(axes) + " : (" + typeOf(input) + ") -> " + typeOf(result));
}

/// Splits a dimension or joins two neighbours, a few times.
void Generator::addView(const Tensor &input) {
  Shape shape = input.shape;
  for (int64_t steps = 1 + below(3); steps > 0; --steps) {
    size_t i = below(shape.size());
    if (coin() && i + 1 < shape.size()) {
      shape[i] *= shape[i + 1];
      shape.erase(shape.begin() + i + 1);
    } else {
      for (int64_t divisor : {int64_t(2), int64_t(3), int64_t(8), int64_t(1)})
        if (shape[i] % divisor == 0 && coin()) {
          shape[i] /= divisor;
          shape.insert(shape.begin() + i + below(2), divisor);
          break;
        }
    }
  }
  if (shape.size() <= 6)
    define(shape, input.element, "dit.view " + input.name + " : " + typeOf(input) + " -> " + typeOf({"", shape, input.element}));
}

void Generator::addPermute(const Tensor &input) {
  Shape permutation(input.shape.size()), shape;
  std::iota(permutation.begin(), permutation.end(), 0);
  std::shuffle(permutation.begin(), permutation.end(), random);
  for (int64_t dim : permutation)
    shape.push_back(input.shape[dim]);
  define(shape, input.element, "dit.permute " + input.name + " " + joined(permutation) + " : " + typeOf(input) + " -> " + typeOf({"", shape, input.element}));
}

void Generator::addSlice(const Tensor &input) {
  Shape offsets, steps, shape;
  for (int64_t size : input.shape) {
    int64_t offset = coin(60) ? 0 : below(size), step = coin(75) ? 1 : 1 + below(3);
    int64_t most = (size - offset + step - 1) / step;
    offsets.push_back(offset);
    steps.push_back(step);
    shape.push_back(coin(70) ? most : 1 + below(most));
  }
  define(shape, input.element,
         "dit.slice " + input.name + " offsets " + joined(offsets) + " steps " + joined(steps) + " : " + typeOf(input) + " -> " +
             typeOf({"", shape, input.element}));
}

void Generator::addConcat(const Tensor &input) {
  size_t axis = below(input.shape.size());
  std::vector<Tensor> parts = {input};
  for (const Tensor &value : values) {
    Shape a = value.shape, b = input.shape;
    if (parts.size() < 3 && a.size() == b.size() && value.element == input.element && coin()) {
      a[axis] = b[axis];
      if (a == b)
        parts.push_back(value);
    }
  }
  if (coin()) {
    Shape shape = input.shape;
    shape[axis] = 1 + below(9);
    parts.insert(parts.begin() + below(parts.size() + 1), addArgument(shape, input.element));
  }
  std::string names, types;
  Shape shape = input.shape;
  shape[axis] = 0;
  for (const Tensor &part : parts) {
    names += (names.empty() ? "" : ", ") + part.name;
    types += (types.empty() ? "" : ", ") + typeOf(part);
    shape[axis] += part.shape[axis];
  }
  define(shape, input.element, "dit.concat(" + names + ") axis " + std::to_string(axis) + " : (" + types + ") -> " + typeOf({"", shape, input.element}));
}

void Generator::addPad(const Tensor &input) {
  Shape low, high, shape;
  for (int64_t size : input.shape) {
    low.push_back(coin() ? 0 : below(4));
    high.push_back(coin() ? 0 : below(4));
    shape.push_back(size + low.back() + high.back());
  }
  std::string value = input.element == "i1" ? "true" : (isFloat(input.element) ? "1.5 : " : "3 : ") + input.element;
  define(shape, input.element,
         "dit.pad " + input.name + " low " + joined(low) + " high " + joined(high) + " value " + value + " : " + typeOf(input) + " -> " +
             typeOf({"", shape, input.element}));
}

void Generator::addExpand(const Tensor &input) {
  Shape shape = input.shape;
  for (int64_t &size : shape)
    if (size == 1 && coin(70))
      size = 1 + below(8);
  define(shape, input.element, "dit.expand " + input.name + " : " + typeOf(input) + " -> " + typeOf({"", shape, input.element}));
}

void Generator::addGather(const Tensor &input) {
  size_t axis = below(input.shape.size());
  Tensor indices = addArgument(coin() ? Shape{1 + below(5)} : Shape{2, 1 + below(3)}, oneOf<std::string>({"i64", "i32"}));
  Shape shape(input.shape.begin(), input.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), input.shape.begin() + axis + 1, input.shape.end());
  if (shape.size() <= 6)
    define(shape, input.element,
           "dit.gather " + input.name + "[" + indices.name + "] axis " + std::to_string(axis) + " : (" + typeOf(input) + ", " + typeOf(indices) + ") -> " +
               typeOf({"", shape, input.element}));
}

/// The halves of the last dimension turned against each other: apart, or interleaved.
void Generator::addRotary(const Tensor &input) {
  if (input.shape.back() % 2 || !isFloat(input.element) || input.shape.size() > 4)
    return;
  bool interleaved = coin();
  int64_t half = input.shape.back() / 2;
  Shape pairs(input.shape.begin(), input.shape.end() - 1), one;
  pairs.insert(pairs.end(), {interleaved ? half : 2, interleaved ? 2 : half});
  one = pairs;
  size_t axis = interleaved ? one.size() - 1 : one.size() - 2;
  one[axis] = 1;
  Tensor split = define(pairs, input.element, "dit.view " + input.name + " : " + typeOf(input) + " -> " + typeOf({"", pairs, input.element}));
  Shape zeros(one.size(), 0), ones(one.size(), 1), second = zeros;
  second[axis] = 1;
  auto slice = [&](const Shape &offsets) {
    return define(one, input.element,
                  "dit.slice " + split.name + " offsets " + joined(offsets) + " steps " + joined(ones) + " : " + typeOf(split) + " -> " +
                      typeOf({"", one, input.element}));
  };
  Tensor a = slice(zeros), b = slice(second);
  std::string work = computeType(input.element);
  Tensor turned = define(one, input.element,
                         "dit.map(" + b.name + ") : (" + typeOf(b) + ") -> " + typeOf(b) + " {\n  ^bb0(%a0: " + work + "):\n    %n = arith.negf %a0 : " + work +
                             "\n    dit.yield %n : " + work + "\n  }");
  Tensor both =
      define(pairs, input.element,
             "dit.concat(" + turned.name + ", " + a.name + ") axis " + std::to_string(axis) + " : (" + typeOf(a) + ", " + typeOf(a) + ") -> " + typeOf(split));
  define(input.shape, input.element, "dit.view " + both.name + " : " + typeOf(both) + " -> " + typeOf(input));
}

void Generator::addOperation() {
  Tensor input = coin(60) ? values.back() : pickValue();
  using Add = void (Generator::*)(const Tensor &);
  static const std::vector<Add> kOperations = {&Generator::addMap,    &Generator::addMap,    &Generator::addMap,  &Generator::addNorm,
                                               &Generator::addNorm,   &Generator::addReduce, &Generator::addView, &Generator::addPermute,
                                               &Generator::addSlice,  &Generator::addConcat, &Generator::addPad,  &Generator::addExpand,
                                               &Generator::addGather, &Generator::addRotary};
  if (elements(input.shape) <= 20000)
    (this->*oneOf(kOperations))(input);
}

RandomBody Generator::generate() {
  values.push_back(addArgument(anyShape(), anyElement()));
  if (coin(30))
    values.push_back(addArgument(anyShape(), anyElement()));
  for (int64_t steps = 2 + below(7); steps > 0; --steps)
    addOperation();
  std::vector<Tensor> results = {values.back()};
  while (results.size() < 3 && coin(40))
    results.push_back(pickValue());
  RandomBody result;
  std::string parameters, types, names;
  for (const Tensor &argument : arguments)
    parameters += (parameters.empty() ? "" : ", ") + argument.name + ": " + typeOf(argument);
  for (const Tensor &one : results) {
    names += (names.empty() ? "" : ", ") + one.name;
    types += (types.empty() ? "" : ", ") + typeOf(one);
  }
  result.function = "func.func @f(" + parameters + ") -> (" + types + ") {\n" + body + "  return " + names + " : " + types + "\n}\n";
  for (const Tensor &tensor : values)
    result.hasSmallFloats |= tensor.element == "f16" || tensor.element == "bf16";
  for (const Tensor &tensor : arguments)
    result.hasSmallFloats |= tensor.element == "f16" || tensor.element == "bf16";
  return result;
}

} // namespace

RandomBody randomRowwise(uint32_t seed) { return Generator(seed).generate(); }

} // namespace ditc::test
