"""Comparisons from file to recommendation, as calls and as commands."""

import html
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import knotwork as kw
from knotwork._checks import warn_user
from knotwork._cli import app
from knotwork.compare import CompareOptions, compare_table, predict_table
from knotwork.compare import _budget as budget
from knotwork.compare import _explained as explained
from knotwork.compare import _rounds as rounds_of
from knotwork.compare import _run as run
from knotwork.compare import _scoring as scoring
from knotwork.compare._budget import Speed
from knotwork.compare._inputs import read_source
from knotwork.errors import ColumnWarning
from knotwork.estimators import _steps as steps
from knotwork.estimators._base import fitted, settings_of
from knotwork.estimators._steps import combine, prepare, train
from tests.compare.cases import MESSY, draw_nothing, flats, prefer, shorten, write_flats
from tests.report.chromium import CHROMIUM, Browser

pytestmark = pytest.mark.xdist_group("compare")  # one process: a comparison serves several tests


@pytest.fixture
def short(monkeypatch):
    shorten(monkeypatch)


@pytest.fixture
def figureless(short, monkeypatch):
    """For tests that read no page."""
    draw_nothing(monkeypatch)


OPTIONS = CompareOptions(methods=("Std", "BS-Q", "PLE"), sizes=(6, 8), folds=2, time_budget=None)


STD = replace(OPTIONS, methods=("Std",), sizes=None)
SINGLE = replace(STD, effort="single")
NO_EXTENSION = replace(rounds_of.EXTENSIONS, worth=1e9, repetitions=1)
"""The time that is left is not used."""

LIMITED = replace(SINGLE, time_budget=600.0)
"""Minutes, of which nothing takes more than seconds: a busy machine must not change what is compared."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A comparison of numbers with all of its files, and the sentences on its progress."""
    folder, sentences = tmp_path_factory.mktemp("whole"), []
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        settings = {"options": OPTIONS, "device": "cpu", "report": sentences.append}
        return compare_table(write_flats(folder), "rent", out=folder / "a" / "b", **settings), sentences


def words(page):
    """Return the text of a page without tags."""
    return re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8"))


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.parametrize(
    ("target", "effort"),
    [
        ("rent", "balanced"),
        ("cheap", "single"),
        pytest.param("rent", "single", marks=pytest.mark.slow),  # single networks of numbers are in tests below
        pytest.param("cheap", "balanced", marks=pytest.mark.slow),  # as the command below
    ],
)
def test_a_messy_table_ends_in_a_model_that_predicts_new_rows(tmp_path, short, request, target, effort):
    if (target, effort) == ("rent", "balanced"):
        result, sentences = request.getfixturevalue("whole")
    else:
        settings = {"options": replace(OPTIONS, effort=effort), "device": "cpu"}
        path, sentences = write_flats(tmp_path, target=target), []
        result = compare_table(path, target, out=tmp_path / "out", report=sentences.append, **settings)
    encodings = {"Std", "BS-Q@6", "PLE@6", "BS-Q@8", "PLE@8"}
    assert {str(line.candidate) for line in result.ranking.lines if line.kind == "encoding"} == encodings
    kinds = {line.kind for line in result.ranking.lines}
    others = {"ensemble"} if effort == "balanced" else set()
    assert kinds == {"encoding", "linear", "additive", "boosting"} | others
    for line in result.ranking.lines:
        assert line.scored.predictions.shape == ((240,) if target == "rent" else (240, 2))
        assert np.isfinite(line.scored.predictions).all()
    assert "rests on all 240 rows, 2 folds, and networks trained for 3 epochs" in result.evidence
    assert result.banners == ("10 of 10 networks reached the cap of 3 epochs: they might still improve, and the "
                              "ranking change: give a larger --time-budget.",)  # fmt: skip
    assert all(line in "\n".join(result.summary) for line in (result.evidence, *result.banners))
    page = html.unescape(words(result.page)).replace("\N{NO-BREAK SPACE}", " ")
    assert page.index(result.ranking.verdict[1:]) < page.index(result.banners[0]) < page.index("Candidates.")
    assert not result.interrupted
    text = "\n".join(sentences)
    task = "regression" if target == "rent" else "classification"
    for word in (f"Task: {task}", "240 rows", "2 numerical, 1 date, 1 categorical, 3 ignored", "10 networks"):
        assert word in text
    assert "column 'built' is text, such as" in text
    assert "read as dates (year, month, day)" in text
    assert "looks like an identifier" in text
    new = flats(20, seed=9)[list(MESSY)]
    new["town"] = "Atlantis"
    new.to_csv(tmp_path / "new.csv", index=False)
    table = predict_table(result.model_path, tmp_path / "new.csv", out=tmp_path / "p.csv", device="cpu")
    assert len(table) == 20
    again = kw.load(result.model_path, device="cpu")
    assert (again.predict(pd.read_csv(tmp_path / "new.csv")) == table["prediction"].to_numpy()).all()
    if effort == "single":
        assert "the ensemble" not in page
        assert "ensemble" not in "\n".join(result.summary)


