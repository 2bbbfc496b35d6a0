"""Steps of perceptrons on a CPU without a graph over their layers: those of `TrainingStack`, with less around them.

Inputs that have parameters and no compiled loop keep a graph of their own, which ends where the first layer begins.
"""

from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from knotwork._kernels.dropout import Noise
from knotwork._kernels.embedding import EMBEDDED_KINDS, Embedded, EmbeddedFunctions, EmbeddingPass, Scaling
from knotwork._kernels.losses import take_batch
from knotwork._kernels.perceptron import Layers, PerceptronPass
from knotwork.basis import SMOOTH_LIMIT
from knotwork.nn import LARGEST_SCALED, FlatNetwork
from knotwork.training._members import DeviceTable
from knotwork.training._network import Network

if TYPE_CHECKING:
    from knotwork.training._stack import TrainingStack


def find_flat_step(stack: "TrainingStack") -> "FlatStep | None":
    """Return the faster steps of a stack, or None if it needs those with a graph."""
    job, network = stack.job, stack.network
    config, goal = job.config, job.table.goal
    if job.device.type != "cpu" or config.reproducible or config.weight_average or stack.bands is not None:
        return None
    if goal.loop is None or job.data.target.dim() > 1 or not stack.optimiser.grads:
        return None
    layers = network.backbone.dense_layers() if isinstance(network.backbone, FlatNetwork) else None
    return None if layers is None else FlatStep(stack, layers)


@final
class FlatStep:
    """The steps of a stack; tensors are those of the stack, which are changed in place."""

    def __init__(self, stack: "TrainingStack", layers: Layers) -> None:
        self._stack, job, members, units = stack, stack.job, stack.members, stack.units
        n_members, n_rows = len(members.ids), len(stack.offsets)
        grads = {id(each): grad for each, grad in zip(stack.parameters, stack.optimiser.grads, strict=True)}
        own = [*layers.weights, *layers.biases, *([] if layers.factors is None else [layers.factors])]
        weight_grads, bias_grads = ([grads[id(each)] for each in tensors] for tensors in layers[:2])
        layer_grads = layers._replace(weights=weight_grads, biases=bias_grads)
        if layers.factors is not None:
            layer_grads = layer_grads._replace(factors=grads[id(layers.factors)])
        others = {place: grad for place, grad in grads.items() if place not in set(map(id, own))}
        self._inputs = _Inputs(stack.network, job.data, others, n_rows, job.config.spacing_weight)
        self._pass = PerceptronPass(layers, layer_grads, n_rows, with_inputs=bool(others))
        self._own = set(map(id, own))
        self._rows = torch.zeros(n_members, n_rows, dtype=torch.int64)
        self._active = torch.zeros(n_members, dtype=torch.bool)
        self._noise = Noise(members.seeds, members.steps_done)
        weights = np.zeros(0, np.float32) if job.data.weights is None else job.data.weights.numpy()
        unit_arrays = (each.double().numpy() for each in (units.shift, units.scale))
        given = stack.order, stack.place, members.n_train, stack.schedule.alive, job.data.target
        self._batch: tuple[Any, ...] = ([each.numpy() for each in given], weights, *unit_arrays, units.weight.numpy())
        counts, (goals, shares) = np.zeros(n_members, np.int64), np.zeros((2, n_members, n_rows), np.float32)
        self._filled = self._rows.numpy(), counts, self._active.numpy(), goals, shares
        self._loss = goals, shares, counts, job.config.label_smoothing, stack.loss_sum.numpy()
        self._counters = stack.number.numpy(), members.steps_done.numpy()
        self._outputs, self._slopes = self._pass.outputs.numpy(), self._pass.slopes.numpy()

    def __call__(self) -> None:
        """Train every member on its next rows; members without rows left do not change."""
        stack = self._stack
        (order, place, *given), *others = self._batch
        take_batch(order, int(place), *given, *others, *self._filled)
        self._pass.forward(self._inputs.forward(self._rows), self._noise)
        stack.job.table.goal.loop(self._outputs, *self._loss, self._slopes)
        self._pass.backward()
        present = self._own | self._inputs.backward(self._pass.inputs_grad)
        pairs = zip(stack.parameters, stack.optimiser.grads, strict=True)
        grads = [grad if id(each) in present else None for each, grad in pairs]
        number, done = self._counters
        stack.optimiser.step(grads, stack.rates[min(int(number[0]), len(stack.rates) - 1)], self._active)
        number += 1
        done += self._filled[2]
        place += self._rows.shape[1]

    def predict(self, rows: Tensor) -> Tensor:
        """Return the outputs of every member for its rows of shape (n_members, n), without dropout."""
        at_once, outputs = self._rows.shape[1], []
        for part in torch.split(rows, at_once, dim=1):
            n = part.shape[1]
            self._rows[:, :n] = part
            inputs = self._inputs.forward(self._rows, with_graph=False)
            outputs.append(self._pass.forward(inputs, None)[:, :n].clone())
        return torch.cat(outputs, dim=1)


