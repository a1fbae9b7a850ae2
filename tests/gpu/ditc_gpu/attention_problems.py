# SPDX-License-Identifier: Apache-2.0
"""Attention as the compiler emits it: problems as plan.programs, and the grid and the shapes of models that are run.

A problem says where Q, K, V and the result lie and what mask there is. `program` writes it as a plan.program with one
launch of family "attention"; `ditc-opt --ditc-plan-attention` adds what the target wants (packed masks, scratch), and
compile_kernels makes the images, so that a GPU runs what a package would hold. Needs no torch.
"""
import dataclasses
import math

SIZES = (32, 40, 64, 72, 80, 88, 96, 112, 128, 160, 192, 256)
LAYOUTS = ("token", "head", "padded", "fused")
ROWS = {"joint": 3, "single": 7}  # heads of a fused row: QKV, or QKV and an MLP of four times the width


@dataclasses.dataclass(frozen=True)
class Problem:
    batch: int
    heads: int
    queries: int
    keys: int
    dim: int
    mask: str = "none"  # see mask_type
    layout: str = "token"
    key_heads: int = 0  # 0: heads
    value_dim: int = 0  # 0: dim
    element: str = "bf16"
    causal: bool = False
    soft_cap: float = 0.0
    window: tuple = ()  # keys before and after a query's own
    log_sum_exp: bool = False
    scale: float = 0.0  # 0: dim ** -0.5
    quantized: bool = False  # int8 queries and keys, e4m3 values
    gap: bool = True  # the result lies inside other memory, as when it is a part of something

    @property
    def kv_heads(self):
        return self.key_heads or self.heads

    @property
    def v_dim(self):
        return self.value_dim or self.dim

    @property
    def factor(self):
        return self.scale or self.dim**-0.5

    @property
    def flop(self):
        """By the usual count, whatever the mask hides."""
        return 2.0 * self.batch * self.heads * self.queries * self.keys * (self.dim + self.v_dim)

    @property
    def bytes(self):
        size = 4 if self.element == "f32" else 2
        rows = self.queries * self.heads * (self.dim + self.v_dim) + self.keys * self.kv_heads * (self.dim + self.v_dim)
        return size * self.batch * rows


@dataclasses.dataclass(frozen=True)
class Place:
    """A tensor (batch, head, token, column) inside a flat buffer."""

    buffer: str
    elements: int  # of the buffer
    offset: int
    shape: tuple
    strides: tuple


def places(p):
    """{name: Place} of q, k, v and out."""
    def dense(name, tokens, heads, dim, row_heads=None, more_tokens=0, gap=0):
        row = (row_heads or heads) * (dim + gap)
        return Place(name, p.batch * (tokens + more_tokens) * row, 0, (p.batch, heads, tokens, dim),
                     ((tokens + more_tokens) * row, dim + gap, row, 1))

    def head_major(name, tokens, heads, dim):
        return Place(name, p.batch * heads * tokens * dim, 0, (p.batch, heads, tokens, dim),
                     (heads * tokens * dim, tokens * dim, dim, 1))

    tensors = {"q": (p.queries, p.heads, p.dim), "k": (p.keys, p.kv_heads, p.dim), "v": (p.keys, p.kv_heads, p.v_dim)}
    alike = len(set(tensors.values())) == 1
    out_heads = p.heads
    if p.layout == "head":
        result = {name: head_major(name, *t) for name, t in tensors.items()}
    elif p.layout == "padded":
        result = {name: dense(name, *t, row_heads=t[1] + 1, more_tokens=5) for name, t in tensors.items()}
    elif p.layout == "kept":  # Q and K come from a rowwise kernel head-major, V lies in the product's row
        result = {name: head_major(name, *t) for name, t in tensors.items() if name != "v"}
        result["v"] = dense("v", *tensors["v"], row_heads=3 * p.kv_heads)
    elif alike and p.layout in ("fused", *ROWS):
        parts = ROWS.get(p.layout, 3)
        row = parts * p.heads * p.dim
        result = {name: Place("qkv", p.batch * p.queries * row, i * p.heads * p.dim, (p.batch, p.heads, p.queries, p.dim),
                              (p.queries * row, p.dim, row, 1)) for i, name in enumerate("qkv")}
        out_heads = 5 * p.heads if p.layout == "single" else p.heads
    else:
        result = {name: dense(name, *t) for name, t in tensors.items()}
    result["out"] = dense("out", p.queries, p.heads, p.v_dim, out_heads, 3 if p.gap else 0, 8 if p.gap else 0)
    return result


