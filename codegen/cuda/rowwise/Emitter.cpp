// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/rowwise/Emitter.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ditc::rowwise {


//===-- Scopes --------------------------------------------------------------------------------------===//

Scope &Emitter::push(Scope::Kind kind) {
  auto scope = std::make_unique<Scope>();
  scope->kind = kind;
  scope->width = scopes.empty() ? 1 : top().width;
  scopes.push_back(std::move(scope));
  return top();
}

std::vector<Line> Emitter::takeScope() {
  std::unique_ptr<Scope> scope = std::move(scopes.back());
  scopes.pop_back();
  for (auto [variable, before] : llvm::reverse(scope->undo))
    indices->restrict(variable, before);
  for (Line &inner : scope->lines)
    inner.text = "  " + inner.text;
  return std::move(scope->lines);
}

void Emitter::pop(const std::string &head, const std::string &tail) {
  std::vector<Line> lines = takeScope();
  line(head);
  llvm::append_range(top().lines, lines);
  line(tail);
}

std::string Emitter::render(const Scope &scope) const {
  std::string text;
  for (const Line &line : scope.lines)
    if (!line.needed || *line.needed)
      text += line.text + "\n";
  return text;
}

size_t Emitter::homeOf(Variable variable) const {
  for (size_t level = scopes.size(); level-- > 0;)
    if (scopes[level]->declared.contains(variable))
      return level;
  size_t level = 0;
  if (const auto &dividend = indices->info(variable).dividend)
    for (auto [part, factor] : dividend->terms)
      level = std::max(level, homeOf(part));
  return level;
}

size_t Emitter::levelOf(const Index &index) const {
  size_t level = 0;
  bool perRow = true;
  for (const Linear &linear : index) {
    perRow &= indices->isPerRow(linear);
    for (auto [variable, factor] : linear.terms)
      level = std::max(level, homeOf(variable));
  }
  for (size_t i = scopes.size(); i-- > level + 1;) {
    bool holds = scopes[i]->kind == Scope::Branch || (scopes[i]->kind == Scope::Columns && !perRow);
    if (holds)
      return i;
  }
  return level;
}

//===-- Names ---------------------------------------------------------------------------------------===//

std::string Emitter::fresh(StringRef stem) {
  std::string name;
  for (char c : stem)
    name += llvm::isAlnum(c) ? c : '_';
  if (name.empty() || llvm::isDigit(name.front()))
    name = "v" + name;
  bool looksLikeIndex = (name.front() == 'q' || name.front() == 'm') && llvm::all_of(StringRef(name).drop_front(), llvm::isDigit);
  bool isFree = llvm::isDigit(name.back()) && !looksLikeIndex; // no keyword or function ends in a digit
  if (isFree && names.try_emplace(name, 1).second)
    return name;
  unsigned &count = names[name + "#"];
  std::string numbered;
  do
    numbered = name + (llvm::isDigit(name.back()) ? "_" : "") + std::to_string(++count);
  while (!names.try_emplace(numbered, 1).second);
  return numbered;
}

/// A whole number as a literal.
static std::string number(int64_t value) {
  bool isWide = value > INT32_MAX || value < -int64_t(INT32_MAX);
  return std::to_string(value) + (isWide ? "ll" : "");
}

std::string Emitter::print(const Linear &index) {
  std::string text;
  auto add = [&](int64_t factor, const std::string &name) {
    int64_t size = std::abs(factor);
    text += text.empty() ? (factor < 0 ? "-" : "") : factor < 0 ? " - " : " + ";
    text += name.empty() ? number(size) : size == 1 ? name : name + " * " + number(size);
  };
  for (auto [variable, factor] : index.terms) {
    declare(variable);
    add(factor, indices->info(variable).name);
  }
  if (index.lanes[0] != 0 || text.empty())
    add(index.lanes[0], "");
  return text;
}

/// `form` < 0 as "terms < constant".
std::string Emitter::printSign(const Linear &form) {
  Linear terms = form - constant(form.lanes[0]);
  return print(terms) + " < " + number(-form.lanes[0]);
}