def test_an_ensemble_of_few_rows_has_no_row_in_the_ranking(tmp_path, figureless):
    sentences, path = [], write_flats(tmp_path, n=55)
    result = compare_table(path, "rent", out=tmp_path / "out", options=STD, device="cpu", report=sentences.append)
    assert any("The ensemble is not ranked" in line for line in sentences)
    assert "ensemble" not in {line.kind for line in result.ranking.lines}
    assert result.model_path.exists()


def test_ctrl_c_in_the_training_of_the_model_saves_the_best_so_far(tmp_path, figureless, monkeypatch):
    original, sentences = steps.train_spread, []

    def stop(report):
        if report.epoch == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        steps, "train_spread", lambda *given, **settings: original(*given, **{**settings, "report": stop})
    )
    path, settings = write_flats(tmp_path), {"options": STD, "device": "cpu", "report": sentences.append}
    result = compare_table(path, "rent", out=tmp_path / "out", **settings)
    assert not result.interrupted
    assert "stopped early by the time limit or by Ctrl-C" in sentences[-1]
    assert result.saved.startswith(f"The saved model is the recommended one, {result.ranking.chosen.name}")
    assert kw.load(result.model_path, device="cpu").predict(flats(5)[list(MESSY)]).shape == (5,)


def test_the_ensemble_is_scored_on_the_rows_of_the_comparison(tmp_path, figureless, monkeypatch):
    source = read_source(write_flats(tmp_path, n=400), "rent")
    monkeypatch.setattr(
        run, "unlimited_schedule", lambda *args, **kw: replace(budget.unlimited_schedule(*args, **kw), n_rows=300)
    )
    result = compare_table(tmp_path / "flats.csv", "rent", out=tmp_path / "out", options=STD, device="cpu")
    [row] = [line.scored for line in result.ranking.lines if line.kind == "ensemble"]
    again = kw.TabularRegressor(random_state=0, device="cpu")
    with pytest.warns(ColumnWarning):
        preparation = prepare(settings_of(again), source.features, source.labels)
    fitted(again, combine(preparation, train(preparation, 0.0)))
    compared = source.draw(300, seed=0).features.index
    assert (result.compared.features.index == compared).all()
    n_folds, predicted = preparation.plan.n_folds, np.full(400, np.nan)
    for fold, split in enumerate(preparation.prepared.splits):  # each network by hand, on the rows it has not seen
        rows = split.valid
        outputs = np.stack(again.trained_.outputs(preparation.table.numbers[rows], preparation.table.codes[rows]))
        weights = again.weights_[fold::n_folds] / again.weights_[fold::n_folds].sum()
        predicted[rows] = weights @ outputs[fold::n_folds, :, 0]
    np.testing.assert_allclose(row.predictions, predicted[compared])
    assert row.n_parameters > 1000
    assert row.n_trained == pytest.approx(400 * (n_folds - 1) / n_folds, abs=1)
    assert "others on 150" in " ".join(result.ranking.sentences)  # two folds of 300 rows


