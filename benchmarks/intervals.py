"""Coverage of conformal intervals on the regression tables of the study.

    python benchmarks/intervals.py                            # 13 tables, fold 0, effort="fast"
    python benchmarks/intervals.py --objectives gaussian --tables abalone

Networks are trained on all rows of a fold but its test rows. The table has the share of test rows whose target is
inside of the 90 % interval, which should be 90 %, and the mean width in units of the target's standard deviation. The
last line has the median over the tables.
"""

import argparse
import time

import numpy as np
from quality_data import TABLES, load_fold

import knotwork as kw
from knotwork.datasets import DATASETS

REGRESSION = [table for table in TABLES if DATASETS[table].task == "regression"]
OBJECTIVES = {"squared": "squared", "gaussian": "gaussian", "quantile": kw.Quantile((0.05, 0.5, 0.95))}


def measure(table: str, objective: str, effort: str, coverage: float) -> tuple[float, float, float]:
    """Return the coverage on the test rows, the mean width, and the seconds."""
    fold = load_fold(table, 0)
    X, y = fold.rows("train+valid")
    X_test, y_test = fold.rows("test")
    began = time.perf_counter()
    model = kw.TabularRegressor(effort=effort, objective=OBJECTIVES[objective], random_state=0).fit(X, y)
    low, high = model.predict_interval(X_test, coverage=coverage).T
    seconds = time.perf_counter() - began
    inside = (low <= y_test) & (y_test <= high)
    return float(inside.mean()), float(np.mean(high - low) / np.std(y)), seconds


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=REGRESSION, default=REGRESSION)
    parser.add_argument("--objectives", nargs="+", choices=list(OBJECTIVES), default=["squared"])
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--coverage", type=float, default=0.9)
    given = parser.parse_args()
    for objective in given.objectives:
        print(f"| table ({objective}) | coverage | width | seconds |\n| :-- | --: | --: | --: |")
        results = []
        for table in given.tables:
            results.append(measure(table, objective, given.effort, given.coverage))
            print("| {} | {:.3f} | {:.2f} | {:.1f} |".format(table, *results[-1]), flush=True)
        print("| median | {:.3f} | {:.2f} | {:.1f} |\n".format(*np.median(results, axis=0)), flush=True)


if __name__ == "__main__":
    main()
