#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the models of tests/models and tests/errors/models afresh.

    python3 tools/make_test_models.py                 # all
    python3 tools/make_test_models.py ops_views dit   # some
    python3 tools/make_test_models.py --list

Needs the packages of tools/requirements-export.txt. The models themselves are in tools/test_models.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from test_models import GROUPS

TESTS = Path(__file__).resolve().parent.parent / "tests"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models to make (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is and stop")
    parser.add_argument("--into", type=Path, default=TESTS, help="folder to write to (default: tests)")
    options = parser.parse_args()

    models = {model.name: model for group in GROUPS for model in group()}
    if options.list:
        for model in models.values():
            print(f"{model.name:<18} {model.description}")
        return 0
    unknown = [name for name in options.names if name not in models]
    if unknown:
        print(f"no such model: {', '.join(unknown)} (--list shows all)", file=sys.stderr)
        return 2

    total = 0
    for name in options.names or models:
        folder = options.into / models[name].parent / name
        shutil.rmtree(folder, ignore_errors=True)
        models[name].write(folder)
        size = sum(file.stat().st_size for file in folder.iterdir())
        total += size
        print(f"{folder.relative_to(options.into)}: {size / 1000:.0f} kB")
    print(f"{total / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
