"""Training of a unit: members from fitted encodings, a call of the engine or linear models, rows of records."""

import json
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from knotwork._preparation.members import Fitted, PreparedTable
from knotwork.basis import compiled_table, encode_dense
from knotwork.nn import Backbone
from knotwork.study._networks import KNOT_SETTINGS, NetworkSpec, stack_id
from knotwork.study._plan import LinearConfig, Plan
from knotwork.study._prepared import StudyData
from knotwork.study._provenance import origin, precision_of
from knotwork.study._traces import Result, trace
from knotwork.training import (
    METRICS,
    Member,
    Reporter,
    Trained,
    TrainingConfig,
    TrainingTable,
    count_parameters,
    evaluate,
    resolve_device,
    train,
)

FloatArray = npt.NDArray[np.float64]

LEAST_SHIFT = 1e-5
"""Minimum movement of a knot, as a share of the training range; smaller ones are rounding."""

IMPOSSIBLE = -50.0
"""Logit of a class without training rows: its probability is about 1e-22, so that log losses are finite."""


@dataclass(frozen=True, eq=False)
class UnitTrainer:
    """Trains networks of one data set and one backbone."""

    plan: Plan
    data: StudyData
    device: str = "auto"
    report: Reporter | None = None

    def results(self, networks: Sequence[NetworkSpec]) -> list[Result]:
        """Return the result of each network.

        Networks whose encoding could not be fitted have failed. If training raises an error, networks are trained one
        by one, and those that raise an error again have failed.
        """
        encodings = {network: self.data.fitted[network.fold_encoding] for network in networks}
        results = {network: failure(error) for network, error in encodings.items() if isinstance(error, str)}
        results |= self._train({network: good for network, good in encodings.items() if isinstance(good, Fitted)})
        return [results[network] for network in networks]

    def _train(self, fitted: Mapping[NetworkSpec, Fitted]) -> dict[NetworkSpec, Result]:
        """Train networks together; one by one if that raises an error."""
        if not fitted:
            return {}
        config = next(iter(fitted)).backbone.config
        try:
            if isinstance(config, LinearConfig):
                return {network: self._fit_linear(config, network, encoding) for network, encoding in fitted.items()}
            return self._train_stack(fitted, config)
        except Exception:  # any error becomes a failure record
            if len(fitted) == 1:
                return dict.fromkeys(fitted, failure(traceback.format_exc()))
        results: dict[NetworkSpec, Result] = {}
        for network, encoding in fitted.items():
            results |= self._train({network: encoding})
        return results

    def _fit_linear(self, config: LinearConfig, network: NetworkSpec, fitted: Fitted) -> Result:
        """Fit a linear model on the training rows of a fold, with categories as codes; validation rows are not used."""
        split = self.data.splits[network.fold]
        started = time.perf_counter()
        model = _LinearModel(config, PreparedTable.from_table(self.data.table, [split]).table, fitted, split.train)
        table = model.table
        outputs = model.outputs(table.numbers[split.test], table.codes[split.test])
        seconds = time.perf_counter() - started
        row = {
            **self._row(fitted, outputs, table.target[split.test]),
            "n_parameters": model.model.coef_.size + np.size(model.model.intercept_),
            **environment_of(self.plan.config, config, torch.device("cpu")),
            **_stack_columns([network], 0),
            "train_seconds": seconds,
            "knots_moved": False,
        }
        return Result(row, model.curve())

    def _train_stack(self, fitted: Mapping[NetworkSpec, Fitted], backbone: Backbone) -> dict[NetworkSpec, Result]:
        networks = list(fitted)
        used = sorted({network.fold for network in networks})
        prepared = PreparedTable.from_table(self.data.table, [self.data.splits[fold] for fold in used])
        table, splits = prepared.table, {split.fold: split for split in prepared.splits}
        members = []
        for each in networks:
            member = prepared.member([each.encoding], splits[each.fold], fitted[each].encodings, seed=each.seed)
            members.append(self._varied(member, each.variant, fitted[each].pairs))
        config, device = self.plan.config, resolve_device(self.device)
        environment = environment_of(config, backbone, device)
        trained = train(
            table,
            members,
            backbone,
            config,
            device=device,
            categories=self.plan.categories,
            report=self.report,
            keep_knots=self.plan.keep_knots,
            ensemble=True,  # several stacks at a time; none is skipped without a time limit
        )
        if trained.interrupted:
            raise KeyboardInterrupt
        tests = [splits[network.fold].test for network in networks]
        outputs = trained.outputs(table.numbers, table.codes, tests)
        counts: dict[Any, int] = {}  # counting builds a network, so count once per shape
        rows = []
        for network, member, output, test in zip(networks, members, outputs, tests, strict=True):
            pairs = None if member.interactions is None else member.interactions.shape
            shape = member.kinds, member.sizes, member.embedding, pairs
            if shape not in counts:
                counts[shape] = count_parameters(table, member, backbone, categories=self.plan.categories)
            scores = self._row(fitted[network], output, table.target[test])
            rows.append({**scores, **environment, "n_parameters": counts[shape]})
        return dict(zip(networks, self._finished(trained, networks, rows), strict=True))

    def _row(self, fitted: Fitted, output: FloatArray, target: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the columns of records on scores, on the encoding, and on choices made by training rows, as JSON."""
        names = self.data.identity.numerical
        pairs = [[names[first], names[second]] for first, second in fitted.pairs]
        decided = {"chosen": dict(zip(names, fitted.chosen, strict=False)), "pairs": pairs}
        return {
            **self._scores(output, target),
            **fitted.versions,
            **{name: json.dumps(content) for name, content in decided.items() if content},
            "prepare_seconds": fitted.seconds,
        }

    def _varied(self, member: Member, variant: str | None, pairs: tuple[tuple[int, int], ...]) -> Member:
        """Return a member with the training of a variant; variants of only the learning rate share a stack."""
        config, usual = self.plan.config_of(variant).for_columns(self.data.identity.numerical), self.plan.config
        batch_size = config.batch_size_for(len(self.data.table.target))
        shared = replace(config, learning_rate=usual.learning_rate, batch_size=batch_size)
        if not member.learnable:  # settings of learned knots do not affect networks without them
            shared = replace(shared, **{name: getattr(usual, name) for name in KNOT_SETTINGS})
        interactions = self.plan.interactions_of(variant)
        if interactions is not None:
            interactions = replace(interactions, pairs=pairs) if pairs else None
        return replace(member, config=shared, learning_rate=config.learning_rate, interactions=interactions)

    def _finished(
        self, trained: Trained, networks: Sequence[NetworkSpec], rows: Sequence[dict[str, Any]]
    ) -> list[Result]:
        """Add columns on training to rows, and return the results with histories and knot paths."""
        for piece in trained.networks:
            stack = [networks[place] for place in piece.places]
            for place_in_stack, place in enumerate(piece.places):
                rows[place].update(_stack_columns(stack, place_in_stack))
        paths = trained.knot_paths or [None] * len(rows)
        results = []
        for row, history, shift, path in zip(rows, trained.histories, knot_shifts(trained), paths, strict=True):
            columns = {
                "train_seconds": history.seconds,
                "epoch_seconds": history.epoch_seconds,
                "epochs": history.epochs,
                "best_epoch": history.best_epoch,
                "valid_score": float(history.score[history.best_epoch - 1]) if history.best_epoch else None,
                "knots_moved": shift is not None and shift[1] > LEAST_SHIFT,
                "knot_shift": None if shift is None else shift[0],
            }
            numbers = {"loss": history.loss, "score": history.score, "rate": history.learning_rate}
            singles = {name: values.astype(np.float32) for name, values in numbers.items()}
            traces = trace("histories", epoch=np.arange(1, history.epochs + 1), **singles)
            if path is not None:
                epoch, feature, knot = np.nonzero(~np.isnan(path))
                names = np.asarray(self.data.identity.numerical, dtype=object)[feature]
                traces |= trace("knots", epoch=epoch, feature=names, knot=knot, position=path[epoch, feature, knot])
            results.append(Result({**row, **columns}, traces))
        return results

    def _scores(self, output: FloatArray, target: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the metrics on test rows; a network with non-finite predictions has failed."""
        if not np.isfinite(output).all():
            return failure("training diverged: some predictions are not finite").row
        scores = evaluate(self.data.table.task, torch.from_numpy(output)[None], torch.from_numpy(target)[None])
        row: dict[str, Any] = {"status": "ok", **{name: float(values[0]) for name, values in scores.items()}}
        if self.data.table.task == "regression":
            deviation, spread = float(np.std(target)), float(np.ptp(target))
            row |= {"target_mean": float(np.mean(target)), "target_std": deviation, "target_range": spread}
            divisor = deviation if self.plan.nrmse_by == "std" else spread
            row |= {
                metric.relative: row[metric.name] / divisor if divisor > 0 else None
                for metric in METRICS.values()
                if metric.relative is not None and metric.task == self.data.table.task
            }
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}


