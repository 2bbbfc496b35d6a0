"""Models that earlier versions have saved load, and predict what they predicted."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import knotwork as kw

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns

SAVED = Path(__file__).parent / "saved"
EXPECTED = json.loads((SAVED / "expected.json").read_text())
"""Predictions of version 0.1.0 for a few rows: missing values, an unseen category, a value far out."""


@pytest.mark.parametrize("name", [path.stem for path in sorted(SAVED.glob("*.knotwork"))])
def test_a_model_of_version_0_1_0_predicts_the_same(name):
    model = kw.load(SAVED / f"{name}.knotwork", device="cpu")
    rows = pd.DataFrame(EXPECTED["rows"])
    predict = model.predict if isinstance(model, kw.TabularRegressor) else model.predict_proba
    np.testing.assert_allclose(predict(rows), EXPECTED[name]["predictions"], rtol=1e-5, atol=1e-6)
    assert [{str(column): spec for column, spec in each.items()} for each in model.encoding_] == (
        EXPECTED[name]["encoding"]
    )


def test_all_kinds_of_models_are_covered():
    assert {path.stem for path in SAVED.glob("*.knotwork")} == set(EXPECTED) - {"rows"}
    assert len(EXPECTED) == 9
