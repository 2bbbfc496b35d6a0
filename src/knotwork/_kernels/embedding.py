"""Encoding and embedding of features in one pass on the CPU, forward and backward, into the inputs of a network.

The definition is an encoding followed by `knotwork.nn.FeatureEmbedding`. At a value, only degree + 1 B-, M- or
I-splines or ramps differ from constants, so that the embedding is a sum of degree + 1 rows of a table, see
`knotwork._kernels.encoded_linear`. Cosines and sines are dense.
"""

from typing import Any, NamedTuple, final

import numpy as np
from torch import Tensor

from knotwork._kernels.encoding_cpu import clip, window_at
from knotwork._loops import compiled, find_intervals
from knotwork.basis import Functions

EMBEDDED_KINDS = (Functions.LOCAL, Functions.UNIT_AREA, Functions.TAILS, Functions.PERIODIC, Functions.COSINE)
"""Kinds of functions that `EmbeddingPass` computes."""

LARGEST_TURNS = np.float32(1 << 21)
"""Angles are limited to so many turns: beyond, float32 has no digits left for the place in a turn."""
ROUNDING = np.float32(3 << 22)
SINE = tuple(
    np.float32(c) for c in (6.28318531, -41.3417022, 81.6052492, -76.7058597, 42.0586939, -15.0946426, 3.8199526)
)
"""Taylor's polynomial of sin(2 pi y), odd, exact in float32 for y up to a quarter."""
TWO_PI = np.float32(6.28318531)


class Scaling(NamedTuple):
    """How raw values become those that are encoded: ``(x - low) / scale``, of shape (M, F), and `smooth` ones clipped.

    Values within `limit` are kept, and `smooth` ones, v, become ``v / sqrt(1 + (v / reach)**2)``.
    """

    low: Any
    scale: Any
    smooth: Any
    limit: np.float32
    reach: np.float32


@compiled(forceinline=True)
def _scaled(x, m, f, scaling):
    low, scale, smooth, limit, reach = scaling
    value = (x - low[m, f]) / scale[m, f]
    value = -limit if value < -limit else (limit if value > limit else value)
    if smooth[m, f]:
        share = value / reach
        value = value / np.sqrt(np.float32(1.0) + share * share)
    return value


@compiled()
def _fill_tables(weight, kind, tables):
    """Fill the tables of all features: the weights, or for ramps and I-splines their running sums."""
    for f in range(weight.shape[0]):
        for o in range(weight.shape[2]):
            tables[f, 0, o] = 0.0
        for k in range(weight.shape[1]):
            for o in range(weight.shape[2]):
                if kind == Functions.TAILS:
                    tables[f, k + 1, o] = tables[f, k, o] + weight[f, k, o]
                else:
                    tables[f, k, o] = weight[f, k, o]


@compiled()
def _fill_numbers(values, breaks, n_knots, kind, degree, column, found, places, numbers):
    """Fill, for scaled values of shape (B, F), the first row of the table and the factors of the rows from there on."""
    t, levels = np.empty(2 * degree + 2), np.empty((degree + 1, degree + 1))
    for f in range(values.shape[1]):
        for i in range(values.shape[0]):
            column[i] = clip(values[i, f])
        find_intervals(column, breaks[f, 1 : n_knots[f] + 1], found[f])
    for i in range(values.shape[0]):
        for f in range(values.shape[1]):
            interval, x = found[f, i], clip(values[i, f])
            places[i, f] = interval
            if np.isnan(x):
                numbers[i, f] = 0.0
            elif kind == Functions.TAILS and degree == 1:
                left = breaks[f, interval]
                share = (x - left) / (breaks[f, interval + 1] - left)
                numbers[i, f, 0], numbers[i, f, 1] = np.float32(1.0) - share, share
            else:
                window_at(x, interval, breaks, f, n_knots[f], kind, degree, t, levels)
                for r in range(degree + 1):
                    numbers[i, f, r] = levels[degree, r]


