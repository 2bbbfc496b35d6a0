"""Additive models: quality and seconds of ours, interpret's EBM, pyGAM and statsmodels' GLMGam, in one run.

    python benchmarks/additive.py                                  everything that is missing and installed
    python benchmarks/additive.py --models additive ebm --tables california --folds 0 1
    python benchmarks/additive.py --again --models additive pygam  those of each table once more, one after the other
    python benchmarks/additive.py --monotone 1000000               curves that must rise on so many rows, and pyGAM's
    python benchmarks/additive.py --page                           print the tables of the existing results
    python benchmarks/additive.py --write                          write them into the guide and benchmarks/README.md

Models are fitted on the folds of the study, on training and validation rows together, and scored on the test rows:
NRMSE, or AUC (weighted one against the rest). Every fit has its own process with one thread. Before the clock starts,
each model fits 300 rows, so that seconds contain no compilation and no imports. A line of the results has the seconds
of the clock and those of the CPU, which other work on the machine changes far less, and the load of the machine. A fit
over the limit of CPU seconds is ended, and recorded as such. A second run fits only what is missing.

pyGAM and GLMGam take neither several classes nor missing values, and are left out where a table has them. The other
libraries have their defaults: EBM with and without pairs, pyGAM with its default penalty (`fit`) and with one of eleven
penalties for all columns (`gridsearch`), GLMGam with ten splines for each column and a penalty of one. Ours without
pairs, and with ten.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from additive_sizes import BASE, CHOSEN
from additive_sizes import page as sizes_page
from matplotlib.figure import Figure
from quality_data import FOLDS, TABLES, Fold, append, load_fold, read_lines, score

import knotwork as kw
from knotwork.report import LIGHT, clean_axes, save_figure
from knotwork.stats import average_ranks, holm, wilcoxon_holm

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "additive"
BEGIN, END = "<!-- additive models: written by benchmarks/additive.py -->", "<!-- end of additive models -->"
SECTIONS = {"benchmarks/README.md": False, "docs/additive.md": True}
"""Pages, and whether they have the summary only."""

PICTURE, SHADES = "additive_peers", {"": "light", "_dark": "dark"}
"""The picture of the guide, and the ends of its name for light and dark pages."""

LIMIT = 400
N_WARM = 300
"""Rows of the fit before the clock starts."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Predict = Callable[[pd.DataFrame], Any]


def fit_ours(X: pd.DataFrame, y: Any, *, is_regression: bool, **options: Any) -> Predict:
    """Fit our model."""
    kind = kw.AdditiveRegressor if is_regression else kw.AdditiveClassifier
    model = kind(**options).fit(X, y)
    return model.predict if is_regression else model.predict_proba


def fit_ebm(X: pd.DataFrame, y: Any, *, is_regression: bool, **options: Any) -> Predict:
    """Fit interpret's explainable boosting machine."""
    from interpret.glassbox import (  # noqa: PLC0415 - only where it is installed
        ExplainableBoostingClassifier,
        ExplainableBoostingRegressor,
    )

    kind = ExplainableBoostingRegressor if is_regression else ExplainableBoostingClassifier
    model = kind(n_jobs=1, **options).fit(X, y)
    return model.predict if is_regression else model.predict_proba


def _coded(X: pd.DataFrame) -> Any:
    """Return a table as numbers, with codes of categories, as pyGAM takes it."""
    return np.column_stack([X[name].cat.codes if X[name].dtype == "category" else X[name] for name in X]).astype(float)


def fit_pygam(X: pd.DataFrame, y: Any, *, is_regression: bool, search: bool) -> Predict:
    """Fit pyGAM: splines of numbers, and effects of categories."""
    from pygam import LinearGAM, LogisticGAM, f, s  # noqa: PLC0415 - only where it is installed

    terms = [f(place) if X[name].dtype == "category" else s(place) for place, name in enumerate(X)]
    model = (LinearGAM if is_regression else LogisticGAM)(sum(terms[1:], start=terms[0]))
    model = model.gridsearch(_coded(X), y, progress=False) if search else model.fit(_coded(X), y)
    if is_regression:
        return lambda frame: model.predict(_coded(frame))
    return lambda frame: np.column_stack([1 - (p := model.predict_proba(_coded(frame))), p])


