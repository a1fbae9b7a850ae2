# SPDX-License-Identifier: Apache-2.0
"""Steps of a model over and over, through the Python package: what must stay equal, to the bit.

    python3 -m ditc_gpu.steps threads BUNDLE    two threads, two buckets, one set of weights
    python3 -m ditc_gpu.steps swap BUNDLE       weights A, B, and A again, under recorded graphs

The last line that is printed is a JSON object; BUNDLE is one that zoo.py reads."""
import json
import pathlib
import sys
import threading

import torch

from . import zoo, zoo_tensors

STEPS = 1000
THREADED = "flux-model_dyn"
SWAPPED = ("flux-model", "dit_bf16-model", "wan_bf16-model")


def first(output):
    return output[0] if isinstance(output, (tuple, list)) else output


def threads(bundle):
    """Every thread takes the two buckets in turn, on a stream of its own; every result is compared with the bucket's first."""
    import ditc

    package, folder = zoo.find(bundle, THREADED)
    model = ditc.load(package, device="cuda:0")
    inputs = {name: zoo_tensors.inputs_of(model, folder / f"{name}.safetensors") for name in ("inputs", "inputs_dyn2")}
    expected = {name: first(model.run(tensors)).clone() for name, tensors in inputs.items()}
    torch.cuda.synchronize()
    counts, failures = {}, []

    def work(number):
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for step in range(STEPS):
                    name = list(inputs)[(step + number) % 2]
                    wrong += (first(model.run(inputs[name])).view(torch.int32) != expected[name].view(torch.int32)).any()
                torch.cuda.current_stream().synchronize()
            counts[number] = int(wrong)
        except Exception as error:
            failures.append(f"thread {number}: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failures += [f"thread {number}: {count} of {STEPS} results differ" for number, count in counts.items() if count]
    print(f"threads: 2 x {STEPS} steps of {THREADED}, buckets {', '.join(model.buckets)}: {'; '.join(failures) or 'all equal'}")
    return {"package": THREADED, "steps": STEPS, "buckets": list(model.buckets), "differing": counts, "failures": failures}


def equal(a, b):
    return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8)))


def swap_one(package, folder, borrowed):
    """Names of the comparisons that fail, and how many were made."""
    import ditc

    a = zoo_tensors.weights_in(package)
    noise = torch.Generator("cuda").manual_seed(7)
    b = {name: (value.float() * (1 + 0.3 * torch.rand(value.shape, generator=noise, device="cuda"))).to(value.dtype) for name, value in a.items()
         if value.is_floating_point()}
    some = dict(list(b.items())[::3])
    model = ditc.load(package, device="cuda:0", weights={name: value.clone() for name, value in a.items()} if borrowed else None)
    inputs = zoo_tensors.inputs_of(model, folder / "inputs.safetensors")
    target = first(model.run(inputs)).clone()  # the same output every time, so that the recorded graph is the one that runs

    def result():
        for _ in range(3):
            model.run(inputs, out=target)
        return target.clone()

    def fresh(weights):
        return first(ditc.load(package, device="cuda:0", weights=weights).run(inputs)).clone()

    first_a, checks = result(), {}
    model.update_weights(b)
    in_b = result()
    checks["B differs from A"] = not equal(in_b, first_a)
    checks["B as if loaded"] = equal(in_b, fresh({**a, **b}))
    model.revert_weights()
    checks["A after revert"] = equal(result(), first_a)
    model.update_weights(some)
    checks["some of B as if loaded"] = equal(result(), fresh({**a, **some}))
    model.update_weights(a)
    checks["A after update"] = equal(result(), first_a)
    torch.cuda.synchronize()
    return checks


def swap(bundle):
    rows, failures = {}, []
    for name in SWAPPED:
        for borrowed in (False, True) if zoo.find(bundle, name) else ():
            label = f"{name}, weights {'borrowed' if borrowed else 'of the package'}"
            try:
                rows[label] = swap_one(*zoo.find(bundle, name), borrowed)
                failures += [f"{label}: {check}" for check, right in rows[label].items() if not right]
            except Exception as error:
                failures.append(f"{label}: {type(error).__name__}: {error}")
            print(f"swap: {label}: {sum(rows.get(label, {}).values())} of {len(rows.get(label, {}))} as they should be", flush=True)
    print("\n".join(failures))
    return {"checks": rows, "failures": failures}


if __name__ == "__main__":
    outcome = {"threads": threads, "swap": swap}[sys.argv[1]](pathlib.Path(sys.argv[2]).resolve())
    print(json.dumps(outcome))