/// Quotients and remainders become code where they are first needed, as far out as possible.
void Emitter::declare(Variable variable) {
  const Indices::Info info = indices->info(variable);
  if (!info.dividend || llvm::any_of(scopes, [&](auto &scope) { return scope->declared.contains(variable); }))
    return;
  std::string dividend = print(*info.dividend);
  bool isOne = info.dividend->terms.size() == 1 && info.dividend->terms[0].second == 1 && info.dividend->lanes[0] == 0;
  size_t level = homeOf(variable);
  lineAt(level,
         "const Index " + info.name + " = " + (isOne ? dividend : "(" + dividend + ")") + (info.isQuotient ? " / " : " % ") + number(info.divisor) + ";");
  scopes[level]->declared.insert(variable);
}

std::string Emitter::keyOf(Value value, const Index &index) const {
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(value.getAsOpaquePointer()));
  for (const Linear &linear : index) {
    key += '|';
    for (auto [variable, factor] : linear.terms)
      key += std::to_string(variable) + "*" + std::to_string(factor) + "+";
    for (int64_t lane : linear.lanes)
      key += std::to_string(lane) + ",";
  }
  return key;
}

std::string Emitter::define(StringRef stem, const std::string &expression) {
  std::string name = fresh(stem);
  line("const auto " + name + " = " + expression + ";");
  return name;
}

Pulled Emitter::apply(StringRef stem, ArrayRef<Pulled> operands, const std::string &expression) {
  bool isChunk = llvm::any_of(operands, [](const Pulled &operand) { return operand.isChunk; });
  if (!isChunk)
    return {define(stem, expression), false};
  return {define(stem, "each<" + std::to_string(lanesNow()) + ">([&](int e) { return " + expression + "; })"), true};
}

//===-- Loops over columns --------------------------------------------------------------------------===//

Linear Emitter::openColumns(int64_t columns, bool keeps) {
  int64_t width = chunkWidth(columns, maxWidth), chunks = columns / width, group = part->group;
  int64_t rounds = chunksPerThread(columns, width, group);
  Scope &scope = push(Scope::Columns);
  scope.columns = columns;
  scope.width = width;
  scope.keeps = keeps && rounds * width <= mostKept();
  scope.loop = loops++;
  openLoops.push_back(scope.loop);
  auto [entry, isNew] = columnForms.try_emplace({columns, width});
  Linear &chunk = entry->second;
  bool isEven = rounds == 1 || chunks % group == 0;
  if (isNew && rounds > 1)
    chunk = isEven ? indices->counter("k", rounds, false) * group + thread : indices->counter("j", chunks, false);
  else if (isNew)
    chunk = thread;
  for (auto [variable, factor] : chunk.terms)
    if (thread.factorOf(variable) == 0)
      scope.declared.insert(variable);
  if (!isEven)
    scope.guard = "if (mine) ";
  if (rounds == 1 && chunks < group)
    scope.undo.emplace_back(thread.terms[0].first, indices->restrict(thread.terms[0].first, Range{0, chunks - 1}));
  Linear column = chunk * width;
  column.lanes.clear();
  for (int64_t e = 0; e < width; ++e)
    column.lanes.push_back(e);
  return column;
}

/// Is this one of the names in the code?
static bool mentions(StringRef code, StringRef name) {
  auto belongsToName = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = 0; (at = code.find(name, at)) != StringRef::npos; at += name.size()) {
    bool begins = at == 0 || !belongsToName(code[at - 1]), ends = at + name.size() == code.size() || !belongsToName(code[at + name.size()]);
    if (begins && ends)
      return true;
  }
  return false;
}

