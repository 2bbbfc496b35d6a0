"""The comparison with other libraries: fits, resumed runs, ratios, and pages that agree with the results."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import knotwork as kw
from knotwork.datasets import Dataset

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "quality"


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def small(task):
    """Return a table with categories, missing values, and three classes or numbers."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "signal": rng.uniform(-2, 3, 300),
            "holes": np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300)),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], 300),
        }
    )
    frame["target"] = np.sin(4 * frame["signal"]) + (frame["town"] == "Ulm")
    if task == "classification":
        frame["target"] = np.digitize(frame["target"], [-0.2, 0.8]).astype(str)
    return Dataset("small", frame, "target", task, ("signal", "holes"), ("town",), sha256="")


def result(table, model, fold, error, **more):
    """Return a line of the results of regression."""
    device = "2 CPU cores" if model in ("lightgbm", "xgboost", "catboost") else "NVIDIA H200"
    line = {"table": table, "task": "regression", "model": model, "fold": fold, "score": error, "seconds": 1.0}
    return {**line, "predict_seconds": 0.1, "device": device, "alone": False, **more}


def written(folder, lines):
    """Write lines into the files of their models."""
    from quality_data import append

    for line in lines:
        append(folder, line)
    return folder


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_our_models_are_the_estimators(task, monkeypatch):
    import quality
    from quality_data import folds_of, score

    seen = {}

    class Estimator:
        def __init__(self, **parameters):
            seen["parameters"] = parameters

        def fit(self, rows, target):
            seen["index"], self.shares = list(rows.index), np.bincount(np.digitize(target, [0.5, 1.5])) / len(target)
            return self

        def predict(self, rows):
            return np.nan_to_num(rows["signal"].to_numpy())

        def predict_proba(self, rows):
            return np.column_stack([np.linspace(0, share, len(rows)) for share in self.shares])

    monkeypatch.setattr(kw, "TabularRegressor" if task == "regression" else "TabularClassifier", Estimator)
    fold = folds_of(small(task))[1]
    line = quality.measure(quality.Job("small", "fast", 1, "cpu", alone=True), fold)
    assert seen["parameters"] == {"effort": "fast", "random_state": fold.split.seed, "device": "cpu"}
    assert seen["index"] == [*fold.split.train, *fold.split.valid]
    model, (frame, target) = Estimator().fit(*fold.rows("train+valid")), fold.rows("test")
    predict = model.predict if task == "regression" else model.predict_proba
    assert line["score"] == score(task, target, predict(frame))
    assert (line["fold"], line["alone"], line["versions"]["knotwork"]) == (1, True, kw.__version__)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("model", ["lightgbm", "rtdl_ple"])
def test_peers_predict_better_than_a_constant(model, task):
    import quality
    from quality_data import folds_of

    data = small(task)
    frame = data.frame.assign(holes=data.frame["holes"].fillna(0.0))  # rtdl_num_embeddings takes no missing values
    fold = folds_of(Dataset("small", frame, "target", task, data.numerical, data.categorical, sha256=""))[0]
    reached = quality.measure(quality.Job("small", model, 0, "cpu", alone=False), fold)["score"]
    assert reached < 0.95 if task == "regression" else reached > 0.6


def test_scores_are_those_of_scikit_learn():
    from quality_data import score

    rng = np.random.default_rng(0)
    target, shares = rng.integers(3, size=200), rng.dirichlet(np.ones(3), size=200)
    wanted = metrics.roc_auc_score(target, shares, multi_class="ovr", average="weighted")
    assert score("classification", target, shares) == pytest.approx(wanted)
    numbers, predicted = rng.normal(size=(2, 200))
    wanted = np.sqrt(1 - metrics.r2_score(numbers, predicted))
    assert score("regression", numbers, predicted) == pytest.approx(wanted)


