"""The sections on quality in README, guide and benchmarks, made from the results of `quality.py`.

There are two parts that are not mixed: on two cores (`quality_cpu`), and on a GPU (`quality`), where boosting counts
with its scores of a CPU. A comparison of models uses, on every table, the folds that all of them have, and leaves out
tables without such a fold. An error is NRMSE or 1 - AUC, and at least 1e-6, because several models have an AUC of 1 on
shuttle: ratios of smaller errors mean nothing. Tables that had no part in any choice are apart from the others.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from quality_data import ALL_TABLES, EFFORTS, FOLDS, FURTHER, OURS, ROWS_ON_CPU, TABLES, UNTOUCHED, read_lines
from quality_peers import MEAN_OF_BAGS, PEERS, ROWS_OF_NETWORKS
from scipy import stats

import knotwork as kw

__all__ = ["RESULTS", "RESULTS_ON_CPU", "SECTIONS", "Ratio", "page", "read", "write_sections"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "quality"
RESULTS_ON_CPU = ROOT / "benchmarks" / "quality_cpu"
TITLES = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "lightgbm_bag": "bag of LightGBM",
    "xgboost_bag": "bag of XGBoost",
    "catboost_bag": "bag of CatBoost",
    MEAN_OF_BAGS: "mean of the LightGBM and CatBoost bags",
    "autogluon_medium": "AutoGluon `medium`",
    "autogluon_good": "AutoGluon `good`",
    "autogluon_best": "AutoGluon `best`",
    "tabm": "TabM-D",
    "tabm_scored": "TabM-D, stopped by the score",
    "tabm_ple": "TabM-D behind PLE, stopped by the score",
    "realmlp": "RealMLP-TD",
    "realmlp_scored": "RealMLP-TD, stopped by the score",
    "rtdl_ple": "rtdl, PLE",
    **{name: f'`"{effort}"`{", networks only" * (members != "all")}' for name, (effort, members) in OURS.items()},
}
OTHERS = (*PEERS, MEAN_OF_BAGS)
IN_BRIEF = ("lightgbm", "catboost", MEAN_OF_BAGS, "autogluon_best")
"""The models that README and guide name."""
BEHIND = 1.05
"""Ratio of errors from which on a table is named as one where ours is behind."""

COMPARED = f"""Three groups of tables: the 25 of the study, 24 of packages of R in a folder beside the repository, and
{len(FURTHER)} more of packages of R (`benchmarks/quality_tables.json`). These were fixed, with their targets, before
any model was fitted on them: 800 to 30,000 rows, at least four columns beside a natural target, one table per package,
from packages without a table among the others; without copies and parts of the target, and without keys. Tables of more
than {ROWS_ON_CPU:,} rows are cut to that many random rows (seed 42) before they are divided into five folds; each fold
is one test part. All models of other libraries have their defaults and are not tuned. LightGBM, XGBoost and CatBoost
have up to 2,000 trees, and stop after 50 without gain on the validation rows, a tenth of the rows that are not test
rows. A bag is five such models, each stopped by another fifth of training and validation rows together, and the mean of
their predictions; a bag of CatBoost is left out where one model takes more than 15 s. AutoGluon 1.6 gets training and
validation rows, the metric that is scored, two cores, and as a time limit the seconds that `"balanced"` plans for these
rows (at the time of these runs 16.7 s, and 2.2 ms per row); it has no fastai and no ray here, so its folds run one
after the other. TabM-D and RealMLP-TD of pytabkit stop by the score (`val_metric_name="1-auc_ovr"`), RealMLP-TD without
smoothed labels; on two cores they run on tables of at most {ROWS_OF_NETWORKS:,} rows. `"fast"`, `"balanced"` (the
default) and `"best"` are values of `effort=`; "networks only" is `members="networks"`. Test rows are used for scores
only."""
CHOICES = """The kinds of members on a CPU were chosen by `benchmarks/efforts.py`, from out-of-fold predictions of
training rows of 30 tables, all of them "used" here: 52 kinds of networks, trained on an H200 with sizes that a CPU can
afford, and eight kinds of boosted trees. `benchmarks/efforts` has all losses and the forward selections. In numbers, as
the loss (RMSE or log loss) relative to three kinds of trees together, which are on a level with CatBoost: with RealMLP
of two layers of 96 behind periodic encodings (PBLD) 0.976; and RealMLP of 160 behind B-splines (`BS-Q@15+L4x`) 0.970; a
third network, behind piecewise-linear encodings, less than 0.2 % more. So B-splines have a place: they are the second
network of `"balanced"` and `"best"`. Learned knots have none: beside the same network with knots at quantiles,
`BS-Grad-Q` has 1.3 % and `IS-Grad-Q` 1.6 % more loss (geometric mean of 30 tables, better on 13 and 12). What did not
pay either, beside trees: the target on a scale of Yeo and Johnson or of ranks (17 tables, 0.4 % more loss), integers as
categories too (19 tables, no difference), few categories one-hot (14 tables, no difference), target encoding of
categories in trees (12 tables, 1.9 % more loss), TabM of 8 x 128, and ordinary perceptrons. (Of these, the first four
were measured once, by a script that is not in the repository.) Symmetric trees, which are grown as CatBoost grows them,
were added afterwards (`trees.md`): four kinds have 0.7 % less loss and 0.8 % less error than three on the 30 tables,
beside networks 0.1 and 0.2 % (16 tables). More folds come from `bags.py`, which holds out training rows of the 30
tables: with 6 instead of 4 folds `"fast"` has 1.1 % less error (mean; median 0.4 %), with 8 instead of 5 `"balanced"`
has 1.1 % less (0.3 %). Epochs and widths were limited by time. The small network of `"fast"` has the least loss for its
time. Five changes came after first runs on the untouched tables, and so are not free of them: the time for trees was
doubled, because storms showed that it cut them short; networks end with a cycle that gains less than 1 %, a rule that
was chosen on the 30 tables but looked for because of the seconds; plans count what categories cost; `"balanced"` has
more time on large tables, because nasscds needed a sixth of the planned seconds; and all four kinds of trees are kept,
since verbagg showed what trees with 31 leaves are for. On the 30 tables four are better than any three."""
"""How the kinds of members of the efforts were chosen, and on which tables: a paragraph of the page."""
READING = """Error is NRMSE (RMSE over the standard deviation of the target) or 1 - AUC (weighted one against the rest).
A ratio below 1 means that ours has less error. Each cell has the median over tables with its 95 % interval by order
statistics, the geometric mean, and on how many tables ours has less and more error. "Untouched" are tables that had no
part in any choice of ours; "used" are the others, on which our models may look better than they are. A comparison uses,
on each table, the folds that both models have. Seconds are those of one complete fit on two cores, with no other heavy
program on the machine, without imports and without compiling. "Models" is the median number of fitted models that are
averaged."""
ON_GPU = """Scores and seconds of an H200, committed in November 2026, on whole tables: with other versions of our
estimators than above (networks only) and, for boosting, with scores of a CPU. TabM-D and RealMLP-TD stop here by
classification error, their default, and RealMLP-TD smooths labels; both are at a disadvantage in AUC. No seconds of a
CPU are beside those of the GPU."""

FLOOR = 1e-6
MOST = 0.8
"""Share of the tables that a model must have in order to be ranked."""
SIGNIFICANT = 0.05
FEWEST = 6
"""Tables that an interval of 95 % for a median needs."""
PLACES = {"gpu": "GPU", "cpu": "two cores"}
TASKS = {"all": ("regression", "classification"), "regression": ("regression",), "classification": ("classification",)}


COLUMNS = (
    "table", "task", "model", "fold", "score", "mae", "log_loss", "brier", "seconds", "predict_seconds", "n_models",
    "rows", "device", "alone", "source", "failed", "place", "error",
)  # fmt: skip


def read(folder: Path) -> pd.DataFrame:
    """Return one result per table, model, fold and kind of device, with its error.

    Results of our runs replace those of other machines; those measured alone replace others; later ones replace
    earlier ones. A fit that failed has no error.
    """
    frame = pd.DataFrame(list(read_lines(folder)))
    if frame.empty:
        return pd.DataFrame(columns=COLUMNS)
    frame = frame.reindex(columns=[*frame.columns, *(name for name in COLUMNS if name not in frame)])
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


def common(frame: pd.DataFrame, models: Sequence[str], measure: str = "error") -> pd.DataFrame:
    """Return errors on the folds that all models have: a row per task, table and fold, and a column per model."""
    part = frame[frame["model"].isin(models)]
    folds = part.pivot_table(index=["task", "table", "fold"], columns="model", values=measure, observed=True)
    return folds.reindex(columns=list(models)).dropna().sort_index(ascending=[False, True, True])


def means(frame: pd.DataFrame, models: Sequence[str], measure: str = "error") -> pd.DataFrame:
    """Return mean errors over common folds, with a row per task and table and a column per model."""
    folds = common(frame, models, measure)
    return folds.groupby(level=["task", "table"], sort=False).mean()


def ranked(frame: pd.DataFrame, tables: Sequence[str] = TABLES) -> list[str]:
    """Return the models that have results on most of some tables."""
    counts = frame[frame["error"].notna() & frame["table"].isin(tables)].groupby("model")["table"].nunique()
    return [model for model in TITLES if counts.get(model, 0) >= MOST * len(tables)]


def groups() -> dict[str, tuple[str, ...]]:
    """Return the tables that had no part in any choice, and the others."""
    return {"untouched": UNTOUCHED, "used": tuple(table for table in ALL_TABLES if table not in UNTOUCHED)}


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
    def of(cls, frame: pd.DataFrame, model: str, other: str, measure: str = "error") -> "Ratio":
        """Return the comparison of two models on the tables that both have."""
        errors = means(frame, (model, other), measure)
        p = float(kw.stats.wilcoxon_holm(np.log(errors.to_numpy())).p[0, 1]) if len(errors) > 1 else np.nan
        return cls(errors[model] / errors[other], p)

    @property
    def median(self) -> tuple[float, float, float]:
        """The median and its 95 % interval by order statistics."""
        if len(self.ratios) < FEWEST:
            return float(self.ratios.median()), np.nan, np.nan
        ends = stats.quantile_test(self.ratios, p=0.5).confidence_interval(0.95)
        return float(self.ratios.median()), float(ends.low), float(ends.high)

    @property
    def mean(self) -> tuple[float, float, float]:
        """The geometric mean and its 95 % interval by t of the logarithms."""
        logs = np.log(self.ratios)
        if len(logs) < 2:
            return float(np.exp(logs.mean())), np.nan, np.nan
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
    return f"{value[0]:.3f}" if np.isnan(value[1]) else f"{value[0]:.3f} ({value[1]:.3f} to {value[2]:.3f})"


def _wrapped(parts: Sequence[str]) -> str:
    """Return paragraphs and tables as a page, with lines of at most 120 characters outside of tables."""
    paragraphs = [paragraph for part in parts for paragraph in part.split("\n\n") if paragraph]
    return "\n\n".join(
        paragraph if paragraph.startswith(("|", "#")) else textwrap.fill(paragraph, 120, break_on_hyphens=False)
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
        if model not in models and model in set(frame["model"])
    ]
    if absent:
        words += f" Not ranked, for want of results: {', '.join(absent)}."
    return _markdown(["", *(TITLES[model] for model in models)], rows) + "\n\n" + words


def rank_table(frame: pd.DataFrame) -> str:
    """Return average ranks of each of our models alone among the others."""
    models = ranked(frame)
    peers = [model for model in models if model in PEERS]
    rows = []
    for effort in (model for model in models if model in OURS):
        ranks = kw.stats.average_ranks(means(frame, [*peers, effort]).to_numpy())
        cells = [f"**{rank:.2f}**" if rank == ranks.min() else f"{rank:.2f}" for rank in ranks]
        rows.append([TITLES[effort], _which_folds(frame, [*peers, effort]), *cells])
    return _markdown(["average rank among the others", "on", *(TITLES[peer] for peer in peers), "ours"], rows)


def pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return our models with each of the others, as far as both have results."""
    models = set(frame.loc[frame["error"].notna(), "model"])
    return [(ours, peer) for ours in OURS if ours in models for peer in TITLES if peer in models and peer in OTHERS]


