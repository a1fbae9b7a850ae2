// SPDX-License-Identifier: Apache-2.0
//
// The stack machine: protocol 2, the opcodes that torch.save writes, every length checked against the bytes
// that are left.
#include "compiler/import/Pickle.h"

#include "runtime/Error.h"
#include "runtime/Text.h"

#include <cstring>
#include <unordered_map>

namespace ditc {

using Kind = PickleValue::Kind;

namespace {

// A state dict takes some 35 operations a tensor: room for 50,000 tensors.
constexpr size_t kMaxOperations = 2'000'000;
constexpr size_t kMaxStack = 1'000'000;
constexpr size_t kMaxText = 1 << 20;
constexpr int kProtocol = 2;

class Machine {
public:
  Machine(std::span<const uint8_t> bytes, const std::string &source, std::deque<PickleValue> &values)
      : bytes(bytes), source(source), values(values) {}

  const PickleValue *run();

private:
  template <typename... Args> [[noreturn]] void damaged(fmt::format_string<Args...> format, Args &&...args) {
    fail("'{}', byte {}: {}; ditc reads pickled tensors only, save the model again with torch.export.save", source,
         opcodeAt, fmt::format(format, std::forward<Args>(args)...));
  }

  // Reading bytes.
  std::span<const uint8_t> take(size_t count);
  template <typename T> T takeNumber() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string takeText(size_t count);
  std::string takeLine();

  // The stack.
  PickleValue &push(Kind kind);
  void pushInt(int64_t value) { push(Kind::Int).integer = value; }
  void pushValue(PickleValue *value);
  PickleValue *pop();
  std::vector<PickleValue *> popToMark();
  PickleValue &top(Kind kind, const char *operation);

  // Groups of opcodes; false when the opcode is of another group.
  bool runConstant(uint8_t opcode);
  bool runContainer(uint8_t opcode);
  bool runMemo(uint8_t opcode);
  bool runCall(uint8_t opcode);

  void pushLong();
  void pushFloat();
  void pushTuple(const std::vector<PickleValue *> &items);
  void addItems(const std::vector<PickleValue *> &items);
  void reduce();
  void buildState();
  void remember(uint32_t index);
  void recall(uint32_t index);

