"""A packed study is a study: the same results in fewer files, and running a plan in it trains missing networks."""

from dataclasses import replace

import pandas as pd
import pytest

from knotwork.errors import ArgumentError
from knotwork.study import Plan, load_histories, load_knot_paths, load_results, pack, run

PLAN = Plan(
    name="small",
    datasets=["sk_iris"],
    methods=["Std", "BS-Grad-U"],
    sizes=[5, 6],
    backbones=["mlp"],
    folds=2,
    keep_knots=True,
    training={"max_epochs": 2, "knot_warmup": 0},
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    run(PLAN, folder, device="cpu")
    run(replace(PLAN, name="more", methods=("Std", "BS-Grad-U", "PLE")), folder, device="cpu")
    return folder


def sorted_by_key(frame):
    return frame.sort_values([name for name in ("key", "epoch", "knot") if name in frame]).reset_index(drop=True)


def test_the_copy_has_the_same_results(study, tmp_path):
    assert pack(study, tmp_path) == {"small": 6, "more": 4}
    assert len(list((tmp_path / "records").iterdir())) == 2
    for load in (load_results, load_knot_paths):
        pd.testing.assert_frame_equal(
            sorted_by_key(load(tmp_path)), sorted_by_key(load(study)), check_categorical=False
        )
    assert load_histories(tmp_path).empty
    assert not (tmp_path / "prepared").exists()


def test_histories_on_request(study, tmp_path):
    pack(study, tmp_path, histories=True)
    both = (sorted_by_key(load_histories(each)) for each in (tmp_path, study))
    pd.testing.assert_frame_equal(*both, check_categorical=False)


def test_a_plan_goes_on_in_the_copy(study, tmp_path):
    pack(study, tmp_path)
    assert run(PLAN, tmp_path, device="cpu").n_ok == 0
    summary = run(replace(PLAN, methods=("Std", "MinMax"), sizes=()), tmp_path, device="cpu")
    assert (summary.n_before, summary.n_ok) == (2, 2)
    (next((tmp_path / "records").glob("more-*"))).unlink()
    assert pack(study, tmp_path) == {"small": 6, "more": 4}


def test_wrong_folders(study, tmp_path):
    with pytest.raises(ArgumentError, match="out must be a folder that a plan was run in"):
        pack(tmp_path, tmp_path / "copy")
    with pytest.raises(ArgumentError, match="target must be another folder"):
        pack(study, study)
