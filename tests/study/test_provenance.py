"""Records state the code, the software, the machine and the stack that a network was trained with."""

import platform
import subprocess

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch

import knotwork
from knotwork.errors import ArgumentError
from knotwork.study import _provenance as provenance
from knotwork.study import load_results, pack, run
from knotwork.study._networks import stack_id
from knotwork.study._plan import PLANS, Plan, load_plan
from knotwork.study._provenance import (
    PROVENANCE,
    UNKNOWN,
    differences,
    origin,
    precision_of,
    read_commit,
    source_id,
    with_known,
)
from knotwork.study._records import STACK
from knotwork.training import TrainingConfig
from tests.study.cases import tiny_plan

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fileMode=true"]
    command = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    run(tiny_plan(), folder, device="cpu")
    return folder


@pytest.fixture
def package(tmp_path):
    """A package in a repository, with a folder, a file that can be executed, and compiled files."""
    folder = tmp_path / "repository" / "src" / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "__pycache__").mkdir()
    for name in ("a.py", "inner.py", "inner/b.py", "__pycache__/a.pyc"):
        (folder / name).write_text(f"# {name}\n")
    (folder / "a.py").chmod(0o755)
    (tmp_path / "repository" / ".gitignore").write_text("__pycache__\n")
    git(tmp_path / "repository", "init", "-q")
    git(tmp_path / "repository", "add", "-A")
    git(tmp_path / "repository", "commit", "-qm", "first")
    return folder


def test_every_record_has_its_provenance(study):
    frame = load_results(study)
    assert frame[list(PROVENANCE)].notna().all().all()
    row = frame.iloc[0]
    assert row["numpy_version"] == np.__version__
    assert row["torch_version"] == torch.__version__
    assert row["scikit_learn_version"] == sklearn.__version__
    assert row["python_version"] == platform.python_version()
    assert (row["device"], row["gpu"], row["driver"], row["precision"]) == ("cpu", "none", "none", "float32")
    assert row["source"] == source_id()
    assert row["commit"] == read_commit()


def test_provenance_takes_little_space(study, tmp_path):
    """The same text in every row is stored once."""
    run(tiny_plan(folds=10, methods=["Std"], sizes=[], training={"max_epochs": 1}), tmp_path, device="cpu")
    pack(tmp_path, tmp_path / "packed")
    sizes = [sum(path.stat().st_size for path in (folder / "records").iterdir()) for folder in (study, tmp_path)]
    assert abs(sizes[1] - sizes[0]) < 4_000


def test_a_record_names_its_stack_and_place(study):
    frame = load_results(study)
    assert set(STACK) <= set(frame.columns)
    for stack, rows in frame.groupby("stack"):
        keys = rows.sort_values("stack_place")["key"]
        assert stack == stack_id(keys)
        assert set(rows["stack_size"]) == {len(rows)}
        assert sorted(rows["stack_place"]) == list(range(len(rows)))


def test_a_network_that_is_trained_alone_is_a_stack_of_one(tmp_path):
    run(tiny_plan(together=False, methods=["Std"], sizes=[]), tmp_path, device="cpu")
    frame = load_results(tmp_path)
    assert set(frame["stack_size"]) == {1}
    assert frame["stack"].is_unique


def test_linear_models_are_fitted_on_the_cpu(tmp_path):
    run(tiny_plan(backbones=["linear"], methods=["PLE"]), tmp_path)
    frame = load_results(tmp_path)
    assert set(frame["device"]) == {"cpu"}
    assert set(frame["gpu"]) == {"none"}
    assert set(frame["precision"]) == {"float64"}


def test_versions_are_those_that_fitted_the_encoding(tmp_path, monkeypatch):
    """Encodings may be fitted on one machine and networks be trained on another one."""
    from knotwork.study import _prepared, prepare_plan

    plan = tiny_plan(methods=["BS-CART"])
    versions = {"scikit_learn_version": "1.0", "lightgbm_version": "4.0"}
    monkeypatch.setattr(_prepared, "fitting_versions", lambda: versions)
    prepare_plan(plan, tmp_path)
    monkeypatch.undo()
    run(plan, tmp_path, device="cpu")
    assert load_results(tmp_path)[list(versions)].drop_duplicates().to_dict("records") == [versions]


def test_records_of_earlier_versions_have_missing_provenance():
    import pyarrow as pa

    from knotwork.study._records import NEWER_COLUMNS, _as_record, record_schema

    schema = record_schema()
    early = schema.empty_table().drop_columns([name for name in NEWER_COLUMNS if name in schema.names])
    table = _as_record(early)
    assert isinstance(table, pa.Table)
    assert set(PROVENANCE) <= set(table.column_names)


