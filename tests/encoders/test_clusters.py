"""Tables on Ray Data and Dask: the knots and columns of one process, also if workers die; and networks on Ray.

Tests that start Ray, or processes of Dask, are slow. How parts are fitted and merged is shown without a cluster by
tests/encoders/test_parts.py, and on Dask here.
"""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import knotwork as kw
from knotwork.encoders._clusters import find_cluster
from knotwork.training._spread import _results

pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*"),  # of Ray's own settings
]

N = 2000
RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RANDOM.normal(size=N), "b": RANDOM.integers(0, 30, size=N), "c": RANDOM.lognormal(size=N)})
TABLE.loc[::9, "a"] = np.nan
TABLE["price"] = np.sin(2.0 * TABLE["a"].fillna(0.0)) + TABLE["c"]
ENCODERS = {
    "quantiles": kw.make_encoder("BS-Q", 8),
    "trees": kw.make_encoder({"a": "PLE@6", "b": "Std"}, default="IS-CART@7"),
    "pairs": kw.TensorSplineEncoder(1, size=4),
}


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip(
        "ray", reason="RAY IS NOT INSTALLED: encoders and estimators on a cluster were not tested"
    )
    ray.init(
        num_cpus=2,
        object_store_memory=80 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    data = pytest.importorskip("ray.data", reason="RAY DATA IS NOT INSTALLED: encoders on it were not tested")
    data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def dask_frame():
    reason = "DASK IS NOT INSTALLED: encoders on Dask data frames were not tested"
    return pytest.importorskip("dask.dataframe", reason=reason).from_pandas


def die_once(flag):
    """Return a function of batches that kills its worker at its first call."""

    def function(batch):
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    return function


def check(encoder, fitted, encoded):
    """Compare an encoder and a table that it has encoded with those of one process."""
    expected = clone(encoder).fit(TABLE, "price")
    np.testing.assert_array_equal(fitted.domain_, expected.domain_)
    for got, knots in zip(fitted.knots_, expected.knots_, strict=True):
        np.testing.assert_allclose(got, knots, rtol=1e-9)
    assert list(encoded.columns) == [*expected.get_feature_names_out(), "price"]
    got = encoded.sort_values("price").to_numpy(dtype=float)  # Ray's frames have types of Arrow
    rows = np.column_stack([expected.transform(TABLE), TABLE["price"]])
    np.testing.assert_allclose(got, rows[np.argsort(TABLE["price"].to_numpy())], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODERS)
def test_ray_data(ray, name, tmp_path):
    blocks = [TABLE.iloc[start : start + 50] for start in range(0, N, 50)]
    data = ray.data.from_pandas(blocks).map_batches(die_once(tmp_path / "died"), batch_size=None)
    fitted = clone(ENCODERS[name]).fit(data, "price")
    assert (tmp_path / "died").exists()
    check(ENCODERS[name], fitted, fitted.transform(data).to_pandas())


@pytest.mark.slow
def test_networks_on_ray_have_the_bits_of_this_process(ray):
    training = kw.TrainingConfig(max_epochs=2, batch_size=64, reproducible=True)
    settings = {"encoding": "BS-Grad-Q@6", "n_members": 3, "training": training, "random_state": 0}
    X, y = TABLE[["a", "b", "c"]].iloc[:300], TABLE["price"].iloc[:300]
    here = kw.TabularRegressor(device="cpu", **settings).fit(X, y)
    there = kw.TabularRegressor(device="ray:cpu", **settings).fit(X, y)
    assert len(there.trained_.pieces) == 2
    np.testing.assert_array_equal(here.predict(X), there.predict(X))


@pytest.mark.slow
def test_networks_of_a_worker_that_dies_are_trained_again(ray, tmp_path):
    here, flag = os.getpid(), tmp_path / "died"

    def squares(outputs, targets):
        if os.getpid() != here and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return (outputs - targets) ** 2

    training = kw.TrainingConfig(max_epochs=2, batch_size=64, reproducible=True)
    settings = {"encoding": "BS-Q@6", "n_members": 2, "training": training, "random_state": 0, "objective": squares}
    X, y = TABLE[["a", "b", "c"]].iloc[:300], TABLE["price"].iloc[:300]
    expected = kw.TabularRegressor(device="cpu", **settings).fit(X, y).predict(X)
    trained = kw.TabularRegressor(device="ray:cpu", **settings).fit(X, y)
    assert flag.exists()
    np.testing.assert_array_equal(trained.predict(X), expected)


@pytest.mark.slow
def test_ray_data_with_blocks_that_add_nothing_and_a_placement_of_this_process(ray):
    class Middle:
        supervised = False

        def __call__(self, column, n_knots, target=None, seed=0):
            return np.linspace(*column.domain, n_knots + 2)[1:-1]

    blocks = [TABLE.iloc[:0], TABLE.iloc[:900], TABLE.iloc[900:900], TABLE.iloc[900:], 10.0 * TABLE]
    blocks = [block.assign(weight=float(place < 4)) for place, block in enumerate(blocks)]
    fitted = kw.SplineEncoder(size=8, placement=Middle()).fit(ray.data.from_pandas(blocks), "price", "weight")
    expected = kw.SplineEncoder(size=8, placement="uniform").fit(TABLE, "price")
    np.testing.assert_allclose(fitted.knots_, expected.knots_, rtol=1e-9)


@pytest.mark.slow
def test_errors_of_ray_are_those_of_one_process(ray):
    with pytest.raises(kw.errors.ColumnTypeError, match="^column 'text' is text[^\n]*$"):
        kw.make_encoder("BS-Q", 8).fit(ray.data.from_pandas([TABLE.assign(text="x")]))
    with pytest.raises(ValueError, match="^y must be the name .* Did you mean 'price'.$"):
        kw.make_encoder("BS-Q", 8).fit(ray.data.from_pandas([TABLE]), "prize")
    fitted = kw.make_encoder("BS-Q", 8).fit(TABLE, "price")
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(ray.data.from_pandas([TABLE[["a", "price"]]]))
    with pytest.raises(TypeError, match="Write it to files by write_parquet"):
        kw.TabularRegressor().fit(ray.data.from_pandas([TABLE]), "price")


@pytest.mark.slow
def test_tasks_that_no_one_waits_for_are_ended(ray):
    def task(seconds):
        time.sleep(seconds)
        if not seconds:
            raise ZeroDivisionError

    task = ray.remote(num_cpus=1)(task)
    with pytest.raises(ZeroDivisionError):
        _results(ray, [task.remote(0), task.remote(1000)])
    for _ in range(3000):  # five minutes, on a machine that is busy
        if ray.available_resources().get("CPU") == 2.0:
            return
        time.sleep(0.1)
    pytest.fail("a task is still running")


@pytest.mark.parametrize("name", ENCODERS)
def test_dask(dask_frame, name):
    frame = dask_frame(TABLE, npartitions=40)
    fitted = clone(ENCODERS[name]).fit(frame, "price")
    check(ENCODERS[name], fitted, fitted.transform(frame).compute())


def fail_once(flag):
    """Return a function of batches that raises an error at its first call."""

    def function(batch):
        if not flag.exists():
            flag.touch()
            raise OSError("the first try fails")
        return batch

    return function


@pytest.mark.parametrize(
    ("spoil", "processes"), [(fail_once, False), pytest.param(die_once, True, marks=pytest.mark.slow)]
)
def test_tasks_of_dask_that_fail_and_workers_that_die(dask_frame, spoil, processes, tmp_path):
    distributed = pytest.importorskip("distributed", reason="DISTRIBUTED IS NOT INSTALLED: retries were not tested")
    frame = dask_frame(TABLE, npartitions=4).map_partitions(spoil(tmp_path / "spoilt"), meta=TABLE.iloc[:0])
    about = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
    with distributed.Client(processes=processes, **about):
        fitted = clone(ENCODERS["quantiles"]).fit(frame, "price")
    assert (tmp_path / "spoilt").exists()
    np.testing.assert_allclose(fitted.knots_[0], clone(ENCODERS["quantiles"]).fit(TABLE, "price").knots_[0], rtol=1e-9)


def test_a_target_on_dask(dask_frame):
    frame = dask_frame(TABLE, npartitions=3)
    fitted = kw.make_encoder("BS-CART", 8).fit(frame[["a", "b", "c"]], frame["price"])
    expected = kw.make_encoder("BS-CART", 8).fit(TABLE[["a", "b", "c"]], TABLE["price"])
    np.testing.assert_allclose(fitted.knots_[0], expected.knots_[0], rtol=1e-9)
    with pytest.raises(ValueError, match="as many partitions"):
        kw.make_encoder("BS-CART", 8).fit(frame[["a", "b", "c"]], dask_frame(TABLE, npartitions=2)["price"])


def test_invalid_calls(dask_frame):
    frame = dask_frame(TABLE, npartitions=2)
    encoder = kw.make_encoder("BS-Q", 8)
    with pytest.raises(ValueError, match="column 'text' is text"):
        encoder.fit(frame.assign(text="x"))
    with pytest.raises(ValueError, match="y must be given"):
        kw.make_encoder("BS-CART").fit(frame)
    with pytest.raises(ValueError, match="feature names"):
        kw.make_encoder("BS-Q", 8).fit(TABLE, "price").transform(frame[["a", "price"]])
    with pytest.raises(TypeError, match=r"Call \.compute\(\)"):
        kw.TabularRegressor().fit(frame, "price")
    with pytest.raises(ValueError, match="sparse_output must be False"):
        kw.make_encoder("BS-Q", 8, sparse_output=True).fit(TABLE).transform(frame)
    with pytest.raises(ValueError, match="set_output"):
        kw.make_encoder("BS-Q", 8).set_output(transform="pandas").fit(TABLE).transform(frame)


def test_tables_in_memory_are_on_no_cluster():
    assert find_cluster(TABLE) is None
    assert find_cluster(TABLE.to_numpy()) is None
