"""AdamW for a stack of networks: each member has its own learning rate and step count, and may be inactive."""

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error
from knotwork._kernels import dispatch
from knotwork._kernels.dispatch import VALUES_PER_CHUNK, as_array, in_ranges
from knotwork._loops import LANES, compiled


class AdamWConstants(NamedTuple):
    """The constants of AdamW: decay rates of the two moments, and the addend to the root of the second."""

    beta1: float
    beta2: float
    epsilon: float


class Factors(NamedTuple):
    """Factors of a step for each of M members, float32, for one group of parameters.

    `sizes` are the rates divided by the correction of the first moment, 0 for a member that does not move; `roots` are
    one over the root of the correction of the second moment.
    """

    rates: Tensor
    sizes: Tensor
    roots: Tensor


def update_formula(
    master: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    factors: Factors,
    *,
    decay: float,
    rule: AdamWConstants,
) -> None:
    """Take the step of `AdamW` with one tensor and its moments, in place."""
    rates, sizes, roots = (factor.to(master.dtype).view(-1, *[1] * (master.dim() - 1)) for factor in factors)
    first, second = moments
    grad = grad.to(master.dtype)
    new_first = first + (1.0 - rule.beta1) * (grad - first)
    new_second = rule.beta2 * second + (1.0 - rule.beta2) * grad * grad
    change = sizes * new_first / (new_second.sqrt() * roots + rule.epsilon)
    new_master = (1.0 - rates * decay) * master - change
    for old, new in ((first, new_first), (second, new_second), (master, new_master)):
        old.copy_(torch.where(sizes != 0, new, old))


@compiled()
def _update(master, grad, first, second, shrink, size, root, rule):
    fresh1, beta2, fresh2, epsilon = rule
    for i in range(master.shape[0]):
        m = first[i] + fresh1 * (grad[i] - first[i])
        v = beta2 * second[i] + fresh2 * grad[i] * grad[i]
        first[i], second[i] = m, v
        master[i] = shrink * master[i] - size * m / (np.sqrt(v) * root + epsilon)


@compiled()
def _update_chunks(first, stop, chunks, arrays, factors, groups, decays, present, rule):
    """Update the chunks from first to stop: ranges of the buffers, each of one member's part of one tensor."""
    master, grad, first_moment, second_moment = arrays
    rates, sizes, roots = factors
    for place in range(first, stop):
        low, high, tensor, member = chunks[place]
        group = groups[tensor]
        if not present[tensor] or sizes[group, member] == 0.0:
            continue
        shrink = np.float32(1.0) - rates[group, member] * decays[tensor]
        _update(
            master[low:high], grad[low:high], first_moment[low:high], second_moment[low:high],
            shrink, sizes[group, member], roots[group, member], rule,
        )  # fmt: skip


@compiled(nogil=False)
def _count_steps(steps, rates, active, logs, sizes, roots):
    """Count the step, and fill the factors of `Factors` besides the rates; all of shape (n_groups, M)."""
    for group in range(steps.shape[0]):
        for member in range(steps.shape[1]):
            rate = rates[group, member]
            moves = active[member] and rate != 0.0
            steps[group, member] += moves
            count = max(steps[group, member], 1)
            sizes[group, member] = rate / -np.expm1(count * logs[0]) if moves else 0.0
            roots[group, member] = 1.0 / np.sqrt(-np.expm1(count * logs[1]))


