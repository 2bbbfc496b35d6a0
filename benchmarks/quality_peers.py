"""The models that `quality.py` compares with: gradient boosting, networks of other libraries, and AutoGluon.

A fit gets a `Fold` and a device, trains on the rows `train` with early stopping on the rows `valid`, and returns a
function from rows to predictions. A bag is five such models, each stopped by another fifth of both parts together.
AutoGluon gets both together, and as many seconds as the effort "balanced". Libraries are imported by the fits, since
none of them is available everywhere; AutoGluon has an environment of its own, `quality_autogluon.py`.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from quality_data import Fold
from sklearn.model_selection import KFold, StratifiedKFold
from torch import nn

import knotwork as kw

__all__ = ["MEAN_OF_BAGS", "PEERS", "Fitted", "Peer", "Predict", "by_class"]

TREES, STOP = 2000, 50
BAG = 5
MEAN_OF_BAGS = "bags_mean"
"""The mean of the predictions of the bags of LightGBM and CatBoost, made from what they have stored."""
ROWS_OF_NETWORKS = 3000
"""Networks of other libraries are slow on two cores: larger tables are left out there."""
BALANCED_SECONDS = (16.7, 2.2e-3)
"""Seconds of the effort "balanced" on two cores, and what is added per row: the time limit of AutoGluon."""
AUTOGLUON = Path(os.environ.get("KNOTWORK_AUTOGLUON", Path(__file__).parents[1] / "build/venv-autogluon/bin/python"))
"""The interpreter of the environment with AutoGluon."""

Predict = Callable[[pd.DataFrame], npt.NDArray[Any]]


@dataclass(frozen=True)
class Fitted:
    """A fitted model.

    Parameters
    ----------
    predict : callable
        Predicts numbers, or the shares of all classes.
    n_models : int
        Number of models whose predictions it averages.
    measured : dict
        What the fit has measured itself, in place of what is measured around it, and further notes.
    """

    predict: Predict
    n_models: int
    measured: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Peer:
    """A model of another library.

    Parameters
    ----------
    package : str
        The library.
    fit : callable
        Trains on a fold and a device.
    on_gpu : bool
        Whether it uses a GPU.
    """

    package: str
    fit: Callable[[Fold, str], Fitted]
    on_gpu: bool

    @property
    def is_installed(self) -> bool:
        """Whether the library is installed."""
        return AUTOGLUON.exists() if self.package == "autogluon.tabular" else find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """The version of the library in this environment; AutoGluon tells its own."""
        return "" if self.package == "autogluon.tabular" else version(self.package)


def threads() -> int:
    """Return the number of threads for libraries that ignore OMP_NUM_THREADS."""
    return int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))


def without_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with numbers in place of each date: days, year, month, day, weekday and hour."""
    dates = frame.select_dtypes("datetime")
    parts = {}
    for name in dates:
        date = dates[name].dt
        parts[f"{name} days"] = (dates[name] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        for part in ("year", "month", "day", "weekday", "hour"):
            parts[f"{name} {part}"] = getattr(date, part)
    return pd.concat([frame.drop(columns=dates.columns), pd.DataFrame(parts, index=frame.index)], axis=1)


def prediction(model: Any, fold: Fold) -> Predict:
    """Return the function of a fitted model that predicts numbers or the shares of classes."""
    return model.predict if fold.is_regression else model.predict_proba


def by_class(shares: npt.NDArray[Any], classes: npt.NDArray[Any], fold: Fold) -> npt.NDArray[Any]:
    """Return shares with a column for each class of a table; a model may not have seen all of them."""
    full = np.zeros((len(shares), int(fold.target.max()) + 1))
    full[:, np.asarray(classes).astype(int)] = shares
    return full


def on_seen_classes(fit: Callable[[Fold, str], Predict], fold: Fold, device: str) -> Predict:
    """Fit on the classes of the training rows only, and predict no share of others."""
    if fold.is_regression:
        return fit(fold, device)
    seen = np.unique(fold.target[fold.split.train])
    if len(seen) == int(fold.target.max()) + 1:
        return fit(fold, device)
    valid = fold.split.valid[np.isin(fold.target[fold.split.valid], seen)]
    part = replace(fold, target=np.searchsorted(seen, fold.target), split=replace(fold.split, valid=valid))
    predict = fit(part, device)
    return lambda rows: by_class(predict(rows), seen, fold)


def fit_single(fold: Fold, device: str, *, fit: Callable[[Fold, str], Predict]) -> Fitted:
    """One model, stopped by the validation rows."""
    return Fitted(on_seen_classes(fit, fold, device), 1)


def fit_bag(fold: Fold, device: str, *, fit: Callable[[Fold, str], Predict]) -> Fitted:
    """Five models, each stopped by another fifth of the training and validation rows; the mean of their predictions."""
    places = np.concatenate([fold.split.train, fold.split.valid])
    folds = (KFold if fold.is_regression else StratifiedKFold)(BAG, shuffle=True, random_state=fold.split.seed)
    members = [
        on_seen_classes(fit, replace(fold, split=replace(fold.split, train=places[a], valid=places[b])), device)
        for a, b in folds.split(places, fold.target[places])
    ]
    return Fitted(lambda rows: np.mean([predict(rows) for predict in members], axis=0), BAG)


def fit_autogluon(fold: Fold, device: str, *, preset: str) -> Fitted:
    """AutoGluon with a preset, on as many threads as the others have, in the time of the effort "balanced"."""
    del device
    (frame, target), (rows, _) = fold.rows("train+valid"), fold.rows("test")
    least, per_row = BALANCED_SECONDS
    about = {"task": fold.data.task, "n_classes": 0 if fold.is_regression else int(fold.target.max()) + 1,
             "preset": preset, "time_limit": least + per_row * len(frame), "threads": threads(),
             "seed": fold.split.seed}  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = {column: f"x{place}" for place, column in enumerate(frame)}
        frame.rename(columns=names).assign(target=target).to_parquet(folder / "train.parquet", index=False)
        rows.rename(columns=names).to_parquet(folder / "test.parquet", index=False)
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")
        script = Path(__file__).with_name("quality_autogluon.py")
        ended = subprocess.run([AUTOGLUON, script, folder], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"AutoGluon failed: {ended.stderr[-2000:]}")
        told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
        predicted = np.load(folder / "predicted.npy")
    return Fitted(lambda _: predicted, told.pop("n_models"), told)


def fit_lightgbm(fold: Fold, device: str) -> Predict:
    """LightGBM with its defaults, early stopped."""
    import lightgbm  # noqa: PLC0415 - only where it is installed

    del device

    def plain(frame: pd.DataFrame) -> pd.DataFrame:
        frame = without_dates(frame)
        return frame.set_axis([f"x{place}" for place in range(frame.shape[1])], axis=1)  # it refuses some names

    kind = lightgbm.LGBMRegressor if fold.is_regression else lightgbm.LGBMClassifier
    model = kind(n_estimators=TREES, random_state=fold.split.seed, n_jobs=threads(), verbose=-1)
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    stop = lightgbm.early_stopping(STOP, verbose=False)
    model.fit(plain(frame), target, eval_X=plain(held), eval_y=truth, callbacks=[stop])
    predict = prediction(model, fold)
    return lambda rows: predict(plain(rows))


def fit_xgboost(fold: Fold, device: str) -> Predict:
    """XGBoost with its defaults, early stopped."""
    import xgboost  # noqa: PLC0415

    del device
    kind = xgboost.XGBRegressor if fold.is_regression else xgboost.XGBClassifier
    model = kind(
        n_estimators=TREES, early_stopping_rounds=STOP, enable_categorical=True,
        random_state=fold.split.seed, n_jobs=threads(),
    )  # fmt: skip
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    model.fit(without_dates(frame), target, eval_set=[(without_dates(held), truth)], verbose=False)
    predict = prediction(model, fold)
    return lambda rows: predict(without_dates(rows))


def fit_catboost(fold: Fold, device: str) -> Predict:
    """CatBoost with its defaults, early stopped."""
    import catboost  # noqa: PLC0415

    del device
    categories = list(fold.frame.select_dtypes("category"))

    def plain(frame: pd.DataFrame) -> pd.DataFrame:
        frame = without_dates(frame)
        return frame.assign(**{name: frame[name].astype(object).fillna("missing") for name in categories})

    kind = catboost.CatBoostRegressor if fold.is_regression else catboost.CatBoostClassifier
    model = kind(
        iterations=TREES, early_stopping_rounds=STOP, cat_features=categories, random_seed=fold.split.seed,
        thread_count=threads(), verbose=False, allow_writing_files=False,
    )  # fmt: skip
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    model.fit(plain(frame), target, eval_set=(plain(held), truth))
    predict = prediction(model, fold)
    return lambda rows: predict(plain(rows))


@dataclass(frozen=True)
class Gaps:
    """Numbers in place of dates and of missing values, for networks that take neither.

    Parameters
    ----------
    medians : Series
        The medians of the training rows, in place of missing numbers.
    told : list of str
        Columns with missing numbers in the training rows: a column of zeros and ones tells where.
    """

    medians: "pd.Series[float]"
    told: list[str]

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a table without dates and without missing numbers."""
        frame = without_dates(frame)
        missing = frame[self.told].isna().astype(float).add_suffix(" missing")
        return pd.concat([frame.fillna(self.medians.to_dict()), missing], axis=1)


def fit_pytabkit(fold: Fold, device: str, *, name: str, by_score: bool = False, **settings: Any) -> Predict:
    """TabM-D or RealMLP-TD of pytabkit, early stopped: with its defaults, or by the score without smoothed labels."""
    import pytabkit  # noqa: PLC0415

    kind = getattr(pytabkit, f"{name}_{'Regressor' if fold.is_regression else 'Classifier'}")
    if by_score and not fold.is_regression:
        settings = {**settings, "val_metric_name": "1-auc_ovr"}
        if name == "RealMLP_TD":
            settings["use_ls"] = False
    place = "cuda:0" if torch.device(device).type == "cuda" else device
    model = kind(device=place, random_state=fold.split.seed, n_threads=threads(), **settings)
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    numbers = without_dates(frame).select_dtypes("number")
    gaps = Gaps(numbers.median(), list(numbers.columns[numbers.isna().any()]))
    categories = [name for name in frame if frame[name].dtype == "category"]
    model.fit(gaps(frame), target, gaps(held), truth, cat_col_names=categories)
    predict = prediction(model, fold)
    return lambda rows: np.asarray(predict(gaps(rows)))


class Embedded(nn.Module):
    """Embedded numbers and categories in front of the default MLP of the estimators."""

    def __init__(self, embedding: nn.Module, width: int, cardinalities: list[int], d_out: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.categories = nn.ModuleList(nn.Embedding(n, 8) for n in cardinalities)
        ends, layers = [width + 8 * len(cardinalities), 256, 128, 64], []
        for d_in, d_hidden in pairwise(ends):
            layers += [nn.Linear(d_in, d_hidden), nn.ReLU(), nn.Dropout(0.15)]
        self.layers = nn.Sequential(*layers, nn.Linear(ends[-1], d_out))

    def forward(self, numbers: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Return outputs of shape (n, d_out)."""
        parts = [self.embedding(numbers).flatten(1)] if numbers.shape[1] else []
        parts += [table(codes[:, place]) for place, table in enumerate(self.categories)]
        return self.layers(torch.cat(parts, dim=1))


@dataclass(frozen=True)
class Inputs:
    """The inputs of `Embedded`: standardised numbers and codes of categories.

    Parameters
    ----------
    data : Dataset
        Its names of columns.
    mean, scale : ndarray of shape (n_numerical,)
        Moments of the training rows.
    device : str
        Where the tensors are.
    """

    data: kw.datasets.Dataset
    mean: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    device: str

    def __call__(self, frame: pd.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tensors of some rows."""
        numbers = (frame[list(self.data.numerical)].to_numpy(np.float64) - self.mean) / self.scale
        codes = np.zeros((len(frame), len(self.data.categorical)), dtype=np.int64)
        for place, name in enumerate(self.data.categorical):
            codes[:, place] = frame[name].cat.codes
        return torch.tensor(numbers, dtype=torch.float32, device=self.device), torch.tensor(codes, device=self.device)


def fit_rtdl(fold: Fold, device: str) -> Predict:
    """Piecewise-linear embeddings of rtdl_num_embeddings, with its defaults, in front of the MLP of the estimators."""
    import rtdl_num_embeddings as rtdl  # noqa: PLC0415

    torch.manual_seed(fold.split.seed)
    frame, target = fold.rows("train")
    numbers = frame[list(fold.data.numerical)].to_numpy(np.float64)
    inputs = Inputs(fold.data, numbers.mean(axis=0), numbers.std(axis=0) + 1e-12, device)
    shift, scale = (target.mean(), target.std()) if fold.is_regression else (0.0, 1.0)

    def goal(truth: npt.NDArray[Any]) -> torch.Tensor:
        return (
            torch.tensor((truth - shift) / scale, device=device).float()
            if fold.is_regression
            else torch.tensor(truth, device=device)
        )

    values, codes = inputs(frame)
    bins = rtdl.compute_bins(
        values.cpu(),
        tree_kwargs={"min_samples_leaf": 64, "min_impurity_decrease": 1e-4},
        y=goal(target).cpu(),
        regression=fold.is_regression,
    )
    embedding = rtdl.PiecewiseLinearEmbeddings(bins, 12, activation=False, version="B")
    cardinalities = [len(frame[name].cat.categories) for name in fold.data.categorical]
    d_out = 1 if fold.is_regression else int(fold.target.max()) + 1
    network = Embedded(embedding, 12 * values.shape[1], cardinalities, d_out).to(device)
    held, truth = fold.rows("valid")
    train_loop(network, (values, codes, goal(target)), (*inputs(held), goal(truth)))

    def predict(rows: pd.DataFrame) -> npt.NDArray[Any]:
        with torch.no_grad():
            out = network(*inputs(rows))
        if fold.is_regression:
            return out[:, 0].cpu().double().numpy() * scale + shift
        return out.softmax(dim=1).cpu().double().numpy()

    return predict


Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def train_loop(network: nn.Module, train: Rows, valid: Rows) -> None:
    """Train with the settings of `TrainingConfig`: rate, decay, batch, patience and plateau."""
    config = kw.TrainingConfig()
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=config.plateau_factor, patience=config.plateau_patience
    )
    n_rows, device = len(train[0]), train[0].device
    batch = config.batch_size_for(n_rows + len(valid[0]))

    def loss(numbers: torch.Tensor, codes: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        out = network(numbers, codes)
        if goal.is_floating_point():
            return nn.functional.mse_loss(out[:, 0], goal)
        return nn.functional.cross_entropy(out, goal)

    best, since, state = np.inf, 0, network.state_dict()
    for _ in range(config.max_epochs):
        network.train()
        for part in torch.randperm(n_rows, device=device).split(batch):
            optimiser.zero_grad()
            loss(*(tensor[part] for tensor in train)).backward()
            optimiser.step()
        network.eval()
        with torch.no_grad():
            error = float(loss(*valid))
        plateau.step(error)
        since += 1
        if error < best:
            best, since = error, 0
            state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        if since >= config.patience:
            break
    network.load_state_dict(state)


BOOSTING = {"lightgbm": fit_lightgbm, "xgboost": fit_xgboost, "catboost": fit_catboost}
NETWORKS = {
    "tabm": ("pytabkit", partial(fit_pytabkit, name="TabM_D")),
    "realmlp": ("pytabkit", partial(fit_pytabkit, name="RealMLP_TD")),
    "tabm_scored": ("pytabkit", partial(fit_pytabkit, name="TabM_D", by_score=True)),
    "tabm_ple": ("pytabkit", partial(fit_pytabkit, name="TabM_D", by_score=True, num_emb_type="pwl")),
    "realmlp_scored": ("pytabkit", partial(fit_pytabkit, name="RealMLP_TD", by_score=True)),
    "rtdl_ple": ("rtdl_num_embeddings", fit_rtdl),
}
PRESETS = ("medium", "good", "best")

PEERS = {
    **{name: Peer(name, partial(fit_single, fit=fit), on_gpu=False) for name, fit in BOOSTING.items()},
    **{f"{name}_bag": Peer(name, partial(fit_bag, fit=fit), on_gpu=False) for name, fit in BOOSTING.items()},
    **{
        f"autogluon_{preset}": Peer(
            "autogluon.tabular", partial(fit_autogluon, preset=f"{preset}_quality"), on_gpu=False
        )
        for preset in PRESETS
    },
    **{name: Peer(package, partial(fit_single, fit=fit), on_gpu=True) for name, (package, fit) in NETWORKS.items()},
}
