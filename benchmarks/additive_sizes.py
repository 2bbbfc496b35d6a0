"""The sizes of additive models, chosen without test rows: variants of the fit, scored by cross-validation.

    python benchmarks/additive_sizes.py                            every variant that is missing
    python benchmarks/additive_sizes.py --tables california --variants "size 50"
    python benchmarks/additive_sizes.py --page                     print the table of the existing results

The rows are the training and validation rows of fold 0 of the study, whose test rows the comparison with other
libraries (`additive.py`) is made on. They are divided into parts; each variant is fitted on all parts but one, and
scored on that one: NRMSE, or AUC (weighted one against the rest). A variant changes one of the model's constants.
`additive.py --write` puts the table into benchmarks/README.md.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
from quality_data import TABLES, load_fold, score
from sklearn.model_selection import KFold, StratifiedKFold

import knotwork as kw
from knotwork.datasets import DATASETS

FLOOR = 1e-6
"""Smallest error in a ratio."""

RESULTS = Path(__file__).parent / "additive" / "sizes.json"
N_PARTS = 5
MODULE = sys.modules[kw.AdditiveRegressor.__module__.replace("_models", "_growing")]
BASE = {"size": 100, "FIRST_SIZE": 32, "MOST_USED": 0.4, "SPARE": 4.0, "ROWS_PER_COEFFICIENT": 3}
"""Where the search began, with what test scores of 16 tables had suggested: `size`, an argument, and constants."""

CHANGES = {
    "size": (50, 70, 150),
    "FIRST_SIZE": (16, 20, 24, 48),
    "MOST_USED": (0.25, 0.55),
    "SPARE": (2.0, 3.0, 6.0),
    "ROWS_PER_COEFFICIENT": (1, 6),
}
VARIANTS = {"base": BASE} | {
    f"{name} {value}": BASE | {name: value} for name, values in CHANGES.items() for value in values
}
CHOSEN = "MOST_USED 0.55"
"""The variant that the model has: none has clearly smaller errors, and this one is a little faster than the base."""


def measure(table: str, variants: Sequence[str]) -> dict[str, list[float]]:
    """Return the mean score and the CPU seconds of all fits of each variant."""
    fold = load_fold(table, 0)
    X, y = fold.rows("train+valid")
    kind = kw.AdditiveRegressor if fold.is_regression else kw.AdditiveClassifier
    splitter = (KFold if fold.is_regression else StratifiedKFold)(N_PARTS, shuffle=True, random_state=0)
    parts = list(splitter.split(X, y))
    kind().fit(X.iloc[parts[0][0]], y[parts[0][0]])  # so that compiled code is loaded
    out = {}
    for name in variants:
        scores, clock = [], time.process_time()
        with patch.dict(vars(MODULE), VARIANTS[name]):
            for train, held in parts:
                model = kind(size=VARIANTS[name]["size"]).fit(X.iloc[train], y[train])
                predicted = model.predict(X.iloc[held]) if fold.is_regression else model.predict_proba(X.iloc[held])
                scores.append(score(fold.data.task, y[held], predicted))
        out[name] = [float(np.mean(scores)), round(time.process_time() - clock, 3)]
    return out


def run(path: Path, tables: Sequence[str], variants: Sequence[str]) -> None:
    """Measure what is missing, a table at a time."""
    warnings.simplefilter("ignore")
    known = json.loads(path.read_text()) if path.exists() else {}
    for table in tables:
        missing = [name for name in variants if name not in known.get(table, {})]
        if missing:
            known[table] = known.get(table, {}) | measure(table, missing)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known, indent=1) + "\n")
            print(table, known[table], f"load {os.getloadavg()[0]:.0f}", flush=True)


def page(path: Path = RESULTS) -> str:
    """Return a table of a page, a row per variant: ratios of its errors and seconds to those of the base."""
    known = json.loads(path.read_text(encoding="utf-8"))
    lines = [["variant", "tables", "error, mean ratio", "median", "better", "worse", "largest ratio", "CPU seconds"]]
    lines.append([":--", *["--:"] * 7])
    for name in VARIANTS:
        tables = [table for table, each in known.items() if name in each]
        if tables:
            ratios = np.array(
                [error(table, known[table][name]) / error(table, known[table]["base"]) for table in tables]
            )
            seconds = np.median([known[table][name][1] / known[table]["base"][1] for table in tables])
            mean = np.exp(np.log(ratios).mean())
            counts = [str(int(which.sum())) for which in (ratios < 1.0, ratios > 1.0)]
            lines.append([name, str(len(tables)), f"{mean:.4f}", f"{np.median(ratios):.4f}", *counts,
                          f"{ratios.max():.3f}", f"{seconds:.2f}"])  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def error(table: str, result: Sequence[float]) -> float:
    """Return NRMSE, or 1 - AUC."""
    return result[0] if DATASETS[table].task == "regression" else max(1.0 - result[0], FLOOR)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--page", action="store_true", help="print the table of existing results, fit nothing")
    options = parser.parse_args()
    if options.page:
        print(page(options.out))
    else:
        run(options.out, options.tables, options.variants)


if __name__ == "__main__":
    main()
