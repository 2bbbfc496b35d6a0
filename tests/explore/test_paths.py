"""Learned knots: each column alone, in order, and with a better fit at the end of the path."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import knotwork as kw
from knotwork._explore._paths import learn_paths
from knotwork._explore._prepare import BinnedColumn

FAMILIES = ("bspline", "ispline", "ple", "mspline")


def steep_column(seed=0):
    """Return a column and a target that rises at one place, where equal distances have few knots."""
    random = np.random.default_rng(seed)
    x = random.uniform(size=1_500)
    y = np.tanh(40 * (x - 0.2)) + 0.1 * random.normal(size=len(x))
    return BinnedColumn.from_values(x, len(x)), ((y - y.mean()) / y.std())[:, None]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_path_begins_at_equal_distances_and_ends_at_a_better_fit(family):
    column, y = steep_column()
    (paths,) = learn_paths([column], y, sizes=(15,), families=(family,), seconds=1e9)
    steps = paths[family, 15].astype(float)
    np.testing.assert_allclose(np.diff(steps[0], prepend=0.0, append=1.0), 1 / (steps.shape[1] + 1), rtol=1e-3)
    assert np.all(np.diff(steps, axis=1) > 0)
    x = column.centres[column.codes]
    errors = []
    for knots in (steps[0], steps[-1]):
        rows = kw.basis.evaluate(family, x, knots)
        errors.append(np.mean((y[:, 0] - Ridge(alpha=1.0).fit(rows, y[:, 0]).predict(rows)) ** 2))
    assert errors[1] < 0.9 * errors[0]


def test_columns_do_not_see_each_other():
    column, y = steep_column()
    other = BinnedColumn.from_values(np.random.default_rng(1).normal(size=len(y)), len(y))
    options = {"sizes": (7,), "families": ("bspline",), "seconds": 1e9}
    alone = learn_paths([column], y, **options)[0]["bspline", 7]
    beside = learn_paths([other, column], y, **options)[1]["bspline", 7]
    # The penalty of narrow intervals is a mean over columns, and almost nothing beside the error.
    np.testing.assert_allclose(alone, beside, atol=0.02)


def test_no_time_gives_no_paths():
    column, y = steep_column()
    assert learn_paths([column], y, sizes=(7,), families=("bspline",), seconds=-1.0) == [{}]
