"""Effect of lower precision on results: the same networks trained in float32, tf32 and bfloat16 on a GPU.

    python benchmarks/precision.py --prepare         fits knots, on a machine with LightGBM
    python benchmarks/precision.py --device cuda     trains, and prints the table

The protocol and the folds are those of the paper. Two networks that differ in precision only start from the same
weights and have the same rows and the same dropout, so scores are compared in pairs. Training is chaotic: rounding
alone makes a pair differ, in either direction. Only the mean difference must be zero.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd
from scipy import stats

from knotwork.study import Plan, load_results, prepare_plan, run
from knotwork.training import TrainingConfig

PRECISIONS = ("float32", "tf32", "bf16")
SCORES = {"regression": "nrmse", "classification": "auc"}
CHOSEN = {"mlp": "tf32", "resnet": "bf16", "ft": "bf16"}
"""The precision that ``precision="auto"`` chooses on a GPU."""


def plans(backbones: list[str], datasets: list[str] | None, quick: bool) -> list[Plan]:
    """Return a plan for each backbone, seed and precision."""
    out = []
    for backbone in backbones:
        small = backbone == "ft"
        for seed in (42,) if small or quick else (42, 1042):
            plan = Plan(
                name="precision",
                datasets=datasets or ("cpu_small", "churn", "california")[: 2 if small else 3],
                methods=("Std", "PLE", "BS-Q", "IS-LGBM", "BS-Grad-U"),
                sizes=(7,) if small else (7, 30),
                backbones=(backbone,),
                seed=seed,
            )
            epochs = 30 if small else plan.config.max_epochs
            training = [replace(TrainingConfig.paper(), precision=each, max_epochs=epochs) for each in PRECISIONS]
            out += [replace(plan, name=f"precision-{each.precision}", training=each) for each in training]
    return out


def table(scores: pd.DataFrame) -> str:
    """Return differences to float32 in pairs, by backbone, precision and data set."""
    lines = [
        "| backbone | precision | data set | float32 | spread over folds | difference | 95 % interval | pairs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (backbone, dataset), group in scores.groupby(["backbone", "dataset"]):
        metric = SCORES[group["task"].iloc[0]]
        known = group.assign(size=group["size"].fillna(0))
        wide = known.pivot_table(index=["method", "size", "seed"], columns="precision", values=metric).dropna()
        spread = wide["float32"].groupby(["method", "size"]).std().mean()
        for precision in PRECISIONS[1:]:
            away = wide[precision] - wide["float32"]
            low, high = stats.t.interval(0.95, len(away) - 1, away.mean(), away.sem())
            mark = " (chosen)" if CHOSEN[backbone] == precision else ""
            lines.append(
                f"| {backbone} | {precision}{mark} | {dataset} ({metric}) | {wide['float32'].mean():.4f} "
                f"| {spread:.4f} | {away.mean():+.5f} | {low:+.5f} to {high:+.5f} | {len(away)} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("precision"), help="folder of the study")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prepare", action="store_true", help="fit knots and stop")
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--backbones", nargs="+", default=["resnet", "mlp", "ft"])
    parser.add_argument("--datasets", nargs="+", help="by default three, two for the FT-Transformer")
    options = parser.parse_args()
    found = []
    for plan in plans(options.backbones, options.datasets, options.quick):
        if options.prepare:
            prepare_plan(plan, options.out)
            continue
        run(plan, options.out, device=options.device, report=print)
        part = load_results(options.out, plan.plan_hash)
        found.append(part.assign(precision=plan.config.precision))
    if found:
        print(table(pd.concat(found)))


if __name__ == "__main__":
    main()
