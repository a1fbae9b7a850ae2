# SPDX-License-Identifier: Apache-2.0
"""A rowwise plan.kernel, as the compiler writes it (`ditc compile --dump`): its arguments, and its body as torch code.

The code computes in fp32 (f64 for f64) and rounds results only, as the kernels do, so it is reference and peer at once.
Needs no torch itself.
"""
import math
import re

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui8": 1, "i1": 1,
         "f8E4M3FN": 1}
TORCH = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16",
         "i8": "int8", "ui8": "uint8", "i1": "bool", "f8E4M3FN": "float8_e4m3fn"}
UNROUNDED = {"f16": "f32", "bf16": "f32", "f8E4M3FN": "f32"}
COMPUTE = {"f16": "float32", "bf16": "float32", "f8E4M3FN": "float32", "i32": "int64", "i16": "int64", "i8": "int64", "ui8": "int64"}

SCALARS = {
    "arith.addf": "{0} + {1}", "arith.subf": "{0} - {1}", "arith.mulf": "{0} * {1}", "arith.divf": "{0} / {1}", "arith.negf": "-{0}",
    "arith.addi": "{0} + {1}", "arith.subi": "{0} - {1}", "arith.muli": "{0} * {1}", "arith.maximumf": "torch.maximum({0}, {1})",
    "arith.minimumf": "torch.minimum({0}, {1})", "arith.sitofp": "{0}.to({t})", "arith.extf": "{0}.to({t})", "arith.truncf": "{0}.to({t})",
    "math.exp": "torch.exp({0})", "math.sin": "torch.sin({0})", "math.cos": "torch.cos({0})", "math.tanh": "torch.tanh({0})",
    "math.sqrt": "torch.sqrt({0})", "math.rsqrt": "torch.rsqrt({0})", "math.erf": "torch.erf({0})",
}
REDUCTIONS = {"sum": "torch.sum", "mean": "torch.mean", "max": "torch.amax", "min": "torch.amin"}


class Unsupported(ValueError):
    """An operation that has no torch code here."""


class Argument:
    """A tensor in memory."""

    def __init__(self, text):
        match = re.fullmatch(r"memref<((?:\d+x)*)(\w+)(?:, strided<\[([\d, ]*)\](?:, offset: \d+)?>)?>", text)
        if not match:
            raise Unsupported(f"argument {text}")
        self.shape = [int(size) for size in match[1].split("x")[:-1]]
        self.element = match[2]
        if match[3] is not None:
            self.strides = [int(stride) for stride in match[3].split(",") if stride.strip()]
        else:
            self.strides = [math.prod(self.shape[i + 1:]) for i in range(len(self.shape))]

    @property
    def span(self):
        """Elements from the first to the last one."""
        return sum((size - 1) * stride for size, stride in zip(self.shape, self.strides)) + 1

    @property
    def traffic(self):
        """Bytes of all elements once; repeated dimensions count as one."""
        return math.prod(size for size, stride in zip(self.shape, self.strides) if stride) * BYTES[self.element]


class Kernel:
    def __init__(self, text):
        match = re.search(r'plan\.kernel @(\w+) family "(\w+)" args \[(.*)\] outputs (\d+)', text)
        self.name, self.family, self.text = match[1], match[2], text
        self.arguments = [Argument(t) for t in re.findall(r"memref<(?:[^<>]|<[^<>]*>)*>", match[3])]
        self.inputs, self.outputs = self.arguments[:-int(match[4])], self.arguments[-int(match[4]):]

    @property
    def traffic(self):
        return sum(argument.traffic for argument in self.arguments)

    def torch_code(self):
        """Source of `def kernel(inputs...)`, which returns a tuple of the outputs. Raises Unsupported."""
        lines = [line.strip() for line in self.text.splitlines()]
        start = next(i for i, line in enumerate(lines) if line.startswith("^bb0("))
        writer = Writer()
        names = [writer.name(name) for name in re.findall(r"(%\w+):", lines[start])]
        for name, argument in zip(names, self.inputs):
            writer.lines.append(f"{name} = {name}.to(torch.{COMPUTE.get(argument.element, TORCH[argument.element])})")
        results = writer.block(lines[start + 1:])
        casts = [f"{result}.to(torch.{TORCH[output.element]}).expand({output.shape})" for result, output in zip(results, self.outputs)]
        body = "\n".join("    " + line for line in writer.lines)
        return f"def kernel({', '.join(names)}):\n{body}\n    return ({', '.join(casts)},)\n"


def shape_of(type_text):
    return [int(size) for size in re.findall(r"(\d+)x", type_text.split("<")[1])]


