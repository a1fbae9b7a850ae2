# SPDX-License-Identifier: Apache-2.0
"""write_attention.py BUNDLE: the programs of attention_problems.py as BUNDLE/grid.mlir, grid_mma.mlir, grid_quantized.mlir, models.mlir
and models_mma.mlir."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "ditc_gpu"))
import attention_problems  # noqa: E402


def main():
    bundle = sys.argv[1]
    os.makedirs(bundle, exist_ok=True)
    grids = {name: make() for name, make in attention_problems.GRIDS.items()}
    for name, grid in grids.items():
        with open(os.path.join(bundle, name + ".mlir"), "w") as file:
            file.write("\n".join(attention_problems.program(p, f"case_{i}") for i, p in enumerate(grid)))
    models = attention_problems.models()
    for file_name, names in (("models", models), ("models_mma", attention_problems.PORTABLE_MODELS)):
        with open(os.path.join(bundle, file_name + ".mlir"), "w") as file:
            file.write("\n".join(attention_problems.program(models[name], name) for name in names))
    print(", ".join(f"{len(grid)} cases of {name}" for name, grid in grids.items()), f"and {len(models)} shapes of models")


if __name__ == "__main__":
    main()
