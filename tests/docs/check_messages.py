#!/usr/bin/env python3
"""Checks that the messages in the tables of docs/troubleshooting.md are messages of the sources: each part between two
ellipses must be somewhere in a string of theirs."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["runtime", "compiler", "codegen", "passes", "tools"]
SHORTEST = 10  # shorter parts are words that any string has
OF_THE_SYSTEM = ["No space left on device", "Disk quota exceeded", "File too large"]


def strings_of(text):
    """All string literals, adjacent ones joined, placeholders cut out."""
    joined = re.sub(r'"\s*\n\s*"', "", text)
    return re.findall(r'"((?:[^"\\]|\\.)*)"', joined)


def messages_of(page):
    """The parts in backquotes of each row's first column."""
    for line in page.splitlines():
        if line.startswith("| ") and not line.startswith("| message"):
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


def main():
    sources = [path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.cpp")]
    known = "\n".join(re.sub(r"\{[^}]*\}", "\0", string.replace('\\"', '"')) for text in sources for string in strings_of(text))
    problems, checked = [], 0
    for message in messages_of((ROOT / "docs/troubleshooting.md").read_text()):
        for part in re.split(r"'…'|…|'|16|:", message):
            part = part.strip(" ;,.()")
            if len(part) < SHORTEST or part in OF_THE_SYSTEM or part.endswith("tmp-0"):
                continue
            checked += 1
            if part not in known:
                problems.append(f"docs/troubleshooting.md: no message has '{part}' (of '{message}')")
    if checked < 50:
        problems.append(f"only {checked} parts of messages were found; has the page another form now?")
    print("\n".join(problems) or f"{checked} parts of messages are in the sources")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