class _LinearModel:
    """A linear model of the encoded numerical columns and the codes of categories, fitted on the rows `train`."""

    def __init__(self, config: LinearConfig, table: TrainingTable, fitted: Fitted, train: npt.NDArray[np.intp]) -> None:
        self.table = table
        self.columns = compiled_table(tuple(fitted.encodings), extrapolation="clip", indicator=False)
        self.model = Ridge(alpha=config.penalty)
        if table.task == "classification":
            self.model = LogisticRegression(C=1.0 / config.penalty, max_iter=2000)
        self.model.fit(self._inputs(table.numbers[train], table.codes[train]), table.target[train])

    def _inputs(self, numbers: FloatArray, codes: npt.NDArray[np.int64]) -> FloatArray:
        encoded = encode_dense(np.ascontiguousarray(numbers), self.columns, dtype=np.dtype(np.float64), n_threads=1)
        return np.column_stack([encoded, codes.astype(np.float64)])

    def outputs(self, numbers: FloatArray, codes: npt.NDArray[np.int64]) -> FloatArray:
        """Return predictions of shape (n, 1), or logits of shape (n, n_classes)."""
        inputs = self._inputs(numbers, codes)
        if self.table.task == "regression":
            return np.asarray(self.model.predict(inputs), dtype=np.float64).reshape(-1, 1)
        scores = self.model.decision_function(inputs)
        logits = np.full((len(inputs), self.table.n_classes), IMPOSSIBLE)
        both = np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores
        logits[:, self.model.classes_] = both
        return logits

    def curve(self) -> dict[str, pa.Table]:
        """Return the trace of the fitted curve of a single numerical feature; empty if there are other features.

        Its values are over the range of the feature: predictions or probabilities of the last class.
        """
        if self.table.numbers.shape[1] != 1 or self.table.codes.shape[1]:
            return {}
        grid = np.linspace(self.table.numbers.min(), self.table.numbers.max(), 501)
        values = self.outputs(grid[:, None], np.zeros((len(grid), 0), dtype=np.int64))
        return trace("curves", x=grid, value=softmax(values, axis=1)[:, -1] if self.table.n_classes else values[:, 0])