def test_files_of_a_comparison(whole):
    result, _ = whole
    folder = result.page.parent
    assert (folder.parent.name, folder.name) == ("a", "b")
    ranking = pd.read_csv(folder / "ranking.csv")
    folds = pd.read_csv(folder / "folds.csv")
    assert ranking["rmse_mean"].is_monotonic_increasing
    assert ranking["recommended"].sum() == 1
    assert len(folds) == len(ranking) * 2
    assert set(ranking["kind"]) == {"encoding", "linear", "additive", "boosting", "ensemble"}
    means = folds.groupby("encoding")["rmse"].mean()
    np.testing.assert_allclose(means[ranking["encoding"]], ranking["rmse_mean"])
    page = words(result.page)
    for word in ("Which model for flats.csv?", "corrected resampled t-test", "LightGBM", "area", "PLE@8"):
        assert word in page
    source = result.page.read_text(encoding="utf-8")
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", source)  # the page needs no other file


@pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")
def test_the_page_fits_a_phone(whole):
    with Browser(whole[0].page, width=390) as opened:
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not opened.problems


def test_the_seed_decides(tmp_path, figureless):
    path, means = write_flats(tmp_path), []
    for seed in (0, 0, 1):
        options = replace(SINGLE, seed=seed)
        result = compare_table(path, "rent", out=tmp_path / "out", options=options, device="cpu")
        means.append(result.ranking.encoding.mean)
    assert means[0] == means[1] != means[2]


def test_a_plan_is_reported_before_training(tmp_path, figureless, monkeypatch):
    sentences = []

    def measured(source, candidates, **_):  # a slow machine: what is planned does not hang on the speed of this one
        steps = dict.fromkeys((7, 15), (0.0, 0.2))
        return Speed(steps, dict.fromkeys(candidates, 1e-6), dict.fromkeys((7, 15), 0.0))

    monkeypatch.setattr(run, "measure_speed", measured)
    rule = replace(budget.SCHEDULED, good_rows=300, small_rows=200, good_epochs=3, fewest_epochs=1)
    monkeypatch.setattr(budget, "SCHEDULED", rule)
    monkeypatch.setattr(rounds_of, "EXTENSIONS", replace(NO_EXTENSION, safe=0.0))
    path = write_flats(tmp_path, n=2_000)
    options = CompareOptions(time_budget=2_000.0, drop=("listing", "built"))
    result = compare_table(path, "rent", out=tmp_path / "out", options=options, device="cpu", report=sentences.append)
    text = "\n".join(sentences)
    assert f"on {result.schedule.n_rows} of 2000 rows, drawn at random" in text
    assert result.schedule.n_rows < 2_000
    assert text.index("To be compared") < text.index("Time: at most") < text.index("Compared ")
    assert "Skipped because time is short" in text


@pytest.fixture
def sampled(figureless, monkeypatch):
    """Comparisons of 100 rows."""
    monkeypatch.setattr(
        run, "make_schedule", lambda *args, **kw: replace(budget.make_schedule(*args, **kw), n_rows=100)
    )
    monkeypatch.setattr(rounds_of, "EXTENSIONS", NO_EXTENSION)


