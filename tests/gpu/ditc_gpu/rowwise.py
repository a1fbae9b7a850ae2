# SPDX-License-Identifier: Apache-2.0
"""Rowwise kernels as ditc emits them: correctness against torch in fp32, rates beside torch.compile and a plain copy.

    python3 -m ditc_gpu.rowwise BUNDLE bench FIRST     the worker for supervise.py

BUNDLE holds what write_rowwise.py and compile_kernels made. Case 0 is the copy that rates are shares of. Traffic is
every element of every argument once; buffers rotate, so that all of it comes from memory. `us` is launch by launch,
`overlapped_us` with programmatic dependent launches, as plans run, `copy_us` a copy that moves as many bytes, launch by
launch: what a launch, the first loads and the last stores leave of the rate of the large copy."""
import json
import os
import sys

import torch

from . import driver, kernel_text, timing

COPY_BYTES = 1 << 30
PEER_BYTES, PEER_LAUNCHES = 4 << 20, 10  # torch.compile beside kernels that move this much and, in models, come this often
LIMITS = {"f64": 1e-12, "f32": 3e-6, "bf16": 2.6e-3, "f16": 4e-4, "f8E4M3FN": 4.2e-2}  # relative L2: half a unit in the last place, and a little


def cases(bundle):
    with open(os.path.join(bundle, "cases.json")) as file:
        return ["copy", *json.load(file)]


def image_of(bundle, name):
    with open(os.path.join(bundle, "kernels.json")) as file:
        return next(kernel for kernel in json.load(file)["kernels"] if kernel["name"] == name)


def tensor(argument):
    """Random values as the argument lies in memory."""
    dtype = getattr(torch, kernel_text.TORCH[argument.element])
    if dtype.is_floating_point:
        flat = torch.randn(argument.span, device="cuda", dtype=torch.float32 if dtype.itemsize < 8 else dtype).to(dtype)
    else:
        flat = torch.randint(0, 2, (argument.span,), device="cuda").to(dtype)
    return flat.as_strided(argument.shape, argument.strides)


def poisoned(argument):
    """An output that was not written is not right."""
    dtype = getattr(torch, kernel_text.TORCH[argument.element])
    return torch.full((argument.span,), float("nan") if dtype.is_floating_point else 1, device="cuda", dtype=dtype).as_strided(
        argument.shape, argument.strides)


class Launcher:
    """A compiled kernel, to be bound to tensors."""

    def __init__(self, bundle, name):
        self.launch = image_of(bundle, name)
        with open(os.path.join(bundle, self.launch["image"]), "rb") as file:
            self.kernel = driver.Kernel(file.read(), name, self.launch["threads"], self.launch["shared_bytes"])

    def bind(self, tensors, dependent):
        parameters = []
        for parameter in self.launch["parameters"]:
            value = bytearray(bytes.fromhex(parameter.get("bytes", "")).ljust(parameter["size"], b"\0"))
            for offset, argument, add in parameter["patches"]:
                value[offset:offset + 8] = (tensors[argument].data_ptr() + add).to_bytes(8, "little")
            parameters.append(bytes(value))
        return self.kernel.bind(self.launch["grid"][0], *parameters, dependent=dependent)


def torch_function(kernel):
    scope = {"torch": torch}
    exec(kernel.torch_code(), scope)
    return scope["kernel"]


def relative(result, reference):
    difference = (result.double() - reference.double()).norm()
    return float(difference / reference.double().norm().clamp_min(1e-30))


def check(kernel, reference, outputs):
    """Errors by output, and whether all are within half a unit in the last place."""
    errors = [relative(output, exact) for output, exact in zip(outputs, reference)]
    limits = [LIMITS.get(output.element, 0.0) for output in kernel.outputs]
    return errors, all(error <= limit for error, limit in zip(errors, limits))  # NaN is not


def exact_outputs(kernel, inputs):
    """In fp32, not rounded at the end."""
    wide = kernel_text.Kernel(kernel.text)
    for output in wide.outputs:
        output.element = kernel_text.UNROUNDED.get(output.element, output.element)
    return torch_function(wide)(*inputs)


def kept(function, inputs, sets):
    """Calls whose results stay, so that a peer's outputs rotate too."""
    results = [None] * sets

    def call(i):
        results[i] = function(*inputs[i])

    return call


