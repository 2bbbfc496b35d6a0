"""The tables that `quality.py --table` prints, and what they say in a few words."""

import json
from collections.abc import Sequence
from pathlib import Path

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
"""The models, and how tables name them."""

BOOSTING = ("lightgbm", "catboost")
FOLDS = 5
SURE = 0.05


def read(*paths: Path) -> pd.DataFrame:
    """Return the results in files, those that are there, with a column ``error``: NRMSE, or 1 - AUC."""
    lines = [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]
    frame = pd.DataFrame(lines)
    frame["error"] = frame["score"].where(frame["task"] == "regression", 1 - frame["score"])
    return frame


def errors_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean errors over folds, a row per table, regression first, and a column per model."""
    means = frame.pivot_table(index=["task", "table"], columns="model", values="error").dropna()
    return means[[model for model in MODELS if model in means]].sort_index(level=0, ascending=[False, True])


class Ratio:
    """Errors of a model over those of another, over tables: in percent, less than 0 is better.

    Parameters
    ----------
    errors : DataFrame
        Mean errors, a row per table and a column per model.
    model, other : str
        The models.

    Attributes
    ----------
    each : Series
        By how much the errors differ on each table.
    mean, low, high : float
        The geometric mean of the ratio, and its 95 % t interval over tables.
    """

    def __init__(self, errors: pd.DataFrame, model: str, other: str) -> None:
        logs = np.log(errors[model] / errors[other])
        ends = stats.t.interval(0.95, len(logs) - 1, logs.mean(), logs.sem())
        self.each: pd.Series = _percent(logs)
        self.mean, self.low, self.high = (float(_percent(value)) for value in (logs.mean(), *ends))
        self.median, self.wins = float(self.each.median()), int((self.each < 0).sum())

    def cells(self) -> list[str]:
        """Return the cells of a table."""
        worst = self.each.idxmax()[1], self.each.max()
        best = self.each.idxmin()[1], self.each.min()
        ends = [f"{name} {value:+.1f}" for name, value in (best, worst)]
        found = f"{self.mean:+.1f}", f"{self.low:+.1f} to {self.high:+.1f}", f"{self.median:+.1f}"
        return [*found, f"{self.wins} of {len(self.each)}", *ends]


def ratio(frame: pd.DataFrame, model: str, other: str) -> Ratio:
    """Return how the errors of two models compare on the tables of a frame."""
    return Ratio(errors_of(frame), model, other)


def _percent(logs):  # type: ignore[no-untyped-def]
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
    apart = kw.stats.critical_difference(k=n_models, n=n_tables)
    return (
        f"Friedman's test (Iman and Davenport): p = {kw.stats.friedman(errors).p_F:.1g}. "
        f"Average ranks that differ by less than {apart:.2f} are not told apart (Nemenyi, 5 %)."
    )


def _sure(frame: pd.DataFrame, table: str, models: Sequence[str]) -> bool:
    """Return whether two models differ over the folds of a table, by the corrected resampled t-test."""
    own = frame[frame["table"] == table].pivot_table(index="fold", columns="model", values="error")
    return bool(kw.stats.compare_folds(own[list(models)], test_to_train=1 / (FOLDS - 1)).p.min() < SURE)


def duels(frame: pd.DataFrame, model: str, other: str) -> pd.DataFrame:
    """Return, for every table, the difference of errors in percent and whether it is significant over folds."""
    each = ratio(frame, model, other).each.droplevel(0)
    return pd.DataFrame({"percent": each, "sure": [_sure(frame, name, (model, other)) for name in each.index]})


def _counts(found: pd.DataFrame) -> str:
    return f"{(found['percent'] < 0).sum()} : {(found['percent'] > 0).sum()}"


def duel_table(frame: pd.DataFrame) -> str:
    """Return wins and losses of our choosing models against boosting, by table."""
    pairs = [(model, other) for model in ("ensemble", "validated") for other in BOOSTING]
    found = [duels(frame, *pair) for pair in pairs]
    rows = [
        [name, *(f"{own.at[name, 'percent']:+.1f}{' *' if own.at[name, 'sure'] else ''}" for own in found)]
        for name in found[0].index
    ]
    rows.append(["wins : losses", *(_counts(own) for own in found)])
    rows.append(["of these significant", *(_counts(own[own["sure"]]) for own in found)])
    return _markdown(["error beside, %", *(f"{MODELS[model]}, {MODELS[other]}" for model, other in pairs)], rows)


def ratio_table(frame: pd.DataFrame, every: pd.DataFrame) -> str:
    """Return errors beside those of other models, over the tables with all models and over all tables."""
    ours = ("recommended", "validated", "ensemble")
    every = every[every["model"].isin(ours)]
    pairs = [(model, "recommended") for model in MODELS if model != "recommended"]
    pairs += [("ensemble", other) for other in ("validated", *BOOSTING)]
    jobs = [(frame, *pair) for pair in pairs]
    if every["table"].nunique() > frame["table"].nunique():
        jobs += [(every, *pair) for pair in (("validated", ours[0]), ("ensemble", ours[0]), ("ensemble", ours[1]))]
    rows = [
        [f"{MODELS[model]} beside {MODELS[other]}", str(part["table"].nunique()), *ratio(part, model, other).cells()]
        for part, model, other in jobs
    ]
    head = ["error, %", "tables", "mean", "95 % interval", "median", "smaller on", "most gained", "most lost"]
    return _markdown(head, rows)


def seconds_table(frame: pd.DataFrame) -> str:
    """Return median seconds per fold, and on what."""
    kinds = {"seconds": "one fit, with all that belongs to it", "seconds_shared": "ten candidates, training alone"}
    rows = [
        [MODELS[model], f"{found[kind].median():.1f}", f"{found[kind].max():.1f}", what, ", ".join(found["device"].unique())]
        for model in MODELS
        for kind, what in kinds.items()
        if not (found := frame[frame["model"] == model].dropna(subset=[kind])).empty
    ]  # fmt: skip
    return _markdown(["seconds per fold", "median", "most", "of", "measured on"], rows)


def words(frame: pd.DataFrame, every: pd.DataFrame) -> dict[str, str]:
    """Return what the tables say, in sentences for the pages: ``boosting``, ``validated`` and ``ensemble``."""

    def against(model: str, other: str) -> str:
        found = duels(frame, model, other)
        lost = found[found["percent"] > 0]
        sure = found[found["sure"]]
        return (
            f"{MODELS[other]} on {len(found) - len(lost)} of {len(found)} tables ({(sure['percent'] < 0).sum()} "
            f"significantly over folds) and loses on {', '.join(lost.index) or 'none'} "
            f"({(sure['percent'] > 0).sum()} significantly)"
        )

    def gains(model: str, other: str) -> str:
        twelve, most = ratio(frame, model, other), ratio(every, model, other)
        return (
            f"{-twelve.mean:.1f} % less error than {MODELS[other]} (median {-twelve.median:.1f} %, 95 % interval over "
            f"tables {-twelve.high:.1f} to {-twelve.low:.1f} %; on all {len(most.each)} tables of the study median "
            f"{-most.median:.1f} %, less error on {most.wins})"
        )

    return {
        "boosting": f"{MODELS['ensemble']} beats {against('ensemble', 'lightgbm')}; it beats "
        f"{against('ensemble', 'catboost')}.",
        "validated": f"On twelve tables {MODELS['validated']} has {gains('validated', 'recommended')}.",
        "ensemble": f"On twelve tables {MODELS['ensemble']} has {gains('ensemble', 'recommended')}, and "
        f"{gains('ensemble', 'validated')}.",
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
