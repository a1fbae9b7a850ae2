# SPDX-License-Identifier: Apache-2.0
"""note_commit.py BUNDLE [--piece NAME] [PATH...]: writes into BUNDLE/bundle.json from which commit it was built, and when.

The commit is called changed when git sees a change below the PATHs (folders of the repository; all of it unless given). A
piece that is built by itself has a note of its own beside those of the others.
"""
import argparse
import datetime
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def note_of(paths):
    changed = git("status", "--porcelain", "--", *paths)
    commit = git("rev-parse", "--short", "HEAD")
    return {"commit": f"{commit}, changed" if changed else commit, "built": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--piece")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    path, note = arguments.bundle / "bundle.json", note_of(arguments.paths)
    if arguments.piece:
        pieces = json.loads(path.read_text())["pieces"] if path.exists() else {}
        note = {"pieces": pieces | {arguments.piece: note}}
    path.write_text(json.dumps(note, indent=1) + "\n")


if __name__ == "__main__":
    main()
