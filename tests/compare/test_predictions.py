"""Predictions for files: the file of the training, scores, warnings, intervals, formats, and what is written."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score, root_mean_squared_error
from typer.testing import CliRunner

import knotwork as kw
from knotwork._cli import app
from knotwork.compare import predict_table
from knotwork.datasets import TextFormat
from knotwork.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # a column determines the target


SETTINGS = {"training": kw.TrainingConfig(max_epochs=3), "random_state": 0, "device": "cpu"}


def table(n=120):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"area": random.uniform(20, 90, n), "town": random.choice(["Köln", "Ulm"], n)})
    return frame.assign(rent=7 * frame["area"], kind=np.where(frame["area"] > 50, "=large", "small"))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the files of a regressor and of a classifier."""
    folder, frame = tmp_path_factory.mktemp("models"), table()
    features = frame[["area", "town"]]
    kw.TabularRegressor("BS-Q@6", "mlp", **SETTINGS).fit(features, frame["rent"]).save(folder / "rent.knotwork")
    kw.TabularClassifier("BS-Q@6", "mlp", **SETTINGS).fit(features, frame["kind"]).save(folder / "kind.knotwork")
    kw.TabularRegressor("BS-Q@6", "mlp", **SETTINGS).fit(features, frame["rent"].to_numpy()).save(
        folder / "unnamed.knotwork"
    )
    return folder


def predict(model, path, **settings):
    sentences = []
    out = settings.pop("out", path.with_name("p.csv"))
    predictions = predict_table(model, path, out=out, device="cpu", report=sentences.append, **settings)
    return predictions, sentences


def write(frame, path, **settings):
    frame.to_csv(path, index=False, **settings)
    return path


def test_the_file_of_the_training_is_scored(models, tmp_path):
    frame = table().drop(columns="kind")
    predictions, sentences = predict(models / "rent.knotwork", write(frame, tmp_path / "t.csv"))
    rmse = root_mean_squared_error(frame["rent"], predictions["prediction"])
    r2 = r2_score(frame["rent"], predictions["prediction"])
    assert sentences[0].startswith("Compared with the column 'rent' in 120 of 120 rows: ")
    assert f"RMSE {rmse:.4g}" in sentences[0]
    assert f"R² {r2:.4g}" in sentences[0]
    new, nothing = predict(models / "rent.knotwork", write(frame.drop(columns="rent"), tmp_path / "new.csv"))
    assert nothing == []
    pd.testing.assert_frame_equal(new, predictions)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(("model", "settings"), [("rent", {"coverage": 0.5}), ("kind", {})])
def test_a_large_parquet_file_is_predicted_in_parts(models, tmp_path, monkeypatch, suffix, model, settings):
    frame = table().assign(unknown=1).drop(columns={"rent": "kind", "kind": "rent"}[model])
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=25)
    path, name = tmp_path / "t.parquet", models / f"{model}.knotwork"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        whole = predict(name, path, out=tmp_path / f"w{suffix}", **settings)
        monkeypatch.setattr("knotwork._predictions.PART_ROWS", 32)
        parts = predict(name, path, out=tmp_path / f"p{suffix}", **settings)
        number = predict(name, path, out=tmp_path / f"n{suffix}", keep=False, **settings)
    assert sum("ignored: 'unknown'" in str(each.message) for each in warned) == 3
    pd.testing.assert_frame_equal(parts[0], whole[0])
    assert number == (120, whole[1])
    assert parts[1] == whole[1] != []
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}[suffix]
    pd.testing.assert_frame_equal(read(tmp_path / f"p{suffix}"), read(tmp_path / f"w{suffix}"))
    pd.testing.assert_frame_equal(read(tmp_path / f"n{suffix}"), read(tmp_path / f"w{suffix}"))


def test_classes_are_scored_where_they_are_known(models, tmp_path):
    frame = table().drop(columns="rent")
    frame.loc[:9, "kind"] = None
    frame.loc[10:14, "kind"] = "huge"
    predictions, sentences = predict(models / "kind.knotwork", write(frame, tmp_path / "t.csv"))
    known, guessed = frame["kind"][15:], predictions[15:]
    assert "in 105 of 120 rows" in sentences[0]
    assert f"accuracy {accuracy_score(known, guessed['prediction']):.4g}" in sentences[0]
    assert f"AUC {roc_auc_score(known == 'small', guessed['probability_small']):.4g}" in sentences[0]