def mask_type(p):
    """(shape, element) of the mask, None for none. Kinds: keys, holes (a part of the keys, by batch), segments (a block
    diagonal), band (near neighbours), bits and headbits (random by query), bias, bias32 (added, by head and query),
    row, row32 (added, by key), expanded (row for all heads, as models repeat it), padding (that, -10000 behind the text)."""
    shape = {"none": None, "keys": (p.batch, 1, 1, p.keys), "holes": (p.batch, 1, 1, p.keys), "half": (p.batch, 1, 1, p.keys),
             "segments": (1, 1, p.queries, p.keys), "band": (1, 1, p.queries, p.keys), "bits": (p.batch, 1, p.queries, p.keys),
             "boolean": (1, 1, p.queries, p.keys), "headbits": (p.batch, p.heads, p.queries, p.keys),
             "bias": (1, p.heads, p.queries, p.keys), "bias32": (p.batch, 1, p.queries, p.keys), "row": (p.batch, 1, 1, p.keys),
             "row32": (p.batch, p.heads, 1, p.keys), "expanded": (p.batch, p.heads, 1, p.keys), "padding": (p.batch, p.heads, 1, p.keys)}[p.mask]
    element = {"bias": p.element, "row": p.element, "expanded": p.element, "padding": p.element, "bias32": "f32", "row32": "f32"}.get(p.mask, "i1")
    return None if shape is None else (shape, element)


def memref(shape, element, strides=None, offset=0):
    text = "x".join(map(str, shape)) + "x" + element
    dense = tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))
    if strides is None or (tuple(strides) == dense and offset == 0):
        return f"memref<{text}>"
    return f"memref<{text}, strided<[{', '.join(map(str, strides))}]{f', offset: {offset}' if offset else ''}>>"


def program(p, name):
    """The text of program @name and of its kernel."""
    where = places(p)
    buffers, views, launch, kernel_args = [], [], [], []
    inputs = list(dict.fromkeys(place.buffer for key, place in where.items() if key != "out"))

    def add_view(key, place, element):
        flat = memref((place.elements,), element)
        views.append(f"  %{key} = plan.view %buffer_{place.buffer} : {flat} -> {memref(place.shape, element, place.strides, place.offset)}")
        launch.append((f"%{key}", memref(place.shape, element, place.strides, place.offset)))
        kernel_args.append(memref(place.shape, element, place.strides))

    for i, buffer in enumerate(inputs):
        elements = next(place.elements for place in where.values() if place.buffer == buffer)
        buffers.append(f"  %buffer_{buffer} = plan.buffer input {{index = {i} : i64}} : {memref((elements,), p.element)}")
    for key in "qkv":
        add_view(key, where[key], p.element)
    kind = mask_type(p)
    if kind:
        shape, element = kind
        repeats = p.mask in ("expanded", "padding")
        stored = (p.batch, 1, 1, p.keys) if repeats else shape
        buffers.append(f"  %mask = plan.buffer input {{index = {len(inputs)} : i64}} : {memref(stored, element)}")
        inputs.append("mask")
        given, source = memref(shape, element), "%mask"
        if repeats:
            given, source = memref(shape, element, (p.keys, 0, p.keys, 1)), "%repeated"
            views.append(f"  %repeated = plan.view %mask : {memref(stored, element)} -> {given}")
        launch.append((source, given))
        kernel_args.append(given)
    buffers.append(f"  %buffer_out = plan.buffer output {{index = 0 : i64}} : {memref((where['out'].elements,), p.element)}")
    outputs = 1
    if p.log_sum_exp:
        sums = memref((p.batch, p.heads, p.queries), "f32")
        buffers.append(f"  %sums = plan.buffer output {{index = 1 : i64}} : {sums}")
        launch.append(("%sums", sums))
        kernel_args.append(sums)
        outputs = 2
    add_view("out", where["out"], p.element)
    config = [f"alignments = array<i64: {', '.join(['16'] * len(kernel_args))}>", f"causal = {str(p.causal).lower()}",
              f"has_mask = {str(kind is not None).lower()}", f"scale = {p.factor!r} : f64"]
    config += [f"soft_cap = {float(p.soft_cap)!r} : f64"] if p.soft_cap else []
    config += [f"window = array<i64: {', '.join(map(str, p.window))}>"] if p.window else []
    config += ["log_sum_exp = true"] if p.log_sum_exp else []
    config += ["quantized = true"] if p.quantized else []
    results = ['"y"'] + ['"sums"'] * p.log_sum_exp
    listed = ", ".join(f'"{i}"' for i in inputs)
    return "\n".join([
        f"plan.program @{name} inputs [{listed}] outputs [{', '.join(results)}] {{", *buffers, *views, "  plan.prepare {", "  }",
        "  plan.step {", f"    plan.launch @attention_{name}({', '.join(a for a, _ in launch)}) : {', '.join(t for _, t in launch)}", "  }", "}",
        f'plan.kernel @attention_{name} family "attention" args [{", ".join(kernel_args)}] outputs {outputs} config {{{", ".join(config)}}} {{', "}", ""])


