// SPDX-License-Identifier: Apache-2.0
//
// The functions that a torch.save pickle of tensors names, as a table. Nothing is called: each row turns
// arguments into a record. Any other function's result is Opaque, so that one odd weight does not make the
// others unreadable.
#include "compiler/import/Pickle.h"

#include "runtime/Text.h"

#include <fmt/format.h>

namespace ditc {

using Kind = PickleValue::Kind;
using Args = std::vector<const PickleValue *>;

namespace {

// A pickle can pass the same argument to a million calls, so a call must cost little: no tensor has more
// dimensions, and torch's keys are small numbers.
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxKey = 256;
constexpr size_t kMaxMetadata = 64;

struct TypeName {
  std::string_view name;
  DType type;
};

constexpr TypeName kStorages[] = {
    {"torch.ByteStorage", DType::u8},          {"torch.CharStorage", DType::i8},
    {"torch.ShortStorage", DType::i16},        {"torch.IntStorage", DType::i32},
    {"torch.LongStorage", DType::i64},         {"torch.HalfStorage", DType::f16},
    {"torch.FloatStorage", DType::f32},        {"torch.DoubleStorage", DType::f64},
    {"torch.BFloat16Storage", DType::bf16},    {"torch.BoolStorage", DType::b1},
    {"torch.ComplexFloatStorage", DType::c64}, {"torch.ComplexDoubleStorage", DType::c128},
};

constexpr TypeName kDTypes[] = {
    {"torch.uint8", DType::u8},
    {"torch.int8", DType::i8},
    {"torch.int16", DType::i16},
    {"torch.int32", DType::i32},
    {"torch.int64", DType::i64},
    {"torch.float16", DType::f16},
    {"torch.float32", DType::f32},
    {"torch.float64", DType::f64},
    {"torch.bfloat16", DType::bf16},
    {"torch.bool", DType::b1},
    {"torch.complex32", DType::c32},
    {"torch.complex64", DType::c64},
    {"torch.complex128", DType::c128},
    {"torch.uint16", DType::u16},
    {"torch.uint32", DType::u32},
    {"torch.uint64", DType::u64},
    {"torch.float8_e4m3fn", DType::f8e4m3},
    {"torch.float8_e5m2", DType::f8e5m2},
};

template <size_t count> std::optional<DType> lookUp(const TypeName (&table)[count], std::string_view name) {
  for (const TypeName &row : table)
    if (row.name == name)
      return row.type;
  return std::nullopt;
}

PickleValue opaque(std::string why) {
  PickleValue value;
  value.kind = Kind::Opaque;
  value.text = std::move(why);
  return value;
}

PickleValue opaqueCall(const std::string &callee) {
  return opaque(fmt::format("it is stored as an object of {}, which is not a plain tensor", printable(callee)));
}

/// conj and neg are lazy flags of a view whose bytes are not the tensor's values.
bool hasLazyFlag(const PickleValue &metadata) {
  if (metadata.kind != Kind::Dict || metadata.items.size() > kMaxMetadata)
    return false;
  for (size_t i = 0; i + 1 < metadata.items.size(); i += 2) {
    const PickleValue &key = *metadata.items[i], &value = *metadata.items[i + 1];
    bool isFlag = key.kind == Kind::String && (key.text == "conj" || key.text == "neg");
    if (isFlag && value.kind == Kind::Bool && value.integer)
      return true;
  }
  return false;
}

/// _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks[, metadata]) and
/// _rebuild_tensor_v3 with the dtype before the metadata.
std::optional<PickleValue> rebuildTensor(const Args &args, bool hasDType) {
  size_t plain = hasDType ? 7 : 6;
  if (args.size() != plain && args.size() != plain + 1)
    return std::nullopt;
  bool fits = args[0]->kind == Kind::Storage && args[1]->kind == Kind::Int && integersOf(*args[2]) &&
              integersOf(*args[3]) && (!hasDType || args[6]->kind == Kind::Global);
  if (!fits)
    return std::nullopt;
  if (args.size() > plain && hasLazyFlag(*args[plain]))
    return opaque("it is a lazily conjugated or negated view; call resolve_conj() or resolve_neg() on it before the "
                  "export");
  PickleValue tensor;
  tensor.kind = Kind::Tensor;
  tensor.dtype = hasDType ? lookUp(kDTypes, args[6]->text) : args[0]->dtype;
  if (!tensor.dtype)
    return opaque(fmt::format("it has the element type {}, which ditc does not support",
                              hasDType ? printable(args[6]->text) : "of an untyped storage"));
  tensor.integer = args[1]->integer;
  tensor.items = {args[0], args[2], args[3]};
  return tensor;
}

/// _rebuild_parameter(tensor, requires_grad, hooks[, state]).
std::optional<PickleValue> rebuildParameter(const Args &args, size_t count) {
  if (args.size() != count || (args[0]->kind != Kind::Tensor && args[0]->kind != Kind::Opaque))
    return std::nullopt;
  PickleValue parameter = *args[0];
  parameter.isParameter = true;
  return parameter;
}

/// _rebuild_from_type_v2(function, type, arguments, state): a tensor with Python attributes.
std::optional<PickleValue> rebuildFromType(const Args &args) {
  if (args.size() != 4 || args[0]->kind != Kind::Global || args[1]->kind != Kind::Global ||
      args[2]->kind != Kind::Tuple)
    return std::nullopt;
  const std::string &type = args[1]->text;
  if (type != "torch.Tensor" && type != "torch.nn.parameter.Parameter")
    return opaqueCall(type);
  if (args[0]->text == "torch._tensor._rebuild_from_type_v2")
    return std::nullopt; // would nest without bound, and torch never does it
  return applyPickleCall(args[0]->text, args[2]->items);
}

} // namespace

std::optional<std::vector<int64_t>> integersOf(const PickleValue &tuple) {
  if (tuple.kind != Kind::Tuple || tuple.items.size() > kMaxRank)
    return std::nullopt;
  std::vector<int64_t> integers;
  for (const PickleValue *item : tuple.items) {
    if (item->kind != Kind::Int)
      return std::nullopt;
    integers.push_back(item->integer);
  }
  return integers;
}

std::optional<PickleValue> storageOf(const PickleValue &id) {
  bool fits = id.kind == Kind::Tuple && id.items.size() == 5 && id.items[0]->kind == Kind::String &&
              id.items[0]->text == "storage" && id.items[1]->kind == Kind::Global &&
              id.items[2]->kind == Kind::String && id.items[2]->text.size() <= kMaxKey &&
              id.items[4]->kind == Kind::Int;
  if (!fits)
    return std::nullopt;
  PickleValue storage;
  storage.kind = Kind::Storage;
  storage.dtype = lookUp(kStorages, id.items[1]->text);
  if (!storage.dtype && id.items[1]->text != "torch.storage.UntypedStorage")
    return std::nullopt;
  storage.text = id.items[2]->text;
  storage.integer = id.items[4]->integer;
  return storage;
}

std::optional<PickleValue> applyPickleCall(const std::string &callee, const Args &args) {
  if (callee == "collections.OrderedDict") {
    PickleValue dict;
    dict.kind = Kind::Dict;
    return args.empty() ? std::optional(dict) : std::nullopt;
  }
  if (callee == "torch.Size" && args.size() == 1 && integersOf(*args[0]))
    return *args[0];
  if (callee == "torch._utils._rebuild_tensor_v2")
    return rebuildTensor(args, false);
  if (callee == "torch._utils._rebuild_tensor_v3")
    return rebuildTensor(args, true);
  if (callee == "torch._utils._rebuild_parameter")
    return rebuildParameter(args, 3);
  if (callee == "torch._utils._rebuild_parameter_with_state")
    return rebuildParameter(args, 4);
  if (callee == "torch._tensor._rebuild_from_type_v2")
    return rebuildFromType(args);
  return opaqueCall(callee);
}

} // namespace ditc
