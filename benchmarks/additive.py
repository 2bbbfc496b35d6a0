"""Additive models: quality and seconds of ours, interpret's EBM, pyGAM and statsmodels' GLMGam, in one run.

    python benchmarks/additive.py                                  everything that is missing and installed
    python benchmarks/additive.py --models additive ebm --tables california --folds 0 1
    python benchmarks/additive.py --page                           print the tables of the existing results
    python benchmarks/additive.py --write                          write them into the guide and benchmarks/README.md

Models are fitted on the folds of the study, on training and validation rows together, and scored on the test rows: NRMSE,
or AUC (weighted one against the rest). Every fit has its own process with one thread; the models of a table follow each
other, so that they meet the same load. Before the clock starts, each model fits 300 rows, so that seconds contain no
compilation and no imports. A line of the results has the seconds of the clock, those of the CPU, which other work on the
machine changes little, and the load. A fit over the limit of CPU seconds is ended, and recorded as such.

pyGAM and GLMGam take neither several classes nor missing values, and are left out where a table has them. The other
libraries have their defaults: EBM with and without pairs, pyGAM with its default penalty (`fit`) and with one penalty of
eleven for all columns (`gridsearch`), GLMGam with ten splines for each column and a penalty of one.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from quality_data import FOLDS, TABLES, Fold, append, load_fold, read_lines, score

import knotwork as kw

RESULTS = Path(__file__).parent / "additive"
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
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if is_regression else ExplainableBoostingClassifier
    model = kind(n_jobs=1, **options).fit(X, y)
    return model.predict if is_regression else model.predict_proba


def _coded(X: pd.DataFrame) -> Any:
    """Return a table as numbers, with codes of categories, as pyGAM takes it."""
    return np.column_stack([X[name].cat.codes if X[name].dtype == "category" else X[name] for name in X]).astype(float)


def fit_pygam(X: pd.DataFrame, y: Any, *, is_regression: bool, search: bool) -> Predict:
    """Fit pyGAM: splines of numbers, and effects of categories."""
    from pygam import LinearGAM, LogisticGAM, f, s

    terms = [f(place) if X[name].dtype == "category" else s(place) for place, name in enumerate(X)]
    model = (LinearGAM if is_regression else LogisticGAM)(sum(terms[1:], start=terms[0]))
    model = model.gridsearch(_coded(X), y, progress=False) if search else model.fit(_coded(X), y)
    if is_regression:
        return lambda frame: model.predict(_coded(frame))
    return lambda frame: np.column_stack([1 - (p := model.predict_proba(_coded(frame))), p])


def fit_glmgam(X: pd.DataFrame, y: Any, *, is_regression: bool) -> Predict:
    """Fit statsmodels' GLMGam; values of test rows are moved into the range of the training rows."""
    import statsmodels.api as sm
    from statsmodels.gam.api import BSplines, GLMGam

    numbers = [name for name in X if X[name].dtype != "category" and X[name].nunique() > 10]
    others = [name for name in X if name not in numbers]
    low, high = X[numbers].min(), X[numbers].max()
    linear = pd.get_dummies(X[others], drop_first=True).astype(float)
    smoother = BSplines(X[numbers].to_numpy(float), df=[10] * len(numbers), degree=[3] * len(numbers))
    family = sm.families.Gaussian() if is_regression else sm.families.Binomial()
    exog = sm.add_constant(linear, has_constant="add")
    fitted = GLMGam(np.asarray(y, float), exog=exog.to_numpy(), smoother=smoother, alpha=1.0, family=family).fit()

    def predict(frame: pd.DataFrame) -> Any:
        dummies = pd.get_dummies(frame[others]).reindex(columns=linear.columns, fill_value=0.0).astype(float)
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
    for fold in options.folds:
        for table in options.tables:
            for model in options.models:
                if (table, model, fold) in done or not is_possible(model, table, fold):
                    continue
                line = run_one(table, model, fold, options.limit)
                append(out, line)
                print(
                    *(line.get(name) for name in ("table", "model", "score", "seconds", "cpu_seconds", "failed")),
                    flush=True,
                )


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--folds", nargs="+", type=int, choices=range(FOLDS), default=[0])
    parser.add_argument("--limit", type=int, default=LIMIT, help="CPU seconds of a fit")
    parser.add_argument("--one", nargs=3, metavar=("TABLE", "MODEL", "FOLD"), help="one fit, in this process")
    options = parser.parse_args(words)
    if options.one:
        table, model, fold = options.one
        fit_one(table, model, int(fold), options.limit)
    else:
        run(options.out, options)


if __name__ == "__main__":
    main()