def test_the_source_has_the_identifier_that_git_gives(package):
    assert source_id(package) == git(package, "rev-parse", "HEAD:./")
    assert read_commit(package) == git(package, "rev-parse", "HEAD")


def test_changed_files_are_stated(package):
    (package / "a.py").write_text("# changed\n")
    assert read_commit(package) == git(package, "rev-parse", "HEAD") + "+changes"


def test_without_a_checkout_the_version_is_stated(package, tmp_path, monkeypatch):
    other = tmp_path / "repository" / "env" / "lib"
    other.mkdir(parents=True)
    (other / "a.py").write_text("# installed in the repository of another project\n")
    assert read_commit(other) == f"version {knotwork.__version__}"
    monkeypatch.setenv("PATH", "")
    read_commit.cache_clear()
    assert read_commit(package) == f"version {knotwork.__version__}", "without git"
    assert source_id(package)


def test_gpu_and_driver(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    monkeypatch.setattr(provenance, "_driver", lambda: "550.1")
    columns = origin(GPU)
    assert (columns["device"], columns["gpu"], columns["driver"]) == ("cuda:0", "card 0", "550.1")
    assert "gpu" not in origin(), "a network that failed was trained on no device"


@pytest.mark.parametrize(
    ("setting", "backbone", "device", "expected"),
    [
        ("auto", "mlp", GPU, "tf32"),
        ("auto", "resnet", GPU, "bf16"),
        ("float32", "resnet", GPU, "float32"),
        ("bf16", "mlp", CPU, "float32"),
    ],
)
def test_precision_is_the_one_that_was_used(setting, backbone, device, expected):
    from knotwork.nn._backbones import make_backbone

    assert precision_of(TrainingConfig(precision=setting), make_backbone(backbone, {}), device) == expected


def test_differences_between_machines():
    here = {**origin(CPU), "precision": "float32", "scikit_learn_version": "1.9", "lightgbm_version": "4.6"}
    assert differences(here, here, supervised=True) == {}
    other = {**here, "torch_version": "9.0", "lightgbm_version": "3.0", "driver": None, "host": "b"}
    assert differences(other, here) == {"torch_version": ("9.0", torch.__version__), "driver": (UNKNOWN, "none")}
    assert "lightgbm_version" in differences(other, here, supervised=True)
    on_gpus = [{**here, "device": "cuda:0", "threads": threads} for threads in ("1", "8")]
    assert differences(*on_gpus) == {}, "threads of the CPU change nothing on a GPU"


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_stored_as_they_are(name):
    import json

    plan = load_plan(name)
    again = Plan.from_mapping(json.loads(json.dumps(plan.to_mapping())))
    assert again == plan
    assert again.plan_hash == plan.plan_hash


def test_what_is_known_of_earlier_records_is_filled_in_with_its_source(tmp_path):
    frame = pd.DataFrame(
        {"plan": ["a", "a", "b"], "backbone": ["mlp", "ft", "mlp"], "recorded_at": [10.0, 10.0, 99.0]}
        | dict.fromkeys(PROVENANCE)
        | {"gpu": [None, "H100", None]}
    )
    assert with_known(frame, tmp_path) is frame, "without a file nothing changes"
    (tmp_path / "provenance.toml").write_text(
        '[[known]]\nplans = ["a"]\ngpu = "H200"\naccording_to = "a note"\n'
        '[[known]]\nbackbones = ["mlp"]\nrecorded_until = 1970-01-01T00:01:00Z\ngpu = "B200"\nprecision = "tf32"\n'
        'according_to = "the code"\n'
    )
    filled = with_known(frame, tmp_path)
    assert filled["gpu"].fillna("").tolist() == ["H200, according to a note", "H100", ""]
    assert filled["precision"].fillna("").tolist() == ["tf32, according to the code", "", ""]
    assert frame["gpu"].isna().sum() == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[[known]", "TOML"),
        ("a = 1", "nothing else"),
        ('[[known]]\ncard = "H200"\naccording_to = "me"', "'gpu'"),
        ('[[known]]\ngpu = 200\naccording_to = "me"', "gpu = 200"),
        ('[[known]]\ngpu = "H200"', "according_to"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path, content, words):
    (tmp_path / "provenance.toml").write_text(content)
    with pytest.raises(ArgumentError, match=words):
        with_known(pd.DataFrame(), tmp_path)
