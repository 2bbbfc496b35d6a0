"""How many files of the package a user's call runs through: few enough to read."""

import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import knotwork as kw

SOURCE = Path(kw.__file__).parent


def files_visited(journey):
    """Return the files of the package in which a function runs, in whatever thread."""
    files = set()

    def look(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            files.add(Path(path).relative_to(SOURCE).as_posix())

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        journey()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return files


MODELS = {
    "one network": kw.TabularRegressor(random_state=0, device="cpu", training=kw.TrainingConfig(max_epochs=3)),
    "an effort": kw.TabularRegressor(effort="fast", random_state=0, device="cpu"),
}


@pytest.mark.parametrize("name", MODELS)
def test_fit_and_predict_visit_few_files(name):
    """One network visits 52: columns take four files, for values, formats, what is learned of one, and the table; one
    judges how rows are divided.

    `training/_spread.py` divides networks among devices. Steps of perceptrons on a CPU take three: `_flat_step.py`, and
    loops of layers and of losses. An effort also has embedded features (one file) and boosted trees (three), and needs
    no advice of `_recommend.py`; what is kept for the page of a model is one file.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.uniform(size=300), "c": rng.choice(["x", "y"], size=300)})
    files = files_visited(lambda: MODELS[name].fit(table, table["a"] ** 2 + table["b"]).predict(table))
    assert 10 < len(files) <= {"one network": 52, "an effort": 57}[name], sorted(files)


def test_an_encoder_visits_at_most_15_files():
    """`encoders/_clusters.py` finds out whether a table is on a cluster."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    encoder = kw.make_encoder("IS-Q", size=7)  # the first use of a public name visits the package itself
    files = files_visited(lambda: encoder.fit_transform(X))
    assert 3 < len(files) <= 15, sorted(files)
