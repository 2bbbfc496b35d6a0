"""Every method on real tables."""

import json

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.encoders import METHOD_TABLE
from tests.encoders.cases import FIXED

KEYS = ["abalone", "california", "churn", "shuttle", "fifa_wage", "loan_status", "parkinsons", "ipums"]
QUICK = ["california", "churn"]


# A table with missing values and one of another task: the others are slow.
@pytest.mark.parametrize("key", [pytest.param(key, marks=[] if key in QUICK else [pytest.mark.slow]) for key in KEYS])
@pytest.mark.filterwarnings("ignore:A column of cyclic splines has the whole numbers:UserWarning")
def test_real_tables_are_encoded(data_folder, key):
    entry = next(e for e in json.loads((data_folder / "datasets.json").read_text()) if e["key"] == key)
    table = pd.read_parquet(data_folder / f"{key}.parquet").sample(3000, random_state=0)
    X, y = table[entry["numerical"]], table[entry["target"]]
    for method in FIXED:
        options = {"task": entry["task"]} if METHOD_TABLE[method].has_knots else {}
        encoder = kw.make_encoder(method, 15, **options)
        encoded = encoder.fit(X, y).transform(X)
        assert np.isfinite(encoded).all()
        if method.startswith("BS"):
            np.testing.assert_allclose(encoded.reshape(len(X), -1, 15).sum(axis=2), ~X.isna(), atol=1e-5)
