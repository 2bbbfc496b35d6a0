"""Objectives: what networks are trained for, the built-in ones, and their registry `OBJECTIVES`.

Losses and predictions are formed in units in which the target is of the order of one; `Objective.units` returns their
origin and size. Torch operations here do not wait for the device, because they are part of CUDA graphs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from statistics import NormalDist
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from knotwork._checks import argument_error, check_choice, check_number, listed, type_error
from knotwork._graph import Graph
from knotwork._kernels.losses import log_loss, squared_loss
from knotwork.errors import ColumnError
from knotwork.training._metrics import METRICS, Metric, row_metric

Array = npt.NDArray[np.float64]

WEIGHTS_HINT = "Write class_weight={'no': 1.0, 'yes': 5.0}, for example."


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
    is_positive : bool
        Whether targets must not be negative and predictions are positive, as those of counts are.
    predicts_std : bool
        Whether a target has a mean and a standard deviation, as ``predict(X, return_std=True)`` returns them.
    is_robust : bool
        Whether the units of the target are median and mean absolute deviation, to which outliers matter less.
    has_density : bool
        Whether scores are negative logarithms of a density, which depends on the units of the target.
    has_log_outputs : bool
        Whether outputs are logarithms, as those of classes are: a step is then a factor, so rates are smaller.
    task : str
        The task, ``"regression"`` or ``"classification"``.
    in_target_units : bool
        Whether losses and metric are formed in the target's own units.
    degree : float
        Power of the target's units that `row_scores` have.
    n_outputs : int
        Outputs of a network for each target; of classes their number counts instead.
    has_levels : bool
        Whether `predict` returns several numbers for a target, on a last axis.
    loop : callable or None
        The compiled `losses` with their gradient, if there are any.
    labels : tuple of str
        Names of the numbers that `predict` returns for a target; a single one needs no name.
    """

    name: ClassVar[str]
    metric_name: ClassVar[str]
    is_positive: ClassVar[bool] = False
    predicts_std: ClassVar[bool] = False
    is_robust: ClassVar[bool] = False
    has_density: ClassVar[bool] = False
    has_log_outputs: ClassVar[bool] = False
    task: ClassVar[str] = "regression"
    in_target_units: ClassVar[bool] = False
    degree: ClassVar[float] = 0.0
    n_outputs: ClassVar[int] = 1
    has_levels: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ("",)
    loop: ClassVar[Any] = None

    @property
    def trained_as(self) -> str:
        """The task whose settings of training suit it, see `Backbone.training`."""
        return "classification" if self.has_log_outputs else self.task

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

    def to_graph(self, graph: Graph, outputs: str, n_targets: int) -> str:
        """Add `predictions` to a graph: of float64 outputs of shape (n, n_targets * n_outputs), of the same shape."""
        del graph, n_targets
        return outputs

    def result(self, predictions: Array) -> Array:
        """Return what `predict` returns, from averaged predictions of shape (..., n_outputs)."""
        values: Array = predictions[..., 0]
        return values

    def central(self, result: Array) -> Array:
        """Return the predictions that R² scores, of the shape of the target, from what `predict` returns."""
        return result

    def units(self, target: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return origin and size, of shape (n_members,), of the units of the target.

        Parameters
        ----------
        target : Tensor of shape (n_members, n)
            The target of each member's training rows, float64; at most 1 in size.
        known : Tensor of shape (n_members, n)
            Which rows are not padding.
        """
        counts = known.sum(dim=1)
        if self.is_robust:  # the standard deviation of a normal variable with this mean absolute deviation
            median = torch.where(known, target, math.nan).nanmedian(dim=1).values
            distance = torch.where(known, (target - median[:, None]).abs(), 0.0)
            return median, math.sqrt(math.pi / 2) * distance.sum(dim=1) / counts
        mean = target.sum(dim=1) / counts
        return mean, (torch.where(known, target - mean[:, None], 0.0).square().sum(dim=1) / counts).sqrt()

    def check_target(self, target: Array) -> None:
        """Raise an error if a target is not in the domain of the objective."""
        del target

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return the centre and the width of prediction intervals, for predictions of shape (..., n_outputs).

        Residuals divided by the width should be alike for all rows; without a better choice it is 1.
        """
        return predictions[..., 0], np.ones(predictions.shape[:-1])


@final
@dataclass(frozen=True)
class Squared(Objective):
    """The squared error: the mean is predicted."""

    name: ClassVar[str] = "squared"
    metric_name: ClassVar[str] = "rmse"
    loop: ClassVar[Any] = squared_loss

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
    """Squared errors that become linear beyond a limit: outliers matter less than for the mean.

    Parameters
    ----------
    delta : float, default=1.0
        The limit, in units of the target's deviation from its median: the mean absolute deviation, multiplied by 1.25
        so that it is the standard deviation of a normal variable.

    Examples
    --------
    >>> Huber(1.5)
    Huber(delta=1.5)
    """

    name: ClassVar[str] = "huber"
    metric_name: ClassVar[str] = "huber"
    is_robust: ClassVar[bool] = True
    degree: ClassVar[float] = 2.0  # scores are half of squares, as `delta` is a multiple of the unit
    delta: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.delta, "delta", "larger than 0", lambda delta: delta > 0.0)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return half of squared errors e up to d, and ``d (|e| - d / 2)`` beyond."""
        errors = (predictions[..., 0] - target).abs()
        inner = errors.clamp(max=self.delta)
        return inner * (errors - 0.5 * inner)


@final
@dataclass(frozen=True)
class Quantile(Objective):
    """The pinball loss: quantiles at one level or several are predicted, which never cross.

    Parameters
    ----------
    quantiles : float or sequence of float, default=0.5
        The levels, increasing, each between 0 and 1. Of a sequence, predictions have a column for each level.

    Notes
    -----
    With outputs o and levels a of quantiles q, ``q_0 = o_0 + z_0`` and ``q_i = q_(i-1) + softplus(o_i + c_i)``: they
    increase whatever the outputs are. The constants z and c are those with which outputs of 0 give the quantiles of a
    normal variable.

    Examples
    --------
    >>> Quantile((0.05, 0.95)).levels
    (0.05, 0.95)
    """

    name: ClassVar[str] = "quantile"
    metric_name: ClassVar[str] = "pinball"
    is_robust: ClassVar[bool] = True
    degree: ClassVar[float] = 1.0
    quantiles: float | tuple[float, ...] = 0.5

    def __post_init__(self) -> None:
        hint = "Write quantiles=0.5 or quantiles=(0.05, 0.5, 0.95), for example."
        if isinstance(self.quantiles, Sequence | np.ndarray) and not isinstance(self.quantiles, str):
            object.__setattr__(self, "quantiles", tuple(float(level) for level in self.quantiles))
        levels = self.levels
        if not levels or not all(isinstance(level, Real) and 0.0 < level < 1.0 for level in levels):
            raise argument_error("quantiles", "be one or more numbers between 0 and 1", self.quantiles, hint)
        if any(low >= high for low, high in pairwise(levels)):
            raise argument_error("quantiles", "increase, without repetition", self.quantiles, hint)

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels."""
        return self.quantiles if isinstance(self.quantiles, tuple) else (self.quantiles,)

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """One for each level."""
        return len(self.levels)

    @property
    def has_levels(self) -> bool:  # type: ignore[override]
        """Whether a sequence of levels was given, even one of a single level."""
        return isinstance(self.quantiles, tuple)

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The levels as text."""
        return tuple(f"{level:g}" for level in self.levels)

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

    def to_graph(self, graph: Graph, outputs: str, n_targets: int) -> str:
        """Add the quantiles: the first is the sum of output and start, the others add a softplus."""
        moved = graph("Add", outputs, np.tile(self.starts, n_targets))
        if self.n_outputs == 1:
            return moved
        is_first = np.arange(n_targets * self.n_outputs) % self.n_outputs == 0
        steps = graph("Where", is_first, moved, graph.softplus(moved))
        total = graph("CumSum", graph.reshape(steps, -1, n_targets, self.n_outputs), graph.constant(2, np.int64))
        return graph.reshape(total, -1, n_targets * self.n_outputs)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the mean pinball loss over the levels."""
        pairs = [(level, target - predictions[..., place]) for place, level in enumerate(self.levels)]
        losses = [torch.maximum(level * error, (level - 1.0) * error) for level, error in pairs]
        return sum(losses[1:], losses[0]) / self.n_outputs

    def result(self, predictions: Array) -> Array:
        """Return the quantiles in increasing order, or the only one."""
        return np.maximum.accumulate(predictions, axis=-1) if self.has_levels else super().result(predictions)

    def central(self, result: Array) -> Array:
        """Return the quantile whose level is closest to 0.5."""
        if not self.has_levels:
            return result
        values: Array = result[..., np.argmin(np.abs(np.array(self.levels) - 0.5))]
        return values

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return the middle of the lowest and the highest quantile, and half of their distance."""
        if self.n_outputs == 1:
            return super().centre_and_spread(predictions)
        low, high = predictions[..., 0], predictions[..., -1]
        return 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low


@dataclass(frozen=True)
class Deviance(Objective):
    """The deviance of a Tweedie distribution with a logarithmic link: the mean is predicted.

    Notes
    -----
    The variance is proportional to ``mean ** power``. In units of the mean of the target, with the output o and the
    power p, the loss is ``exp((2 - p) o) / (2 - p) - y exp((1 - p) o) / (1 - p)``, with the limits ``exp(o) - y o`` for
    p = 1 and ``o + y exp(-o)`` for p = 2. It is half of the deviance, except for a term without o.
    """

    is_positive: ClassVar[bool] = True
    power: ClassVar[float]
    has_log_outputs: ClassVar[bool] = True
    largest_log: ClassVar[float] = 20.0  # in units of the target's mean: exponentials stay finite in float32

    @property
    def degree(self) -> float:  # type: ignore[override]
        """Unit deviances are of this power."""
        return 2.0 - self.power

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return means."""
        return outputs.clamp(-self.largest_log, self.largest_log).exp()

    def to_graph(self, graph: Graph, outputs: str, n_targets: int) -> str:
        """Add the means."""
        del n_targets
        return graph("Exp", graph("Clip", outputs, np.float64(-self.largest_log), np.float64(self.largest_log)))

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return half of the deviance without its constant term."""
        del label_smoothing
        logs, p = outputs[..., 0].clamp(-self.largest_log, self.largest_log), self.power
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

    def units(self, target: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return 0 and the mean."""
        mean = target.sum(dim=1) / known.sum(dim=1)
        return torch.zeros_like(mean), mean

    def check_target(self, target: Array) -> None:
        """Raise an error for values below 0, or at 0 where the distribution has none."""
        wrong = int((target < 0.0).sum()) if self.power < 2.0 else int((target <= 0.0).sum())
        if wrong:
            limit = "not be negative" if self.power < 2.0 else "be larger than 0"
            raise ColumnError(
                f"y must {limit} for objective={self.name!r}, but {wrong} of its {target.size} values are not valid. "
                "Drop these rows, or choose another objective, such as 'squared' or, for zeros and positive numbers, "
                "'tweedie' with a power between 1 and 2."
            )
        if not (target > 0.0).reshape(len(target), -1).any(axis=0).all():
            raise ColumnError(
                f"y must have a value larger than 0 for objective={self.name!r}, but all are 0. Check the target."
            )

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return means, and the standard deviations of the distribution, up to a factor."""
        return predictions[..., 0], predictions[..., 0] ** (0.5 * self.power)


@final
@dataclass(frozen=True)
class Poisson(Deviance):
    """The deviance of the Poisson distribution, for counts and other numbers that are not negative."""

    name: ClassVar[str] = "poisson"
    metric_name: ClassVar[str] = "poisson_deviance"
    power: ClassVar[float] = 1.0


@final
@dataclass(frozen=True)
class Gamma(Deviance):
    """The deviance of the gamma distribution, for positive numbers with a constant relative spread."""

    name: ClassVar[str] = "gamma"
    metric_name: ClassVar[str] = "gamma_deviance"
    power: ClassVar[float] = 2.0


@final
@dataclass(frozen=True)
class Tweedie(Deviance):
    """The deviance of a Tweedie distribution, for zeros and positive numbers: the mean is predicted.

    Parameters
    ----------
    power : float, default=1.5
        Exponent from 1 to 3: the variance is proportional to this power of the mean.

    Examples
    --------
    >>> Tweedie(1.2)
    Tweedie(power=1.2)
    """

    name: ClassVar[str] = "tweedie"
    metric_name: ClassVar[str] = "tweedie_deviance"
    power: float = 1.5  # type: ignore[misc]  # a setting here, a trait of the other distributions

    def __post_init__(self) -> None:
        check_number(self.power, "power", "from 1 to 3", lambda power: 1.0 <= power <= 3.0)


@final
@dataclass(frozen=True)
class Gaussian(Objective):
    """The negative log-likelihood of a normal distribution: its mean and its standard deviation are predicted.

    Notes
    -----
    With outputs o, the mean is o_0 and the standard deviation ``softplus(o_1 + log(e - 1)) + 0.001``, both in units of
    the target's: outputs of 0 mean 0 and about 1. Of several members both are averaged, as quantiles are.
    """

    name: ClassVar[str] = "gaussian"
    metric_name: ClassVar[str] = "gaussian_nll"
    predicts_std: ClassVar[bool] = True
    has_density: ClassVar[bool] = True
    has_log_outputs: ClassVar[bool] = True
    n_outputs: ClassVar[int] = 2
    smallest_std: ClassVar[float] = 1e-3  # in units of the target's
    start: ClassVar[float] = math.log(math.e - 1.0)  # an output of 0 means a standard deviation of 1

    @property
    def located(self) -> tuple[float, ...]:
        """A mean is a place, a standard deviation a distance."""
        return 1.0, 0.0

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return means and standard deviations."""
        spread = functional.softplus(outputs[..., 1] + self.start) + self.smallest_std
        return torch.stack([outputs[..., 0], spread], dim=-1)

    def to_graph(self, graph: Graph, outputs: str, n_targets: int) -> str:
        """Add means and standard deviations, in turn."""
        moved = graph.softplus(graph("Add", outputs, np.float64(self.start)))
        spread = graph("Add", moved, np.float64(self.smallest_std))
        return graph("Where", np.arange(2 * n_targets) % 2 == 0, outputs, spread)

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood."""
        mean, spread = predictions.unbind(-1)
        return 0.5 * ((target - mean) / spread).square() + spread.log() + 0.5 * math.log(2.0 * math.pi)

    def centre_and_spread(self, predictions: Array) -> tuple[Array, Array]:
        """Return means and standard deviations."""
        return predictions[..., 0], predictions[..., 1]


class ClassObjective(Objective):
    """What networks for classes are trained for; subclasses have the fields `class_weight` and `calibrate`."""

    task: ClassVar[str] = "classification"
    class_weight: Any
    calibrate: str | None

    def __post_init__(self) -> None:
        weights = self.class_weight
        if isinstance(weights, Mapping | list | tuple):  # files and copies have pairs
            pairs = weights.items() if isinstance(weights, Mapping) else weights
            object.__setattr__(self, "class_weight", tuple(map(_class_weight, pairs)))  # objectives are keys
        elif weights is not None and not (isinstance(weights, str) and weights == "balanced"):
            raise type_error("class_weight", "be 'balanced' or a mapping from labels to weights", weights, WEIGHTS_HINT)
        if self.calibrate is not None:
            check_choice(self.calibrate, "calibrate", ("temperature",))

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return the losses."""
        return self.losses(predictions, target)


