"""Records are verified by training their networks again: equal, within noise, different, or not possible."""

import json
import shutil

import pandas as pd
import pytest
from typer.testing import CliRunner

from knotwork._cli import app
from knotwork.errors import ArgumentError
from knotwork.study import _trainer as trainer
from knotwork.study import _verify as verifying
from knotwork.study import load_results, pack, run, verify
from knotwork.study._records import write_records
from tests.study.cases import tiny_plan

TRAINING = {"max_epochs": 4, "batch_size": 64, "learning_rate": 1e-2, "knot_warmup": 0}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    run(tiny_plan(datasets=["sk_diabetes"], training=TRAINING), folder, device="cpu")
    return folder


@pytest.fixture
def study(original, tmp_path):
    return shutil.copytree(original, tmp_path / "study")


def tamper(folder, **changes):
    """Replace columns of the first record, with a valid checksum."""
    path = next((folder / "records").iterdir())
    frame = load_results(folder)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    rows[0] |= changes
    write_records(folder, path.stem, rows)
    (folder / "records.parquet").unlink(missing_ok=True)
    return rows[0]["key"]


def verdicts(result):
    return result.table.set_index("key")["verdict"]


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def call(*arguments):
    return CliRunner().invoke(app, ["study", "verify", *map(str, arguments)])


def test_a_fresh_study_is_equal_in_every_bit_and_stays_as_it_is(study):
    before = files(study)
    result = verify(study, device="cpu")
    assert result.counts == {"equal": 6, "within noise": 0, "different": 0, "not retrained": 0}
    assert result.agrees
    assert result.notes == ()
    assert files(study) == before


def test_a_packed_study_without_its_knots_is_equal(study, tmp_path):
    pack(study, tmp_path / "packed")
    assert verify(tmp_path / "packed", device="cpu").counts["equal"] == 6
    assert not (tmp_path / "packed" / "prepared").exists()


def test_networks_alone_are_within_noise(study):
    result = verify(study, sample=2, device="cpu", alone=True)
    assert result.counts["equal"] + result.counts["within noise"] == 2
    assert result.agrees


