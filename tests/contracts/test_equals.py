"""No model hangs on rounding: what is equal up to the last bits is decided by the order of the columns.

Sums are rounded differently if rows, columns, threads or the BLAS change, if rows are repeated in place of a weight,
and if values were computed in another way (0.1 + 0.2 in place of 0.3). Models agree to 1e-9 all the same. This is not
possible for networks: training makes rounding errors grow. Where rows are drawn at random, they are drawn by their
order: the choice of encodings divides rows by a random seed, so that their order and their number count there.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.contracts import fitted
from tests.contracts.fitted import FITS, task_of

pytestmark = pytest.mark.filterwarnings("ignore:A column of cyclic splines has the whole numbers:UserWarning")

COLUMNS = np.array([4, 1, 3, 5, 0, 2])
DRAWS_ROWS = {"choice"}
"""Fits that divide the rows by a random seed: the order and the number of rows count."""

DRAWS_FREQUENCIES = {"Periodic", "Cosine"}
"""Encodings with random frequencies, which are drawn for the columns in their order."""


SIMILAR = ("MS-", "NS-", "RBF-", "TPS-", "IS-", "CS-U", "CS-CART", "CS-LGBM")
"""Families with the knots of B-splines."""


def cases(names):
    """Return fits; those of similar families are slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow) if name.startswith(SIMILAR) else name for name in names]


def check_same(got, expected, *, tolerance=1e-9):
    assert got.keys() == expected.keys()
    for part, values in expected.items():
        scale = max(np.abs(values).max(initial=0.0), 1.0)
        np.testing.assert_allclose(got[part], values, rtol=0, atol=tolerance * scale, err_msg=part)


@pytest.fixture(scope="module")
def expected():
    """The models of the table as it is; each is fitted once."""
    known = {}

    def model(name):
        if name not in known:
            known[name] = FITS[name](task_of(name))
        return known[name]

    return model


def permuted(task):
    order = np.random.default_rng(0).permutation(len(task.y))
    return task._replace(X=task.X[order], y=task.y[order])


def computed_otherwise(task):
    """Return values that differ by a few units in the last place."""
    return task._replace(X=task.X * (1.0 + 2e-15 * np.random.default_rng(0).uniform(-1, 1, task.X.shape)))


def noisy(task):
    """Return values that differ by rounding errors of the largest ones, as differences of such values do."""
    signs = np.random.default_rng(0).uniform(-1, 1, task.X.shape)
    return task._replace(X=task.X + 1e-15 * np.ptp(task.X, axis=0) * signs)


@pytest.mark.parametrize("name", cases(name for name in FITS if name not in DRAWS_ROWS))
def test_the_order_of_the_rows(name, expected):
    check_same(FITS[name](permuted(task_of(name))), expected(name))


@pytest.mark.parametrize("change", [computed_otherwise, noisy])
@pytest.mark.parametrize("name", cases(FITS))
def test_values_that_differ_by_rounding(name, change, expected):
    task = task_of(name)
    changed = change(task)
    if change is noisy and "shapes" in name:
        changed.X[:, 3] = task.X[:, 3]  # whose values are names of categories
    check_same(FITS[name](changed), expected(name))


@pytest.mark.parametrize("name", cases(name for name in FITS if name not in DRAWS_FREQUENCIES))
def test_the_order_of_the_columns(name):
    """Of two equal columns the first is taken, so that here they are not equal."""
    task = task_of(name)
    task.X[:, 5] += np.sin(task.X[:, 4]).round(1)
    if "shapes" in name:
        got = fitted.explain(lambda: fitted.kw.AdditiveRegressor(monotone={5: "increasing"}, categorical=[2]))(
            task._replace(X=task.X[:, COLUMNS])
        )
    else:
        got = FITS[name](task._replace(X=task.X[:, COLUMNS]))
    back = {f"column {place}": f"column {source}" for place, source in enumerate(COLUMNS)}
    renamed = {back.get(part, part): values for part, values in got.items()}
    if "pairs" in got:
        pairs = COLUMNS[got["pairs"].astype(int)].reshape(-1, 2)
        renamed["pairs"] = fitted.pair_codes(pairs)
    check_same(renamed, FITS[name](task))


@pytest.mark.parametrize("name", cases(name for name in FITS if name not in DRAWS_ROWS))
def test_weights_are_repeated_rows(name):
    task = task_of(name)
    weights = np.random.default_rng(1).integers(0, 4, len(task.y))
    repeated = fitted.Task(np.repeat(task.X, weights, axis=0), np.repeat(task.y, weights))
    got, wanted = FITS[name](task._replace(weights=weights.astype(float))), FITS[name](repeated)
    check_same(got, wanted)


@pytest.mark.parametrize("name", cases(FITS))
def test_single_and_double_precision_of_the_same_numbers(name):
    task = task_of(name)
    single = task._replace(X=task.X.astype(np.float32))
    check_same(FITS[name](single), FITS[name](single._replace(X=single.X.astype(np.float64))))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", cases(FITS))
def test_the_number_of_threads(name, n_threads, expected):
    with threadpool_limits(n_threads):
        check_same(FITS[name](task_of(name)), expected(name))


@pytest.mark.skipif(
    not any(each["internal_api"] == "openblas" for each in threadpool_info()),
    reason="NumPy was built without OpenBLAS, whose kernels can be chosen",
)
@pytest.mark.parametrize(
    "kernel", ["Nehalem", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Haswell", "Zen"))]
)
def test_another_blas(kernel, expected, tmp_path):
    """Kernels of other processors, which add in another order; one thread where this process has all."""
    path = tmp_path / "models.npz"
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.contracts.fitted", str(path)]
    subprocess.run(command, check=True, env=environment, cwd=fitted.__file__.rsplit("tests", 1)[0], timeout=600)
    other = np.load(path)
    for name in FITS:
        check_same({part: other[f"{name}: {part}"] for part in expected(name)}, expected(name))