def grid():
    """The correctness grid: every head size with lengths, sharing of key heads, layouts and masks in turn."""
    result, turn = [], 0
    sizes = ((1, 1), (17, 17), (64, 64), (100, 333), (333, 100), (1000, 1000), (131, 4101), (4096, 77), (1, 4096), (4096, 1))
    masks = (("keys", 200, 300), ("keys", 77, 1000), ("holes", 300, 1500), ("bits", 333, 555), ("headbits", 130, 700), ("bits", 1, 4096),
             ("bias", 100, 333), ("bias", 64, 1000), ("bias32", 200, 456), ("row", 200, 600), ("row", 100, 334), ("expanded", 64, 1002),
             ("row32", 300, 300), ("segments", 700, 700), ("band", 700, 900), ("keys", 64, 64), ("row", 50, 60), ("padding", 300, 400), ("padding", 77, 200))
    for dim in SIZES:
        for element in ("bf16", "f16"):
            for queries, keys in sizes if element == "bf16" else sizes[3:6]:
                turn += 1
                key_heads = (4, 2, 1)[turn % 3]
                layout = LAYOUTS[turn % 4 if queries == keys and key_heads == 4 else turn % 3]
                result.append(Problem(2, 4, queries, keys, dim, layout=layout, key_heads=key_heads, element=element))
        for mask, queries, keys in masks:
            turn += 1
            result.append(Problem(3, 2, queries, keys, dim, mask, LAYOUTS[turn % 3], (2, 1)[turn % 2], element=("bf16", "f16")[turn % 5 == 0]))
        for queries, keys in ((100, 100), (1000, 1000), (300, 1111)):
            turn += 1
            result.append(Problem(2, 2, queries, keys, dim, layout=LAYOUTS[turn % 3], causal=True))
        result.append(Problem(2, 2, 500, 500, dim, "keys", LAYOUTS[turn % 3], causal=True))
        result.append(Problem(2, 4, 700, 900, dim, layout=LAYOUTS[turn % 3], window=((100, 33), (0, 64), (300, 0))[turn % 3], key_heads=2))
        result.append(Problem(2, 2, 300, 500, dim, ("none", "keys", "row")[turn % 3], soft_cap=5.0, causal=turn % 2 == 0, log_sum_exp=True))
        result.append(Problem(2, 3, 777, 600, dim, ("none", "bits")[turn % 2], LAYOUTS[turn % 3], log_sum_exp=True))
    for dim, value_dim in ((64, 128), (128, 64), (72, 40), (40, 256), (192, 128)):
        for queries, keys in ((333, 1000), (17, 100), (4500, 2222)):
            result.append(Problem(2, 4, queries, keys, dim, layout="padded", key_heads=2, value_dim=value_dim))
    for batch, heads, queries, keys, dim, layout in (
            (200, 16, 16, 16, 72, "fused"), (33, 8, 13, 11, 72, "padded"), (33, 5, 16, 16, 72, "token"), (50, 6, 10, 64, 64, "padded"),
            (331, 5, 9, 16, 72, "head"), (100, 4, 64, 64, 64, "fused"), (100, 4, 49, 49, 64, "head"), (7, 4, 64, 30, 64, "padded"),
            (20, 8, 64, 64, 40, "fused"), (50, 6, 32, 32, 64, "token"), (51, 6, 27, 31, 64, "token"), (2, 3, 200, 129, 72, "padded"),
            (5000, 3, 4, 4, 64, "token"), (70000, 1, 2, 3, 32, "token"), (3000, 2, 70, 70, 32, "token"), (1, 2048, 40, 100, 32, "head")):
        result.append(Problem(batch, heads, queries, keys, dim, layout=layout))
    for window, keys in (((20, 5), 200), ((64, 64), 1000)):  # late rows see no key; a window with a mask
        result.append(Problem(2, 4, 600, keys, 64, "keys", window=window, log_sum_exp=True))
    result.append(Problem(40, 4, 50, 60, 64, log_sum_exp=True))
    result.append(Problem(40, 4, 13, 16, 72, "none", "fused", log_sum_exp=True, causal=True))
    for layout in ("joint", "single", "kept"):
        result.append(Problem(2, 6, 1333, 1333, 128, layout=layout))
    # Enough tiles that blocks share the last ones.
    for heads, queries, keys, dim in ((40, 1000, 2200, 128), (24, 700, 3000, 72), (30, 800, 2500, 64), (20, 1500, 1500, 256)):
        result.append(Problem(1, heads, queries, keys, dim, layout="padded", log_sum_exp=True))
        result.append(Problem(1, heads, queries, keys, dim, "row", layout="token"))
    return result