@pytest.mark.parametrize(
    "changes",
    [{"rmse": 60.0}, {"epochs": 3}, {"n_parameters": 7}, {"target_mean": 1.0}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_changed_record_is_different(study, changes):
    changed = tamper(study, **changes)
    after = verdicts(verify(study, device="cpu"))
    assert after[changed] == "different"
    assert (after.drop(changed) == "equal").all()


def test_the_last_digit_counts_on_the_same_machine(study):
    frame = load_results(study)
    changed = tamper(study, nrmse=float(frame["nrmse"].iloc[0]) * (1 + 1e-12))
    assert verdicts(verify(study, device="cpu"))[changed] == "different"


def test_a_changed_record_of_another_machine_is_different(study):
    value = float(load_results(study)["rmse"].iloc[0])
    changed = tamper(study, rmse=value * 1.01, torch_version="2.0.0", cpu=None)
    result = verify(study, device="cpu")
    assert verdicts(result)[changed] == "different"
    assert any("torch_version: 2.0.0 recorded" in note for note in result.notes)
    assert any("Not recorded: cpu" in note for note in result.notes)


def test_another_precision_allows_for_the_difference_between_random_seeds(study):
    value = float(load_results(study)["rmse"].iloc[0])
    changed = tamper(study, rmse=value * 1.0001, precision="tf32", device="cuda:0", gpu="NVIDIA H200")
    result = verify(study, device="cpu")
    row = result.table.set_index("key").loc[changed]
    assert row["verdict"] == "within noise"
    assert row["noise"] > 1e-4 * value
    assert any("gpu: NVIDIA H200 recorded, none here" in note for note in result.notes)


def test_noise_is_that_of_other_random_seeds(study, monkeypatch):
    drawn = []
    spreads = verifying._spreads
    monkeypatch.setattr(verifying, "_spreads", lambda row, others: drawn.append([row, *others]) or spreads(row, others))
    tamper(study, precision="bfloat16", rmse=0.5)
    verify(study, device="cpu")
    (rows,) = drawn
    assert len({row["rmse"] for row in rows}) == verifying.NOISE.n_seeds + 1


def test_further_random_seeds_are_verified(tmp_path):
    plan = tiny_plan(datasets=["sk_diabetes"], training=TRAINING, methods=["Std"], sizes=[], n_seeds=2)
    run(plan, tmp_path, device="cpu")
    assert verify(tmp_path, device="cpu").counts["equal"] == 4


def test_a_machine_that_is_not_deterministic_is_given_its_noise(study, monkeypatch):
    """Two trainings that differ from each other are no evidence against a record that differs from both."""
    value = float(load_results(study)["rmse"].iloc[0])
    changed = tamper(study, rmse=value * (1 + 1e-7))
    monkeypatch.setattr(verifying._Retraining, "_is_deterministic", lambda *_: False)
    assert verdicts(verify(study, device="cpu"))[changed] == "within noise"


def test_the_sample_follows_its_random_seed(study):
    drawn = [set(verify(study, sample=2, random_seed=seed, device="cpu").table["key"]) for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len({frozenset(each) for each in drawn}) > 1
    assert all(len(each) == 2 for each in drawn)


def test_linear_models_are_verified(tmp_path):
    run(tiny_plan(datasets=["sk_diabetes"], backbones=["linear"], methods=["PLE"]), tmp_path)
    assert verify(tmp_path).counts["equal"] == 2
    tamper(tmp_path, rmse=1.0)
    assert verify(tmp_path).counts["different"] == 1


def test_a_table_that_is_missing_or_changed_is_named(tmp_path):
    table = tmp_path / "flats.csv"
    frame = pd.DataFrame({"area": range(60), "rent": [3.0 * i + i % 7 for i in range(60)]})
    frame.to_csv(table, index=False)
    files = [{"path": str(table), "target": "rent"}]
    run(tiny_plan(datasets=[], tables=files, methods=["Std"], sizes=[]), tmp_path / "out", device="cpu")
    assert verify(tmp_path / "out", device="cpu").agrees
    frame.iloc[:-1].to_csv(table, index=False)
    changed = verify(tmp_path / "out", device="cpu")
    assert set(changed.table["reason"]) == {"data set 'flats' has changed since it was recorded"}
    table.unlink()
    missing = verify(tmp_path / "out", device="cpu")
    assert missing.counts["not retrained"] == 2
    assert not missing.agrees
    assert "flats.csv" in missing.table["reason"][0]


def test_a_missing_lightgbm_is_named(study, monkeypatch):
    from knotwork.study import _prepared

    shutil.rmtree(study / "prepared")
    error = "Traceback (most recent call last):\nMissingPackageError: placement='lgbm' needs the package lightgbm."
    monkeypatch.setattr(_prepared, "_fit_missing", lambda data, missing, **_: dict.fromkeys(missing, error))
    result = verify(study, sample=1, device="cpu")
    assert result.counts["not retrained"] == 1
    assert result.table["reason"][0] == "placement='lgbm' needs the package lightgbm."


def test_a_folder_without_its_plan_asks_for_it(study, tmp_path):
    manifest = next((study / "plans").iterdir())
    content = json.loads(manifest.read_text())
    del content["definition"], content["sha256"]
    manifest.write_text(json.dumps(content))
    asked = verify(study, sample=1, device="cpu")
    assert asked.counts["not retrained"] == 1
    assert "--plan" in asked.table["reason"][0]
    given = tiny_plan(datasets=["sk_diabetes"], training=TRAINING)
    assert verify(study, sample=1, device="cpu", plan=given).counts["equal"] == 1


def test_wrong_arguments_are_explained(study, tmp_path):
    with pytest.raises(ArgumentError, match="sk_diabetes"):
        verify(study, only=["sk_iris"])
    with pytest.raises(ArgumentError, match="Its plans: 'tiny'"):
        verify(study, plan="demo")
    with pytest.raises(ArgumentError, match="sample must be"):
        verify(study, sample=0)


def test_the_command_prints_a_table_and_its_exit_status(study):
    good = call(study, "--sample", "2", "--device", "cpu")
    assert good.exit_code == 0, good.output
    assert "2 of 6 records were compared: 2 equal." in good.output
    tamper(study, rmse=60.0)
    bad = call(study, "--device", "cpu")
    assert bad.exit_code == 1
    assert "5 equal, 1 different" in bad.output
    assert "60" in bad.output


def test_the_command_explains_an_unknown_folder(tmp_path):
    missing = call(tmp_path / "nowhere")
    assert missing.exit_code == 1
    assert "nowhere" in missing.output
    (tmp_path / "empty").mkdir()
    empty = call(tmp_path / "empty")
    assert empty.exit_code == 1
    assert "knotwork study run" in empty.output


def test_ctrl_c_keeps_what_was_compared(study, monkeypatch):
    original, calls = trainer.train, []

    def interrupt(*given, **settings):
        calls.append(None)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return original(*given, **settings)

    monkeypatch.setattr(trainer, "train", interrupt)
    before = files(study)
    stopped = call(study, "--device", "cpu", "--alone", "--sample", "3")
    assert stopped.exit_code == 130
    assert "nothing was written" in stopped.output
    assert files(study) == before