  std::span<const uint8_t> bytes;
  const std::string &source;
  std::deque<PickleValue> &values;
  size_t position = 0, opcodeAt = 0;
  std::vector<PickleValue *> stack;
  std::vector<size_t> marks;
  std::unordered_map<uint32_t, PickleValue *> memo;
};

std::span<const uint8_t> Machine::take(size_t count) {
  if (count > bytes.size() - position)
    damaged("{} bytes are missing at the end", count - (bytes.size() - position));
  position += count;
  return bytes.subspan(position - count, count);
}

std::string Machine::takeText(size_t count) {
  if (count > kMaxText)
    damaged("a string has {} bytes, more than {}", count, kMaxText);
  std::span<const uint8_t> content = take(count);
  std::string text(content.begin(), content.end());
  if (!isUtf8(text))
    damaged("a string is not UTF-8");
  return text;
}

std::string Machine::takeLine() {
  size_t end = position;
  while (end < bytes.size() && bytes[end] != '\n')
    ++end;
  if (end == bytes.size())
    damaged("a name does not end");
  std::string line = takeText(end - position);
  ++position;
  return line;
}

void Machine::pushValue(PickleValue *value) {
  if (stack.size() >= kMaxStack)
    damaged("its stack grows beyond {} values", kMaxStack);
  stack.push_back(value);
}

PickleValue &Machine::push(Kind kind) {
  PickleValue &value = values.emplace_back();
  value.kind = kind;
  pushValue(&value);
  return value;
}

PickleValue *Machine::pop() {
  if (stack.size() <= (marks.empty() ? 0 : marks.back()))
    damaged("it takes a value from an empty stack");
  PickleValue *value = stack.back();
  stack.pop_back();
  return value;
}

std::vector<PickleValue *> Machine::popToMark() {
  if (marks.empty())
    damaged("it takes values up to a mark that was never set");
  std::vector<PickleValue *> items(stack.begin() + static_cast<ptrdiff_t>(marks.back()), stack.end());
  stack.resize(marks.back());
  marks.pop_back();
  return items;
}

PickleValue &Machine::top(Kind kind, const char *operation) {
  if (stack.size() <= (marks.empty() ? 0 : marks.back()) || stack.back()->kind != kind)
    damaged("it {} something that is not a {}", operation, kind == Kind::Dict ? "dict" : "list");
  return *stack.back();
}

void Machine::pushLong() {
  size_t count = takeNumber<uint8_t>();
  if (count > 8)
    damaged("an integer has {} bytes, more than 8", count);
  std::span<const uint8_t> content = take(count);
  uint64_t value = count && (content[count - 1] & 0x80) ? ~uint64_t{0} : 0; // two's complement, sign extended
  for (size_t i = count; i-- > 0;)
    value = value << 8 | content[i];
  pushInt(static_cast<int64_t>(value));
}

void Machine::pushFloat() {
  uint64_t bits = 0;
  for (uint8_t byte : take(8)) // big endian, unlike everything else
    bits = bits << 8 | byte;
  std::memcpy(&push(Kind::Float).number, &bits, sizeof(bits));
}

bool Machine::runConstant(uint8_t opcode) {
  switch (opcode) {
  case 'N': // NONE
    push(Kind::None);
    return true;
  case 0x88: // NEWTRUE
  case 0x89: // NEWFALSE
    push(Kind::Bool).integer = opcode == 0x88;
    return true;
  case 'K': // BININT1
    pushInt(takeNumber<uint8_t>());
    return true;
  case 'M': // BININT2
    pushInt(takeNumber<uint16_t>());
    return true;
  case 'J': // BININT
    pushInt(takeNumber<int32_t>());
    return true;
  case 0x8a: // LONG1
    pushLong();
    return true;
  case 'G': // BINFLOAT
    pushFloat();
    return true;
  case 'X': { // BINUNICODE
    std::string text = takeText(takeNumber<uint32_t>());
    push(Kind::String).text = std::move(text);
    return true;
  }
  }
  return false;
}

void Machine::pushTuple(const std::vector<PickleValue *> &items) {
  push(Kind::Tuple).items.assign(items.begin(), items.end());
}

void Machine::addItems(const std::vector<PickleValue *> &items) {
  if (items.size() % 2)
    damaged("it adds a key without a value to a dict");
  PickleValue &dict = top(Kind::Dict, "adds items to");
  dict.items.insert(dict.items.end(), items.begin(), items.end());
}

bool Machine::runContainer(uint8_t opcode) {
  switch (opcode) {
  case '}': // EMPTY_DICT
    push(Kind::Dict);
    return true;
  case ']': // EMPTY_LIST
    push(Kind::List);
    return true;
  case ')': // EMPTY_TUPLE
    push(Kind::Tuple);
    return true;
  case '(': // MARK
    if (marks.size() >= kMaxStack)
      damaged("its stack grows beyond {} marks", kMaxStack);
    marks.push_back(stack.size());
    return true;
  case 't': // TUPLE
    pushTuple(popToMark());
    return true;
  case 0x85:   // TUPLE1
  case 0x86:   // TUPLE2
  case 0x87: { // TUPLE3
    std::vector<PickleValue *> items(opcode - 0x84);
    for (size_t i = items.size(); i-- > 0;)
      items[i] = pop();
    pushTuple(items);
    return true;
  }
  case 's': { // SETITEM
    PickleValue *value = pop(), *key = pop();
    addItems({key, value});
    return true;
  }
  case 'u': // SETITEMS
    addItems(popToMark());
    return true;
  case 'a': { // APPEND
    PickleValue *value = pop();
    top(Kind::List, "appends to").items.push_back(value);
    return true;
  }
  case 'e': { // APPENDS
    std::vector<PickleValue *> items = popToMark();
    PickleValue &list = top(Kind::List, "appends to");
    list.items.insert(list.items.end(), items.begin(), items.end());
    return true;
  }
  }
  return false;
}

void Machine::remember(uint32_t index) {
  if (stack.size() <= (marks.empty() ? 0 : marks.back()))
    damaged("it remembers a value of an empty stack");
  memo[index] = stack.back();
}

void Machine::recall(uint32_t index) {
  auto it = memo.find(index);
  if (it == memo.end())
    damaged("it recalls the value {}, which it never stored", index);
  pushValue(it->second);
}

bool Machine::runMemo(uint8_t opcode) {
  switch (opcode) {
  case 'q': // BINPUT
    remember(takeNumber<uint8_t>());
    return true;
  case 'r': // LONG_BINPUT
    remember(takeNumber<uint32_t>());
    return true;
  case 'h': // BINGET
    recall(takeNumber<uint8_t>());
    return true;
  case 'j': // LONG_BINGET
    recall(takeNumber<uint32_t>());
    return true;
  }
  return false;
}

void Machine::reduce() {
  PickleValue *args = pop(), *callee = pop();
  if (callee->kind != Kind::Global || args->kind != Kind::Tuple)
    damaged("it calls something that is not a named function");
  std::optional<PickleValue> result = applyPickleCall(callee->text, args->items);
  if (!result)
    damaged("it calls {} with arguments that torch does not give it", printable(callee->text));
  pushValue(&values.emplace_back(*std::move(result)));
}

/// BUILD sets attributes: _metadata of an OrderedDict, or the state of an object that stays opaque.
void Machine::buildState() {
  pop();
  if (stack.empty() || (stack.back()->kind != Kind::Dict && stack.back()->kind != Kind::Opaque))
    damaged("it sets attributes of something that has none");
}

bool Machine::runCall(uint8_t opcode) {
  switch (opcode) {
  case 'c': { // GLOBAL
    std::string module = takeLine(), name = takeLine();
    push(Kind::Global).text = module + "." + name;
    return true;
  }
  case 'Q': { // BINPERSID
    std::optional<PickleValue> storage = storageOf(*pop());
    if (!storage)
      damaged("a persistent id is not a tensor storage");
    pushValue(&values.emplace_back(*std::move(storage)));
    return true;
  }
  case 'R': // REDUCE
    reduce();
    return true;
  case 'b': // BUILD
    buildState();
    return true;
  }
  return false;
}

const PickleValue *Machine::run() {
  if (bytes.size() < 2 || bytes[0] != 0x80 || bytes[1] != kProtocol)
    fail("'{}' is not a pickle of protocol {}, which torch.save writes; the file is damaged, save the model again",
         source, kProtocol);
  position = 2;
  for (size_t count = 0; count < kMaxOperations; ++count) {
    opcodeAt = position;
    uint8_t opcode = takeNumber<uint8_t>();
    if (opcode == '.') { // STOP
      if (!marks.empty() || stack.size() != 1)
        damaged("it ends with {} values, expected one", stack.size());
      return stack.back();
    }
    if (!runConstant(opcode) && !runContainer(opcode) && !runMemo(opcode) && !runCall(opcode))
      damaged("the pickle opcode {:#04x} is not among those that torch.save writes for tensors", opcode);
  }
  damaged("it has more than {} operations", kMaxOperations);
}

} // namespace

PickleDocument PickleDocument::parse(std::span<const uint8_t> bytes, const std::string &source) {
  PickleDocument document;
  document.top = Machine(bytes, source, document.values).run();
  return document;
}

} // namespace ditc
