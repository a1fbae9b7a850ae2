#!/usr/bin/env python3
"""Checks what a compiler does not: who may include whom, file sizes, machine paths, banned headers."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folder -> folders it may include from (docs/design.md).
MAY_INCLUDE = {
    "runtime": {"runtime"},
    "dialects": {"dialects"},
    "passes": {"passes", "dialects"},
    "codegen": {"codegen", "dialects", "runtime"},
    "compiler": {"compiler", "passes", "codegen", "dialects", "runtime"},
    "tools": {"tools", "compiler", "passes", "codegen", "dialects", "runtime"},
}
BANNED = ["mlir/Conversion/Passes.h", "mlir/InitAllPasses.h", "mlir/InitAllDialects.h"]
HARD_LIMIT = {".cpp": 600, ".h": 300, ".td": 400, ".cuh": 500, ".py": 600, ".c": 400}


def files():
    """Files under version control; without git all of them but build folders."""
    names = []
    if shutil.which("git"):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
        names = listed.stdout.split("\n")
    if not any(names):
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]
    return [ROOT / name for name in names if name and not name.startswith(("build", ".git/")) and (ROOT / name).is_file()]


def check(path):
    relative = path.relative_to(ROOT)
    if path.suffix not in HARD_LIMIT:
        return
    text = path.read_text()
    lines = text.count("\n")
    if lines > HARD_LIMIT[path.suffix]:
        yield f"{relative}: {lines} lines, the limit is {HARD_LIMIT[path.suffix]}; split it by what it does"
    allowed = MAY_INCLUDE.get(relative.parts[0])
    for include in re.findall(r'#include ["<]([^">]+)[">]', text):
        folder = include.split("/")[0]
        if allowed and folder in MAY_INCLUDE and folder not in allowed:
            yield f"{relative}: includes {include}; {relative.parts[0]}/ may use {', '.join(sorted(allowed))}"
        if include in BANNED:
            yield f"{relative}: includes {include}, which costs half a minute; include the one header that is needed"
    if path.suffix in (".cpp", ".h", ".td", ".c", ".cuh") and "SPDX-License-Identifier" not in text[:400]:
        yield f"{relative}: no SPDX line"


if __name__ == "__main__":
    problems = [problem for path in files() for problem in check(path)]
    print("\n".join(problems) if problems else "lint: nothing to mend")
    sys.exit(1 if problems else 0)
