"""A step of multilayer perceptrons on the CPU: forward and backward through all layers, in buffers that are kept.

The definition are the modules of `knotwork.nn` with torch's automatic gradients. For small layers these cost as much as
the products: every operation allocates, and takes some microseconds of Python in each direction, during which no other
thread can run. Here a step is a fixed sequence of products and loops, which write where the optimiser reads.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.dispatch import VALUES_PER_CHUNK, in_ranges
from knotwork._kernels.dropout import (
    ACTIVATION_KINDS,
    Noise,
    bias_act_loop,
    curve_backward_loop,
    fill_keys,
    layer_numbers,
    relu_backward_loop,
)
from knotwork._loops import compiled


class Layers(NamedTuple):
    """The layers of M perceptrons: ``z = scale * (a W) + b`` with a the inputs, or dropout of the activation before.

    Weights are of shape (M, d_in, d_out), biases (M, d_out), both contiguous and float32. Inputs are multiplied by
    `factors`, of shape (M, d_in), and by `units`, of shape (M,), if these are given. `p` is the rate of dropout.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    scales: Sequence[float]
    activation: str
    p: float
    factors: Tensor | None = None
    units: Tensor | None = None


@compiled(fastmath={"contract"})
def _scale_inputs(weight, factors, units, out):
    """Fill `out` with the weights times the factors of their inputs: inputs, which are more, then need none."""
    for m in range(weight.shape[0]):
        for j in range(weight.shape[1]):
            factor = factors[m, j] * units[m]
            for o in range(weight.shape[2]):
                out[m, j, o] = factor * weight[m, j, o]


@compiled(fastmath={"contract", "reassoc"})
def _scale_inputs_backward(grad, weight, factors, units, weight_grad, factors_grad):
    """Fill the gradients of weights and factors from that of their product."""
    for m in range(weight.shape[0]):
        for j in range(weight.shape[1]):
            factor, total = factors[m, j] * units[m], np.float32(0.0)
            for o in range(weight.shape[2]):
                weight_grad[m, j, o] = factor * grad[m, j, o]
                total += grad[m, j, o] * weight[m, j, o]
            factors_grad[m, j] = total * units[m]


# Loops of a microsecond keep the GIL: to get it back from another thread takes longer.


@compiled(nogil=False)
def _add_bias(product, bias, scale):
    """Turn products into outputs, in place."""
    for m in range(product.shape[0]):
        for i in range(product.shape[1]):
            for o in range(product.shape[2]):
                product[m, i, o] = product[m, i, o] * scale + bias[m, o]


@compiled(nogil=False)
def _add_bias_backward(grad, scale, bias_grad):
    """Turn gradients of outputs into those of products, in place, and fill the gradient of the bias."""
    bias_grad[:] = 0.0
    for m in range(grad.shape[0]):
        for i in range(grad.shape[1]):
            for o in range(grad.shape[2]):
                bias_grad[m, o] += grad[m, i, o]
                grad[m, i, o] *= scale


