"""The sections on quality in README, guide and benchmarks, made from the results of `quality.py`.

Networks count with their results of a GPU; boosting, and everything in the part on two cores, with those of a CPU. A
comparison of models uses, on every table, the folds that all of them have, and leaves out tables without such a fold.
An error is NRMSE or 1 - AUC, and at least 1e-6, because several models have an AUC of 1 on shuttle: ratios of smaller
errors mean nothing.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from quality_data import EFFORTS, FOLDS, TABLES, read_lines
from quality_peers import PEERS
from scipy import stats

import knotwork as kw

__all__ = ["SECTIONS", "Ratio", "page", "read", "write_sections"]

ROOT = Path(__file__).parents[1]
TITLES = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "tabm": "TabM-D",
    "realmlp": "RealMLP-TD",
    "rtdl_ple": "rtdl, PLE",
    **{effort: f'`"{effort}"`' for effort in EFFORTS},
}
FLOOR = 1e-6
MOST = 0.8
"""Share of the tables that a model must have in order to be ranked."""
SIGNIFICANT = 0.05
PLACES = {"gpu": "GPU", "cpu": "two cores"}


def read(folder: Path) -> pd.DataFrame:
    """Return one result per table, model, fold and kind of device, with its error.

    Results of our runs replace those of other machines; those measured alone replace others; later ones replace
    earlier ones.
    """
    frame = pd.DataFrame(list(read_lines(folder)))
    for name in ("source", "predict_seconds"):
        frame[name] = frame.get(name, np.nan)
    frame["place"] = np.where(frame["device"].str.contains("CPU"), "cpu", "gpu")
    error = frame["score"].where(frame["task"] == "regression", 1 - frame["score"])
    frame["error"] = error.clip(lower=FLOOR)
    frame["is_ours"] = frame["source"].isna()
    frame = frame.sort_values(["is_ours", "alone"], kind="stable")
    return frame.drop_duplicates(["table", "model", "fold", "place"], keep="last")


def at(frame: pd.DataFrame, place: str) -> pd.DataFrame:
    """Return the results that count for a kind of device: boosting always has those of a CPU."""
    boosting = [model for model, peer in PEERS.items() if not peer.on_gpu]
    is_at_home = frame["place"] == np.where(frame["model"].isin(boosting), "cpu", place)
    return frame[is_at_home]


def common(frame: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    """Return errors on the folds that all models have: a row per task, table and fold, and a column per model."""
    part = frame[frame["model"].isin(models)]
    folds = part.pivot_table(index=["task", "table", "fold"], columns="model", values="error", observed=True)
    return folds.reindex(columns=list(models)).dropna().sort_index(ascending=[False, True, True])


def means(frame: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    """Return mean errors over common folds, with a row per task and table and a column per model."""
    folds = common(frame, models)
    return folds.groupby(level=["task", "table"], sort=False).mean()


def ranked(frame: pd.DataFrame) -> list[str]:
    """Return the models that have results on most tables."""
    counts = frame.groupby("model")["table"].nunique()
    return [model for model in TITLES if counts.get(model, 0) >= MOST * len(TABLES)]


@dataclass(frozen=True)
class Ratio:
    """Errors of a model divided by those of another, over tables; below 1 is better.

    Parameters
    ----------
    ratios : Series
        The ratio on each task and table.
    p : float
        p-value of Wilcoxon's signed-rank test of their logarithms.
    """

    ratios: "pd.Series[float]"
    p: float

    @classmethod
    def of(cls, frame: pd.DataFrame, model: str, other: str) -> "Ratio":
        """Return the comparison of two models on the tables that both have."""
        errors = means(frame, (model, other))
        p = float(kw.stats.wilcoxon_holm(np.log(errors.to_numpy())).p[0, 1]) if len(errors) > 1 else np.nan
        return cls(errors[model] / errors[other], p)

    @property
    def median(self) -> tuple[float, float, float]:
        """The median and its 95 % interval by order statistics."""
        ends = stats.quantile_test(self.ratios, p=0.5).confidence_interval(0.95)
        return float(self.ratios.median()), float(ends.low), float(ends.high)

    @property
    def mean(self) -> tuple[float, float, float]:
        """The geometric mean and its 95 % interval by t of the logarithms."""
        logs = np.log(self.ratios)
        half = stats.t.ppf(0.975, len(logs) - 1) * logs.sem()
        low, middle, high = np.exp(logs.mean() + half * np.array([-1.0, 0.0, 1.0]))
        return float(middle), float(low), float(high)

    @property
    def wins(self) -> int:
        """Number of tables with less error."""
        return int((self.ratios < 1).sum())

    @property
    def losses(self) -> int:
        """Number of tables with more error."""
        return int((self.ratios > 1).sum())


def _interval(value: tuple[float, float, float]) -> str:
    return f"{value[0]:.3f} ({value[1]:.3f} to {value[2]:.3f})"


def _wrapped(parts: Sequence[str]) -> str:
    """Return paragraphs and tables as a page, with lines of at most 120 characters outside of tables."""
    paragraphs = [paragraph for part in parts for paragraph in part.split("\n\n") if paragraph]
    return "\n\n".join(
        paragraph if paragraph.startswith("|") else textwrap.fill(paragraph, 120, break_on_hyphens=False)
        for paragraph in paragraphs
    )


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _score(task: str, error: float) -> str:
    return f"{error:.4f}" if task == "regression" else f"{1 - error:.4f}"


def _which_folds(frame: pd.DataFrame, models: Sequence[str]) -> str:
    """Return the common tables and folds of models in words, such as "25 tables (folds 0, 1, 2)"."""
    folds = common(frame, models).reset_index().groupby("table")["fold"].agg(tuple)
    counts = folds.value_counts()
    words = [f"{'folds' if len(which) > 1 else 'fold'} {', '.join(map(str, which))}" for which in counts.index]
    if len(counts) > 1:
        words = [f"{word} of {count}" for word, count in zip(words, counts, strict=True)]
    return f"{len(folds)} tables ({'; '.join(words)})"


def score_table(frame: pd.DataFrame) -> str:
    """Return scores by table and model, the best in bold, average ranks, and which ranks differ."""
    models = ranked(frame)
    errors = means(frame, models)
    rows = []
    for (task, name), row in errors.iterrows():
        cells = [_score(task, value) for value in row]
        bold = [f"**{cell}**" if value == row.min() else cell for cell, value in zip(cells, row, strict=True)]
        rows.append([f"{name} ({'NRMSE' if task == 'regression' else 'AUC'})", *bold])
    ranks = kw.stats.average_ranks(errors.to_numpy())
    rows.append(["average rank", *(f"**{rank:.2f}**" if rank == ranks.min() else f"{rank:.2f}" for rank in ranks)])
    critical = kw.stats.critical_difference(k=len(models), n=len(errors))
    words = (
        f"Means over {_which_folds(frame, models)}. Friedman's test (Iman and Davenport): "
        f"p = {kw.stats.friedman(errors.to_numpy()).p_F:.1g}. Average ranks that differ by less than {critical:.2f} do "
        "not differ significantly (Nemenyi, 5 %)."
    )
    absent = [
        f"{TITLES[model]} ({frame.loc[frame['model'] == model, 'table'].nunique()} tables)"
        for model in TITLES
        if model not in models
    ]
    if absent:
        words += f" Not ranked, for want of results: {', '.join(absent)}."
    return _markdown(["", *(TITLES[model] for model in models)], rows) + "\n\n" + words


def pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return our models with each of the others, as far as both have results."""
    models = set(frame["model"])
    return [(effort, peer) for effort in EFFORTS if effort in models for peer in PEERS if peer in models]