def portable_grid():
    """The part of the grid for the kernels of other architectures, and launches of many blocks, whose warps have two bands of rows."""
    many = []
    for turn, dim in enumerate((8, 40, 64, 72, 80, 96, 112, 128)):
        shape = lambda queries, keys, mask="none", dim=dim, layout=LAYOUTS[turn % 3], **more: Problem(4, 26, queries, keys, dim, mask, layout, **more)
        many += [shape(128, 333), shape(200, 64, key_heads=13, element="f16"), shape(130, 700, "row"), shape(100, 300, "padding"), shape(150, 90, "bits"),
                 shape(300, 300, causal=True, log_sum_exp=True), shape(260, 300, window=(40, 9)), shape(130, 77, soft_cap=5.0)]
    return [p for i, p in enumerate(grid()) if i % 3 == 0 or p.window or p.soft_cap] + many


def quantized_grid():
    """Attention of 8-bit numbers: a third of what the large kernel takes of the grid (additive masks, soft caps and values of 256
    columns stay with 16-bit numbers), more tiles that blocks share, and long sequences."""
    some = [p for i, p in enumerate(grid()) if i % 3 == 0 and max(p.queries, p.keys) > 64 and not p.log_sum_exp]
    shared = [Problem(1, heads, queries, keys, dim, layout="padded") for heads, queries, keys, dim in ((40, 1000, 2200, 128), (24, 700, 3000, 72), (30, 800, 2500, 64))]
    long = [Problem(1, 2, 300, 20000, dim) for dim in (64, 128)]
    return [dataclasses.replace(p, quantized=True) for p in some + shared + long]


GRIDS = {"grid": grid, "grid_mma": portable_grid, "grid_quantized": quantized_grid}


# Of models(): what is timed with the kernels of other architectures.
PORTABLE_MODELS = ("flux_1024", "flux_1024_joint", "wan_cross", "sd35_1024", "pixart_1024", "pixart_cross", "pixart_cross_row", "pixart_cross_half", "dit_256", "dit_512", "sd15_512",
                   "sd15_mid", "d80", "d96", "d160", "auraflow", "latte_temporal", "windows_8x8", "flux_boolean", "flux_causal", "flux_window", "flux_soft_cap")