@compiled(fastmath={"contract"})
def _local_rows(numbers, places, tables, bias, first, relu, out):
    """Fill the outputs of all features of rows: a weighted sum of rows of the tables each."""
    width = bias.shape[1]
    columns = width + first
    for i in range(places.shape[0]):
        for f in range(places.shape[1]):
            start, place = f * columns + first, places[i, f]
            for o in range(width):
                total = bias[f, o]
                for r in range(numbers.shape[2]):
                    total += numbers[i, f, r] * tables[f, place + r, o]
                out[i, start + o] = np.float32(0.0) if relu and total < 0.0 else total


@compiled()
def _local_forward(
    table, rows, scaling, breaks, n_knots, kind, degree, weight, bias, raw, relu, values, places, numbers, out
):
    """Fill the inputs of the network from the rows of a table; `places` and `numbers` are kept for backward."""
    n_rows, n_features = rows.shape[1], weight.shape[1]
    column, found = np.empty(n_rows, np.float32), np.empty((n_features, n_rows), np.int32)
    tables = np.empty((n_features, weight.shape[2] + 1, weight.shape[3]), np.float32)
    first, columns = int(raw), int(raw) + weight.shape[3]
    for m in range(rows.shape[0]):
        for i in range(n_rows):
            for f in range(n_features):
                value = _scaled(table[rows[m, i], f], m, f, scaling)
                values[m, i, f] = value
                if raw:
                    centred = np.float32(2.0) * clip(value) - np.float32(1.0)
                    out[m, i, f * columns] = np.float32(0.0) if np.isnan(value) else centred
        _fill_tables(weight[m], kind, tables)
        _fill_numbers(values[m], breaks[m], n_knots[m], kind, degree, column, found, places[m], numbers[m])
        _local_rows(numbers[m], places[m], tables, bias[m], first, relu, out[m])


@compiled(fastmath={"contract"})
def _local_backward(grad, out, places, numbers, kind, raw, relu, weight_grad, bias_grad):
    """Fill the gradients of weights and biases from that of the inputs of the network."""
    n_features, size, width = weight_grad.shape[1:]
    tables, first, columns = np.empty((n_features, size + 1, width), np.float32), int(raw), int(raw) + width
    bias_grad[:] = 0.0
    for m in range(grad.shape[0]):
        tables[:] = 0.0
        for i in range(grad.shape[1]):
            for f in range(n_features):
                start, place = f * columns + first, places[m, i, f]
                for o in range(width):
                    slope = grad[m, i, start + o]
                    if relu and out[m, i, start + o] <= 0.0:
                        slope = np.float32(0.0)
                    bias_grad[m, f, o] += slope
                    for r in range(numbers.shape[3]):
                        tables[f, place + r, o] += numbers[m, i, f, r] * slope
        for f in range(n_features):
            for o in range(width):
                total = np.float32(0.0)
                for k in range(size - 1, -1, -1):
                    total += tables[f, k + 1, o]
                    weight_grad[m, f, k, o] = total if kind == Functions.TAILS else tables[f, k, o]


@compiled(forceinline=True)
def _cosine(turns):
    """Return the cosine of an angle in turns, without a branch: loops over it are vectorised."""
    turns = -LARGEST_TURNS if turns < -LARGEST_TURNS else (LARGEST_TURNS if turns > LARGEST_TURNS else turns)
    whole = np.float32(np.float32(turns + ROUNDING) - ROUNDING)
    y = np.float32(0.25) - np.abs(np.float32(turns - whole))
    s = y * y
    p = SINE[4] + s * (SINE[5] + s * SINE[6])
    return y * (SINE[0] + s * (SINE[1] + s * (SINE[2] + s * (SINE[3] + s * p))))


@compiled()
def cosines(turns, out):
    """Fill the cosines of angles in turns."""
    for k in range(len(turns)):
        out[k] = _cosine(turns[k])


