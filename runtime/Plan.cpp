// SPDX-License-Identifier: Apache-2.0
//
// plan.json to structs and back. One function per struct and direction; what the numbers must satisfy is
// in PlanCheck.cpp.
#include "runtime/Plan.h"

#include "runtime/JsonFields.h"

#include <algorithm>
#include <array>

namespace ditc {
namespace {

constexpr std::array<std::string_view, 7> kSpaceNames = {"input",    "output", "weight", "constant",
                                                         "prepared", "arena",  "zeroed"};

//===-- writing ---------------------------------------------------------------------------------------===//

OrderedJson toJson(const PortDesc &port) {
  return {{"name", port.name}, {"dtype", nameOf(port.dtype)}, {"shape", port.shape}};
}

OrderedJson toJson(const PlanPointer &pointer) { return OrderedJson::array({pointer.buffer, pointer.offset}); }

OrderedJson toJson(const PlanBuffer &buffer) {
  OrderedJson out = {{"space", nameOf(buffer.space)}};
  switch (buffer.space) {
  case Space::Input:
  case Space::Output:
    out["index"] = buffer.index;
    return out;
  case Space::Weight:
    out["name"] = buffer.name;
    break;
  case Space::Constant:
    out["entry"] = buffer.name;
    break;
  case Space::Prepared:
  case Space::Arena:
  case Space::Zeroed:
    out["offset"] = buffer.offset;
    break;
  }
  out["bytes"] = buffer.bytes;
  return out;
}

OrderedJson bodyToJson(const LaunchOp &op) {
  OrderedJson args = OrderedJson::array();
  for (const PlanPointer &arg : op.args)
    args.push_back(toJson(arg));
  return {{"op", "launch"}, {"kernel", op.kernel}, {"args", std::move(args)}};
}

void addOperand(OrderedJson &out, const std::string &name, const GemmOperand &operand, bool mayTranspose) {
  out[name] = toJson(operand.at);
  out["ld" + name] = operand.rowStride;
  if (mayTranspose)
    out["trans_" + name] = operand.transposed;
  out["batch_" + name] = operand.batchStrides;
}

OrderedJson bodyToJson(const GemmOp &op) {
  OrderedJson out = {{"op", "gemm"}, {"dtype", nameOf(op.dtype)}, {"m", op.m},
                     {"n", op.n},    {"k", op.k},                 {"batch", op.batch}};
  addOperand(out, "a", op.a, true);
  addOperand(out, "b", op.b, true);
  addOperand(out, "c", op.c, false);
  if (op.bias)
    out["bias"] = toJson(*op.bias);
  return out;
}

OrderedJson bodyToJson(const CopyOp &op) {
  return {{"op", "copy"}, {"src", toJson(op.src)}, {"dst", toJson(op.dst)}, {"bytes", op.bytes}};
}

OrderedJson toJson(const PlanOp &op) {
  OrderedJson out = std::visit([](const auto &body) { return bodyToJson(body); }, op.body);
  out["where"] = op.where;
  if (op.work.bytes > 0)
    out["work"] = {op.work.bytes, op.work.matrixFlops, op.work.scalarFlops};
  if (op.work.fp8Flops > 0)
    out["work"].push_back(op.work.fp8Flops);
  return out;
}

OrderedJson toJson(const PinnedInput &pinned) {
  OrderedJson out = toJson(static_cast<const PortDesc &>(pinned));
  if (!pinned.xxh128.empty())
    out["xxh128"] = pinned.xxh128;
  return out;
}

OrderedJson toJson(const std::string &text) { return text; }

/// One element a line: a plan is read and compared by people.
template <typename T> std::string lines(const std::vector<T> &items) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i)
    out += (i ? ",\n    " : "\n    ") + toJson(items[i]).dump();
  return out + (items.empty() ? "]" : "\n  ]");
}

//===-- reading ---------------------------------------------------------------------------------------===//

PortDesc readPort(const JsonField &field) {
  return {field.at("name").text(), field.at("dtype").dtype(), field.at("shape").sizes()};
}

PinnedInput readPinned(const JsonField &field) {
  return {readPort(field), field.has("xxh128") ? field.at("xxh128").text() : ""};
}

PlanPointer readPointer(const JsonField &field) {
  if (field.size() != 2)
    field.misfit("[buffer, byte offset]");
  return {field.at(size_t{0}).index(), field.at(size_t{1}).count()};
}