@final
class PerceptronPass:
    """Forward and backward through layers, for batches of one size.

    Parameters
    ----------
    layers : Layers
        The layers.
    grads : Layers
        Where their gradients are written: tensors for weights, biases and factors.
    n_rows : int
        Rows of a batch.
    with_inputs : bool
        Whether backward computes the gradient of the inputs.

    Attributes
    ----------
    outputs, slopes : Tensor of shape (M, n_rows, d_out)
        The result of `forward`, and the gradient that the caller of `backward` writes, which overwrites it.
    inputs_grad : Tensor of shape (M, n_rows, d_in)
        The gradient of the inputs, if requested.
    """

    def __init__(self, layers: Layers, grads: Layers, n_rows: int, *, with_inputs: bool) -> None:
        self._layers, self._grads, self._with_inputs = layers, grads, with_inputs
        n_members = len(layers.weights[0])
        widths = [weight.shape[2] for weight in layers.weights]
        self._products = [torch.zeros(n_members, n_rows, width) for width in widths]
        self._active = [torch.zeros(n_members, n_rows, width) for width in widths[:-1]]
        self._pulls = [torch.zeros(n_members, n_rows, width) for width in widths[:-1]]
        self.outputs, self.slopes = self._products[-1], torch.zeros_like(self._products[-1])
        self.inputs_grad = torch.zeros(n_members, n_rows, layers.weights[0].shape[1] if with_inputs else 0)
        self._kind = ACTIVATION_KINDS[layers.activation]
        # The results of relu say where the slope is one. Those of the other activations are not needed for slopes,
        # which are computed from the products, so that either tensor can take the gradient of the products.
        self._slopes = [*(self._active if self._kind else self._products[:-1]), self.slopes]
        self._weights, self._weight_grads = list(layers.weights), list(grads.weights)
        if layers.factors is not None:
            self._weights[0], self._weight_grads[0] = (torch.empty_like(layers.weights[0]) for _ in range(2))
        self._rows = [max(VALUES_PER_CHUNK // width, 1) for width in widths]
        n_chunks = [-(-n_rows // rows) for rows in self._rows]
        self._sums = [
            bias[:, None] if n == 1 else torch.zeros(n_members, n, bias.shape[1])
            for n, bias in zip(n_chunks, grads.biases, strict=True)
        ]
        self._n_chunks = [n_members * n for n in n_chunks]
        self._keys = np.zeros((max(len(widths) - 1, 1), n_members), dtype=np.uint32)
        self._numbers = [layer_numbers(layers.p, scale) for scale in layers.scales]
        self._arrays: Any = [
            [tensor.detach().numpy() for tensor in tensors]
            for tensors in (self._products, self._active, self._pulls, self._slopes, layers.biases, self._sums)
        ]

    @torch.no_grad()
    def forward(self, inputs: Tensor, noise: Noise | None) -> Tensor:
        """Return the outputs for inputs of shape (M, n_rows, d_in), which backward needs unchanged.

        Without `noise` nothing is dropped.
        """
        layers, (products, active, _, _, biases, _) = self._layers, self._arrays
        self._inputs = inputs
        if layers.factors is not None and layers.units is not None:
            arrays = (each.detach().numpy() for each in (layers.weights[0], layers.factors, layers.units))
            _scale_inputs(*arrays, self._weights[0].numpy())
        rate = layers.p if noise is not None else 0.0
        if noise is not None and rate > 0.0:
            fill_keys(noise.seeds.numpy(), noise.step.numpy(), 0, self._keys)
        last = len(self._weights) - 1
        for place, weight in enumerate(self._weights):
            torch.bmm(inputs, weight, out=self._products[place])
            if place < last:
                numbers = layer_numbers(rate, layers.scales[place])
                self._activate(place, products[place], biases[place], active[place], numbers)
                inputs = self._active[place]
        _add_bias(products[last], biases[last], self._numbers[last][1])
        return self.outputs

    def _activate(self, place: int, product: Any, bias: Any, out: Any, numbers: Any) -> None:
        settings = self._rows[place], product, bias, self._keys[place], *numbers, out
        in_ranges(lambda first, stop: bias_act_loop(self._kind, first, stop, *settings), self._n_chunks[place])

    @torch.no_grad()
    def backward(self) -> None:
        """Fill all gradients from that of the outputs, which the caller has written to `slopes`."""
        last, slopes = len(self._weights) - 1, self._arrays[3]
        _add_bias_backward(slopes[last], self._numbers[last][1], self._grads.biases[last].numpy())
        for place in range(last, -1, -1):
            before = self._active[place - 1] if place else self._inputs
            torch.bmm(before.transpose(1, 2), self._slopes[place], out=self._weight_grads[place])
            pull = self._pulls[place - 1] if place else self.inputs_grad
            if place or self._with_inputs:
                torch.bmm(self._slopes[place], self._weights[place].transpose(1, 2), out=pull)
            if place:
                self._activate_backward(place - 1)
        layers = self._layers
        if layers.factors is not None and layers.units is not None and self._grads.factors is not None:
            inputs = self._weight_grads[0], layers.weights[0], layers.factors, layers.units
            arrays = (each.detach().numpy() for each in (*inputs, self._grads.weights[0], self._grads.factors))
            _scale_inputs_backward(*arrays)

    def _activate_backward(self, place: int) -> None:
        products, active, pulls, slopes, biases, sums = (arrays[place] for arrays in self._arrays)
        rows, numbers, total = self._rows[place], self._numbers[place], self._sums[place]
        sums[...] = 0.0

        def relu(first: int, stop: int) -> None:
            relu_backward_loop(first, stop, rows, pulls, active, *numbers[1:], slopes, sums)

        def curve(first: int, stop: int) -> None:
            settings = rows, pulls, products, biases, self._keys[place], *numbers, slopes, sums
            curve_backward_loop(self._kind, first, stop, *settings)

        in_ranges(curve if self._kind else relu, self._n_chunks[place])
        if total.shape[1] > 1:
            torch.sum(total, dim=1, out=self._grads.biases[place])
