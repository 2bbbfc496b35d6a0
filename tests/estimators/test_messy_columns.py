"""Estimators on columns as people write them: warnings, files, ONNX, importances, and quality."""

import json
from datetime import datetime, timedelta

import numpy as np
import onnxruntime as runtime
import pandas as pd
import pytest

import knotwork as kw
from knotwork.errors import ColumnWarning
from knotwork.nn import MLPConfig

N = 300
SHORT = {"backbone": MLPConfig(widths=(16,)), "device": "cpu", "random_state": 0}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    price = rng.uniform(0.0, 1e4, n)
    return price, pd.DataFrame(
        {
            "Unnamed: 0": np.arange(n),
            "price": [f"{value:,.1f}" for value in price],
            "sold": pd.date_range("2023-01-01", periods=n, freq="37h"),
            "paid": rng.choice(["yes", "no"], n),
            "town": rng.choice(["Ulm", "Bonn"], n),
            "version": "v1",
        }
    )


def fitted(**settings):
    price, X = table()
    model = kw.TabularRegressor("BS-Q@6", training=kw.TrainingConfig(max_epochs=2), **SHORT, **settings)
    with pytest.warns(ColumnWarning) as caught:
        model.fit(X, price + 10.0 * (X["paid"] == "yes"))
    return model, X, [str(warning.message) for warning in caught]


def test_each_unusual_column_has_one_warning_and_all_are_kept():
    model, X, sentences = fitted()
    assert [sentence.split("'")[1] for sentence in sentences] == ["Unnamed: 0", "price", "version"]
    assert tuple(sentences) == model.columns_.warnings
    assert len(model.columns_.notices) == 5
    assert model.columns_.roles == ("ignored", "numerical", "date", "numerical", "categorical", "ignored")
    assert list(model.encoding_[0])[:2] == ["price", "sold (elapsed days)"]
    importances = model.feature_importances_
    assert importances.shape == (6,)
    assert importances[[0, 5]].tolist() == [0.0, 0.0]
    changed = X.assign(version="v2", **{"Unnamed: 0": 7})
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))
    assert (model.predict(X.assign(sold=pd.Timestamp("2023-06-01"))) != model.predict(X)).any()


def test_a_loaded_model_reads_the_same(tmp_path):
    model, X, _ = fitted()
    model.save(tmp_path / "model.knotwork")
    loaded = kw.load(tmp_path / "model.knotwork", device="cpu")
    assert loaded.columns_ == model.columns_
    assert loaded.columns is None
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    _, new = table(50, seed=1)
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))


def test_onnx_takes_the_numbers(tmp_path):
    model, X, _ = fitted()
    with pytest.warns(ColumnWarning, match="leaves the conversion of 'price', 'sold', 'paid' to its caller"):
        model.export_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    given = {"numbers": model.columns_.read(X).numbers, "town": X[["town"]].to_numpy(dtype=object)}
    np.testing.assert_allclose(session.run(None, given)[0], model.predict(X), rtol=1e-3, atol=1e-2)
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    said = {each["label"]: each["conversion"] for each in columns}
    assert said["price"] == "text is a number with the decimal sign '.' and groups of digits by ','"
    assert said["paid"] == "'yes' is 1 and 'no' is 0, in any case"
    assert said["sold"].startswith(
        "the numbers of a date: elapsed days: days since 1970-01-01 00:00 as a decimal number"
    )
    assert "month: sin(2 pi m / 12) and cos(2 pi m / 12) with m = month - 1, from 0 to 11" in said["sold"]
    assert columns[2]["numbers"] == [name for name in model.columns_.numerical_names if name.startswith("sold")]


