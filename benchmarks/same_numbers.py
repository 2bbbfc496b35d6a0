"""Do two versions of the library give the same numbers? Encoders, layers, additive models, estimators and a study.

    PYTHONPATH=/path/to/before/src python benchmarks/same_numbers.py write build/before.npz
    PYTHONPATH=src python benchmarks/same_numbers.py write build/now.npz
    python benchmarks/same_numbers.py compare build/before.npz build/now.npz

Tables are real ones of `KNOTWORK_DATA` (by default `../shared/datasets`), up to 2,000 rows of each. Run both on the
same machine: networks agree bit for bit only there. `compare` prints the largest difference in each group, as a share
of the largest value of the array, and ends with an error if it is above 1e-12.
"""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("KNOTWORK_DATA", str(Path(__file__).parents[2] / "shared" / "datasets"))

import numpy as np
import torch

import knotwork as kw

TABLES = ["abalone", "adult", "california", "churn", "cpu_small", "diamonds", "gamma", "shuttle", "sulfur"]
TABLES += ["wine_quality"]
FAMILIES = ["bspline", "mspline", "ispline", "cyclic", "natural", "radial", "thin_plate"]
N_ROWS = 2000
LIMIT = 1e-12

Named = Iterator[tuple[str, np.ndarray]]


def read(key: str) -> tuple[object, np.ndarray, str]:
    """Return the features, the target and the task of a table, up to `N_ROWS` rows."""
    dataset = kw.datasets.load_dataset(key)
    rows = np.sort(np.random.default_rng(0).permutation(dataset.n_rows)[:N_ROWS])
    return dataset.features.iloc[rows].reset_index(drop=True), dataset.target_values()[rows], dataset.task


def numbers(features: object) -> np.ndarray:
    return features.select_dtypes("number").to_numpy(float)[:, :6]


def encoders() -> Named:
    for key in TABLES[:6]:
        features, y, task = read(key)
        X = numbers(features)
        goal = y if task == "regression" else np.unique(y.astype(str), return_inverse=True)[1]
        X_missing = X.copy()
        X_missing[::7, 0] = np.nan
        for name in kw.encoders.METHOD_TABLE:
            if "Grad" in name or name in ("Periodic", "Cosine", "PLR", "PBLD"):
                continue
            for size in (None,) if name in ("Std", "MinMax", "Robust") else (6, 15):
                options = {"task": task, "random_state": 0} if "CART" in name or "LGBM" in name else {}
                encoder = kw.make_encoder(name, size=size, **options)
                yield f"{key}/{name}@{size}", encoder.fit(X, goal).transform(X)
                yield f"{key}/{name}@{size}/missing", encoder.fit(X_missing, goal).transform(X_missing)
        for extrapolation in ("clip", "continue", "zeros", "constant", "linear", "periodic", "error"):
            try:
                encoder = kw.SplineEncoder(size=9, extrapolation=extrapolation).fit(X)
            except ValueError:
                continue
            if extrapolation != "error":
                yield f"{key}/{extrapolation}", encoder.transform(2.0 * X - 1.0)


def layers() -> Named:
    values = torch.linspace(-0.1, 1.1, 301)[:, None].expand(-1, 3).contiguous()
    for family in FAMILIES:
        layer = kw.nn.SplineEncoding(3, 11, family=family)
        encoded = layer(values)
        (encoded.square().mean() + layer.spacing_penalty().mean()).backward()
        yield f"{family}/forward", encoded.detach().numpy()
        yield f"{family}/knots", layer.logits.grad.numpy()
    ramps = kw.nn.PiecewiseLinearEncoding(3, 9, learnable=True)
    ramps(values).square().mean().backward()
    yield "ple/knots", ramps.logits.grad.numpy()


def additive() -> Named:
    for key in TABLES:
        features, y, task = read(key)
        model = kw.AdditiveRegressor() if task == "regression" else kw.AdditiveClassifier()
        model.fit(features, y)
        yield key, model.predict(features) if task == "regression" else model.predict_proba(features)
        yield f"{key}/importances", model.feature_importances_