def _stack_columns(stack: Sequence[NetworkSpec], place: int) -> dict[str, Any]:
    """Return the columns of records on the stack of a network."""
    return {"stack": stack_id(network.key for network in stack), "stack_size": len(stack), "stack_place": place}


def environment_of(config: TrainingConfig, backbone: Backbone | LinearConfig, device: torch.device) -> dict[str, Any]:
    """Return the columns of records on the code, the software and the machine; linear models are fitted on the CPU."""
    if isinstance(backbone, LinearConfig):
        return {**origin(torch.device("cpu")), "precision": "float64"}
    return {**origin(device), "precision": precision_of(config, backbone, device)}


def failure(error: str) -> Result:
    """Return the result of a network that failed."""
    return Result({"status": "failed", "error": error})


def knot_shifts(trained: Trained) -> list[tuple[float, float] | None]:
    """Return the mean and the largest movement of each member's knots, as shares of the training range.

    None stands for knots that are not learned. Learned knots have a minimum spacing, so knots placed closer together
    start slightly apart, which is not counted. The best weights are compared, not the last ones: knots that start to
    move after the best epoch have not moved.
    """
    shifts: list[tuple[float, float] | None] = [None] * len(trained.histories)
    for piece in trained.networks:
        encoding = piece.network.encoding
        if encoding.logits is None:
            continue
        distance = (encoding.spacings()[0].detach().double() - encoding.starting_breaks()).abs()
        used = torch.arange(distance.shape[-1], device=distance.device) <= encoding.n_knots[..., None]
        used[..., 0] = False  # the left end of the domain is not a knot
        distance = torch.where(used, distance, 0.0).flatten(1)
        means = distance.sum(dim=1) / used.flatten(1).sum(dim=1).clamp(min=1)
        rows = zip(piece.places, means.tolist(), distance.amax(dim=1).tolist(), encoding.learned.tolist(), strict=True)
        for place, mean, largest, learned in rows:
            shifts[place] = (mean, largest) if learned else None
    return shifts
