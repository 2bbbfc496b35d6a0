"""Folds by group and in the order of time: random ones would be optimistic where rows repeat, or the target drifts."""

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork._preparation.validation import forward_folds
from knotwork.compare import CompareOptions, compare_table
from knotwork.compare import _models as models
from knotwork.compare._inputs import read_source
from knotwork.compare._scoring import fold_table
from tests.compare.cases import draw_nothing, prefer, shorten

OPTIONS = {"methods": ("Std",), "folds": 3, "time_budget": None, "effort": "single"}


@pytest.fixture(autouse=True)
def figureless(monkeypatch):
    shorten(monkeypatch)
    draw_nothing(monkeypatch)


def storms(folder, n_storms=30, n_rows=20):
    """Write rows of storms, each with a place and a strength of its own: a model can learn storms by heart."""
    rng = np.random.default_rng(0)
    storm = np.repeat(np.arange(n_storms), n_rows)
    place, strength = rng.uniform(size=n_storms), rng.normal(size=n_storms)
    frame = pd.DataFrame(
        {
            "storm": [f"storm {each}" for each in storm],
            "place": place[storm] + 1e-4 * rng.normal(size=len(storm)),
            "wind": rng.normal(size=len(storm)),
        }
    )
    frame["y"] = 3 * strength[storm] + frame["wind"] + 0.1 * rng.normal(size=len(storm))
    frame = frame.sample(frac=1, random_state=0)
    frame.to_csv(folder / "storms.csv", index=False)
    return frame


def drifting(folder, n=400):
    """Write rows in the order of time: the target follows a random walk, so neighbours tell it."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"day": np.arange(n, dtype=float), "x": rng.normal(size=n)})
    frame["y"] = np.cumsum(rng.normal(size=n)) + 0.3 * frame["x"]
    frame.to_csv(folder / "walk.csv", index=False)
    return frame


def best(result):
    return min(line.mean for line in result.ranking.lines)


def test_folds_that_keep_groups_together_are_less_optimistic(tmp_path):
    storms(tmp_path)
    about = {"out": tmp_path / "out", "device": "cpu"}
    random = compare_table(tmp_path / "storms.csv", "y", options=CompareOptions(drop=("storm",), **OPTIONS), **about)
    grouped = compare_table(tmp_path / "storms.csv", "y", options=CompareOptions(groups="storm", **OPTIONS), **about)
    assert best(grouped) > 2 * best(random)
    assert "3 folds that keep groups together" in grouped.evidence
    assert list(grouped.model.feature_names_in_) == ["place", "wind"]
    assert any("one 'storm' together: 30 groups" in note for note in grouped.notes)


@pytest.mark.parametrize("groups", [None, "storm"])
def test_every_fold_of_every_kind_keeps_groups_together(tmp_path, monkeypatch, groups):
    frame, seen = storms(tmp_path), []
    prepare = models.prepare
    monkeypatch.setattr(models, "prepare", lambda *given, **about: seen.append(prepare(*given, **about)) or seen[-1])
    prefer(monkeypatch, "ensemble")
    options = CompareOptions(**{**OPTIONS, "effort": "fast"}, groups=groups, drop=() if groups else ("storm",))
    result = compare_table(tmp_path / "storms.csv", "y", out=tmp_path / "out", options=options, device="cpu")
    source = read_source(tmp_path / "storms.csv", "y", groups=groups, drop=() if groups else ("storm",))
    storm = frame["storm"].to_numpy()
    [preparation] = seen
    splits = [*preparation.prepared.splits, *fold_table(source, folds=3, seed=0).splits]
    for split in splits:
        held = storm[split.test if len(split.test) else split.valid]
        train = storm[np.concatenate([split.train, split.valid]) if len(split.test) else split.train]
        assert bool(np.intersect1d(train, held).size) == (groups is None)
        if groups and len(split.test):
            assert not np.intersect1d(storm[split.train], storm[split.valid]).size
    assert result.ranking.chosen.kind == "ensemble"


def test_folds_in_the_order_of_time_are_less_optimistic(tmp_path):
    drifting(tmp_path)
    about = {"out": tmp_path / "out", "device": "cpu"}
    random = compare_table(tmp_path / "walk.csv", "y", options=CompareOptions(**OPTIONS), **about)
    forward = compare_table(tmp_path / "walk.csv", "y", options=CompareOptions(validation="time", **OPTIONS), **about)
    assert best(forward) > 1.5 * best(random)
    assert "3 folds in the order of time" in forward.evidence
    assert forward.compared.features["day"].tolist() == list(range(280, 400))
    for line in forward.ranking.lines:
        assert line.scored.predictions.shape == (120,)


@pytest.mark.parametrize("kind", ["boosting", "encoding", "ensemble"])
def test_models_in_the_order_of_time_are_saved(tmp_path, monkeypatch, kind):
    frame = drifting(tmp_path)
    prefer(monkeypatch, kind)
    options = CompareOptions(validation="time", **{**OPTIONS, "effort": "fast"})
    result = compare_table(tmp_path / "walk.csv", "y", out=tmp_path / "out", options=options, device="cpu")
    assert result.ranking.chosen.kind == kind
    loaded = kw.load(result.model_path, device="cpu")
    assert loaded.validation == "time"
    np.testing.assert_array_equal(loaded.predict(frame[["day", "x"]]), result.model.predict(frame[["day", "x"]]))


def test_forward_folds_train_on_what_was_before():
    parts = forward_folds(np.arange(100), 100, n_folds=3, share=0.3)
    assert [(train[-1], valid[0], valid[-1]) for train, valid in parts] == [(69, 70, 79), (79, 80, 89), (89, 90, 99)]
    places = np.arange(0, 100, 2)  # a sample has the same ends
    assert [places[valid].tolist() for _, valid in forward_folds(places, 100, n_folds=3, share=0.3)] == [
        list(range(start, start + 10, 2)) for start in (70, 80, 90)
    ]
    groups = np.arange(100) % 50
    for train, valid in forward_folds(np.arange(100), 100, n_folds=3, share=0.3, groups=groups):
        assert not np.intersect1d(groups[train], groups[valid]).size
    with pytest.raises(ValueError, match="folds must leave rows to train on and to test on"):
        forward_folds(np.arange(5), 100, n_folds=3, share=0.3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "strom"}, "Did you mean 'storm'"),
        ({"groups": "y"}, "groups must not name the target"),
        ({"groups": "storm", "folds": 31, "n": 31}, "folds must be at most 20"),
        ({"groups": "storm", "folds": 7, "n": 5}, "folds must be at most 5, the number of groups"),
        ({"validation": "last"}, "validation must be one of 'time'"),
    ],
)
def test_errors(tmp_path, options, message):
    storms(tmp_path, n_storms=options.pop("n", 30))

    def run():
        chosen = CompareOptions(**{**OPTIONS, **options})
        compare_table(tmp_path / "storms.csv", "y", out=tmp_path / "out", options=chosen)

    with pytest.raises(ValueError, match=message):
        run()


def test_a_missing_group_is_refused(tmp_path):
    frame = storms(tmp_path)
    frame.loc[frame.index[:3], "storm"] = None
    frame.to_csv(tmp_path / "storms.csv", index=False)
    with pytest.raises(ValueError, match="groups must have no missing labels"):
        read_source(tmp_path / "storms.csv", "y", groups="storm")
