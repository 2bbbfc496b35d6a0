"""Trains and saves the model that `core.py` loads, with its predictions: python make_model.py FOLDER."""

import sys
from pathlib import Path

import numpy as np

import knotwork as kw


def main(folder):
    rng = np.random.default_rng(0)
    n = 300
    X = np.empty((n, 3), dtype=object)
    X[:, 0], X[:, 1] = rng.normal(size=n), rng.exponential(size=n)
    X[:, 2] = rng.choice(["Ulm", "Bonn", "Rome"], n)
    y = np.sin(3.0 * X[:, 0].astype(float)) + X[:, 1].astype(float) + (X[:, 2] == "Ulm")
    X[:9, 0], X[5:12, 2] = None, None
    model = kw.TabularRegressor(effort="fast", time_limit=10, device="cpu", random_state=0).fit(X, y)
    model.save(folder / "model.knotwork")
    rows = X[:40]
    cells = [["" if cell is None else repr(cell) if isinstance(cell, float) else cell for cell in row] for row in rows]
    np.savez(
        folder / "predictions.npz",
        cells=np.array(cells),
        predictions=model.predict(rows),
        intervals=model.predict_interval(rows, 0.8),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