def _tables(frame: pd.DataFrame, tables: Iterable[str], tasks: Iterable[str] = TASKS["all"]) -> pd.DataFrame:
    return frame[frame["table"].isin(list(tables)) & frame["task"].isin(list(tasks))]


def ratio_cells(frame: pd.DataFrame, ours: str, peer: str) -> list[str]:
    """Return number of tables, median, geometric mean and wins of a pair; empty cells if there is no table."""
    if means(frame, (ours, peer)).empty:
        return ["", "", "", ""]
    ratio = Ratio.of(frame, ours, peer)
    return [str(len(ratio.ratios)), _interval(ratio.median), _interval(ratio.mean), f"{ratio.wins} : {ratio.losses}"]


def ratio_table(frame: pd.DataFrame, ours: str) -> str:
    """Return the errors of one of our models relative to those of the others, by group of tables and task."""
    rows = []
    for _, peer in (pair for pair in pairs(frame) if pair[0] == ours):
        for kind, tasks in TASKS.items():
            cells = [
                cell for tables in groups().values() for cell in ratio_cells(_tables(frame, tables, tasks), ours, peer)
            ]
            rows.append([TITLES[peer] if kind == "all" else "", kind, *cells])
    columns = ("tables", "median (95 % interval)", "geometric mean (95 % interval)", "wins : losses")
    head = [f"{name}: {column}" for name in groups() for column in columns]
    return _markdown([f"error of {TITLES[ours]} / that of", "tables of", *head], rows)