def _dummies(X: pd.DataFrame) -> pd.DataFrame:
    return pd.get_dummies(X, drop_first=True).astype(float) if X.shape[1] else X


def fit_glmgam(X: pd.DataFrame, y: Any, *, is_regression: bool) -> Predict:
    """Fit statsmodels' GLMGam; values of test rows are moved into the range of the training rows."""
    import statsmodels.api as sm  # noqa: PLC0415 - only where it is installed
    from statsmodels.gam.api import BSplines, GLMGam  # noqa: PLC0415 - only where it is installed

    numbers = [name for name in X if X[name].dtype != "category" and X[name].nunique() > 10]
    others = [name for name in X if name not in numbers]
    low, high = X[numbers].min(), X[numbers].max()
    linear = _dummies(X[others])
    smoother = BSplines(X[numbers].to_numpy(float), df=[10] * len(numbers), degree=[3] * len(numbers))
    family = sm.families.Gaussian() if is_regression else sm.families.Binomial()
    exog = sm.add_constant(linear, has_constant="add")
    fitted = GLMGam(np.asarray(y, float), exog=exog.to_numpy(), smoother=smoother, alpha=1.0, family=family).fit()

    def predict(frame: pd.DataFrame) -> Any:
        dummies = _dummies(frame[others]).reindex(columns=linear.columns, fill_value=0.0)
        inside = frame[numbers].clip(low, high, axis=1).to_numpy(float)
        mean = fitted.predict(sm.add_constant(dummies, has_constant="add").to_numpy(), exog_smooth=inside)
        return mean if is_regression else np.column_stack([1 - mean, mean])

    return predict


MODELS: dict[str, tuple[str, Callable[..., Predict]]] = {
    "additive": ("knotwork", fit_ours),
    "ebm": ("interpret", partial(fit_ebm, interactions=0)),
    "pygam": ("pygam", partial(fit_pygam, search=False)),
    "pygam_search": ("pygam", partial(fit_pygam, search=True)),
    "glmgam": ("statsmodels", fit_glmgam),
    "additive_pairs": ("knotwork", partial(fit_ours, pairs=10)),
    "ebm_pairs": ("interpret", fit_ebm),
}
"""The package and the fit of each model."""

TITLES = {
    "additive": "knotwork",
    "ebm": "EBM without pairs",
    "pygam": "pyGAM, fit",
    "pygam_search": "pyGAM, gridsearch",
    "glmgam": "GLMGam",
    "additive_pairs": "knotwork, 10 pairs",
    "ebm_pairs": "EBM",
}
DUELS = (
    *(("additive", other) for other in ("ebm", "pygam", "pygam_search", "glmgam", "ebm_pairs")),
    ("additive_pairs", "ebm_pairs"),
    ("additive_pairs", "additive"),
)
"""The models that are compared two by two."""

FLOOR = 1e-6
"""Smallest error in a ratio."""

NO_CLASSES = ("pygam", "pygam_search", "glmgam")
"""Models that take two classes at most, and no missing values."""


def seconds_of_cpu() -> float:
    """Return the CPU seconds of this process and of the processes that it has started and that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(table: str, model: str, fold_number: int) -> dict[str, Any]:
    """Fit and predict, and return the line of the result."""
    fold = load_fold(table, fold_number)
    package, fit = MODELS[model]
    (X, y), (X_test, target) = fold.rows("train+valid"), fold.rows("test")
    warm_up(fit, fold)
    clock, cpu, load = time.perf_counter(), seconds_of_cpu(), os.getloadavg()[0]
    predict = fit(X, y, is_regression=fold.is_regression)
    seconds, cpu_seconds = time.perf_counter() - clock, seconds_of_cpu() - cpu
    return {
        "table": table,
        "task": fold.data.task,
        "model": model,
        "fold": fold_number,
        "score": score(fold.data.task, target, predict(X_test)),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "load": round(load, 1),
        "version": kw.__version__ if package == "knotwork" else version(package),
    }


def warm_up(fit: Callable[..., Predict], fold: Fold) -> None:
    """Fit some rows of every class, so that compiled code is loaded."""
    X, y = fold.rows("train+valid")
    places = np.random.default_rng(0).permutation(len(X))[:N_WARM]
    if not fold.is_regression:
        places = np.union1d(places, np.unique(y, return_index=True)[1])
    fit(X.iloc[places], y[places], is_regression=fold.is_regression)


def fit_one(table: str, model: str, fold: int, limit: int) -> None:
    """Measure in this process, which is ended when its CPU seconds are used up, and print the line."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    warnings.simplefilter("ignore")
    print(json.dumps(measure(table, model, fold)))


