#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs runtime/python/ditc and libditrt.so into a wheel, with nothing but Python. The same files give the same bytes.

    tools/wheel.py --library build/lib/libditrt.so.0 --output build/wheel
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import re
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "runtime" / "python" / "ditc"

METADATA = """\
Metadata-Version: 2.1
Name: ditc
Version: {version}
Summary: Runs compiled diffusion transformers: packages made by the ahead-of-time compiler ditc
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: ditc
Root-Is-Purelib: false
Tag: {tag}
"""


def contents(library: Path, version: str, tag: str) -> dict[str, bytes]:
    """Every file of the wheel but RECORD."""
    info = f"ditc-{version}.dist-info"
    files = {f"ditc/{path.name}": path.read_bytes() for path in SOURCES.iterdir() if path.suffix == ".py" or path.name == "py.typed"}
    files["ditc/lib/libditrt.so.0"] = library.read_bytes()
    files[f"{info}/METADATA"] = METADATA.format(version=version, description=(ROOT / "docs" / "python.md").read_text()).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return files


def record(files: dict[str, bytes], name: str) -> bytes:
    """RECORD: path, hash and size of each file; its own line has neither."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return ("".join(lines) + f"{name},,\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True, help="libditrt.so of a Release build")
    parser.add_argument("--output", type=Path, required=True, help="folder for the wheel")
    options = parser.parse_args()

    version = re.search(r'__version__ = "(.*)"', (SOURCES / "__init__.py").read_text()).group(1)
    tag = f"py3-none-linux_{platform.machine()}"
    files = dict(sorted(contents(options.library, version, tag).items()))
    name = f"ditc-{version}.dist-info/RECORD"
    files[name] = record(files, name)

    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"ditc-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in files.items():
            member = zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0))
            member.external_attr = (0o100755 if ".so" in entry else 0o100644) << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    print(path)


if __name__ == "__main__":
    main()
