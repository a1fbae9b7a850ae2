# SPDX-License-Identifier: Apache-2.0
"""The zoo's bf16 models beside eager PyTorch on the same GPU: errors against the golden fp32 outputs.

    python3 -m ditc_gpu.zoo_eager BUNDLE

For cases whose model.pt2 is in the bundle. torch may refuse an export of another version, which is no failure of ours.
The last line that is printed is a JSON object."""
import json
import pathlib
import sys

import torch

from . import zoo, zoo_tensors


def relative(result, reference):
    return float((result.double() - reference.double()).norm() / reference.double().norm())


def arguments(program, notes, tensors):
    """The export's example arguments with the golden inputs as leaves."""
    leaves, spec = torch.utils._pytree.tree_flatten(program.example_inputs)
    values = [tensors.get(name, notes["constants"].get(name)) for name in notes["user_inputs"]]
    if len(values) != len(leaves):
        raise ValueError(f"{len(values)} inputs in the notes, {len(leaves)} in the export")
    return torch.utils._pytree.tree_unflatten(values, spec)


def eager(folder, notes):
    from torch.export.passes import move_to_device_pass

    program = torch.export.load(str(folder / "model.pt2"))
    args, kwargs = arguments(program, notes, zoo_tensors.read(folder / "inputs.safetensors"))
    with torch.no_grad():
        output = move_to_device_pass(program, "cuda").module()(*args, **kwargs)
    return torch.utils._pytree.tree_leaves(output)


def compare(package, folder):
    import ditc

    notes = json.loads((folder / "notes.json").read_text())
    reference = list(zoo_tensors.read(folder / "outputs.safetensors").values())
    on_cpu = list(zoo_tensors.read(folder / "outputs_bf16.safetensors").values())
    model = ditc.load(package, device="cuda:0")
    ours = torch.utils._pytree.tree_leaves(model.run(zoo_tensors.inputs_of(model, folder / "inputs.safetensors")))
    row = {"ditc": max(map(relative, ours, reference)), "eager_cpu": max(map(relative, on_cpu, reference))}
    try:
        row["eager"] = max(map(relative, eager(folder, notes), reference))
    except Exception as error:  # the export's version, or an operation that names its device
        row["no_eager"] = f"{type(error).__name__}: {error}"[:300]
    return row


def main():
    bundle, rows, failures = pathlib.Path(sys.argv[1]).resolve(), {}, []
    for part in zoo.parts(bundle):
        for folder in sorted((part / "zoo").glob("*_bf16")):
            package = part / "packages" / f"{folder.name}-model.dita"
            if not package.exists() or (folder / "model.pt2").stat().st_size == 0:
                continue
            try:
                row = rows[folder.name] = compare(package, folder)
            except Exception as error:
                failures.append(f"{folder.name}: {type(error).__name__}: {error}"[:300])
                continue
            line = f"{folder.name:28} ditc {row['ditc']:.3e}  eager on the CPU {row['eager_cpu']:.3e}"
            print(line + (f"  eager {row['eager']:.3e}  x{row['ditc'] / row['eager']:.2f}" if "eager" in row else f"  {row['no_eager']}"), flush=True)
    print("\n".join(failures))
    print(json.dumps({"errors": rows, "failures": failures}))


if __name__ == "__main__":
    main()
