"""Cross-validation: agreement with the estimators, deadlines, and Ctrl-C in the middle of a training."""

import time

import numpy as np
import pandas as pd
import pytest

from knotwork import TabularClassifier, TabularRegressor, TrainingConfig
from knotwork.compare._budget import measure_speed
from knotwork.compare._inputs import CompareOptions, read_source
from knotwork.compare._scoring import codes_of_tested, cross_validate, fold_table, groups_of
from knotwork.encoders import Encoding
from tests.compare.cases import write_flats

CANDIDATES = [Encoding("Std", None), Encoding("BS-Q", 6), Encoding("PLE", 8)]


@pytest.fixture
def source(tmp_path):
    return read_source(write_flats(tmp_path), "rent")


def validate(source, candidates, *, max_epochs, **settings):
    prepared = fold_table(source, folds=2, seed=0)
    config = TrainingConfig(max_epochs=max_epochs)
    return cross_validate(prepared, candidates, CompareOptions().network, config, device="cpu", **settings)


def test_each_size_is_a_group_and_scalings_join_the_smallest():
    assert groups_of(CANDIDATES) == {6: CANDIDATES[:2], 8: CANDIDATES[2:]}
    assert groups_of(CANDIDATES[:1]) == {1: CANDIDATES[:1]}


def test_the_deadline_stops_every_group(source):
    deadline = time.perf_counter()  # fast machines would end some groups early, by their scores
    scored = list(validate(source, CANDIDATES, max_epochs=10_000, costs={6: 2.0, 8: 1.0}, deadline=deadline))
    assert [each.candidate for each in scored] == CANDIDATES
    assert all((each.epochs >= 1).all() and each.is_finite for each in scored)
    assert all(each.n_stopped == (0, 2) for each in scored)


def test_networks_that_reach_the_cap_are_counted(source):
    [row] = validate(source, CANDIDATES[:1], max_epochs=2)
    assert row.n_stopped == (2, 0)
    assert len(row.histories) == 2


class Interrupting:
    """A display that is interrupted after the second epoch."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def __call__(self, report):
        if report.epoch == 2:
            raise KeyboardInterrupt


def test_ctrl_c_in_a_stack_keeps_its_scores(source):
    settings = {"max_epochs": 50, "progress": Interrupting, "costs": {6: 2.0, 8: 1.0}}
    rows = validate(source, CANDIDATES, **settings, deadline=time.perf_counter() + 600)
    scored = [next(rows), next(rows)]
    with pytest.raises(KeyboardInterrupt):
        next(rows)
    assert [each.candidate for each in scored] == CANDIDATES[:2]
    assert all(each.epochs.tolist() == [2, 2] for each in scored)
    assert all(each.n_stopped == (0, 2) for each in scored)


def test_speed_is_measured_for_every_candidate(source):
    speed = measure_speed(source, CANDIDATES, backbone=CompareOptions().network, device="cpu")
    assert set(speed.steps) == {6, 8}
    assert set(speed.prepare) == set(CANDIDATES)
    assert all(seconds > 0 for seconds in speed.prepare.values())
    assert all(fixed >= 0 and per_row > 0 for fixed, per_row in speed.steps.values())
    assert set(speed.build) == {6, 8}
    assert speed.epoch(6, 10_000) > speed.epoch(6, 1_000) > 0


@pytest.fixture
def numbers(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    frame["y"] = np.sin(2 * frame["a"]) + frame["b"] ** 2
    frame["k"] = np.where(frame["y"] > 0.7, "high", "low")
    frame.loc[:40, "c"] = np.nan
    frame.to_parquet(tmp_path / "numbers.parquet")
    return tmp_path / "numbers.parquet"


@pytest.mark.parametrize(
    ("target", "metric", "kind"), [("y", "rmse", TabularRegressor), ("k", "log_loss", TabularClassifier)]
)
@pytest.mark.parametrize("spec", ["BS-Q@7", "Std", "IS-Grad-U@6"])
def test_a_fold_is_the_estimator_on_its_rows(numbers, target, metric, kind, spec):
    other = "k" if target == "y" else "y"
    source = read_source(numbers, target, drop=[other])
    prepared = fold_table(source, folds=3, seed=5)
    config = TrainingConfig(max_epochs=4)
    method, _, size = spec.partition("@")
    candidate = Encoding(method, int(size) if size else None)
    both, costs = [candidate, Encoding("PLE", 7)], {int(size or 7): 1.0, 7: 1.0}
    rows = cross_validate(prepared, both, CompareOptions().network, config, costs=costs, device="cpu")
    scored = next(each for each in rows if each.candidate == candidate)
    for place, fold in enumerate(prepared.splits):
        model = kind(spec, random_state=5 + place, training=config, device="cpu")
        rows = np.sort(np.concatenate([fold.train, fold.valid]))
        model.fit(source.features.iloc[rows], source.labels[rows])
        tested, actual = source.features.iloc[fold.test], source.target[fold.test]
        if metric == "rmse":
            expected = np.sqrt(np.mean((model.predict(tested) - actual) ** 2))
        else:
            shares = model.predict_proba(tested)
            expected = -np.log(shares[np.arange(len(actual)), actual]).mean()
        assert scored.scores[metric][place] == pytest.approx(expected, rel=2e-3)
        predicted = scored.predictions[fold.test % len(source.target)]
        again = model.predict(tested) if metric == "rmse" else shares
        np.testing.assert_allclose(predicted, again, rtol=0.05, atol=0.02)
        assert scored.n_parameters == sum(p.numel() for p in model.trained_.pieces[0].network.parameters())


def test_every_row_is_tested_once(numbers):
    prepared = fold_table(read_source(numbers, "y"), folds=4, seed=0)
    tested = np.concatenate([fold.test for fold in prepared.splits])
    assert sorted(tested) == list(range(300))
    for fold in prepared.splits:
        assert sorted([*fold.train, *fold.valid, *fold.test]) == list(range(300))


def test_categories_of_test_rows_alone_are_unseen(tmp_path):
    frame = pd.DataFrame({"x": np.arange(90.0), "c": ["a", "b"] * 45, "y": np.arange(90) / 7})
    frame.loc[11, "c"] = "only here"
    frame.loc[12, "x"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    prepared = fold_table(read_source(tmp_path / "t.csv", "y"), folds=3, seed=0)
    table, splits = prepared.table, prepared.splits
    assert table.cardinalities == (4, 3)
    assert len(table.codes) == 90
    codes = codes_of_tested(prepared)
    for split in splits:
        others = np.setdiff1d(np.arange(90), split.test)
        if 11 in split.test:
            assert codes[11, 0] == 0
        assert set(codes[np.arange(90) != 11, 0]) == {1, 2}
        if 12 in split.test:
            assert codes[12, 1] == 2  # a column that is complete in all other rows
        assert not np.isnan(table.numbers[np.setdiff1d(others, [12])]).any()
    assert (table.codes[11, 0], table.codes[12, 1]) == (3, 1)
