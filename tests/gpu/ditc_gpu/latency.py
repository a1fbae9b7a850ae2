# SPDX-License-Identifier: Apache-2.0
"""What a step of a model costs the host, and how long it takes from opening a package to the first result.

    python3 -m ditc_gpu.latency BUNDLE

Takes DiT-XL/2 of BUNDLE/full with random weights, which are written to a scratch file. `host_us` is the time
until a call returns, the GPU being idle before, once its graph is recorded. The last line printed is a JSON object."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from . import zoo_tensors

PACKAGE, BUCKET = "dit_xl2_256.dita", "dit_xl2_256"
CALLS = 200


def host_cost(call):
    """(median, 95th percentile) microseconds until `call` returns."""
    for _ in range(5):
        call()
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times), sorted(times)[int(CALLS * 0.95)]


def queued(call):
    """Microseconds a step when steps are queued one behind the other."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    call()
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


def from_python(package, weights, inputs):
    import ditc

    result = {}
    for name, graphs in (("graphs", True), ("launches", False)):
        model = ditc.load(package, device="cuda:0", weights=weights, graphs=graphs)
        target = model.run(inputs)
        target = target[0] if isinstance(target, (tuple, list)) else target
        calls = {name: lambda: model.run(inputs, out=target), f"{name}, new output": lambda: model.run(inputs)}
        for label, call in calls.items():
            median, high = host_cost(call)
            result[label] = {"host_us": median, "host_us_95": high, "step_us": queued(call)}
    return result


def from_c(runner, package, weights):
    command = [runner, "bench", package, "--bucket", BUCKET, "--device", "cuda", "--weights", weights, "--repeat", str(CALLS), "--warmup", "5", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr[-500:]}
    bucket = json.loads(done.stdout)["buckets"][0]
    return {"host_us": bucket["host_seconds"] * 1e6, "step_us": bucket["run_seconds"] * 1e6, "sum_of_ops_us": bucket["seconds"] * 1e6,
            "ops": len(bucket["ops"])}


def cold(package, weights, inputs):
    done = subprocess.run([sys.executable, str(pathlib.Path(__file__).with_name("cold_start.py")), package, weights, inputs], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr[-500:]}


def main():
    import ditc

    bundle = pathlib.Path(sys.argv[1]).resolve()
    package = str(bundle / "full" / PACKAGE)
    model = ditc.load(package, device="cuda:0")
    weights, inputs = zoo_tensors.random_weights(model), zoo_tensors.random_inputs(model, BUCKET)
    result = {"model": BUCKET, "failures": []}
    with tempfile.TemporaryDirectory() as scratch:
        weight_file, input_file = f"{scratch}/weights.safetensors", f"{scratch}/inputs.safetensors"
        zoo_tensors.write_safetensors(weights, weight_file)
        zoo_tensors.write_safetensors(inputs, input_file)
        result["weight_bytes"] = pathlib.Path(weight_file).stat().st_size
        del model
        result["python"] = from_python(package, weights, inputs)
        result["c"] = from_c(str(bundle / "bin/ditc-run"), package, weight_file)
        del weights
        torch.cuda.empty_cache()
        result["cold_starts"] = [cold(package, weight_file, input_file) for _ in range(3)]
    for label, row in result["python"].items():
        print(f"python, {label:24} host {row['host_us']:8.1f} us (95th percentile {row['host_us_95']:.1f}), a step {row['step_us']:8.1f} us")
    c = result["c"]
    print(c.get("error") or f"C, graphs: host {c['host_us']:.1f} us, a step {c['step_us']:.1f} us in {c['ops']} ops")
    for row in result["cold_starts"]:
        print(row.get("error") or f"open {row['open_s']:.3f} s, to the first result {row['first_result_s']:.3f} s, since the process began "
              f"{row['process_to_first_result_s']:.2f} s, second run {row['second_s'] * 1e3:.1f} ms; compilers loaded: {row['compiler_loaded']}")
    print("loaded with the package:", ", ".join(result["cold_starts"][0].get("libraries", [])))
    result["failures"] = [row["error"] for row in [c, *result["cold_starts"]] if "error" in row]
    result["failures"] += [f"loaded {row['compiler_loaded']}" for row in result["cold_starts"] if row.get("compiler_loaded")]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
