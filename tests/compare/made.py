"""Comparisons that are made by hand, without training: rankings and predictions of any table."""

import numpy as np
import pandas as pd

from knotwork._preparation.columns import Columns
from knotwork.compare._inputs import Source
from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import rank_candidates
from knotwork.encoders._choice import FeatureChoice
from knotwork.encoders._methods import Encoding
from knotwork.training._results import History

HOSTILE = (
    "<script>window.hacked = 1</script>",
    r"$\frac$",
    "$x$ and $y$",
    '"><img src=x onerror="window.hacked = 1">',
    "{{7*7}}{% raw %}",
    "\u202egnp.exe\u202c",
    "_hidden",
    "n" * 300,
    "a\nb\tc",
    "\u6c17\u6e29 \U0001f321",
)
"""Names of columns, files, targets and categories that someone may have, or send."""


def make_scored(candidate, scores, *, kind="encoding", predictions=None, n_epochs=8):
    """Return a row with the scores of its folds."""
    n = len(scores)
    course = np.linspace(2.0, 1.0, n_epochs)
    history = History(course, course, np.full(n_epochs, 1e-3), n_epochs - 1, 1.0)
    metrics = dict.fromkeys(("rmse", "mae", "r2", "log_loss", "auc", "accuracy", "brier"), np.asarray(scores, float))
    is_network = kind == "encoding"
    return Scored(
        candidate=Encoding.parse(candidate, 7) if is_network else candidate,
        scores=metrics,
        epochs=np.full(n, n_epochs),
        best_epochs=np.full(n, n_epochs - 1),
        train_seconds=1.0,
        prepare_seconds=0.1,
        n_parameters=100 if is_network else None,
        predictions=predictions,
        histories=(history,) * n if is_network else (),
        kind=kind,
    )


def make_source(frame, target="y", *, name="table.csv", classes=()):
    """Return a source whose target is the column `target`: numbers, or codes of classes."""
    values = frame[target].to_numpy()
    labels = np.array([classes[code] for code in values], dtype=object) if classes else values
    task = "classification" if classes else "regression"
    features = frame.drop(columns=target)
    return Source(name, features, Columns.learn(features), labels, values, target, task, tuple(classes), "Task.")


def make_table(names=("a", "b", "c"), target="y", *, n=300, n_classes=0, categories=("u", "v")):
    """Return a table with one number per name but the last, which has categories, and a target."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=n) for name in names[:-1]})
    frame[names[-1]] = rng.choice(np.array(categories, dtype=object), n)
    frame[target] = rng.integers(n_classes, size=n) if n_classes else rng.normal(size=n)
    return frame


def make_ranking(source, *, n_encodings=3, has_others=True):
    """Return the ranking of some encodings, two other models and an ensemble, with predictions out of fold."""
    rng = np.random.default_rng(1)
    predictions = source.target + rng.normal(size=source.n_rows)
    if source.classes:
        shares = rng.uniform(0.1, 1, (source.n_rows, len(source.classes)))
        shares[np.arange(source.n_rows), source.target] += 1
        predictions = shares / shares.sum(axis=1, keepdims=True)
    names = ["BS-Q", "Std", "PLE", "IS-Q", "MS-U", "BS-U", "IS-U", "BS-CART", "IS-CART", "BS-LGBM", "IS-LGBM"]
    rows = [
        make_scored(name, rng.normal(1.0 + 0.1 * place, 0.05, 3), predictions=predictions)
        for place, name in enumerate(names[:n_encodings])
    ]
    rows.append(make_scored("boosting", np.array([0.2, 1.0, 1.9]), kind="boosting", predictions=predictions))
    rows.append(make_scored("linear model", rng.normal(1.5, 0.1, 3), kind="linear", predictions=predictions))
    rows.append(
        make_scored("ensemble (3 networks)", rng.normal(0.9, 0.05, 3), kind="ensemble", predictions=predictions)
    )
    rows = rows if has_others else rows[:n_encodings]
    return rank_candidates(rows, task=source.task, naive=2.0, test_to_train=0.5)


def make_words(source, **others):
    """Return the texts of a page."""
    return {
        "numbers": [(f"{source.n_rows}", "rows")],
        "warnings": [],
        "failed": [],
        "done": [f"{source.name}: target {source.target_name!r}."],
        "code": "knotwork predict model.knotwork new_rows.csv",
        "interrupted": False,
        "saved": "The saved model is the recommended one.",
        "evidence": "The ranking rests on all rows.",
        "banners": [],
        **others,
    }


def make_choices(names):
    """Return a choice for each column: candidates have 1 %, 2 % and so on more error than the first, in turn."""
    candidates = ["BS-Q@7", "PLE@30", "Std"]
    choices = []
    for place, name in enumerate(names):
        turned = candidates[place % 3 :] + candidates[: place % 3]
        losses = {each: 0.5 * (1 + 0.01 * turned.index(each)) for each in candidates}
        choices.append(FeatureChoice(name, turned[0], losses, "It is the best."))
    return choices
