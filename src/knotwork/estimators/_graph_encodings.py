"""The encodings of numbers as nodes of a graph."""

import numpy as np
import torch

from knotwork._graph import Array, Graph, as_numpy, spline_widths
from knotwork._kernels.dense import bends_formula, bump_widths
from knotwork._kernels.encoding import NORM_EPSILON, StackPart
from knotwork.basis import FAMILIES, SMOOTH_LIMIT, Functions
from knotwork.nn import LARGEST_SCALED, WAVE_KINDS, FeatureEmbedding, PairEmbedding, StackEncoding
from knotwork.training import Network


def encoded_features(graph: Graph, numbers: str, missing: str, *, network: Network, member: int) -> str:
    """Add encoding and embedding of one member; return the name of (n, n_features, columns) encoded values in float32.

    `numbers` are in their units, float32 of shape (n, n_features), finite; `missing` marks those that are missing.
    """
    values = _scaled(graph, numbers, encoding=network.encoding, member=member)
    encoded = _encode(graph, values, missing, encoding=network.encoding, member=member)
    pairs = None if network.pair_embedding is None else _pairs(graph, encoded, network.pair_embedding, member)
    if network.feature_embedding is not None:
        encoded = _embed(graph, encoded, network.feature_embedding, member)
    if network.embedding is not None and network.embedding.raw:
        centred = graph("Clip", values, np.float32(0.0), np.float32(1.0))
        centred = graph("Sub", graph("Mul", centred, np.float32(2.0)), np.float32(1.0))
        raw = graph("Where", as_numpy(network.encoding.has_range[member]), centred, values)
        raw = graph("Where", missing, np.float32(0.0), raw)
        encoded = graph.join([graph("Unsqueeze", raw, graph.ints(2)), encoded], 2)
    if pairs is None:
        return encoded
    if not network.has_tokens:
        return graph.join([graph("Flatten", value, axis=1) for value in (encoded, pairs)], 1)
    padding = [graph.ints(0, 0, 0, 0, 0, columns) for columns in network.token_padding()]
    return graph.join([graph("Pad", *value) for value in zip((encoded, pairs), padding, strict=True)], 1)


def _pairs(graph: Graph, encoded: str, layer: PairEmbedding, member: int) -> str:
    """Add the functions of pairs, of shape (n, n_pairs, width), by factors of shape (n_pairs, n, rank * width)."""
    factors = []
    for place in (0, 1):
        features, *weights = (as_numpy(each[member, place::2]) for each in (layer.features, layer.weight, layer.bias))
        chosen = graph("Transpose", graph("Gather", encoded, features, axis=1), perm=[1, 0, 2])
        factors.append(graph("Add", graph("MatMul", chosen, weights[0]), weights[1][:, None]))
    products = graph.reshape(graph("Mul", *factors), layer.n_pairs, -1, layer.rank, layer.width)
    total = graph("ReduceSum", products, graph.ints(2), keepdims=0)
    return graph("Transpose", graph("Mul", total, np.float32(layer.rank**-0.5)), perm=[1, 0, 2])


def _scaled(graph: Graph, numbers: str, *, encoding: StackEncoding, member: int) -> str:
    """Add the values on the scale of each feature."""
    low, scale = as_numpy(encoding.low[member]), as_numpy(encoding.scale[member])
    values = graph("Div", graph("Sub", numbers, low), scale)
    values = graph("Clip", values, np.float32(-LARGEST_SCALED), np.float32(LARGEST_SCALED))
    if encoding.cyclic is not None and bool(encoding.cyclic[member].any()):
        wrapped = graph("Sub", values, graph("Floor", values))
        values = graph("Where", as_numpy(encoding.cyclic[member]), wrapped, values)
    if encoding.smooth is None or not bool(encoding.smooth[member].any()):
        return values
    share = graph("Div", values, np.float32(SMOOTH_LIMIT))
    root = graph("Sqrt", graph("Add", graph("Mul", share, share), np.float32(1.0)))
    return graph("Where", as_numpy(encoding.smooth[member]), graph("Div", values, root), values)


def _map_features(graph: Graph, rows: str, matrices: Array) -> str:
    """Multiply the rows of each feature, of shape (n, f, width), by the matrix of the feature."""
    product = graph("MatMul", graph("Transpose", rows, perm=[1, 0, 2]), matrices)
    return graph("Transpose", product, perm=[1, 0, 2])


