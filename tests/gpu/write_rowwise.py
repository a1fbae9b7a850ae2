# SPDX-License-Identifier: Apache-2.0
"""write_rowwise.py BUNDLE [DUMP PACKAGE]...: the rowwise kernels that a bundle times, as BUNDLE/*.mlir and cases.json.

Beside the patterns of rowwise_cases.py these are the kernels of whole models: DUMP is the folder that `ditc compile
--dump DUMP -o PACKAGE` wrote. Of a model those are taken that a step launches often or that move much."""
import collections
import json
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ditc_gpu"))
import kernel_text  # noqa: E402
import rowwise_cases  # noqa: E402

ARCH = "sm_90a"
OFTEN, MUCH = 10, 8 << 20  # launches of a step; bytes


def launches(package):
    """{kernel: launches of a step} in the bucket whose name sorts first: of NAME_1024 and NAME_768 the larger."""
    with zipfile.ZipFile(package) as archive:
        path = min(name for name in archive.namelist() if name.endswith(f"/{ARCH}/plan.json"))
        plan = json.loads(archive.read(path))
    return collections.Counter(plan["kernels"][op["kernel"]] for op in plan["step"] if op["op"] == "launch")


def of_model(dump, package):
    """(model, launches, text) of the kernels worth timing."""
    model = os.path.splitext(os.path.basename(package))[0]
    for name, count in launches(package).most_common():
        if name.startswith("rowwise"):
            with open(os.path.join(dump, ARCH, "kernels", name, "kernel.mlir")) as file:
                text = file.read()
            if count >= OFTEN or kernel_text.Kernel(text).traffic >= MUCH:
                yield model, count, text


def main():
    bundle, pairs = sys.argv[1], sys.argv[2:]
    os.makedirs(bundle, exist_ok=True)
    found = [("", 1, text) for text in rowwise_cases.cases().values()]
    for dump, package in zip(pairs[::2], pairs[1::2]):
        found += of_model(dump, package)
    cases = []
    for model, count, text in found:
        name = kernel_text.Kernel(text).name
        with open(os.path.join(bundle, name + ".mlir"), "w") as file:
            file.write(text)
        cases.append({"kernel": name, "model": model, "launches": count})
    with open(os.path.join(bundle, "cases.json"), "w") as file:
        json.dump(cases, file, indent=1)
    print(f"{len(cases)} rowwise kernels")


if __name__ == "__main__":
    main()