def test_a_model_without_the_name_of_its_target(models, tmp_path):
    path = write(table().drop(columns="kind"), tmp_path / "t.csv")
    with pytest.warns(UserWarning, match="the model does not know are ignored: 'rent'"):
        assert predict(models / "unnamed.knotwork", path)[1] == []
    assert "RMSE" in predict(models / "unnamed.knotwork", path, target="rent")[1][0]
    with pytest.raises(ArgumentError, match="target must name a column of t.csv"):
        predict(models / "unnamed.knotwork", path, target="rnet")
    assert predict(models / "rent.knotwork", path, drop=("rent",))[1] == []


def test_a_target_of_text_cannot_be_compared_with_numbers(models, tmp_path):
    path = write(table().drop(columns="kind").assign(rent="much"), tmp_path / "t.csv")
    assert predict(models / "rent.knotwork", path)[1] == [
        "The column 'rent' is ignored: predictions cannot be compared with it."
    ]


def test_the_format_of_a_text_file(models, tmp_path):
    frame = table().drop(columns="kind")
    expected, _ = predict(models / "rent.knotwork", write(frame, tmp_path / "t.csv"))
    path = write(frame, tmp_path / "other.csv", sep=";", decimal=",", encoding="cp1252")
    predictions, sentences = predict(models / "rent.knotwork", path)
    pd.testing.assert_frame_equal(predictions, expected)
    assert "separated by ';', decimal comma, encoding cp1252" in sentences[0]
    odd = write(frame, tmp_path / "odd.csv", sep="~", encoding="cp437")
    predictions, _ = predict(models / "rent.knotwork", odd, text=TextFormat(sep="~", encoding="cp437"))
    pd.testing.assert_frame_equal(predictions, expected)


def test_a_spreadsheet_sees_no_formula(models, tmp_path):
    path = write(table()[["area", "town"]], tmp_path / "t.csv")
    predict(models / "kind.knotwork", path)
    assert "\n=large," in (tmp_path / "p.csv").read_text()
    predictions, _ = predict(models / "kind.knotwork", path, spreadsheet_safe=True)
    written = (tmp_path / "p.csv").read_text()
    assert "\n'=large," in written
    assert "\n=" not in written
    assert "=large" in set(predictions["prediction"])  # only the file is changed
    with pytest.raises(ArgumentError, match="spreadsheet_safe must be False for a .parquet file"):
        predict(models / "kind.knotwork", path, spreadsheet_safe=True, out=tmp_path / "p.parquet")


def test_intervals(models, tmp_path):
    path = write(table()[["area", "town"]], tmp_path / "t.csv")
    with pytest.raises(ArgumentError, match="coverage must be omitted for classes"):
        predict(models / "kind.knotwork", path, coverage=0.9)

    predictions, _ = predict(models / "rent.knotwork", path, coverage=0.5, out=tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), predictions)
    assert list(predictions) == ["prediction", "lower", "upper"]
    ends = kw.load(models / "rent.knotwork", device="cpu").predict_interval(table()[["area", "town"]], coverage=0.5)
    np.testing.assert_allclose(predictions[["lower", "upper"]], ends, rtol=1e-5)
    assert (predictions["lower"] < predictions["upper"]).all()


def test_the_command(models, tmp_path):
    path = write(table(), tmp_path / "t.csv", sep="~")
    arguments = [
        "predict",
        models / "rent.knotwork",
        path,
        "--sep",
        "~",
        "--out",
        tmp_path / "p.csv",
        "--target",
        "rent",
    ]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    for sentence in ("separated by '~'", "Warning: Columns that the model does not know are ignored: 'kind'.", "RMSE",
                     "120 rows predicted"):  # fmt: skip
        assert sentence in result.output
    assert len(pd.read_csv(tmp_path / "p.csv")) == 120


def test_a_wrong_path_needs_neither_torch_nor_pandas(tmp_path):
    code = (
        "import sys; from knotwork._cli import app\n"
        f"try: app(['compare', {str(tmp_path / 'none.csv')!r}, '--target', 'y'])\n"
        "except SystemExit as end: print(end.code, {'torch', 'pandas', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "1 set()"


def test_a_table_or_a_model_is_not_overwritten(models, tmp_path):
    path = tmp_path / "flats.csv"
    table().to_csv(path, index=False)
    content = path.read_bytes()
    done = CliRunner().invoke(app, ["predict", str(models / "rent.knotwork"), str(path), "--out", str(path)])
    assert done.exit_code == 1
    assert "out must be another file than the table" in done.output
    assert path.read_bytes() == content
    linked = tmp_path / "linked.csv"
    linked.symlink_to(models / "rent.knotwork")
    with pytest.raises(ArgumentError, match="another file than the model"):
        predict_table(models / "rent.knotwork", path, out=linked)


def test_a_folder_is_no_table(models, tmp_path):
    done = CliRunner().invoke(app, ["predict", str(models / "rent.knotwork"), str(tmp_path)])
    assert "table must be a file, not a folder" in done.output
