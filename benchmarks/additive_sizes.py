"""The sizes of additive models, chosen without test rows: variants of the fit, scored by cross-validation.

    python benchmarks/additive_sizes.py                            every variant that is missing
    python benchmarks/additive_sizes.py --tables california --variants "size 50"
    python benchmarks/additive_sizes.py --page                     print the table of the existing results

The rows are the training and validation rows of fold 0 of the study, whose test rows the comparison with other
libraries (`additive.py`) is made on. They are divided into parts; each variant is fitted on all parts but one, and
scored on that one: NRMSE, or AUC (weighted one against the rest). A variant changes one of the model's constants.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from quality_data import TABLES, load_fold, score
from sklearn.model_selection import KFold, StratifiedKFold

import knotwork as kw

RESULTS = Path(__file__).parent / "additive" / "sizes.json"
N_PARTS = 5
MODULE = sys.modules[kw.AdditiveRegressor.__module__]
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "size 50": {"size": 50},
    "size 70": {"size": 70},
    "size 150": {"size": 150},
    "size 200": {"size": 200},
    "first 16": {"FIRST_SIZE": 16},
    "first 20": {"FIRST_SIZE": 20},
    "first 24": {"FIRST_SIZE": 24},
    "first 48": {"FIRST_SIZE": 48},
    "spare 2": {"SPARE": 2.0},
    "spare 3": {"SPARE": 3.0},
    "spare 6": {"SPARE": 6.0},
    "used 0.25": {"MOST_USED": 0.25},
    "used 0.55": {"MOST_USED": 0.55},
    "rows 1": {"ROWS_PER_COEFFICIENT": 1},
    "rows 6": {"ROWS_PER_COEFFICIENT": 6},
    "rows 12": {"ROWS_PER_COEFFICIENT": 12},
}
"""Constants of the model that differ; `size` is an argument."""


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
        constants = dict(VARIANTS[name])
        options = {"size": constants.pop("size")} if "size" in constants else {}
        scores, clock = [], time.process_time()
        with patch.dict(vars(MODULE), constants):
            for train, held in parts:
                model = kind(**options).fit(X.iloc[train], y[train])
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


def page(path: Path) -> str:
    """Return a row per variant: ratios of its errors and seconds to those of the first, over the tables of both."""
    known = json.loads(path.read_text())
    rows = []
    for name in VARIANTS:
        pairs = [(each[name], each["as it is"]) for each in known.values() if name in each]
        tables = [table for table, each in known.items() if name in each]
        if not pairs:
            continue
        is_error = np.array([load_fold(table, 0).is_regression for table in tables])
        errors, others = (np.array([pair[k][0] for pair in pairs]) for k in (0, 1))
        ratios = np.where(is_error, errors / others, (1 - errors).clip(1e-6) / (1 - others).clip(1e-6))
        seconds = [pair[0][1] / pair[1][1] for pair in pairs]
        rows.append([name, len(pairs), np.exp(np.log(ratios).mean()), np.median(ratios),
                     int((ratios < 1).sum()), int((ratios > 1).sum()), ratios.max(), np.median(seconds)])  # fmt: skip
    head = ["variant", "tables", "mean ratio", "median", "better", "worse", "largest", "seconds"]
    return str(pd.DataFrame(rows, columns=head).to_string(index=False, float_format="%.4f"))


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