def ratio_table(frame: pd.DataFrame) -> str:
    """Return the errors of our models relative to those of the others."""
    rows = []
    for effort, peer in pairs(frame):
        ratio = Ratio.of(frame, effort, peer)
        rows.append(
            [f"{TITLES[effort]} / {TITLES[peer]}", _which_folds(frame, (effort, peer)), _interval(ratio.median),
             _interval(ratio.mean), f"{ratio.p:.1g}", f"{ratio.wins} : {ratio.losses}"]
        )  # fmt: skip
    head = ["error of", "on", "median (95 % interval)", "geometric mean (95 % interval)", "p", "wins : losses"]
    return _markdown(head, rows)


def _is_significant(folds: pd.DataFrame) -> bool:
    """Return whether two models differ over the folds of a table, by the corrected resampled t-test."""
    if len(folds) < 2:
        return False
    return bool(kw.stats.compare_folds(folds, test_to_train=1 / (FOLDS - 1)).p.min() < SIGNIFICANT)


def duel_table(frame: pd.DataFrame, effort: str) -> str:
    """Return the difference of one of our models to each of the others, by table, in percent of the other's error."""
    peers = [peer for model, peer in pairs(frame) if model == effort]
    cells: dict[str, dict[str, str]] = {name: {} for name in TABLES}
    for peer in peers:
        folds = common(frame, (effort, peer))
        for (_, name), part in folds.groupby(level=["task", "table"]):
            percent = 100 * (part[effort].mean() / part[peer].mean() - 1)
            cells[name][peer] = f"{percent:+.1f}{' *' if _is_significant(part) else ''}"
    rows = [[name, *(row.get(peer, "") for peer in peers)] for name, row in cells.items() if row]
    return _markdown([f"error of {TITLES[effort]}, %", *(f"vs. {TITLES[peer]}" for peer in peers)], rows)


