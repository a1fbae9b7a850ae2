#!/usr/bin/env python3
"""Tortures the persistent cache: many processes compile into one folder while they are killed at random (kill -9) and
entries are flipped, cut, extended, swapped and removed under them; the folder's cap is so small that they evict each
other's entries all the time. Afterwards every package must be what a compiler without a cache makes, `cache verify`
must find nothing wrong a second time, and no temporary file may be left after `cache prune`.

  cache_torture.py --worker bin/ditc_cache_worker --ditc-run bin/ditc-run             seconds; what CTest runs
  cache_torture.py --worker ... --ditc-run ... --rounds 2000                          longer
  cache_torture.py --ditc bin/ditc --ditc-run bin/ditc-run --rounds 200 MODEL.pt2 --symbol hidden_states.0
                                                                                      real compiles
"""
import argparse
import filecmp
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROCESSES = 8
CACHE_BYTES = 500_000  # of the workers, whose results are 1.5 MB together
VARIANTS = range(1, 13)  # of the real model: sizes of its symbol


class Chaos(threading.Thread):
    """Damages files of the cache until it is stopped."""

    def __init__(self, folder, pause, seed):
        super().__init__()
        self.folder, self.pause, self.random = folder, pause, random.Random(seed)
        self.damaged, self.stopped, self.failure = 0, threading.Event(), None

    def run(self):
        try:
            while not self.stopped.wait(self.random.random() * self.pause):
                files = [path for path in self.folder.glob("??/*") if path.is_file()]
                if files:
                    self.damage(self.random.choice(files), self.random.choice(files))
        except Exception as failure:  # told by the main thread
            self.failure = failure

    def damage(self, path, other):
        try:
            size = path.stat().st_size
            # A writer whose temporary file is taken away fails, as it must; damage it may not notice.
            away = [] if ".tmp-" in path.name else ["swap", "remove"]
            kind = self.random.choice(["flip", "cut", "extend", "zero", "empty"] + away)
            if kind == "remove":
                path.unlink()
            elif kind == "swap":
                copy = self.folder.with_name("swapped")
                shutil.copyfile(other, copy)
                os.replace(copy, path)
            elif kind in ("cut", "empty"):
                os.truncate(path, self.random.randrange(size + 1) if kind == "cut" else 0)
            else:
                with open(path, "r+b") as file:
                    file.seek(size if kind == "extend" else self.random.randrange(max(size, 1)))
                    file.write(bytes([self.random.randrange(256)]) if kind == "flip" else bytes(100))
            self.damaged += 1
        except FileNotFoundError:
            pass  # evicted or renamed meanwhile


class Slot(threading.Thread):
    """One of the processes: started again after each kill until its work is done."""

    def __init__(self, index, options, work):
        super().__init__()
        self.index, self.options, self.work = index, options, work
        self.random = random.Random(options.seed * 1000 + index)
        self.kills, self.starts, self.letters, self.failures = 0, 0, "", []

    def run(self):
        try:
            self.work(self)
        except Exception as failure:
            self.failures.append(repr(failure))

    def start_and_kill(self, command, environment, stdout, longest):
        """Runs the command; true when it ended by itself, false when it was killed."""
        self.starts += 1
        process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=subprocess.PIPE)
        kill_after = self.random.random() * longest if self.random.random() < self.options.kill_share else None
        try:
            _, errors = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.kills += 1
            return False
        if process.returncode != 0:
            self.failures.append(f"{command}: status {process.returncode}: {errors.decode()}")
        return True


def torn(folder, expected):
    """Packages that are not what they must be. A killed writer leaves the old file or none."""
    return [path for path in folder.glob("*.dita") if not filecmp.cmp(path, expected / path.name, shallow=False)]


def torture_workers(options, folder, bad):
    """Workers that know what each result must be."""
    cache, expected = folder / "cache", folder / "expected"
    expected.mkdir()
    subprocess.run([options.worker, "expect", expected], check=True)

    def work(slot):
        out, log = folder / f"out{slot.index}", folder / f"log{slot.index}"
        out.mkdir()
        log.touch()
        while log.stat().st_size < options.rounds and not slot.failures:
            command = [options.worker, "work", cache, str(CACHE_BYTES), out, str(slot.index + 8 * options.seed), str(log.stat().st_size), str(options.rounds)]
            with open(log, "ab") as stdout:
                slot.start_and_kill(command, None, stdout, options.kill_after)
            bad.extend(torn(out, expected))
        slot.letters = log.read_text()

    return cache, work