@final
@dataclass(frozen=True)
class LogLoss(ClassObjective):
    """The cross-entropy of classes.

    Parameters
    ----------
    class_weight : "balanced" or mapping, optional
        Weights of the classes in the loss: inversely proportional to their frequency, or as given for each label.
    calibrate : {None, "temperature"}, default=None
        Whether probabilities are corrected by a temperature, the one with the best log loss on rows that the networks
        were not trained on. Weights of classes are taken out again, so that probabilities are those of their rows.

    Examples
    --------
    >>> LogLoss("balanced")
    LogLoss(class_weight='balanced', calibrate=None)
    """

    name: ClassVar[str] = "log_loss"
    metric_name: ClassVar[str] = "log_loss"
    loop: ClassVar[Any] = log_loss
    class_weight: Any = None
    calibrate: str | None = None

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return cross-entropies."""
        return _cross_entropy(outputs, target, label_smoothing)


@final
@dataclass(frozen=True)
class Focal(ClassObjective):
    """The focal loss of classes (Lin and others, 2017): rows that are predicted well count less.

    Parameters
    ----------
    gamma : float, default=2.0
        Exponent, at least 0.
    class_weight, calibrate
        As in `LogLoss`.

    Notes
    -----
    With the probability p of the class of a row, its cross-entropy is multiplied by ``(1 - p) ** gamma``.

    Examples
    --------
    >>> Focal(1.0)
    Focal(gamma=1.0, class_weight=None, calibrate=None)
    """

    name: ClassVar[str] = "focal"
    metric_name: ClassVar[str] = "focal_loss"
    gamma: float = 2.0
    class_weight: Any = None
    calibrate: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.gamma, "gamma", "from 0 on", lambda gamma: gamma >= 0.0)

    def losses(self, outputs: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
        """Return focal losses."""
        missed = -torch.expm1(-_cross_entropy(outputs, target, 0.0))  # 1 - p
        return missed.clamp(min=1e-12) ** self.gamma * _cross_entropy(outputs, target, label_smoothing)


@final
@dataclass(frozen=True)
class Custom(ClassObjective):
    """A function of the user, ``(outputs, targets) -> loss of each row``; it cannot be saved.

    Outputs and targets of a regression are in the target's own units, float64, and have the same shape; those of
    classes are logits of shape (..., n_classes) and class codes of shape (...).

    Parameters
    ----------
    function : callable
        The function. It must not synchronise with the device.
    classes, class_weight, calibrate
        Whether it is a loss for classes, and what `LogLoss` has for them.
    """

    name: ClassVar[str] = "custom"
    metric_name: ClassVar[str] = "objective"
    function: Callable[[Tensor, Tensor], Tensor]
    classes: bool = False
    class_weight: Any = None
    calibrate: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("class_weight", "calibrate"):
            if getattr(self, name) is not None and not self.classes:
                raise argument_error(name, "be None for an objective of numbers", getattr(self, name))

    @property
    def task(self) -> str:  # type: ignore[override]
        """The task."""
        return "classification" if self.classes else "regression"

    @property
    def in_target_units(self) -> bool:  # type: ignore[override]
        """Whether losses are formed in the target's own units: those of numbers are."""
        return not self.classes

    def row_scores(self, predictions: Tensor, target: Tensor) -> Tensor:
        """Return what the function returns, whose shape is checked."""
        try:
            losses = self.function(predictions if self.classes else predictions[..., 0], target)
        except RuntimeError as error:
            if "numpy()" not in str(error):
                raise
            raise argument_error("objective", "use functions of torch, not of NumPy", self.function) from error
        if not isinstance(losses, Tensor) or losses.shape != target.shape:
            shown = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            hint = "Its arguments have the axes (members, rows): work element by element, leave out mean()."
            requirement = f"return one loss for each row, a tensor of shape {tuple(target.shape)}"
            raise argument_error("objective", requirement, shown, hint)
        return losses