def _joined(tensors: Sequence[Tensor]) -> tuple[Any, list[Tensor]]:
    """Return copies of float32 tensors as views of one buffer, and the buffer: one pass can then treat all of them."""
    sizes = [-(-tensor.numel() // LANES) * LANES for tensor in tensors]  # so that each begins a vector
    buffer = torch.zeros(sum(sizes))
    pieces = zip(buffer.split(sizes), tensors, strict=True)
    views = [piece[: tensor.numel()].view(tensor.shape).copy_(tensor.detach()) for piece, tensor in pieces]
    return buffer.numpy(), views


def _chunks(views: Sequence[Tensor]) -> npt.NDArray[np.int64]:
    """Return the chunks of a buffer: start, stop, tensor and member of each."""
    chunks: list[tuple[int, ...]] = []
    for place, view in enumerate(views):
        length = view[0].numel()
        for member in range(len(view)):
            start = int(view.storage_offset()) + member * length
            stop = start + length
            lows = range(start, stop, VALUES_PER_CHUNK)
            chunks += [(low, min(low + VALUES_PER_CHUNK, stop), place, member) for low in lows]
    return np.array(chunks, dtype=np.int64).reshape(-1, 4)


def log_betas(rule: AdamWConstants) -> tuple[float, float]:
    """Return the logarithms of the betas: ``1 - beta**t`` is ``-expm1(t log beta)``, accurate where it is small."""
    return tuple(math.log(beta) if beta else -math.inf for beta in rule[:2])  # type: ignore[return-value]


class AdamW:
    """Adam with decoupled weight decay, for parameters with a leading axis of members.

    A member that is inactive, or has a learning rate of exactly 0 in a group, keeps its parameters, moments and step
    count there, even if its gradients are NaN. Steps are counted per group and member; a tensor without a gradient is
    not changed, but its group still counts the step.

    Parameters
    ----------
    parameters : sequence of Tensor of shape (M, ...)
        Contiguous, float32 or bfloat16 (or float64 on the plain path), changed in place. A bfloat16 parameter has a
        float32 master copy that takes the steps; the parameter is that copy, rounded.
    decays : sequence of float
        Weight decay of each parameter.
    groups : sequence of int
        Group of each parameter, from 0: its row of `rates`.
    betas : pair of float, default=(0.9, 0.999)
        Decay rates of the running means of the gradients and of their squares.
    epsilon : float, default=1e-08
        Added to the root of the second moment.

    Attributes
    ----------
    masters : list of Tensor
        Tensors that take the steps: the parameter itself, or the float32 copy of a bfloat16 parameter.
    grads : list of Tensor
        On the compiled path, tensors for the gradients of all parameters: a caller that fills them saves copies.
    steps : Tensor of shape (n_groups, M)
        Steps taken, int64.

    Notes
    -----
    As `torch.optim.AdamW`, with rate a, decay w and the member's step count t in its group::

        m <- m + (1 - b1) (g - m)        v <- b2 v + (1 - b2) g^2
        p <- (1 - a w) p - a / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + epsilon)

    The paths: on a GPU one Triton kernel per tensor and one that counts the steps, without synchronising with the
    host; one compiled pass over all tensors, in threads, for float32 on the CPU, where parameters become views of one
    buffer (their `data` is replaced); `update_formula` otherwise.

    Examples
    --------
    >>> weight = torch.ones(2, 3)
    >>> optimiser = AdamW([weight], decays=[0.0], groups=[0])
    >>> rates, active = torch.tensor([[0.1, 0.1]]), torch.tensor([True, False])
    >>> optimiser.step([torch.ones(2, 3)], rates, active)
    >>> weight
    tensor([[0.9000, 0.9000, 0.9000],
            [1.0000, 1.0000, 1.0000]])
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        decays: Sequence[float],
        groups: Sequence[int],
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ):
        self._parameters = _checked(parameters)
        for name, values in (("decays", decays), ("groups", groups)):
            if len(values) != len(parameters):
                raise argument_error(name, f"have one value for each of the {len(parameters)} parameters", values)
        self._decays, self._groups = [float(decay) for decay in decays], list(groups)
        self._rule = AdamWConstants(*betas, epsilon)
        self._logs = log_betas(self._rule)
        rule = tuple(np.float32(x) for x in (1.0 - betas[0], betas[1], 1.0 - betas[1], epsilon))
        self._constants = rule, np.array(self._groups), np.array(self._decays, dtype=np.float32)
        self.masters = [_master(parameter) for parameter in self._parameters]
        self._first, self._second = ([torch.zeros_like(master) for master in self.masters] for _ in range(2))
        shape, device = (max(groups) + 1, len(self.masters[0])), self.masters[0].device
        self.steps = torch.zeros(shape, dtype=torch.int64, device=device)
        self._join()

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor | None], rates: Tensor, active: Tensor) -> None:
        """Take one step with all parameters that have a gradient.

        `grads` have the parameters' shapes and any float type, `rates` are of shape (n_groups, M), and `active`, bool
        of shape (M,), selects the members that take the step.
        """
        if len(grads) != len(self._parameters):
            raise argument_error("grads", f"have one entry for each of {len(self._parameters)} parameters", len(grads))
        factors = self._count(rates, active)
        if self._arrays:
            self._update_joined(grads, factors)
            return
        groups = [Factors(*rows) for rows in zip(*factors, strict=True)]
        for i, grad in enumerate(grads):
            if grad is not None and grad.numel():
                self._update(i, grad, groups[self._groups[i]])

    def take(self, index: Tensor, parameters: Sequence[Tensor]) -> "AdamW":
        """Return the optimiser of the members of an int64 index, in its order, with copies of all tensors.

        `parameters` are those of the new optimiser, ``old[index]`` of each.
        """
        if len(parameters) != len(self._parameters) or any(len(parameter) != len(index) for parameter in parameters):
            limit = f"be {len(self._parameters)} tensors of {len(index)} members"
            raise argument_error("parameters", limit, len(parameters))
        taken = copy(self)
        taken._parameters = _checked(parameters)
        taken.masters = [
            parameter if master is before else master[index]
            for parameter, before, master in zip(parameters, self._parameters, self.masters, strict=True)
        ]
        taken._first, taken._second = ([moment[index] for moment in moments] for moments in (self._first, self._second))
        taken.steps = self.steps[:, index]
        taken._join()
        return taken

    def _join(self) -> None:
        """Let parameters, gradients and moments be views of one buffer each, if compiled loops update them."""
        pairs = zip(self.masters, self._parameters, strict=True)
        self._arrays: tuple[Any, ...] = ()
        self.grads: list[Tensor] = []
        if any(t is not each or t.device.type != "cpu" or t.dtype != torch.float32 for t, each in pairs):
            return
        values, views = _joined(self.masters)
        for parameter, view in zip(self._parameters, views, strict=True):
            parameter.data = view
        (grads, self.grads), (first, self._first), (second, self._second) = map(
            _joined, ([torch.zeros_like(view) for view in views], self._first, self._second)
        )
        self._arrays, self._chunks = (values, grads, first, second), _chunks(views)

    def _count(self, rates: Tensor, active: Tensor) -> Factors:
        """Count the step, and return the factors, each of shape (n_groups, M)."""
        if rates.shape != self.steps.shape:
            raise argument_error("rates", f"be of shape {tuple(self.steps.shape)}", tuple(rates.shape))
        rates = rates.to(torch.float32)
        if dispatch.on_triton(self.masters[0]):
            from knotwork._kernels import adamw_triton  # noqa: PLC0415 - needs Triton

            return Factors(rates, *adamw_triton.count(self.steps, rates, active, self._rule))
        if self._arrays:
            sizes, roots = torch.empty_like(rates), torch.empty_like(rates)
            inputs = self.steps.numpy(), as_array(rates), as_array(active)
            _count_steps(*inputs, self._logs, sizes.numpy(), roots.numpy())
            return Factors(rates, sizes, roots)
        moves = (rates != 0) & active
        self.steps += moves
        counts = self.steps.clamp(min=1)  # the corrections of a member that never moved are not used
        corrections = [-torch.expm1(counts * log).float() for log in self._logs]
        return Factors(rates, torch.where(moves, rates / corrections[0], 0.0), corrections[1].rsqrt())

    def _update_joined(self, grads: Sequence[Tensor | None], factors: Factors) -> None:
        """Take the step of `update_formula` with all tensors that have a gradient, in one pass."""
        for view, grad in zip(self.grads, grads, strict=True):
            if grad is not None and grad is not view:
                view.copy_(grad)
        present = np.array([grad is not None for grad in grads])
        numbers = tuple(as_array(factor) for factor in factors)

        def work(first: int, stop: int) -> None:
            _update_chunks(first, stop, self._chunks, self._arrays, numbers, *self._constants[1:], present, rule)

        rule = self._constants[0]
        in_ranges(work, len(self._chunks))

    def _update(self, i: int, grad: Tensor, factors: Factors) -> None:
        master, parameter, tensors = self.masters[i], self._parameters[i], (self._first[i], self._second[i])
        settings: Any = {"decay": self._decays[i], "rule": self._rule}
        if dispatch.on_triton(master):
            from knotwork._kernels import adamw_triton  # noqa: PLC0415

            adamw_triton.update(parameter, master, grad, tensors, factors, **settings)
            return
        update_formula(master, grad, tensors, factors, **settings)
        if master is not parameter:
            parameter.copy_(master)


def _checked(parameters: Sequence[Tensor]) -> list[Tensor]:
    if not parameters:
        raise argument_error("parameters", "hold at least one tensor", list(parameters))
    for parameter in parameters:
        if not parameter.is_contiguous():
            raise argument_error("parameters", "be contiguous", tuple(parameter.shape), "Call contiguous() on it.")
    return list(parameters)


def _master(parameter: Tensor) -> Tensor:
    return parameter.detach().float() if parameter.dtype in (torch.bfloat16, torch.float16) else parameter
