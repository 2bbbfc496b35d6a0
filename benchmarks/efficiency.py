"""Milliseconds per epoch of every method of the plan ``efficiency-epochs``, each network alone, on splits of SGEMM.

    python benchmarks/efficiency.py [--device cpu] [--folds 5] [--epochs 10] [--backbones mlp resnet ft] [--sizes 7 30]

The paper gives the total time of five folds, which also depends on when each training stops. Here every network is
trained for a fixed number of epochs and its median epoch counts. A study trains single networks split by split: all
methods are timed once before any is timed again, so that a load that changes treats them alike. A row has the median,
the least and the most of the splits; learned knots have their ratio to the same knots fixed, within each split.
Records, with the provenance of every timing, stay in the folder of `--out`, where another run measures what
is missing.
"""

import argparse
import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

import knotwork as kw

FIXED = {"BS-Grad-U": "BS-U", "IS-Grad-U": "IS-U", "MS-Grad-U": "MS-U"}


def measure(out: Path, options: argparse.Namespace) -> pd.DataFrame:
    """Return the records of all networks."""
    plan = kw.study.load_plan("efficiency-epochs")
    plan = replace(
        plan,
        backbones=tuple(choice for choice in plan.backbones if choice.label in options.backbones),
        sizes=tuple(options.sizes),
        folds=options.folds,
        training=replace(plan.config, max_epochs=options.epochs, patience=options.epochs),
    )
    load = os.getloadavg()[0]
    summary = kw.study.run(plan, out, device=options.device)
    print(f"{summary.n_ok} networks in {summary.seconds:.0f} s, load {load:.1f} to {os.getloadavg()[0]:.1f}")
    return kw.study.load_results(out, plan.plan_hash)


def rows(frame: pd.DataFrame) -> list[str]:
    """Return a line of Markdown for each backbone, method and size."""
    frame = frame.assign(ms=1000 * frame["epoch_seconds"], size=frame["size"].fillna(0).astype(int))
    wide = frame.pivot(index=["backbone", "method", "size"], columns="fold", values="ms")
    order = {name: place for place, name in enumerate(kw.study.load_plan("efficiency-epochs").methods)}
    lines = []
    for key in sorted(wide.index, key=lambda key: (key[0], order[key[1]], key[2])):
        backbone, method, size = key
        times, ratio = wide.loc[key], ""
        if method in FIXED:
            ratios = times / wide.loc[(backbone, FIXED[method], size)]
            ratio = f"{ratios.median():.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
        cells = [
            backbone,
            method,
            size or "",
            *(f"{value:.1f}" for value in (times.median(), times.min(), times.max())),
        ]
        lines.append("| " + " | ".join(map(str, [*cells, times.count(), ratio])) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--backbones", nargs="+", default=["mlp", "resnet", "ft"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[7, 15, 30])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        frame = measure(options.out or Path(folder), options)
    place = frame["gpu"].iloc[0] if frame["gpu"].iloc[0] != "none" else f"{frame['cpu'].iloc[0]}, CPU"
    software = f"torch {frame['torch_version'].iloc[0]}, commit {frame['commit'].iloc[0][:7]}"
    print(f"\n{datetime.now(UTC):%Y-%m-%d}, {place}, {frame['precision'].iloc[0]}, {software}; {options.epochs} epochs")
    print("| backbone | method | size | median ms | least | most | splits | learned / fixed |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    print("\n".join(rows(frame)))


if __name__ == "__main__":
    main()
