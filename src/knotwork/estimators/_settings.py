"""The parameters of an estimator: configurations, the encodings that they name, and how they are read and checked."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from os import PathLike
from typing import Any, Self, TypeVar, final

import numpy as np
from sklearn.utils import check_random_state

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, nearest, type_error
from knotwork._preparation.columns import DATES, Columns
from knotwork._preparation.members import MISSING_NUMBERS, PreparedTable
from knotwork._preparation.validation import check_validation
from knotwork._recommend import recommend
from knotwork._tables import as_frame, is_stream
from knotwork.encoders import FEATURE_CANDIDATES, PER_FEATURE, Encoding, FeatureChoice, choose_columns, place_pairs
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.estimators._model import Task, make_task
from knotwork.estimators._plans import (
    EFFORTS,
    MEMBERS,
    FitPlan,
    Recipe,
    machine_speed,
    plan_effort,
    share_of_validation,
)
from knotwork.knots import to_usual_range
from knotwork.nn import BACKBONES, Backbone, InteractionConfig, make_backbone
from knotwork.training import (
    CATEGORIES,
    OBJECTIVES,
    Objective,
    TrainingConfig,
    TrainingTable,
    device_type,
    is_cluster,
    make_objective,
    resolve_devices,
)

USUAL_SHARE = 0.1
"""Share of the last rows that are held out in tables in the order of time, a convention."""

USUAL_CATEGORIES = "embedding"


@final
@dataclass(frozen=True)
class ColumnConfig:
    """How the columns of a table enter the networks.

    Parameters
    ----------
    categorical : iterable, optional
        Columns of numbers or text that are categories: names, or positions in an array.
    categories : {"embedding", "code", "mixed"}, default="embedding"
        Whether a category is a learned vector or, as in the paper, an integer code, or, in columns of at most eight
        categories, one-hot and otherwise a learned vector. An FT-Transformer always learns vectors, and refuses others.
    missing : {"zeros", "learned"}, default="zeros"
        What a missing number becomes, besides the vector that marks it: zeros, or a learned vector in place of the
        functions, one for each column, which starts at zero.
    dates : {"features", "error"}, default="features"
        Whether dates and times become numbers (elapsed days, year, and month, weekday, hour and day of the year by sine
        and cosine, those that vary), or dates, times and durations are refused, even if they are written as text.
    least_count : int, default=1
        Rows that a category has at least. Rarer ones are read as new ones, and model files do not name them.

    Examples
    --------
    >>> ColumnConfig(categorical=["zip_code"], missing="learned").categorical
    ('zip_code',)
    """

    categorical: Iterable[str | int] | None = None
    categories: str = USUAL_CATEGORIES
    missing: str = "zeros"
    dates: str = "features"
    least_count: int = 1

    def __post_init__(self) -> None:
        check_int(self.least_count, "least_count", minimum=1)
        check_choice(self.categories, "categories", CATEGORIES)
        check_choice(self.missing, "missing", MISSING_NUMBERS)
        check_choice(self.dates, "dates", DATES)
        if self.categorical is not None:
            if isinstance(self.categorical, str) or not isinstance(self.categorical, Iterable):
                hint = "Write categorical=['zip_code'], for example."
                raise type_error("categorical", "be a list of columns", self.categorical, hint)
            object.__setattr__(self, "categorical", tuple(self.categorical))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Return a configuration, the usual one for None."""
        if value is not None and not isinstance(value, cls):
            raise type_error("columns", "be a ColumnConfig", value, "Write ColumnConfig(categorical=['zip_code']).")
        return cls() if value is None else value