def measures_table(frame: pd.DataFrame) -> str:
    """Return ratios of log loss and Brier score beside those of 1 - AUC, and of MAE beside NRMSE."""
    rows = []
    for ours, peer in pairs(frame):
        if OURS[ours][1] != "all":
            continue
        row = [f"{TITLES[ours]} / {TITLES[peer]}"]
        for tables in groups().values():
            for task, names in (("classification", ("error", "log_loss", "brier")), ("regression", ("error", "mae"))):
                part = _tables(frame, tables, (task,))
                for name in names:
                    has_some = part[name].notna().any() and not means(part, (ours, peer), name).empty
                    if not has_some:
                        row.append("")
                        continue
                    ratio = Ratio.of(part, ours, peer, name)
                    row.append(f"{ratio.ratios.median():.3f} ({ratio.wins} : {ratio.losses})")
        rows.append(row)
    head = [f"{name}: {what}" for name in groups() for what in ("1 - AUC", "log loss", "Brier", "NRMSE", "MAE")]
    return _markdown(["median ratio (wins : losses)", *head], rows)


def overview(frame: pd.DataFrame) -> str:
    """Return one row per model: average ranks by group of tables, number of models, seconds, times CatBoost's."""
    by_group = {name: ranked(frame, tables) for name, tables in groups().items()}
    ranks, counts = {}, {}
    for name, tables in groups().items():
        errors = means(_tables(frame, tables), by_group[name])
        counts[name] = len(errors)
        if min(errors.shape) > 1:
            values = kw.stats.average_ranks(errors.to_numpy())
            ranks.update({(name, model): value for model, value in zip(by_group[name], values, strict=True)})
    models = [model for model in TITLES if frame.loc[frame["model"] == model, "error"].notna().any()]
    rows = []
    for model in sorted(models, key=lambda model: min(ranks.get((name, model), np.inf) for name in groups())):
        part = frame[(frame["model"] == model) & frame["error"].notna()]
        timed = part[part["alone"].astype(bool)]
        seconds = means(frame[frame["alone"].astype(bool)], (model, "catboost"), "seconds")
        times = (seconds.iloc[:, 0] / seconds.iloc[:, -1]).median()
        rows.append(
            [TITLES[model], *(f"{ranks[name, model]:.2f}" if (name, model) in ranks else "" for name in groups()),
             str(part["table"].nunique()), f"{part['n_models'].median():.0f}",
             *_seconds(timed[["seconds"]].median()), *_seconds(1000 * timed[["predict_seconds"]].median(), 0),
             "" if np.isnan(times) else f"{times:.2g}"]
        )  # fmt: skip
    head = ["", *(f"average rank, {count} {name}" for name, count in counts.items()), "tables", "models",
            "fit, seconds, median", "predict, ms, median", "seconds / CatBoost's, median"]  # fmt: skip
    return _markdown(head, rows)