@compiled(fastmath={"contract"})
def _fill_waves(values, frequency, shift, n_before, turns, missing, wave):
    """Fill a cosine, or with `n_before` above 0 a sine, of the values of a feature; 0 where one is missing."""
    quarter = np.float32(0.25) if n_before else np.float32(0.0)
    for i in range(len(values)):
        turns[i] = frequency * values[i] + shift - quarter
    cosines(turns, wave)
    if missing:
        for i in range(len(values)):
            wave[i] = np.float32(0.0) if np.isnan(values[i]) else wave[i]


@compiled(fastmath={"contract"})
def _add_multiple(factor, values, out):
    for i in range(len(values)):
        out[i] += factor * values[i]


# Waves are dense: their loops go along the rows of a batch, which are many, so that all of them are vectorised.


@compiled()
def _wave_forward(table, rows, scaling, frequencies, phases, size, weight, bias, raw, relu, values, waves, out):
    """Fill the inputs of the network from the rows of a table; scaled values and waves are kept for backward.

    `waves`, of shape (M, F, size, B), holds cosines and then, as far as `size` goes, sines.
    """
    n_rows, n_features, width, n = rows.shape[1], bias.shape[1], bias.shape[2], frequencies.shape[2]
    turns, totals = np.empty(n_rows, np.float32), np.empty((width, n_rows), np.float32)
    first, columns = int(raw), int(raw) + width
    for m in range(rows.shape[0]):
        for f in range(n_features):
            row, kept, missing, start = values[m, f], waves[m, f], False, f * columns
            for i in range(n_rows):
                row[i] = _scaled(table[rows[m, i], f], m, f, scaling)
                missing |= np.isnan(row[i])
                if raw:
                    out[m, i, start] = np.float32(0.0) if np.isnan(row[i]) else row[i]
            for o in range(width):
                totals[o] = bias[m, f, o]
            for k in range(size):
                place = k % n
                shift = phases[m, f, place] / TWO_PI
                _fill_waves(row, frequencies[m, f, place], shift, k - place, turns, missing, kept[k])
                for o in range(width):
                    _add_multiple(weight[m, f, k, o], kept[k], totals[o])
            for i in range(n_rows):
                for o in range(width):
                    total = totals[o, i]
                    out[m, i, start + first + o] = np.float32(0.0) if relu and total < 0.0 else total


