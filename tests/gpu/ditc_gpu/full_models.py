# SPDX-License-Identifier: Apache-2.0
"""Full-size models with random weights: a package beside torch, in one process, on the same tensors.

    python3 -m ditc_gpu.full_models BUNDLE OUT.json MODEL... [--peers eager,compile,...] [--rounds 20] [--profile 30] [--guard]

BUNDLE holds MODEL.dita and MODEL.notes.json (class, configuration and inputs of the export, or what tools/export_diffusers.py
wrote of a recipe; MODEL.package names another package file). Packages PACKAGE-fp8.dita, PACKAGE-int8.dita and PACKAGE-fp8-int8.dita, compiled with --quantize fp8, with
--quantize-attention int8 and with both, are measured beside it; the first is what fp8 peers meet, or the last of these where it is
there. Weights go from torch to the package by DLPack. Errors are relative L2 against the model in fp32; times are medians of CUDA
events, each peer (see peers.py) in turns with the package. A peer that fails, or for which no time is left (--budget, seconds
for the peers of one model), is noted and costs nothing else.
"""
import argparse
import contextlib
import gc
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree

from . import peers, recipes
from .guarded import guarded
from .peers import measure

ATTENTION = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def tensors_of(module):
    """Parameters and buffers by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def build(notes):
    """The module in bf16 with random weights; parameters that start at zero (gates, final layers) get values too. What
    the export kept in fp32 (any part of a name, as diffusers counts) keeps the values from before the cast: positions
    of a rotary table would not survive it."""
    if "recipe" in notes:
        return recipes.module(notes)
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
    if "recipe" in notes:
        return recipes.arguments(notes)
    result = {}
    for name, info in notes["user_inputs"].items():
        item = value(name, *info) if isinstance(info, list) else info
        if name.startswith("added_cond_kwargs_"):
            result.setdefault("added_cond_kwargs", {})[name[len("added_cond_kwargs_"):]] = item
        else:
            result[name] = item
    return result


@contextlib.contextmanager
def in_fp32(module):
    """16-bit weights as fp32 for a while, in place, since two copies of a large model do not fit a GPU; of the largest (FLUX.2)
    each layer while it runs, since one does not leave room for attention. Nothing is lost."""
    types = {tensor: tensor.dtype for tensor in (*module.parameters(), *module.buffers()) if tensor.dtype in (torch.bfloat16, torch.float16)}

    def cast(layer, dtype_of, recurse=False):
        for tensor in (*layer.parameters(recurse), *layer.buffers(recurse)):
            if tensor in types:
                tensor.data = tensor.data.to(dtype_of(tensor))

    def wide(_):
        return torch.float32

    if 4 * sum(tensor.numel() for tensor in types) < 0.7 * torch.cuda.get_device_properties(0).total_memory:
        cast(module, wide, recurse=True)
        yield module
        cast(module, types.get, recurse=True)
        return
    hooks = [layer.register_forward_pre_hook(lambda layer, _: cast(layer, wide)) for layer in module.modules()]
    hooks += [layer.register_forward_hook(lambda layer, _, __: cast(layer, types.get)) for layer in module.modules()]
    yield module
    for hook in hooks:
        hook.remove()


def to_fp32(arguments_):
    return _pytree.tree_map(lambda v: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v, arguments_)


def error(result, reference):
    difference = (result.double() - reference.double()).norm() / reference.double().norm()
    return float(difference)


def first(output):
    """The first tensor: Z-Image returns a list of them in a tuple."""
    while isinstance(output, (tuple, list)):
        output = output[0]
    return output


def profile(runner, package, bucket, rows):
    """Kernels of a step by `ditc-run bench`, in a process of its own: seconds, launches, the seconds below which no kernel
    can do it, and where in the model. torch's profiler is no help: it knows kernels by their handles, and names those of
    a package after ones of another that was unloaded before."""
    command = [runner, "bench", package, "--bucket", bucket, "--device", "cuda", "--random-weights", "--by-kernel", "--json", "--repeat", "5"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        return [{"error": done.stderr.strip()[-500:]}]
    ops = json.loads(done.stdout)["buckets"][0]["ops"]
    return sorted(ops, key=lambda op: -op["seconds"])[:rows]


QUANTISED = ("fp8", "int8", "fp8-int8")


def run_quantised(package, module, inputs, model, reference, rounds):
    """A quantised package beside the other: its call, and its results."""
    import ditc

    quantised = ditc.load(package, device="cuda:0", weights=weights_of(module))
    ours = first(quantised(**inputs))
    again = first(quantised(**inputs))
    torch.cuda.synchronize()
    times = measure({"ditc": lambda: model(**inputs), "quantised": lambda: quantised(**inputs)}, rounds)
    return quantised, {"error": error(ours, reference), "deterministic": bool(torch.equal(ours, again)), "memory": quantised.memory(), "ms": times["quantised"],
                       "ditc_ms": times["ditc"]}


def run(bundle, name, options, keep):
    """One model's results; `keep(result)` after each peer, since the next one may take minutes and be stopped."""
    import ditc

    notes = json.loads((bundle / f"{name}.notes.json").read_text())
    alias = bundle / f"{name}.package"
    package = bundle / (alias.read_text().strip() if alias.exists() else f"{name}.dita")
    result = {"model": name, "package_bytes": package.stat().st_size}
    module, inputs = build(notes), arguments(notes)
    result["parameter_bytes"] = sum(p.numel() * p.element_size() for p in module.parameters())
    with torch.no_grad(), sdpa_kernel(ATTENTION, set_priority=True):
        with in_fp32(module) as exact:
            reference = first(exact(**to_fp32(inputs))).clone()
        gc.collect()
        torch.cuda.empty_cache()

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        eager = first(module(**inputs)).clone()
        result["torch_activation_bytes"] = torch.cuda.max_memory_allocated() - before
        result["eager_error"] = error(eager, reference)
        free = torch.cuda.mem_get_info()[0]
        start = time.perf_counter()
        weights, given = weights_of(module), inputs
        if options.guard:
            weights, given = _pytree.tree_map(lambda leaf: guarded(leaf) if isinstance(leaf, torch.Tensor) else leaf, (weights, inputs))
        model = ditc.load(package, device="cuda:0", weights=weights)
        ours = first(model(**given))
        torch.cuda.synchronize()
        result["open_to_first_result_s"] = time.perf_counter() - start
        result["ditc_device_bytes"] = free - torch.cuda.mem_get_info()[0]
        result["ditc_memory"] = model.memory()
        result["ditc_error"] = error(ours, reference)
        result["ratio_of_errors"] = result["ditc_error"] / result["eager_error"]
        again = first(model(**given))
        torch.cuda.synchronize()
        result["deterministic"] = bool(torch.equal(ours, again))

        alone = measure({"ditc": lambda: model(**inputs)}, options.rounds)["ditc"]
        result["ms"] = {"ditc": alone}
        keep(result)
        calls = {False: lambda: model(**inputs)}
        for kind in QUANTISED:
            if (path := package.with_name(f"{package.stem}-{kind}.dita")).exists():
                quantised, result[kind] = run_quantised(path, module, inputs, model, reference, options.rounds)
                if kind.startswith("fp8"):
                    calls[True] = lambda call=quantised: call(**inputs)
                del quantised
                keep(result)
        result["peers"] = {}
        for peer, measured in run_peers(module, options.peers, inputs, calls, lambda output: error(first(output), reference), options):
            result["peers"][peer] = measured
            keep(result)
        times = [peer["ditc_ms"] for mode, peer in result["peers"].items() if "ms" in peer and not peers.is_fp8(mode)]
        ours = statistics.median(times) if times else alone
        result["ms"] = {"ditc": ours, **{mode: peer["ms"] for mode, peer in result["peers"].items() if "ms" in peer}}
        result["speedup"] = {mode: peer["ms"] / peer["ditc_ms"] for mode, peer in result["peers"].items() if "ms" in peer}
    if options.profile:
        calls.clear()
        del model
        gc.collect()
        result["kernels"] = profile(bundle.parent / "bin" / "ditc-run", package, name, options.profile)
    return result