def predictions(model: object, features: object, task: str) -> np.ndarray:
    return model.predict(features) if task == "regression" else model.predict_proba(features)


def named() -> Named:
    """Every encoding, backbone and objective by name, trained briefly."""
    short = kw.TrainingConfig(max_epochs=3)
    features, y, _ = read("abalone")
    settings = {"training": short, "random_state": 0, "device": "cpu"}

    def predicted(*parts: str, **further: object) -> np.ndarray:
        model = kw.TabularRegressor(*parts, **settings, **further)
        return model.fit(features[:500], 1.0 + y[:500]).predict(features)

    for name in (*kw.encoders.METHOD_TABLE, "CS-U@8%24", "PLE@9+LR4", "BS-Q@7+x"):
        yield name, predicted(name, "mlp")
    for backbone in kw.nn.BACKBONES:
        yield backbone, predicted("PLE@8", backbone)
        yield f"{backbone}/pairs", predicted("BS-Grad-Q@8", backbone, interactions=2)
    for objective in ("squared", "absolute", "huber", "quantile", "poisson", "gamma", "tweedie", "gaussian"):
        yield objective, predicted("PLE@8", "mlp", objective=objective)


def estimators() -> Named:
    for key in TABLES:
        features, y, task = read(key)
        kind = kw.TabularRegressor if task == "regression" else kw.TabularClassifier
        model = kind(effort="fast", random_state=0, device="cpu").fit(features, y)
        yield key, predictions(model, features, task)
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/model.knotwork")
            yield f"{key}/loaded", predictions(kw.load(f"{folder}/model.knotwork"), features, task)
    features, y, task = read("cpu_small")
    model = kw.TabularRegressor(random_state=0, device="cpu").fit(features[:500], y[:500])
    yield "balanced", model.predict(features)
    yield "balanced/interval", model.predict_interval(features)


def study() -> Named:
    methods = ["Std", "PLE", "BS-Q", "IS-CART", "BS-LGBM", "MS-Grad-U", "PLR"]
    plan = kw.study.Plan(
        name="same",
        datasets=["abalone", "churn"],
        methods=methods,
        sizes=[7],
        backbones=["mlp"],
        folds=2,
        training=kw.TrainingConfig(max_epochs=3),
    )
    with tempfile.TemporaryDirectory() as folder:
        kw.study.run(plan, folder)
        records = kw.study.load_results(folder).sort_values(["dataset", "method", "fold"])
    for metric in ("nrmse", "rmse", "mae", "r2", "auc", "log_loss", "accuracy", "valid_score", "best_epoch"):
        yield metric, records[metric].to_numpy(float)


GROUPS = {function.__name__: function for function in (encoders, layers, additive, named, estimators, study)}


def write(path: Path, groups: list[str]) -> None:
    torch.set_num_threads(1)
    arrays = {}
    for group in groups:
        for name, array in GROUPS[group]():
            arrays[f"{group}/{name}"] = np.asarray(array.todense() if hasattr(array, "todense") else array)
        print(f"{group}: {sum(key.startswith(group + '/') for key in arrays)} arrays", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def difference(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest difference as a share of the largest value; infinite where shapes or missing values differ."""
    if first.shape != second.shape or (np.isnan(first) != np.isnan(second)).any():
        return np.inf
    scale = np.nanmax(np.abs(first), initial=0.0) or 1.0
    return float(np.nanmax(np.abs(first - second), initial=0.0) / scale)


def compare(before: Path, now: Path) -> int:
    first, second = np.load(before), np.load(now)
    worst = 0.0
    for group in GROUPS:
        names = [name for name in first.files if name.startswith(group + "/")]
        gaps = {name: difference(first[name], second[name]) if name in second.files else np.inf for name in names}
        equal = sum(gap == 0.0 for gap in gaps.values())
        largest = max(gaps, key=gaps.get, default="")
        print(f"{group}: {equal} of {len(gaps)} arrays equal; largest {gaps.get(largest, 0.0):.1e} ({largest})")
        worst = max(worst, gaps.get(largest, 0.0))
    return int(worst > LIMIT)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.action == "compare":
        sys.exit(compare(*arguments.files))
    write(arguments.files[0], arguments.groups)
