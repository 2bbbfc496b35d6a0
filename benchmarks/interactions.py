"""Networks with and without interactions of latitude and longitude, and linear models on tensor-product splines.

    python benchmarks/interactions.py                      # what is missing in the kept results, then a table
    python benchmarks/interactions.py --tables california --settings none pair --encodings BS-Q@15
    python benchmarks/interactions.py --show               # the table only

Each row is one fold of five: the error (RMSE, divided by the standard deviation of the test rows' target), the number
of parameters, the seconds and the load of the machine. All networks are the same MLP with its default settings; `pair`
adds the interaction of latitude and longitude to it, `found` the pairs that stand out. Rows are appended to
`benchmarks/interactions/folds.jsonl`; those that are there are not computed again. The tables are read from
KNOTWORK_DATA.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline, make_union

import knotwork as kw
from knotwork.datasets import Dataset, load_dataset
from knotwork.nn import InteractionConfig, MLPConfig, ResNetConfig

RESULTS = Path(__file__).parent / "interactions" / "folds.jsonl"
PLACES = {"california": ("latitude", "longitude"), "house_sales": ("lat", "long")}
RIDGE = "ridge"
"""Stands in place of an encoding for linear models on splines of size 15, with 12 x 12 for the pair."""


def settings(pair: tuple[str, str]) -> dict[str, dict[str, Any]]:
    """Return the parameters of each setting."""
    return {
        "none": {},
        "pair": {"interactions": [pair]},
        "found": {"interactions": "auto"},
        "rank 1": {"interactions": InteractionConfig([pair], rank=1)},
        "rank 16": {"interactions": InteractionConfig([pair], rank=16)},
        "width 4": {"interactions": InteractionConfig([pair], width=4)},
        "wider": {"backbone": MLPConfig(widths=(288, 128, 64))},
        "resnet": {"backbone": ResNetConfig()},
        "resnet pair": {"backbone": ResNetConfig(), "interactions": [pair]},
    }


def network_error(data: Dataset, rows: tuple[Any, Any], encoding: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a network on the test rows, and its size."""
    train, test = rows
    X, y = data.frame.drop(columns=data.target), data.target_values().astype(float)
    model = kw.TabularRegressor(encoding, **{"backbone": "mlp", **options}, random_state=0)
    model.fit(X.iloc[train], y[train])
    network = model.trained_.pieces[0].network
    return {
        "error": error(model.predict(X.iloc[test]), y[test]),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "epochs": len(model.history_[0]["loss"]),
        "pairs": model.interactions_[0],
    }


def ridge_error(data: Dataset, rows: tuple[Any, Any], pair: tuple[str, str], setting: str) -> dict[str, Any]:
    """Return the error of a linear model on splines of each column, with or without those of the pair."""
    train, test = rows
    X, y = data.frame[list(data.numerical)].astype(float), data.target_values().astype(float)
    parts = [kw.SplineEncoder(size=15, sparse_output=True)]
    if setting == "pair":
        parts.append(kw.TensorSplineEncoder([pair], size=12, sparse_output=True))
    elif setting == "found":
        parts.append(kw.TensorSplineEncoder("auto", size=12, sparse_output=True))
    model = make_pipeline(make_union(*parts), RidgeCV(np.logspace(-3, 2, 6))).fit(X.iloc[train], y[train])
    found = [list(each) for part in model[0].transformer_list[1:] for each in part[1].pairs_]
    return {"error": error(model.predict(X.iloc[test]), y[test]), "parameters": model[1].n_features_in_, "pairs": found}


def error(predictions: np.ndarray, actual: np.ndarray) -> float:
    """Return the root mean squared error in units of the target's standard deviation."""
    return float(np.sqrt(np.mean((predictions - actual) ** 2)) / actual.std())


def run(table: str, encoding: str, setting: str, fold: int) -> dict[str, Any]:
    """Return the record of one fold."""
    data, pair = load_dataset(table), PLACES[table]
    rows = list(KFold(5, shuffle=True, random_state=42).split(data.frame))[fold]
    began = time.perf_counter()
    if encoding == RIDGE:
        measured = ridge_error(data, rows, pair, setting)
    else:
        measured = network_error(data, rows, encoding, settings(pair)[setting])
    identity = {"table": table, "encoding": encoding, "setting": setting, "fold": fold}
    return {**identity, **measured, "seconds": time.perf_counter() - began, "load": os.getloadavg()[0]}


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a record."""
    return tuple(record[name] for name in ("table", "encoding", "setting", "fold"))


def read() -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the kept records."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key(record): record for record in map(json.loads, lines)}


def show(records: dict[tuple[Any, ...], dict[str, Any]]) -> None:
    """Print the mean error of each setting, and the ratio to the same network without interactions."""
    print("| table | encoding | setting | folds | error | ratio to none (95 %) | parameters | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for table, encoding, setting in sorted({each[:3] for each in records}):
        base = "resnet" if setting.startswith("resnet") else "none"
        folds = [fold for fold in range(5) if (table, encoding, setting, fold) in records]
        errors = np.array([records[table, encoding, setting, fold]["error"] for fold in folds])
        pairs = [(records.get((table, encoding, base, fold)), value) for fold, value in zip(folds, errors, strict=True)]
        logs = np.log([value / other["error"] for other, value in pairs if other is not None])
        reach = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs) if len(logs) > 1 else np.nan
        low, mean, high = np.exp([np.mean(logs) - reach, np.mean(logs), np.mean(logs) + reach])
        first = records[table, encoding, setting, folds[0]]
        seconds = np.median([records[table, encoding, setting, fold]["seconds"] for fold in folds])
        ratio = f"{mean:.3f} ({low:.3f} to {high:.3f})"
        ends = f"{first['parameters']:,} | {seconds:.0f}"
        print(f"| {table} | {encoding} | {setting} | {len(folds)} | {errors.mean():.4f} | {ratio} | {ends} |")


def main() -> None:
    """Compute what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=PLACES, default=list(PLACES))
    parser.add_argument("--encodings", nargs="+", default=["BS-Q@15", RIDGE])
    parser.add_argument("--settings", nargs="+", choices=settings(("", "x")), default=["none", "pair", "found"])
    parser.add_argument("--folds", nargs="+", type=int, choices=range(5), default=list(range(5)))
    parser.add_argument("--show", action="store_true", help="print the table of the kept results only")
    wanted = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    choices = [
        (table, encoding, setting, fold)
        for table in wanted.tables
        for encoding in wanted.encodings
        for fold in wanted.folds
        for setting in wanted.settings
    ]
    for choice in [] if wanted.show else choices:
        if choice not in read():
            record = run(*choice)
            with RESULTS.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(record, flush=True)
    show(read())


if __name__ == "__main__":
    main()