def test_the_ensemble_uses_as_many_rows_as_time_allows(tmp_path, sampled, monkeypatch):
    monkeypatch.setattr(run, "refit_rows", lambda n_rows, **_: n_rows // 2)
    sentences, options = [], replace(LIMITED, effort="fast")
    compare_table(write_flats(tmp_path), "rent", out=tmp_path / "out", options=options, report=sentences.append)
    assert any("Ensemble: " in line and "trained on 120 of 240 rows" in line for line in sentences)


@pytest.mark.parametrize("kind", ["linear", "boosting", "encoding"])
@pytest.mark.parametrize("is_short", [False, True])
def test_the_recommended_model_is_trained_on_all_rows_if_time_allows(tmp_path, sampled, monkeypatch, kind, is_short):
    prefer(monkeypatch, kind)
    if is_short:
        monkeypatch.setattr(run.ComparisonRun, "_seconds_again", lambda *given: np.inf)
    result = compare_table(write_flats(tmp_path), "rent", out=tmp_path / "out", options=LIMITED, device="cpu")
    rows = "100 of 240 rows, because time was short" if is_short else "all 240 rows"
    assert f"{result.ranking.chosen.name}, trained on {rows}" in result.saved
    assert result.ranking.chosen.kind == kind
    loaded = kw.load(result.model_path, device="cpu")
    new = flats(9, seed=1)[list(MESSY)]
    np.testing.assert_array_equal(loaded.predict(new), result.model.predict(new))


def interrupt_on(monkeypatch, call):
    original, calls = scoring.train, []

    def stop(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(scoring, "train", stop)


def test_ctrl_c_reports_the_finished_candidates(tmp_path, short, monkeypatch):
    interrupt_on(monkeypatch, 2)
    path, out = write_flats(tmp_path), tmp_path / "out"
    result = command(
        "compare", path, "--target", "rent", "--methods", "Std,BS-Q", "--sizes", "6,8", "--folds", 2,
        "--time-budget", 0, "--out", out,
    )  # fmt: skip
    assert result.exit_code == 130
    assert "Recommendation" in result.output
    assert "BS-Q@6" in result.output
    assert "Traceback" not in result.output
    said = "Ctrl-C ended the comparison early: the ranking is of what was trained until then. The saved model is the"
    text = " ".join(result.output.split())
    assert text.count("Ctrl-C ended") == text.count(said) == 1
    assert "no model was saved" not in text
    assert said in html.unescape(words(out / "report.html")).replace("\N{NO-BREAK SPACE}", " ")
    assert kw.load(out / "model.knotwork", device="cpu").predict(flats(5)[list(MESSY)]).shape == (5,)
    ranking = pd.read_csv(out / "ranking.csv")
    assert set(ranking[ranking["kind"] == "encoding"]["encoding"]) == {"Std", "BS-Q@6"}


def test_ctrl_c_in_the_last_step_is_told_once(tmp_path, figureless, monkeypatch):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.ComparisonRun, "_chosen_model", stop)
    result = compare_table(write_flats(tmp_path), "rent", out=tmp_path / "out", options=SINGLE, device="cpu")
    assert (result.interrupted, result.model, result.model_path) == (True, None, None)
    assert "\n".join(result.summary).count("no model was saved") == 1
    assert "saved model" not in "\n".join(result.summary)
    assert not (tmp_path / "out" / "model.knotwork").exists()


def test_ctrl_c_in_the_page_of_the_model_leaves_the_rest(tmp_path, short, monkeypatch):
    def stop(*given, **about):
        raise KeyboardInterrupt

    monkeypatch.setattr(explained, "report_text", stop)
    result = compare_table(write_flats(tmp_path), "rent", out=tmp_path / "out", options=SINGLE, device="cpu")
    assert (result.interrupted, result.model_page) == (True, None)
    assert result.model_path.exists()
    assert not (tmp_path / "out" / "model.html").exists()
    page = words(result.page)
    assert "Interrupted" in page
    assert "before the page of the model was written" in page
    assert "Page of the model" not in "\n".join(result.summary)


def test_ctrl_c_before_anything_was_compared(tmp_path, short, monkeypatch):
    def stop(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds_of, "score_baselines", stop)
    result = command(
        "compare", write_flats(tmp_path), "--target", "rent", "--time-budget", 0, "--out", tmp_path / "out"
    )
    assert result.exit_code == 130
    assert "Interrupted before the first result" in result.output


def test_commands_from_table_to_predictions(tmp_path, short):
    path, out = write_flats(tmp_path, target="cheap"), tmp_path / "out"
    result = command(
        "compare", path, "--target", "cheap", "--methods", "Std,PLE@6", "--folds", 3, "--time-budget", 0, "--out", out,
        "--drop", "listing", "--drop", "built", "--seed", 3,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    for word in ("Task: classification", "log loss", "Recommendation:", "Report:", "knotwork predict", "recommended"):
        assert word in result.output
    model = out / "model.knotwork"
    good = command("predict", model, path, "--out", tmp_path / "p.parquet", "--drop", "built")
    assert good.exit_code == 0, good.output
    assert "Warning: Columns that the model does not know are ignored: 'listing'." in good.output
    assert "Compared with the column 'cheap' in 240 of 240 rows: AUC" in good.output
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert list(table) == ["prediction", "probability_no", "probability_yes"]
    np.testing.assert_allclose(table[["probability_no", "probability_yes"]].sum(axis=1), 1.0)
    assert set(table["prediction"]) <= {"no", "yes"}


def test_missing_and_unknown_columns(tmp_path, whole):
    model = whole[0].model_path
    frame = flats(30)[list(MESSY)]
    frame.drop(columns="area").assign(extra=1).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(ValueError, match="odd.csv does not have 'area': add them, empty if unknown"):
        predict_table(model, tmp_path / "odd.csv", out=tmp_path / "p.csv")
    frame.to_csv(tmp_path / "good.csv", index=False)
    with pytest.raises(ValueError, match="out must end in one of '.csv', '.parquet'"):
        predict_table(model, tmp_path / "good.csv", out=tmp_path / "p.xlsx")
    with pytest.raises(ValueError, match="out must be in a folder that exists"):
        predict_table(model, tmp_path / "good.csv", out=tmp_path / "none" / "p.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "rnet"), "Did you mean 'rent'"),
        (("--target", "constant"), "has the same value in all 240 rows"),
        (("--target", "rent", "--methods", "BS"), "method must be a valid name"),
        (("--target", "rent", "--sizes", "7,x"), "sizes must be whole numbers"),
        (("--target", "rent", "--folds", 1), "folds must be an integer of at least 2"),
        (("--target", "rent", "--backbone", "cnn"), "backbone must be one of"),
        (("--target", "rent", "--effort", "most"), "effort must be one of 'fast', 'balanced', 'best', 'single'"),
        (("--target", "rent", "--task", "ranking"), "task must be one of"),
        (("--target", "rent", "--time-budget", -1), "time_budget must be larger than 0"),
        (("--target", "rent", "--drop", "aera"), "'area'"),
    ],
)
def test_errors_are_explained(tmp_path, arguments, message):
    result = command("compare", write_flats(tmp_path), *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", [os.fsdecode(b"b\xe4d"), "x" * 260])
def test_folders_that_cannot_be_used_are_refused_before_the_work(tmp_path, monkeypatch, name):
    monkeypatch.setattr(run.ComparisonRun, "_validate", lambda *given: pytest.fail("work was done"))
    result = command("compare", write_flats(tmp_path), "--target", "rent", "--out", tmp_path / name)
    assert result.exit_code == 1
    assert ("File name too long" if name[0] == "x" else "out must have a name in UTF-8") in result.output


def test_warnings_of_a_fit_are_sentences_of_the_comparison(tmp_path, figureless, monkeypatch):
    prepared = run.prepared_rows
    monkeypatch.setattr(run, "prepared_rows", lambda *given, **about: warn_user("Mind.") or prepared(*given, **about))
    sentences, path = [], write_flats(tmp_path, n=100)
    compare_table(path, "rent", out=tmp_path / "out", options=STD, device="cpu", report=sentences.append)
    assert "Warning: Mind." in sentences


def test_a_full_disk_is_noticed_before_the_work_and_named(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    result = command("compare", write_flats(tmp_path), "--target", "rent", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert "model.knotwork" in result.output


def test_a_table_whose_name_is_not_utf_8(tmp_path, figureless):
    path = write_flats(tmp_path, name="plain.csv").rename(tmp_path / os.fsdecode(b"b\xe4d.csv"))
    result = command("compare", path, "--target", "rent", "--methods", "Std", "--folds", 2, "--time-budget", 0,
                     "--effort", "single", "--out", tmp_path / "out")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert r"b\udce4d.csv: 240 rows" in result.output


@pytest.mark.slow  # a process of its own
def test_letters_that_the_terminal_cannot_show_are_escaped(tmp_path):
    code = "import sys; sys.stdout.reconfigure(encoding='ascii'); from knotwork._cli import app; app()"
    arguments = ["--target", "rent", "--methods", "Std", "--folds", 2, "--time-budget", 5, "--effort", "single"]
    done = subprocess.run(
        [sys.executable, "-c", code, "compare", write_flats(tmp_path), *map(str, arguments), "--out", tmp_path / "oä"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert r"o\xe4" in done.stdout


def test_missing_files(tmp_path):
    result = command("predict", tmp_path / "none.knotwork", write_flats(tmp_path))
    assert result.exit_code == 1
    assert "model must be a file that exists" in result.output
    result = command("compare", tmp_path / "flat.csv", "--target", "rent")
    assert result.exit_code == 1
    assert "table must be a file that exists" in result.output
    assert "Did you mean 'flats.csv'" in result.output


def test_a_table_without_numbers(tmp_path):
    pd.DataFrame({"c": ["a", "b"] * 40, "y": np.arange(80) / 3}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="no numerical feature"):
        compare_table(tmp_path / "t.csv", "y", out=tmp_path / "out")


def test_a_wide_table_is_compared_with_fewer_columns_and_fitted_with_all_if_time_allows(tmp_path, short, monkeypatch):
    share = {"column_share": 0.5, "final_share": 0.5, "n_rows": 240}
    monkeypatch.setattr(run, "make_schedule", lambda *args, **kw: replace(budget.make_schedule(*args, **kw), **share))
    monkeypatch.setattr(rounds_of, "EXTENSIONS", NO_EXTENSION)
    result = compare_table(write_flats(tmp_path), "rent", out=tmp_path / "out", options=LIMITED, device="cpu")
    assert "with 6 of 7 features" in result.evidence
    assert list(result.model.feature_names_in_) == list(MESSY)
    assert result.page.exists()


def test_importances_that_would_take_too_long_are_skipped(tmp_path, figureless, monkeypatch):
    prefer(monkeypatch, "boosting")  # an additive model has them from its fit
    monkeypatch.setattr(run, "REMAINING", replace(run.REMAINING, importances=0.0))
    monkeypatch.setattr(rounds_of, "EXTENSIONS", replace(rounds_of.EXTENSIONS, repetitions=1))
    sentences = []
    path = write_flats(tmp_path)
    result = compare_table(path, "rent", out=tmp_path / "out", options=LIMITED, device="cpu", report=sentences.append)
    assert any("Importances of columns are skipped" in line for line in sentences)
    assert len(kw.load(result.model_path, device="cpu").predict(flats(5)[list(MESSY)])) == 5


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, ("mlp", "balanced")), ({"backbone": "resnet"}, ("resnet", "single")),
     ({"backbone": "mlp", "effort": "fast"}, ("mlp", "fast")), ({"effort": "best"}, ("mlp", "best"))],
)  # fmt: skip
def test_a_backbone_without_an_effort_is_saved_as_a_single_network(given, expected):
    options = CompareOptions(**given)
    assert (options.backbone, options.effort) == expected
    assert replace(options, folds=3).effort == expected[1]
