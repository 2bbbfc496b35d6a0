"""How many files of the package a user's call runs through: few enough to read."""

import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd

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


def test_fit_and_predict_visit_at_most_30_files():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.uniform(size=300), "c": rng.choice(["x", "y"], size=300)})
    model = kw.TabularRegressor(random_state=0, device="cpu", training=kw.TrainingConfig(max_epochs=3))
    files = files_visited(lambda: model.fit(table, table["a"] ** 2 + table["b"]).predict(table))
    assert 10 < len(files) <= 30, sorted(files)


def test_an_encoder_visits_at_most_12_files():
    X = np.random.default_rng(0).normal(size=(200, 3))
    files = files_visited(lambda: kw.make_encoder("IS-Q", size=7).fit_transform(X))
    assert 3 < len(files) <= 12, sorted(files)
