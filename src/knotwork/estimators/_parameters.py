"""Arguments of the estimators: parameters of configurations by name, hints for similar names, sources of `fit`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial, wraps
from os import PathLike
from typing import Any, TypeVar

from knotwork._checks import argument_error, listed, nearest, type_error
from knotwork._tables import as_frame, is_stream
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.estimators._configs import ColumnConfig, ValidationConfig
from knotwork.nn import BACKBONES, Backbone, InteractionConfig, make_backbone
from knotwork.training import OBJECTIVES, Objective, TrainingConfig, is_cluster, make_objective

__all__ = ["check_source", "hinted", "nested_parameters", "with_nested"]

CONFIGURATIONS = ("backbone", "training", "interactions", "columns", "validation", "objective")
"""Parameters that are configurations, in the order in which they are set: training follows the backbone."""

KINDS = (Backbone, TrainingConfig, InteractionConfig, ColumnConfig, ValidationConfig, Objective)
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
"""Arguments that are said otherwise."""

Init = TypeVar("Init", bound=Callable[..., None])


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
        if isinstance(configuration, KINDS):
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
            known = [field.name for field in fields(configuration)] if isinstance(configuration, KINDS) else []
            for key in inner:
                if key not in known:
                    kind, similar = type(configuration).__name__, _nearest(key, known)
                    hint = f"Did you mean {name}__{similar}?" if similar else f"Available: {listed(known, most=40)}."
                    raise ArgumentError(f"{name}__{key} is not a valid parameter: {kind} has no {key}. {hint}")
            plain[name] = replace(configuration, **inner)
    return plain


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


def hinted(init: Init) -> Init:
    """Return a constructor that explains where an argument belongs that it does not have; its signature is the same."""
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @wraps(init)
    def checked(self: Any, *given: Any, **named: Any) -> None:
        unknown = next((name for name in named if name not in known), None)
        if unknown is not None:
            raise ArgumentTypeError(
                f"{type(self).__name__}() got an unexpected keyword argument {unknown!r}. "
                f"{_hint(unknown, named[unknown], known)}"
            )
        init(self, *given, **named)

    return checked  # type: ignore[return-value]


def _hint(name: str, value: Any, known: list[str]) -> str:
    """Return where an argument belongs, as a sentence."""
    if name in AT_FIT:
        return f"It is an argument of fit: fit(X, y, {AT_FIT[name]})."
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    name = next((usual for usual, others in OTHER_NAMES.items() if name in others), name)
    homes = _homes()
    for wanted in (name, _nearest(name, known), _nearest(name, list(homes))):
        if wanted in known:
            return f"Did you mean {wanted}={value!r}?"
        if wanted in homes:
            parameter, path, kind = homes[wanted]
            return f"{wanted} is a parameter of {kind.__name__}: {parameter}={path}({wanted}={value!r})."
    return f"Available: {listed(known, most=40)}."


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
        for parameter, package, kind in kinds  # of several, the last one is named
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
    elif isinstance(y, str) and not isinstance(X, str | PathLike):  # of which the error names the next step
        frame = as_frame(X)
        hint = f"Pass X.drop(columns={y!r}) and X[{y!r}]." if frame is not None else (
            "X is no table that is read in batches: open files by pyarrow.dataset.dataset([...])."
        )  # fmt: skip
        raise type_error("y", "hold the values of the target if X is a table in memory", y, hint)