@final
@dataclass(frozen=True)
class ValidationConfig:
    """Which rows are held out, and what they are used for.

    Parameters
    ----------
    rows : None, "time", float, int, splitter or sequence of pairs, default=None
        Which rows: the values that `validation` of `TabularRegressor` may have.
    share : float, default=0.1
        With ``rows="time"``, the share of the last rows that are held out.
    refit : bool, default=False
        Whether the networks that were chosen are trained again on all rows, one in place of those of all folds, for the
        number of epochs that was best on the validation rows. `validation_score_`, `candidates_` and
        `feature_importances_` are those of the networks before.

    Examples
    --------
    >>> ValidationConfig("time", share=0.2)
    ValidationConfig(rows='time', share=0.2, refit=False)
    """

    rows: Any = None
    share: float = USUAL_SHARE
    refit: bool = False

    def __post_init__(self) -> None:
        check_validation(self.rows)
        if not isinstance(self.share, float | np.floating) or not 0.0 < self.share < 1.0:
            raise argument_error("share", "be a number between 0 and 1", self.share)
        if self.share != USUAL_SHARE and not isinstance(self.rows, str):
            hint = f"Write rows={self.share!r} for one random part of this share, or rows='time' for the last rows."
            raise argument_error("share", f"be left at {USUAL_SHARE} unless rows='time'", self.share, hint)
        check_bool(self.refit, "refit")

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Return a configuration from one, or from its rows."""
        return value if isinstance(value, cls) else cls(value)


USUAL_EFFORT = "balanced"
"""Default of the estimators' `effort`."""


@dataclass(frozen=True, eq=False)
class FitSettings:
    """The parameters of an estimator, checked; see `TabularRegressor`. `task` has what concerns the target."""

    task: Task
    encoding: Any
    backbone: str | Backbone
    effort: str
    time_limit: float | None
    search: str | None
    members: str
    n_members: int | None
    interactions: Any
    columns: ColumnConfig
    validation: ValidationConfig
    training: TrainingConfig | None
    warm_start: bool
    device: Any
    random_state: Any

    @classmethod
    def read(cls, parameters: Mapping[str, Any], task: str) -> "FitSettings":
        """Return the parameters of an estimator of a task."""
        values = dict(parameters)
        return cls(
            task=make_task(values.pop("objective"), task),
            columns=ColumnConfig.from_value(values.pop("columns")),
            validation=ValidationConfig.from_value(values.pop("validation")),
            **values,
        )

    def __post_init__(self) -> None:
        """Check all that does not need the table."""
        check_choice(self.effort, "effort", EFFORTS)
        check_choice(self.members, "members", MEMBERS)
        if self.n_members is not None:
            check_int(self.n_members, "n_members", minimum=1)
        if self.backbone != "auto":
            self._check_categories(make_backbone(self.backbone))
        _check_search(self.encoding, self.search)
        if self.interactions is not None:
            InteractionConfig.from_value(self.interactions)
        if not is_cluster(self.device):
            resolve_devices(self.device)
        check_bool(self.warm_start, "warm_start")
        if self.validation.refit and self.warm_start:
            hint = "Networks of a refit were trained on all rows: none is left to validate them by."
            raise argument_error("warm_start", "be False if the networks are refitted", self.warm_start, hint)
        if self.training is not None and not isinstance(self.training, TrainingConfig):
            hint = "Write TrainingConfig(max_epochs=50), for example."
            raise type_error("training", "be a TrainingConfig", self.training, hint)
        for name, usual in (("effort", USUAL_EFFORT), ("members", MEMBERS[0])):
            if not self.is_automatic and getattr(self, name) != usual:
                others = "encoding, backbone, search, n_members and training"
                reason = f"it decides what is trained only if none of {others} is given"
                hint = f"Leave {name} out, or these parameters."
                raise argument_error(name, f"be left at {usual!r}: {reason}", getattr(self, name), hint)
        self.config.metric_for(self.task.objective)

    def _check_categories(self, backbone: Backbone) -> None:
        """Check that `columns.categories` suits a network that embeds categories itself."""
        if backbone.takes_tokens and self.columns.categories != USUAL_CATEGORIES:
            reason = f"be {USUAL_CATEGORIES!r}: backbone={backbone.name!r} always learns vectors of categories"
            hint = "So do all FT-Transformers. Leave categories out, or choose another backbone."
            raise argument_error("categories", reason, self.columns.categories, hint)

    @property
    def config(self) -> TrainingConfig:
        """The configuration that names the metric and the time limit."""
        config = TrainingConfig() if self.training is None else self.training
        return config if self.time_limit is None else replace(config, time_limit=self.time_limit)

    @property
    def is_automatic(self) -> bool:
        """Whether `effort` decides what is trained."""
        chosen = (self.n_members, self.search, self.training)
        is_usual = isinstance(self.encoding, str) and self.encoding == "auto" and self.backbone == "auto"
        return is_usual and chosen == (None, None, None)

    def random_numbers(self) -> np.random.RandomState:
        """Return what random seeds and rows are drawn from."""
        try:
            random: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            requirement = "be None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
            raise argument_error("random_state", requirement, self.random_state) from error
        return random

    def plan(self, columns: Columns, data: TrainingTable, *, n_folds: int | None) -> FitPlan:
        """Return what is trained, on the number of folds that the user has decided, if any."""
        interactions = self._interactions_of(columns)
        if self.is_automatic:
            device, limit = device_type(self.device), self.time_limit
            if limit is not None and self.validation.refit:
                limit = share_of_validation(n_folds) * limit
            about: dict[str, Any] = {"members": self.members, "n_categorical": len(columns.cardinalities)}
            if limit is not None:
                about["speed"] = machine_speed(device)
            plan = plan_effort(self.effort, data, device=device, time_limit=limit, n_folds=n_folds, **about)
            return plan.with_interactions(interactions)
        encoding = columns.spread(self.encoding) if isinstance(self.encoding, Mapping) else self.encoding
        # The smoothness of a date is that of all its numbers.
        training = self.training and self.training.for_columns(columns.numerical_names, spread=columns.spread)
        plan = plan_choice(
            encoding,
            self.search,
            make_backbone("mlp" if self.backbone == "auto" else self.backbone),
            names=columns.numerical_names,
            objective=data.goal,
            training=training,
            n_members=self.n_members or 1,
        )
        return replace(plan, n_folds=n_folds or plan.n_folds).with_interactions(interactions)

    def _interactions_of(self, columns: Columns) -> InteractionConfig | None:
        """Return the interactions with places of the pairs among the numerical columns, unless they are to be found."""
        if self.interactions is None:
            return None
        config, labels = InteractionConfig.from_value(self.interactions), columns.numerical_names
        if len(labels) < 2:
            hint = f"The numerical columns are {labels}."
            raise argument_error("interactions", "be None for fewer than two numerical columns", config.pairs, hint)
        if not isinstance(config.pairs, tuple):
            return config
        by_place = dict(enumerate(columns.names or ()))  # columns of a table with names may be given by places
        pairs = [
            [column if column in labels else by_place.get(column, column) for column in pair] for pair in config.pairs
        ]
        return replace(config, pairs=tuple(place_pairs(pairs, labels, argument="interactions")))