PlanBuffer readBuffer(const JsonField &field) {
  PlanBuffer out;
  JsonField space = field.at("space");
  auto found = std::find(kSpaceNames.begin(), kSpaceNames.end(), space.text());
  if (found == kSpaceNames.end())
    space.misfit("one of input, output, weight, constant, prepared, arena, zeroed");
  out.space = static_cast<Space>(found - kSpaceNames.begin());
  if (out.space == Space::Input || out.space == Space::Output) {
    out.index = field.at("index").index();
    return out;
  }
  out.bytes = field.at("bytes").count();
  if (out.space == Space::Weight)
    out.name = field.at("name").text();
  else if (out.space == Space::Constant)
    out.name = field.at("entry").text();
  else
    out.offset = field.at("offset").count();
  return out;
}

GemmOperand readOperand(const JsonField &field, const std::string &name, bool mayTranspose) {
  GemmOperand out;
  out.at = readPointer(field.at(name.c_str()));
  out.rowStride = field.at(("ld" + name).c_str()).integer();
  if (mayTranspose)
    out.transposed = field.at(("trans_" + name).c_str()).boolean();
  out.batchStrides = field.at(("batch_" + name).c_str()).integers();
  return out;
}

GemmOp readGemm(const JsonField &field) {
  GemmOp out;
  out.dtype = field.at("dtype").dtype();
  out.m = field.at("m").integer();
  out.n = field.at("n").integer();
  out.k = field.at("k").integer();
  out.batch = field.at("batch").sizes();
  out.a = readOperand(field, "a", true);
  out.b = readOperand(field, "b", true);
  out.c = readOperand(field, "c", false);
  if (field.has("bias"))
    out.bias = readPointer(field.at("bias"));
  return out;
}

LaunchWork readWork(const JsonField &field) {
  std::vector<double> numbers = field.list([](const JsonField &number) {
    if (!number.value->is_number() || number.value->get<double>() < 0)
      number.misfit("a number that is not negative");
    return number.value->get<double>();
  });
  if (numbers.size() != 3 && numbers.size() != 4)
    field.misfit("[bytes, matrix FLOP, scalar FLOP] or those with FLOP on fp8 numbers");
  return {numbers[0], numbers[1], numbers[2], numbers.size() == 4 ? numbers[3] : 0};
}

PlanOp readOp(const JsonField &field) {
  PlanOp out;
  out.where = field.at("where").text();
  if (field.has("work"))
    out.work = readWork(field.at("work"));
  JsonField kind = field.at("op");
  std::string name = kind.text();
  if (name == "launch")
    out.body = LaunchOp{field.at("kernel").index(), field.at("args").list(readPointer)};
  else if (name == "gemm")
    out.body = readGemm(field);
  else if (name == "copy")
    out.body = CopyOp{readPointer(field.at("src")), readPointer(field.at("dst")), field.at("bytes").count()};
  else
    kind.misfit("one of launch, gemm, copy");
  return out;
}

} // namespace

std::string_view nameOf(Space space) { return kSpaceNames[static_cast<size_t>(space)]; }

std::string writePlan(const Plan &plan) {
  std::string out = "{\n";
  auto add = [&](std::string_view key, const std::string &value) {
    out += fmt::format("{}  \"{}\": {}", out.size() > 2 ? ",\n" : "", key, value);
  };
  add("version", std::to_string(kPlanVersion));
  add("arena_bytes", std::to_string(plan.arenaBytes));
  add("prepared_bytes", std::to_string(plan.preparedBytes));
  if (plan.zeroedBytes > 0)
    add("zeroed_bytes", std::to_string(plan.zeroedBytes));
  add("inputs", lines(plan.inputs));
  add("outputs", lines(plan.outputs));
  add("pinned", lines(plan.pinned));
  add("buffers", lines(plan.buffers));
  add("kernels", lines(plan.kernels));
  add("prepare", lines(plan.prepare));
  add("step", lines(plan.step));
  return out + "\n}\n";
}

Plan parsePlan(std::string_view text, std::string_view source) {
  Json json = parseJson(text, source);
  JsonField root(json, fmt::format("'{}'", source));
  JsonField version = root.at("version");
  if (version.integer() != kPlanVersion)
    fail("'{}' has plan version {}, this runtime reads version {}; compile again or update the runtime", source,
         version.integer(), kPlanVersion);
  Plan plan;
  plan.arenaBytes = root.at("arena_bytes").count();
  plan.preparedBytes = root.at("prepared_bytes").count();
  if (root.has("zeroed_bytes"))
    plan.zeroedBytes = root.at("zeroed_bytes").count();
  plan.inputs = root.at("inputs").list(readPort);
  plan.outputs = root.at("outputs").list(readPort);
  if (root.has("pinned"))
    plan.pinned = root.at("pinned").list(readPinned);
  plan.buffers = root.at("buffers").list(readBuffer);
  plan.kernels = root.at("kernels").texts();
  plan.prepare = root.at("prepare").list(readOp);
  plan.step = root.at("step").list(readOp);
  validatePlan(plan, source);
  return plan;
}

} // namespace ditc
