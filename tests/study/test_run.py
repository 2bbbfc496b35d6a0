"""A run records every network once, reproducibly, and failures do not affect other networks."""

import errno
import io
import json
import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from knotwork.datasets import load_dataset
from knotwork.encoders import Encoding
from knotwork.errors import ArgumentError
from knotwork.study import _trainer as trainer
from knotwork.study import load_histories, load_results, run
from knotwork.study._records import RecordWarning
from knotwork.study._status import study_status
from knotwork.study._trainer import UnitTrainer
from tests.study.cases import comparable, many_units, tiny_plan


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which the tiny plan was run, not to be changed."""
    out = tmp_path_factory.mktemp("finished")
    return out, run(tiny_plan(), out, device="cpu")


def n_rows_on_disk(out):
    return sum(len(pd.read_parquet(path)) for path in (out / "records").glob("*.parquet"))


def test_every_network_has_a_row(finished):
    out, summary = finished
    frame = load_results(out)
    assert (summary.n_ok, summary.n_failed, summary.n_before) == (6, 0, 0)
    assert len(frame) == 6
    assert set(frame["status"]) == {"ok"}
    assert set(zip(frame["method"], frame["fold"], strict=True)) == {
        (method, fold) for method in ("Std", "BS-Q", "IS-Grad-U") for fold in (0, 1)
    }
    assert frame.loc[frame["method"] == "Std", "size"].isna().all()
    assert (frame["seed"] == 42 + frame["fold"]).all()
    assert frame[["auc", "log_loss", "accuracy", "brier"]].notna().all(axis=None)
    assert frame[["nrmse", "rmse", "mae", "r2", "tokens", "error"]].isna().all(axis=None)
    assert frame.groupby("method")["knots_moved"].all().to_dict() == {"Std": False, "BS-Q": False, "IS-Grad-U": True}


def test_parameters_are_those_of_the_network_alone(finished):
    frame = load_results(finished[0]).drop_duplicates("method").set_index("method")
    flat = {"Std": 4, "BS-Q": 20, "IS-Grad-U": 20}
    knots = {"Std": 0, "BS-Q": 0, "IS-Grad-U": 4 * (5 - 3)}
    for method, width in flat.items():
        assert frame.loc[method, "n_parameters"] == (width * 8 + 8) + (8 * 3 + 3) + knots[method]


def test_methods_with_frequencies_and_embeddings(tmp_path):
    methods = ["Std", "Robust", "Std+L3", "PLE-Q+LR3x", "PLR", "PBLD", "IS-Grad-U+x"]
    run(tiny_plan(methods=methods), tmp_path, device="cpu")
    frame = load_results(tmp_path)
    assert set(frame["status"]) == {"ok"}
    assert set(frame["method"]) == set(methods)
    assert frame.loc[~frame["method"].isin(["Std", "Robust", "Std+L3"]), "size"].eq(5).all()
    n_parameters = frame.drop_duplicates("method").set_index("method")["n_parameters"].astype(int)
    # For each of 4 features: numbers that enter the MLP, then parameters of the encoding and its embedding.
    expected = {"Std": (1, 0), "Robust": (1, 0), "Std+L3": (3, 6), "PLE-Q+LR3x": (4, 18), "PLR": (16, 3 + 96),
                "PBLD": (4, 10 + 18), "IS-Grad-U+x": (6, 2)}  # fmt: skip
    for method, (width, inside) in expected.items():
        assert n_parameters[method] == (4 * width * 8 + 8) + (8 * 3 + 3) + 4 * inside, method
    assert run(tiny_plan(methods=methods), tmp_path, device="cpu").n_before == len(frame)


def test_nrmse_is_rmse_over_the_deviation_of_the_test_target(tmp_path):
    plan = tiny_plan(datasets=["sk_diabetes"], methods=["Std"], sizes=[])
    run(plan, tmp_path, device="cpu")
    frame = load_results(tmp_path).set_index("fold")
    y = load_dataset("sk_diabetes").target_values()
    for fold, (_, test) in enumerate(KFold(2, shuffle=True, random_state=42).split(y)):
        row = frame.loc[fold]
        np.testing.assert_allclose(row["nrmse"] * np.std(y[test]), row["rmse"], rtol=1e-12)
        np.testing.assert_allclose(1.0 - row["nrmse"] ** 2, row["r2"], rtol=1e-9)
        np.testing.assert_allclose([row["target_mean"], row["target_range"]], [y[test].mean(), np.ptp(y[test])])
    by_range = tmp_path / "range"
    run(replace(plan, nrmse_by="range"), by_range, device="cpu")
    other = load_results(by_range).set_index("fold")
    np.testing.assert_allclose(other["nrmse"], frame["rmse"] / frame["target_range"])


def test_the_same_plan_gives_the_same_scores(finished, tmp_path):
    run(tiny_plan(), tmp_path, device="cpu")
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path)), comparable(load_results(finished[0])))


def test_a_second_run_reports_nothing_to_do(finished, monkeypatch):
    out, _ = finished
    monkeypatch.setattr(UnitTrainer, "results", lambda *args: pytest.fail("trained again"))
    sentences = []
    summary = run(tiny_plan(), out, report=sentences.append)
    assert (summary.n_ok, summary.n_failed, summary.n_before) == (0, 0, 6)
    assert any("Nothing to do" in sentence for sentence in sentences)


def test_only_some_data_sets_are_trained_in_the_order_asked_for(tmp_path):
    plan, sentences = tiny_plan(datasets=["sk_iris", "sk_wine", "sk_breast_cancer"], training={"max_epochs": 1}), []
    run(plan, tmp_path, device="cpu", report=sentences.append, only=["sk_wine", "sk_iris"])
    trained = [sentence.split()[1] for sentence in sentences if sentence.startswith("[")]
    assert trained == ["sk_wine,", "sk_iris,"]
    assert set(load_results(tmp_path)["dataset"]) == {"sk_iris", "sk_wine"}
    with pytest.raises(ArgumentError, match="only must be one of"):
        run(plan, tmp_path, only=["iris"])


def test_another_method_is_all_that_is_trained(finished, tmp_path):
    run(tiny_plan(), tmp_path, device="cpu")
    more = tiny_plan(methods=["Std", "BS-Q", "IS-Grad-U", "PLE"])
    assert run(more, tmp_path, device="cpu").n_ok == 2
    frame = load_results(tmp_path)
    assert len(frame) == 8
    kept = comparable(frame[frame["method"] != "PLE"])
    pd.testing.assert_frame_equal(kept, comparable(load_results(finished[0])))
    assert len(load_results(tmp_path, tiny_plan().plan_hash)) == 6


def test_further_seeds_are_trained_beside_the_first(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    first = load_results(tmp_path)
    summary = run(tiny_plan(n_seeds=2), tmp_path, device="cpu")
    assert (summary.n_ok, summary.n_before) == (6, 6)
    frame = load_results(tmp_path)
    assert len(frame) == 12
    scores = frame.pivot_table(index=["method", "fold"], columns=frame["seed"] - frame["fold"], values="log_loss")
    assert list(scores.columns) == [42, 44]
    assert (scores[42] != scores[44]).all()
    assert sorted(first["key"]) == sorted(frame.loc[frame["seed"] - frame["fold"] == 42, "key"])


def test_networks_with_other_settings_are_superseded(tmp_path):
    plan = tiny_plan(methods=["Std"], sizes=[])
    run(plan, tmp_path, device="cpu")
    longer = replace(plan, training=replace(plan.config, max_epochs=5))
    assert run(longer, tmp_path, device="cpu").n_ok == 2
    frame = load_results(tmp_path)
    assert list(frame["epochs"]) == [5, 5]
    assert list(load_results(tmp_path, plan.plan_hash)["epochs"]) == [3, 3]
    run(replace(plan, name="other", split="holdout"), tmp_path, device="cpu")
    assert len(load_results(tmp_path)) == 4, "another plan supersedes nothing"


def test_networks_trained_alone_score_as_those_trained_together(tmp_path):
    quiet = {"name": "mlp", "widths": [8], "dropout": 0.0}
    plan = tiny_plan(backbones=[quiet])
    run(plan, tmp_path, device="cpu")
    run(replace(plan, together=False), tmp_path, device="cpu")
    frame = load_results(tmp_path).sort_values(["method", "fold"])
    assert len(frame) == 12
    alone, together = frame[~frame["together"]], frame[frame["together"]]
    np.testing.assert_allclose(alone["log_loss"], together["log_loss"], rtol=1e-4)
    assert len(list((tmp_path / "records").glob("*.parquet"))) == 7


@pytest.mark.parametrize("categories", ["embedding", "code", "mixed"])
def test_categories_of_a_users_table(tmp_path, categories):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=60), "c": ["rare", *random.choice(list("ab"), 59)]})
    frame["y"] = frame["x"] + (frame["c"] == "a")
    frame.to_csv(tmp_path / "user.csv", index=False)
    table = {"path": str(tmp_path / "user.csv"), "target": "y"}
    backbones = [{"name": "mlp", "widths": [8]}, {"name": "ft", "d_token": 8, "n_blocks": 1, "n_heads": 2}]
    backbones.append({"name": "realmlp", "widths": [8]})
    settings = {"backbones": backbones, "methods": ["BS-Q"], "categories": categories}
    plan = tiny_plan(datasets=[], tables=[table], **settings)
    assert run(plan, tmp_path / "out", device="cpu").n_ok == 6
    sentences = []
    frame.assign(x=frame["x"] * 2).to_csv(tmp_path / "user.csv", index=False)
    assert run(plan, tmp_path / "out", device="cpu", report=sentences.append).n_ok == 6
    assert any("has changed" in sentence for sentence in sentences)
    assert load_results(tmp_path / "out")["data_sha256"].nunique() == 1


def test_a_method_that_raises_fails_alone_and_is_retried_on_request(finished, tmp_path, monkeypatch):
    original = Encoding.encoder

    def broken(encoding, **options):
        if encoding.method == "BS-Q":
            raise RuntimeError("no knots today")
        return original(encoding, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Encoding, "encoder", broken)
        summary = run(tiny_plan(), tmp_path, device="cpu")
        assert (summary.n_ok, summary.n_failed) == (4, 2)
        again = run(tiny_plan(), tmp_path, device="cpu", retry_failed=True)
        assert (again.n_ok, again.n_failed) == (0, 2)
    failed = load_results(tmp_path).query("status == 'failed'")
    assert list(failed["method"]) == ["BS-Q"] * 2
    assert failed["error"].str.contains("RuntimeError: no knots today").all()
    assert failed["log_loss"].isna().all()
    assert run(tiny_plan(), tmp_path, device="cpu").n_ok == 0
    assert run(tiny_plan(), tmp_path, device="cpu", retry_failed=True).n_ok == 2
    ours, theirs = comparable(load_results(tmp_path)), comparable(load_results(finished[0]))
    np.testing.assert_allclose(ours["log_loss"], theirs["log_loss"], rtol=1e-4)
    assert set(ours["status"]) == {"ok"}


def test_a_method_that_raises_in_one_fold_fails_there_alone(tmp_path, monkeypatch):
    from knotwork.encoders import SplineEncoder

    original = SplineEncoder.fit_column

    def broken(self, column, target, *, seed):
        if self.family == "bspline" and seed == 43 + 3:  # the fourth column of the second fold
            raise RuntimeError("no knots here")
        return original(self, column, target, seed=seed)

    monkeypatch.setattr(SplineEncoder, "fit_column", broken)
    summary = run(tiny_plan(), tmp_path, device="cpu")
    assert (summary.n_ok, summary.n_failed) == (5, 1)
    failed = load_results(tmp_path).query("status == 'failed'")
    assert list(zip(failed["method"], failed["fold"], strict=True)) == [("BS-Q", 1)]


def write_tables(folder):
    """Write two tables, and return a plan with both."""
    random = np.random.default_rng(0)
    for name in ("one", "two"):
        x = random.normal(size=60)
        pd.DataFrame({"x": x, "y": x + random.normal(size=60)}).to_csv(folder / f"{name}.csv", index=False)
    tables = [{"path": str(folder / f"{name}.csv"), "target": "y"} for name in ("one", "two")]
    return tiny_plan(datasets=[], tables=tables, methods=["Std", "BS-Q"])


def test_a_file_that_changes_while_the_plan_runs_is_skipped(tmp_path):
    plan = write_tables(tmp_path)
    sentences = []

    def change(sentence):
        sentences.append(sentence)
        if sentence.startswith("Training "):
            frame = pd.read_csv(tmp_path / "one.csv")
            frame.assign(x=frame["x"] * 2).to_csv(tmp_path / "one.csv", index=False)

    summary = run(plan, tmp_path / "out", device="cpu", report=change)
    assert (summary.n_ok, summary.n_failed) == (4, 0)
    assert "has changed while the plan was running" in summary.unavailable["one"]
    assert sum("is skipped" in sentence for sentence in sentences) == 1
    assert set(load_results(tmp_path / "out")["dataset"]) == {"two"}
    assert run(plan, tmp_path / "out", device="cpu").n_ok == 4
    assert not list((tmp_path / "out" / "locks").iterdir())


def test_results_of_an_older_version_are_trained_again_and_kept(finished, tmp_path, monkeypatch):
    run(tiny_plan(), tmp_path, device="cpu")
    monkeypatch.setattr("knotwork.study._networks.RECORD_VERSION", 99)
    assert run(tiny_plan(), tmp_path, device="cpu").n_ok == 6
    assert n_rows_on_disk(tmp_path) == 12
    ours, theirs = (comparable(load_results(out)).drop(columns=["key", "stack"]) for out in (tmp_path, finished[0]))
    order = ["method", "fold"]
    pd.testing.assert_frame_equal(
        ours.sort_values(order, ignore_index=True), theirs.sort_values(order, ignore_index=True)
    )


@pytest.mark.parametrize("content", [b"", b"[]", b'{"plan": "old"}', b"\xff"])
def test_status_ignores_invalid_manifests(tmp_path, content):
    run(tiny_plan(methods=["Std"], sizes=[]), tmp_path, device="cpu")
    (tmp_path / "plans" / "other.json").write_bytes(content)
    assert [status.plan for status in study_status(tmp_path)] == ["tiny"]


def test_training_that_raises_fails_for_the_culprit_only(tmp_path, monkeypatch):
    from knotwork.study import _trainer as trainer

    original = trainer.train

    def broken(table, members, *args, **kwargs):
        if any(member.learnable for member in members):
            raise RuntimeError("kernel refused")
        return original(table, members, *args, **kwargs)

    monkeypatch.setattr(trainer, "train", broken)
    summary = run(tiny_plan(), tmp_path, device="cpu")
    assert (summary.n_ok, summary.n_failed) == (4, 2)
    frame = load_results(tmp_path).set_index("method")
    assert set(frame.loc["IS-Grad-U", "status"]) == {"failed"}
    assert frame.loc["IS-Grad-U", "error"].str.contains("kernel refused").all()


def test_an_unavailable_data_set_does_not_stop_the_others(tmp_path):
    missing = {"path": str(tmp_path / "gone.csv"), "target": "y"}
    sentences = []
    summary = run(tiny_plan(tables=[missing]), tmp_path / "out", device="cpu", report=sentences.append)
    assert summary.n_ok == 6
    assert list(summary.unavailable) == ["gone"]
    assert any("gone" in sentence for sentence in sentences)


@pytest.mark.parametrize("device", ["gpu", "cuda:7"])
def test_an_unavailable_device_raises_an_error_and_records_no_failures(tmp_path, device):
    with pytest.raises(ArgumentError, match="device must be"):
        run(tiny_plan(), tmp_path / "out", device=device)
    assert not (tmp_path / "out").exists()


def test_a_deleted_data_set_stays_in_the_manifest(tmp_path):
    path, out = tmp_path / "mine.csv", tmp_path / "out"
    load_dataset("sk_diabetes").frame.to_csv(path, index=False)
    plan = tiny_plan(tables=[{"path": str(path), "target": "target"}], methods=["Std"], sizes=[])
    assert run(plan, out, device="cpu").n_ok == 4
    path.unlink()
    sentences = []
    assert run(plan, out, device="cpu", report=sentences.append).n_networks == 2
    assert sentences[-1] == "Nothing to do: all 2 networks on the available data sets are recorded."
    assert len(load_results(out, plan.plan_hash)) == 4
    assert [(each.n_networks, each.n_ok) for each in study_status(out)] == [(4, 4)]

    alone = tiny_plan(datasets=[], tables=[{"path": str(path), "target": "target"}], methods=["Std"], sizes=[])
    run(alone, out, device="cpu", report=sentences.append)
    assert sentences[-1] == "Nothing can be trained: no data set of 'tiny' could be loaded."


@pytest.mark.parametrize("where", ["record", "prepared"])
def test_a_full_disk_raises_an_error_and_leaves_no_partial_files(tmp_path, monkeypatch, where):
    from knotwork import _files as files

    def full(table, file, **kwargs):
        file.write(b"PAR1 and then no more")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if where == "record":
            patch.setattr("knotwork.study._folder.pq.write_table", full)
        else:
            patch.setattr(files.os, "fsync", lambda number: full(None, io.BytesIO()))
        with pytest.raises(OSError, match="No space left") as caught:
            run(tiny_plan(), tmp_path, device="cpu")
    assert caught.value.errno == errno.ENOSPC
    assert "run again" in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".tmp", ".lock", ".parquet")]
    assert run(tiny_plan(), tmp_path, device="cpu").n_ok == 6


@pytest.mark.parametrize("damage", ["truncated", "altered", "empty", "foreign"])
def test_a_damaged_record_is_reported_and_made_again(tmp_path, damage):
    run(many_units(), tmp_path, device="cpu")
    complete = comparable(load_results(tmp_path))
    path = sorted((tmp_path / "records").glob("*.parquet"))[2]
    content = path.read_bytes()
    if damage == "foreign":
        pd.DataFrame({"a": [1]}).to_parquet(path)
    else:
        middle = len(content) // 3
        torn = {"truncated": content[:-20], "empty": b""}
        altered = (
            content[:middle] + bytes(255 - byte for byte in content[middle : middle + 40]) + content[middle + 40 :]
        )
        path.write_bytes(torn.get(damage, altered))
    with pytest.warns(RecordWarning, match=path.name):
        assert len(load_results(tmp_path)) < len(complete)
    sentences = []
    summary = run(many_units(), tmp_path, device="cpu", report=sentences.append)
    assert summary.n_ok == 4 + 2 * ("-4-" in path.name)
    assert any(path.name in sentence for sentence in sentences)
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path)), complete)


def test_ctrl_c_records_nothing_of_the_unit(tmp_path, monkeypatch):
    from knotwork.study import _trainer as trainer

    original = trainer.train

    def interrupted(*args, **kwargs):
        return replace(original(*args, **kwargs), interrupted=True)

    monkeypatch.setattr(trainer, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tiny_plan(), tmp_path, device="cpu")
    assert not list((tmp_path / "records").glob("*"))
    assert not list((tmp_path / "locks").glob("*.lock"))


def test_status_counts_and_estimates(tmp_path):
    run(many_units(), tmp_path, device="cpu")
    status = study_status(tmp_path)[-1]
    assert (status.n_networks, status.n_ok, status.n_failed, status.remaining) == (20, 20, 0, 0.0)
    frame = load_results(tmp_path)
    victim = frame.query("backbone == 'narrow' and size == 5")
    for path in (tmp_path / "records").glob("*-narrow-5-*"):
        path.unlink()
    (tmp_path / "records.parquet").unlink()
    status = study_status(tmp_path)[-1]
    assert status.n_ok == 20 - len(victim) == 16
    rest = frame.drop(victim.index).query("backbone == 'narrow'")
    per_row = (rest["train_seconds"] + rest["prepare_seconds"]).sum() / rest["n_rows"].sum()
    np.testing.assert_allclose(status.remaining, 4 * 150 * per_row)
    plans = json.loads(next((tmp_path / "plans").glob("*.json")).read_text())
    assert plans["plan_hash"] == many_units().plan_hash


def variant(name, **training):
    return {"name": name, "training": training}


def test_variants_of_the_learning_rate_share_a_stack_and_change_no_other(tmp_path, monkeypatch):
    """Scores are those of the same variant alone; a variant of the knots leaves fixed knots where they are."""
    variants = [variant("slow"), variant("fast", learning_rate=0.1), variant("close", knot_spacing=1e-4)]
    stacks = []
    original = trainer.train

    def train(table, members, *args, **options):
        trained = original(table, members, *args, **options)
        stacks.extend(sorted(piece.places) for piece in trained.pieces)
        return trained

    monkeypatch.setattr(trainer, "train", train)
    plan = tiny_plan(methods=["BS-Q", "BS-Grad-U"], variants=variants)
    run(plan, tmp_path / "all", device="cpu")
    assert sorted(map(len, stacks)) == [2, 10], "only learned knots with another spacing are apart"
    together = load_results(tmp_path / "all").set_index(["variant", "method", "fold"]).sort_index()
    assert together.loc["slow", "log_loss"].ne(together.loc["fast", "log_loss"]).all()
    moved = together.loc["slow", "log_loss"] - together.loc["close", "log_loss"]
    assert (moved.loc["BS-Q"].abs() < 1e-5).all()
    for each in variants:
        run(tiny_plan(methods=plan.methods, variants=[each]), tmp_path / each["name"], device="cpu")
        alone = load_results(tmp_path / each["name"]).set_index(["variant", "method", "fold"]).sort_index()
        both = together.loc[[each["name"]]]
        np.testing.assert_allclose(alone["log_loss"], both["log_loss"], rtol=1e-4)  # sums in another order
        assert (alone["key"] == both["key"]).all()


def test_a_run_by_fold_gives_the_same_records_and_leaves_complete_folds(finished, tmp_path):
    names = []
    plan = tiny_plan()
    run(plan, tmp_path, device="cpu", by_fold=True, report=names.append)
    assert [name for name in names if name.startswith("[")] == [
        f"[{fold + 1}/2] sk_iris, mlp, size 5, fold {fold}: 3 networks" for fold in (0, 1)
    ]
    both = [comparable(load_results(out)).set_index("key") for out in (tmp_path, finished[0])]
    np.testing.assert_allclose(both[0]["log_loss"], both[1]["log_loss"], rtol=1e-4)  # sums in another order
    assert run(plan, tmp_path, device="cpu").n_before == plan.n_networks


def test_the_validation_score_is_that_of_the_best_epoch(finished):
    frame = load_results(finished[0]).set_index("key")
    histories = load_histories(finished[0]).set_index(["key", "epoch"])
    scores = histories["score"].loc[list(zip(frame.index, frame["best_epoch"], strict=True))].to_numpy()
    np.testing.assert_allclose(frame["valid_score"], scores, rtol=1e-6)
    assert (histories["score"].groupby(level=0).min().loc[frame.index].to_numpy() == scores).all()


def test_single_networks_are_timed_fold_by_fold():
    from knotwork.study._networks import DataIdentity, expand, group_units

    plan = tiny_plan(datasets=["sk_wine", "sk_iris"], together=False)
    data = DataIdentity("0" * 64, "y", "classification", ("x",), (), 100)
    networks = [network for name in plan.names for network in expand(plan, name, data)]
    units = group_units(networks, sizes=plan.sizes, together=False)
    order = [(unit.dataset, unit.networks[0].fold) for unit in units]
    assert order == [("sk_wine", 0)] * 3 + [("sk_wine", 1)] * 3 + [("sk_iris", 0)] * 3 + [("sk_iris", 1)] * 3


def test_variants_of_smoothness_share_a_stack_and_change_splines_only(tmp_path):
    column = load_dataset("sk_iris").numerical[0]
    variants = [
        {"name": name, "training": {"smoothness": each}} for name, each in (("all", 9.0), ("one", {column: 9.0}))
    ]
    plan = tiny_plan(methods=["Std", "BS-Q"], variants=[{"name": "none", "training": {"smoothness": 0.0}}, *variants])
    assert type(plan).from_mapping(plan.to_mapping()).plan_hash == plan.plan_hash
    run(plan, tmp_path, device="cpu")
    frame = load_results(tmp_path)
    losses = frame.pivot_table("log_loss", ["method", "fold"], "variant")
    assert (frame["status"] == "ok").all()
    assert (losses.loc["BS-Q"].nunique(axis=1) == 3).all()
    np.testing.assert_allclose(losses.loc["Std"]["all"], losses.loc["Std"]["none"], rtol=1e-6)


def test_one_bar_shows_all_networks(tmp_path):
    reports, opened = [], []

    @contextmanager
    def bar():
        opened.append(1)
        yield reports.append

    run(many_units(), tmp_path, device="cpu", progress=bar)
    assert opened == [1]
    shares = [report.done for report in reports]
    assert shares == sorted(shares)
    assert 0.0 < shares[0] < 0.25
    assert shares[-1] == pytest.approx(1.0)
    assert {(report.stack, report.n_stacks) for report in reports} == {(unit, 4) for unit in range(4)}
