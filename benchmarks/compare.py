"""`knotwork compare` on tables of the study: its recommendation on rows that it has not seen, and its time limit.

    python benchmarks/compare.py [--tables abalone churn ...] [--seconds 60] [--out compare.csv]

A third of the rows of each table is held out. The rest is compared within the time limit. The saved model predicts the
held rows; the recommended row and the best row of the ranking, if they are others, are fitted again on all rows of the
rest. The loss is how much worse the recommended row is than the best one on the held rows, by RMSE or log loss. The
tables are read from KNOTWORK_DATA.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import knotwork as kw
from knotwork.compare import CompareOptions, compare_table
from knotwork.datasets import load_dataset

TABLES = ("abalone", "california", "cpu_small", "wine_quality", "sulfur", "house_8l", "churn", "fico", "gamma", "eeg")


def linear(task: str) -> Any:
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", max_categories=50)
    )
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (words, make_column_selector(dtype_exclude="number"))
    )
    if task == "regression":
        return make_pipeline(columns, RidgeCV(np.logspace(-2, 4, 7)))
    return make_pipeline(columns, LogisticRegression(max_iter=300))


def boosting(task: str) -> Any:
    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return kind(max_iter=2000, early_stopping=True, n_iter_no_change=50, categorical_features="from_dtype")


def fit_lightgbm(features: pd.DataFrame, target: pd.Series, task: str) -> Any:
    import lightgbm  # noqa: PLC0415 - optional: compared only if it is installed

    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    train, valid, known, held = train_test_split(features, target, test_size=0.1, random_state=0)
    stop = lightgbm.early_stopping(50, verbose=False)
    return kind(n_estimators=2000, verbose=-1).fit(train, known, eval_set=[(valid, held)], callbacks=[stop])


def fitted(line: Any, features: pd.DataFrame, target: pd.Series, task: str) -> Any:
    """Return the model of a row of the ranking, fitted on all rows."""
    if line.kind == "encoding":
        kind = kw.TabularRegressor if task == "regression" else kw.TabularClassifier
        return kind(str(line.candidate), "mlp", random_state=0).fit(features, target)
    if "LightGBM" in str(line.candidate):
        return fit_lightgbm(features, target, task)
    return (linear if line.kind == "linear" else boosting)(task).fit(features, target)


def score(model: Any, features: pd.DataFrame, target: pd.Series, task: str) -> float:
    if task == "regression":
        return float(root_mean_squared_error(target, model.predict(features)))
    return float(log_loss(target, model.predict_proba(features), labels=model.classes_))


def measure(key: str, seconds: float, folder: Path) -> dict[str, Any]:
    data = load_dataset(key)
    frame = data.frame.rename(columns=str)
    frame[data.target] = data.target_values()
    rows, held = train_test_split(
        frame, test_size=1 / 3, random_state=0, stratify=frame[data.target] if data.task == "classification" else None
    )
    path = folder / f"{key}.parquet"
    rows.to_parquet(path)
    began = time.perf_counter()
    options = CompareOptions(time_budget=seconds, task=data.task)
    comparison = compare_table(path, data.target, out=folder / key, options=options)
    taken, ranking = time.perf_counter() - began, comparison.ranking

    def held_score(line: Any) -> float:
        if line is ranking.saved:
            return score(comparison.model, held[names], held[data.target], data.task)
        texts = [name for name in names if not pd.api.types.is_numeric_dtype(rows[name])]
        kinds = {name: pd.CategoricalDtype(rows[name].dropna().unique()) for name in texts if line.is_baseline}
        model = fitted(line, rows[names].astype(kinds), rows[data.target], data.task)
        return score(model, held[names].astype(kinds), held[data.target], data.task)

    names = [name for name in rows if name != data.target]
    best = ranking.lines[0]
    best_score, recommended = held_score(best), held_score(ranking.chosen)
    baseline = ranking.best_baseline
    return {
        "table": key,
        "rows": len(rows),
        "compared": comparison.compared.n_rows,
        "folds": len(best.scored.scores[ranking.metric]),
        "encodings": sum(line.kind == "encoding" for line in ranking.lines),
        "recommended": str(ranking.chosen.candidate),
        "best": str(best.candidate),
        "best baseline": f"{baseline.candidate} {baseline.mean:.4g}" if baseline else "",
        "saved out of fold": round(ranking.saved.mean, 4),
        "saved on held rows": round(held_score(ranking.saved), 4),
        "loss %": round(100 * (recommended / best_score - 1), 2),
        "seconds": round(taken, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("compare.csv"))
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for key in options.tables:
            results.append(measure(key, options.seconds, Path(folder)))
            pd.DataFrame(results).to_csv(options.out, index=False)
            print(pd.DataFrame(results[-1:]).to_string(index=False, header=len(results) == 1), flush=True)
    table = pd.DataFrame(results)
    print(f"Largest loss: {table['loss %'].max():.2f} %; longest time: {table['seconds'].max():.0f} s.")


if __name__ == "__main__":
    main()