RECOMMENDED = ("auto", "recommended")
"""Words for the encoding of `recommend`."""

ENSEMBLE = "ensemble"
SEARCHES = ("validated", ENSEMBLE, PER_FEATURE)
"""Ways to choose among encodings: validation rows decide on one or on a weighted mean, of all columns together, or
training rows on each column by itself."""

DEFAULT_SIZE = 15
BUDGET = "medium"
"""Of `recommend`, for ``encoding="recommended"``."""

CANDIDATES = (
    "Std",
    "BS-Q@7",
    "PLE@7",
    "PLE@15",
    "IS-Q@15",
    "BS-U@15",
    "PLE@30",
    "IS-Q@30",
    "IS-CART@30",
    "BS-Grad-U@30",
)
"""Encodings that ``search="validated"`` and ``"ensemble"`` try: those that are recommended for a medium budget, and
others that together with them come nearest to the best.

By the records in `results/` of MLP and ResNet on 25 tables, the best of these ten is on average 0.9 % above the error
(NRMSE, or 1 - AUC; geometric means, where more than twice counts as twice) of the best of the paper's 38 methods and
sizes, where the recommended encoding is 9.7 % above it and the best of all at size 15, 4.9 %. Knots from LightGBM are
not among them: they take longer to place than those of CART, and do not improve the result. Small sizes come first: the
time that their stacks leave goes to the others.
"""