def spread(problems):
    """Numbers of small problems, one for each kind of mask and option: for tools that slow a kernel down."""
    chosen = {}
    for i, p in enumerate(problems):
        kind = (p.mask, p.causal, bool(p.window), bool(p.soft_cap), p.queries <= 64, p.queries == 131)
        wanted = SIZES[len(chosen) % len(SIZES)]
        cost = (abs(p.dim - wanted), p.batch * p.heads * p.queries * p.keys)
        if p.batch * p.heads * p.queries * p.keys < 5e6 and (kind not in chosen or cost < chosen[kind][0]):
            chosen[kind] = cost, i
    return sorted(i for _, i in chosen.values())


def models():
    """{name: (problem, what torch is given)} of the shapes that are timed."""
    shape = lambda *sizes, **more: Problem(*sizes, gap=False, **more)
    return {
        "flux_1024": shape(1, 24, 4608, 4608, 128), "flux_1024_joint": shape(1, 24, 4608, 4608, 128, layout="joint"),
        "flux_1024_single": shape(1, 24, 4608, 4608, 128, layout="single"), "flux_1024_kept": shape(1, 24, 4608, 4608, 128, layout="kept"),
        "flux_2048": shape(1, 24, 16896, 16896, 128), "wan_480p": shape(1, 40, 32760, 32760, 128),
        "wan_cross": shape(1, 40, 32760, 512, 128), "sd35_1024": shape(2, 38, 4429, 4429, 64),
        "sd35_1024_joint": shape(2, 38, 4429, 4429, 64, layout="joint"), "pixart_1024": shape(2, 16, 4096, 4096, 72),
        "pixart_1024_joint": shape(2, 16, 4096, 4096, 72, layout="joint"), "pixart_cross": shape(2, 16, 4096, 300, 72),
        "pixart_cross_row": shape(2, 16, 4096, 300, 72, mask="expanded"), "pixart_cross_padding": shape(2, 16, 4096, 300, 72, mask="padding"), "pixart_cross_half": shape(2, 16, 4096, 300, 72, mask="half"),
        "dit_256": shape(2, 16, 256, 256, 72, layout="joint"), "dit_512": shape(2, 16, 1024, 1024, 72, layout="joint"),
        "sd15_512": shape(2, 8, 4096, 4096, 40), "sd15_mid": shape(2, 8, 1024, 1024, 80), "d80": shape(2, 16, 4096, 4096, 80),
        "d96": shape(2, 16, 4096, 4096, 96), "d160": shape(2, 8, 4096, 4096, 160), "auraflow": shape(2, 12, 4360, 4360, 256),
        "latte_temporal": shape(3840, 16, 16, 16, 72), "windows_8x8": shape(1024, 16, 64, 64, 64),
        "flux_half_keys": shape(1, 24, 4608, 4608, 128, mask="half"), "flux_2048_half_keys": shape(1, 24, 16896, 16896, 128, mask="half"),
        "sd35_half_keys": shape(2, 38, 4429, 4429, 64, mask="half"), "flux_boolean": shape(1, 24, 4608, 4608, 128, mask="boolean"),
        "sd35_boolean": shape(2, 38, 4429, 4429, 64, mask="boolean"), "flux_causal": shape(1, 24, 4608, 4608, 128, causal=True),
        "flux_window": shape(1, 24, 4608, 4608, 128, window=(576, 576)), "flux_soft_cap": shape(1, 24, 4608, 4608, 128, soft_cap=50.0),
        "flux_1024_quantized": shape(1, 24, 4608, 4608, 128, quantized=True), "flux_2048_quantized": shape(1, 24, 16896, 16896, 128, quantized=True),
        "wan_480p_quantized": shape(1, 40, 32760, 32760, 128, quantized=True), "wan_1_3b": shape(1, 12, 32760, 32760, 128),
        "wan_1_3b_quantized": shape(1, 12, 32760, 32760, 128, quantized=True), "d64_quantized": shape(2, 16, 8192, 8192, 64, quantized=True),
        "d96_quantized": shape(2, 16, 8192, 8192, 96, quantized=True), "flux_2048_half_quantized": shape(1, 24, 16896, 16896, 128, mask="half", quantized=True),
        "flux_segments": shape(1, 24, 4608, 4608, 128, mask="segments"), "flux_band": shape(1, 24, 4608, 4608, 128, mask="band"),
    }


