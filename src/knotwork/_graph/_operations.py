"""The operations of graphs: one table, over which all runtimes and formats iterate.

Operations and their attributes are those of ONNX, opset 18, but for those of the library. The functions here, in
numpy, are the definition; `runtime.js` has the same in JavaScript, and `Operator.code` in C.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knotwork._graph._forest import Forest
from knotwork._graph._graph import Array, Graph

SELU_FACTORS = (1.0507009873554805, 1.6732632423543772)
"""Of the function SELU, and of its exponential."""


@dataclass(frozen=True)
class Operator:
    """An operation of graphs.

    Parameters
    ----------
    function : callable
        Its value in numpy: takes the inputs as arrays, and the attributes by name.
    code : str
        Of an operation on each element, its formula in C, of the elements a, b and c of the inputs.
    expand : callable or None
        Adds the same in other operations to a graph, for formats that do not have it: takes the graph, the names of the
        inputs, and attributes.
    """

    function: Callable[..., Array]
    code: str = ""
    expand: Callable[..., str] | None = None


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _matmul(a: Array, b: Array) -> Array:
    values: Array = np.matmul(np.ascontiguousarray(a), b)  # of other layouts NumPy computes products without BLAS
    return values


def _mish(x: Array) -> Array:
    """Return ``x tanh(log(1 + exp(x)))`` by one exponential, which NumPy has as a loop over vectors."""
    e = np.exp(np.minimum(x, x.dtype.type(20.0)))
    e *= e + 2
    values: Array = x * (e / (e + 2))
    return values


def _selu(x: Array) -> Array:
    scale, factor = map(x.dtype.type, SELU_FACTORS)
    values: Array = scale * np.where(x > 0, x, factor * (np.exp(np.minimum(x, 0)) - 1))
    return values


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _sum(*values: Array) -> Array:
    out = values[0]
    for value in values[1:]:
        out = out + value
    return out


def _reshape(x: Array, shape: Array) -> Array:
    return x.reshape([x.shape[place] if length == 0 else length for place, length in enumerate(shape.tolist())])


def _pad(x: Array, pads: Array) -> Array:
    before, after = pads.tolist()[: x.ndim], pads.tolist()[x.ndim :]
    out = np.zeros([low + length + high for low, length, high in zip(before, x.shape, after, strict=True)], x.dtype)
    out[tuple(slice(low, low + length) for low, length in zip(before, x.shape, strict=True))] = x
    return out


def _slice(x: Array, start: Array, stop: Array, axis: Array) -> Array:
    places = [slice(None)] * x.ndim
    places[int(axis[0])] = slice(int(start[0]), int(stop[0]))
    return x[tuple(places)]


def _cumulated(x: Array, axis: Array, *, reverse: int = 0) -> Array:
    if reverse:
        return np.flip(np.cumsum(np.flip(x, int(axis)), int(axis)), int(axis))
    return np.cumsum(x, int(axis))


def _softmax(x: Array, *, axis: int) -> Array:
    shares = np.exp(x - x.max(axis=axis, keepdims=True))
    values: Array = shares / shares.sum(axis=axis, keepdims=True)
    return values


def _log_softmax(x: Array, *, axis: int) -> Array:
    moved = x - x.max(axis=axis, keepdims=True)
    values: Array = moved - np.log(np.exp(moved).sum(axis=axis, keepdims=True))
    return values


def _log_sum_exp(x: Array, axes: Array, *, keepdims: int) -> Array:
    (axis,) = axes.tolist()
    largest = x.max(axis=axis, keepdims=True)
    out = np.log(np.exp(x - largest).sum(axis=axis, keepdims=True)) + largest
    values: Array = out if keepdims else out.squeeze(axis)
    return values


def _layer_norm(x: Array, weight: Array, bias: Array, *, axis: int, epsilon: float) -> Array:
    centred = x - x.mean(axis=axis, keepdims=True)
    variance = np.square(centred).mean(axis=axis, keepdims=True)
    values: Array = centred / np.sqrt(variance + x.dtype.type(epsilon)) * weight + bias
    return values


def _trees(numbers: Array, codes: Array, *arrays: Array, n_numerical: int) -> Array:
    return Forest(n_numerical, *arrays).scores(numbers, codes)


def _splines(x: Array, knots: Array, n_knots: Array, *, degree: int) -> Array:
    """Return all B-splines of degree p at x of shape (n, f, 1), from knots of shape (f, K + 2 + 2p) with their ends.

    Only p + 1 are not 0: the triangular scheme, see `knotwork.basis`, computes these.
    """
    n_rows, n_features = x.shape[:2]
    width = knots.shape[1] - 1 - degree
    flat = x[..., 0]
    inner = knots[:, degree + 1 : width]
    interval = np.minimum((flat[:, :, None] >= inner).sum(axis=2), n_knots)
    first = np.arange(n_features) * knots.shape[1] + interval + degree
    around, values = knots.reshape(-1), [np.ones_like(flat)]
    right = [around[first + 1 + place] - flat for place in range(degree)]
    left = [flat - around[first - place] for place in range(degree)]
    for order in range(degree):
        saved, raised = np.zeros_like(flat), []
        for place, value in enumerate(values):
            share = value / (right[place] + left[order - place])
            raised.append(saved + right[place] * share)
            saved = left[order - place] * share
        values = [*raised, saved]
    out = np.zeros((n_rows, n_features, width), dtype=x.dtype)
    starts = np.arange(n_rows * n_features).reshape(n_rows, n_features) * width + interval
    for place, value in enumerate(values):
        out.reshape(-1)[starts + place] = value
    return out


def _expand_splines(graph: Graph, x: str, knots_name: str, n_knots_name: str, *, degree: int) -> str:
    """Add all B-splines at x by the recursion of Cox and de Boor, from the indicator of the interval that holds x.

    With u = v / (t[i + q] - t[i]) for v of degree q - 1, the next are (x - t[i]) u[i] + (t[i + q + 1] - x) u[i + 1].
    """
    knots, n_knots = graph.constants[knots_name], graph.constants[n_knots_name]
    n_intervals = knots.shape[1] - 1
    # Infinite ends: no x lies in an interval of the padding, and the last interval holds the right end.
    first = np.full((len(knots), n_intervals), np.inf, dtype=knots.dtype)
    after = np.full((len(knots), n_intervals), np.inf, dtype=knots.dtype)
    for feature, count in enumerate(n_knots):
        inner = slice(degree, degree + count + 1)
        first[feature, inner] = knots[feature, inner]
        after[feature, degree : degree + count] = knots[feature, degree + 1 : degree + count + 1]
    values = graph(
        "Cast", graph("And", graph("GreaterOrEqual", x, first), graph("Less", x, after)), to=knots.dtype.name
    )
    for q in range(1, degree + 1):
        end = n_intervals - q
        share = graph("Div", values, spline_widths(knots, q))
        rising = graph("Mul", graph("Sub", x, knots[:, : end + 1]), share)
        falling = graph("Mul", graph("Sub", knots[:, q : n_intervals + 1], x), share)
        values = graph("Add", graph.slice(rising, 0, end, axis=2), graph.slice(falling, 1, end + 1, axis=2))
    return values


def _places(x: Array, breaks: Array) -> tuple[Array, Array]:
    """Return for values of shape (n, 1), moved between the first and the last break, interval and distance from it."""
    inside = _clip(x[:, 0], breaks[0], breaks[-1])
    places = np.searchsorted(breaks[1:-1], inside, side="right")
    return places, inside - breaks[places]


def _curve(x: Array, breaks: Array, coefficients: Array, missing: Array) -> Array:
    """Return polynomials by their coefficients in each interval, of shape (K + 1, p + 1, k): of shape (n, k)."""
    places, distance = _places(x, breaks)
    chosen = coefficients[places]
    out = chosen[:, -1]
    for power in range(chosen.shape[1] - 2, -1, -1):
        out = out * distance[:, None] + chosen[:, power]
    return np.where(np.isnan(x), missing, out)


def _surface(x: Array, y: Array, x_breaks: Array, y_breaks: Array, coefficients: Array) -> Array:
    """Return polynomials of two values by coefficients of shape (K + 1, L + 1, p + 1, q + 1, k), or 0."""
    (i, u), (j, v) = _places(x, x_breaks), _places(y, y_breaks)
    chosen = coefficients[i, j]
    powers = [each[:, None] ** np.arange(n) for each, n in ((u, chosen.shape[1]), (v, chosen.shape[2]))]
    out = np.einsum("na,nb,nabk->nk", *powers, chosen)
    return np.where(np.isnan(x) | np.isnan(y), 0.0, out)


def _expand_places(graph: Graph, x: str, breaks: Array) -> tuple[str, str]:
    """Add the interval of values of shape (n, 1), and the distance from its beginning."""
    inside = graph("Clip", x, breaks[0], breaks[-1])
    passed = graph("GreaterOrEqual", inside, np.append(breaks[1:-1], np.inf))
    place = graph("ReduceSum", graph("Cast", passed, to="int64"), graph.ints(1), keepdims=1)
    return place, graph("Sub", inside, graph("Gather", breaks, place, axis=0))


def _expand_powers(graph: Graph, distance: str, terms: list[str]) -> str:
    """Add the sum of terms times powers of a distance."""
    out = terms[-1]
    for term in reversed(terms[:-1]):
        out = graph("Add", graph("Mul", out, distance), term)
    return out


def _expand_curve(graph: Graph, x: str, *names: str) -> str:
    breaks, coefficients, missing = (graph.constants[name] for name in names)
    place, distance = _expand_places(graph, x, breaks)
    flat = graph.reshape(place, -1)
    terms = [graph("Gather", coefficients[:, power], flat, axis=0) for power in range(coefficients.shape[1])]
    return graph("Where", graph("IsNaN", x), missing, _expand_powers(graph, distance, terms))


def _expand_surface(graph: Graph, x: str, y: str, *names: str) -> str:
    x_breaks, y_breaks, coefficients = (graph.constants[name] for name in names)
    (i, u), (j, v) = _expand_places(graph, x, x_breaks), _expand_places(graph, y, y_breaks)
    cell = graph.reshape(graph("Add", graph("Mul", i, np.int64(coefficients.shape[1])), j), -1)
    cells = coefficients.reshape(-1, *coefficients.shape[2:])
    _, n_x, n_y, _ = cells.shape
    rows = [
        _expand_powers(graph, v, [graph("Gather", cells[:, a, b], cell, axis=0) for b in range(n_y)])
        for a in range(n_x)
    ]
    # There is no "or" among the operations.
    is_known = graph("And", *(graph("Equal", graph("IsNaN", each), np.bool_(False)) for each in (x, y)))
    return graph("Where", is_known, _expand_powers(graph, u, rows), np.float64(0.0))


def spline_widths(knots: Array, order: int) -> Array:
    """Return ``knots[i + order] - knots[i]``, and 1 for 0: the functions are 0 there."""
    widths = knots[:, order:] - knots[:, : knots.shape[1] - order]
    return np.where(widths > 0, widths, np.float32(1.0))


OPERATIONS: dict[str, Operator] = {
    # On each element, with the rules of numpy for shapes.
    "Abs": Operator(np.abs, "fabs(a)"),
    "Add": Operator(np.add, "a + b"),
    "And": Operator(np.logical_and, "a && b"),
    "Cast": Operator(lambda x, *, to: x.astype(to), "a"),
    "Clip": Operator(_clip, "a < b ? b : a > c ? c : a"),
    "Cos": Operator(np.cos, "cos(a)"),
    "Div": Operator(np.divide, "a / b"),
    "Equal": Operator(np.equal, "a == b"),
    "Exp": Operator(np.exp, "exp(a)"),
    "Floor": Operator(np.floor, "floor(a)"),
    "GreaterOrEqual": Operator(np.greater_equal, "a >= b"),
    "IsNaN": Operator(np.isnan, "a != a"),
    "Less": Operator(np.less, "a < b"),
    "Log": Operator(np.log, "log(a)"),
    "Max": Operator(np.maximum, "a > b ? a : b"),
    "Mish": Operator(_mish, "a * tanh(log1p(exp(-fabs(a))) + (a > 0 ? a : 0))"),
    "Mul": Operator(np.multiply, "a * b"),
    "Neg": Operator(np.negative, "-a"),
    "Pow": Operator(np.power, "pow(a, b)"),
    "Relu": Operator(lambda x: np.maximum(x, 0), "a > 0 ? a : 0"),
    "Selu": Operator(_selu, "{!r} * (a > 0 ? a : {!r} * expm1(a))".format(*SELU_FACTORS)),
    "Sigmoid": Operator(_sigmoid, "1 / (1 + exp(-a))"),
    "Sin": Operator(np.sin, "sin(a)"),
    "Sqrt": Operator(np.sqrt, "sqrt(a)"),
    "Sub": Operator(np.subtract, "a - b"),
    "Tanh": Operator(np.tanh, "tanh(a)"),
    "Where": Operator(np.where, "a ? b : c"),
    # Along axes.
    "Concat": Operator(lambda *values, axis: np.concatenate(values, axis=axis)),
    "CumSum": Operator(_cumulated),
    "Gather": Operator(lambda x, places, *, axis: np.take(x, places, axis=axis)),
    "LayerNormalization": Operator(_layer_norm),
    "LogSoftmax": Operator(_log_softmax),
    "MatMul": Operator(_matmul),
    "Pad": Operator(_pad),
    "ReduceLogSumExp": Operator(_log_sum_exp),
    "ReduceMean": Operator(lambda x, axes, *, keepdims: x.mean(axis=tuple(axes.tolist()), keepdims=bool(keepdims))),
    "ReduceSum": Operator(lambda x, axes, *, keepdims: x.sum(axis=tuple(axes.tolist()), keepdims=bool(keepdims))),
    "Slice": Operator(_slice),
    "Softmax": Operator(_softmax),
    "Sum": Operator(_sum),
    "Transpose": Operator(lambda x, *, perm: x.transpose(perm)),
    # Of shapes only.
    "Flatten": Operator(lambda x, *, axis: x.reshape(*x.shape[:axis], -1)),
    "Identity": Operator(lambda x: x),
    "Reshape": Operator(_reshape),
    "Unsqueeze": Operator(lambda x, axes: np.expand_dims(x, tuple(axes.tolist()))),
    # Of the library.
    "Curve": Operator(_curve, expand=_expand_curve),
    "Splines": Operator(_splines, expand=_expand_splines),
    "Surface": Operator(_surface, expand=_expand_surface),
    "Trees": Operator(_trees),
}
"""The operations by name."""
