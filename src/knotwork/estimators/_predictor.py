"""A fitted estimator as a graph: from numbers and codes of categories to predictions.

Members become separate parts of the graph, with their weights as constants.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from knotwork._checks import argument_error
from knotwork._graph import DOUBLE, FLOAT, Graph, as_numpy
from knotwork._light import Predictor, add_calibration, add_mean
from knotwork._preparation.columns import LARGEST_FLOAT
from knotwork._trees import Forest, ForestPiece, predicts_itself
from knotwork.basis import FAMILIES
from knotwork.estimators._graph_encodings import encoded_features
from knotwork.estimators._model import FittedModel
from knotwork.training import Network, Objective, Piece, output_units

Inputs = tuple[str | None, str | None, str | None]
"""Names of numbers in their units, codes, and missing values."""


def predictor_of(model: FittedModel) -> Predictor:
    """Return the predictor of a fitted model.

    Networks and objectives need a method ``to_graph``, as those of the library have, and added families of encodings
    a function of this name.
    """
    _check_parts(model)
    graph, objective, pieces = Graph(), model.task.objective, model.trained.pieces
    inputs = _inputs(graph, model)
    outputs = [
        _member_outputs(graph, piece, index, inputs, objective)
        for piece in pieces
        for index in range(len(piece.places))
    ]
    weights = [float(model.weights[place]) for piece in pieces for place in piece.places]
    if model.task.labels is not None:
        _add_classes(graph, outputs, weights, model)
    else:
        _add_numbers(graph, add_mean(graph, outputs, weights), model)
    return Predictor(
        graph,
        model.columns,
        model.task.labels,
        tuple(model.response_names),
        model.target_name,
        model.calibration.residuals if "centre" in graph.outputs else None,
        objective.is_positive,
        model.n_targets,
    )


def _check_parts(model: FittedModel) -> None:
    """Refuse objectives, networks and encodings that cannot be written to a graph."""
    objective = model.task.objective
    if objective.task == "regression" and _place_of(objective, "to_graph") > _place_of(objective, "predictions"):
        raise argument_error(
            "objective",
            "have a method to_graph beside its method predictions, to be exported",
            objective,
            "Write it, or keep the model with save and serve it with knotwork.load.",
        )
    for piece in model.trained.networks:
        kind = type(piece.network.backbone)
        if "to_graph" not in vars(kind):  # a subclass that inherits it may compute something else
            raise argument_error(
                "backbone",
                "build a network whose class has a method to_graph, to be exported",
                piece.backbone,
                f"{kind.__name__} has none: write it, or keep the model with save and serve it with knotwork.load.",
            )
        for part in piece.network.encoding.layout.parts:
            if part.family and FAMILIES[part.family].to_graph is None:
                raise argument_error(
                    "encoding",
                    "be of a family with a function to_graph, to be exported",
                    part.family,
                    "Add it to the Family, or keep the model with save and serve it with knotwork.load.",
                )


def _place_of(objective: Objective, name: str) -> int:
    """Return how far up the classes of an objective a method is defined."""
    return next(place for place, base in enumerate(type(objective).__mro__) if name in vars(base))


def _inputs(graph: Graph, model: FittedModel) -> Inputs:
    """Return the names of numbers in units, of codes and of missing values."""
    numbers = missing = None
    codes = ["codes"] if model.columns.cardinalities else []
    if model.columns.numerical_names:
        numbers, missing = _in_units(graph, model.trained.units)
        if model.indicated:
            indicated = graph("Gather", missing, np.array(model.indicated, dtype=np.int64), axis=1)
            codes.append(graph("Where", indicated, graph.ints(1), graph.ints(2)))
    return numbers, graph.join(codes, 1) if codes else None, missing


def _in_units(graph: Graph, units: Any) -> tuple[str, str]:
    """Add the float32 numbers in their units, with the origin for missing ones; return them, and which are missing.

    The order of operations is that of `knotwork.training._members.in_units`: halves, so that no difference overflows.
    """
    missing = graph("IsNaN", "numbers")
    limit = float(np.finfo(np.float32).max) / 4
    known = graph("Where", missing, units[0], "numbers")
    bounded = graph("Clip", known, np.float64(-LARGEST_FLOAT), np.float64(LARGEST_FLOAT))
    halves = graph("Sub", graph("Mul", bounded, np.float64(0.5)), 0.5 * units[0])
    scaled = graph("Clip", graph("Div", halves, 0.5 * units[1]), np.float64(-limit), np.float64(limit))
    return graph("Cast", scaled, to=FLOAT), missing


def _member_outputs(graph: Graph, piece: Piece, member: int, inputs: Inputs, objective: Objective) -> str:
    """Add the outputs of one member in float64: in units of the target, or logits.

    `inputs` are the names of numbers, codes and missing values.
    """
    shift, scale = (as_numpy(values[member]) for values in output_units(objective, (piece.shift, piece.scale)))
    n_targets = len(shift) // objective.n_outputs
    if isinstance(piece, ForestPiece):
        predictions = _forest_predictions(graph, piece.forests[member], objective, n_targets)
    else:
        predictions = _network_predictions(graph, piece, member, inputs, objective, n_targets)
    if objective.task == "classification":
        return predictions
    return graph("Add", graph("Mul", predictions, scale), shift)


def _network_predictions(
    graph: Graph, piece: Any, member: int, inputs: Inputs, objective: Objective, n_targets: int
) -> str:
    """Add what a network predicts, in units of the target, or logits."""
    network, encoded = piece.network, None
    numbers, codes, missing = inputs
    if numbers is not None and missing is not None:
        encoded = encoded_features(graph, numbers, missing, network=network, member=member)
    outputs = graph("Cast", _run(graph, encoded, codes, network=network, member=member), to=DOUBLE)
    return outputs if objective.task == "classification" else objective.to_graph(graph, outputs, n_targets)


def _forest_predictions(graph: Graph, forest: Forest, objective: Objective, n_targets: int) -> str:
    """Add what boosted trees predict, in units of the target, or logits."""
    scores = graph("Trees", "numbers", "codes", *forest.arrays, n_numerical=forest.n_numerical)
    if objective.task == "classification":
        return scores
    if not predicts_itself(objective):
        return objective.to_graph(graph, scores, n_targets)
    n_levels = objective.n_outputs
    levels = graph.reshape(scores, -1, n_targets, n_levels)
    parts = [graph("Gather", levels, graph.ints(place), axis=2) for place in range(n_levels)]
    for place in range(1, n_levels):  # quantiles do not cross
        parts[place] = graph("Max", parts[place - 1], parts[place])
    return graph.reshape(graph.join(parts, 2), -1, n_targets * n_levels)


def _add_numbers(graph: Graph, mean: str, model: FittedModel) -> None:
    """Add predictions in the shape of `predict`, and what intervals need."""
    objective = model.task.objective
    targets = () if model.n_targets is None else (model.n_targets,)
    parts = graph.reshape(mean, -1, model.n_targets or 1, objective.n_outputs)
    if objective.has_levels:
        graph.outputs["prediction"] = graph.reshape(mean, -1, *targets, objective.n_outputs)
    else:
        for place, name in enumerate(("prediction", "std") if objective.predicts_std else ("prediction",)):
            graph.outputs[name] = graph.reshape(graph.pick(parts, place), -1, *targets)
    with suppress(TypeError, AttributeError):  # an objective of a user may do what cannot be written to a graph
        ends = objective.centre_and_spread(cast("Any", _Written(graph, parts, objective.n_outputs)))
        centre, spread = (each.name if isinstance(each, _Written) else cast("Any", each) for each in ends)
        zero = graph("Mul", centre, np.float64(0.0))  # of the shape of both
        graph.outputs["centre"], graph.outputs["spread"] = centre, graph("Add", spread, zero)


@dataclass(frozen=True)
class _Written:
    """Predictions of shape (n, n_targets, n_outputs) in a graph: arithmetic with them is written to it."""

    graph: Graph
    name: str
    n_outputs: int
    shape = (1, 1, 1)
    __array_ufunc__ = None

    def _with(self, operation: str, *inputs: Any) -> "_Written":
        names = [each.name if isinstance(each, _Written) else np.float64(each) for each in inputs]
        return replace(self, name=self.graph(operation, *names))

    def __getitem__(self, places: tuple[Any, int]) -> "_Written":
        return replace(self, name=self.graph.pick(self.name, range(self.n_outputs)[places[1]]))

    def __add__(self, other: Any) -> "_Written":
        return self._with("Add", self, other)

    def __sub__(self, other: Any) -> "_Written":
        return self._with("Sub", self, other)

    def __rmul__(self, other: Any) -> "_Written":
        return self._with("Mul", self, other)

    def __pow__(self, other: Any) -> "_Written":
        return self._with("Pow", self, other)


def _add_classes(graph: Graph, outputs: list[str], weights: list[float], model: FittedModel) -> None:
    """Add probabilities."""
    # A single class has two logits, of which the second has no meaning.
    ends = graph.ints(0), graph.ints(model.task.n_classes), graph.ints(1)
    shares = [graph("Softmax", graph("Slice", logits, *ends), axis=1) for logits in outputs]
    mean = add_mean(graph, shares, weights)
    calibration = model.calibration
    graph.outputs["probabilities"] = add_calibration(graph, mean, calibration.temperature, calibration.offsets)


def _run(graph: Graph, encoded: str | None, codes: str | None, *, network: Network, member: int) -> str:
    """Add the backbone of one member; return the name of its outputs, float32 of shape (n, d_out).

    `encoded` are the encoded numbers of shape (n, n_features, size), `codes` int64 of shape (n, n_categorical); either
    is None if the table has no such columns.
    """
    backbone: Any = network.backbone
    settings = {"member": member, "logits": network.task == "classification"}
    if network.has_tokens:
        return str(backbone.to_graph(graph, encoded, codes, **settings))
    parts = [] if encoded is None else [graph("Flatten", encoded, axis=1)]
    if codes is not None:
        parts += _category_inputs(graph, codes, network=network, member=member)
    return str(backbone.to_graph(graph, graph.join(parts, 1), **settings))


def _category_inputs(graph: Graph, codes: str, *, network: Network, member: int) -> list[str]:
    """Add the inputs from categories: codes, one-hot columns and vectors."""
    parts: list[str] = []
    if network.categories == "code":
        parts.append(graph("Sub", graph("Cast", codes, to=FLOAT), np.float32(1.0)))
    if network.one_hot_places.shape[1]:
        features, *values = as_numpy(network.one_hot_places)
        chosen = graph("Gather", codes, features, axis=1)
        signs = [graph("Cast", graph("Equal", chosen, code), to=FLOAT) for code in values]
        parts.append(graph("Sub", *signs))
    if network.embeddings is not None:
        embeddings, places = network.embeddings.values, as_numpy(network.embedded_places)
        chosen = graph("Gather", codes, places, axis=1)
        vectors = graph.look_up(chosen, embeddings[member], network.category_starts)
        parts.append(graph.reshape(vectors, -1, len(places) * embeddings.shape[-1]))
    return parts
