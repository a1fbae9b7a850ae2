#!/usr/bin/env python3
"""Runs the Before/After examples in the headers of passes/*.cpp, and makes docs/passes.md from them.

Each pass's file opens with a comment that says what and why, then IR under "// Before:" and "// After:"; behind an
empty line there may be more prose.
--check runs the pass on Before and compares with After, both as ditc-opt prints them; kernel names are
compared without their hashes. --write makes the documentation.
"""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HASH = re.compile(r"(@[a-z_]+_)[0-9a-f]{20}")


def examples():
    """Yields (pass flag, file, prose, before, after)."""
    flags = dict(re.findall(r'def (\w+) : Pass<"([\w-]+)"', (ROOT / "passes/Passes.td").read_text()))
    for name, flag in flags.items():
        path = ROOT / "passes" / f"{name}.cpp"
        header = []
        for line in path.read_text().splitlines():
            if not line.startswith("//"):
                break
            header.append(line[3:])
        text = "\n".join(header)
        match = re.search(r"^(.*?)^Before:\n(.*?)^After:\n(.*?)(\n\n.*)?\Z", text, re.S | re.M)
        if not match:
            sys.exit(f"{path.name}: no Before/After example in the header")
        prose = match[1].split("\n", 2)[2].strip() + "\n\n" + (match[4] or "").strip()
        yield flag, path, prose, match[2], match[3]


def opt(tool, text, *args):
    run = subprocess.run([tool, *args, "-"], input=text, capture_output=True, text=True)
    if run.returncode:
        return f"ditc-opt failed:\n{run.stderr}"
    return HASH.sub(r"\1", run.stdout)


def check(tool):
    bad = 0
    for flag, path, _, before, after in examples():
        got, want = opt(tool, before, f"--{flag}"), opt(tool, after)
        if got != want:
            bad += 1
            print(f"{path.name}: --{flag} does not turn Before into After")
            print("\n".join(difflib.unified_diff(want.splitlines(), got.splitlines(), "After", "got", lineterm="")))
    print(f"{bad} examples wrong" if bad else "all examples right")
    return 1 if bad else 0


def write():
    out = ["# The passes\n\nMade by `tools/passdoc.py --write` from the headers of `passes/*.cpp`; the examples are tests.\n"]
    for flag, path, prose, before, after in examples():
        out.append(f"\n## {path.stem} (`--{flag}`)\n\n{prose.strip()}\n\n```mlir\n// before\n{before.rstrip()}\n// after\n{after.rstrip()}\n```\n")
    (ROOT / "docs/passes.md").write_text("".join(out))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--opt", default=str(ROOT / "build/bin/ditc-opt"))
    arguments = parser.parse_args()
    if arguments.write:
        write()
    sys.exit(check(arguments.opt) if arguments.check else 0)