def copies(size, sets):
    """Two ways to copy `size` bytes, from and to rotating buffers; the faster one counts."""
    sources = [torch.empty(size // 2 * 2, dtype=torch.uint8, device="cuda").random_() for _ in range(sets)]
    targets = [torch.empty_like(source) for source in sources]
    return {"copy": lambda i: targets[i].copy_(sources[i]),
            "copy by a kernel": lambda i: torch.mul(sources[i].view(torch.bfloat16), 1, out=targets[i].view(torch.bfloat16))}


def bench_copy():
    us = min(timing.compare(copies(COPY_BYTES, 1), 1).values())
    tiny = torch.zeros(1, device="cuda")
    gap = timing.compare({"gap": lambda i: tiny.zero_()}, 1, target_ms=0.5)["gap"]
    return {"name": "copy", "us": us, "gb_s": 2 * COPY_BYTES / us / 1e3, "empty_kernel_us": gap}


def bench_kernel(bundle, case):
    with open(os.path.join(bundle, case["kernel"] + ".mlir")) as file:
        kernel = kernel_text.Kernel(file.read())
    launcher = Launcher(bundle, kernel.name)
    result = {"name": kernel.name, "model": case["model"], "launches": case["launches"], "bytes": kernel.traffic,
              "rows": "x".join(map(str, kernel.outputs[0].shape)), "grid": launcher.launch["grid"][0], "threads": launcher.launch["threads"]}
    sets = timing.sets_for(kernel.traffic)
    inputs = [[tensor(argument) for argument in kernel.inputs] for _ in range(sets)]
    outputs = [[poisoned(argument) for argument in kernel.outputs] for _ in range(sets)]
    plain, overlapped = ([launcher.bind(i + o, dependent) for i, o in zip(inputs, outputs)] for dependent in (False, True))
    calls = {"us": lambda i: plain[i](), "overlapped_us": lambda i: overlapped[i]()}
    plain[0]()
    torch.cuda.synchronize()
    try:
        function = torch_function(kernel)
        reference = exact_outputs(kernel, inputs[0])
        result["errors"], result["ok"] = check(kernel, reference, outputs[0])
        if kernel.traffic >= PEER_BYTES and (not case["model"] or case["launches"] >= PEER_LAUNCHES):
            peer = torch.compile(function, dynamic=False)
            result["compile_errors"], _ = check(kernel, reference, peer(*inputs[0]))
            calls["compile_us"] = kept(peer, inputs, sets)
        del reference
    except kernel_text.Unsupported as reason:
        result["no_reference"] = str(reason)
    ways = copies(kernel.traffic // 2, sets)
    result.update(timing.compare({**calls, **ways}, sets, target_ms=3.0))
    result["copy_us"] = min(result.pop(way) for way in ways)
    result["gb_s"] = kernel.traffic / result["us"] / 1e3
    return result


def bench(bundle, case):
    torch.manual_seed(1)
    return bench_copy() if case == "copy" else bench_kernel(bundle, case)


def table(results):
    """One line a kernel; shares are of the copy's rate, and of what the model's launches take together."""
    copy = next((r for r in results if r.get("name") == "copy" and "gb_s" in r), None)
    lines = [f"copy {copy['gb_s']:.0f} GB/s, an empty kernel {copy['empty_kernel_us']:.2f} us"] if copy else []
    for r in results:
        if "error" in r:
            lines.append(f"FAILED case {r['case']}: {r['error']}")
        elif r["name"] != "copy":
            shares = [r["bytes"] / r[time] / 1e3 / copy["gb_s"] for time in ("us", "overlapped_us")] if copy else []
            share = "{:.1%} / {:.1%} of the copy, {:.1%} / {:.1%} of one of its size".format(
                *shares, r["copy_us"] / r["us"], r["copy_us"] / r["overlapped_us"]) if copy else ""
            peer = f"torch.compile {r['compile_us']:8.2f} us x{r['compile_us'] / r['us']:.2f}" if "compile_us" in r else ""
            right = "" if r.get("ok") else f"  NO REFERENCE {r['no_reference']}" if "no_reference" in r else f"  WRONG {r['errors']}"
            short = r["name"][8:16] if r["name"].startswith("rowwise_") else r["name"]  # of a hash the beginning
            label = f"{r['model']} {r['launches']} x {short} {r['rows']}" if r["model"] else short
            lines.append(f"{label:58} {r['us']:8.2f} us  overlapped {r['overlapped_us']:8.2f}  {r['gb_s']:5.0f} GB/s {share}  {peer}{right}")
    return "\n".join(lines)


def main():
    bundle, _, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for i, case in enumerate(cases(bundle)):
        if i >= first:
            print(json.dumps({"case": i, **bench(bundle, case)}), flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