def behind(frame: pd.DataFrame, ours: str) -> str:
    """Return the tables on which ours has clearly more error than the best of LightGBM and CatBoost."""
    models = ("lightgbm", "catboost")
    errors = means(frame, (*models, ours))
    if errors.empty:
        return ""
    others = errors[list(models)]
    ratio = (errors[ours] / others.min(axis=1)).sort_values(ascending=False)
    named = [
        f"{table}{' (untouched)' * (table in UNTOUCHED)} +{100 * (value - 1):.0f} % "
        f"({_score(task, errors[ours][task, table])}, {TITLES[others.loc[(task, table)].idxmin()]} "
        f"{_score(task, others.loc[(task, table)].min())})"
        for (task, table), value in ratio[ratio > BEHIND].items()
    ]
    words = f"{TITLES[ours]} is more than {100 * (BEHIND - 1):.0f} % behind the best of LightGBM and CatBoost on "
    return words + f"{len(named)} of {len(ratio)} tables{': ' * bool(named)}{', '.join(named)}."


def scores_of_all(frame: pd.DataFrame) -> str:
    """Return the scores of all models by table: means over the folds that all models with results there have."""
    models = [model for model in TITLES if model in set(frame.loc[frame["error"].notna(), "model"])]
    rows = []
    for table in ALL_TABLES:
        part = frame[(frame["table"] == table) & frame["error"].notna()]
        if part.empty:
            continue
        present = [model for model in models if model in set(part["model"])]
        errors = common(part, present)
        task = str(part["task"].iloc[0])
        values = errors.mean()
        name = f"{table}{' *' * (table in UNTOUCHED)} ({'NRMSE' if task == 'regression' else 'AUC'})"
        cells = [_score(task, values[model]) if model in present and len(errors) else "" for model in models]
        least = _score(task, values.min()) if len(errors) else None
        rows.append([name, *(f"**{cell}**" if cell and cell == least else cell for cell in cells)])
    words = "Means over the folds that all models with results on a table have; a star marks untouched tables."
    return _markdown(["", *(TITLES[model] for model in models)], rows) + "\n\n" + words


