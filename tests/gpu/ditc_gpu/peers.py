# SPDX-License-Identifier: Apache-2.0
"""How else PyTorch runs a module: eager, and torch.compile in its modes, of the whole or of its repeated blocks.

A peer is "eager", "compile" (the default mode), a mode of torch.compile ("reduce-overhead", "max-autotune",
"max-autotune-no-cudagraphs"), or "regional:MODE": each block of a module list is compiled by itself, as diffusers'
compile_repeated_blocks does, so that equal blocks are compiled once; for models whose autotuning as a whole takes minutes.
"fp8:PEER" is that peer with linear layers in fp8 (fp8_linear.py), beside the package that was compiled with --quantize fp8.
"""
import contextlib
import gc
import statistics
import time

import torch

from . import fp8_linear

# From the quickest to compile on: when time is short, the last ones are left out.
ALL = ("eager", "compile", "reduce-overhead", "regional:max-autotune-no-cudagraphs", "max-autotune-no-cudagraphs", "max-autotune")


def blocks_of(module):
    """Elements of module lists that repeat: the blocks of a transformer."""
    lists = [child for child in module.modules() if isinstance(child, torch.nn.ModuleList) and len(child) > 1]
    repeated = [block for blocks in lists for block in blocks if type(block) is type(blocks[0])]
    inner = {id(child) for block in repeated for child in block.modules() if child is not block}
    return [block for block in repeated if id(block) not in inner and any(True for _ in block.parameters())]


def is_fp8(name):
    return name.startswith("fp8:")


@contextlib.contextmanager
def compiled(module, name, inputs):
    """A callable that runs the module so; afterwards the module is as it was."""
    torch._dynamo.reset()
    if is_fp8(name):
        with fp8_linear.quantised(module, inputs), compiled(module, name.removeprefix("fp8:"), inputs) as function:
            yield function
        return
    if name == "eager":
        yield module
        return
    region, _, mode = name.rpartition(":")
    options = {"mode": None if mode == "compile" else mode, "dynamic": False}
    if not region:
        yield torch.compile(module, **options)
        torch._dynamo.reset()
        return
    blocks = blocks_of(module)
    if not blocks:
        raise ValueError("the module has no list of repeated blocks")
    for block in blocks:
        block.compile(**options)
    try:
        yield module
    finally:
        for block in blocks:
            block._compiled_call_impl = None
        torch._dynamo.reset()


def measure(calls, rounds, steps=1):
    """{name: median milliseconds of a step}, in turns, each of `steps` calls that follow each other."""
    times = {name: [] for name in calls}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(rounds):
        for name, call in calls.items():
            start.record()
            for _ in range(steps):
                call()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) / steps)
    return {name: statistics.median(values) for name, values in times.items()}


def loop(calls, ms):
    """The same within a denoising loop: as many steps as 50 ms hold, without waiting for the GPU between them; None where
    a single step takes so long that this makes no difference."""
    steps = int(50 / max(ms.values()))
    return measure(calls, 10, min(steps, 20)) if steps > 1 else None


def run(module, name, inputs, ours, rounds, error):
    """One peer: seconds to its first result, milliseconds a step beside those of `ours` in turns, bytes beside the
    parameters, and `error(output)`."""
    gc.collect()  # what the peer before left behind is not this one's
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with compiled(module, name, inputs) as function:
        start = time.perf_counter()
        output = function(**inputs)
        torch.cuda.synchronize()
        result = {"first_s": time.perf_counter() - start}
        result["error"] = error(output)
        del output
        for _ in range(3):  # CUDA graphs are recorded in the second call, and warmed up before
            function(**inputs)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        function(**inputs)
        torch.cuda.synchronize()
        held = torch.cuda.max_memory_allocated() - before
        result["bytes"] = held if held > 0 else None  # recorded graphs keep theirs where this does not count
        calls = {"ditc": ours, name: lambda: function(**inputs)}
        measure(calls, 2)
        ms = measure(calls, rounds)
        result.update(ms=ms[name], ditc_ms=ms["ditc"])
        following = loop(calls, ms)
        if following:
            result.update(loop_ms=following[name], ditc_loop_ms=following["ditc"])
        return result