def _check_search(encoding: Any, search: Any) -> None:
    """Raise an error if `search` does not fit `encoding`."""
    is_list = isinstance(encoding, Sequence) and not isinstance(encoding, str)
    if search is None:
        if is_list:
            hint = f"Set search to {listed(SEARCHES)}."
            raise argument_error("encoding", "be one for all columns, or a mapping, without search", encoding, hint)
        return
    check_choice(search, "search", SEARCHES)
    if not is_list and not (isinstance(encoding, str) and encoding == "auto"):
        hint = "Give a list of methods, leave encoding out, or leave search out."
        raise argument_error("encoding", "leave a choice if search is given", encoding, hint)
    if is_list and not (encoding and all(isinstance(each, str) for each in encoding)):
        raise argument_error("encoding", "name at least one method, and methods only", encoding)


def candidates_of(encoding: Any, usual: Sequence[str]) -> list[Encoding]:
    """Return the encodings to choose among: those of a list without duplicates, or the usual ones of a search."""
    specs = usual if isinstance(encoding, str) else encoding
    return list(dict.fromkeys(Encoding.parse(spec, DEFAULT_SIZE, argument="encoding") for spec in specs))


def choose_encodings(encoding: Any, *, names: list[Any], task: str, backbone: str) -> tuple[Encoding, ...]:
    """Return the encoding of each numerical column.

    Parameters
    ----------
    encoding : str or mapping
        ``"recommended"`` or ``"auto"``, a method with or without a size and an embedding, or a mapping from column
        names to these; columns that the mapping does not name have what is recommended, with the embedding of the
        others. Knots are learned in all columns that have some, or in none, and all have the same embedding.
    names : list
        Names of the numerical columns, or their places in the table.
    task, backbone : str
        The task, and the paper's backbone that is recommended for (`Backbone.advice`).
    """
    if not isinstance(encoding, Mapping):
        return (_choice(encoding, task, backbone),) * len(names)
    unknown = [name for name in encoding if name not in names]
    if unknown:
        raise argument_error("encoding", "name numerical columns of X", unknown, f"The numerical columns are {names}.")
    choices = _with_one_embedding(
        {name: _choice(encoding.get(name, "auto"), task, backbone) for name in names}, encoding
    )
    with_knots = [(name, choice) for name, choice in zip(names, choices, strict=True) if choice.has_knots]
    fixed = [name for name, choice in with_knots if not choice.learnable]
    if 0 < len(fixed) < len(with_knots):
        raise argument_error(
            "encoding",
            "have learned knots for all columns that have knots, or for none",
            {name: str(choice) for name, choice in zip(names, choices, strict=True)},
            f"Name methods with learned knots, such as 'IS-Grad-U', or 'Std', which has none, for {fixed}.",
        )
    return choices


def _with_one_embedding(choices: dict[Any, Encoding], named: Mapping[Any, Any]) -> tuple[Encoding, ...]:
    """Return the encodings, those of columns that are not named with the embedding of the others."""
    embeddings = {choices[name].embedding for name in named} or {None}
    if len(embeddings) > 1:
        raise argument_error(
            "encoding",
            "have the same embedding for all columns",
            {name: str(choices[name]) for name in named},
            "Write the same embedding after each encoding, as in {'age': 'BS-Q@15+L8', 'income': 'PLE@30+L8'}.",
        )
    (embedding,) = embeddings
    if embedding is None:
        return tuple(choices.values())
    return tuple(
        choice if name in named else replace(choice, method=f"{choice.method}+{embedding}")
        for name, choice in choices.items()
    )


