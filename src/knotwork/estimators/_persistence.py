"""Saving a fitted estimator to one file, and loading it: tensors and JSON, no code.

Every value of a file is checked before it is used. The sizes that it declares are compared with the size of the file
itself, so that a file that declares huge networks is refused before it takes memory.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Number
from pathlib import Path
from types import NoneType
from typing import Any, Self, final, get_type_hints

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, check_int, type_error
from knotwork._kernels.encoding import StackPart
from knotwork._light import PREFIX, Residuals, saved_graph
from knotwork._model_files import (
    FILE_LIMITS,
    SCALARS,
    ModelFile,
    Reader,
    Writer,
    check_entries,
    check_shape,
    open_model_file,
    write_model_file,
)
from knotwork._preparation.columns import Columns
from knotwork._preparation.learning import SAVED_COLUMNS, TableColumn
from knotwork._preparation.members import N_FLAGS
from knotwork._preparation.targets import Labels
from knotwork._trees import TREE_NAMES, Forest
from knotwork._writing import counted
from knotwork.encoders import METHOD_TABLE, Embedding, Encoding, FeatureChoice
from knotwork.errors import ArgumentError, PersistenceError
from knotwork.estimators._base import TabularEstimator
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._model import Calibration, Classification, FittedModel, Regression, Task
from knotwork.estimators._predictor import predictor_of
from knotwork.estimators._saved_networks import (
    MOST_LAYERS,
    ModelShape,
    SavedForests,
    SavedPiece,
    check_layers,
    network_arrays,
    saved_piece,
)
from knotwork.estimators._settings import ColumnConfig, ValidationConfig
from knotwork.nn import BACKBONES, InteractionConfig, StackLayout
from knotwork.training import (
    CATEGORIES,
    METRICS,
    OBJECTIVES,
    History,
    NetworkPiece,
    Objective,
    Piece,
    Trained,
    TrainingConfig,
    resolve_device,
)

Floats = npt.NDArray[np.float64]

CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (TabularRegressor, TabularClassifier)}
"""The estimators that files have, by name."""

UNSAVED = ("device",)
"""Parameters that are not in a file."""

CANDIDATE = ("method", "size", "backbone", "score", "metric", "seconds", "weight")
"""The entries of a candidate."""

MOST_SPECS = 10_000
MOST_PIECES = 250
"""Largest numbers of different encodings and of stacks of networks in a file, far more than any model has."""

MOST_SHUFFLED = 500
"""Columns up to which importances are computed for the file: the time grows with the square of their number."""


@final
@dataclass(frozen=True, eq=False)
class SavedEstimator:
    """A `FittedModel` in a file, without the tensors of networks and the histories of training."""

    task: Task
    columns: tuple[TableColumn, ...]
    indicated: tuple[int, ...]
    target_name: str | None
    n_targets: int | None
    config: TrainingConfig
    encodings: tuple[tuple[str, ...], ...]
    weights: Floats
    calibration: Calibration
    candidates: tuple[dict[str, Any], ...]
    choices: tuple[FeatureChoice, ...]
    score: float | None
    importances: Floats | None
    categories: str
    pieces: tuple[SavedPiece | SavedForests, ...]
    units: Floats
    best_epochs: tuple[int, ...]
    seconds: tuple[float, ...]
    interrupted: bool

    @classmethod
    def from_model(cls, model: FittedModel) -> Self:
        """Return what is saved of a model; JSON has no NaN."""
        trained, task = model.trained, model.task
        return cls(
            task=replace(task, by_class=None),
            columns=tuple(model.columns),
            indicated=model.indicated,
            target_name=model.target_name,
            n_targets=None if isinstance(task, Classification) else model.n_targets,
            config=model.config,
            encodings=tuple(tuple(each.values()) for each in model.encodings),
            weights=model.weights,
            calibration=model.calibration,
            candidates=tuple({**each, "score": _known(each["score"])} for each in model.candidates),
            choices=tuple(FeatureChoice(**each) for each in model.choices),
            score=_known(model.score),
            importances=model.importances if model.can_tell_importances(MOST_SHUFFLED) else None,
            categories=trained.networks[0].network.categories if trained.networks else CATEGORIES[0],
            pieces=tuple(map(saved_piece, trained.pieces)),
            units=np.asarray(trained.units, dtype=np.float64),
            best_epochs=tuple(history.best_epoch for history in trained.histories),
            seconds=tuple(history.seconds for history in trained.histories),
            interrupted=trained.interrupted,
        )


SAVED_TYPES = SAVED_COLUMNS | {
    kind.__name__: kind
    for kind in (
        ColumnConfig, ValidationConfig, TrainingConfig, InteractionConfig, SavedEstimator, Regression, Classification,
        Labels, Calibration, Residuals, FeatureChoice, SavedPiece, SavedForests, Forest,
        StackLayout, StackPart, Embedding,
    )
}  # fmt: skip
"""The values of which files consist, besides backbones and objectives, by name."""


def _known(score: float) -> float | None:
    return float(score) if np.isfinite(score) else None


def save(estimator: TabularEstimator, path: str | Path) -> None:
    """Write a fitted estimator to one file; an existing file is replaced only when the new one is complete.

    The file has the safetensors format: tensors, and one JSON text with everything else. It does not contain the rows
    of the table, but it contains the categories of its columns. The device is not saved, nor are a random state that is
    not an integer and a splitter. Importances of more than 500 columns are saved only if `feature_importances_` was
    used before.

    Parameters
    ----------
    estimator : TabularRegressor or TabularClassifier
        A fitted estimator.
    path : str or Path
        The file.
    """
    if type(estimator) not in CLASSES.values():
        raise type_error("estimator", "be a TabularRegressor or a TabularClassifier", estimator)
    model, writer = estimator._model, Writer({**SAVED_TYPES, **BACKBONES, **OBJECTIVES})
    parameters = {name: each for name, each in estimator.get_params(deep=False).items() if name not in UNSAVED}
    random, validation = parameters["random_state"], parameters["validation"]
    parameters["random_state"] = int(random) if isinstance(random, Integral) else None
    parameters["validation"] = _plain_validation(validation)
    content = {
        "class": type(estimator).__name__,
        "parameters": {name: writer.write(each, name) for name, each in parameters.items()},
        "model": writer.write(SavedEstimator.from_model(model)),
    }
    histories, pieces = model.trained.histories, model.trained.pieces
    for place, history in enumerate(histories):
        rows = [history.loss, history.score, history.learning_rate]
        writer.arrays[f"member{place}.history"] = np.array(rows, dtype=np.float64)
    arrays = writer.arrays | network_arrays(pieces)
    with suppress(ArgumentError):  # parts of a user that only torch computes
        graph = saved_graph(predictor_of(model), arrays)
        if graph is not None:
            content["graph"], more = graph
            arrays |= more
    for piece in model.trained.networks:
        try:
            check_layers(vars(piece.backbone), n_layers=MOST_LAYERS, n_elements=sys.maxsize)
        except ValueError as error:
            raise PersistenceError(f"The estimator cannot be saved: {error} Fit again with fewer layers.") from error
    if len(arrays) > FILE_LIMITS.n_tensors or len(pieces) > MOST_PIECES:
        raise PersistenceError(
            f"The estimator cannot be saved: it has {counted(len(arrays))} tensors in {counted(len(pieces))} stacks. "
            f"A file has at most {counted(FILE_LIMITS.n_tensors)} in {counted(MOST_PIECES)}. "
            "Fit again with fewer members or layers."
        )
    write_model_file(path, content, arrays)


def _plain_validation(value: Any) -> Any:
    """Return which rows are held out; splitters and rows are not saved."""
    if isinstance(value, ValidationConfig):
        return replace(value, rows=_plain_validation(value.rows))
    return value if isinstance(value, str | Number) else None


def load(path: str | Path, *, device: Any = "auto") -> Any:
    """Return the estimator that `save` wrote.

    No code in the file is run, and everything is checked before it is used: a file that is damaged, truncated or
    malicious raises an error. The estimator predicts as before, on the same kind of device bit for bit.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str or torch.device, default="auto"
        Device for predictions, whichever device the estimator was trained on; by default a GPU if one is available.

    Returns
    -------
    TabularRegressor, TabularClassifier, AdditiveRegressor or AdditiveClassifier
        The fitted estimator, which can be used, saved and fitted like any other.

    Raises
    ------
    PersistenceError
        If the file was not written by knotwork, is damaged, or was written by another version; a ValueError.
    FileNotFoundError
        If the file does not exist.
    """
    torch_device = resolve_device(device)
    with open_model_file(path) as file:
        if file.content["class"] not in list(CLASSES):  # it may be anything, also without a hash
            from knotwork import additive  # noqa: PLC0415 - networks do not wait for it

            if file.content["class"] in list(additive.SAVED_CLASSES):
                return additive.load(path)
        estimator, model = _estimator(file)
    estimator.device, estimator._model = device, replace(model, trained=model.trained.to(torch_device))
    return estimator


def _estimator(file: ModelFile) -> tuple[TabularEstimator, FittedModel]:
    """Return an estimator that is not fitted, and its model."""

    def check(kind: type, settings: Mapping[str, Any]) -> None:
        if kind in BACKBONES.values():
            check_layers(settings, n_layers=MOST_LAYERS, n_elements=file.n_elements)

    content, reader = file.content, Reader({**SAVED_TYPES, **BACKBONES, **OBJECTIVES}, file, check)
    kind = CLASSES[check_choice(content["class"], "class", CLASSES)]
    estimator = kind(**_parameters(content["parameters"], reader))
    saved = reader.read(content["model"], SavedEstimator)
    if saved.task.name != kind._task:
        raise argument_error("task", f"be {kind._task}", saved.task.name)
    model = _model(saved, file)
    file.ignore(PREFIX)
    file.check_arrays()
    return estimator, model


def _parameters(content: Any, reader: Reader) -> dict[str, Any]:
    """Return the parameters of an estimator without those that are not saved."""
    known = [name for name in TabularEstimator._get_param_names() if name not in UNSAVED]
    check_entries(content, "parameters", known)
    hints = get_type_hints(TabularEstimator.__init__)
    hints |= {"objective": str | Objective, "random_state": int | None}
    values = {name: reader.read(content[name], hints[name], name) for name in known}
    for name in ("time_limit", "n_members", "random_state"):
        if (values[name] or 0) < 0:
            raise argument_error(name, "be at least 0", values[name])
    if isinstance(values["backbone"], str):
        check_choice(values["backbone"], "backbone", ("auto", *BACKBONES))
    rows = ValidationConfig.from_value(values["validation"]).rows
    if rows is not None and type(rows) not in SCALARS:
        raise type_error("validation", "be a word or a number", type(rows).__name__)
    if values["interactions"] is not None:
        InteractionConfig.from_value(values["interactions"])
    return values


def _model(saved: SavedEstimator, file: ModelFile) -> FittedModel:
    """Return a fitted model, after a check that all parts suit each other."""
    columns, task, n_members = Columns(saved.columns), saved.task, len(saved.best_epochs)
    names, objective = columns.numerical_names, task.objective
    _check_task(saved)
    saved.config.metric_for(objective)
    if sorted(set(saved.indicated)) != [*saved.indicated] or not {*saved.indicated} <= {*range(len(names))}:
        raise argument_error("indicated", f"increase and be smaller than {len(names)}", saved.indicated)
    trained = _trained(saved, file, columns)
    if saved.importances is not None:
        check_shape("importances", saved.importances.shape, (len(columns),))
    check_shape("weights", saved.weights.shape, (n_members,))
    if (saved.weights < 0.0).any() or abs(saved.weights.sum() - 1.0) > 1e-9:
        raise argument_error("weights", "be at least 0 and add up to one", saved.weights.tolist()[:5])
    if [choice.column for choice in saved.choices] not in ([], names):
        raise argument_error("choices", f"be empty, or one for each of {len(names)} columns", len(saved.choices))
    for candidate in saved.candidates:
        _check_candidate(candidate, objective.metric.name)
    return FittedModel(
        task=task,
        columns=columns,
        indicated=saved.indicated,
        trained=trained,
        weights=saved.weights,
        encodings=_encodings(saved, names),
        config=saved.config,
        calibration=saved.calibration,
        candidates=[{**each, "score": np.nan if each["score"] is None else each["score"]} for each in saved.candidates],
        choices=[asdict(choice) for choice in saved.choices],
        score=np.nan if saved.score is None else saved.score,
        target_name=saved.target_name,
        known_importances=saved.importances,
    )


def _check_task(saved: SavedEstimator) -> None:
    """Check the objective, and what was learned from rows that were held out."""
    task, residuals, groups = saved.task, saved.calibration.residuals, saved.calibration.groups
    if task.objective.task != task.name:
        raise argument_error("objective", f"be one for {task.name}", task.objective.name)
    has_classes = isinstance(task, Classification)
    if (task.labels is not None) != has_classes or (has_classes and (residuals is not None or saved.n_targets)):
        raise argument_error("labels", "be those of a classifier, without residuals and several targets", task.name)
    check_int(2 if saved.n_targets is None else saved.n_targets, "n_targets", minimum=2)
    if saved.calibration.temperature < 1e-3:
        raise argument_error("temperature", "be a number of at least 0.001", saved.calibration.temperature)
    if len(saved.calibration.offsets) not in (0, task.n_classes):
        raise argument_error("offsets", f"be one for each of {task.n_classes} classes", len(saved.calibration.offsets))
    for group in groups:
        check_entries(group, "calibration", ("probability", "frequency", "rows"))
        if min(group.values()) < 0.0 or check_int(group["rows"], "rows", minimum=1) < 1:
            raise argument_error("calibration", "be at least 0", group)
    if residuals is None:
        return
    (low, high), n_targets = residuals.ends, saved.n_targets or 1
    check_shape("values", residuals.values.shape, (n_targets, None))
    check_shape("floor", residuals.floor.shape, (n_targets,))
    if not 0.0 < low <= high < 1.0 or not residuals.values.size or (residuals.floor < 0.0).any():
        raise argument_error("residuals", "have two ends between 0 and 1, and a floor for each target", residuals.ends)
    if (np.diff(residuals.values, axis=1) < 0.0).any():
        raise argument_error("residuals", "increase", residuals.values.shape)


def _trained(saved: SavedEstimator, file: ModelFile, columns: Columns) -> Trained:
    task, n_numerical = saved.task, len(columns.numerical_names)
    if len(saved.pieces) > MOST_PIECES:
        raise argument_error("pieces", f"be at most {MOST_PIECES}", len(saved.pieces))
    places = sorted(place for piece in saved.pieces for place in piece.places)
    n_members = len(saved.best_epochs)
    if not places or places != list(range(n_members)) or len(saved.seconds) != n_members:
        raise argument_error("places", f"name each of {n_members} members once", places[:5])
    shape = ModelShape(
        n_numerical,
        (*columns.cardinalities, *[N_FLAGS] * len(saved.indicated)),
        check_choice(saved.categories, "categories", CATEGORIES),
        task.name,
        max(task.n_classes, 2) if task.n_classes else (saved.n_targets or 1) * task.objective.n_outputs,
        saved.n_targets,
    )
    pieces: list[Piece] = [piece.restored(file, f"pieces{place}", shape) for place, piece in enumerate(saved.pieces)]
    for piece in pieces:
        if isinstance(piece, NetworkPiece):
            piece.network.reproducible = saved.config.reproducible
    histories = []
    for place, (best, seconds) in enumerate(zip(saved.best_epochs, saved.seconds, strict=True)):
        loss, score, rate = file.array(f"member{place}.history", (3, None), "float64", is_finite=False)
        if not 0 <= best <= len(loss) or seconds < 0.0:
            raise argument_error("best_epochs", f"be at most {len(loss)}, the number of epochs", best)
        histories.append(History(loss, score, rate, best, seconds))
    check_shape("units", saved.units.shape, (2, n_numerical))
    if (saved.units[1] <= 0.0).any():
        raise argument_error("units", "be larger than 0", float(saved.units[1].min()))
    return Trained(pieces, histories, saved.units, task.objective, saved.interrupted)


def _encodings(saved: SavedEstimator, names: list[Any]) -> list[dict[Any, str]]:
    """Return the encoding of each numerical column for each member; boosted trees have none."""
    content, n_members = saved.encodings, len(saved.best_epochs)
    trees = {place for piece in saved.pieces if isinstance(piece, SavedForests) for place in piece.places}
    expected = [0 if place in trees else len(names) for place in range(n_members)]
    if [len(specs) for specs in content] != expected:
        requirement = f"have one entry for each of {n_members} members and {len(names)} numerical columns"
        raise argument_error("encodings", requirement, len(content))
    different = {spec for specs in content for spec in specs}
    if len(different) > MOST_SPECS:
        raise argument_error("encodings", f"have at most {MOST_SPECS} different entries", len(different))
    for spec in different:
        Encoding.parse(spec)
    return [dict(zip(names, specs, strict=False)) for specs in content]


def _check_candidate(content: dict[str, Any], metric: str) -> None:
    check_entries(content, "candidate", CANDIDATE)
    if content["method"] is not None:
        check_choice(content["method"], "method", METHOD_TABLE)
    check_int(1 if content["size"] is None else content["size"], "size", minimum=1)
    check_choice(content["backbone"], "backbone", (*BACKBONES, *TREE_NAMES))
    check_choice(content["metric"], "metric", (*METRICS, metric))
    if type(content["score"]) not in (int, float, NoneType):
        raise type_error("score", "be a number", content["score"])
    for name in ("seconds", "weight"):
        if type(content[name]) not in (int, float) or content[name] < 0.0:
            raise type_error(name, "be a number of at least 0", content[name])
