# SPDX-License-Identifier: Apache-2.0
"""Full-size models with random weights: a package beside torch, in one process, on the same tensors.

    python3 -m ditc_gpu.full_models BUNDLE OUT.json MODEL... [--peers eager,compile,reduce-overhead,max-autotune] [--rounds 20]

BUNDLE holds MODEL.dita and MODEL.notes.json (class, configuration and inputs of the export; MODEL.package names another
package file). Weights go from torch to the package by DLPack. Errors are relative L2 against the model in fp32; times are
medians of CUDA events, all implementations in turns.
"""
import argparse
import copy
import gc
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

ATTENTION = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def tensors_of(module):
    """Parameters and buffers by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def build(notes):
    """The module in bf16 with random weights; parameters that start at zero (gates, final layers) get values too. What
    the export kept in fp32 (any part of a name, as diffusers counts) keeps the values from before the cast: positions
    of a rotary table would not survive it."""
    import diffusers

    torch.manual_seed(0)
    with torch.device("cuda"):
        module = getattr(diffusers, notes["cls"])(**notes["config"]).eval().requires_grad_(False)
    for name, parameter in module.named_parameters():
        if parameter.dim() > 0 and parameter.numel() > 1 and float(parameter.float().std()) == 0:
            parameter.normal_(float(parameter.float().mean()), 0.02)
    wide = {name: value.detach().clone() for name, value in tensors_of(module).items() if set(name.split(".")) & set(notes.get("kept_fp32", []))}
    module.to(torch.bfloat16)
    for name, value in wide.items():
        owner, leaf = module.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
        if leaf in owner._buffers:
            owner._buffers[leaf] = value
        else:
            getattr(owner, leaf).data = value
    return module


def weights_of(module):
    """Parameters and buffers; a package may need buffers that checkpoints leave out."""
    return {**tensors_of(module), **module.state_dict()}


def value(name, dtype, shape):
    if dtype.startswith("int"):
        if "mask" in name:  # the second prompt is shorter
            mask = torch.ones(shape, dtype=torch.int64, device="cuda")
            mask[-1, shape[-1] // 3:] = 0
            return mask
        return torch.randint(0, 1000, shape, device="cuda", dtype=getattr(torch, dtype))
    if name.endswith("_ids"):
        side = int(shape[0] ** 0.5)
        ids = torch.zeros(shape, device="cuda")
        if name == "img_ids":
            ids[:, 1] = torch.arange(shape[0], device="cuda") // side
            ids[:, 2] = torch.arange(shape[0], device="cuda") % side
        return ids.to(getattr(torch, dtype))
    if "timestep" in name:
        return torch.full(shape, 0.5 if dtype.startswith("b") else 500, device="cuda", dtype=getattr(torch, dtype))
    if "guidance" in name:
        return torch.full(shape, 3.5, device="cuda", dtype=getattr(torch, dtype))
    return torch.randn(shape, device="cuda").to(getattr(torch, dtype))


def arguments(notes):
    """The call's arguments; `added_cond_kwargs_x` is an entry of `added_cond_kwargs`."""
    result = {}
    for name, info in notes["user_inputs"].items():
        item = value(name, *info) if isinstance(info, list) else info
        if name.startswith("added_cond_kwargs_"):
            result.setdefault("added_cond_kwargs", {})[name[len("added_cond_kwargs_"):]] = item
        else:
            result[name] = item
    return result


def to_fp32(arguments_):
    return {k: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in arguments_.items()}


def error(result, reference):
    difference = (result.double() - reference.double()).norm() / reference.double().norm()
    return float(difference)


def first(output):
    return output[0] if isinstance(output, (tuple, list)) else output


def peer(module, mode):
    if mode == "eager":
        return module
    torch._dynamo.reset()
    return torch.compile(module, mode=None if mode == "compile" else mode, fullgraph=False)


