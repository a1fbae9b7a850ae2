#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a diffusion transformer of diffusers to model.pt2; `--help` shows how, docs/export.md tells more."""

from __future__ import annotations

import sys
import warnings

from exporter import options
from exporter.errors import UsageError


def main() -> int:
    parser = options.parser()
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)  # of diffusers, about its own future
    try:
        if chosen.list:
            from exporter.recipes import table

            print(table())
            return 0
        job = options.job_of(chosen)
        notes = job.run()
    except UsageError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(
        f"{job.folder}: {notes['class']}, {notes['parameters'] / 1e6:.1f} M parameters in {notes['dtype']}, "
        f"{sum(notes['ops'].values())} operations"
    )
    for name, error in notes.get("eager_error", {}).items():
        print(f"  {name}: {notes['dtype']} differs from float32 by {error:.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
