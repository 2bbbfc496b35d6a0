"""Our three models of a table from one training: encoding="recommended", "validated" and "ensemble".

The three train the same networks: the recommended encoding is one of the ten candidates, and with the same
`random_state` rows, validation rows and seeds are the same. So the estimator's own `fit` is run up to its training, the
candidates of all folds are trained together, and then the estimator's own rules say which of them predict, and with
what weights. What becomes of a network does not depend on the others; but the columns of several folds share one unit,
and float32 rounds them differently than alone. `tests/test_quality.py` compares with separate fits.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from quality_data import coded, score, target_of

import knotwork as kw
from knotwork.datasets import Dataset
from knotwork.estimators import _base as base
from knotwork.estimators._candidates import Candidate, propose
from knotwork.nn._backbones.config import Backbone
from knotwork._preparation.splits import Split
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._results import Trained

__all__ = ["WORDS", "fit_words"]

WORDS = ("recommended", "validated", "ensemble")


class _Reached(Exception):  # noqa: N818 - it is no error
    """Takes out of `fit` what it would train."""


@dataclass(frozen=True)
class Prepared:
    """What the estimator would train on one fold."""

    model: Any
    split: Split
    table: TrainingTable
    members: list[Member]
    backbone: Backbone
    config: TrainingConfig

    @property
    def missing(self) -> tuple[int, ...]:
        """Columns with missing values in the training rows: each has an indicator."""
        return tuple(np.flatnonzero(np.isnan(self.table.numbers[self.members[0].train]).any(axis=0)).tolist())

    @property
    def batch_size(self) -> int:
        """The batch size of the fold alone."""
        return self.config.batch_size_for(len(self.table.target))

    @property
    def shape(self) -> tuple[Any, ...]:
        """What must agree for folds to be trained together."""
        return self.table.n_classes, self.table.cardinalities, self.missing, self.batch_size, len(self.members)

    def candidates(self, word: str) -> list[Candidate]:
        """Return what is tried for a word."""
        names = self.model._numerical_names()
        return propose(word, None, names=names, task=self.table.task, backbone=self.backbone.name)


@contextmanager
def _training_replaced() -> Iterator[None]:
    def reach(*given: Any, **settings: Any) -> None:
        raise _Reached(*given)

    with patch.object(base, "train", reach):
        yield


def prepare(data: Dataset, split: Split, device: str, training: TrainingConfig | None) -> Prepared:
    """Run the estimator's fit up to the training."""
    kind = kw.TabularRegressor if data.task == "regression" else kw.TabularClassifier
    model = kind(encoding="ensemble", random_state=split.seed, device=device, training=training)
    rows = np.concatenate([split.train, split.valid])
    try:
        with _training_replaced():
            model.fit(coded(data).iloc[rows], target_of(data)[rows])
    except _Reached as reached:
        return Prepared(model, split, *reached.args)
    raise AssertionError("fit did not train")


def train_together(folds: Sequence[Prepared], device: str) -> list[Trained]:
    """Train the members of folds of one shape in one stack, and return those of each."""
    first = folds[0]
    whole = replace(
        first.table,
        numbers=np.concatenate([fold.table.numbers for fold in folds]),
        codes=np.concatenate([fold.table.codes for fold in folds]),
        target=np.concatenate([fold.table.target for fold in folds]),
    )
    starts = np.cumsum([0, *(len(fold.table.target) for fold in folds)])
    members = [
        replace(member, train=member.train + start, valid=member.valid + start)
        for fold, start in zip(folds, starts, strict=False)
        for member in fold.members
    ]
    config = replace(first.config, batch_size=first.batch_size)
    trained = train(whole, members, first.backbone, config, device=device, categories=first.model.categories)
    n_own = len(first.members)
    return [trained.keep(range(place * n_own, (place + 1) * n_own)) for place in range(len(folds))]


def predict(word: str, fold: Prepared, trained: Trained, data: Dataset) -> np.ndarray:
    """Return what the estimator with a word for its encoding predicts of the test rows."""
    model, candidates = fold.model, fold.candidates(word)
    if word == "recommended":
        tried = [candidate.choices for candidate in fold.candidates("ensemble")]
        trained = trained.keep([tried.index(candidates[0].choices)])
    first = fold.members[0]
    model.encoding = word
    model._set_fitted(
        model._combined(
            trained, candidates, table=fold.table, held=first.valid, config=fold.config, seed=first.seed
        )
    )  # fmt: skip
    model.indicated_ = list(fold.missing)
    test = coded(data).iloc[fold.split.test]
    return model.predict(test) if data.task == "regression" else model.predict_proba(test)


def fit_words(
    data: Dataset, splits: Sequence[Split], device: str, *, training: TrainingConfig | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the score of every word on every fold.

    Parameters
    ----------
    data : Dataset
        The table.
    splits : sequence of Split
        The folds, with the same number of classes in the training rows of each as in the table.
    device : str
        Where to train.
    training : TrainingConfig, optional
        How to train; by default as the estimators do.

    Yields
    ------
    dict
        ``model``, ``fold``, ``score``, and ``seconds_shared``: the fold's share of the seconds in which the candidates
        of all folds were trained, the same for the three words, and without placing knots.
    """
    target, groups = target_of(data), defaultdict(list)
    for split in splits:
        fold = prepare(data, split, device, training)
        groups[fold.shape].append(fold)
    for folds in groups.values():
        for fold, trained in zip(folds, train_together(folds, device), strict=True):
            seconds = sum(history.seconds for history in trained.histories)
            for word in WORDS:
                found = score(data.task, target[fold.split.test], predict(word, fold, trained, data))
                yield {"model": word, "fold": fold.split.fold, "score": found, "seconds_shared": round(seconds, 2)}
