# SPDX-License-Identifier: Apache-2.0
"""Tiles of the attention templates in turns with torch's back ends: for choosing them. What the compiler emits is checked
and timed by attention_run.py.

    python3 attention_kernels.py FOLDER                      compile (no GPU needed)
    python3 attention.py FOLDER OUT.json [SHAPE ...]         rates

Jobs run in a child process; a job that hangs or crashes costs its own time limit only, and the rest goes on."""

import json
import os
import queue
import subprocess
import sys
import threading
import time

JOB_LIMIT_S = 25
TROUBLE_LIMIT = 5  # jobs that hang or crash before the rest is given up


def kernels():
    """Everything that the shapes below launch."""
    import attention_bench
    from attention_kernels import PACK_SOURCE

    used = {k for _, ks in attention_bench.plan() for k in ks}
    return [PACK_SOURCE, *{kernel.name: kernel for kernel in sorted(used, key=lambda kernel: kernel.name)}.values()]


def jobs(arguments):
    import attention_bench

    return [job for job in attention_bench.plan() if not arguments or job[0] in arguments], attention_bench.run


def work(folder, first, arguments):
    """The child: one line of JSON per job."""
    todo, run = jobs(arguments)
    for index in range(first, len(todo)):
        try:
            result = run(folder, todo[index])
        except Exception as error:  # the next job may still work; a lost context ends the child below
            result = {"job": str(todo[index])[:160], "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"index": index, **result}), flush=True)
        if "CUDA" in result.get("error", "") or "launch" in result.get("error", ""):
            os._exit(1)


def supervise(folder, arguments):
    todo, _ = jobs(arguments)
    results, troubles = {}, 0
    while len(results) < len(todo):
        first = len(results)  # jobs answer in order, so this is the next one
        command = [sys.executable, os.path.abspath(__file__), "work", folder, str(first), *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = queue.Queue()
        threading.Thread(target=pump, args=(child, lines), daemon=True).start()
        trouble = None
        while trouble is None:
            try:
                line = lines.get(timeout=JOB_LIMIT_S)
            except queue.Empty:
                child.kill()
                trouble = "no answer in time"
                break
            if line is None:
                trouble = "child died"
            else:
                result = json.loads(line)
                results[result["index"]] = result
        child.wait()
        failed = len(results)
        if failed < len(todo) and (failed == first or "error" not in results[failed - 1]):
            results[failed] = {"index": failed, "job": str(todo[failed])[:300], "error": trouble}
            print("FAIL", results[failed]["job"], trouble, flush=True)
            troubles += 1
            if troubles == TROUBLE_LIMIT:
                break
    return [results[i] for i in sorted(results)]


def pump(child, lines):
    for line in child.stdout:
        if line.startswith("{"):
            lines.put(line)
        else:
            print(line, end="")
    lines.put(None)


def main():
    if sys.argv[1] == "work":
        return work(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    folder, out, *arguments = sys.argv[1:]
    start = time.time()
    results = supervise(folder, arguments)
    with open(out, "w") as file:
        json.dump(results, file, indent=1)
    for r in results:
        print(r.get("table", f"FAIL {r['job']} {r.get('error')}"))
    print(f"{time.time() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
