"""Plans whose training rows choose the encoding of each column, or the pairs of columns that interact."""

import json
from dataclasses import replace

import pytest

from knotwork.errors import ArgumentError
from knotwork.study import load_results, prepare_plan, run
from knotwork.study._data import load_data
from knotwork.study._networks import expand
from tests.study.cases import tiny_plan

CHOICES = ["per-feature", "per-feature-shared", "per-feature-least:PLE@30", "per-feature-gated"]
VARIANTS = [{"name": "waves", "interactions": 2}, {"name": "independent", "interactions": {"pairs": 2, "waves": 0}}]


def test_a_choice_for_all_columns_is_the_network_of_that_encoding(tmp_path):
    plan = tiny_plan(methods=["Std", "BS-Q", *CHOICES], sizes=[7], folds=2)
    assert prepare_plan(plan, tmp_path).n_ok == plan.n_networks
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").iterdir()}
    run(plan, tmp_path, device="cpu")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").iterdir()} == files  # nothing again
    frame = load_results(tmp_path)
    assert set(frame["status"]) == {"ok"}
    assert frame.loc[~frame["method"].isin(CHOICES), "chosen"].isna().all()
    chosen = frame[frame["method"].isin(CHOICES)]
    names = list(load_data(plan, plan.names[0]).identity.numerical)
    assert all(list(json.loads(each)) == names for each in chosen["chosen"])
    shared = frame[frame["method"] == "per-feature-shared"].iloc[0]
    [encoding] = set(json.loads(shared["chosen"]).values())
    method, _, size = encoding.partition("@")
    alone = tiny_plan(methods=[method], sizes=[int(size)] if size else [], folds=2)
    run(alone, tmp_path / "alone", device="cpu")
    single = load_results(tmp_path / "alone").set_index("fold").loc[shared["fold"]]
    assert shared[["log_loss", "epochs"]].tolist() == pytest.approx(single[["log_loss", "epochs"]].tolist(), rel=1e-4)


def test_variants_with_interactions_are_recorded_with_their_pairs(tmp_path):
    plan = tiny_plan(methods=["BS-Q", "per-feature"], variants=VARIANTS)
    summary = run(plan, tmp_path, device="cpu")
    assert (summary.n_ok, summary.n_failed) == (plan.n_networks, 0)
    frame = load_results(tmp_path).set_index(["method", "variant", "fold"]).sort_index()
    pairs = frame["pairs"].map(json.loads)
    assert (pairs.map(len) == 2).all()
    for method in plan.methods:
        waves, independent = frame.loc[method, "waves"], frame.loc[method, "independent"]
        assert waves["pairs"].tolist() == independent["pairs"].tolist()
        assert (waves["log_loss"] != independent["log_loss"]).all()
    run(tiny_plan(methods=["BS-Q"]), tmp_path / "plain", device="cpu")
    plain = load_results(tmp_path / "plain").iloc[0]
    more = frame.loc["BS-Q", "waves"].iloc[0]["n_parameters"] - plain["n_parameters"]
    rank, width, size, hidden = 4, 16, 5, 8
    assert more == 2 * (2 * rank * width * (size + 1) + width * hidden)


def test_keys_hold_what_a_choice_and_interactions_depend_on():
    base = tiny_plan(methods=["BS-Q", "per-feature-least"], variants=VARIANTS)
    data = load_data(base, base.names[0]).identity
    keys = [network.key for network in expand(base, base.names[0], data)]
    assert len(set(keys)) == len(keys)
    others = [
        replace(base, methods=("BS-Q", "per-feature-largest")),
        replace(base, variants=tuple({**each, "interactions": {"pairs": 2, "rank": 3}} for each in VARIANTS)),
    ]
    for other, n_shared in zip(others, (len(keys) // 2, 0), strict=True):
        assert len({network.key for network in expand(other, base.names[0], data)} & set(keys)) == n_shared


def test_wrong_variants_are_refused():
    for interactions, message in (([["a", "b"]], "'auto' or a number"), ({"size": 3}, "'waves'"), (0, "at least 1")):
        with pytest.raises(ArgumentError, match=message):
            tiny_plan(variants=[{"name": "a", "interactions": interactions}])
    with pytest.raises(ArgumentError, match="no interactions in front of a linear model"):
        tiny_plan(methods=["Std"], sizes=[], backbones=["linear"], variants=VARIANTS)
