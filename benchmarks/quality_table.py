"""The tables that `quality.py --table` prints, and their summary in sentences."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import knotwork as kw

__all__ = ["MODELS", "Ratio", "page", "ratio", "read", "score_table", "words"]

MODELS = {
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "rtdl PLE": "rtdl, PLE",
    "rtdl periodic": "rtdl, periodic",
    "recommended": "`recommended`",
    "validated": "`validated`",
    "ensemble": "`ensemble`",
}
"""The models and their names in tables."""

BOOSTING = ("lightgbm", "catboost")
OURS = ("recommended", "validated", "ensemble")
FOLDS = 5
SURE = 0.05


def read(*paths: Path) -> pd.DataFrame:
    """Return the results in the files that exist, with a column ``error``: NRMSE, or 1 - AUC."""
    lines = [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]
    frame = pd.DataFrame(lines)
    frame["error"] = frame["score"].where(frame["task"] == "regression", 1 - frame["score"])
    return frame


def errors_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean errors over folds, a row per table, regression first, and a column per model."""
    means = frame.pivot_table(index=["task", "table"], columns="model", values="error").dropna()
    return means[[model for model in MODELS if model in means]].sort_index(ascending=[False, True])


class Ratio:
    """Errors of a model relative to those of another, over tables, in percent; below 0 is better.

    Parameters
    ----------
    errors : DataFrame
        Mean errors, a row per table and a column per model.
    model, other : str
        The models.

    Attributes
    ----------
    changes : Series
        Difference of the errors on each table.
    mean, median : float
        The geometric mean of the ratio, and its median.
    mean_interval, median_interval : tuple of float
        Their 95 % intervals over tables: by t of the logarithms, and by order statistics.
    p : float
        p-value of Wilcoxon's signed-rank test of the logarithms.
    wins : int
        Tables with less error.
    """

    def __init__(self, errors: pd.DataFrame, model: str, other: str) -> None:
        logs = np.log(errors[model] / errors[other])
        self.changes: pd.Series = _percent(logs)
        self.mean, self.median = float(_percent(logs.mean())), float(self.changes.median())
        self.mean_interval = tuple(_percent(np.array(stats.t.interval(0.95, len(logs) - 1, logs.mean(), logs.sem()))))
        self.median_interval = tuple(stats.quantile_test(self.changes, p=0.5).confidence_interval(0.95))
        self.p, self.wins = float(stats.wilcoxon(logs).pvalue), int((self.changes < 0).sum())

    def cells(self) -> list[str]:
        """Return the cells of a table."""
        intervals = []
        for middle, ends in ((self.mean, self.mean_interval), (self.median, self.median_interval)):
            intervals.append(f"{middle:+.1f} ({ends[0]:+.1f} to {ends[1]:+.1f})")
        ends = [f"{self.changes[place]:+.1f} {place[1]}" for place in (self.changes.idxmin(), self.changes.idxmax())]
        return [*intervals, f"{self.p:.1g}", f"{self.wins} of {len(self.changes)}", *ends]


def ratio(frame: pd.DataFrame, model: str, other: str) -> Ratio:
    """Return how the errors of two models compare on the tables of a frame."""
    return Ratio(errors_of(frame[frame["model"].isin((model, other))]), model, other)


def _percent(logs: Any) -> Any:
    """Return logarithms of ratios as changes in percent."""
    return 100 * np.expm1(logs)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")
    )


def score_table(frame: pd.DataFrame) -> str:
    """Return scores by table and model, the best in bold, and average ranks."""
    errors = errors_of(frame)
    rows = []
    for (task, name), row in errors.iterrows():
        cells = [f"{value if task == 'regression' else 1 - value:.4f}" for value in row]
        bold = [f"**{cell}**" if value == row.min() else cell for cell, value in zip(cells, row, strict=True)]
        rows.append([f"{name} ({'NRMSE' if task == 'regression' else 'AUC'})", *bold])
    ranks = kw.stats.average_ranks(errors.to_numpy())
    cells = [f"**{rank:.2f}**" if rank == ranks.min() else f"{rank:.2f}" for rank in ranks]
    rows.append([f"average rank, {len(errors)} tables", *cells])
    return _markdown(["", *(MODELS[model] for model in errors)], rows)


def rank_words(frame: pd.DataFrame) -> str:
    """Return which differences of average ranks are significant."""
    errors = errors_of(frame).to_numpy()
    n_tables, n_models = errors.shape
    critical = kw.stats.critical_difference(k=n_models, n=n_tables)
    return (
        f"Friedman's test (Iman and Davenport): p = {kw.stats.friedman(errors).p_F:.1g}. "
        f"Average ranks that differ by less than {critical:.2f} do not differ significantly (Nemenyi, 5 %)."
    )


def _sure(frame: pd.DataFrame, table: str, models: Sequence[str]) -> bool:
    """Return whether two models differ over the folds of a table, by the corrected resampled t-test."""
    errors = frame[frame["table"] == table].pivot_table(index="fold", columns="model", values="error")
    return bool(kw.stats.compare_folds(errors[list(models)], test_to_train=1 / (FOLDS - 1)).p.min() < SURE)


def duels(frame: pd.DataFrame, model: str, other: str) -> pd.DataFrame:
    """Return, for every table, the difference of errors in percent and whether it is significant over folds."""
    changes = ratio(frame, model, other).changes.droplevel(0)
    return pd.DataFrame({"percent": changes, "sure": [_sure(frame, name, (model, other)) for name in changes.index]})