def test_a_run_fits_what_is_missing_and_reports_failures(tmp_path, monkeypatch, capsys):
    import quality

    fitted = []

    def measure(job, fold):
        fitted.append((job.table, job.fold))
        if job.table == "bad":
            raise ValueError("no such rows")
        return result(job.table, job.model, job.fold, 0.5, alone=job.alone)

    monkeypatch.setattr(quality, "measure", measure)
    monkeypatch.setattr(quality, "load_fold", lambda table, fold: None)
    jobs = [quality.Job(table, "lightgbm", fold, "cpu", alone=False) for table in ("a", "bad") for fold in (0, 1)]
    assert quality.run(tmp_path, jobs[:1], 1) == 0
    assert quality.run(tmp_path, jobs, 1) == 2
    assert fitted == [("a", 0), ("a", 1), ("bad", 0), ("bad", 1)]
    assert "no such rows" in capsys.readouterr().err
    assert len((tmp_path / "lightgbm.jsonl").read_text().splitlines()) == 2
    fitted.clear()
    alone = [quality.Job("a", "lightgbm", fold, "cpu", alone=True) for fold in (0, 1)]
    assert quality.run(tmp_path, alone, 1) == 0
    assert fitted == [("a", 0), ("a", 0), ("a", 1)]  # the first one twice, to compile


def test_a_result_of_a_gpu_does_not_replace_one_of_a_cpu():
    import quality

    line = result("a", "balanced", 0, 0.5)
    assert quality.Job("a", "balanced", 0, "cuda", alone=False).is_done_by(line)
    assert not quality.Job("a", "balanced", 0, "cpu", alone=False).is_done_by(line)
    assert not quality.Job("a", "balanced", 0, "cuda", alone=True).is_done_by(line)
    assert not quality.Job("a", "balanced", 0, "cuda", alone=False).is_done_by({**line, "source": "peers"})
    assert quality.Job("a", "lightgbm", 0, "cuda", alone=False).is_done_by(result("a", "lightgbm", 0, 0.5))


def test_models_without_their_library_are_named(monkeypatch, capsys):
    import quality

    monkeypatch.setattr(quality, "PEERS", {"lightgbm": SimpleNamespace(package="lightgbm", is_installed=False)})
    options = SimpleNamespace(models=["lightgbm", "fast"], folds=[0], tables=["a"], device="cpu", alone=False)
    assert [job.model for job in quality.plan(options)] == ["fast"]
    assert capsys.readouterr().out == "lightgbm is skipped: lightgbm is not installed.\n"


def test_results_of_other_machines_give_way_to_ours(tmp_path):
    import quality
    from quality_table import read

    written(tmp_path, [result("a", "catboost", 0, 0.3)])
    path = tmp_path / "peers.csv"
    rows = [("a", "catboost", 0, 0.9), ("a", "tabm", 0, 0.4), ("a", "tabm", 1, 0.5)]
    lines = [f"{table},regression,{model},{fold},{score},7.0" for table, model, fold, score in rows]
    path.write_text("\n".join(["table,task,model,fold,score,seconds", *lines]))
    quality.import_peers(tmp_path, path)
    quality.import_peers(tmp_path, path)
    written(tmp_path, [result("a", "tabm", 1, 0.45), result("a", "tabm", 1, 0.46, alone=True)])
    written(tmp_path, [result("a", "tabm", 1, 0.47)])
    imported = [json.loads(line) for line in (tmp_path / "tabm.jsonl").read_text().splitlines()][:2]
    assert [line["source"] for line in imported] == ["peers", "peers"]
    frame = read(tmp_path).sort_values(["model", "fold"])
    assert frame["error"].tolist() == [0.3, 0.4, 0.46]


def test_ratios_are_what_they_should_be(tmp_path):
    from quality_table import Ratio, read

    errors = {"a": (0.5, 1.0), "b": (0.2, 0.8), "c": (0.6, 0.6)}
    lines = [
        result(table, model, fold, error)
        for table, both in errors.items()
        for model, error in zip(("balanced", "tabm"), both, strict=True)
        for fold in (0, 1)
    ]
    lines += [result("a", "tabm", 2, 9.0), result("d", "tabm", 0, 9.0)]  # which the other one does not have
    ratio = Ratio.of(read(written(tmp_path, lines)), "balanced", "tabm")
    assert ratio.ratios.round(9).tolist() == [0.5, 0.25, 1.0]
    assert (ratio.median[0], ratio.wins, ratio.losses) == (0.5, 2, 0)
    half = 4.302652730 * np.log(2) / np.sqrt(3)  # t with two degrees of freedom; logarithms are -2, -1, 0 times log 2
    assert ratio.mean == pytest.approx([0.5, 0.5 * np.exp(-half), 0.5 * np.exp(half)])