def _embed(graph: Graph, encoded: str, layer: FeatureEmbedding, member: int) -> str:
    out = graph("Add", _map_features(graph, encoded, as_numpy(layer.weight[member])), as_numpy(layer.bias[member]))
    return graph("Relu", out) if layer.relu else out


def _encode(graph: Graph, values: str, missing: str, *, encoding: StackEncoding, member: int) -> str:
    """Add the encoding of scaled values; return the name of (n, n_features, size) encoded values in float32."""
    n_features = len(encoding.layout.sizes)
    breaks, n_knots = as_numpy(encoding.spacings()[0][member]), as_numpy(encoding.n_knots[member])
    encoded: list[str] = []
    order: list[int] = []
    for part in encoding.layout.parts:
        if not part.start <= member < part.stop:
            continue
        features = np.arange(n_features) if part.features is None else np.array(part.features)
        order.extend(features.tolist())
        columns = [graph("Gather", value, features.astype(np.int64), axis=1) for value in (values, missing)]
        x, x_missing = (graph("Unsqueeze", column, graph.ints(2)) for column in columns)
        if part.kind in WAVE_KINDS:
            rows, width = _waves(graph, x, part=part, encoding=encoding, place=(member, features)), part.degree
        elif part.kind in (Functions.RADIAL, Functions.THIN_PLATE):
            x = graph("Clip", x, np.float32(0.0), np.float32(1.0))
            rows, width = _bumps(graph, x, part=part, encoding=encoding, place=(member, features))
        else:
            rows, width = _rows(graph, x, part=part, breaks=breaks[features], n_knots=n_knots[features])
        rows = graph("Where", x_missing, np.float32(0.0), rows)
        encoded.append(graph("Pad", rows, graph.ints(0, 0, 0, 0, 0, encoding.layout.size - width)))
    joined = graph.join(encoded, 1)
    if order != sorted(order):
        joined = graph("Gather", joined, np.argsort(order).astype(np.int64), axis=1)
    vectors = encoding.missing_vectors()
    if vectors is None:
        return joined
    return graph("Where", graph("Unsqueeze", missing, graph.ints(2)), as_numpy(vectors[member]), joined)


def _waves(graph: Graph, x: str, *, part: StackPart, encoding: StackEncoding, place: tuple[int, Array]) -> str:
    """Add the cosines and sines of one part at x of shape (n, f, 1), for a member and some features."""
    member, features = place
    assert encoding.frequencies is not None
    angles = graph("Mul", x, np.float32(2.0 * np.pi) * as_numpy(encoding.frequencies[member])[features])
    if part.kind == Functions.PERIODIC:
        half = (part.degree + 1) // 2
        angles = graph.slice(angles, 0, half, axis=2)
        return graph.join([graph("Cos", angles), graph.slice(graph("Sin", angles), 0, part.degree - half, axis=2)], 2)
    assert encoding.phases is not None
    angles = graph("Add", angles, as_numpy(encoding.phases[member])[features])
    return graph("Cos", graph.slice(angles, 0, part.degree, axis=2))


def _bumps(
    graph: Graph, x: str, *, part: StackPart, encoding: StackEncoding, place: tuple[int, Array]
) -> tuple[str, int]:
    """Add the radial functions of one part at x of shape (n, f, 1); return the name of (n, f, width), and the width."""
    member, features = place
    breaks, n_knots = (tensor[member : member + 1, features] for tensor in (encoding.spacings()[0], encoding.n_knots))
    width = int(n_knots.max()) + part.smallest
    used = (np.arange(width) < as_numpy(n_knots[0])[:, None] + part.smallest).astype(np.float32)
    centres = as_numpy(breaks[0, :, :width])
    if part.kind == Functions.THIN_PLATE:
        distances = graph("Abs", graph("Sub", x, centres[:, 1:]))
        rows = graph.join([x, graph("Mul", graph("Mul", distances, distances), distances)], 2)
        return graph("Mul", rows, used), width
    assert encoding.log_widths is not None
    widths = bump_widths(breaks, n_knots)[0, :, :width] * encoding.log_widths[member, features, :width].exp()
    shares = graph("Div", graph("Sub", x, centres), as_numpy(widths))
    return graph("Mul", graph("Exp", graph("Mul", graph("Mul", shares, shares), np.float32(-0.5))), used), width


