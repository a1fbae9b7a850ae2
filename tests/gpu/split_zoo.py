# SPDX-License-Identifier: Apache-2.0
"""split_zoo.py ZOO PACKAGES BUNDLE: packages and golden tensors as folders BUNDLE/a, b, ..., each small enough to be sent
to another machine by itself. Exports go along for bf16 models alone, which are run eagerly there; else an empty file
says that the model exists."""
import pathlib
import shutil
import sys

PART_BYTES = 36 << 20


def files_of(folder, packages):
    """(from, to) for everything that belongs to one case; from None: an empty file."""
    found = [(package, f"packages/{package.name}") for package in sorted(packages.glob(f"{folder.name}-*.dita"))]
    for path in sorted(folder.iterdir()):
        wanted = path.suffix != ".pt2" or (path.name == "model.pt2" and folder.name.endswith("_bf16"))
        found.append((path if wanted else None, f"zoo/{folder.name}/{path.name}"))
    return found


def copy(files, part):
    for source, target in files:
        (part / target).parent.mkdir(parents=True, exist_ok=True)
        if source:
            shutil.copyfile(source, part / target)
        else:
            (part / target).touch()


def main():
    zoo, packages, bundle = map(pathlib.Path, sys.argv[1:4])
    for old in bundle.glob("[a-z]/zoo"):
        shutil.rmtree(old.parent)
    part, used = 0, 0
    for folder in sorted(path.parent for path in zoo.glob("*/model.pt2")):
        files = files_of(folder, packages)
        if not any(target.startswith("packages/") for _, target in files):
            continue
        size = sum(source.stat().st_size for source, _ in files if source)
        if used and used + size > PART_BYTES:
            part, used = part + 1, 0
        used += size
        copy(files, bundle / "abcdefghij"[part])


if __name__ == "__main__":
    main()
