"""Difficult inputs: a correct result, or an error that names the column and the next step."""

import datetime
import decimal
import fractions

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import knotwork as kw
from tests.encoders.cases import FIXED

RANDOM = np.random.default_rng(0)
GOOD = RANDOM.normal(size=60)


def frame(bad, **more):
    return pd.DataFrame({"good": GOOD[: len(bad)], "bad": bad} | more)


REFUSED = {
    "text": (frame(["a", "b"]), "column 'bad' is text"),
    "numbers as text": (frame(["1.5", "2"]), "column 'bad' is text"),
    "one word among numbers": (frame([1.0, "x"]), "column 'bad' holds 'x'"),
    "dates": (frame(pd.to_datetime(["2020-01-01", "2021-01-01"])), "column 'bad' is a date"),
    "dates with a zone": (frame(pd.to_datetime(["2020-01-01", "2021-01-01"], utc=True)), "column 'bad' is a date"),
    "durations": (frame(pd.to_timedelta([1, 2], unit="D")), "column 'bad' is a duration"),
    "categories": (frame(pd.Categorical(["a", "b"])), "column 'bad' is categorical"),
    "categories of numbers": (frame(pd.Categorical([1, 2])), "column 'bad' is categorical"),
    "complex numbers": (frame([1 + 2j, 3j]), "column 'bad' holds"),
    "lists": (frame([[1, 2], [3]]), "column 'bad' holds"),
    "dictionaries": (frame([{"a": 1}, {}]), "column 'bad' holds"),
    "too large an integer": (frame([10**400, 1]), "column 'bad' holds 1000"),
    "infinity": (frame([1.0, np.inf]), "column 'bad' contains infinity in 1 row"),
    "minus infinity": (frame([1.0, -np.inf]), "column 'bad' contains infinity"),
    "infinity in object": (frame(np.array([1.0, np.inf], dtype=object)), "column 'bad' contains infinity"),
    "polars text": (pl.DataFrame({"bad": ["a", "b"]}), "column 'bad' is text"),
    "polars lists": (pl.DataFrame({"bad": [[1], [2]]}), "column 'bad' holds lists"),
    "polars records": (pl.DataFrame({"bad": [{"a": 1}, {"a": 2}]}), "column 'bad' holds records"),
    "polars dates": (pl.DataFrame({"bad": [datetime.date(2020, 1, 1)] * 2}), "column 'bad' is a date"),
    "polars times": (pl.DataFrame({"bad": [datetime.time(1, 2)] * 2}), "column 'bad' is a time of day"),
    "polars lazy frame": (pl.LazyFrame({"a": [1.0, 2.0]}), "Call .collect()"),
    "polars bytes": (pl.DataFrame({"bad": [b"a", b"b"]}), "column 'bad' holds bytes"),
    "pyarrow text": (pa.table({"bad": ["a", "b"]}), "column 'bad' is text"),
    "pyarrow dictionary": (pa.table({"bad": pa.array(["a", "b"]).dictionary_encode()}), "column 'bad' is categorical"),
    "repeated names": (pd.DataFrame(np.eye(2), columns=["bad", "bad"]), "occur more than once: 'bad'"),
    "array of text": (np.array([["a"], ["b"]]), "column 0 holds text"),
    "array of dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "column 0 holds dates"),
    "array of objects": (np.array([[1.0], [object()]], dtype=object), "column 0 holds <object"),
    "array with infinity": (np.array([[1.0, np.inf], [2.0, 3.0]]), "column 1 contains infinity"),
    "array of complex numbers": (np.array([[1j], [2j]]), "Complex data not supported"),
    "list of text": ([["1", "2"]], "column 0 holds text"),
    "ragged list": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    "one dimension": (GOOD, "Reshape your data"),
    "three dimensions": (np.zeros((2, 2, 2)), "dim 3"),
    "a number": (3.0, "Reshape your data"),
    "a series": (pd.Series(GOOD), "2-dimensional"),
    "nothing": (None, "numeric|NoneType|Expected 2D"),
    "a string": ("table.csv", "Expected 2D array"),
    "no rows": (np.empty((0, 2)), "0 sample"),
    "no columns": (np.empty((5, 0)), "0 feature"),
    "frame without rows": (pd.DataFrame({"a": np.empty(0)}), "0 sample"),
    "frame without columns": (pd.DataFrame(index=[0, 1]), "0 feature|0 sample"),
    "sparse matrix": (sparse.csr_array(np.eye(3)), "toarray"),
    "empty iterator": (iter([]), "at least one batch"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("encoder", [kw.SplineEncoder(), kw.ScalarEncoder()], ids=["spline", "scalar"])
def test_refused_with_the_column_and_the_next_step(name, encoder):
    table, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(").replace(")", r"\)")):
        encoder.fit(table)


ACCEPTED = {
    "constant": np.full(60, 7.0),
    "zeros": np.zeros(60),
    "two values": np.tile([0.0, 1.0], 30),
    "all missing": np.full(60, np.nan),
    "all None": [None] * 60,
    "one value": [3.0] + [np.nan] * 59,
    "booleans": np.tile([True, False], 30),
    "nullable booleans": pd.array([True, None, False] * 20, dtype="boolean"),
    "nullable integers": pd.array([1, None, 3] * 20, dtype="Int64"),
    "arrow integers": pd.array([1, None, 3] * 20, dtype="int64[pyarrow]"),
    "small integers": np.arange(60, dtype=np.int8),
    "large unsigned integers": np.arange(60, dtype=np.uint64) + 2**63,
    "half precision": GOOD.astype(np.float16),
    "decimals": [decimal.Decimal(i) / 3 for i in range(60)],
    "fractions": [fractions.Fraction(i, 7) for i in range(60)],
    "objects that are numbers": np.array([1, 2.5, True] * 20, dtype=object),
    "None among objects": np.array([1, None, 2.5] * 20, dtype=object),
    "pandas NA among objects": np.array([1, pd.NA, 2.5] * 20, dtype=object),
    "90 % zeros": np.where(np.arange(60) % 10, 0.0, GOOD),
    "outlier": np.concatenate((GOOD[:59], [1e300])),
    "largest numbers": np.finfo(float).max * np.tile([1.0, -1.0], 30),
    "smallest numbers": 5e-324 * np.arange(60),
    "scale 1e-300": 1e-300 * GOOD,
    "scale 1e300": 1e300 * GOOD / np.abs(GOOD).max(),
    "negative zero": np.tile([0.0, -0.0], 30),
    "rounding noise": 1.0 + 1e-15 * GOOD,
    "sorted": np.sort(GOOD),
    "heavy ties": np.repeat([1.0, 2.0, 3.0], 20),
    "heavy tail": np.exp(10 * GOOD),
}


def check_accepted(table, method):
    encoded = kw.make_encoder(method, 6).fit(table, GOOD).transform(table)
    assert encoded.shape[0] == 60
    assert np.isfinite(encoded).all()
    if method.startswith(("BS", "IS", "PLE", "MinMax")):
        assert encoded.min() >= 0.0
        assert encoded.max() <= 1.0 + 1e-6


PERIODS = "ignore:A column of cyclic splines has the whole numbers:UserWarning"
"""Minutes without a period are warned of; everything else is a failure."""


@pytest.mark.filterwarnings(PERIODS)
@pytest.mark.parametrize("method", FIXED)
def test_accepted_side_by_side_without_warnings(method):
    check_accepted(frame(GOOD, **ACCEPTED), method)


@pytest.mark.filterwarnings(PERIODS)
@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("method", [pytest.param(name, marks=[pytest.mark.slow] * (name != "BS-Q")) for name in FIXED])
def test_accepted_without_warnings(name, method):
    """By one method alone: the others have all of these columns in the table of the test above."""
    check_accepted(frame(ACCEPTED[name]), method)


@pytest.mark.parametrize("outlier", [1e6, 1e300, 1.7e308])
def test_different_numbers_have_different_encodings_despite_an_outlier(outlier):
    x = np.concatenate((np.linspace(0.0, 1.0, 500), [outlier]))
    for method in ("BS-Q", "IS-Q", "PLE"):
        encoded = kw.make_encoder(method, 15).fit(x[:, None], np.sin(6 * np.minimum(x, 2))).transform(x[:, None])
        assert len(np.unique(encoded[:500], axis=0)) > 400


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"family": "cubic"}, ValueError, "family must be one of 'bspline', 'ispline', 'mspline'"),
        ({"family": "ple"}, ValueError, "family must be one of"),
        ({"size": 3}, ValueError, "size must be an integer of at least 4.*degree 3"),
        ({"size": 7.0}, TypeError, "size must be an integer"),
        ({"size": "7"}, TypeError, "size must be an integer"),
        ({"degree": -1}, ValueError, "degree must be"),
        ({"placement": "kmeans"}, ValueError, "placement must be one of 'uniform', 'quantile', 'cart', 'lgbm'"),
        ({"placement": len}, ValueError, "placement must be"),
        (
            {"extrapolation": "constant"},
            ValueError,
            "extrapolation must be one of 'clip', 'linear', 'continue', 'periodic', 'error'",
        ),
        ({"missing": "mean"}, ValueError, "missing must be one of 'zeros', 'indicator', 'error'"),
        ({"task": "ranking"}, ValueError, "task must be one of"),
        ({"sparse_output": 1}, TypeError, "sparse_output must be True or False"),
        ({"dtype": "int64"}, ValueError, "dtype must be float32 or float64"),
        ({"dtype": "floaty"}, ValueError, "dtype must be float32 or float64"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be"),
        ({"random_state": "seed"}, ValueError, "seed"),
    ],
)
def test_wrong_parameters_are_refused_when_fitting(parameters, error, message):
    with pytest.raises(error, match=message):
        kw.SplineEncoder(**parameters).fit(GOOD[:, None], GOOD)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "Pass y, or choose placement='quantile'"),
        ({"y": GOOD[:5]}, "y must have as many values as X has rows, 60"),
        ({"y": np.full(60, np.nan)}, "y must have no missing"),
        ({"y": np.zeros((60, 2))}, "y should be a 1d array"),
        ({"sample_weight": np.ones(5)}, "sample_weight must be one-dimensional"),
        ({"sample_weight": -np.ones(60)}, "sample_weight must be finite and non-negative"),
        ({"sample_weight": np.zeros(60)}, "not all zero"),
        ({"sample_weight": np.full(60, np.nan)}, "sample_weight must be finite"),
        ({"sample_weight": ["a"] * 60}, "sample_weight must be numbers"),
    ],
)
def test_wrong_targets_and_weights_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kw.PiecewiseLinearEncoder().fit(GOOD[:, None], **({"y": GOOD} | arguments))