def test_the_conversions_of_a_date_are_those_of_its_numbers():
    """What the metadata says of dates, by Python's own calendar."""
    moments = [datetime(1969, 12, 31, 18, 30), datetime(2024, 2, 29, 23, 59, 30)]
    X = pd.DataFrame({"sold": pd.to_datetime(moments * 20), "x": np.arange(40.0)})
    columns = kw.TabularRegressor("Std", training=kw.TrainingConfig(max_epochs=1), **SHORT).fit(X, X["x"]).columns_
    given = dict(zip(columns.numerical_names, columns.read(X).numbers[:2].T, strict=True))
    days = [(each - datetime(1970, 1, 1)) / timedelta(days=1) for each in moments]
    angles = {
        "month": [2 * np.pi * (each.month - 1) / 12 for each in moments],
        "weekday": [2 * np.pi * each.weekday() / 7 for each in moments],
        "hour": [2 * np.pi * (each.hour + each.minute / 60 + each.second / 3600) / 24 for each in moments],
        "day of year": [2 * np.pi * (each.timetuple().tm_yday - 1) / 365.25 for each in moments],
    }
    np.testing.assert_allclose(given["sold (elapsed days)"], days, rtol=1e-14)
    np.testing.assert_array_equal(given["sold (year)"], [1969, 2024])
    for part, angle in angles.items():
        np.testing.assert_allclose(given[f"sold ({part}, sine)"], np.sin(angle), atol=1e-12)
        np.testing.assert_allclose(given[f"sold ({part}, cosine)"], np.cos(angle), atol=1e-12)


def test_a_date_has_one_encoding_and_ignored_columns_may_be_named():
    price, X = table()
    encoding = {"sold": "PLE@4", "version": "Std", "price": "BS-Q@6"}
    model = kw.TabularRegressor(encoding, training=kw.TrainingConfig(max_epochs=1), **SHORT)
    with pytest.warns(ColumnWarning):
        model.fit(X, price)
    used = model.encoding_[0]
    assert {str(each) for name, each in used.items() if name.startswith("sold")} == {"PLE@4"}
    assert used["price"] == "BS-Q@6"
    with pytest.raises(ValueError, match="encoding must name numerical columns of X"), pytest.warns(ColumnWarning):
        model.set_params(encoding={"bought": "PLE@4"}).fit(X, price)


def test_dates_are_refused_on_request():
    price, X = table()
    model = kw.TabularRegressor(
        columns=kw.ColumnConfig(dates="error"), training=kw.TrainingConfig(max_epochs=1), **SHORT
    )
    with pytest.raises(TypeError, match="column 'sold' is a date"):
        model.fit(X, price)
    with pytest.raises(ValueError, match="dates must be one of 'features', 'error'"):
        model.set_params(columns__dates="drop")


def test_a_copy_of_the_target_is_named_and_kept():
    price, X = table()
    X = X.drop(columns=["Unnamed: 0", "version", "price"]).assign(copy=np.log1p(price))
    model = kw.TabularRegressor("BS-Q@6", training=kw.TrainingConfig(max_epochs=1), **SHORT)
    with pytest.warns(ColumnWarning, match="column 'copy' determines the target"):
        model.fit(X, price)
    assert model.columns_.roles[-1] == "numerical"


def test_text_that_holds_the_main_predictor_predicts_as_its_numbers_do():
    price, X = table(600)
    y = np.sqrt(price) + 5.0 * (X["paid"] == "yes")
    written = X[["price", "paid"]]
    clean = pd.DataFrame({"price": price.round(1), "paid": X["paid"] == "yes"})
    settings = {"training": kw.TrainingConfig(max_epochs=20), **SHORT}
    with pytest.warns(ColumnWarning, match="column 'price' is text"):
        from_text = kw.TabularRegressor("BS-Q@15", **settings).fit(written[:400], y[:400])
    from_numbers = kw.TabularRegressor("BS-Q@15", **settings).fit(clean[:400], y[:400])
    np.testing.assert_array_equal(from_text.predict(written[400:]), from_numbers.predict(clean[400:]))


def test_an_array_after_a_frame_is_named():
    X = pd.DataFrame({"a": np.linspace(0.0, 1.0, 60), "b": np.linspace(1.0, 0.0, 60) ** 2})
    model = kw.TabularRegressor("Std", training=kw.TrainingConfig(max_epochs=1), **SHORT).fit(X, X["a"] * X["b"])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(model.predict(X.to_numpy()), model.predict(X))
