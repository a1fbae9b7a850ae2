# SPDX-License-Identifier: Apache-2.0
"""Worker: `python3 -m ditc_gpu.gemm_run BUNDLE check|small|bench|fp8|fused FIRST` (see supervise.py)."""
import dataclasses
import json
import sys

import torch

from . import gemm_fused, timing
from .gemm import Problem, launcher, pointwise
from .gemm_cases import DEPENDENT, FEW_ROWS, FP8, FP8_SHAPES, PLAIN, benches, checks, named
from .guarded import guarded


def relative_error(out, reference):
    return ((out.double() - reference.double()).norm() / reference.double().norm()).item()


def random(*shape, dtype=torch.bfloat16, scale=1.0):
    return (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(dtype)


def poisoned(*shape, dtype):
    """Room for an output with eight rows of sentinels behind every batch; the output is the view before them."""
    batches, rows, columns = shape
    room = torch.full((batches, rows + 8, columns), float("nan"), device="cuda", dtype=dtype)
    return room, room[:, :rows]


def check_plain(bundle, case):
    """{ours, eager: relative error against fp64} and whether anything else was written."""
    variant = case.variant
    batches, rows, columns, ranges = case.shape
    torch.manual_seed(rows + columns)
    a = [guarded(random(batches, rows, k, dtype=variant.operand)) for k in ranges]
    b, bias = guarded(random(columns, sum(ranges), dtype=variant.operand, scale=sum(ranges) ** -0.5)), guarded(random(columns, dtype=variant.dtype))
    room, out = poisoned(batches, rows, columns, dtype=variant.dtype)
    kernel = variant.load(bundle)
    launcher(kernel, variant, [Problem(a, b, [out], pointwise(bias))])()
    torch.cuda.synchronize()
    joined = torch.cat([part.to(variant.dtype) for part in a], 2)  # e4m3 loses nothing
    reference = joined.double() @ b.double().t() + bias.double()
    eager = torch.nn.functional.linear(joined, b.to(variant.dtype), bias)
    error, eager_error = relative_error(out, reference), relative_error(eager, reference)
    return {"ours": error, "eager": eager_error, "untouched": bool(room[:, rows:].isnan().all()),
            "ok": error <= 1.25 * eager_error and bool(room[:, rows:].isnan().all())}


def bench_plain(bundle, shape):
    """Microseconds of the peer and of every variant; several products of one shape are one launch of ours."""
    name, *rows, columns, k = shape
    sets = timing.sets_for(2 * (sum(rows) * (k + columns) + len(rows) * columns * k))

    def products():
        return [(random(1, m, k), random(columns, k, scale=k ** -0.5),
                 torch.empty(1, m, columns, device="cuda", dtype=torch.bfloat16)) for m in rows]

    data = [products() for _ in range(sets)]

    def peer(i):
        for a, b, out in data[i]:
            torch.mm(a[0], b.t(), out=out[0])

    def launches(variant, dependent):
        kernel = variant.load(bundle)
        calls = [launcher(kernel, variant, [Problem([a], b, [out], pointwise()) for a, b, out in data[i]],
                          dependent=dependent) for i in range(sets)]
        return lambda i: calls[i]()

    calls = {"cublas": peer}
    few = rows[0] <= 2048
    for variant in FEW_ROWS + PLAIN if few else PLAIN:
        dependent = (variant in DEPENDENT or few) and len(rows) == 1
        variant = dataclasses.replace(variant, problems=len(rows), whole=True)
        calls[variant.name] = launches(variant, False)
        if dependent:
            calls[variant.name + "_pdl"] = launches(dataclasses.replace(variant, early=True), True)
    torch.cuda.synchronize()
    return {"shape": name, "size": [rows, columns, k], "flop": 2 * sum(rows) * columns * k,
            "us": timing.compare(calls, sets)}


def bench_fp8(bundle, shape):
    """Products of e4m3 without scales, beside torch's with a scale for each row and column, or for all."""
    name, rows, columns, k = shape
    sets = timing.sets_for(rows * k + columns * k + 2 * rows * columns)
    data = [(random(rows, k).to(torch.float8_e4m3fn), random(columns, k).to(torch.float8_e4m3fn),
             torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)) for _ in range(sets)]
    one, ones = torch.ones((), device="cuda"), (torch.ones(rows, 1, device="cuda"), torch.ones(1, columns, device="cuda"))

    def peer(a_scale, b_scale):
        def call(i):
            torch._scaled_mm(data[i][0], data[i][1].t(), a_scale, b_scale, out_dtype=torch.bfloat16, use_fast_accum=True, out=data[i][2])
        return call

    def launches(variant):
        kernel = variant.load(bundle)
        calls = [launcher(kernel, variant, [Problem([a[None]], b, [out[None]], pointwise())]) for a, b, out in data]
        return lambda i: calls[i]()

    calls = {"scaled_mm": peer(one, one), "scaled_mm, rows and columns": peer(*ones)}
    for variant in FP8:
        calls[variant.name] = launches(dataclasses.replace(variant, whole=True))
    torch.cuda.synchronize()
    return {"shape": name, "size": [rows, columns, k], "flop": 2 * rows * columns * k, "us": timing.compare(calls, sets)}