def torture_compiler(options, folder, bad):
    """The real compiler on a small model with a symbolic size."""
    cache, expected = folder / "cache", folder / "expected"
    expected.mkdir()
    environment = os.environ | {"DITC_CACHE_DIR": str(cache), "DITC_CACHE_MAX_BYTES": str(options.cache_bytes)}

    def command(size, output):
        return [options.ditc, "compile", options.model, "--bucket", f"b:{options.symbol}={size}", "-o", output, "--json"]

    for size in VARIANTS:
        subprocess.run(command(size, expected / f"{size}.dita") + ["--no-cache"], check=True, stdout=subprocess.DEVNULL)

    def work(slot):
        out, log = folder / f"out{slot.index}", folder / f"log{slot.index}"
        out.mkdir()
        while len(slot.letters) < options.rounds and not slot.failures:
            size, ended = slot.random.choice(VARIANTS), False
            while not ended:
                with open(log, "wb") as stdout:
                    ended = slot.start_and_kill(command(size, out / f"{size}.dita"), environment, stdout, options.kill_after)
                bad.extend(torn(out, expected))
            if not slot.failures:
                result = json.loads(log.read_text())
                damaged = any("was damaged" in warning for warning in result["warnings"])
                slot.letters += "h" if result["from_cache"] else "d" if damaged else "m"

    return cache, work


def maintain(options, cache, action, *more):
    """`ditc-run cache ACTION`, and what it says."""
    environment = os.environ | {"DITC_CACHE_DIR": str(cache)}
    done = subprocess.run([options.ditc_run, "cache", action, "--json", *more], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"cache {action} failed: {done.stderr}")
    return json.loads(done.stdout)


def check_cache(options, cache, limit):
    """What must hold afterwards. Yields problems."""
    at_end = maintain(options, cache, "verify")
    if again := maintain(options, cache, "verify")["removed"]:
        yield f"verify removed {again} in its second run"
    print(f"verify at the end: {len(at_end['removed'])} damaged entries, {at_end['kept']} good ones")
    maintain(options, cache, "prune", "--max-bytes", str(limit))
    if left := [path.name for path in cache.glob("??/*") if ".tmp-" in path.name]:
        yield f"temporary files are left after prune: {left}"
    if (size := sum(path.stat().st_size for path in cache.glob("??/*"))) > limit:
        yield f"the cache has {size} bytes after prune, its cap is {limit}"


def check_slots(slots, chaos):
    """Processes must have done their work, and everything that is meant to happen must have happened."""
    for slot in slots:
        yield from slot.failures
    if chaos.failure:
        yield f"the damaging thread failed: {chaos.failure!r}"
    letters = "".join(slot.letters for slot in slots)
    counts = {name: letters.count(name[0]) for name in ("hits", "misses", "damaged", "full disk")}
    kills = sum(slot.kills for slot in slots)
    print(f"{len(letters)} compiles: {counts}; {kills} kills; {chaos.damaged} files damaged")
    for name in ("hits", "misses", "damaged"):
        if counts[name] == 0:
            yield f"there were no {name}: the torture did not reach what it is for"
    if kills == 0:
        yield "nothing was killed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="with --ditc: the model to compile")
    parser.add_argument("--worker", help="ditc_cache_worker")
    parser.add_argument("--ditc", help="the compiler, in place of --worker")
    parser.add_argument("--ditc-run", required=True)
    parser.add_argument("--symbol", default="s0", help="the size of the model that differs between compiles")
    parser.add_argument("--rounds", type=int, default=60, help="compiles of each process")
    parser.add_argument("--cache-bytes", type=int, default=CACHE_BYTES, help="cap of the cache, with --ditc")
    parser.add_argument("--kill-after", type=float, help="longest life of a process that is killed, in seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if bool(options.worker) == bool(options.ditc) or (options.ditc and not options.model):
        parser.error("give either --worker or --ditc and a model")
    options.kill_after = options.kill_after or (0.1 if options.worker else 1.0)
    options.kill_share = 1 if options.worker else 0.5  # a worker goes on where it was killed, a compile starts again

    folder = pathlib.Path(tempfile.mkdtemp(prefix="ditc-torture-"))
    try:
        bad = []
        cache, work = (torture_workers if options.worker else torture_compiler)(options, folder, bad)
        begin = time.monotonic()
        slots = [Slot(index, options, work) for index in range(PROCESSES)]
        chaos = Chaos(cache, 0.01 if options.worker else 0.2, options.seed)
        for thread in [chaos, *slots]:
            thread.start()
        for slot in slots:
            slot.join()
        chaos.stopped.set()
        chaos.join()
        problems = [f"wrong or torn package: {path}" for path in bad]
        problems += [f"left by a killed process: {path}" for path in folder.glob("out*/*") if path.suffix != ".dita"]
        problems += check_slots(slots, chaos)
        problems += check_cache(options, cache, CACHE_BYTES if options.worker else options.cache_bytes)
        print(f"{time.monotonic() - begin:.1f} s; {len(problems)} problems")
        print("\n".join(problems))
        return 1 if problems else 0
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
