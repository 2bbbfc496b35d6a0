"""A study with one damaged file goes on: results, status, report and copy are complete, or name the file.

Each case damages one file of a small study: a record, the copy of all records, a trace, a manifest, a fitted encoding
or a lock. Rows that remain must have the values they had.
"""

import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from knotwork.report import load_plans, load_records
from knotwork.study import load_histories, load_knot_paths, load_results, pack, run
from knotwork.study._folder import claim
from knotwork.study._prepared import _read as read_fitted
from knotwork.study._status import study_status
from tests.fuzz.children import Child
from tests.fuzz.mutations import mutate
from tests.study.cases import SMALL_MLP, tiny_plan

N_NUMERICAL = 4
"""Numerical columns of the table of the study."""

FOLDERS = {"records": 0.3, "plans": 0.25, "histories": 0.1, "knots": 0.1, ".": 0.15, "prepared": 0.05, "locks": 0.05}
"""The share of cases in which a file of each folder is damaged."""


def folder_of(random):
    """Return the folder in which a file is damaged."""
    return str(random.choice(list(FOLDERS), p=list(FOLDERS.values())))


USUAL = range(60)
FEW = [
    seed for name in FOLDERS for seed in [each for each in USUAL if folder_of(np.random.default_rng(each)) == name][:2]
]
"""Two cases of each folder."""

CASES = [pytest.param(FEW, id="few"), pytest.param(USUAL, id="usual", marks=pytest.mark.slow)]
if os.environ.get("KNOTWORK_FUZZ") == "full":
    CASES = [pytest.param(range(1000), id="full")]


def read_study(out, copy):
    """Return the hashes of everything that can be read from a study and from a packed copy of it; for `Child`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tables = {
            "results": rows_of(load_results(out)),
            "report": rows_of(load_records(out)),
            "histories": rows_of(load_histories(out)),
            "knots": rows_of(load_knot_paths(out)),
            "plans": sorted(load_plans(out) or {}),
        }
        for path in sorted(Path(out, "prepared").glob("*.json")):
            assert read_fitted(path, N_NUMERICAL) is None or "sha256" in path.read_text()
        lock = claim(Path(out, "locks"), "slot")  # its process lives: None, unless the damage hides that
        if lock is not None:
            lock.release()
        problems = [name for status in study_status(out)[-1:] for name in status.problems]
        said = " ".join(str(warning.message) for warning in caught)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tables["packed networks"] = pack(out, copy, histories=True)
        packed_said = " ".join(str(warning.message) for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the copy is whole
        tables["packed"] = rows_of(load_results(copy))
        tables["packed histories"] = rows_of(load_histories(copy))
        tables["packed knots"] = rows_of(load_knot_paths(copy))
    return {"tables": tables, "said": said, "packed_said": packed_said, "problems": problems}


def rows_of(frame):
    """Return the hash of every row, sorted."""
    return sorted(pd.util.hash_pandas_object(frame.astype(str), index=False).tolist())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return the folder of a study of two plans, one of which has networks of the other, with every kind of file."""
    out = tmp_path_factory.mktemp("study")
    narrow = {"name": "mlp", "widths": [4], "label": "narrow"}
    run(tiny_plan(keep_knots=True), out, device="cpu")
    run(tiny_plan(name="more", backbones=[SMALL_MLP, narrow], sizes=[4, 5], methods=["Std", "BS-Q"]), out, device="cpu")
    with claim(out / "locks", "slot") as lock:
        content = lock.path.read_bytes()
    (out / "locks" / "slot.lock").write_bytes(content)
    return out


def damage(out, random):
    """Damage one file and return its path within the folder."""
    files = sorted(path for path in (out / folder_of(random)).iterdir() if path.is_file())
    path = files[int(random.integers(len(files)))]
    path.write_bytes(mutate(path.read_bytes(), random))
    return path.relative_to(out)


def lost(answer, expected):
    """Return the names of the tables in which rows are missing or changed."""
    return [name for name, rows in expected["tables"].items() if answer["tables"][name] != rows]


def new_rows(answer, expected):
    """Return the names of tables with rows that the undamaged study does not have."""
    tables = {name: rows for name, rows in expected["tables"].items() if name not in ("plans", "packed networks")}
    return [name for name, rows in tables.items() if not set(answer["tables"][name]) <= set(rows)]


def verdict(answer, expected, path):
    """Return what is wrong with the answer for a study whose file `path` is damaged, or nothing."""
    if "result" not in answer:
        return str(answer)
    result = answer["result"]
    if new_rows(result, expected):
        return f"changed rows: {new_rows(result, expected)}"
    silent = [
        name for name in lost(result, expected)
        if path.name not in result["packed_said" if name.startswith("packed") else "said"]
    ]  # fmt: skip
    return f"rows lost in silence: {silent}" if silent else ""


@pytest.mark.slow  # tests/study/test_damaged_files.py has a file of each kind that is cut, changed or emptied
@pytest.mark.parametrize("seeds", CASES)
def test_damaged_study_files(study, tmp_path, seeds):
    failures, counts = [], dict.fromkeys(FOLDERS, 0)
    with Child("tests.fuzz.test_study_files:read_study") as child:
        expected = child.ask(out=str(study), copy=str(tmp_path / "expected"))["result"]
        assert not expected["said"] + expected["packed_said"]
        for seed in seeds:
            out, copy = tmp_path / f"{seed}", tmp_path / f"{seed} copy"
            shutil.copytree(study, out)
            path = damage(out, np.random.default_rng(seed))
            wrong = verdict(child.ask(out=str(out), copy=str(copy)), expected, path)
            counts[str(Path(path).parent)] += 1
            if wrong:
                failures.append(f"seed {seed}, {path}: {wrong}")
            shutil.rmtree(out)
            shutil.rmtree(copy, ignore_errors=True)
    print(f"\n{len(seeds)} studies, by the folder of the damaged file: {counts}")
    assert all(counts.values()), "a file of every folder"
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:5])
