"""Training of a unit: members from fitted encodings, one call of the engine, rows of records."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from knotwork._preparation.members import Fitted, PreparedTable, Split
from knotwork.nn._backbones import Backbone
from knotwork.study._choices import LinearConfig
from knotwork.study._data import StudyData
from knotwork.study._fitting import Wanted, wanted_by
from knotwork.study._linear_models import fit_linear
from knotwork.study._networks import NetworkSpec
from knotwork.study._plan import Plan
from knotwork.study._traces import Result
from knotwork.training._engine import resolve_device, train
from knotwork.training._metrics import METRICS, evaluate
from knotwork.training._progress import Reporter
from knotwork.training._results import Trained
from knotwork.training._stack import count_parameters

__all__ = ["UnitTrainer", "failure"]

LEAST_SHIFT = 1e-5
"""A knot that is nearer to where it started, as a share of the training range, has not moved: that is rounding."""


@dataclass(frozen=True, eq=False)
class UnitTrainer:
    """Trains networks of one data set, one backbone and one variant, and says what came out of each.

    Parameters
    ----------
    plan : Plan
        The plan, for training, categories and NRMSE.
    data : StudyData
        The data set.
    splits : sequence of Split
        Its folds.
    device : str, default="auto"
        Where to train.
    report : Reporter, optional
        Is called after every epoch.
    """

    plan: Plan
    data: StudyData
    splits: Sequence[Split]
    device: str = "auto"
    report: Reporter | None = None

    def results(self, networks: Sequence[NetworkSpec], fitted: Mapping[Wanted, Fitted | str]) -> list[Result]:
        """Return what came out of each network.

        A network whose encoding could not be fitted has failed. If training raises an error, networks are trained one
        by one, and those that raise it again have failed.
        """
        found = {each: fitted[wanted_by(each)] for each in networks}
        results = {each: failure(own) for each, own in found.items() if isinstance(own, str)}
        good = {each: own for each, own in found.items() if isinstance(own, Fitted)}
        results |= self._train(good)
        return [results[each] for each in networks]

    def _train(self, fitted: Mapping[NetworkSpec, Fitted]) -> dict[NetworkSpec, Result]:
        """Train networks together; one by one if that raises an error."""
        if not fitted:
            return {}
        config = next(iter(fitted)).backbone.config
        try:
            if isinstance(config, LinearConfig):
                return {each: self._fit_linear(config, each, own) for each, own in fitted.items()}
            return self._train_stack(fitted, config)
        except Exception:  # whatever it is, it becomes a failure record
            if len(fitted) == 1:
                return dict.fromkeys(fitted, failure(traceback.format_exc()))
        out: dict[NetworkSpec, Result] = {}
        for network, own in fitted.items():
            out |= self._train({network: own})
        return out

    def _fit_linear(self, config: LinearConfig, network: NetworkSpec, fitted: Fitted) -> Result:
        split = next(each for each in self.splits if each.fold == network.fold)
        fit = fit_linear(config, self.data, split, fitted)
        row = {
            **self._scores(fit.outputs, self.data.table.target[split.test]),
            "n_parameters": fit.n_parameters,
            "device": "cpu",
            "prepare_seconds": fitted.seconds,
            "train_seconds": fit.seconds,
            "knots_moved": False,
        }
        return Result(row, curve=fit.curve)

    def _train_stack(self, fitted: Mapping[NetworkSpec, Fitted], backbone: Backbone) -> dict[NetworkSpec, Result]:
        networks = list(fitted)
        used = {network.fold for network in networks}
        prepared = PreparedTable.from_table(self.data.table, [split for split in self.splits if split.fold in used])
        table, splits = prepared.table, {split.fold: split for split in prepared.splits}
        members = [prepared.member([each.encoding], splits[each.fold], fitted[each].blocks) for each in networks]
        config = self.plan.config_of(networks[0].variant)
        trained = train(
            table,
            members,
            backbone,
            replace(config, batch_size=config.batch_size_for(len(self.data.table.target))),
            device=self.device,
            categories=self.plan.categories,
            report=self.report,
            keep_knots=self.plan.keep_knots,
        )
        if trained.interrupted:
            raise KeyboardInterrupt
        tests = [splits[each.fold].test for each in networks]
        outputs = trained.outputs(table.numbers, table.codes, tests)
        rows = [
            {**self._scores(output, table.target[test]), "prepare_seconds": fitted[each].seconds}
            for each, output, test in zip(networks, outputs, tests, strict=True)
        ]
        counts: dict[Any, int] = {}
        for row, member in zip(rows, members, strict=True):
            shape = member.kinds, member.sizes
            if shape not in counts:
                counts[shape] = count_parameters(table, member, backbone, categories=self.plan.categories)
            row["n_parameters"] = counts[shape]
        return dict(zip(networks, self._finished(trained, rows), strict=True))

    def _finished(self, trained: Trained, rows: Sequence[dict[str, Any]]) -> list[Result]:
        """Add to rows how networks were trained, and return them with what is kept beside them."""
        paths = trained.knot_paths or [None] * len(rows)
        results = []
        for row, history, shift, path in zip(rows, trained.histories, knot_shifts(trained), paths, strict=True):
            how = {
                "device": str(resolve_device(self.device)),
                "train_seconds": history.seconds,
                "epoch_seconds": history.epoch_seconds,
                "epochs": history.epochs,
                "best_epoch": history.best_epoch,
                "knots_moved": shift is not None and shift[1] > LEAST_SHIFT,
                "knot_shift": None if shift is None else shift[0],
            }
            results.append(Result({**row, **how}, history, path))
        return results

    def _scores(self, output: npt.NDArray[np.float64], target: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the metrics on test rows; a network that does not predict numbers has failed."""
        if not np.isfinite(output).all():
            return failure("training diverged: there are predictions that are no numbers").row
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


def failure(error: str) -> Result:
    """Return the result of a network that failed."""
    return Result({"status": "failed", "error": error})


def knot_shifts(trained: Trained) -> list[tuple[float, float] | None]:
    """Return how far each member's knots have gone, on average and at the most, as shares of the training range.

    Knots that were placed nearer to each other than learned ones may be start a little apart, which is not counted.
    None stands for knots that are not learned. The best weights count, not the last ones: knots that begin to move
    after the best epoch have not moved.
    """
    out: list[tuple[float, float] | None] = [None] * len(trained.histories)
    for piece in trained.pieces:
        encoding = piece.network.encoding
        if encoding.logits is None:
            continue
        away = (encoding.spacings()[0].detach().double() - encoding.starting_breaks()).abs()
        used = torch.arange(away.shape[-1], device=away.device) <= encoding.n_knots[..., None]
        used[..., 0] = False
        away = torch.where(used, away, 0.0).flatten(1)
        means = away.sum(dim=1) / used.flatten(1).sum(dim=1).clamp(min=1)
        rows = zip(piece.places, means.tolist(), away.amax(dim=1).tolist(), encoding.learned.tolist(), strict=True)
        for place, mean, most, learned in rows:
            out[place] = (mean, most) if learned else None
    return out