class _Inputs:
    """The inputs of the first layer: their values for rows of the table, and the gradients of their parameters.

    `grads` are the tensors for gradients of these parameters, by the identity of the parameter.
    """

    def __init__(
        self, network: Network, data: DeviceTable, grads: dict[int, Tensor], n_rows: int, spacing_weight: float
    ) -> None:
        self._network, self._data, self._grads, self._spacing_weight = network, data, grads, spacing_weight
        self._embedding = _embedding_pass(network, grads, n_rows)
        self._embedded = (
            set() if self._embedding is None else {id(each) for each in _embedded(network) if each is not None}
        )
        self._others = [each for each in network.parameters() if id(each) in set(grads) - self._embedded]
        self._ends: list[Tensor] = []
        if self._embedding is not None and network.embedding is not None:
            n_members, n_inputs = network.backbone.first.weight.shape[:2]
            self._values = torch.zeros(n_members, n_rows, n_inputs)
            self._n_embedded = len(network.encoding.layout.sizes) * network.embedding.columns(1)

    def forward(self, rows: Tensor, *, with_graph: bool = True) -> Tensor:
        """Return the inputs of shape (n_members, batch, d_in) for rows of shape (n_members, batch)."""
        network, data = self._network, self._data
        with torch.set_grad_enabled(with_graph and bool(self._others)):
            if self._embedding is None:
                values, penalty = network.inputs(data.numbers[rows], data.codes[rows])
                self._ends = [values, penalty.sum() * self._spacing_weight]
                return values.detach()
            self._embedding.forward(data.numbers.numpy(), rows.numpy(), self._values.numpy())
            if network.cardinalities:
                self._ends = [torch.cat(network.of_categories(data.codes[rows], torch.float32), dim=-1)]
                self._values[:, :, self._n_embedded :] = self._ends[0].detach()
        return self._values

    def backward(self, grad: Tensor) -> set[int]:
        """Fill the gradients of the parameters from that of the inputs, and return which of them have one."""
        present = set(self._embedded)
        if self._embedding is not None:
            self._embedding.backward(grad.numpy())
            grad = grad[:, :, self._n_embedded :]
        pairs = zip(self._ends, (grad, None), strict=False)
        ends = [(end, slope) for end, slope in pairs if end.requires_grad]
        if ends:
            values, slopes = zip(*ends, strict=True)
            found = torch.autograd.grad(values, self._others, slopes, allow_unused=True)
            for parameter, each in zip(self._others, found, strict=True):
                if each is not None:
                    self._grads[id(parameter)].copy_(each)
                    present.add(id(parameter))
        self._ends = []
        return present


def _embedded(network: Network) -> Embedded:
    """Return the parameters of the embedding and of the functions before it."""
    embedding, encoding = network.feature_embedding, network.encoding
    assert embedding is not None
    return Embedded(embedding.weight, embedding.bias, encoding.frequencies, encoding.phases)


def _embedding_pass(network: Network, grads: dict[int, Tensor], n_rows: int) -> EmbeddingPass | None:
    """Return the compiled encoding and embedding of a network; None if it has others, or learned knots."""
    encoding, embedding = network.encoding, network.embedding
    parts, learned = encoding.layout.parts, (encoding.logits, encoding.missing, encoding.log_widths)
    if network.feature_embedding is None or embedding is None or network.pair_embedding is not None:
        return None
    if len(parts) != 1 or parts[0].features is not None or parts[0].family or parts[0].kind not in EMBEDDED_KINDS:
        return None
    if any(each is not None for each in learned):
        return None
    smooth = torch.zeros_like(encoding.low, dtype=torch.bool) if encoding.smooth is None else encoding.smooth
    low, scale, is_smooth, breaks, n_knots = (
        each.numpy() for each in (encoding.low, encoding.scale, smooth, encoding.breaks, encoding.n_knots)
    )
    scaling = Scaling(low, scale, is_smooth, np.float32(LARGEST_SCALED), np.float32(SMOOTH_LIMIT))
    functions = EmbeddedFunctions(parts[0].kind, parts[0].degree, breaks, n_knots, embedding.raw, embedding.relu)
    parameters = _embedded(network)
    targets: Any = [None if each is None else grads[id(each)] for each in parameters]
    return EmbeddingPass(scaling, functions, parameters, Embedded(*targets), n_rows)