def run_fused(case, variant, bundle, tensors, outputs):
    return launcher(variant.load(bundle), variant, case.problems(tensors, outputs))


def check_fused(bundle, name, case):
    """The worst relative error over outputs and variants, beside eager's."""
    torch.manual_seed(5)
    tensors = [guarded(t) if t.is_contiguous() else t for t in case.tensors()]
    references = case.math(*[t.float() for t in tensors])
    eager = case.math(*tensors)
    worst, errors = 0.0, {}
    for variant in case.variants:
        outputs = case.outputs()
        run_fused(case, variant, bundle, tensors, outputs)()
        torch.cuda.synchronize()
        for ours, theirs, reference in zip(case.split(outputs), eager, references):
            pair = relative_error(ours, reference), relative_error(theirs, reference)
            errors.setdefault(variant.name, []).append(pair)
            worst = max(worst, pair[0] / pair[1] if pair[0] == pair[0] else float("inf"))
    return {"name": name, "worst": worst, "errors": errors, "ok": worst <= 1.25}


def bench_fused(bundle, name, case):
    """Correctness at full size, then microseconds of the peers and of every variant."""
    result = check_fused(bundle, name, case)
    bytes_per_call = 2 * sum(t.numel() for t in case.tensors() + case.outputs())
    sets = timing.sets_for(bytes_per_call)
    tensors, outputs = [case.tensors() for _ in range(sets)], [case.outputs() for _ in range(sets)]
    compiled = {"torch.compile": torch.compile(case.math, dynamic=False),
                "max-autotune": torch.compile(case.math, dynamic=False, mode="max-autotune-no-cudagraphs")}
    calls = {peer: lambda i, function=function: function(*tensors[i]) for peer, function in compiled.items()}
    if getattr(case, "library", None) and case.library(*tensors[0]) is not None:
        calls["cublaslt"] = lambda i: case.library(*tensors[i])
    for variant in case.variants:
        launches = [run_fused(case, variant, bundle, tensors[i], outputs[i]) for i in range(sets)]
        calls[variant.name] = lambda i, launches=launches: launches[i]()
    with torch.no_grad():
        return {**result, "shape": name, "flop": case.flop(), "us": timing.compare(calls, sets, rounds=7)}


def main():
    bundle, name, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.zeros(1, device="cuda")
    print(json.dumps({"ready": True}))
    lists = {"check": checks, "bench": benches, "fp8": lambda: FP8_SHAPES, "small": lambda: list(gemm_fused.small_cases().items()),
             "fused": lambda: list(gemm_fused.cases().items())}
    kind, cases = named(lists, name)
    function = {"check": check_plain, "bench": bench_plain, "fp8": bench_fp8, "small": lambda folder, case: check_fused(folder, *case),
                "fused": lambda folder, case: bench_fused(folder, *case)}[kind]
    for i in range(first, len(cases)):
        result = function(bundle, cases[i])
        print(json.dumps({"case": i, **result}))
    print(json.dumps({"done": True}))


if __name__ == "__main__":
    main()