@compiled(fastmath={"contract", "reassoc"})
def _product_sum(a, b):
    total = np.float32(0.0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled(fastmath={"contract", "reassoc"})
def _sum(a):
    total = np.float32(0.0)
    for i in range(len(a)):
        total += a[i]
    return total


@compiled()
def _wave_backward(
    grad, out, values, waves, frequencies, phases, size, weight, raw, relu,
    weight_grad, bias_grad, frequencies_grad, phases_grad,
):  # fmt: skip
    """Fill the gradients of weights, biases, frequencies and phases from that of the inputs of the network."""
    n_rows, n_features, width, n = grad.shape[1], bias_grad.shape[1], bias_grad.shape[2], frequencies.shape[2]
    slopes, (pull, wave, turns) = np.empty((width, n_rows), np.float32), np.empty((3, n_rows), np.float32)
    first, columns = int(raw), int(raw) + width
    for gradient in (frequencies_grad, phases_grad):
        gradient[:] = 0.0
    weight_grad[:] = 0.0
    for m in range(grad.shape[0]):
        for f in range(n_features):
            start, row, kept = f * columns + first, values[m, f], waves[m, f]
            missing = False
            for i in range(n_rows):
                missing |= np.isnan(row[i])
                for o in range(width):
                    is_used = not relu or out[m, i, start + o] > 0.0
                    slopes[o, i] = grad[m, i, start + o] if is_used else np.float32(0.0)
            for o in range(width):
                bias_grad[m, f, o] = _sum(slopes[o])
            for k in range(size):
                place, pull[:] = k % n, 0.0
                for o in range(width):
                    weight_grad[m, f, k, o] = _product_sum(slopes[o], kept[k])
                    _add_multiple(weight[m, f, k, o], slopes[o], pull)
                # The derivative of a cosine is the cosine a quarter of a turn later; that of a sine, likewise.
                shift = phases[m, f, place] / TWO_PI + np.float32(0.25)
                _fill_waves(row, frequencies[m, f, place], shift, k - place, turns, missing, wave)
                for i in range(n_rows):
                    pull[i] *= wave[i]
                    turns[i] = np.float32(0.0) if np.isnan(row[i]) else row[i]
                phases_grad[m, f, place] += _sum(pull)
                frequencies_grad[m, f, place] += TWO_PI * _product_sum(pull, turns)


class Embedded(NamedTuple):
    """Parameters of an embedding or their gradients: weights (M, F, size, width), biases (M, F, width).

    Frequencies and phases, in radians, are of shape (M, F, n); they are those of cosines and sines.
    """

    weight: Tensor
    bias: Tensor
    frequencies: Tensor | None = None
    phases: Tensor | None = None


class EmbeddedFunctions(NamedTuple):
    """What is embedded: local functions with fixed knots, or `degree` cosines and sines, which have no knots.

    `kind`, `degree`, `breaks` and `n_knots` are those of `knotwork._kernels.encoding`; `raw` is whether the scaled
    value comes before the outputs of a feature, and `relu` whether these are positive parts.
    """

    kind: int
    degree: int
    breaks: Any
    n_knots: Any
    raw: bool
    relu: bool


@final
class EmbeddingPass:
    """Forward and backward through encoding and embedding, for batches of one size; the results are of float32.

    `parameters` and `grads`, where gradients are written, are contiguous and stay in place.
    """

    def __init__(
        self, scaling: Scaling, functions: EmbeddedFunctions, parameters: Embedded, grads: Embedded, n_rows: int
    ) -> None:
        self._scaling, self._functions = scaling, functions
        n_members, n_features = parameters.bias.shape[:2]
        self._is_local = parameters.frequencies is None
        values = (n_rows, n_features) if self._is_local else (n_features, n_rows)
        kept = (*values, functions.degree + 1) if self._is_local else (n_features, functions.degree, n_rows)
        self._values, self._kept = (np.zeros((n_members, *shape), np.float32) for shape in (values, kept))
        self._places = np.zeros((n_members, n_rows, n_features), np.int32)
        self._arrays, self._grads = ([_array(each) for each in tensors] for tensors in (parameters, grads))
        if not self._is_local and parameters.phases is None:
            self._arrays[3], self._grads[3] = (np.zeros_like(self._arrays[2]) for _ in range(2))

    def forward(self, table: Any, rows: Any, out: Any) -> None:
        """Fill the first columns of `out`, (M, n_rows, d), from the rows, (M, n_rows), of a table of raw values."""
        kind, degree, breaks, n_knots, raw, relu = self._functions
        weight, bias, frequencies, phases = self._arrays
        self._out, layer, inputs = out, (weight, bias, raw, relu), (table, rows, self._scaling)
        if self._is_local:
            functions = breaks, n_knots, kind, degree
            _local_forward(*inputs, *functions, *layer, self._values, self._places, self._kept, out)
        else:
            _wave_forward(*inputs, frequencies, phases, degree, *layer, self._values, self._kept, out)

    def backward(self, grad: Any) -> None:
        """Fill the gradients of the parameters from that of the result of `forward`, which must be unchanged."""
        kind, degree, _, _, raw, relu = self._functions
        weight_grad, bias_grad, *wave_grads = self._grads
        if self._is_local:
            _local_backward(grad, self._out, self._places, self._kept, kind, raw, relu, weight_grad, bias_grad)
        else:
            weight, _, frequencies, phases = self._arrays
            functions = frequencies, phases, degree, weight, raw, relu
            _wave_backward(grad, self._out, self._values, self._kept, *functions, weight_grad, bias_grad, *wave_grads)


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().numpy()