def integers(text):
    return [int(number) for number in text.split(",") if number.strip()]


class Writer:
    """Writes one line of Python for each operation of a block."""

    def __init__(self):
        self.lines, self.region, self.regions = [], "v", 0

    def name(self, value):
        """A value of the region that is being written: "%3" is v_3, and r2_3 in the second map."""
        return value.replace("%", self.region + "_")

    def say(self, name, expression):
        self.lines.append(f"{self.name(name)} = {expression}")

    def block(self, lines):
        """Writes operations up to the yield, and gives the yielded names."""
        while lines:
            line = lines.pop(0)
            if line.startswith("dit.yield"):
                return [self.name(value) for value in re.findall(r"%\w+", line.split(":")[0])]
            if line:
                self.operation(line, lines)
        raise Unsupported("a block without dit.yield")

    def operation(self, line, rest):
        match = re.match(r"(%\w+) = ([\w.]+)\s*(.*)", line)
        if not match:
            raise Unsupported(line)
        value, op, text = match.groups()
        if op == "dit.map":
            return self.map(value, text, rest)
        if not op.startswith("dit."):
            return self.say(value, self.scalar(op, text))
        kind = getattr(self, op[len("dit."):], None)
        if kind is None:
            raise Unsupported(op)
        self.say(value, kind(text, text.rsplit("-> ", 1)[-1]))

    def map(self, value, text, rest):
        operands = [self.name(operand) for operand in re.findall(r"%\w+", text.split(")")[0])]
        parameters = re.findall(r"(%\w+):", rest.pop(0)) if rest[0].startswith("^bb0") else []
        outer, self.regions = self.region, self.regions + 1
        self.region = f"r{self.regions}"
        for parameter, operand in zip(parameters, operands):
            self.say(parameter, operand)
        result = self.block(rest)[0]
        self.region = outer
        self.say(value, result)
        while rest.pop(0) != "}":
            pass

    def scalar(self, op, text):
        if op == "arith.constant":
            return text.split(" :")[0].replace("true", "True").replace("false", "False")
        if op not in SCALARS:
            raise Unsupported(op)
        operands = [self.name(operand) for operand in re.findall(r"%\w+", text)]
        return SCALARS[op].format(*operands, t=f"torch.{TORCH.get(text.rsplit(' ', 1)[-1])}")

    def norm(self, text, _):
        match = re.match(r"(layer|rms) (%\w+)(?: weight (%\w+))?(?: bias (%\w+))? axes (\d+) eps ([-\d.Ee+]+)", text)
        if not match:
            raise Unsupported("norm " + text)
        kind, x, weight, bias, axes, eps = match.groups()
        factors = [self.name(value) if value else "None" for value in ((weight, bias) if kind == "layer" else (weight,))]
        return f"torch.nn.functional.{kind}_norm({self.name(x)}, {self.name(x)}.shape[-{axes}:], {', '.join(factors)}, eps={eps})"

    def reduce(self, text, _):
        kind, x, axes = re.match(r"(\w+) (%\w+) axes \[([\d, ]*)\]", text).groups()
        if kind not in REDUCTIONS:
            raise Unsupported("reduce " + kind)
        return f"{REDUCTIONS[kind]}({self.name(x)}, dim={integers(axes)}, keepdim=True)"

    def view(self, text, result):
        return f"{self.name(text.split()[0])}.reshape({shape_of(result)})"

    def expand(self, text, result):
        return f"{self.name(text.split()[0])}.expand({shape_of(result)})"

    def permute(self, text, _):
        x, order = re.match(r"(%\w+) \[([^]]*)\]", text).groups()
        return f"{self.name(x)}.permute({integers(order)})"

    def slice(self, text, result):
        x, offsets, steps = re.match(r"(%\w+) offsets \[([^]]*)\] steps \[([^]]*)\]", text).groups()
        parts = [f"{o}:{o + (n - 1) * s + 1}:{s}" for o, s, n in zip(integers(offsets), integers(steps), shape_of(result))]
        return f"{self.name(x)}[{', '.join(parts)}]"

    def concat(self, text, _):
        names, axis = re.match(r"\(([^)]*)\) axis (\d+)", text).groups()
        return f"torch.cat([{', '.join(self.name(name.strip()) for name in names.split(','))}], dim={axis})"

    def constant(self, text, _):
        match = re.match(r"dense<([-\d.Ee+]+|true|false)> : (tensor<\S+)", text)
        if not match:
            raise Unsupported("constant " + text[:60])
        return f"torch.full({shape_of(match[2])}, {match[1].replace('true', 'True').replace('false', 'False')}, device='cuda')"
