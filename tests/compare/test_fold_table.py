"""Cross-validation agrees with an estimator that is fitted on the same rows."""

import numpy as np
import pandas as pd
import pytest

from knotwork import TabularClassifier, TabularRegressor, TrainingConfig
from knotwork.compare._options import CompareOptions
from knotwork.compare._scoring import CrossValidation, fold_table
from knotwork.compare._source import read_source
from knotwork.encoders import Encoding


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
    validation = CrossValidation(prepared, CompareOptions().network, config, "cpu")
    validation.run([candidate, Encoding("PLE", 7)], costs={int(size or 7): 1.0, 7: 1.0}, deadline=None)
    scored = next(each for each in validation.scored if each.candidate == candidate)
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
    for split in splits:
        start = min(split.train.min(), split.valid.min(), split.test.min()) // 90 * 90
        codes = table.codes[start : start + 90]
        tests_it = 11 + start in split.test
        assert codes[11, 0] == (0 if tests_it else 3)
        assert set(codes[np.arange(90) != 11, 0]) == {1, 2}
        missing_in_training = 12 + start in split.train
        assert codes[12, 1] == (1 if missing_in_training else 2)  # 2: a column that is complete in training
