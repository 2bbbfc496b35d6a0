"""Train the grid of the ablation on tables with other numbers of rows than the 20,000 of the plan `ablation`.

    python results/ablation_rows.py [--rows 2000 5000 10000] [--seeds 5] [--prepare] [--device cuda]

The paper does not give the number of rows. The records show how much the agreement with the paper's table depends on
it (`questions.py`). They are in results/ablation_rows, apart from those of the study; a run trains missing networks
only. `--prepare` only places knots, in build/ablation_rows, for a machine without LightGBM. On an H200 the 815 networks
of a number of rows take 14 to 41 seconds; one network on one core takes 2 seconds for 2,000 rows, and 12 for 10,000.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from knotwork.datasets import synthetic_ablation
from knotwork.study import Plan, load_plan, pack, prepare_plan, run

HERE = Path(__file__).parent
RECORDS = HERE / "ablation_rows"
WORK = HERE.parent / "build" / "ablation_rows"
ROWS = (2_000, 5_000, 10_000)
"""Numbers of rows that were tried beside the 20,000 of the plan."""
SEED = 42
"""Random seed of the tables, that of the data set `ablation`."""


def plan_with(n_rows: int, *, seeds: int, folder: Path) -> Plan:
    """Return the plan `ablation` with another number of rows, whose table is written into a folder."""
    path = folder / f"ablation_{n_rows}.parquet"
    synthetic_ablation(n_rows, seed=SEED).frame.to_parquet(path)
    base = load_plan("ablation")
    changes = {"name": path.stem, "datasets": (), "tables": ({"path": str(path), "target": "y"},)}
    return replace(base, folds=seeds, **changes)


def main() -> None:
    """Train what is missing, and pack the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    for n_rows in options.rows:
        plan = plan_with(n_rows, seeds=options.seeds, folder=WORK)
        print(prepare_plan(plan, WORK) if options.prepare else run(plan, WORK, device=options.device), flush=True)
    if not options.prepare:
        print(pack(WORK, RECORDS))


if __name__ == "__main__":
    main()