def run_peers(module, names, inputs, calls, error_of, options):
    """(name, result) of each peer in turn. `calls`: of the packages, by whether the peer is an fp8 one."""
    start = time.perf_counter()
    for name in peers.ALL if names == "all" else [name for name in names.split(",") if name]:
        if time.perf_counter() - start > options.budget:
            yield name, {"failed": f"not run: {options.budget:.0f} s were over (--budget)"}
            continue
        try:
            result = peers.run(module, name, inputs, calls[peers.is_fp8(name)], options.rounds, error_of)
        except Exception as problem:  # the next one may still work
            result = {"failed": f"{type(problem).__name__}: {problem}"[:500]}
        gc.collect()
        torch.cuda.empty_cache()
        yield name, result


def describe(row):
    floor = f"{row['floor_seconds'] / row['seconds']:4.0%} of the roofline" if row.get("floor_seconds") and row["seconds"] else ""
    return f"{row['seconds'] * 1e6:10.1f} us {row['share']:6.1%} {row.get('count', 1):4} x {row['op'][:40]:40} {floor:24} {row['where']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--peers", default="eager,compile", help="see peers.py; `all`: " + ",".join(peers.ALL))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no further peer of a model is begun")
    parser.add_argument("--guard", action="store_true", help="weights and inputs of the package end at holes in the address space")
    parser.add_argument("--profile", type=int, default=0, help="kernels to list, by time")
    options = parser.parse_args()
    results = []
    for name in options.models:
        try:
            result = run(options.bundle, name, options, lambda part: options.out.write_text(json.dumps([*results, part], indent=1)))
        except Exception as problem:  # the next model may still work
            result = {"model": name, "error": f"{type(problem).__name__}: {problem}"[:2000]}
        results.append(result)
        print(json.dumps({k: v for k, v in result.items() if k != "kernels"}), flush=True)
        for row in result.get("kernels", []):
            print("  " + (row["error"] if "error" in row else describe(row)), flush=True)
        options.out.write_text(json.dumps(results, indent=1))  # each time: the next model may end the process
        gc.collect()
        torch.cuda.empty_cache()
    return int(any("error" in result for result in results))


if __name__ == "__main__":
    sys.exit(main())
