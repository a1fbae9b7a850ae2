# SPDX-License-Identifier: Apache-2.0
"""conv_tiles.py BUNDLE: convolutions of models with tiles by hand, for choosing them: the sources that compile_kernels wrote
with other numbers in their Config, as BUNDLE/tiles/*.cu. Needs no torch."""
import json
import os
import re
import sys

# BLOCK_M, BLOCK_N, BLOCK_K, STAGES, WARPS_M, WARPS_N
TILES = ((128, 128, 32, 5, 2, 2), (128, 128, 64, 3, 2, 2), (128, 128, 32, 5, 4, 2), (128, 256, 32, 4, 2, 4), (256, 128, 32, 4, 4, 2),
         (160, 64, 32, 5, 2, 2), (64, 128, 32, 5, 2, 2), (64, 256, 32, 5, 1, 4), (128, 64, 32, 5, 4, 1), (128, 96, 32, 5, 4, 1))
NAMES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "STAGES", "WARPS_M", "WARPS_N")
PROBLEMS = ("vae_in_16to512_128",)  # by mma.sync


def threads(tiles):
    return 32 * tiles[4] * tiles[5]


def shared_bytes(tiles):
    return 2 * tiles[2] * (tiles[0] + tiles[1]) * tiles[3]


def blocks(p, tiles):
    """Channels are rows unless the output has them innermost."""
    channel_tile, pixel_tile = (tiles[1], tiles[0]) if p.output_last else tiles[:2]
    pixels = p.batch
    for size in p.out_size:
        pixels *= size
    return p.groups * -(-p.out_channels // p.groups // channel_tile) * -(-pixels // pixel_tile)


def unit_name(problem, tiles):
    return problem + "_" + "x".join(map(str, tiles))


def unit(source, tiles):
    for name, value in zip(NAMES, tiles):
        source = re.sub(rf"\b{name} = \d+", f"{name} = {value}", source)
    source = re.sub(r"__launch_bounds__\(\d+, \d+\)", f"__launch_bounds__({threads(tiles)}, 1)", source)
    return re.sub(r"\bconv_[0-9a-f]{8,}\(", "kernel(", source)


def main():
    bundle = sys.argv[1]
    os.makedirs(os.path.join(bundle, "tiles"), exist_ok=True)
    with open(os.path.join(bundle, "models", "kernels.json")) as file:
        images = {kernel["name"]: kernel["image"] for kernel in json.load(file)["kernels"]}
    with open(os.path.join(bundle, "models.planned.mlir")) as file:
        plans = file.read()
    for problem in PROBLEMS:
        kernel = re.search(r"plan\.launch @(conv_\w+)\(", plans[plans.index(f"@{problem} "):])[1]
        with open(os.path.join(bundle, "models", os.path.splitext(images[kernel])[0] + ".cu")) as file:
            source = file.read()
        for tiles in TILES:
            with open(os.path.join(bundle, "tiles", unit_name(problem, tiles) + ".cu"), "w") as file:
                file.write(unit(source, tiles))


if __name__ == "__main__":
    main()