def run_one(table: str, model: str, fold: int, limit: int) -> dict[str, Any]:
    """Return the line of a fit in its own process; of one that failed, with what it printed last."""
    environment = os.environ | dict.fromkeys(THREADS, "1")
    command = [sys.executable, __file__, "--one", table, model, str(fold), "--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    line = {"table": table, "task": load_fold(table, fold).data.task, "model": model, "fold": fold, "score": None}
    reason = f"over {limit} CPU seconds" if done.returncode < 0 else done.stderr.strip().splitlines()[-1][:200]
    return {**line, "failed": reason}


def is_possible(model: str, table: str, fold: int) -> bool:
    """Return whether a model can be fitted to a table, and its package is installed."""
    if find_spec(MODELS[model][0]) is None:
        return False
    data = load_fold(table, fold)
    n_classes = 1 if data.is_regression else len(np.unique(data.target))
    return model not in NO_CLASSES or (n_classes <= 2 and not data.frame.isna().to_numpy().any())


def run(out: Path, options: argparse.Namespace) -> None:
    """Fit what is missing: the models of a table one after the other."""
    done = {(line["table"], line["model"], line["fold"]) for line in read_lines(out)}
    shown = ("table", "model", "fold", "score", "seconds", "cpu_seconds", "failed")
    for fold, table, model in product(options.folds, options.tables, options.models):
        if (options.again or (table, model, fold) not in done) and is_possible(model, table, fold):
            line = run_one(table, model, fold, options.limit)
            append(out, line)
            print(*(line.get(name) for name in shown), flush=True)


def read(folder: Path) -> pd.DataFrame:
    """Return the results with their errors, a line per table, model and fold, of which the last counts."""
    frame = pd.DataFrame(list(read_lines(folder))).drop_duplicates(["table", "model", "fold"], keep="last")
    frame["error"] = frame["score"].where(frame["task"] == "regression", 1.0 - frame["score"]).clip(lower=FLOOR)
    return frame


@dataclass(frozen=True)
class Duel:
    """Two models on the tables that both have.

    Parameters
    ----------
    ours, other : str
        The models.
    errors, seconds : DataFrame
        Errors and CPU seconds: a row per table and a column per model.
    """

    ours: str
    other: str
    errors: pd.DataFrame
    seconds: pd.DataFrame

    @property
    def ratios(self) -> "pd.Series[float]":
        """Our error divided by that of the other model, of each table."""
        return self.errors[self.ours] / self.errors[self.other]

    @property
    def factors(self) -> "pd.Series[float]":
        """How many times faster ours is, of each table."""
        return self.seconds[self.other] / self.seconds[self.ours]


def duels(frame: pd.DataFrame) -> list[Duel]:
    """Return the models that are compared, on the tables that both have."""
    every = (
        Duel(ours, other, *(wide(frame, values, (ours, other)) for values in ("error", "cpu_seconds")))
        for ours, other in DUELS
    )
    return [duel for duel in every if len(duel.errors)]


def wide(frame: pd.DataFrame, values: str, models: Sequence[str]) -> pd.DataFrame:
    """Return means over the folds that all these models have: a row per table and a column per model."""
    part = frame[frame["model"].isin(models)].dropna(subset=[values])
    by_fold = part.pivot_table(index=["table", "fold"], columns="model", values=values)
    return by_fold.reindex(columns=list(models)).dropna().groupby(level="table").mean()


def summary(frame: pd.DataFrame) -> str:
    """Return a line for each other model: ranks, ratios of errors and of seconds, on the tables of both."""
    pairs = duels(frame)
    logarithms = [np.log(duel.errors.to_numpy()) for duel in pairs]  # so that differences are relative
    p_values = holm([wilcoxon_holm(each).p[0, 1] if len(each) > 1 else 1.0 for each in logarithms])
    rows = []
    for duel, p in zip(pairs, p_values, strict=True):
        ranks = average_ranks(duel.errors.to_numpy())
        wins, losses = int((duel.ratios < 1.0).sum()), int((duel.ratios > 1.0).sum())
        shown = f"{p:.3f}" if p >= 0.0005 else "< 0.001"
        rows.append([TITLES[duel.ours], TITLES[duel.other], str(len(duel.errors)),
                     f"{ranks[0]:.2f} / {ranks[1]:.2f}", f"{wins} : {losses}",
                     f"{duel.ratios.median():.3f}", shown, f"{duel.factors.median():.3g}"])  # fmt: skip
    head = ["model", "beside", "tables", "mean ranks", "wins", "error, median ratio", "p", "times faster, median"]
    return markdown(head, rows)


def together(frame: pd.DataFrame) -> str:
    """Return a sentence with the ranks of all models without pairs on the tables that all of them have."""
    models = [model for model in MODELS if not model.endswith("_pairs") and model in set(frame["model"])]
    errors = wide(frame, "error", models)
    ranks = sorted(zip(average_ranks(errors.to_numpy()), models, strict=True)) if len(errors) else []
    listed = ", ".join(f"{TITLES[model]} {rank:.2f}" for rank, model in ranks)
    return f"Mean ranks of all models without pairs on the {len(errors)} tables that all of them have: {listed}."


def picture(frame: pd.DataFrame) -> Figure:
    """Draw each table as a dot: ratios of errors, moved between 0.5 and 2, and of CPU seconds; medians are lines."""
    pairs = duels(frame)
    figure = Figure(figsize=(8, 0.9 + 0.42 * len(pairs)), layout="constrained", facecolor=LIGHT.background)
    axes = figure.subplots(1, 2, sharey=True)
    values = [[duel.ratios.clip(0.5, 2.0) for duel in pairs], [duel.factors for duel in pairs]]
    for each, series, label in zip(
        axes, values, ("first error / second error", "times faster, CPU seconds"), strict=True
    ):
        clean_axes(each, LIGHT)
        each.axvline(1.0, color=LIGHT.muted, linewidth=1.0)
        for place, numbers in enumerate(series):
            each.plot(numbers, np.full(len(numbers), place), "o", color=LIGHT.blue, alpha=0.45, markersize=5)
            each.plot([numbers.median()] * 2, [place - 0.32, place + 0.32], color=LIGHT.orange, linewidth=2.4)
        each.set_xscale("log")
        each.set_xlabel(label)
    ticks = (0.5, 0.7, 1.0, 1.4, 2.0)
    axes[0].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0].minorticks_off()
    axes[1].set_xticks((1, 10, 100, 1000), ["1", "10", "100", "1000"])
    names = [f"{TITLES[duel.ours]} : {TITLES[duel.other]}" for duel in pairs]
    axes[0].set_yticks(range(len(pairs)), names)
    axes[0].set_ylim(len(pairs) - 0.5, -0.5)
    return figure


