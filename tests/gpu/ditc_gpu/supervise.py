# SPDX-License-Identifier: Apache-2.0
"""Runs a list of cases in worker processes, so that a kernel that hangs or faults costs one case and not the session.

A worker is `python3 -m MODULE BUNDLE LIST FIRST`: it runs the cases of LIST from number FIRST on and prints one JSON
object a line, each with the "case" number that it belongs to, and {"done": true} after the last.
"""
import json
import os
import select
import subprocess
import sys
import time


def run(module, bundle, name, count, timeout=20, startup=60, patience=2):
    """All results; a case that gave none within `timeout` seconds, or killed its worker, is {"case": i, "error": …}, and
    after `patience` of them the rest is not tried."""
    results, first = [], 0
    while first < count and sum("error" in r for r in results) < patience:
        worker = subprocess.Popen([sys.executable, "-u", "-m", module, bundle, name, str(first)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, cwd=os.path.dirname(os.path.dirname(__file__)))
        deadline, buffer, noise, finished = time.time() + startup, b"", [], False
        while not finished:
            ready, _, _ = select.select([worker.stdout], [], [], max(0.0, deadline - time.time()))
            chunk = os.read(worker.stdout.fileno(), 1 << 16) if ready else b""
            if not chunk:
                break
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                if not line.startswith(b"{"):
                    noise.append(line.decode(errors="replace"))
                    continue
                result = json.loads(line)
                finished = finished or result.get("done", False)
                if "case" in result:
                    results.append(result)
                    first = result["case"] + 1
                deadline = time.time() + timeout
        if not finished:
            why = "timeout" if time.time() >= deadline else "worker ended: " + " | ".join(noise[-6:])
            results.append({"case": first, "error": why})
            first += 1
        worker.kill()
        worker.wait()
        if finished:
            break
    return results
