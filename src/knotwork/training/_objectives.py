"""Objectives: the loss of a row, how outputs of a network become predictions, and the metric that validates them.

Losses and predictions are formed in units of the target, in which it is of the order of one: `Objective.units` returns
their origin and size. Everything here is made of torch operations that do not wait for the device, because it is part
of CUDA graphs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Real
from statistics import NormalDist
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork.errors import ColumnError
from knotwork.training._metrics import METRICS, Metric, row_metric

__all__ = [
    "OBJECTIVES", "USUAL", "Custom", "Gaussian", "Objective", "Quantile", "all_predictions", "by_target",
    "column_units", "make_objective", "objective_from_json", "score_units",
    "target_units",
]  # fmt: skip

LARGEST_LOG = 20.0
"""Largest logarithm of a prediction, in units of the target's mean: exponentials stay finite in float32."""

MEAN_DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal variable divided by its mean absolute deviation."""

SMALLEST_SPREAD = 1e-3
"""Smallest standard deviation that a network predicts, in units of the target's."""

START_OF_SPREAD = math.log(math.e - 1.0)
"""Added to the output of a standard deviation: one of 0 then stands for 1."""

Array = npt.NDArray[np.float64]
Units = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Objective(ABC):
    """What networks are trained for: a frozen dataclass whose fields are its settings.

    A subclass that is added to `OBJECTIVES` can be named in estimators, and models with it can be saved and loaded. It
    must define `row_scores`; the loss is that of the predictions, unless `losses` says otherwise.

    Attributes
    ----------
    name : str
        Name in `OBJECTIVES` and in saved models.
    metric_name : str
        Name of the validation metric: one of `METRICS`, or the mean of `row_scores`.
    link : {"identity", "exponential", "increasing", "spread"}
        How outputs become predictions, for exports.
    lowest : float
        Lower bound of predictions.
    is_robust : bool
        Whether the units of the target are median and mean absolute deviation, to which outliers matter less.
    has_density : bool
        Whether scores are negative logarithms of a density, which depends on the units of the target.
    has_log_outputs : bool
        Whether outputs are logarithms, as those of classes are: the large steps that suit numbers would be factors.
    """

    name: ClassVar[str]
    metric_name: ClassVar[str]
    link: ClassVar[str] = "identity"
    lowest: ClassVar[float] = -math.inf
    is_robust: ClassVar[bool] = False
    has_density: ClassVar[bool] = False
    has_log_outputs: ClassVar[bool] = False

    @property
    def degree(self) -> float:
        """Power of the target's units that `row_scores` have."""
        return 0.0

    @property
    def trained_as(self) -> str:
        """The task whose settings of training suit it, see `Backbone.training`."""
        return "classification" if self.has_log_outputs else self.task

    @property
    def in_target_units(self) -> bool:
        """Whether losses and metric are formed in the target's own units."""
        return False

    @property
    def task(self) -> str:
        """The task, ``"regression"`` or ``"classification"``."""
        return "regression"

    @property
    def n_outputs(self) -> int:
        """Outputs of a network for each target; of classes their number counts instead."""
        return 1

    @property
    def located(self) -> tuple[float, ...]:
        """For each output 1.0 if its prediction is a place on the target's axis, 0.0 if it is a distance."""
        return (1.0,) * self.n_outputs

    @property
    def metric(self) -> Metric:
        """The metric of validation scores."""
        if self.metric_name in METRICS:
            return METRICS[self.metric_name]
        name, function = self.metric_name, row_metric(self.row_scores)
        units: dict[str, Any] = {"degree": self.degree, "is_logarithmic": self.has_density}
        return Metric(name, function, lower_is_better=True, task=self.task, label=name, **units)

    @abstractmethod
    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the score of each row, of shape (...), smaller is better.

        Parameters
        ----------
        predictions : Tensor of shape (..., n_outputs)
            What `predictions` returns.
        target : Tensor of shape (...)
            The target in the same units, or class codes.
        """

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return the loss of each row, of shape (...), from outputs of a network, of shape (..., n_outputs).

        `label_smoothing` is that of `TrainingConfig`, for classes.
        """
        del label_smoothing
        return self.row_scores(self.predictions(outputs), target)

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return what outputs of a network predict, of the same shape, (..., n_outputs)."""
        return outputs

    def units(self, target: Tensor, known: Tensor) -> Units:
        """Return origin and size, of shape (n_members,), of the units of the target.

        Parameters
        ----------
        target : Tensor of shape (n_members, n)
            The target of each member's training rows, float64; at most 1 in size.
        known : Tensor of shape (n_members, n)
            Which rows are not padding.
        """
        return (_median_and_deviation if self.is_robust else _mean_and_deviation)(target, known)

    def check_target(self, target: Array) -> None:
        """Raise an error if a target is not in the domain of the objective."""
        del target

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return the centre and the width of intervals, for predictions of shape (..., n_outputs).

        Residuals divided by the width should be alike for all rows; without a better choice it is 1.
        """
        centre = predictions[..., 0]
        return centre, np.ones_like(centre)

    def to_json(self) -> dict[str, Any]:
        """Return name and settings in types of JSON."""
        settings = {field.name: vars(self)[field.name] for field in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return {"name": self.name, "settings": plain}


def column_units(objective: Objective, units: Units) -> Units:
    """Return origin and size of each prediction, of shape (n_members, n_predictions), from those of the targets."""
    shift, scale = (values.view(len(values), -1, 1) for values in units)
    located = torch.tensor(objective.located, dtype=shift.dtype, device=shift.device)
    shift = (shift * located).flatten(1)
    return shift, scale.expand(-1, -1, len(located)).flatten(1)


def score_units(objective: Objective, scale: Tensor) -> Array:
    """Return the unit of each member's validation scores, of shape (n_members,).

    It is the size of the target's unit; 1 if scores are in the target's own units, or of several targets.
    """
    if objective.in_target_units or scale.dim() > 1:
        return np.ones(len(scale))
    sizes: Array = scale.double().cpu().numpy()
    return sizes


def all_predictions(objective: Objective, outputs: Tensor, n_targets: int) -> Tensor:
    """Return the predictions of outputs of shape (..., n_targets * n_outputs), of the same shape, target by target."""
    if objective.task == "classification" or objective.link == "identity":
        return outputs
    return objective.predictions(by_target(outputs, n_targets)).flatten(-2)


def by_target(outputs: Tensor, n_targets: int) -> Tensor:
    """Return outputs of shape (..., n_targets * n_outputs) as (..., n_targets, n_outputs)."""
    return outputs.reshape(*outputs.shape[:-1], n_targets, -1)


def target_units(objective: Objective, target: Tensor, counts: Tensor) -> Units:
    """Return origin and size of the units of each member's target, of shape (n_members,) or (n_members, n_targets).

    Parameters
    ----------
    objective : Objective
        Says what the units are; those of classes are 0 and 1.
    target : Tensor of shape (n_members, n) or (n_members, n, n_targets)
        The target of each member's training rows.
    counts : Tensor of shape (n_members,)
        How many of the rows are not padding.
    """
    if objective.task == "classification":
        return torch.zeros(len(target), device=target.device), torch.ones(len(target), device=target.device)
    if target.dim() == 3:
        n_targets = target.shape[2]
        flat = target.transpose(1, 2).flatten(0, 1)
        shift, scale = target_units(objective, flat, counts.repeat_interleave(n_targets))
        return shift.view(-1, n_targets), scale.view(-1, n_targets)
    known = torch.arange(target.shape[1], device=target.device) < counts[:, None]
    largest = torch.where(known, target.abs(), 0.0).amax(dim=1).clamp(min=1e-300)
    target = torch.where(known, target / largest[:, None], 0.0)  # so that no square overflows
    shift, scale = objective.units(target, known)
    # A spread of rounding errors is a constant target: with a unit as small as that, every network predicts it.
    return shift * largest, torch.where(scale > 1e-15, scale * largest, (1e-15 * largest).clamp(min=1e-300))


def _mean_and_deviation(target: Tensor, known: Tensor) -> Units:
    counts = known.sum(dim=1)
    mean = target.sum(dim=1) / counts
    return mean, (torch.where(known, target - mean[:, None], 0.0).square().sum(dim=1) / counts).sqrt()


def _median_and_deviation(target: Tensor, known: Tensor) -> Units:
    """Return the median and the mean absolute deviation from it, as that of a normal variable: outliers matter less."""
    median = torch.where(known, target, math.nan).nanmedian(dim=1).values
    distance = torch.where(known, (target - median[:, None]).abs(), 0.0)
    return median, MEAN_DEVIATION * distance.sum(dim=1) / known.sum(dim=1)


@final
@dataclass(frozen=True)
class Squared(Objective):
    """The squared error: the mean is predicted."""

    name: ClassVar[str] = "squared"
    metric_name: ClassVar[str] = "rmse"

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return squared errors."""
        return (predictions[..., 0] - target).square()


@final
@dataclass(frozen=True)
class Absolute(Objective):
    """The absolute error: the median is predicted."""

    name: ClassVar[str] = "absolute"
    metric_name: ClassVar[str] = "mae"
    is_robust: ClassVar[bool] = True

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return absolute errors."""
        return (predictions[..., 0] - target).abs()


@final
@dataclass(frozen=True)
class Huber(Objective):
    """Squared errors up to `delta`, in units of the target's deviation from its median, and linear beyond."""

    name: ClassVar[str] = "huber"
    metric_name: ClassVar[str] = "huber"
    is_robust: ClassVar[bool] = True
    delta: float = 1.0

    def __post_init__(self) -> None:
        _check_setting(self.delta, "delta", 0.0, math.inf)

    @property
    def degree(self) -> float:
        """Scores are half of squares, as `delta` is a multiple of the unit."""
        return 2.0

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return half of squared errors e up to d, and ``d (|e| - d / 2)`` beyond."""
        errors = (predictions[..., 0] - target).abs()
        inner = errors.clamp(max=self.delta)
        return inner * (errors - 0.5 * inner)


@final
@dataclass(frozen=True)
class Quantile(Objective):
    """The pinball loss: quantiles at one level or several are predicted, which never cross.

    Notes
    -----
    With outputs o and levels a of quantiles q, ``q_0 = o_0 + z_0`` and ``q_i = q_(i-1) + softplus(o_i + c_i)``: they
    increase whatever the outputs are. The constants z and c are those with which outputs of 0 give the quantiles of a
    normal variable.
    """

    name: ClassVar[str] = "quantile"
    metric_name: ClassVar[str] = "pinball"
    is_robust: ClassVar[bool] = True
    link: ClassVar[str] = "increasing"
    quantiles: float | tuple[float, ...] = 0.5

    def __post_init__(self) -> None:
        hint = "Write quantiles=0.5 or quantiles=(0.05, 0.5, 0.95), for example."
        if isinstance(self.quantiles, Sequence | np.ndarray) and not isinstance(self.quantiles, str):
            object.__setattr__(self, "quantiles", tuple(float(level) for level in self.quantiles))
        levels = self.levels
        numbers = all(isinstance(level, Real) and not isinstance(level, bool) for level in levels)
        if not levels or not numbers or not all(0.0 < level < 1.0 for level in levels):
            raise argument_error("quantiles", "be one or more numbers between 0 and 1", self.quantiles, hint)
        if any(low >= high for low, high in pairwise(levels)):
            raise argument_error("quantiles", "increase, without repetition", self.quantiles, hint)

    @property
    def degree(self) -> float:
        """Scores are distances."""
        return 1.0

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels."""
        return self.quantiles if isinstance(self.quantiles, tuple) else (self.quantiles,)

    @property
    def n_outputs(self) -> int:
        """One for each level."""
        return len(self.levels)

    @property
    def starts(self) -> tuple[float, ...]:
        """What is added to each output: z and c of the formula."""
        normal = [NormalDist().inv_cdf(level) for level in self.levels]
        return (normal[0], *(math.log(math.expm1(high - low)) for low, high in pairwise(normal)))

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return quantiles in increasing order."""
        first, *others = self.starts  # as numbers: a tensor of them would have to be copied to the device
        steps = [functional.softplus(outputs[..., place] + start) for place, start in enumerate(others, start=1)]
        return torch.stack([outputs[..., 0] + first, *steps], dim=-1).cumsum(dim=-1)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the mean pinball loss over the levels."""
        total = torch.zeros_like(target)
        for place, level in enumerate(self.levels):
            error = target - predictions[..., place]
            total = total + torch.maximum(level * error, (level - 1.0) * error)
        return total / self.n_outputs

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return the middle of the lowest and the highest quantile, and half of their distance."""
        if self.n_outputs == 1:
            return super().centre_and_spread(predictions)
        low, high = predictions[..., 0], predictions[..., -1]
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low


@dataclass(frozen=True)
class Deviance(Objective):
    """The deviance of a Tweedie law with variance ``mean ** power`` and a logarithmic link: the mean is predicted.

    Notes
    -----
    In units of the mean of the target, with the output o and the power p, the loss is ``exp((2 - p) o) / (2 - p) -
    y exp((1 - p) o) / (1 - p)``, with the limits ``exp(o) - y o`` for p = 1 and ``o + y exp(-o)`` for p = 2. It is half
    of the deviance, but for a term without o.
    """

    link: ClassVar[str] = "exponential"
    lowest: ClassVar[float] = 0.0
    power: ClassVar[float]
    has_log_outputs: ClassVar[bool] = True

    @property
    def degree(self) -> float:
        """Unit deviances are of this power."""
        return 2.0 - self.power

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return means."""
        return outputs.clamp(-LARGEST_LOG, LARGEST_LOG).exp()

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return half of the deviance without its constant term."""
        del label_smoothing
        logs, p = outputs[..., 0].clamp(-LARGEST_LOG, LARGEST_LOG), self.power
        rising = logs if p == 2.0 else ((2.0 - p) * logs).exp() / (2.0 - p)
        return rising - target * (logs if p == 1.0 else ((1.0 - p) * logs).exp() / (1.0 - p))

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return unit deviances."""
        mean, p = predictions[..., 0], self.power
        if p == 1.0:
            return 2.0 * (torch.xlogy(target, target / mean) - target + mean)
        if p == 2.0:
            return 2.0 * (torch.log(mean / target) + target / mean - 1.0)
        constant = target.clamp(min=0.0) ** (2.0 - p) / ((1.0 - p) * (2.0 - p))
        return 2.0 * (constant - target * mean ** (1.0 - p) / (1.0 - p) + mean ** (2.0 - p) / (2.0 - p))

    def units(self, target: Tensor, known: Tensor) -> Units:
        """Return 0 and the mean."""
        mean = target.sum(dim=1) / known.sum(dim=1)
        return torch.zeros_like(mean), mean

    def check_target(self, target: Array) -> None:
        """Raise an error for values below 0, or at 0 where the law has none."""
        wrong = int((target < 0.0).sum()) if self.power < 2.0 else int((target <= 0.0).sum())
        if wrong:
            wanted = "not be negative" if self.power < 2.0 else "be larger than 0"
            raise ColumnError(
                f"y must {wanted} for objective={self.name!r}, but {wrong} of its {target.size} values are not valid. "
                "Drop these rows, or choose another objective, such as 'squared' or, for zeros and positive numbers, "
                "'tweedie' with a power between 1 and 2."
            )
        if not (target > 0.0).reshape(len(target), -1).any(axis=0).all():
            raise ColumnError(
                f"y must have a value larger than 0 for objective={self.name!r}, but all are 0. Check the target."
            )

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return means, and the standard deviations of the law, up to a factor."""
        mean = predictions[..., 0]
        return mean, mean ** (0.5 * self.power)


@final
@dataclass(frozen=True)
class Poisson(Deviance):
    """The deviance of the Poisson law, for counts and other numbers that are not negative."""

    name: ClassVar[str] = "poisson"
    metric_name: ClassVar[str] = "poisson_deviance"
    power: ClassVar[float] = 1.0


@final
@dataclass(frozen=True)
class Gamma(Deviance):
    """The deviance of the gamma law, for positive numbers with a constant relative spread."""

    name: ClassVar[str] = "gamma"
    metric_name: ClassVar[str] = "gamma_deviance"
    power: ClassVar[float] = 2.0


@final
@dataclass(frozen=True)
class Tweedie(Deviance):
    """The deviance of a Tweedie law with variance ``mean ** power``, for zeros and positive numbers."""

    name: ClassVar[str] = "tweedie"
    metric_name: ClassVar[str] = "tweedie_deviance"
    power: float = 1.5  # type: ignore[misc]  # a setting here, a trait of the other laws

    def __post_init__(self) -> None:
        _check_setting(self.power, "power", 1.0, 3.0, closed=True)


@final
@dataclass(frozen=True)
class Gaussian(Objective):
    """The negative log-likelihood of a normal law: its mean and its standard deviation are predicted.

    Notes
    -----
    With outputs o, the mean is o_0 and the standard deviation ``softplus(o_1 + log(e - 1)) + SMALLEST_SPREAD``, both in
    units of the target's: outputs of 0 mean 0 and about 1. Of several members both are averaged, as quantiles are.
    """

    name: ClassVar[str] = "gaussian"
    metric_name: ClassVar[str] = "gaussian_nll"
    link: ClassVar[str] = "spread"
    has_density: ClassVar[bool] = True
    has_log_outputs: ClassVar[bool] = True

    @property
    def n_outputs(self) -> int:
        """Mean and standard deviation."""
        return 2

    @property
    def located(self) -> tuple[float, ...]:
        """A mean is a place, a standard deviation a distance."""
        return 1.0, 0.0

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return means and standard deviations."""
        spread = functional.softplus(outputs[..., 1] + START_OF_SPREAD) + SMALLEST_SPREAD
        return torch.stack([outputs[..., 0], spread], dim=-1)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood."""
        mean, spread = predictions.unbind(-1)
        return 0.5 * ((target - mean) / spread).square() + spread.log() + 0.5 * math.log(2.0 * math.pi)

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return means and standard deviations."""
        return predictions[..., 0], predictions[..., 1]


@final
@dataclass(frozen=True)
class LogLoss(Objective):
    """The cross-entropy of classes."""

    name: ClassVar[str] = "log_loss"
    metric_name: ClassVar[str] = "log_loss"

    @property
    def task(self) -> str:
        """Classification."""
        return "classification"

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return cross-entropies."""
        return _cross_entropy(outputs, target, label_smoothing)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropies."""
        return _cross_entropy(predictions, target, 0.0)


@final
@dataclass(frozen=True)
class Focal(Objective):
    """The focal loss of classes (Lin and others, 2017): rows that are predicted well count less.

    Notes
    -----
    With the probability p of the class of a row, its cross-entropy is multiplied by ``(1 - p) ** gamma``.
    """

    name: ClassVar[str] = "focal"
    metric_name: ClassVar[str] = "focal_loss"
    gamma: float = 2.0

    def __post_init__(self) -> None:
        _check_setting(self.gamma, "gamma", 0.0, math.inf, closed=True)

    @property
    def task(self) -> str:
        """Classification."""
        return "classification"

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return focal losses."""
        missed = -torch.expm1(-_cross_entropy(outputs, target, 0.0))  # 1 - p
        return missed.clamp(min=1e-12) ** self.gamma * _cross_entropy(outputs, target, label_smoothing)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return focal losses."""
        return self.losses(predictions, target)


@final
@dataclass(frozen=True)
class Custom(Objective):
    """A function of the user, ``(outputs, targets) -> loss of each row``; it cannot be saved.

    Outputs and targets of a regression are in the target's own units, float64, and have the same shape; those of
    classes are logits of shape (..., n_classes) and class codes of shape (...).
    """

    name: ClassVar[str] = "custom"
    metric_name: ClassVar[str] = "objective"
    function: Callable[[Tensor, Tensor], Tensor]
    classes: bool = False

    @property
    def task(self) -> str:
        """The task."""
        return "classification" if self.classes else "regression"

    @property
    def in_target_units(self) -> bool:
        """Whether losses are formed in the target's own units: those of numbers are."""
        return not self.classes

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return what the function returns, whose shape is checked."""
        losses = self.function(predictions if self.classes else predictions[..., 0], target)
        if not isinstance(losses, Tensor) or losses.shape != target.shape:
            raise argument_error(
                "objective",
                f"return one loss for each row, a tensor of shape {tuple(target.shape)}",
                tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__,
                "Its arguments have the axes (members, rows): work element by element, and leave out mean() and sum().",
            )
        return losses

    def to_json(self) -> dict[str, Any]:
        """Raise an error: a function is code."""
        raise argument_error(
            "objective",
            "be a name to be saved, because model files contain no code",
            self.function,
            "Use pickle, or fit with one of the named objectives.",
        )


def _cross_entropy(outputs: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    settings: dict[str, Any] = {"reduction": "none", "label_smoothing": label_smoothing}
    losses: Tensor = functional.cross_entropy(outputs.flatten(0, -2), target.flatten(), **settings)
    return losses.view_as(target)


def _check_setting(value: Any, name: str, low: float, high: float, *, closed: bool = False) -> None:
    """Check that a setting is a number in a range, whose ends belong to it if it is closed."""
    wanted = f"be a number {'from' if closed else 'larger than'} {low:g}"
    wanted += f" to {high:g}" if math.isfinite(high) else " on" if closed else ""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise type_error(name, wanted, value)
    number = float(value)
    if not (low <= number <= high if closed else low < number) or math.isinf(number):
        raise argument_error(name, wanted, value)


OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (Squared, Absolute, Huber, Quantile, Poisson, Gamma, Tweedie, Gaussian, LogLoss, Focal)
}
"""The objectives by name; an added one can be named in estimators."""

USUAL: dict[str, Objective] = {"regression": Squared(), "classification": LogLoss()}
"""The objectives by default."""


def make_objective(objective: Any, task: str, settings: dict[str, Any] | None = None) -> Objective:
    """Return the objective of a user.

    Parameters
    ----------
    objective : str, Objective or callable
        A name in `OBJECTIVES`, an objective, which is returned, or a function of outputs and targets.
    task : {"regression", "classification"}
        The task.
    settings : dict, optional
        Parameters of an estimator that are settings of some objectives; those of others must have their defaults.

    Examples
    --------
    >>> make_objective("tweedie", "regression", {"power": 1.2, "delta": 1.0})
    Tweedie(power=1.2)
    """
    names = [name for name, kind in OBJECTIVES.items() if kind().task == task]
    settings = settings or {}
    if isinstance(objective, Objective):
        made, used = objective, set[str]()
    elif callable(objective):
        made, used = Custom(objective, classes=task == "classification"), set[str]()
    else:
        kind = OBJECTIVES[check_choice(objective, "objective", names)]
        used = {field.name for field in fields(kind)} & set(settings)
        made = kind(**{name: settings[name] for name in used})
    if made.task != task:
        raise argument_error("objective", f"be one for {task}: {listed(names)}", objective)
    _refuse_unused({name: value for name, value in settings.items() if name not in used}, made)
    return made


def _refuse_unused(settings: dict[str, Any], made: Objective) -> None:
    """Raise an error for settings of other objectives that a user has changed."""
    for kind in OBJECTIVES.values():
        for field in fields(kind):
            given = settings.get(field.name, field.default)
            if np.ndim(given) or given != field.default:
                raise argument_error(
                    field.name,
                    f"be left at {field.default!r} with objective={made.name!r}, which does not use it",
                    given,
                    f"Write objective={kind.name!r}, or leave out {field.name}.",
                )


def objective_from_json(content: dict[str, Any]) -> Objective:
    """Return the objective whose `Objective.to_json` was given; unknown names and settings are refused."""
    if (
        not isinstance(content, dict)
        or set(content) != {"name", "settings"}
        or not isinstance(content["settings"], dict)
    ):
        raise type_error("objective", "be a dict of a name and settings", content)
    kind = OBJECTIVES[check_choice(content["name"], "objective", OBJECTIVES)]
    known = [field.name for field in fields(kind)]
    if set(content["settings"]) != set(known):
        raise argument_error("objective", f"have the settings {listed(known)}", listed(content["settings"]))
    return kind(**content["settings"])
