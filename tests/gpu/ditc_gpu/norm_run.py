# SPDX-License-Identifier: Apache-2.0
"""GroupNorm of very long rows as ditc emits it, its rows in parts (`us`) and whole (`whole_us`), beside torch.compile.

    python3 -m ditc_gpu.norm_run BUNDLE norms FIRST     the worker for supervise.py

Both against fp32 and each twice, to the bit; scratch and results hold NaN before."""
import json
import os
import sys

import torch

from . import attention_plans, norm_problems, timing

TOLERANCE = 2.6e-3  # relative L2: half a unit in the last place of bf16, and a little


class Bound:
    """One of the two programs on given inputs."""

    def __init__(self, program, images, inputs):
        self.memory = {name: torch.full((kind.span,), float("nan"), dtype=attention_plans.DTYPES[kind.element], device="cuda")
                       for name, (space, kind) in program.buffers.items() if space != "input"}
        self.memory.update(zip(program.inputs, (tensor.flatten() for tensor in inputs)))
        self.y = program.view(program.outputs[0], self.memory)
        self.run = attention_plans.Plan(program, images, self.memory)


def relative(result, reference):
    return float((result.float() - reference).norm() / reference.norm())


def bench(p, programs, images):
    sets = timing.sets_for(p.bytes)
    inputs = [[torch.randn(p.batch, p.channels, p.side, p.side, device="cuda").mul_(2).add_(3).bfloat16(), torch.randn(p.channels, device="cuda").bfloat16(),
               torch.randn(p.channels, device="cuda").bfloat16()] for _ in range(sets)]
    bounds = {which: [Bound(programs[which], images[which], given) for given in inputs] for which in programs}

    def norm(x, w, b):
        return torch.nn.functional.silu(torch.nn.functional.group_norm(x, p.groups, w, b, 1e-6))

    reference = norm(*(tensor.float() for tensor in inputs[0]))
    result = {}
    for which, of in bounds.items():
        of[0].run()
        first = of[0].y.clone()
        of[0].run()
        torch.cuda.synchronize()
        result[which + "_relative"] = relative(first, reference)
        if not (result[which + "_relative"] <= TOLERANCE and torch.equal(first, of[0].y)):
            result["wrong"] = True
    peer, kept = torch.compile(norm, dynamic=False), {}

    def call_peer(i):
        kept[i] = peer(*inputs[i])

    call_peer(0)
    result["compile_relative"] = relative(kept[0], reference)
    result.update(timing.compare({"us": lambda i: bounds["split"][i].run(), "whole_us": lambda i: bounds["whole"][i].run(), "compile_us": call_peer}, sets))
    result["gb_s"] = round(p.bytes / result["us"] / 1e3)
    return result


def main():
    bundle, _, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    programs = {which: attention_plans.programs(os.path.join(bundle, which + ".planned.mlir")) for which in ("split", "whole")}
    images = {which: attention_plans.Images(os.path.join(bundle, which)) for which in programs}
    for i, (name, p) in enumerate(norm_problems.norms().items()):
        if i >= first:
            torch.manual_seed(i)
            print(json.dumps({"case": i, "name": name, "problem": str(p), **bench(p, {which: programs[which][name] for which in programs}, images)}), flush=True)
            torch.cuda.empty_cache()
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
