"""The configuration of training: every constant, in one frozen value."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np

from knotwork._checks import argument_error, check_bool, check_choice, check_int, check_number, listed, type_error
from knotwork.training._metrics import METRICS, Metric
from knotwork.training._objectives import USUAL_OBJECTIVES, Objective

SCHEDULES = ("plateau", "cosine", "cycles", "constant")
STEPWISE = ("cosine", "cycles")
"""Schedules whose learning rate changes with every step; others change it between epochs."""

REPORTED = {"regression": "rmse", "classification": "auc"}
"""Metrics by task that the paper reports."""

LATER = (
    "beta2", "weight_average", "label_smoothing", "knot_spacing", "reproducible", "smoothness", "smoothness_order",
    "cycle_gain",
)  # fmt: skip
"""Settings that the first version did not have. The hash of a plan has them only if they are changed: otherwise records
that were made before, as those of the paper, would be those of another plan."""

NOT_NEGATIVE = ("of at least 0", lambda number: number >= 0.0)
"""Requirement and check of a number, as `check_number` takes them."""

PRECISIONS = ("auto", "float32", "tf32", "bf16")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Configuration of training.

    The defaults balance quality and time on tables of 1,000 to 100,000 rows; `paper` returns the paper's protocol.

    Parameters
    ----------
    max_epochs : int, default=200
        Maximum number of passes over the training rows.
    batch_size : int, optional
        Rows per step; by default 64 to 512, depending on the number of rows of the table, see `batch_size_for`.
    learning_rate : float, default=0.001
        Learning rate of AdamW.
    weight_decay : float, default=0.01
        Weight decay of AdamW; knots are not decayed.
    beta2 : float, default=0.999
        Decay rate of AdamW's running mean of squared gradients.
    patience : int or None, default=16
        Training stops after this many epochs without a better validation score; None trains all epochs. The weights
        of the best epoch are kept in any case.
    schedule : {"plateau", "cosine", "cycles", "constant"}, default="plateau"
        Learning rate over the epochs: multiplied by `plateau_factor` when the score no longer improves; a linear
        rise over the first twentieth of `max_epochs` and then half a cosine down to 0; four cycles from 0 up and down
        to 0, each twice as long as the one before; or constant. See Notes.
    plateau_patience : int, default=6
        Epochs without a better score before the rate is reduced.
    plateau_factor : float, default=0.3
        Factor of the reduction.
    cycle_gain : float, default=0.0
        With four cycles, training ends with a cycle in which the best score has improved by a smaller share than this;
        0 trains all cycles. The first cycle counts as an improvement.
    knot_rate : float, default=2.0
        Learning rate of the knots divided by that of the network.
    knot_warmup : int, default=5
        Epochs before knots start to move.
    spacing_weight : float, default=0.0001
        Weight of the spacing penalty in the loss.
    knot_spacing : float, default=0.001
        Least distance of learned knots, as a share of the range of their feature; with K knots below 1 / (K + 1).
    weight_average : float, default=0.0
        If above 0, validation scores and the weights that are kept are those of a moving average of the weights over
        the steps, with this decay rate; 0.99 is a usual value.
    label_smoothing : float, default=0.0
        Share of a class label that the loss spreads evenly over all classes.
    smoothness : float, mapping or sequence of float, default=0.0
        Strength of the penalty on differences of the weights of adjacent splines, which makes the curves of a feature
        smooth, as in P-splines; see Notes. One number for all features; in estimators a mapping from columns, in which
        columns that are left out have 0; or one number for each numerical feature.
    smoothness_order : int, default=2
        Order of these differences: a strong penalty turns a curve into a constant (1), a straight line (2), or a
        parabola (3).
    metric : str, default="auto"
        Validation score: a name in `knotwork.training.METRICS`; by default that of the objective, ``"rmse"`` and for
        classes ``"log_loss"`` unless another is chosen; ``"reported"`` stands for those of the paper, ``"rmse"`` and
        ``"auc"``.
    precision : {"auto", "float32", "tf32", "bf16"}, default="auto"
        Precision of matrix products on a GPU. By default that of the backbone: tf32 for an MLP, and bf16 with float32
        copies of the weights for the others. On a CPU always float32.
    reproducible : bool, default=False
        Whether a network depends on its rows, encoding and random seed alone, bit for bit. Otherwise it depends on the
        networks that it is trained with as well, by rounding. See Notes.
    time_limit : float, optional
        Seconds after which training stops at the end of an epoch.

    Notes
    -----
    With t the share of `max_epochs` that is done in the middle of a step, ``"cycles"`` multiplies the learning rate by
    ``0.5 (1 - cos(2 pi log2(1 + 15 t)))``, the schedule of RealMLP (Holzmueller and others, 2024). Step n of the
    moving average, from 0, has the decay rate ``min(weight_average, (1 + n) / (10 + n))``: first steps forget the
    initial weights.

    The penalty of a feature is its strength times the sum of squared differences of the weights with which the first
    layer, or the embedding of the feature, reads its columns, as a mean over the outputs of that layer; it is added to
    the mean loss of a batch. Differences allow for the distances of the knots, which may be learned: they are 0 for
    curves that are straight (of order 2), with the coefficients (1, -2, 1) at equal distances. Weights of I-splines
    and PLE are first differences already, so their differences are of one order less and have the same meaning. B-, M-
    and I-splines and PLE are penalised. Scaled values, cosines and sines are not, nor is an FT-Transformer with a token
    for each value; the factors by which TabM multiplies inputs are not included. Columns of learned M-splines are
    normalised after they are computed, so a strong penalty does not make these curves straight.

    With `reproducible`, a network that is trained alone, with others of any encodings, or after others have stopped,
    has the same weights, scores and predictions on one machine with the same versions, and learned knots that have not
    moved equal fixed ones. Products and sums then have one order for each network, in the same precision. On a CPU
    networks are computed one by one, each by one thread, whatever the number of cores. A GPU needs Triton and a
    backbone with `Backbone.has_fixed_order`, ``"mlp"`` or ``"resnet"``, and no frequencies are learned there. A time
    limit ends training by the clock, and so differs between runs in any case.

    Examples
    --------
    >>> TrainingConfig.paper().learning_rate
    0.0001
    """

    max_epochs: int = 200
    batch_size: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    beta2: float = 0.999
    patience: int | None = 16
    schedule: str = "plateau"
    plateau_patience: int = 6
    plateau_factor: float = 0.3
    knot_rate: float = 2.0
    knot_warmup: int = 5
    spacing_weight: float = 1e-4
    knot_spacing: float = 1e-3
    weight_average: float = 0.0
    label_smoothing: float = 0.0
    smoothness: float | Mapping[Any, float] | Sequence[Any] = 0.0
    smoothness_order: int = 2
    metric: str = "auto"
    precision: str = "auto"
    reproducible: bool = False
    time_limit: float | None = None
    cycle_gain: float = 0.0

    def __post_init__(self) -> None:
        for name, minimum in (("max_epochs", 1), ("plateau_patience", 0), ("knot_warmup", 0)):
            check_int(getattr(self, name), name, minimum=minimum)
        for name in ("batch_size", "patience"):
            if getattr(self, name) is not None:
                check_int(getattr(self, name), name, minimum=1)
        check_choice(self.schedule, "schedule", SCHEDULES)
        check_choice(self.precision, "precision", PRECISIONS)
        check_bool(self.reproducible, "reproducible")
        check_choice(self.metric, "metric", ("auto", "reported", *METRICS))
        for name in ("learning_rate", "knot_spacing", "plateau_factor", "time_limit"):
            if name != "time_limit" or self.time_limit is not None:
                check_number(getattr(self, name), name, "larger than 0", lambda number: number > 0.0)
        for name in (
            "weight_decay",
            "knot_rate",
            "spacing_weight",
            "beta2",
            "weight_average",
            "label_smoothing",
            "cycle_gain",
        ):
            check_number(getattr(self, name), name, *NOT_NEGATIVE)
        for name in ("plateau_factor", "beta2", "weight_average", "label_smoothing", "cycle_gain"):
            check_number(getattr(self, name), name, "smaller than 1", lambda number: number < 1.0)
        check_int(self.smoothness_order, "smoothness_order", minimum=1)
        object.__setattr__(self, "smoothness", _read_smoothness(self.smoothness))

    @classmethod
    def paper(cls) -> Self:
        """Return the protocol of the paper; its metric is RMSE or AUC."""
        return cls(
            max_epochs=200,
            batch_size=512,
            learning_rate=1e-4,
            weight_decay=1e-5,
            patience=15,
            schedule="plateau",
            plateau_patience=10,
            plateau_factor=0.1,
            knot_rate=2.0,
            knot_warmup=50,
            spacing_weight=1e-4,
            metric="reported",
        )

    @property
    def cycle_ends(self) -> tuple[int, ...]:
        """Numbers of epochs after which the cycles of ``schedule="cycles"`` end; none for other schedules."""
        if self.schedule != "cycles":
            return ()
        return tuple(round(self.max_epochs * (2**cycle - 1) / 15) for cycle in range(1, 5))

    @property
    def is_stepwise(self) -> bool:
        """Whether the learning rate changes with every step, by a schedule over all epochs."""
        return self.schedule in STEPWISE

    def identity(self) -> dict[str, Any]:
        """Return the settings that identify results; later ones only if changed, so that earlier keys stay valid."""
        defaults = {field.name: field.default for field in fields(self) if field.name in LATER}
        return {name: value for name, value in asdict(self).items() if name not in LATER or value != defaults[name]}

    def strengths(self, n_features: int) -> tuple[float, ...]:
        """Return the smoothness of each feature."""
        smoothness = self.smoothness
        if not isinstance(smoothness, tuple):
            return (float(smoothness),) * n_features  # type: ignore[arg-type]
        if len(smoothness) != n_features or _is_pairs(smoothness):
            requirement = f"be one number, or one for each of {n_features} numerical features"
            raise argument_error("smoothness", requirement, smoothness, "Estimators accept a mapping from columns.")
        return smoothness

    @property
    def is_smooth(self) -> bool:
        """Whether some feature has a smoothness above 0."""
        if not isinstance(self.smoothness, tuple):
            return bool(self.smoothness)
        return any(dict(self.smoothness).values() if _is_pairs(self.smoothness) else self.smoothness)

    def for_columns(
        self, names: Sequence[Any], *, spread: Callable[[Mapping[Any, Any]], Mapping[Any, Any]] = dict
    ) -> Self:
        """Return the configuration for numerical columns: a mapping becomes one number for each of them.

        `spread` turns a mapping from columns of a table into one from `names`.
        """
        if not isinstance(self.smoothness, tuple) or not _is_pairs(self.smoothness):
            return self
        by_name = spread(dict(self.smoothness))
        unknown = [name for name in by_name if name not in names]
        if unknown:
            hint = f"The numerical columns are {list(names)}."
            raise argument_error("smoothness", "name numerical columns of the table", unknown, hint)
        return replace(self, smoothness=[by_name.get(name, 0.0) for name in names])

    def batch_size_for(self, n_rows: int) -> int:
        """Return `batch_size` or, if it is None, the power of two nearest to `n_rows` / 80, between 64 and 512."""
        if self.batch_size is not None:
            return self.batch_size
        return int(2 ** np.clip(np.round(np.log2(max(n_rows, 1) / 80)), 6, 9))

    def metric_for(self, goal: str | Objective) -> Metric:
        """Return the metric of the validation score for an objective or a task, whose usual objective is meant."""
        objective = USUAL_OBJECTIVES[goal] if isinstance(goal, str) else goal
        if self.metric == "auto":
            return objective.metric
        metric = METRICS[REPORTED[objective.task] if self.metric == "reported" else self.metric]
        if metric.task != objective.task:
            available = listed(other.name for other in METRICS.values() if other.task == objective.task)
            raise argument_error("metric", f"be valid for {objective.task}", self.metric, f"Available: {available}.")
        if objective.n_outputs > 1:
            several = f"be 'auto' for the objective {objective.name!r}, which predicts several numbers"
            raise argument_error("metric", several, self.metric)
        return metric


def _read_smoothness(value: Any) -> Any:
    """Return a number, or a tuple of numbers, or for a mapping one of pairs: configurations can be hashed."""
    if isinstance(value, Mapping):
        value = tuple(value.items())
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        check_number(value, "smoothness", *NOT_NEGATIVE)
        return value
    if any(isinstance(entry, list | tuple) for entry in value):
        for entry in value:
            if not isinstance(entry, list | tuple) or len(entry) != 2 or not isinstance(entry[0], Hashable):
                raise type_error("smoothness", "be a number, a mapping from columns, or a sequence of numbers", value)
            check_number(entry[1], f"smoothness of {entry[0]!r}", *NOT_NEGATIVE)
        return tuple((name, number) for name, number in value)
    return tuple(check_number(number, "smoothness", *NOT_NEGATIVE) for number in value)


def _is_pairs(smoothness: Sequence[Any]) -> bool:
    return any(isinstance(entry, tuple) for entry in smoothness)
