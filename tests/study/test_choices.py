"""Plans whose training rows choose the encoding of each column, or the pairs of columns that interact."""

import json
from dataclasses import replace

import numpy as np
import pytest

from knotwork.encoders import _choice as choice_file
from knotwork.errors import ArgumentError
from knotwork.study import _networks, load_results, prepare_plan, run
from knotwork.study._networks import expand
from knotwork.study._prepared import load_data
from tests.study.cases import tiny_plan

VARIANTS = [{"name": "waves", "interactions": 2}, {"name": "independent", "interactions": {"pairs": 2, "waves": 0}}]


def test_a_choice_is_recorded_and_prepared_once(tmp_path):
    plan = tiny_plan(methods=["Std", "BS-Q", "per-feature"], sizes=[7], folds=2)
    assert prepare_plan(plan, tmp_path).n_ok == plan.n_networks
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").iterdir()}
    run(plan, tmp_path, device="cpu")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "prepared").iterdir()} == files  # nothing again
    frame = load_results(tmp_path)
    assert set(frame["status"]) == {"ok"}
    is_choice = frame["method"] == "per-feature"
    assert frame.loc[~is_choice, "chosen"].isna().all()
    names = list(load_data(plan, plan.names[0]).identity.numerical)
    assert all(list(json.loads(each)) == names for each in frame.loc[is_choice, "chosen"])


def test_a_choice_of_one_encoding_for_all_columns_is_the_network_of_it(tmp_path, monkeypatch):
    for file in (choice_file, _networks):
        monkeypatch.setattr(file, "FEATURE_CANDIDATES", ("BS-Q@7",))
    run(tiny_plan(methods=["per-feature"], sizes=[], folds=2), tmp_path / "chosen", device="cpu")
    run(tiny_plan(methods=["BS-Q"], sizes=[7], folds=2), tmp_path / "named", device="cpu")
    chosen, named = (load_results(tmp_path / name).set_index("fold").sort_index() for name in ("chosen", "named"))
    assert set(json.loads(chosen["chosen"].iloc[0]).values()) == {"BS-Q@7"}
    columns = ["log_loss", "epochs"]
    np.testing.assert_allclose(chosen[columns].astype(float), named[columns].astype(float), rtol=1e-4)


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


def test_keys_hold_what_a_choice_and_interactions_depend_on(monkeypatch):
    base = tiny_plan(methods=["BS-Q", "per-feature"], variants=VARIANTS)
    data = load_data(base, base.names[0]).identity
    keys = [network.key for network in expand(base, base.names[0], data)]
    assert len(set(keys)) == len(keys)
    other = replace(base, variants=tuple({**each, "interactions": {"pairs": 2, "rank": 3}} for each in VARIANTS))
    assert not {network.key for network in expand(other, base.names[0], data)} & set(keys)
    monkeypatch.setattr(_networks, "FEATURE_CANDIDATES", ("BS-Q@7", "Std"))
    assert len({network.key for network in expand(base, base.names[0], data)} & set(keys)) == len(keys) // 2


def test_wrong_variants_are_refused():
    for interactions, message in (([["a", "b"]], "'auto' or a number"), ({"size": 3}, "'waves'"), (0, "at least 1")):
        with pytest.raises(ArgumentError, match=message):
            tiny_plan(variants=[{"name": "a", "interactions": interactions}])
    with pytest.raises(ArgumentError, match="no interactions in front of a linear model"):
        tiny_plan(methods=["Std"], sizes=[], backbones=["linear"], variants=VARIANTS)
