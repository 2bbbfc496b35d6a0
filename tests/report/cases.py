"""Records as a study writes them, made up: plausible numbers, the full grid of the paper or a part of it."""

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb

from knotwork.study._records import write_records

MAIN = [
    "Std",
    "MinMax",
    "PLE",
    *(f"{f}-{p}" for f in ("BS", "IS") for p in ("U", "Q", "CART", "LGBM", "Grad-U")),
    "MS-Grad-U",
]
BACKBONES = ["mlp", "resnet", "ft"]
METRICS = ["nrmse", "rmse", "mae", "r2", "auc", "log_loss", "accuracy"]


def make_records(
    n_regression=13, n_classification=12, *, backbones=BACKBONES, methods=MAIN, sizes=(7, 15, 30), n_folds=5, seed=0
):
    """Return records of a study, one row per network, all of them in order."""
    random = np.random.default_rng(seed)
    effect = {method: random.normal(0, 0.02) + (0.05 if method in ("Std", "MinMax") else 0) for method in methods}
    tables = [("regression", f"reg{i:02d}") for i in range(n_regression)]
    tables += [("classification", f"class{i:02d}") for i in range(n_classification)]
    rows = []
    for number, (task, dataset) in enumerate(tables):
        base, d = random.uniform(0.2, 0.8), 4 + number
        for backbone in backbones:
            for method in methods:
                for size in [np.nan] if method in ("Std", "MinMax") else sizes:
                    value = base * (1 + effect[method] + random.normal(0, 0.03))
                    names = {"task": task, "dataset": dataset, "backbone": backbone, "method": method, "size": size}
                    rows.extend(_row(random, names | {"fold": fold, "seed": fold}, value, d) for fold in range(n_folds))
    return pd.DataFrame(rows)


def _row(random, names, value, d):
    method, size, backbone = names["method"], names["size"], names["backbone"]
    error = value * (1 + random.normal(0, 0.01))
    width = d * (1 if np.isnan(size) else size)
    learned = "Grad" in method
    regression = names["task"] == "regression"
    metrics = dict.fromkeys(METRICS, np.nan)
    if regression:
        metrics |= {"nrmse": error, "rmse": 3 * error, "mae": 2 * error, "r2": 1 - error**2}
    else:
        metrics |= {"auc": 1 - error / 4, "log_loss": error / 2, "accuracy": 1 - error / 3}
    epochs = int(random.integers(40, 200))
    return {
        **names, "tokens": "feature" if backbone == "ft" else None, "status": "ok", **metrics,
        "prepare_seconds": 0.05, "train_seconds": epochs * (0.01 + 1e-5 * width) * (2 if learned else 1),
        "epochs": epochs, "best_epoch": epochs - 15,
        "n_parameters": 66_000 + 256 * width + (d * (int(size) - 3) if learned else 0),
        "knots_moved": learned, "data_sha256": f"{d:08x}" * 8,
        "plan_hash": "0123456789abcdef", "version": "0.1.0", "device": "cpu", "error": None,
    }  # fmt: skip


def write_study(folder, records):
    """Write records as a study does."""
    complete = records.assign(
        key=[f"{i}" for i in range(len(records))], together=True, recorded_at=np.arange(len(records)) * 1.0
    )
    (folder / "records").mkdir(parents=True)
    write_records(folder, "all", complete.astype(object).where(complete.notna(), None).to_dict("records"))


def luminance(colour):
    """Return the relative luminance of a colour, as contrast is defined by WCAG."""
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]
