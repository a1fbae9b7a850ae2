#!/usr/bin/env python3
"""Tuning from end to end without a GPU, on the libraries of tests/cuda_emulator: a bundle, its measurement, an interrupted
one, the merge, and a package that uses what was measured and still computes the same.

usage: check_tuning.py --ditc build/bin/ditc --run build/bin/ditc-run --libraries build/lib MODEL_FOLDER
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import zipfile


def run(*command, status=0):
    """Its standard output."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == status, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if status == 0 else done.stderr


def check_bundle(arguments, bundle):
    model = arguments.folder / "model.pt2"
    compile_bundle = [arguments.ditc, "compile", model, "--target", "sm_80", "--tuning-candidates", "3", "--tuning-bundle"]
    text = json.loads(run(*compile_bundle, bundle, "--json"))
    assert text["bytes"] == bundle.stat().st_size and "candidates" in text["summary"]
    again = bundle.with_name("again.tune")
    run(*compile_bundle, again)
    assert again.read_bytes() == bundle.read_bytes(), "equal inputs, other bytes"
    wrong = run(arguments.ditc, "compile", model, "--target", "host", "--tuning-bundle", bundle, status=2)
    assert "one GPU target" in wrong, wrong


def check_measurement(arguments, bundle, results):
    """A run that its budget stops, and the one that goes on."""
    tune = [arguments.run, "tune", bundle, "-o", results, "--rounds", "1", "--steady", "0", "--json"]
    first = json.loads(run(*tune, "--budget", "0.001"))
    assert first["measured"] == 1 and first["left"] > 0, first
    second = json.loads(run(*tune))
    assert second["known_before"] == 1 and second["measured"] == first["left"] and second["failed"] == [], second
    for entry in second["entries"]:
        assert entry["gpu"] == "Emulated GPU" and entry["us"] > 0 and entry["library_us"] > 0, entry
        assert "excluded" not in entry and entry["candidates"] == 1 + len(entry["others"]), entry
        assert all(other["us"] >= entry["us"] for other in entry["others"]), entry
    return second


def check_final(arguments, bundle, results):
    """Long launches have a final, in which the model's tiles and the library take part."""
    final = results.with_name("final.json")
    text = run(arguments.run, "tune", bundle, "-o", final, "--rounds", "1", "--steady", "0.001", "--finalists", "1")
    assert "the model's tiles" in text and "cuBLASLt" in text, text
    for entry in json.loads(final.read_text())["entries"]:
        assert entry["steady"] and entry["candidates"] == 3 and entry["model_us"] >= entry["us"] and entry["library_us"] > 0, entry
        assert len(entry["others"]) <= 1, entry  # the best burst and the model's tiles
    assert not any(entry["steady"] for entry in json.loads(results.read_text())["entries"])


def check_failure(bundle, results, measured, arguments):
    """Tiles that broke a run before are left out, and named."""
    noted = json.loads(results.read_text())
    entry = noted["entries"].pop()
    key = {name: entry[name] for name in ("op", "arch", "dtype", "sizes", "epilogue", "gpu", "tiles")}
    noted["failures"] = [{**key, "reason": "did not end within 20 s"}]
    other = results.with_name("failed.json")
    other.write_text(json.dumps(noted))
    text = run(arguments.run, "tune", bundle, "-o", other, "--rounds", "1", "--steady", "0")
    assert "did not end within 20 s" in text, text
    again = [e for e in json.loads(other.read_text())["entries"] if e["sizes"] == entry["sizes"] and e["epilogue"] == entry["epilogue"]]
    assert len(again) == 1 and again[0]["tiles"] != entry["tiles"] and len(again[0]["excluded"]) == 1, again
    assert len(measured["entries"]) == len(json.loads(other.read_text())["entries"])


def check_disagreement(arguments, bundle, results):
    """A candidate that leaves a part of the result unwritten is left out; so is nobody when there is no majority."""
    damaged = bundle.with_name("damaged.tune")

    def damage(count):
        """Makes `count` candidates of the first kernel with several blocks launch just one."""
        with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(damaged, "w", zipfile.ZIP_STORED) as new:
            kernels = json.loads(old.read("sm_80/kernels.json"))
            jobs = json.loads(old.read("bundle.json"))["jobs"]
            grids = {kernel["name"]: kernel["grid"] for kernel in kernels["kernels"]}
            job = next(j for j in jobs if all(grids[c["kernel"]][0] > 1 for c in j["candidates"]))
            for candidate in job["candidates"][:count]:
                grids[candidate["kernel"]][0] = 1
            for name in old.namelist():
                new.writestr(name, json.dumps(kernels) if name == "sm_80/kernels.json" else old.read(name))
        return job

    def tune(status):
        results.unlink(missing_ok=True)
        return run(arguments.run, "tune", damaged, "-o", results, "--rounds", "1", "--steady", "0", "--no-library", status=status)

    job = damage(1)
    text = tune(0)
    assert "are NaN where those of other tiles are not, or are not written" in text, text
    entry = next(e for e in json.loads(results.read_text())["entries"] if e["sizes"] == job["key"]["sizes"])
    assert [e["tiles"] for e in entry["excluded"]] == [job["candidates"][0]["tiles"]] and entry["candidates"] == 2, entry
    assert "model_us" not in entry, entry  # the model's tiles are those that were left out
    damage(2)
    assert "do not agree" in tune(1)


