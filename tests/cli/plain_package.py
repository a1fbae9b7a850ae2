#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a test of compressed tables compares with: a package as it was before tables could be compressed
(`plain`), and inputs for a bucket (`inputs`). Reads frames by the libzstd that LLVM brings, not by ditc."""
import ctypes
import json
import math
import struct
import sys
import zipfile

NAMES = {"f32": "F32", "i64": "I64"}


def decompressed(frame, size):
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    found = zstd.ZSTD_decompress(out, ctypes.c_size_t(size), frame, ctypes.c_size_t(len(frame)))
    assert found == size, (found, size)
    return out.raw


def add(archive, name, content):
    """A stored member whose bytes start at a multiple of 64."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    filled = -(archive.fp.tell() + 30 + len(name) + 4) % 64
    info.extra = struct.pack("<HH", 0x4246, filled) + bytes(filled)
    archive.writestr(info, content)


def plain(source, target):
    with zipfile.ZipFile(source) as package, zipfile.ZipFile(target, "w") as out:
        manifest = json.loads(package.read("manifest.json"))
        assert manifest["version"] == 3, manifest["version"]
        count = 0
        for name, entry in manifest["entries"].items():
            content = package.read(name)
            if entry.pop("compression", None):
                count += 1
                content = decompressed(content, entry.pop("unpacked_bytes"))
                # A constant is called by the hash of what it is.
                entry.update(bytes=len(content), xxh128=name.removeprefix("constants/"))
            add(out, name, content)
        manifest["version"] = 2
        add(out, "manifest.json", json.dumps(manifest))
    print(f"{count} decompressed")


def values(port):
    count = math.prod(port["shape"])
    if port["dtype"] == "f32":
        return struct.pack(f"<{count}f", *(math.sin(i * 0.7) for i in range(count)))
    return struct.pack(f"<{count}q", *[1] * count)


def inputs(info, target):
    header, data = {}, b""
    for port in json.load(open(info))["buckets"][0]["inputs"]:
        content = values(port)
        header[port["name"]] = {"dtype": NAMES[port["dtype"]], "shape": port["shape"], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    {"plain": plain, "inputs": inputs}[sys.argv[1]](*sys.argv[2:])