def measure(calls, rounds):
    """{name: median milliseconds}"""
    times = {name: [] for name in calls}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(rounds):
        for name, call in calls.items():
            start.record()
            call()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def profile(call, runs=3):
    """Microseconds a run of each kernel, largest first, with launches a run."""
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(runs):
            call()
        torch.cuda.synchronize()
    rows = [(event.key, event.count / runs, event.device_time_total / runs) for event in trace.key_averages()]
    return sorted(rows, key=lambda row: -row[2])


def run(bundle, name, peers, rounds, profiled=0):
    import ditc

    notes = json.loads((bundle / f"{name}.notes.json").read_text())
    alias = bundle / f"{name}.package"
    package = bundle / (alias.read_text().strip() if alias.exists() else f"{name}.dita")
    result = {"model": name, "package_bytes": package.stat().st_size}
    module, inputs = build(notes), arguments(notes)
    result["parameter_bytes"] = sum(p.numel() * p.element_size() for p in module.parameters())
    with torch.no_grad(), sdpa_kernel(ATTENTION, set_priority=True):
        exact = copy.deepcopy(module).float()
        reference = first(exact(**to_fp32(inputs))).clone()
        del exact
        gc.collect()
        torch.cuda.empty_cache()

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        eager = first(module(**inputs)).clone()
        result["torch_activation_bytes"] = torch.cuda.max_memory_allocated() - before
        result["eager_error"] = error(eager, reference)
        free = torch.cuda.mem_get_info()[0]
        start = time.perf_counter()
        model = ditc.load(package, device="cuda:0", weights=weights_of(module))
        ours = first(model(**inputs))
        torch.cuda.synchronize()
        result["open_to_first_result_s"] = time.perf_counter() - start
        result["ditc_device_bytes"] = free - torch.cuda.mem_get_info()[0]
        result["ditc_memory"] = model.memory()
        result["ditc_error"] = error(ours, reference)
        result["ratio_of_errors"] = result["ditc_error"] / result["eager_error"]
        again = first(model(**inputs))
        torch.cuda.synchronize()
        result["deterministic"] = bool(torch.equal(ours, again))

        calls = {"ditc": lambda: model(**inputs)}
        for mode in peers:
            start = time.perf_counter()
            function = peer(module, mode)
            for _ in range(3):
                function(**inputs)
            torch.cuda.synchronize()
            result[f"{mode}_first_s"] = time.perf_counter() - start
            calls[mode] = lambda function=function: function(**inputs)
            if mode == "reduce-overhead" or mode == "max-autotune":  # its graphs' memory would be overwritten by a later mode's reset
                measured = measure({"ditc": calls["ditc"], mode: calls[mode]}, rounds)
                result.setdefault("ms", {})[mode] = measured[mode]
                del calls[mode]
        measure(calls, 2)
        result.setdefault("ms", {}).update(measure(calls, rounds))
        if profiled:
            direct = ditc.load(package, device="cuda:0", weights=weights_of(module), graphs=False)
            direct(**inputs)
            result["kernels"] = [[k, round(n, 1), round(us, 1)] for k, n, us in profile(lambda: direct(**inputs))[:profiled]]
    result["speedup"] = {mode: result["ms"][mode] / result["ms"]["ditc"] for mode in result["ms"] if mode != "ditc"}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--peers", default="eager,compile")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--profile", type=int, default=0, help="kernels to list, by time")
    options = parser.parse_args()
    results = []
    for name in options.models:
        try:
            result = run(options.bundle, name, [p for p in options.peers.split(",") if p], options.rounds, options.profile)
        except Exception as problem:  # the next model may still work
            result = {"model": name, "error": f"{type(problem).__name__}: {problem}"[:2000]}
        results.append(result)
        print(json.dumps({k: v for k, v in result.items() if k != "kernels"}), flush=True)
        for kernel, count, us in result.get("kernels", []):
            print(f"  {us:10.1f} us {count:7.1f} x {kernel[:90]}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    options.out.write_text(json.dumps(results, indent=1))
    return int(any("error" in result for result in results))


if __name__ == "__main__":
    sys.exit(main())