void Emitter::closeColumns() {
  openLoops.pop_back();
  int64_t columns = top().columns, width = top().width, group = part->group;
  int64_t chunks = columns / width, rounds = chunksPerThread(columns, width, group);
  if (rounds == 1 && chunks == group) { // no loop: what is computed goes straight into the phase
    std::unique_ptr<Scope> scope = std::move(scopes.back());
    scopes.pop_back();
    llvm::append_range(top().lines, scope->lines);
    top().values.merge(scope->values);
    top().declared.merge(scope->declared);
    return;
  }
  if (rounds == 1)
    return pop("if (t < " + number(chunks) + ") {");
  if (rounds * width <= mostKept())
    lineAt(scopes.size() - 2, "#pragma unroll");
  bool isEven = chunks % group == 0;
  std::string first = group > 1 ? "t" : "0";
  if (isEven)
    return pop("for (Index k = 0; k < " + number(rounds) + "; ++k) {");
  // In the last round, who has no chunk left repeats the last one without effects: a branch would hold back the loads
  // behind it, and in the rounds before nothing is to be computed for an address.
  auto needs = [&](StringRef name) { return llvm::any_of(top().lines, [&](const Line &line) { return mentions(line.text, name); }); };
  bool needsChunk = needs("j");
  std::vector<Line> head;
  if (needsChunk || needs("mine"))
    head.push_back({"const bool mine = k < " + number(rounds - 1) + " || own < " + number(chunks) + ";", nullptr});
  if (needsChunk)
    head.push_back({"const Index j = mine ? own : " + number(chunks - 1) + ";", nullptr});
  top().lines.insert(top().lines.begin(), head.begin(), head.end());
  pop("for (Index k = 0, own = " + first + "; k < " + number(rounds) + "; ++k, own += " + number(group) + ") {");
}

std::string Emitter::guardNow() const {
  auto loop = llvm::find_if(llvm::reverse(scopes), [](auto &scope) { return scope->kind == Scope::Columns; });
  return loop == scopes.rend() ? "" : (*loop)->guard;
}

//===-- Outputs -------------------------------------------------------------------------------------===//

int64_t accessWidth(const Argument &argument, const Linear &address, int64_t limit) {
  int64_t width = 1, bytes = dit::elementBytes(argument.element);
  auto divides = [&](int64_t candidate) {
    return candidate * bytes <= argument.alignment && llvm::all_of(address.terms, [&](auto term) { return term.second % candidate == 0; });
  };
  while (2 * width <= limit && divides(2 * width))
    width *= 2;
  return width;
}

Linear addressOf(const Indices &indices, const Argument &argument, const Index &index) {
  Linear address;
  for (auto [linear, stride, size] : llvm::zip(index, argument.strides, argument.shape))
    if (size != 1)
      address = address + linear * stride;
  return indices.rejoin(address);
}

std::string Emitter::printAddress(const Argument &argument, const Linear &address) {
  std::string offset = print(address);
  return offset == "0" ? argument.name : argument.name + " + " + offset;
}

void Emitter::storeOutput(const OutputSpace &space, const Linear &row, const Linear &column) {
  Argument &argument = arguments[problem.inputs.size() + space.output];
  argument.used = true;
  std::optional<Index> place = placeOf(*indices, *part, space, argument.shape.size(), row, column);
  if (!place)
    return fail();
  Pulled value = pull(problem.result(space.output), *place);
  Linear address = addressOf(*indices, argument, *place);
  Linear base = address;
  base.lanes = {address.lanes[0]};
  std::string target = printAddress(argument, base), guard = storeGuard + guardNow();
  if (lanesNow() == 1) {
    line(guard + "store(" + target + ", " + value.text + (value.isChunk ? "[0]" : "") + ");");
    return;
  }
  std::string text = value.isChunk ? value.text : "each<" + std::to_string(lanesNow()) + ">([&](int) { return " + value.text + "; })";
  std::string offsets;
  bool isRun = true;
  for (int64_t e = 0; e < lanesNow(); ++e) {
    isRun &= address.lane(e) == address.lane(0) + e;
    offsets += (e ? ", " : "") + std::to_string(address.lane(e) - address.lane(0));
  }
  int64_t width = std::min(accessWidth(argument, address, lanesNow()), address.lane(0) == 0 ? lanesNow() : address.lane(0) & -address.lane(0));
  std::string store = part->isHeld && part->fillsCache() ? "storeOnce<" : "store<";
  line(guard + (isRun ? store + std::to_string(width) + ">" : "storeAt<" + offsets + ">") + "(" + target + ", " + text + ");");
}

/// What a statistic combines may be an output as well: the sooner it is stored, the sooner its registers are free.
void Emitter::storeWhatIsKnown(int64_t columns, const Linear &column) {
  if (columns != part->columns || top().kind != Scope::Columns || !conditionsNow().empty())
    return;
  for (auto [i, space] : llvm::enumerate(part->outputs)) {
    if (space.ofRow)
      continue;
    const Argument &argument = arguments[problem.inputs.size() + space.output];
    std::optional<Index> place = placeOf(*indices, *part, space, argument.shape.size(), rowNow, column);
    if (!place || storedEarly.contains(i) || !top().values.contains(keyOf(problem.result(space.output), *place)))
      continue;
    storeOutput(space, rowNow, column);
    storedEarly.insert(i);
  }
}