def _class_weight(pair: Any) -> tuple[Any, float]:
    """Return a label and its weight."""
    label, weight = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, bool | int | float | str) or isinstance(weight, bool) or not isinstance(weight, Real):
        raise type_error("class_weight", "be 'balanced' or a mapping from labels to numbers", pair, WEIGHTS_HINT)
    return label, float(weight)


def _cross_entropy(outputs: Tensor, target: Tensor, label_smoothing: float) -> Tensor:
    settings: dict[str, Any] = {"reduction": "none", "label_smoothing": label_smoothing}
    losses: Tensor = functional.cross_entropy(outputs.flatten(0, -2), target.flatten(), **settings)
    return losses.view_as(target)


OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind for kind in (Squared, Absolute, Huber, Quantile, Poisson, Gamma, Tweedie, Gaussian, LogLoss, Focal)
}
"""The objectives by name; an added one can be named in estimators."""

USUAL_OBJECTIVES: dict[str, Objective] = {"regression": Squared(), "classification": LogLoss()}
"""The objectives by default."""


def make_objective(objective: Any, task: str) -> Objective:
    """Return the objective of a user.

    Parameters
    ----------
    objective : str, Objective or callable
        ``"auto"``, the one of `USUAL_OBJECTIVES`; a name in `OBJECTIVES`; an objective; or a function.
    task : {"regression", "classification"}
        The task.

    Examples
    --------
    >>> make_objective("tweedie", "regression")
    Tweedie(power=1.5)
    """
    names = [name for name, kind in OBJECTIVES.items() if kind.task == task]
    if isinstance(objective, str) and objective == "auto":
        made = USUAL_OBJECTIVES[task]
    elif isinstance(objective, Objective):
        made = objective
    elif isinstance(objective, type) and issubclass(objective, Objective):
        raise type_error("objective", "be an objective, not its class", objective, f"Write {objective.__name__}().")
    elif callable(objective):
        made = Custom(objective, classes=task == "classification")
    else:
        made = OBJECTIVES[check_choice(objective, "objective", ("auto", *names))]()
    if made.task != task:
        raise argument_error("objective", f"be one for {task}: {listed(names)}", objective)
    return made
