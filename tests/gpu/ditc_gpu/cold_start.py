# SPDX-License-Identifier: Apache-2.0
"""cold_start.py PACKAGE WEIGHTS INPUTS: opens a package in a process without torch, runs it once and again, and prints
as JSON how long it took from the start of the process, and which libraries were loaded for it."""
import json
import os
import sys
import time

ENTERED = time.perf_counter()


def since_start():
    """Seconds since the kernel started this process."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as file:
        return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def libraries():
    """Shared objects mapped into this process."""
    with open("/proc/self/maps") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if line.count("/") and ".so" in line}
    return sorted(os.path.basename(path) for path in paths)


def main():
    package, weights, inputs = sys.argv[1:4]
    import ditc

    before = set(libraries())
    tensors = ditc.safetensors.load(inputs)
    started = time.perf_counter()
    model = ditc.load(package, device="cuda:0", weights=weights if weights != "-" else None)
    opened = time.perf_counter()
    model.run(tensors)
    first = time.perf_counter()
    total = since_start()
    model.run(tensors)
    again = time.perf_counter()
    loaded = libraries()
    print(json.dumps({"open_s": opened - started, "first_result_s": first - started, "second_s": again - first, "process_to_first_result_s": total,
                      "python_start_s": total - (first - ENTERED), "libraries": sorted(set(loaded) - before),
                      "compiler_loaded": [name for name in loaded if "nvrtc" in name or "ptxjit" in name]}))


if __name__ == "__main__":
    main()