def scores(frame: pd.DataFrame) -> str:
    """Return a row per table: score and CPU seconds of each model in the first fold."""
    frame = frame[frame["fold"] == frame["fold"].min()]
    models = [model for model in MODELS if model in set(frame["model"])]
    tasks = dict(zip(frame["table"], frame["task"], strict=True))
    cells = dict(list(frame.groupby(["table", "model"])))
    rows = []
    for table in (each for each in TABLES if each in tasks):
        row = [f"{table} ({'NRMSE' if tasks[table] == 'regression' else 'AUC'})"]
        for model in models:
            part = cells.get((table, model))
            if part is None:
                row.append("")
            elif part["score"].isna().any():
                row.append("over the limit" if "CPU seconds" in str(part["failed"].iloc[0]) else "failed")
            else:
                row.append(f"{part['score'].mean():.4f} ({part['cpu_seconds'].mean():.2f} s)")
        rows.append(row)
    return markdown(["table", *(TITLES[model] for model in models)], rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of a page."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(frame: pd.DataFrame, *, is_brief: bool = False) -> str:
    """Return the section of a page: the summary, and for the benchmarks all scores."""
    folds = "; ".join(f"fold {fold} of {part['table'].nunique()} tables" for fold, part in frame.groupby("fold"))
    versions = frame.dropna(subset=["version"]).drop_duplicates("model", keep="last").set_index("model")["version"]
    named = ", ".join(f"{TITLES[model]} {number}" for model, number in versions.items())
    load = f"{frame['load'].min():.0f} to {frame['load'].max():.0f}"
    note = (
        f"Folds of the study: {folds}. CPU seconds of the fit, one thread, on two shared cores with a load of {load}. "
        "On each table ours and pyGAM's fit ran one after the other, the rest in other runs of the day. Smaller errors "
        "have smaller ranks; p is that of Wilcoxon's signed-rank test of relative differences over tables, with Holm's "
        "correction. Sizes of our curves that test scores of 16 tables had once suggested were compared with others by "
        "cross-validation in the training and validation rows of this fold: no other is clearly better. "
        f"{together(frame)} {named}."
    )
    text = f"{summary(frame)}\n\n{textwrap.fill(note, 120)}"
    if is_brief:
        words = "Errors and CPU seconds of our model and of others, a dot for each table, and the median"
        shown = "\n".join(f"![{words}](images/{PICTURE}{end}.svg#only-{kind})" for end, kind in SHADES.items())
        return f"{text}\n\n{shown}"
    sizes = (
        "Sizes, by cross-validation in the training and validation rows (`python benchmarks/additive_sizes.py`). The "
        f"base is {', '.join(f'{name} {value}' for name, value in BASE.items())}; each variant changes one of them. "
        f"The model has {CHOSEN}: no variant has clearly smaller errors, and this one is a little faster."
    )
    return (
        f"{text}\n\n{scores(frame)}\n\nCommand: `python benchmarks/additive.py`, then `--write`.\n\n"
        f"{textwrap.fill(sizes, 120)}\n\n{sizes_page()}"
    )


def write(out: Path) -> None:
    """Write the sections of the guide and of benchmarks/README.md, and the picture of the guide."""
    frame = read(out)
    for name, is_brief in SECTIONS.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        content = page(frame, is_brief=is_brief)
        (ROOT / name).write_text(f"{before}{BEGIN}\n\n{content}\n\n{END}{after}", encoding="utf-8")
    save_figure(picture(frame), ROOT / "docs" / "images" / f"{PICTURE}.svg")


def monotone(n_rows: int) -> None:
    """Print seconds and R2 of curves that must rise, of ours and, where it is installed, of pyGAM."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(n_rows, 3))
    mean = np.sqrt(X[:, 0]) + (X[:, 1] > 0.5) + X[:, 2] ** 2
    y, grid = mean + random.normal(size=n_rows), random.uniform(size=(10_000, 3))
    truth = np.sqrt(grid[:, 0]) + (grid[:, 1] > 0.5) + grid[:, 2] ** 2
    fits: dict[str, Callable[[], Any]] = {
        "AdditiveRegressor": lambda: kw.AdditiveRegressor(monotone=dict.fromkeys(range(3), "increasing")).fit(X, y)
    }
    if find_spec("pygam") is not None:
        from pygam import LinearGAM, s  # noqa: PLC0415 - only where it is installed

        rising = [s(place, constraints="monotonic_inc") for place in range(3)]
        fits["pyGAM"] = lambda: LinearGAM(sum(rising[1:], start=rising[0])).fit(X, y)
    kw.AdditiveRegressor(monotone={0: "increasing"}).fit(X[:N_WARM], y[:N_WARM])
    for name, fit in fits.items():
        began = time.perf_counter()
        model = fit()
        seconds = time.perf_counter() - began
        error = np.square(model.predict(grid) - truth).mean() / truth.var()
        print(f"{name}: {n_rows:,} rows in {seconds:.1f} s, {1.0 - error:.5f} of the variance of the mean explained")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--folds", nargs="+", type=int, choices=range(FOLDS), default=[0])
    parser.add_argument("--limit", type=int, default=LIMIT, help="CPU seconds of a fit")
    parser.add_argument("--again", action="store_true", help="fit also what is done; the last line counts")
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "MODEL", "FOLD"), help="one fit, in this process")
    parser.add_argument("--monotone", type=int, metavar="ROWS", help="time curves that must rise, and nothing else")
    parser.add_argument("--page", action="store_true", help="print the page of existing results, fit nothing")
    parser.add_argument("--write", action="store_true", help="write the pages of existing results, fit nothing")
    options = parser.parse_args()
    if options.one:
        table, model, fold = options.one
        fit_one(table, model, int(fold), options.limit)
    elif options.monotone:
        monotone(options.monotone)
    elif options.page:
        print(page(read(options.out)))
    elif options.write:
        write(options.out)
    else:
        run(options.out, options)


if __name__ == "__main__":
    main()
