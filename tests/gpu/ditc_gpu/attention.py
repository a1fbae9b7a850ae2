# SPDX-License-Identifier: Apache-2.0
"""Attention on a GPU: a grid of correctness cases against fp64, and rates beside torch's back ends in the same run.

    python3 attention_kernels.py FOLDER                      compile (no GPU needed)
    python3 attention.py check FOLDER OUT.json [--every N]   correctness
    python3 attention.py bench FOLDER OUT.json [SHAPE …]     rates

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
    """Everything that the cases below launch."""
    import attention_bench
    import attention_cases
    from attention_kernels import PACK_SOURCE

    used = {case.kernel for case in attention_cases.cases()} | {k for _, ks in attention_bench.plan() for k in ks}
    return [PACK_SOURCE, *{kernel.name: kernel for kernel in sorted(used, key=lambda kernel: kernel.name)}.values()]


def jobs(what, arguments):
    if what == "check":
        import attention_cases

        every = int(arguments[arguments.index("--every") + 1]) if "--every" in arguments else 1
        return attention_cases.cases()[::every], attention_cases.run
    import attention_bench

    return [job for job in attention_bench.plan() if not arguments or job[0] in arguments], attention_bench.run


def work(what, folder, first, arguments):
    """The child: one line of JSON per job."""
    todo, run = jobs(what, arguments)
    for index in range(first, len(todo)):
        try:
            result = run(folder, todo[index])
        except Exception as error:  # the next job may still work; a lost context ends the child below
            result = {"job": str(todo[index])[:160], "error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"index": index, **result}), flush=True)
        if "CUDA" in result.get("error", "") or "launch" in result.get("error", ""):
            os._exit(1)


def supervise(what, folder, arguments):
    todo, _ = jobs(what, arguments)
    results, troubles = {}, 0
    while len(results) < len(todo):
        first = len(results)  # jobs answer in order, so this is the next one
        command = [sys.executable, os.path.abspath(__file__), "work", what, folder, str(first), *arguments]
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
    what, folder, *rest = sys.argv[1:]
    if what == "work":
        return work(folder, rest[0], int(rest[1]), rest[2:])
    out, arguments = rest[0], rest[1:]
    start = time.time()
    results = supervise(what, folder, arguments)
    with open(out, "w") as file:
        json.dump(results, file, indent=1)
    if what == "check":
        bad = [r for r in results if "error" in r]
        for r in bad[:40]:
            print("FAIL", r["job"], r["error"])
        worst = max((r["rel"] for r in results if "rel" in r), default=0)
        print(f"{len(results) - len(bad)} of {len(results)} right, worst relative L2 {worst:.2e}, {time.time() - start:.0f} s")
    else:
        for r in results:
            print(r.get("table", f"FAIL {r['job']} {r.get('error')}"))
        print(f"{time.time() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