def test_transform_with_other_columns_is_refused():
    encoder = kw.SplineEncoder().fit(frame(GOOD))
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(frame(GOOD).rename(columns={"bad": "other"}))
    with pytest.raises(ValueError, match="expecting 2 features"):
        kw.SplineEncoder().fit(frame(GOOD).to_numpy()).transform(GOOD[:, None])


def test_values_outside_are_refused_on_request():
    encoder = kw.SplineEncoder(extrapolation="error").fit(frame(GOOD))
    encoder.transform(frame(GOOD))
    with pytest.raises(ValueError, match="column 'bad' has values outside its training range.*extrapolation='clip'"):
        encoder.transform(frame(2 * GOOD))


def test_adaptive_bins_need_a_tree():
    with pytest.raises(ValueError, match="placement must be 'cart' if adaptive=True"):
        kw.PiecewiseLinearEncoder(adaptive=True, placement="quantile").fit(GOOD[:, None], GOOD)


def test_a_missing_lightgbm_is_explained(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"placement=.lgbm. needs lightgbm: pip install \"knotwork\[lightgbm\]\""):
        kw.SplineEncoder(placement="lgbm").fit(GOOD[:, None], GOOD)


def test_enough_kinds_of_inputs():
    assert len(REFUSED) + len(ACCEPTED) >= 40