def which_tables(frame: pd.DataFrame) -> str:
    """Return the untouched tables, those that are cut, and how many fits failed, in words."""
    large = sorted(set(frame.loc[frame["rows"] >= 0.8 * ROWS_ON_CPU, "table"]))
    lost = frame.loc[frame["failed"].notna(), "model"].map(TITLES).value_counts()
    words = f"Untouched are {', '.join(UNTOUCHED)}. Cut to {ROWS_ON_CPU:,} rows are {', '.join(large)}."
    if len(lost):
        words += f" Fits that failed: {', '.join(f'{name} {count}' for name, count in lost.items())}."
    return words


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
    errors = means(frame, [model for model in models if model in OTHERS or model == effort])
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


def seconds_of(frame: pd.DataFrame, place: str) -> pd.DataFrame:
    """Return mean seconds over folds, measured alone on a machine, with a row per table and columns of models."""
    part = frame[(frame["place"] == place) & frame["alone"]]
    table = part.pivot_table(index="table", columns="model", values=["seconds", "predict_seconds"])
    return table.reindex([name for name in ALL_TABLES if name in table.index])


def _seconds(values: "pd.Series[float]", digits: int = 1) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.{digits}f}" for value in values]


def seconds_table(frame: pd.DataFrame, place: str) -> str:
    """Return seconds of fits by table and model, and the seconds of predictions, measured alone on a machine."""
    table = seconds_of(frame, place)
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


def summary(main: pd.DataFrame) -> str:
    """Return one row per model on a GPU: average rank, error of the default relative to it, wins, seconds."""
    models = ranked(main)
    errors = means(main, models)
    ranks = dict(zip(models, kw.stats.average_ranks(errors.to_numpy()), strict=True))
    times = seconds_of(main, "gpu")
    fits = times["seconds"].dropna(axis=0) if not times.empty else pd.DataFrame()
    rows = []
    for model in sorted(models, key=ranks.__getitem__):
        cells = ["", ""]
        if model != "balanced" and "balanced" in models:
            ratio = Ratio.of(main, "balanced", model)
            cells = [_interval(ratio.median), f"{ratio.wins} : {ratio.losses}"]
        cells.append(f"{fits[model].median():.1f}" if model in fits else "")
        rows.append([TITLES[model], f"{ranks[model]:.2f}", *cells])
    head = ["", "average rank", f"error of {TITLES['balanced']} / its error, median", "wins : losses",
            "fit, seconds, GPU"]  # fmt: skip
    return f"{_markdown(head, rows)}\n\nOn {_which_folds(main, models)}."