def _rows(graph: Graph, x: str, *, part: StackPart, breaks: Array, n_knots: Array) -> tuple[str, int]:
    """Add the functions of one part at x of shape (n, f, 1); return the name of (n, f, width), and the width."""
    if part.kind == Functions.AFFINE:
        return x, 1
    x = graph("Clip", x, np.float32(0.0), np.float32(1.0))
    if part.family:
        to_graph, width = FAMILIES[part.family].to_graph, int(n_knots.max()) + part.smallest
        assert to_graph is not None
        return to_graph(graph, x, breaks[:, : n_knots.max() + 2], n_knots, degree=part.degree, size=width), width
    if part.kind == Functions.NATURAL:
        return _curves(graph, x, breaks=breaks, n_knots=n_knots)
    degree, most = part.degree, int(n_knots.max())
    knots = _repeated(breaks, n_knots, degree, cyclic=part.kind == Functions.CYCLIC)
    rows = graph("Splines", x, knots, n_knots, degree=degree)
    width = most + degree + 1
    if part.kind == Functions.CYCLIC:  # columns after the last interval are the first ones again
        places = np.arange(width) % (n_knots[:, None] + 1)
        return _map_features(graph, rows, np.eye(most + 1, dtype=np.float32)[places]), most + 1
    if part.kind == Functions.TAILS:
        tails = graph.slice(rows, 1, width, axis=2)
        return graph("CumSum", tails, graph.constant(2, np.int64), reverse=1), width - 1
    if part.kind in (Functions.UNIT_AREA, Functions.NORMALISED):
        rows = graph("Div", graph("Mul", rows, np.float32(degree + 1)), spline_widths(knots, degree + 1))
    if part.kind == Functions.NORMALISED:
        rows = _normalised(graph, rows, sizes=n_knots + degree + 1, width=width)
    return rows, width


def _curves(graph: Graph, x: str, *, breaks: Array, n_knots: Array) -> tuple[str, int]:
    """Add natural splines: with hats H, of which two are not 0, ``H + width^2 / 6 (H^3 - H) bends``."""
    hats, inside = (
        graph("Splines", x, _repeated(breaks, n_knots, degree, cyclic=False), n_knots, degree=degree)
        for degree in (1, 0)
    )
    width = int(n_knots.max()) + 2
    sixths = np.diff(breaks[:, :width], axis=1) ** 2 / np.float32(6.0)
    cubes = graph("Sub", graph("Mul", graph("Mul", hats, hats), hats), hats)
    cubes = graph("Mul", cubes, graph.total(graph("Mul", inside, sixths)))
    bends = bends_formula(torch.from_numpy(breaks[None].astype(np.float64)), torch.from_numpy(n_knots[None]))[0]
    matrices = as_numpy(bends[:, :width, :width].float())
    return graph("Add", hats, _map_features(graph, cubes, matrices)), width


def _repeated(breaks: Array, n_knots: Array, degree: int, *, cyclic: bool) -> Array:
    """Return the knots with both ends `degree` times more, padded with ones, of shape (f, K + 2 + 2 degree).

    If `cyclic`, the knots of the neighbouring periods take the place of the ends.
    """
    most = int(n_knots.max())
    if cyclic:
        places = np.arange(-degree, most + 2 + degree)
        counts = n_knots[:, None] + 1
        repeated: Array = np.take_along_axis(breaks, places % counts, axis=1) + (places // counts).astype(np.float32)
        return repeated
    knots = np.ones((len(breaks), most + 2 + 2 * degree), dtype=np.float32)
    knots[:, :degree] = 0.0
    knots[:, degree : degree + most + 2] = breaks[:, : most + 2]
    return knots


def _normalised(graph: Graph, rows: str, *, sizes: Array, width: int) -> str:
    """Add LayerNorm without parameters over the first `sizes` columns of each feature."""
    counts = sizes.astype(np.float32)[:, None]
    used = (np.arange(width) < sizes[:, None]).astype(np.float32)
    centred = graph("Mul", graph("Sub", rows, graph("Div", graph.total(rows), counts)), used)
    variance = graph("Div", graph.total(graph("Mul", centred, centred)), counts)
    return graph("Div", centred, graph("Sqrt", graph("Add", variance, np.float32(NORM_EPSILON))))