def _counts(results: pd.DataFrame) -> str:
    return f"{(results['percent'] < 0).sum()} : {(results['percent'] > 0).sum()}"


def duel_table(frame: pd.DataFrame) -> str:
    """Return wins and losses of `ensemble` and `validated` against boosting, by table."""
    pairs = [(model, other) for model in ("ensemble", "validated") for other in BOOSTING]
    columns = [duels(frame, *pair) for pair in pairs]
    rows = [
        [name, *(f"{column.at[name, 'percent']:+.1f}{' *' if column.at[name, 'sure'] else ''}" for column in columns)]
        for name in columns[0].index
    ]
    rows.append(["wins : losses", *(_counts(column) for column in columns)])
    rows.append(["of these significant", *(_counts(column[column["sure"]]) for column in columns)])
    return _markdown(
        ["difference of error, %", *(f"{MODELS[model]} vs. {MODELS[other]}" for model, other in pairs)], rows
    )


def ratio_table(frame: pd.DataFrame, every: pd.DataFrame) -> str:
    """Return errors relative to those of other models, over the tables with all models and over all tables."""
    pairs = [(model, "recommended") for model in MODELS if model != "recommended"]
    pairs += [("ensemble", other) for other in ("validated", "rtdl PLE", *BOOSTING)]
    jobs = [(frame, *pair) for pair in pairs]
    if every["table"].nunique() > frame["table"].nunique():
        jobs += [(every, *pair) for pair in ((OURS[1], OURS[0]), (OURS[2], OURS[0]), (OURS[2], OURS[1]))]
    rows = [
        [f"{MODELS[model]} vs. {MODELS[other]}", str(part["table"].nunique()), *ratio(part, model, other).cells()]
        for part, model, other in jobs
    ]
    head = ["error, %", "tables", "mean (95 % interval)", "median (95 % interval)", "p", "less on", "least", "most"]
    return _markdown(head, rows)


def seconds_table(frame: pd.DataFrame) -> str:
    """Return median seconds per fold, and the machine."""
    jobs = [(MODELS[model], [model], "seconds", "one complete fit") for model in MODELS]
    jobs.append((", ".join(MODELS[word] for word in OURS), list(OURS), "seconds_shared", "all three, training alone"))
    rows = []
    for name, models, kind, what in jobs:
        lines = frame[frame["model"].isin(models)]
        if kind in lines and lines[kind].notna().any():
            seconds = lines[kind].dropna()
            rows.append(
                [name, f"{seconds.median():.1f}", f"{seconds.max():.1f}", what, ", ".join(lines["device"].unique())]
            )
    return _markdown(["seconds per fold", "median", "most", "of", "measured on"], rows)


def _against(frame: pd.DataFrame, model: str, other: str) -> str:
    """Return wins and losses as a sentence."""
    results = duels(frame, model, other)
    won, lost = results[results["percent"] < 0], results[results["percent"] > 0]
    sure = [name for name in lost.index if lost.at[name, "sure"]]
    return (
        f"less error than {MODELS[other]} on {len(won)} of {len(results)} tables (significantly, over folds, on "
        f"{won['sure'].sum()}) and more on {len(lost)} (significantly on {len(sure)}: {', '.join(sure)})"
    )


def _change(frame: pd.DataFrame, every: pd.DataFrame, model: str, other: str) -> str:
    """Return a change of errors as a sentence."""
    few, all_of_them = ratio(frame, model, other), ratio(every, model, other)
    low, high = few.mean_interval
    return (
        f"{MODELS[model]} changes the error of {MODELS[other]} by {few.mean:+.1f} % on average over {len(few.changes)} "
        f"tables (95 % interval {low:+.1f} to {high:+.1f} %{', which contains 0' if low < 0 < high else ''}) and by "
        f"{few.median:+.1f} % in the median, with less error on {few.wins}; over {len(all_of_them.changes)} tables by "
        f"{all_of_them.median:+.1f} % in the median, with less error on {all_of_them.wins}."
    )


def words(frame: pd.DataFrame, every: pd.DataFrame) -> dict[str, str]:
    """Return the summary for the pages: comparisons with boosting, of the default, and of the other two modes."""
    errors = errors_of(frame)
    ranks = pd.Series(kw.stats.average_ranks(errors.to_numpy()), index=errors.columns).sort_values()
    place = int((ranks < ranks["recommended"]).sum()) + 1
    has = "shares" if (ranks == ranks["recommended"]).sum() > 1 else "has"
    peer = ratio(frame, "recommended", "rtdl PLE")
    return {
        "boosting": f"{MODELS['ensemble']} has {_against(frame, 'ensemble', 'lightgbm')}; it has "
        f"{_against(frame, 'ensemble', 'catboost')}.",
        "default": f"The default, {MODELS['recommended']}, is one network, and {has} place {place} of {len(ranks)} by "
        "average rank, with more error than rtdl's PLE on "
        f"{len(peer.changes) - peer.wins} of {len(peer.changes)} tables.",
        "validated": _change(frame, every, "validated", "recommended"),
        "ensemble": _change(frame, every, "ensemble", "recommended"),
        "both": _change(frame, every, "ensemble", "validated"),
    }


def page(out: Path) -> str:
    """Return all tables of a folder of results."""
    frame, every = read(out / "results.jsonl"), read(out / "results.jsonl", out / "others.jsonl")
    parts = [score_table(frame)]
    whole = set(MODELS) <= set(frame["model"])
    if whole:
        parts += [rank_words(frame), duel_table(frame), ratio_table(frame, every)]
    parts.append(seconds_table(frame))
    return "\n\n".join(parts)