def _choice(spec: Any, task: str, backbone: str) -> Encoding:
    if not isinstance(spec, str):
        requirement = f"be {', '.join(map(repr, RECOMMENDED))}, the name of a method, or a mapping from columns"
        raise type_error(
            "encoding", requirement, spec, "Write encoding='BS-Q@15', or {'age': 'BS-Q@15'} for one column."
        )
    if spec in RECOMMENDED:
        advice = recommend(task, backbone, budget=BUDGET)
        return Encoding(advice.method, advice.size)
    word = spec.partition("@")[0]
    if word in SEARCHES:
        raise argument_error("encoding", "name a method", spec, f"Write search={word!r} to choose among methods.")
    return Encoding.parse(spec, DEFAULT_SIZE, argument="encoding", also=RECOMMENDED)


def plan_choice(
    encoding: Any,
    search: str | None,
    backbone: Backbone,
    *,
    names: list[Any],
    objective: Objective,
    training: TrainingConfig | None,
    n_members: int,
) -> FitPlan:
    """Return the plan of a user who says what is trained; parameters as in `TabularRegressor`.

    `names` are those of the numerical columns, or their places in the table. If the encoding of each column is chosen
    by training rows, the recommended one stands for it until the rows of the folds are drawn.
    """
    about: dict[str, Any] = {"names": names, "task": objective.task, "backbone": backbone.advice}
    is_tried = search is not None and search != PER_FEATURE and bool(names)  # without numbers all candidates are equal
    if is_tried:
        choices = [(each,) * len(names) for each in candidates_of(encoding, CANDIDATES)]
    else:
        choices = [choose_encodings("recommended" if search is not None else encoding, **about)]
    config = TrainingConfig(**backbone.training(objective.trained_as)) if training is None else training
    recipes = [Recipe(choice, backbone, config) for choice in choices]
    way = search if search is not None and search != PER_FEATURE else "all"
    return FitPlan(recipes, way, n_seeds=n_members)


def choose_features(prepared: PreparedTable, names: Sequence[Any], encoding: Any = "auto") -> list[FeatureChoice]:
    """Choose the encoding of every numerical column on the training rows of the first fold.

    Values far out are moved to the ends of the column's usual range, as the networks do.

    Parameters
    ----------
    prepared : PreparedTable
        The table and its folds.
    names : sequence
        Names of the numerical columns.
    encoding : "auto" or sequence of str
        The methods to choose among.
    """
    if not len(names):
        return []
    split, table = prepared.splits[0], prepared.table
    rows = split.train
    numbers = table.numbers[rows].copy()
    for place in range(numbers.shape[1]):
        numbers[:, place] = to_usual_range(numbers[:, place])
    weights = None if table.weights is None else table.weights[rows]
    candidates = candidates_of(encoding, FEATURE_CANDIDATES)
    about: dict[str, Any] = {"task": table.task, "weights": weights, "candidates": candidates, "seed": split.seed}
    return choose_columns(numbers, table.target[rows], names=names, **about)


CONFIGURATIONS = ("backbone", "training", "interactions", "columns", "validation", "objective")
"""Parameters that are configurations, in the order in which they are set: training follows the backbone."""

CONFIGURATION_TYPES = (Backbone, TrainingConfig, InteractionConfig, ColumnConfig, ValidationConfig, Objective)
"""Their types."""

OTHER_NAMES = {
    "max_epochs": ("epochs", "n_epochs", "num_epochs", "max_iter", "n_iter"),
    "learning_rate": ("lr", "learning_rate_init", "eta", "eta0"),
    "patience": ("early_stopping", "early_stopping_rounds", "n_iter_no_change"),
    "weight_decay": ("alpha", "l2", "reg_lambda"),
    "metric": ("eval_metric", "scoring"),
    "widths": ("hidden_layer_sizes", "hidden_sizes", "layers", "units"),
    "n_members": ("n_estimators", "n_ensemble", "n_networks", "ensemble_size"),
    "validation": (
        "cv",
        "n_folds",
        "folds",
        "n_splits",
        "validation_fraction",
        "val_size",
        "test_size",
    ),
    "categorical": ("cat_features", "categorical_features", "categorical_feature"),
    "random_state": ("seed", "random_seed"),
    "time_limit": ("time_budget", "max_time", "timeout"),
    "backbone": ("model", "network", "architecture"),
    "encoding": ("encoder", "method"),
    "objective": ("loss", "loss_function", "criterion"),
    "interactions": ("pairs", "n_interactions", "interaction_constraints"),
    "device": ("accelerator", "gpu", "use_gpu"),
}
"""Names that other libraries have for what a parameter does."""