def losses(frame: pd.DataFrame, effort: str) -> str:
    """Return the tables on which another model is better than ours, and by how much, as a sentence."""
    models = ranked(frame)
    if effort not in models:
        return ""
    errors = means(frame, [model for model in models if model in PEERS or model == effort])
    best, ours = errors.drop(columns=effort), errors[effort]
    percent = (100 * (ours / best.min(axis=1) - 1)).sort_values(ascending=False)
    lost = percent[percent > 0]
    if lost.empty:
        return f"{TITLES[effort]} has the least error on all {len(errors)} tables."
    listed = [
        f"{name} (+{value:.1f} %; {_score(task, ours[task, name])}, {TITLES[best.loc[(task, name)].idxmin()]} "
        f"{_score(task, best.loc[(task, name)].min())})"
        for (task, name), value in lost.items()
    ]
    return (
        f"{TITLES[effort]} has the least error on {len(errors) - len(lost)} of {len(errors)} tables. On the others the "
        f"best other model has less, here with the largest difference first: {', '.join(listed)}."
    )


def seconds_of(frame: pd.DataFrame, place: str, *, alone: bool) -> pd.DataFrame:
    """Return mean seconds of fits over folds, with a row per table and a column per model."""
    part = frame[(frame["place"] == place) & (frame["alone"] == alone)]
    if alone is False:
        part = part[part["is_ours"]]
    table = part.pivot_table(index="table", columns="model", values=["seconds", "predict_seconds"])
    return table.reindex([name for name in TABLES if name in table.index])


def _seconds(values: "pd.Series[float]", digits: int = 1) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.{digits}f}" for value in values]


def seconds_table(frame: pd.DataFrame, place: str) -> str:
    """Return seconds of fits by table and model, and the seconds of predictions, measured alone on a machine."""
    table = seconds_of(frame, place, alone=True)
    if table.empty:
        return f"On {PLACES[place]}, nothing has been measured alone yet."
    fits = table["seconds"]
    models = [model for model in TITLES if model in fits]
    shared = fits[models].dropna()
    rows = [[str(name), *_seconds(fits.loc[name, models])] for name in fits.index]
    rows.append([f"median of {len(shared)} tables", *_seconds(shared.median())])
    predictions = table["predict_seconds"].reindex(columns=models).loc[shared.index].median()
    rows.append(["predict, median", *_seconds(predictions, digits=3)])
    devices = ", ".join(frame.loc[(frame["place"] == place) & frame["alone"], "device"].unique())
    return _markdown([f"seconds, {devices}", *(TITLES[model] for model in models)], rows)


