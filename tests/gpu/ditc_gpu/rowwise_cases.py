# SPDX-License-Identifier: Apache-2.0
"""Rowwise kernels to run by themselves: patterns of diffusion transformers at the sizes of FLUX, SD3.5, PixArt and Wan,
as plan.kernels. What whole models launch comes beside them, out of their packages (write_rowwise.py). Needs no torch."""

MODULATE = """
  %{out} = dit.map(%{x}, %scale, %shift) : ($T, $R, $R) -> $T {{
  ^bb0(%p: f32, %q: f32, %r: f32):
    %one = arith.constant 1.000000e+00 : f32
    %s = arith.addf %q, %one : f32
    %m = arith.mulf %p, %s : f32
    %t = arith.addf %m, %r : f32
    dit.yield %t : f32
  }}"""

RESIDUAL = """
  %y = dit.map(%x, %gate, %a) : ($T, $R, $T) -> $T {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %m = arith.mulf %q, %r : f32
    %s = arith.addf %p, %m : f32
    dit.yield %s : f32
  }"""

GELU = """
    %half = arith.constant 5.000000e-01 : f32
    %one = arith.constant 1.000000e+00 : f32
    %cubic = arith.constant 4.471500e-02 : f32
    %root = arith.constant 0.797884583 : f32
    %x2 = arith.mulf %p, %p : f32
    %x3 = arith.mulf %x2, %p : f32
    %c = arith.mulf %x3, %cubic : f32
    %u = arith.addf %p, %c : f32
    %s = arith.mulf %u, %root : f32
    %t = math.tanh %s : f32
    %t1 = arith.addf %t, %one : f32
    %h = arith.mulf %p, %half : f32
    %r = arith.mulf %h, %t1 : f32"""

SILU = """
    %one = arith.constant 1.000000e+00 : f32
    %n = arith.negf %p : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %s = arith.divf %p, %d : f32
    %r = arith.mulf %s, %q : f32"""


def kernel(name, body, inputs, outputs, types):
    """inputs: {value: type}, outputs: [value: type], types: what $X in a type stands for."""
    def spelled(text):
        for key, value in types.items():
            text = text.replace(f"${key}", f"tensor<{value}>")
        return text

    arguments = [spelled(t) for t in [*inputs.values(), *outputs.values()]]
    memory = ", ".join(t.replace("tensor", "memref") for t in arguments)
    head = ", ".join(f"%{value}: {spelled(t)}" for value, t in inputs.items())
    results = ", ".join(f"%{value}" for value in outputs) + " : " + ", ".join(spelled(t) for t in outputs.values())
    alignments = ", ".join("16" for _ in arguments)
    return (f'plan.kernel @{name} family "rowwise" args [{memory}] outputs {len(outputs)} config {{alignments = array<i64: {alignments}>}} {{\n'
            f"^bb0({head}):{spelled(body)}\n  dit.yield {results}\n}}\n")


def norm(kind, x="x", out="n"):
    return f"\n  %{out} = dit.norm {kind} %{x} axes 1 eps 1.0E-6 : ($T) -> $T"


def modulated(batch, tokens, channels, what):
    """What: ln, rms, or residual: y = x + gate * a and the modulated norm of y."""
    name = f"{what}_modulate_{batch * tokens}x{channels}"
    types = {"T": f"{batch}x{tokens}x{channels}xbf16", "R": f"{batch}x1x{channels}xbf16"}
    if what == "residual":
        body = RESIDUAL + norm("layer", "y") + MODULATE.format(out="z", x="n")
        return name, kernel(name, body, dict(x="$T", gate="$R", a="$T", scale="$R", shift="$R"), dict(y="$T", z="$T"), types)
    body = norm("layer" if what == "ln" else "rms") + MODULATE.format(out="z", x="n")
    return name, kernel(name, body, dict(x="$T", scale="$R", shift="$R"), dict(z="$T"), types)


def gated(batch, tokens, channels):
    name = f"gate_residual_{batch * tokens}x{channels}"
    types = {"T": f"{batch}x{tokens}x{channels}xbf16", "R": f"{batch}x1x{channels}xbf16"}
    return name, kernel(name, RESIDUAL, dict(x="$T", gate="$R", a="$T"), dict(y="$T"), types)


def activation(what, tokens, channels):
    name = f"{what}_{tokens}x{channels}"
    if what == "gelu":
        body = "\n  %y = dit.map(%x) : ($T) -> $T {\n  ^bb0(%p: f32):" + GELU + "\n    dit.yield %r : f32\n  }"
        return name, kernel(name, body, dict(x="$T"), dict(y="$T"), {"T": f"{tokens}x{channels}xbf16"})
    body = "".join(f"\n  %{v} = dit.slice %x offsets [0, {at}] steps [1, 1] : $D -> $T" for v, at in (("a", 0), ("b", channels)))
    body += "\n  %y = dit.map(%a, %b) : ($T, $T) -> $T {\n  ^bb0(%p: f32, %q: f32):" + SILU + "\n    dit.yield %r : f32\n  }"
    return name, kernel(name, body, dict(x="$D"), dict(y="$T"), {"T": f"{tokens}x{channels}xbf16", "D": f"{tokens}x{2 * channels}xbf16"})


