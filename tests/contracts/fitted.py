"""Everything that is fitted without training networks, on a table made to have many equals.

Run as a program, it writes all models to a file: `test_equals` compares those of other BLAS kernels and threads.
"""

import sys
from typing import NamedTuple

import numpy as np

import knotwork as kw
from tests.encoders.cases import FIXED

N_ROWS = 240
NEW = np.linspace(-1.5, 1.5, 41)
"""Values at which models are compared."""


class Task(NamedTuple):
    """A table."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None


def make_task(kind="regression"):
    """Return a table of which all parts have equals: values with ties, a symmetric target, and two equal columns.

    Columns: values rounded to 0.1, a flag, mostly zeros, whole numbers, one without ties, and the first one again.
    """
    random = np.random.default_rng(3)
    x = (random.integers(-10, 11, size=N_ROWS) / 10).astype(float)
    flag = random.integers(0, 2, N_ROWS).astype(float)
    zeros = np.where(random.uniform(size=N_ROWS) < 0.7, 0.0, random.lognormal(size=N_ROWS).round(1))
    whole = random.integers(0, 12, N_ROWS).astype(float)
    smooth = random.normal(size=N_ROWS).astype(np.float32).astype(float)
    X = np.column_stack([x, flag, zeros, whole, smooth, x])
    y = (
        np.abs(x) * (1 + flag)
        + np.abs(whole - 5.5) * flag
        + 0.5 * np.sign(smooth)
        + random.normal(size=N_ROWS).round(1)
    )
    return Task(X, y if kind == "regression" else np.array(["low", "middle", "high"])[np.digitize(y, [1.0, 3.0])])


def encode(encoder):
    """Return a function from a table to the knots and functions of an encoder, by column."""

    def fit(task):
        supervised = {} if task.weights is None else {"sample_weight": task.weights}
        fitted = encoder().set_params(dtype=np.float64).fit(task.X, task.y, **supervised)
        new = np.repeat(NEW[:, None], task.X.shape[1], axis=1)
        columns = np.split(fitted.transform(new), np.cumsum([block.size for block in fitted.fitted_])[:-1], axis=1)
        return {f"column {place}": column for place, column in enumerate(columns)}

    return fit


def explain(model):
    """Return a function from a table to the curves of an additive model, by column."""

    def fit(task):
        fitted = model().fit(task.X, task.y, task.weights)
        effects = fitted.effects()
        single = {f"column {each.name}": np.asarray(each.effect) for each in effects if each.name in range(9)}
        return single | {"pairs": pair_codes([each.name for each in effects if isinstance(each.name, tuple)])}

    return fit


def pair_codes(pairs):
    """Return pairs as numbers."""
    return np.array(sorted(sorted(map(int, pair)) for pair in pairs), dtype=float).reshape(-1)


def find(task):
    """Return the pairs that interact, and their gains."""
    found = kw.find_pairs(task.X, task.y, n_pairs=2, sample_weight=task.weights)
    return {"pairs": pair_codes([pair.columns for pair in found]), "gains": np.array([pair.gain for pair in found])}


def tensor(task):
    """Return the pairs of a tensor-product encoder, and the knots of its columns."""
    fitted = kw.TensorSplineEncoder(pairs=2, size=6, placement="cart").fit(task.X, task.y, task.weights)
    return {f"column {place}": knots for place, knots in enumerate(fitted.knots_)} | {
        "pairs": pair_codes(fitted.pairs_)
    }


def choose(task):
    """Return the encodings that are chosen for the columns, as numbers, and the errors of all candidates."""
    candidates = ["IS-CART@7", "PLE@7", "BS-Q@7", "BS-Q@5", "Std"]
    out = {}
    for choice in kw.choose_per_feature(task.X, task.y, candidates=candidates, sample_weight=task.weights):
        numbers = [candidates.index(choice.encoding), *choice.losses.values()]
        out[f"column {choice.column}"] = np.array(numbers, dtype=float)
    return out


SUPERVISED = ("PLE", "PLE-Adaptive", "BS-CART", "BS-LGBM")
FITS = {
    **{method: encode(lambda method=method: kw.make_encoder(method, size=7)) for method in FIXED},
    **{f"{method}, classes": encode(lambda method=method: kw.make_encoder(method, size=7)) for method in SUPERVISED},
    "tensor": tensor,
    "additive": explain(lambda: kw.AdditiveRegressor(pairs=1)),
    "additive, shapes": explain(lambda: kw.AdditiveRegressor(monotone={2: "increasing"}, categorical=[3])),
    "additive, classes": explain(lambda: kw.AdditiveClassifier(size=8, pairs=1)),
    "pairs": find,
    "pairs, classes": find,
    "choice": choose,
}


def task_of(name):
    """Return the table of a fit."""
    return make_task("classification" if name.endswith("classes") else "regression")


def models():
    """Return all numbers of all models."""
    return {f"{name}: {part}": values for name, fit in FITS.items() for part, values in fit(task_of(name)).items()}


if __name__ == "__main__":
    np.savez(sys.argv[1], **models())