def two_cores(frame: pd.DataFrame) -> str:
    """Return the errors of our two smaller efforts beside a few others, on untouched tables, with seconds."""
    part = _tables(frame, UNTOUCHED)
    seconds = part[part["alone"].astype(bool)].groupby("model")["seconds"].median()
    rows = []
    for peer in IN_BRIEF:
        row = [TITLES[peer]]
        for ours in ("fast", "balanced"):
            cells = ratio_cells(part, ours, peer)
            row += [cells[1], cells[3]]
        rows.append([*row, f"{seconds[peer]:.1f}" if peer in seconds else ""])
    rows += [[TITLES[ours], "", "", "", "", f"{seconds[ours]:.1f}"] for ours in ("fast", "balanced") if ours in seconds]
    head = [f"{TITLES[ours]}: {what}" for ours in ("fast", "balanced") for what in ("error, median", "wins : losses")]
    table = _markdown(["error / that of", *head, "fit, seconds, median"], rows)
    n_tables = part.loc[part["error"].notna(), "table"].nunique()
    return f"{table}\n\nTwo cores, {n_tables} tables that had no part in any choice, at most {ROWS_ON_CPU:,} rows each."


def brief(gpu: pd.DataFrame, cpu: pd.DataFrame) -> str:
    """Return the section of the README and of the guide."""
    main = at(gpu, "gpu")
    words = "With networks on a GPU, scores of an H200 committed in November 2026:"
    return _wrapped([two_cores(cpu), behind(cpu, "balanced"), words, summary(main)])


def page(gpu: pd.DataFrame, cpu: pd.DataFrame) -> str:
    """Return the section of the benchmarks."""
    main, cores = at(gpu, "gpu"), cpu
    parts = ["### On two cores", COMPARED, which_tables(cores)]
    parts += [f"**How choices were made.** {CHOICES}"] if CHOICES else []
    parts += [f"**How to read it.** {READING}", overview(cores)]
    ours = [model for model in OURS if model in {pair[0] for pair in pairs(cores)}]
    parts += ["#### Our models and the others", *(ratio_table(cores, model) for model in ours)] if ours else []
    parts += ["#### Log loss, Brier score and mean absolute error", measures_table(cores)] if ours else []
    parts += ["#### Where our models are behind", *(behind(cores, model) for model in ours)] if ours else []
    parts += ["#### Scores", scores_of_all(cores), "#### Seconds", seconds_table(cores, "cpu")]
    parts += ["### On a GPU", ON_GPU, "#### Scores", score_table(main)]
    if pairs(main):
        efforts = [effort for effort in EFFORTS if effort in set(main["model"])]
        parts += ["#### Our models and the others", rank_table(main), *(ratio_table(main, each) for each in efforts)]
        parts += ["#### Where our models lose", *(losses(main, effort) for effort in efforts)]
        parts += [duel_table(main, effort) for effort in efforts]
    parts += ["#### Seconds", seconds_table(main, "gpu")]
    return _wrapped(parts)


SECTIONS = {"benchmarks/README.md": page, "README.md": brief, "docs/choosing.md": brief}
"""The files with a section on quality, and what it contains."""
BEGIN, END = "<!-- quality: written by make quality -->", "<!-- quality: end -->"


def section_of(text: str) -> tuple[str, str, str]:
    """Return what is before the section on quality in a page, the section, and what is after it."""
    before, rest = text.split(BEGIN)
    section, after = rest.split(END)
    return before, section.strip(), after


def write_sections() -> None:
    """Write the sections of all pages from the committed results."""
    gpu, cpu = read(RESULTS), read(RESULTS_ON_CPU)
    for name, content in SECTIONS.items():
        before, _, after = section_of((ROOT / name).read_text(encoding="utf-8"))
        text = f"{before}{BEGIN}\n\n{content(gpu, cpu)}\n\n{END}{after}"
        (ROOT / name).write_text(text, encoding="utf-8")