AT_FIT = {
    "X_val": "X_val=..., y_val=...",
    "y_val": "X_val=..., y_val=...",
    "eval_set": "X_val=..., y_val=...",
    **{name: f"{name}=..." for name in ("groups", "sample_weight", "scratch", "callbacks", "verbose")},
}
"""Arguments of `fit`, with their place in a call."""

ELSEWHERE = {
    "size": "The size is part of a method: encoding='BS-Q@15'.",
    "n_knots": "The number of columns, and so of knots, is part of a method: encoding='BS-Q@15'.",
    "engine": "Networks are trained on a Ray cluster with device='ray'.",
    "validation_share": "Write the share itself, validation=0.2, or ValidationConfig('time', share=0.2).",
    "n_jobs": "Networks are trained in as many threads as the process may use; torch.set_num_threads sets fewer.",
}
"""Arguments of other libraries that are expressed in another way."""

Function = TypeVar("Function", bound=Callable[..., Any])


def nested_parameters(parameters: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the parameters of an estimator's configurations, as in ``training__learning_rate``.

    Parameters
    ----------
    parameters : mapping
        The parameters of the estimator.
    task : {"regression", "classification"}
        Its task.
    """
    nested: dict[str, Any] = {}
    for name in CONFIGURATIONS:
        configuration = _configuration(parameters, name, task)
        if isinstance(configuration, CONFIGURATION_TYPES):
            nested |= {f"{name}__{field.name}": getattr(configuration, field.name) for field in fields(configuration)}
    return nested


def with_nested(parameters: Mapping[str, Any], changes: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return changes of parameters in which those of configurations are part of new configurations.

    Parameters
    ----------
    parameters : mapping
        The parameters of the estimator.
    changes : mapping
        Those that change, such as ``{"training__learning_rate": 0.01}``.
    task : {"regression", "classification"}
        Its task.
    """
    for name in changes:
        outer, separator, _ = name.partition("__")
        if separator and outer in parameters and outer not in CONFIGURATIONS:
            raise ArgumentError(f"{name} is not a valid parameter: only {listed(CONFIGURATIONS)} have parameters.")
    plain = {name: value for name, value in changes.items() if name.partition("__")[0] not in CONFIGURATIONS}
    plain |= {name: changes[name] for name in CONFIGURATIONS if name in changes}
    for name in CONFIGURATIONS:
        inner = {key.partition("__")[2]: value for key, value in changes.items() if key.startswith(f"{name}__")}
        if inner:
            configuration: Any = _configuration({**parameters, **plain}, name, task)
            if configuration is None:
                key = next(iter(inner))
                raise ArgumentError(f"{name}__{key} is not a valid parameter while {name} is None. Set {name} first.")
            for key, value in inner.items():
                _check_setting(configuration, name, key, value, task)
            plain[name] = replace(configuration, **inner)
    return plain


def _check_setting(configuration: Any, name: str, key: str, value: Any, task: str) -> None:
    """Raise an error if a configuration, the parameter `name` of an estimator, has no setting `key`."""
    is_configuration = isinstance(configuration, CONFIGURATION_TYPES)
    known = [field.name for field in fields(configuration)] if is_configuration else []
    if key in known:
        return
    message, similar = f"{type(configuration).__name__} has no {key}", _nearest(key, known)
    if similar:
        message += f". Did you mean {name}__{similar}?"
    else:
        message += f". Available: {listed(known, most=40)}." if known else ": it has no settings."
        *_, kind = _homes().get(key, (None,))
        if kind is not None and not (issubclass(kind, Objective) and kind().task != task):
            message += f" {_home(key, value)}"
    raise ArgumentError(f"{name}__{key} is not a valid parameter: {message}")


def _configuration(parameters: Mapping[str, Any], name: str, task: str) -> Any:
    """Return a configuration of an estimator, or the one that it would have if another parameter were set.

    A value that is not valid is returned as it is: fit refuses it.
    """
    value = parameters[name]
    if name == "training" and value is None:
        backbone = _configuration(parameters, "backbone", task)
        return TrainingConfig(**backbone.training(task)) if isinstance(backbone, Backbone) else TrainingConfig()
    if name == "training" or (name == "interactions" and value is None):  # None has none that would change anything
        return value
    readers: dict[str, Callable[[Any], Any]] = {
        "backbone": lambda value: make_backbone("mlp" if isinstance(value, str) and value == "auto" else value),
        "interactions": InteractionConfig.from_value,
        "columns": ColumnConfig.from_value,
        "validation": ValidationConfig.from_value,
        "objective": partial(make_objective, task=task),
    }
    try:
        return readers[name](value)
    except (TypeError, ValueError):
        return value


def hinted(function: Function) -> Function:
    """Return a constructor, or a method, that explains where an argument belongs that it does not have.

    Its signature is the same.
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]
    suffix = "" if function.__name__ == "__init__" else f".{function.__name__}"

    @wraps(function)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        unknown = next((name for name in named if name not in known), None)
        if unknown is not None:
            raise ArgumentTypeError(
                f"{type(self).__name__}{suffix}() got an unexpected keyword argument {unknown!r}. "
                f"{_hint(unknown, named[unknown], known)}"
            )
        return function(self, *args, **named)

    return checked  # type: ignore[return-value]


def _hint(name: str, value: Any, known: list[str]) -> str:
    """Return where an argument belongs, as a sentence."""
    if name in AT_FIT:
        return f"It is an argument of fit: fit(X, y, {AT_FIT[name]})."
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    name = next((usual for usual, others in OTHER_NAMES.items() if name in others), name)
    homes = _homes()
    for candidate in (name, _nearest(name, known), _nearest(name, list(homes))):
        if candidate in known:
            return f"Did you mean {candidate}={value!r}?"
        if candidate in homes:
            return _home(candidate, value)
    return f"Available: {listed(known, most=40)}."


def _home(name: str, value: Any) -> str:
    """Return which configuration has a parameter, as a sentence."""
    parameter, path, kind = _homes()[name]
    return f"{name} is a parameter of {kind.__name__}: {parameter}={path}({name}={value!r})."


def _homes() -> dict[str, tuple[str, str, type]]:
    """Return for each parameter of a configuration the estimator's parameter, and the class, by path and as a type."""
    kinds: list[tuple[str, str, type]] = [
        *(("objective", "knotwork", kind) for kind in reversed(OBJECTIVES.values())),
        *(("backbone", "knotwork.nn", kind) for kind in reversed(BACKBONES.values())),
        ("validation", "knotwork", ValidationConfig),
        ("columns", "knotwork", ColumnConfig),
        ("training", "knotwork", TrainingConfig),
    ]
    return {
        field.name: (parameter, f"{package}.{kind.__name__}", kind)
        for parameter, package, kind in kinds  # of several, the last one counts
        for field in fields(kind)
    }


def _nearest(name: str, known: list[str]) -> str:
    return next(iter(nearest(name, known)), "")


def check_source(X: Any, y: Any, device: Any) -> None:
    """Raise an error if a table in memory is given with the name of its target, or a stream to a cluster."""
    if is_stream(X):
        if is_cluster(device):
            hint = "Chunks of rows are read from a disk of this machine; device=['cuda:0', 'cuda:1'] uses several GPUs."
            raise argument_error("device", "be on this machine if X is read in batches", device, hint)
    elif isinstance(y, str) and not isinstance(X, str | PathLike):  # reading the table explains that one
        frame = as_frame(X)
        hint = (
            f"Pass X.drop(columns={y!r}) and X[{y!r}]."
            if frame is not None
            else ("X is not a table read in batches: open files by pyarrow.dataset.dataset([...]).")
        )
        raise type_error("y", "hold the values of the target if X is a table in memory", y, hint)
