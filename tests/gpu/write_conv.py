# SPDX-License-Identifier: Apache-2.0
"""write_conv.py BUNDLE: the programs of conv_problems.py as BUNDLE/grid.mlir and models.mlir, the norms of norm_problems.py
as BUNDLE/norms.mlir."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ditc_gpu"))
import conv_problems  # noqa: E402
import norm_problems  # noqa: E402


def main():
    bundle = sys.argv[1]
    os.makedirs(bundle, exist_ok=True)
    parts = {"grid": {f"case_{i}": p for i, p in enumerate(conv_problems.grid())}, "models": conv_problems.models()}
    for part, problems in parts.items():
        with open(os.path.join(bundle, part + ".mlir"), "w") as file:
            file.write("\n".join(conv_problems.program(p, name) for name, p in problems.items()))
    with open(os.path.join(bundle, "norms.mlir"), "w") as file:
        file.write("\n".join(norm_problems.function(p, name) for name, p in norm_problems.norms().items()))
    print(", ".join(f"{len(problems)} of {part}" for part, problems in parts.items()))


if __name__ == "__main__":
    main()
