# SPDX-License-Identifier: Apache-2.0
"""Convolutions as ditc emits them: a grid of cases against fp64, and layers of models beside cuDNN in the same run.

    python3 -m ditc_gpu.conv_run BUNDLE check|bench|tiles FIRST     the worker for supervise.py

Scratch and the result hold NaN before. Every case runs twice and has to agree to the bit. Layers of models are compared
with cuDNN in fp32 (no TF32), beside the error of cuDNN in the same 16-bit type. `us` is a step as a plan has it, laying out
the image included (filters are laid out once, before); `kernel_us` the convolution alone. cuDNN with its benchmark on,
once with torch's usual layout and once with everything channels last. CUDA graphs over rotating buffers, in turns.
`tiles` times the kernel alone with tiles by hand."""
import json
import os
import sys

import torch

from . import attention_plans, conv_problems, conv_tiles, driver, timing

TOLERANCE = {"bf16": 2.6e-3, "f16": 4e-4, "f32": 1e-6}  # relative L2: half a unit in the last place, and a little; of f32, sums


def cases(part):
    if part == "tiles":
        return [(name, conv_problems.models()[name]) for name in conv_tiles.PROBLEMS]
    return list(conv_problems.models().items()) if part == "bench" else [(f"case_{i}", p) for i, p in enumerate(conv_problems.grid())]


class Bound:
    """A problem with its memory and its plan."""

    def __init__(self, p, program, images):
        self.p, dtype = p, attention_plans.DTYPES[p.element]
        self.memory = {name: torch.full((kind.span,), float("nan"), dtype=attention_plans.DTYPES[kind.element], device="cuda")
                       for name, (_, kind) in program.buffers.items()}
        given = [name for name, (space, _) in program.buffers.items() if space in ("input", "weight")]
        self.x, self.w, *bias = [program.view(name, self.memory) for name in given]
        self.b = bias[0] if bias else None
        scale = self.w[0].numel() ** -0.5
        for tensor, factor in [(self.x, 1.0), (self.w, scale)] + [(b, 0.5) for b in bias]:
            tensor.copy_((torch.randn(tensor.shape, device="cuda") * factor).to(dtype))
        self.y = program.view(program.outputs[0], self.memory)
        self.plan = attention_plans.Plan(program, images, self.memory)
        self.step = self.plan.launches[program.prepared:]
        self.kernel = self.step[-1]
        self.pointers = [self.memory[program.root(name)].data_ptr().to_bytes(8, "little") for name in program.launches[-1][1]]
        for launch in self.plan.launches[:program.prepared]:
            launch()

    def run(self):
        for launch in self.step:
            launch()


def convolve(p, x, w, b):
    function = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[len(p.size) - 1]
    return function(x, w, b, p.strides, p.pads, p.dilations, p.groups)


def relative(result, reference):
    return float((result.double() - reference.double()).norm() / reference.double().norm())


def exact(bound, dtype):
    return convolve(bound.p, bound.x.to(dtype).contiguous(), bound.w.to(dtype), None if bound.b is None else bound.b.to(dtype))


def check(bound, dtype):
    bound.run()
    first = bound.y.clone()
    bound.y.fill_(float("nan"))
    bound.run()
    torch.cuda.synchronize()
    reference = exact(bound, dtype)
    cudnn = convolve(bound.p, bound.x, bound.w, bound.b)
    result = {"relative": relative(bound.y, reference), "cudnn_relative": relative(cudnn, reference), "same_twice": bool(torch.equal(first, bound.y))}
    if not (result["relative"] <= TOLERANCE[bound.p.element] and result["same_twice"]):
        result["wrong"] = True
    return result


def channels_last(bound):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if bound.x.dim() not in formats:
        return None
    return [tensor.to(memory_format=formats[bound.x.dim()]) for tensor in (bound.x, bound.w)]


def bench(p, program, images):
    sets = timing.sets_for(p.bytes)
    bounds = [Bound(p, program, images) for _ in range(sets)]
    result = check(bounds[0], torch.float32)
    kept = {}

    def keep(name, i, value):
        kept[name, i] = value

    lasts = [channels_last(bound) for bound in bounds]
    plain = [bound.x.contiguous() for bound in bounds]
    calls = {"us": lambda i: bounds[i].run(), "kernel_us": lambda i: bounds[i].kernel(),
             "cudnn_us": lambda i: keep("plain", i, convolve(p, plain[i], bounds[i].w, bounds[i].b)),
             "cudnn_last_us": lambda i: keep("last", i, convolve(p, *lasts[i], bounds[i].b))}
    result.update(timing.compare(calls, sets))
    result.update({name.replace("us", "tflops"): round(p.flop / result[name] / 1e6, 1) for name in calls})
    result["gb_s"] = round(p.bytes / result["kernel_us"] / 1e3)  # what a depthwise convolution is measured by
    result["ratio"] = round(min(result["cudnn_us"], result["cudnn_last_us"]) / result["us"], 3)
    return result


def with_tiles(bundle, name, bound, tiles):
    """A function that launches the unit with these tiles on the tensors of the kernel itself, and its result's error."""
    with open(os.path.join(bundle, "tiles", conv_tiles.unit_name(name, tiles) + ".cubin"), "rb") as file:
        kernel = driver.Kernel(file.read(), "kernel", conv_tiles.threads(tiles), conv_tiles.shared_bytes(tiles))
    return kernel.bind(conv_tiles.blocks(bound.p, tiles), *bound.pointers)


def bench_tiles(bundle, name, p, program, images):
    sets = timing.sets_for(p.bytes)
    bounds = [Bound(p, program, images) for _ in range(sets)]
    for bound in bounds:
        bound.run()
    expected = bounds[0].y.clone()
    calls, wrong = {"chosen": lambda i: bounds[i].kernel()}, []
    for tiles in conv_tiles.TILES:
        launches = [with_tiles(bundle, name, bound, tiles) for bound in bounds]
        bounds[0].y.fill_(float("nan"))
        launches[0]()
        torch.cuda.synchronize()
        label = "x".join(map(str, tiles))
        if not relative(bounds[0].y, expected) < TOLERANCE[p.element]:
            wrong.append(label)
        calls[label] = lambda i, launches=launches: launches[i]()
    times = timing.compare(calls, sets, target_ms=4.0, rounds=5)
    result = {"tflops": {label: round(p.flop / us / 1e6, 1) for label, us in sorted(times.items(), key=lambda item: item[1])}}
    return {**result, "wrong": wrong} if wrong else result


def main():
    bundle, part, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = part == "bench"
    folder = "grid" if part == "check" else "models"
    programs = attention_plans.programs(os.path.join(bundle, folder + ".planned.mlir"))
    images = attention_plans.Images(os.path.join(bundle, folder))
    for i, (name, p) in enumerate(cases(part)):
        if i < first:
            continue
        torch.manual_seed(i)
        if part == "tiles":
            result = bench_tiles(bundle, name, p, programs[name], images)
        else:
            result = bench(p, programs[name], images) if part == "bench" else check(Bound(p, programs[name], images), torch.float64)
        print(json.dumps({"case": i, "name": name, "problem": str(p), "kernel": programs[name].launches[-1][0], **result}), flush=True)
        torch.cuda.empty_cache()
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
