# SPDX-License-Identifier: Apache-2.0
"""build_models.sh says of a piece from which commit it is when it has built it, and only then; bundles say whether what they
are built from was changed since."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


@unittest.skipUnless((HERE.parent.parent / ".git").exists(), "the notes name a commit")
class Notes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle, self.build = pathlib.Path(folder.name, "bundle"), pathlib.Path(folder.name, "build")
        for name in ("bin/ditc-run", "lib/libditrt.so"):
            path = self.build / name
            path.parent.mkdir(parents=True)
            path.write_text("")

    def run_parts(self, *parts):
        """Standard output, and the notes of the bundle."""
        environment = {name: value for name, value in os.environ.items() if name not in ("DITC_ZOO_DIR", "DITC_ZOO_FULL_DIR")}
        done = subprocess.run([HERE / "build_models.sh", self.bundle, self.build, *parts], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = self.bundle / "bundle.json"
        return done.stdout, json.loads(path.read_text())["pieces"] if path.exists() else {}

    def test_what_is_left_out_has_no_note(self):
        text, pieces = self.run_parts("zoo", "full", "tune")
        self.assertIn("zoo is left out: DITC_ZOO_DIR is not set", text)
        self.assertIn("full is left out: DITC_ZOO_FULL_DIR is not set", text)
        self.assertEqual(pieces, {})

    def test_what_is_there_keeps_its_note(self):
        self.bundle.mkdir()
        old = {"commit": "0123abc", "built": "2026-01-01"}
        (self.bundle / "bundle.json").write_text(json.dumps({"pieces": {"zoo": old}}))
        _, pieces = self.run_parts("bin", "zoo")
        self.assertEqual(pieces["zoo"], old)
        self.assertNotEqual(pieces["bin"]["commit"], old["commit"])


class Changes(unittest.TestCase):
    def test_they_count_below_the_paths_that_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            script = root / "tests/gpu/note_commit.py"
            script.parent.mkdir(parents=True)
            shutil.copy(HERE / "note_commit.py", script)
            author = ["-c", "user.name=a", "-c", "user.email=a@b"]
            for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "all"]):
                subprocess.run(["git", "-C", root, *command], check=True)
            (root / "passes").mkdir()
            (root / "passes/new.cpp").write_text("")

            def commit(*paths):
                subprocess.run([sys.executable, script, root, *paths], check=True)
                note = json.loads((root / "bundle.json").read_text())
                (root / "bundle.json").unlink()
                return note["commit"]

            self.assertNotIn("changed", commit("tests"))
            self.assertTrue(commit("tests", "passes").endswith(", changed"))
            self.assertTrue(commit().endswith(", changed"))


if __name__ == "__main__":
    unittest.main()
