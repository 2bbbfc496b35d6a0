"""Cost and gain of the searches ``"validated"`` and ``"ensemble"`` beside the recommended encoding.

    python benchmarks/modes.py [--device cpu] [--tables abalone ...] [--rows 4000] [--seeds 0 1]

Estimators have their defaults otherwise. Scores are of the test rows of one fold of tables of the study: NRMSE (smaller
is better) or AUC. CPU seconds are those of all threads during `fit`, after a first fit that compiles everything. Tables
are read from KNOTWORK_DATA.
"""

import argparse
import time
from datetime import UTC, datetime

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

import knotwork as kw
from knotwork.datasets import load_dataset

CHOICES = {
    "recommended": {"encoding": "recommended"},
    "validated": {"search": "validated"},
    "ensemble": {"search": "ensemble"},
}
TABLES = ("abalone", "cpu_small", "wine_quality", "churn", "gamma")


def score(model: kw.TabularRegressor | kw.TabularClassifier, X: object, y: np.ndarray) -> float:
    if isinstance(model, kw.TabularRegressor):
        return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)) / y.std())
    shares = model.predict_proba(X)
    if shares.shape[1] == 2:
        return float(roc_auc_score(y, shares[:, 1]))
    return float(roc_auc_score(y, shares, multi_class="ovr", average="weighted"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--rows", type=int, default=4000, help="largest number of rows of a table")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    arguments = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, device {arguments.device}, torch {torch.__version__}\n")
    print("| table | seed | encoding | score | CPU seconds | networks kept | chosen |\n|---|---|---|---|---|---|---|")
    warm = np.random.default_rng(0).normal(size=(200, 2))
    for kind in (kw.TabularRegressor, kw.TabularClassifier):
        model = kind(search="ensemble", training=kw.TrainingConfig(max_epochs=1), device=arguments.device)
        model.fit(warm, warm[:, 0] > 0)
    for key in arguments.tables:
        data = load_dataset(key)
        rows = np.random.default_rng(0).permutation(data.n_rows)[: arguments.rows]
        X, y = data.frame[list(data.features)].iloc[rows], data.target_values()[rows]
        regression = data.task == "regression"
        kind = kw.TabularRegressor if regression else kw.TabularClassifier
        folds = (KFold if regression else StratifiedKFold)(5, shuffle=True, random_state=42)
        train, test = next(folds.split(X, y))
        for seed in arguments.seeds:
            for word, choice in CHOICES.items():
                columns = kw.ColumnConfig(categorical=data.categorical)
                model = kind(**choice, columns=columns, device=arguments.device, random_state=seed)
                begin = time.process_time()
                model.fit(X.iloc[train], y[train])
                seconds = time.process_time() - begin
                chosen = [
                    f"{weight:.2f} {next(iter(own.values()), 'none')}"
                    for weight, own in zip(model.weights_, model.encoding_, strict=True)
                ]
                found = score(model, X.iloc[test], y[test])
                print(
                    f"| {key} | {seed} | {word} | {found:.4f} | {seconds:.1f} | {len(chosen)} | {', '.join(chosen)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