def check_package(arguments, results, scratch):
    """The slowest tiles instead of the fastest: another package with the same results."""
    database = scratch / "database.json"
    text = run(arguments.ditc, "tune", "--merge", results, "--database", database)
    assert " 0 replaced" in text and "added" in text, text
    swapped = json.loads(database.read_text())
    for entry in swapped["entries"]:
        entry["tiles"], entry["others"][0]["tiles"] = entry["others"][0]["tiles"], entry["tiles"]
    database.write_text(json.dumps(swapped))
    assert f"{len(swapped['entries'])} entries" in run(arguments.ditc, "tune", "--list", "--database", database)
    for options, count in ((["--tuning", results], "measured"), (["--tuning", database], "measured"), (["--no-tuning"], "by_model")):
        package = scratch / "model.dita"
        compiled = run(arguments.ditc, "compile", arguments.folder / "model.pt2", "--target", "sm_80", *options, "-o", package, "--json")
        tuning = json.loads(compiled)["report"]["target_kernels"]["sm_80"]["tuning"]
        assert tuning[count] == len(swapped["entries"]) and tuning["notes"] == [], tuning
        assert "tiles of the gemm kernels" in run(arguments.ditc, "report", package)
        run(arguments.run, "run", package, "--device", "cuda", "--inputs", arguments.folder / "inputs.safetensors",
            "--check", arguments.folder / "outputs.safetensors", "--tolerance", "0.02")


def check_missing(arguments, results, scratch):
    """A bundle of what no database has: the one kernel whose entry was taken away, then none."""
    known = json.loads(results.read_text())
    left = known["entries"].pop()
    part, missing = scratch / "part.json", scratch / "missing.tune"
    part.write_text(json.dumps(known))
    options = (arguments.ditc, "compile", arguments.folder / "model.pt2", "--target", "sm_80", "--tuning-candidates", "2", "--tuning-missing-only", "--tuning-bundle", missing)
    summary = json.loads(run(*options, "--tuning", part, "--json"))["summary"]
    assert summary.startswith("1 kernels, 2 candidates") and f"; {len(known['entries'])} kernels are left out" in summary, summary
    with zipfile.ZipFile(missing) as members:
        keys = [job["key"] for job in json.loads(members.read("bundle.json"))["jobs"]]
    assert keys == [{name: left[name] for name in keys[0]}], keys
    assert "nothing is missing, all" in run(*options, "--tuning", results, status=1)


def check_gpus(arguments, results, scratch):
    """Entries of two GPUs stay side by side: the named one's count, else those of the last file, whatever is in the cache."""
    other = json.loads(results.read_text())
    for entry in other["entries"]:
        entry.update(gpu="Other GPU", date="2021-01-01T00:00:00Z")
    other_path = scratch / "other.json"
    other_path.write_text(json.dumps(other))
    compile_with = (arguments.ditc, "compile", arguments.folder / "model.pt2", "--target", "sm_80")
    for first, last, gpu, expected in ((results, other_path, "", "Other GPU"), (other_path, results, "", "Emulated GPU"),
                                       (results, other_path, "Emulated GPU", "Emulated GPU"), (other_path, results, "other", "Other GPU")):
        compiled = run(*compile_with, "--tuning", first, "--tuning", last, "--tuning-gpu", gpu, "-o", scratch / "gpus.dita", "--json")
        kernels = json.loads(compiled)["report"]["target_kernels"]["sm_80"]["resources"]
        found = {kernel["tiles"].get("gpu") for kernel in kernels if "tiles" in kernel}
        assert found == {expected}, (first, last, gpu, found)
    text = run(*compile_with, "--tuning", results, "--tuning", other_path, "--tuning-gpu", "no gpu", status=1)
    assert "--tuning-gpu 'no gpu'" in text and "Emulated GPU" in text and "Other GPU" in text, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ditc", required=True, type=pathlib.Path)
    parser.add_argument("--run", required=True, type=pathlib.Path, help="ditc-run")
    parser.add_argument("--libraries", required=True, type=pathlib.Path, help="folder of libfake_*.so")
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    for variable, library in {"NVRTC": "nvrtc", "CUDA_DRIVER": "cuda", "CUBLASLT": "cublasLt"}.items():
        os.environ[f"DITC_{variable}"] = str(arguments.libraries.resolve() / f"libfake_{library}.so")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        bundle, results = scratch / "model.tune", scratch / "tuning.json"
        check_bundle(arguments, bundle)
        measured = check_measurement(arguments, bundle, results)
        check_final(arguments, bundle, results)
        check_failure(bundle, results, measured, arguments)
        check_disagreement(arguments, bundle, scratch / "damaged.json")
        check_package(arguments, results, scratch)
        check_missing(arguments, results, scratch)
        check_gpus(arguments, results, scratch)
    print(f"{len(measured['entries'])} kernels measured and used")


if __name__ == "__main__":
    main()
