"""Traces belong to the records that `load_results` returns, and every recorded network has them."""

import numpy as np
import pytest

import knotwork as kw
from knotwork._preparation.members import make_splits
from knotwork.datasets import load_dataset
from knotwork.study import _traces as traces
from knotwork.study import load_histories, load_knot_paths, load_plan, load_results, run
from knotwork.study._prepared import load_data
from tests.study.cases import CLOCKS, SMALL_MLP, TRAINING, tiny_plan

RATES = {"still": 0.0, "slow": 0.5, "fast": 4.0}


def paths_plan(**changes):
    variants = [{"name": name, "training": {"knot_rate": rate}} for name, rate in RATES.items()]
    base = {"methods": ["BS-Grad-U", "BS-Q"], "sizes": [6], "keep_knots": True, "variants": variants}
    return tiny_plan(**(base | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder in which a plan with variants was run, not to be changed."""
    out = tmp_path_factory.mktemp("finished")
    summary = run(paths_plan(), out, device="cpu")
    assert (summary.n_ok, summary.n_failed) == (12, 0)
    return out


def test_histories_are_those_of_the_records(finished):
    frame = load_results(finished).set_index("key")
    histories = load_histories(finished)
    assert list(histories.columns) == ["key", "epoch", "loss", "score", "rate"]
    assert (histories[["loss", "score", "rate"]].dtypes == np.float32).all()
    assert set(histories["key"]) == set(frame.index)
    for key, rows in histories.groupby("key", observed=True):
        assert list(rows["epoch"]) == list(range(1, frame.loc[key, "epochs"] + 1))
        assert rows["score"].argmin() + 1 == frame.loc[key, "best_epoch"]
        np.testing.assert_allclose(rows["rate"], TRAINING["learning_rate"], rtol=1e-6)


def test_variants_are_recorded_and_differ_only_in_knots(finished):
    frame = load_results(finished)
    assert set(frame["variant"]) == set(RATES)
    assert frame["key"].is_unique
    fixed = frame[frame["method"] == "BS-Q"].drop(columns=[*CLOCKS, "key", "variant", "stack", "stack_place"])
    for _, rows in fixed.groupby("fold"):
        assert len(rows) == 3
        assert len(rows.drop_duplicates()) == 1, "a variant of the knots' rate changed a network without learned knots"
    moved = frame[frame["method"] == "BS-Grad-U"].groupby("variant")["knots_moved"].all()
    assert moved.to_dict() == {"still": False, "slow": True, "fast": True}


def test_knot_paths_begin_uniformly_and_go_farther_at_a_higher_rate(finished):
    frame = load_results(finished).set_index("key")
    paths = load_knot_paths(finished)
    assert list(paths.columns) == ["key", "epoch", "feature", "knot", "position"]
    learned = frame[frame["method"] == "BS-Grad-U"]
    assert set(paths["key"]) == set(learned.index)
    data = load_dataset("sk_iris")
    assert set(paths["feature"]) == set(data.numerical)
    ways = dict.fromkeys(RATES, 0.0)
    for key, rows in paths.groupby("key", observed=True):
        assert rows["epoch"].max() == frame.loc[key, "epochs"]
        assert len(rows) == (frame.loc[key, "epochs"] + 1) * len(data.numerical) * 2
        wide = rows.pivot_table(index="epoch", columns=["feature", "knot"], values="position", observed=True)
        for feature in data.numerical:
            first = wide[feature].iloc[0]
            low, high = data.frame[feature].min(), data.frame[feature].max()
            assert ((first > low) & (first < high)).all()
            assert (wide[feature][0] < wide[feature][1]).all()
        ways[frame.loc[key, "variant"]] += float((wide.iloc[-1] - wide.iloc[0]).abs().sum())
    assert ways["still"] == 0 < ways["slow"] < ways["fast"]


def test_nothing_but_histories_is_kept_by_default(tmp_path):
    run(tiny_plan(), tmp_path, device="cpu")
    assert len(list((tmp_path / "histories").iterdir())) == len(list((tmp_path / "records").iterdir())) == 1
    assert not (tmp_path / "knots").exists()
    assert load_knot_paths(tmp_path).empty
    assert list(load_knot_paths(tmp_path).columns) == list(traces.TRACES["knots"])


def test_histories_of_superseded_and_lost_records_do_not_count(tmp_path):
    plan = tiny_plan(methods=["Std"], sizes=[])
    run(plan, tmp_path, device="cpu")
    run(tiny_plan(methods=["Std"], sizes=[], training=TRAINING | {"max_epochs": 5}), tmp_path, device="cpu")
    assert len(load_histories(tmp_path)) == 2 * 5
    assert len(load_histories(tmp_path, plan.plan_hash)) == 2 * 3
    (tmp_path / "records.parquet").unlink()
    for path in (tmp_path / "records").iterdir():
        path.unlink()
    assert load_histories(tmp_path).empty


def test_a_record_from_before_histories_has_none(finished, tmp_path):
    run(tiny_plan(), tmp_path, device="cpu")
    for path in (tmp_path / "histories").iterdir():
        path.unlink()
    assert load_histories(tmp_path).empty
    assert len(load_results(tmp_path)) == 6


def test_a_network_that_failed_has_no_history(tmp_path, monkeypatch):
    from knotwork.study import _trainer as trainer

    def fail(*args, **kwargs):
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train", fail)
        run(tiny_plan(), tmp_path, device="cpu")
    assert load_histories(tmp_path).empty
    run(tiny_plan(), tmp_path, device="cpu", retry_failed=True)
    assert load_histories(tmp_path)["key"].nunique() == 6


def test_without_its_history_a_network_is_not_recorded(tmp_path, monkeypatch):
    def full(table, file, **settings):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("knotwork.study._folder.pq.write_table", full)
        with pytest.raises(OSError, match="No space left"):
            run(tiny_plan(), tmp_path, device="cpu")
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".tmp", ".lock", ".parquet")]
    assert run(tiny_plan(), tmp_path, device="cpu").n_ok == 6
    assert load_histories(tmp_path)["key"].nunique() == 6


def test_the_built_in_plan_of_knots_has_the_rates_of_the_protocol():
    plan = load_plan("knot-relocation")
    assert (plan.n_networks, plan.sizes, plan.keep_knots) == (12, (10,), True)
    for variant in plan.variants:
        config = plan.config_of(variant.name)
        np.testing.assert_allclose(config.learning_rate * config.knot_rate, float(variant.name))
    assert [variant.name for variant in plan.variants] == ["1e-5", "5e-5", "1e-4", "2e-4"]


def test_networks_trained_alone_keep_their_traces_too(tmp_path):
    plan = paths_plan(together=False, methods=["IS-Grad-U"], folds=2, backbones=[SMALL_MLP])
    run(plan, tmp_path, device="cpu")
    assert load_knot_paths(tmp_path)["key"].nunique() == 6
    assert load_histories(tmp_path)["key"].nunique() == 6
    epochs = load_results(tmp_path).set_index("key")["epochs"].to_dict()
    assert load_histories(tmp_path).groupby("key", observed=True).size().to_dict() == epochs


@pytest.mark.parametrize(("method", "start"), [("PLE-Grad", "PLE"), ("BS-Grad-Q", "BS-Q"), ("IS-Grad-CART", "IS-CART")])
def test_learned_knots_start_where_their_name_says(method, start, tmp_path):
    plan = tiny_plan(methods=[method], sizes=[6], split="holdout", folds=1, keep_knots=True)
    run(plan, tmp_path, device="cpu")
    data = load_data(plan, "sk_iris")
    (split,) = make_splits(data.table.target, data.table.task, folds=1, seed=plan.seed, split="holdout")
    encoder = kw.make_encoder(start, size=6, task="classification").fit(
        data.table.numbers[split.train], data.table.target[split.train]
    )
    paths = load_knot_paths(tmp_path)
    first = paths[paths["epoch"] == 0]
    for name, knots in zip(data.identity.numerical, encoder.knots_, strict=True):
        np.testing.assert_allclose(first[first["feature"] == name]["position"], knots, atol=2e-3 * np.ptp(knots))
    assert load_results(tmp_path)["knots_moved"].all()
