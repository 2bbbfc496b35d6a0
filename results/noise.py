"""The noise of training: networks with the same specification that differ only by the stack they were trained in."""

import pandas as pd

from knotwork.encoders import METHOD_TABLE
from knotwork.stats import noise_floor

NETWORK = ["task", "dataset", "network", "method", "size"]
"""Columns that, with the fold, identify a network of a plan."""


def errors_of(frame: pd.DataFrame) -> "pd.Series[float]":
    """Return the errors of networks: NRMSE, or 1 - AUC."""
    return frame["score"].where(frame["task"] == "regression", 1 - frame["score"]).astype(float)


def identical_pairs(main: pd.DataFrame, again: pd.DataFrame, coordinate: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of networks with the same specification and random seed, trained in different stacks.

    Parameters
    ----------
    main, again, coordinate : DataFrame
        Networks of the main benchmark, the same of another plan, and FT-Transformers with a token per coordinate, of
        which those without an encoding have the tokens of the main benchmark.

    Returns
    -------
    DataFrame
        A row per pair with `source`, `task`, `dataset`, `network`, the absolute difference of scores `gap`, and the
        difference of errors relative to their mean over folds, `relative`.
    """
    learned = main[main["method"].map(lambda name: METHOD_TABLE[name].learnable)]
    still = learned[~learned["knots_moved"].astype(bool)]
    starts = still.assign(method=still["method"].map(lambda name: METHOD_TABLE[name].start))
    scaled = coordinate[coordinate["size"].isna()].assign(network="ft feature")
    sources = {"two plans": again, "knots that never moved": starts, "Std and MinMax, two kinds of tokens": scaled}
    return pd.concat([_paired(main, other).assign(source=source) for source, other in sources.items()])


def _paired(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    frames = [part.assign(error=errors_of(part), size=part["size"].astype(float)) for part in (one, other)]
    both = frames[0].merge(frames[1], on=[*NETWORK, "fold"], suffixes=("", "_other"))
    level = ((both["error"] + both["error_other"]) / 2).groupby([both[name] for name in NETWORK], dropna=False)
    relative = (both["error_other"] - both["error"]) / level.transform("mean")
    gap = (both["score_other"] - both["score"]).abs()
    return both[["task", "dataset", "network"]].assign(gap=gap, relative=relative)


def floor_of(pairs: pd.DataFrame, *, n_sets: int, n_averaged: int) -> float:
    """Return the largest mean difference over data sets that noise alone gives, with a probability of 95 %.

    `pairs` are those of one task and backbone; `n_averaged` is the number of networks of each kind and data set.
    """
    groups = pairs["dataset"].tolist()
    return noise_floor(pairs["relative"].to_numpy(), groups, n_groups=n_sets, n_averaged=n_averaged)
