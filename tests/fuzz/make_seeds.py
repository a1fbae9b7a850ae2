#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seed corpus of the fuzz targets from a folder of .pt2 files: small archives with their checksums
zeroed, their programs without metadata, their pickles, a few safetensors files, and a few compressed constants."""
import io
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import zipfile

MAX_ARCHIVE = 40_000
MAX_PROGRAM = 60_000


def without_crcs(data):
    """The archive with every CRC in the central directory set to 0, which readers take as 'not computed'."""
    data = bytearray(data)
    position = struct.unpack_from("<I", data, len(data) - 6)[0]
    while data[position:position + 4] == b"PK\x01\x02":
        struct.pack_into("<I", data, position + 16, 0)
        position += 46 + sum(struct.unpack_from("<HHH", data, position + 28))
    return bytes(data)


def without_metadata(value):
    if isinstance(value, dict):
        return {key: without_metadata(inner) for key, inner in value.items() if key != "metadata"}
    return [without_metadata(inner) for inner in value] if isinstance(value, list) else value


def pickles(archive):
    """The data.pkl of every torch.save file in the archive."""
    for name in archive.namelist():
        content = archive.read(name)
        if not name.endswith(".json") and content[:2] == b"PK":
            inner = zipfile.ZipFile(io.BytesIO(content))
            yield from (inner.read(member) for member in inner.namelist() if member.endswith("data.pkl"))


def safetensors():
    tensor = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    more = {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]}
    for header in ({}, {"w": tensor}, {"w": tensor, "v": more, "__metadata__": {"format": "pt"}}):
        text = json.dumps(header).encode()
        size = max((entry["data_offsets"][1] for key, entry in header.items() if key[0] != "_"), default=0)
        yield struct.pack("<Q", len(text)) + text + bytes(size)


def frame(size, *blocks):
    """A frame of zstd by hand: (kind, size, bytes) of each block; 0 is raw, 1 one byte repeated."""
    header = struct.pack("<IBI", 0xFD2FB528, 0xA0, size)
    for number, (kind, length, content) in enumerate(blocks):
        last = number + 1 == len(blocks)
        header += struct.pack("<I", last | kind << 1 | length << 3)[:3] + content
    return header


def constants():
    """The size that a manifest states, and a frame."""
    frames = [(8, frame(8, (0, 8, b"abcdefgh"))), (1 << 17, frame(1 << 17, (1, 1 << 17, b"x"))),
              (9, frame(9, (0, 4, b"abcd"), (1, 5, b"y")))]
    if shutil.which("zstd"):  # of tables, with everything that a compressor uses
        for content in (struct.pack("<600f", *(i % 40 / 7 for i in range(600))), json.dumps(list(range(500))).encode()):
            frames.append((len(content), subprocess.run(["zstd", "-qc", "--content-size", f"--stream-size={len(content)}"],
                                                        input=content, capture_output=True, check=True).stdout))
    return [struct.pack("<Q", size) + content for size, content in frames]


def dictionary(programs):
    """Keys and variant names: what a fuzzer would hardly guess."""
    words = set()
    for program in programs:
        stack = [json.loads(program)]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                words.update(key for key in value if key.isidentifier() and len(key) < 40)
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)
    return "".join(f'"\\"{word}\\":"\n' for word in sorted(words))


def main(source, target):
    seeds = {"archive": [], "program": [], "pickle": [], "safetensors": list(safetensors()), "constant": constants()}
    for path in sorted(pathlib.Path(source).rglob("*.pt2")):
        data = path.read_bytes()
        if len(data) <= MAX_ARCHIVE:
            seeds["archive"].append(without_crcs(data))
        with zipfile.ZipFile(path) as archive:
            seeds["pickle"].extend(pickles(archive))
            for name in archive.namelist():
                if name == "serialized_exported_program.json" or "/models/" in name:
                    program = json.dumps(without_metadata(json.loads(archive.read(name)))).encode()
                    if len(program) <= MAX_PROGRAM:
                        seeds["program"].append(program)
    for kind, inputs in seeds.items():
        folder = pathlib.Path(target) / kind
        folder.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(dict.fromkeys(inputs)):
            (folder / f"{number:04}").write_bytes(content)
        print(f"{kind}: {len(set(inputs))} seeds")
    (pathlib.Path(target) / "program.dict").write_text(dictionary(seeds["program"]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_seeds.py FOLDER_OF_PT2_FILES SEED_FOLDER")
    main(*sys.argv[1:])
