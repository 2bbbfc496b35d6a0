"""`knotwork compare` on tables of the study: its recommendation on rows that it has not seen, and its time limit.

    python benchmarks/compare.py [--tables abalone churn ...] [--seconds 60] [--out compare.csv]

A third of the rows of each table is held out. The rest is compared within the time limit. The saved model, which is the
recommended one, and the best row of every other kind predict the held rows, by RMSE or log loss. The loss is how much
worse the saved model is than the best of them on the held rows. The tables are read from KNOTWORK_DATA.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

from knotwork.compare import CompareOptions, compare_table
from knotwork.datasets import load_dataset

TABLES = ("abalone", "california", "cpu_small", "wine_quality", "sulfur", "house_8l", "churn", "fico", "gamma", "eeg")


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
    features, target = held.drop(columns=data.target), held[data.target]
    scores: dict[str, float] = {}
    for line in ranking.lines:  # the best first
        model = comparison.model if line is ranking.chosen else line.scored.make and line.scored.make()
        if model is not None and (line is ranking.chosen or line.kind not in scores):
            scores[line.kind] = score(model, features, target, data.task)
    saved = scores[ranking.chosen.kind]
    return {
        "table": key,
        "rows": len(rows),
        "compared": comparison.compared.n_rows,
        "folds": len(ranking.best.scored.epochs),
        "recommended": str(ranking.chosen.candidate),
        "best": str(ranking.best.candidate),
        "saved out of fold": round(ranking.chosen.mean, 4),
        "saved on held rows": round(saved, 4),
        "others on held rows": ", ".join(f"{kind} {each:.4g}" for kind, each in scores.items()),
        "loss %": round(100 * (saved / min(scores.values()) - 1), 2),
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