def scaled(direction, tokens, channels):
    """Rows to fp8 by a scale for each, or back."""
    name = f"{direction}_float8_{tokens}x{channels}"
    body = "\n  %y = dit.map(%x, %s) : ($T, $R) -> $Y {\n  ^bb0(%p: f32, %q: f32):\n    %m = arith.mulf %p, %q : f32\n    dit.yield %m : f32\n  }"
    wide, small = f"{tokens}x{channels}xbf16", f"{tokens}x{channels}xf8E4M3FN"
    types = {"T": wide if direction == "to" else small, "R": f"{tokens}x1xf32", "Y": small if direction == "to" else wide}
    return name, kernel(name, body, dict(x="$T", s="$R"), dict(y="$Y"), types)


def rotation(interleaved, width):
    """%n [batch, tokens, heads, width] to %o, by an angle for each pair."""
    half = width // 2
    if interleaved:
        text = f"\n  %v = dit.view %n : $X{width}xbf16> -> $X{half}x2xbf16>"
        for v, at in (("a", 0), ("b", 1)):
            text += f"\n  %{v}0 = dit.slice %v offsets [0, 0, 0, 0, {at}] steps [1, 1, 1, 1, 1] : $X{half}x2xbf16> -> $X{half}x1xbf16>"
            text += f"\n  %{v} = dit.view %{v}0 : $X{half}x1xbf16> -> $X{half}xbf16>"
    else:
        text = "".join(f"\n  %{v} = dit.slice %n offsets [0, 0, 0, {at}] steps [1, 1, 1, 1] : $X{width}xbf16> -> $X{half}xbf16>"
                       for v, at in (("a", 0), ("b", half)))
    for out, first, second, op in (("y", "c", "s", "subf"), ("z", "s", "c", "addf")):
        text += f"""
  %{out} = dit.map(%a, %{first}, %b, %{second}) : ($X{half}xbf16>, $C, $X{half}xbf16>, $C) -> $X{half}xbf16> {{
  ^bb0(%p: f32, %q: f32, %r: f32, %t: f32):
    %u = arith.mulf %p, %q : f32
    %k = arith.mulf %r, %t : f32
    %o = arith.{op} %u, %k : f32
    dit.yield %o : f32
  }}"""
    if not interleaved:
        return text + f"\n  %o = dit.concat(%y, %z) axis 3 : ($X{half}xbf16>, $X{half}xbf16>) -> $X{width}xbf16>"
    for v in ("y", "z"):
        text += f"\n  %{v}1 = dit.view %{v} : $X{half}xbf16> -> $X{half}x1xbf16>"
    return text + (f"\n  %h = dit.concat(%y1, %z1) axis 4 : ($X{half}x1xbf16>, $X{half}x1xbf16>) -> $X{half}x2xbf16>"
                   f"\n  %o = dit.view %h : $X{half}x2xbf16> -> $X{width}xbf16>")


def rotary(name, batch, tokens, heads, width, over, interleaved):
    """RMSNorm (over the head or all heads: `over`), rotary embedding, heads in front of the tokens."""
    whole = heads * width
    name = f"{name}_{batch * tokens}x{whole}"
    if over == "head":
        body = f"\n  %n = dit.norm rms %x weight %w axes 1 eps 1.0E-6 : ($X{width}xbf16>, $W) -> $X{width}xbf16>"
    else:
        body = f"\n  %f = dit.norm rms %x weight %w axes 1 eps 1.0E-6 : ($I, $W) -> $I\n  %n = dit.view %f : $I -> $X{width}xbf16>"
    body += rotation(interleaved, width) + f"\n  %m = dit.permute %o [0, 2, 1, 3] : $X{width}xbf16> -> $Y"
    body = body.replace("$X", f"tensor<{batch}x{tokens}x{heads}x")
    types = {"I": f"{batch}x{tokens}x{heads}x{width}xbf16" if over == "head" else f"{batch}x{tokens}x{whole}xbf16",
             "W": f"{width if over == 'head' else whole}xbf16", "C": f"1x{tokens}x1x{width // 2}xf32", "Y": f"{batch}x{heads}x{tokens}x{width}xbf16"}
    return name, kernel(name, body, dict(x="$I", w="$W", c="$C", s="$C"), dict(m="$Y"), types)


def cases():
    """{name: text of the kernel}"""
    shapes = [(1, 4608, 3072), (2, 4429, 2432), (2, 4096, 1152), (1, 32760, 1536)]
    found = [modulated(*shape, what) for what in ("ln", "residual") for shape in shapes]
    found += [modulated(1, 4608, 3072, "rms")] + [gated(*shape) for shape in shapes]
    found += [activation("gelu", 4608, 12288), activation("gelu", 32760, 8960), activation("swiglu", 4608, 9216)]
    found += [scaled("to", 4608, 3072), scaled("from", 4608, 3072)]
    found += [rotary("qk_rope_interleaved", 1, 4608, 24, 128, "head", True), rotary("qk_rope_halves", 1, 4608, 24, 128, "head", False),
              rotary("qk_rope_wide", 1, 32760, 12, 128, "row", True)]
    return dict(found)