def shared_seconds(frame: pd.DataFrame) -> str:
    """Return medians of the seconds that were measured while other programs ran."""
    rows = []
    for place, device in PLACES.items():
        table = seconds_of(frame, place, alone=False)
        if not table.empty:
            rows += [
                [TITLES[model], device, f"{fits.median():.1f}", f"{fits.max():.1f}", str(fits.notna().sum())]
                for model, fits in table["seconds"].items()
            ]
    return _markdown(["seconds of a fit, shared machine", "on", "median", "most", "tables"], rows) if rows else ""


def summary(frame: pd.DataFrame) -> str:
    """Return one row per model: average rank, error of the default relative to it, wins, seconds."""
    main = at(frame, "gpu")
    models = ranked(main)
    errors = means(main, models)
    ranks = dict(zip(models, kw.stats.average_ranks(errors.to_numpy()), strict=True))
    times = {place: seconds_of(frame, place, alone=True) for place in PLACES}
    rows = []
    for model in sorted(models, key=ranks.__getitem__):
        cells = ["", ""]
        if model != "balanced" and "balanced" in models:
            ratio = Ratio.of(main, "balanced", model)
            cells = [_interval(ratio.median), f"{ratio.wins} : {ratio.losses}"]
        for table in times.values():
            fits = table["seconds"].dropna(axis=0) if not table.empty else pd.DataFrame()
            cells.append(f"{fits[model].median():.1f}" if model in fits else "")
        rows.append([TITLES[model], f"{ranks[model]:.2f}", *cells])
    head = ["", "average rank", f"error of {TITLES['balanced']} / its error, median", "wins : losses",
            *(f"fit, seconds, {device}" for device in PLACES.values())]  # fmt: skip
    filled = [place for place in range(len(head)) if place < 2 or any(row[place] for row in rows)]
    table = _markdown([head[place] for place in filled], [[row[place] for place in filled] for row in rows])
    return f"{table}\n\nOn {_which_folds(main, models)}."


def brief(frame: pd.DataFrame) -> str:
    """Return the section of the README and of the guide."""
    lost = losses(at(frame, "gpu"), "balanced")
    return _wrapped([summary(frame), lost])


def page(frame: pd.DataFrame) -> str:
    """Return the section of the benchmarks."""
    main, cores = at(frame, "gpu"), at(frame, "cpu")
    parts = ["### Scores", score_table(main)]
    if pairs(main):
        parts += ["### Our models and the others", ratio_table(main)]
        parts += ["### Where our models lose", *(losses(main, effort) for effort in EFFORTS)]
        parts += [duel_table(main, effort) for effort in EFFORTS if effort in set(main["model"])]
    if pairs(cores):
        parts += ["### Two cores", score_table(cores), ratio_table(cores)]
        parts += [losses(cores, effort) for effort in EFFORTS]
    parts += ["### Seconds", *(seconds_table(frame, place) for place in PLACES), shared_seconds(frame)]
    return _wrapped(parts)


SECTIONS = {"benchmarks/README.md": page, "README.md": brief, "docs/choosing.md": brief}
"""The files with a section on quality, and what it contains."""
BEGIN, END = "<!-- quality: written by make quality -->", "<!-- quality: end -->"


def section_of(text: str) -> tuple[str, str, str]:
    """Return what is before the section on quality in a page, the section, and what is after it."""
    before, rest = text.split(BEGIN)
    section, after = rest.split(END)
    return before, section.strip(), after


def write_sections(folder: Path) -> None:
    """Write the sections of all pages from the results in a folder."""
    frame = read(folder)
    for name, content in SECTIONS.items():
        before, _, after = section_of((ROOT / name).read_text(encoding="utf-8"))
        text = f"{before}{BEGIN}\n\n{content(frame)}\n\n{END}{after}"
        (ROOT / name).write_text(text, encoding="utf-8")