/// The outputs that have an element for each column, or those that have one for the row.
void Emitter::storeRows(const Linear &row, int64_t columns, bool ofRow) {
  Linear column = openColumns(columns, false);
  for (auto [i, space] : llvm::enumerate(part->outputs))
    if (space.ofRow == ofRow && !storedEarly.contains(i))
      storeOutput(space, row, column);
  closeColumns();
}

std::string Emitter::emitRows(const Part &part, int64_t threads) {
  int64_t group = part.group, rowsPerBlock = threads / group;
  bool takesSeveral = part.rowsEach > 1; // and the rows divide evenly
  Linear row = takesSeveral ? indices->counter("first", part.rows / part.rowsEach, true) * part.rowsEach + indices->counter("i", part.rowsEach, true)
                      : indices->counter("r", part.rows, true);
  thread = indices->counter("t", group, false);
  for (const Linear &form : {row, thread})
    for (auto [variable, factor] : form.terms)
      top().declared.insert(variable);
  std::string ofBlock = rowsPerBlock == 1 ? "block" : "block * " + number(rowsPerBlock) + " + threadIdx.x" + (group > 1 ? " / " + number(group) : "");
  if (takesSeveral) {
    line("const Index first = " + ofBlock + ";");
  } else if (part.rows % rowsPerBlock == 0) {
    if (part.rows > 1)
      line("const Index r = " + ofBlock + ";");
  } else { // the last block has threads without a row: they do the last one again, without storing
    line("const Index row = " + ofBlock + ";");
    if (part.rows > 1)
      line("const Index r = row < " + number(part.rows) + " ? row : " + number(part.rows - 1) + ";");
    storeGuard = "if (row < " + number(part.rows) + ") ";
  }
  if (group > 1)
    line(std::string("const Index t = threadIdx.x") + (rowsPerBlock > 1 ? " % " + number(group) : "") + ";");
  rowNow = row;
  storeRows(row, part.columns, false);
  if (llvm::any_of(part.outputs, [](const OutputSpace &space) { return space.ofRow; }))
    storeRows(row, 1, true);
  if (!takesSeveral)
    return render(top());
  push(Scope::Part);
  std::swap(scopes[0], scopes[1]);
  pop("for (Index i = 0; i < " + number(part.rowsEach) + "; ++i) {");
  return "#pragma unroll\n" + render(top());
}

std::string Emitter::emitFlat(const Part &part, int64_t threads) {
  int64_t chunks = part.columns / part.width;
  Linear chunk = indices->counter("g", chunks, false);
  for (auto [variable, factor] : chunk.terms)
    top().declared.insert(variable);
  top().width = part.width;
  Linear column = chunk * part.width;
  column.lanes.clear();
  for (int64_t e = 0; e < part.width; ++e)
    column.lanes.push_back(e);
  for (const OutputSpace &space : part.outputs)
    storeOutput(space, Linear(), column);
  std::string head = "const Index g = block * " + number(threads) + " + threadIdx.x;\n";
  if (chunks % threads == 0)
    return head + render(top());
  push(Scope::Part);
  std::swap(scopes[0], scopes[1]);
  pop("if (g < " + number(chunks) + ") {");
  return head + render(top());
}

std::optional<std::string> Emitter::emit(const Part &of, int64_t threads, bool &usesShared) {
  part = &of;
  maxWidth = of.width;
  push(Scope::Part);
  std::string text = of.hasRows ? emitRows(of, threads) : emitFlat(of, threads);
  usesShared |= usesBlock;
  return works ? std::optional(text) : std::nullopt;
}

Probe Emitter::probe(const Problem &problem, Value value, Indices &indices, const Index &index) {
  Declarations declarations;
  SmallVector<Argument> arguments;
  llvm::append_range(arguments, problem.inputs);
  Emitter emitter(problem, declarations, arguments);
  Probe probe;
  emitter.prober = &probe;
  emitter.indices = &indices;
  emitter.push(Scope::Part);
  emitter.pull(value, index);
  return probe;
}

} // namespace ditc::rowwise