def test_an_auc_of_one_is_a_very_small_error(tmp_path):
    from quality_table import Ratio, read

    lines = [
        result(table, model, 0, 1.0, task="classification") for table in ("a", "b") for model in ("balanced", "tabm")
    ]
    frame = read(written(tmp_path, lines))
    assert frame["error"].tolist() == [1e-6] * 4
    assert Ratio.of(frame, "balanced", "tabm").ratios.tolist() == [1.0, 1.0]


@pytest.fixture
def complete(tmp_path):
    """Return results of all models in closed form: ours is worse than the best of the others on one table only."""
    from quality_data import EFFORTS, TABLES
    from quality_peers import PEERS

    errors = {**{peer: 0.5 + 0.01 * place for place, peer in enumerate(PEERS)}, **dict.fromkeys(EFFORTS, 0.4)}
    lines = [
        result(table, model, fold, 0.6 if (table, model) == ("sulfur", "balanced") else error + 0.001 * fold)
        for model, error in errors.items()
        for table in TABLES
        for fold in (0, 1, 2)
    ]
    lines += [result("sulfur", model, 0, 0.5, alone=True, seconds=2.0) for model in ("tabm", "fast")]
    lines += [result("eeg", "tabm", 0, 0.5, alone=True, seconds=9.0)]
    lines += [result(table, "fast", 0, 0.45, device="2 CPU cores") for table in TABLES]
    return written(tmp_path, lines)


def test_the_page_has_ranks_losses_and_seconds(complete):
    from quality_table import page, read

    text = page(read(complete))
    assert "Means over 25 tables (folds 0, 1, 2)." in text
    said = " ".join(text.split())
    assert '`"balanced"` has the least error on 24 of 25 tables.' in said
    assert "sulfur (+19.8 %; 0.6000, LightGBM 0.5010)" in said
    assert '| `"balanced"` / TabM-D | 25 tables (folds 0, 1, 2) | 0.755 (0.755 to 0.755) |' in text  # 0.401 / 0.531
    assert "| median of 1 tables | 2.0 | 2.0 |" in text  # only sulfur was measured alone for both
    cores = text.split("### Two cores")[1]
    assert '| `"fast"` / LightGBM | 25 tables (fold 0) | 0.900 (0.900 to 0.900) |' in cores
    assert "TabM-D" not in cores.split("Means over")[0]


def test_models_with_few_results_are_not_ranked(tmp_path, complete):
    from quality_table import page, read

    lines = [json.loads(line) for line in (complete / "best.jsonl").read_text().splitlines()]
    (complete / "best.jsonl").write_text("\n".join(map(json.dumps, lines[:9])) + "\n")
    text = page(read(complete))
    assert 'Not ranked, for want of results: `"best"` (3 tables).' in " ".join(text.split())
    assert '| `"best"` / TabM-D | 3 tables (folds 0, 1, 2) |' in text


def test_committed_results_are_of_known_tables_and_models():
    from quality import MODELS
    from quality_data import FOLDS, TABLES, read_lines

    lines = list(read_lines(RESULTS))
    assert len(TABLES) == 25
    for line in lines:
        assert line["table"] in TABLES
        assert line["model"] in MODELS
        assert line["fold"] in range(FOLDS)
        assert 0 < line["score"] < (1.0 + 1e-12 if line["task"] == "classification" else 2.0)
    keys = ("table", "model", "fold", "device", "alone", "source")
    assert not pd.DataFrame([[line.get(key, "") for key in keys] for line in lines]).duplicated().any()


def test_pages_say_what_the_results_say():
    from quality_table import SECTIONS, read, section_of

    frame = read(RESULTS)
    for name, content in SECTIONS.items():
        section = section_of((ROOT / name).read_text(encoding="utf-8"))[1]
        assert section == content(frame), f"{name} does not agree with the results: run make quality"
