"""One fit of AutoGluon, for `quality_peers.py`, which runs this file in the environment that AutoGluon needs.

    python benchmarks/quality_autogluon.py FOLDER

The folder has the rows (`train.parquet`, with the column `target`, and `test.parquet`) and what is asked for
(`about.json`). Predictions come as `predicted.npy`, and seconds, number of models and versions as `told.json`.
Seconds are those of `fit` and of predicting the test rows, without the start of Python and imports.
"""

import json
import sys
import time
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from autogluon.tabular import TabularPredictor

LIBRARIES = ("torch", "lightgbm", "catboost", "xgboost", "pytabkit")
"""What its models import, inside of `fit` and its time limit if it was not imported before."""


def count(predictor: TabularPredictor) -> tuple[int, list[str]]:
    """Return how many fitted models the predictions are made of, folds counted, and the names of the base models."""
    trainer = predictor._trainer
    needed = trainer.get_minimum_model_set(predictor.model_best)
    bases = [name for name in needed if not name.startswith("WeightedEnsemble")]
    return sum(getattr(trainer.load_model(name), "n_children", 1) for name in bases), sorted(bases)


def main(folder: Path) -> None:
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    train, test = pd.read_parquet(folder / "train.parquet"), pd.read_parquet(folder / "test.parquet")
    kinds = {0: ("regression", "root_mean_squared_error"), 2: ("binary", "roc_auc")}
    kind, metric = kinds.get(about["n_classes"], ("multiclass", "roc_auc_ovr_weighted"))
    predictor = TabularPredictor(
        "target", problem_type=kind, eval_metric=metric, path=str(folder / "models"), verbosity=2
    )
    for name in LIBRARIES:
        if find_spec(name) is not None:
            import_module(name)
    began = time.perf_counter()
    predictor.fit(train, presets=about["preset"], time_limit=about["time_limit"], num_cpus=about["threads"], num_gpus=0)
    fitted = time.perf_counter()
    if kind == "regression":
        predicted = predictor.predict(test, as_pandas=True).to_numpy()
    else:
        shares = predictor.predict_proba(test, as_pandas=True)
        predicted = shares.reindex(columns=range(about["n_classes"]), fill_value=0.0).to_numpy()
    ended = time.perf_counter()
    np.save(folder / "predicted.npy", np.asarray(predicted, dtype=np.float64))
    n_models, names = count(predictor)
    told = {
        "seconds": round(fitted - began, 3),
        "predict_seconds": round(ended - fitted, 4),
        "n_models": n_models,
        "time_limit": round(about["time_limit"], 1),
        "members": names,
        "versions": {name: version(name) for name in ("autogluon.tabular", "torch")},
    }
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
