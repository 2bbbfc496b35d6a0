"""Real processes that are killed, and real processes that share a folder."""

import multiprocessing
import time

import numpy as np
import pandas as pd
import pytest

from knotwork.study import load_histories, load_results, run
from knotwork.study._folder import claim
from tests.study.cases import MANY_UNITS, comparable, run_in_child

pytestmark = pytest.mark.xdist_group("kill")  # one process, whose forks have all modules loaded


@pytest.fixture(scope="module")
def start():
    """Return a function that runs a plan in a new process, forked from one that has all modules loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["knotwork.study._runner", "tests.study.cases"])

    warm = context.Process(target=time.sleep, args=(0,))  # waits until all modules are loaded
    warm.start()
    warm.join()

    def begin(plan, out):
        process = context.Process(target=run_in_child, args=(plan, out))
        process.start()
        return process

    return begin


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, start):
    out = tmp_path_factory.mktemp("undisturbed")
    began = time.perf_counter()
    process = start(MANY_UNITS, out)
    process.join()
    assert process.exitcode == 0
    return comparable(load_results(out)), time.perf_counter() - began


def files_whole(out):
    """Return the rows of all record files; a torn one raises an error."""
    return sum(len(pd.read_parquet(path)) for path in (out / "records").glob("*.parquet"))


@pytest.mark.parametrize("n_kills_in_all", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_nothing_is_lost_torn_or_duplicated(tmp_path, start, undisturbed, n_kills_in_all):
    random = np.random.default_rng(n_kills_in_all)
    expected, longest = undisturbed
    n_kills, folder, recorded = 0, 0, 0
    while n_kills < n_kills_in_all:
        out = tmp_path / str(folder)
        process = start(MANY_UNITS, out)
        process.join(timeout=random.uniform(0.0, 0.8 * longest))
        killed = process.exitcode is None
        process.kill()
        process.join()
        n_kills += killed
        now = files_whole(out)
        assert now >= recorded, "a record was lost"
        recorded = now
        if not killed or n_kills == n_kills_in_all:
            summary = run(MANY_UNITS, out, device="cpu")
            assert summary.n_failed == 0
            pd.testing.assert_frame_equal(comparable(load_results(out)), expected)
            assert files_whole(out) == len(expected), "a network was recorded twice"
            assert set(load_histories(out)["key"]) == set(expected["key"]), "a history was lost"
            folder, recorded = folder + 1, 0


def test_two_processes_share_the_work(tmp_path, start, undisturbed):
    processes = [start(MANY_UNITS, tmp_path) for _ in range(2)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    expected, _ = undisturbed
    assert files_whole(tmp_path) == len(expected), "a network was trained twice"
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path)), expected)
    assert not list((tmp_path / "locks").iterdir())


def _claim_and_wait(folder, ready):
    lock = claim(folder, "slot")
    ready.set()
    time.sleep(600)
    del lock


def test_a_lock_is_kept_by_the_living_and_lost_by_the_dead(tmp_path):
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    process = context.Process(target=_claim_and_wait, args=(tmp_path, ready))
    process.start()
    assert ready.wait(300)
    assert claim(tmp_path, "slot") is None
    process.kill()
    process.join()
    with claim(tmp_path, "slot") as lock:
        assert lock.path.exists()
        assert claim(tmp_path, "slot") is None
    assert claim(tmp_path, "slot") is not None


def test_a_lock_without_sign_of_life_from_another_machine_is_taken_over(tmp_path):
    import json
    import os

    path = tmp_path / "slot.lock"
    path.write_text(json.dumps({"token": "t", "home": "elsewhere", "pid": 1}))
    assert claim(tmp_path, "slot") is None
    long_ago = time.time() - 1000
    os.utime(path, (long_ago, long_ago))
    with claim(tmp_path, "slot") as lock:
        assert json.loads(path.read_text())["token"] == lock.token
