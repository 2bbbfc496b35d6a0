"""AdamW on the CPU: one compiled pass over a tensor, its gradient and its moments."""

import numpy as np
from torch import Tensor

from knotwork._kernels.threads import over_chunks
from knotwork.basis._compiled import compiled
from knotwork.training._adamw import Factors, Rule

__all__ = ["update"]

VALUES_PER_CHUNK = 1 << 16
"""Values that a thread takes at a time."""

ONE = np.float32(1.0)


@compiled()
def _update(master, grad, first, second, shrink, size, root, rule):
    fresh1, beta2, fresh2, epsilon = rule
    for i in range(master.shape[0]):
        m = first[i] + fresh1 * (grad[i] - first[i])
        v = beta2 * second[i] + fresh2 * grad[i] * grad[i]
        first[i], second[i] = m, v
        master[i] = shrink * master[i] - size * m / (np.sqrt(v) * root + epsilon)


@compiled()
def _update_some(start, stop, arrays, factors, decay, rule):
    """Update the elements from start to stop, counted over all members."""
    master, grad, first, second = arrays
    rates, sizes, roots = factors
    length = master.shape[1]
    for member in range(start // length, -(-stop // length)):
        if sizes[member] == 0.0:
            continue
        low, high = max(start - member * length, 0), min(stop - member * length, length)
        shrink = ONE - rates[member] * decay
        _update(
            master[member, low:high],
            grad[member, low:high],
            first[member, low:high],
            second[member, low:high],
            shrink,
            sizes[member],
            roots[member],
            rule,
        )


def update(
    master: Tensor, grad: Tensor, moments: tuple[Tensor, Tensor], factors: Factors, *, decay: float, rule: Rule
) -> None:
    """Take the step of `update_plain` with float32 tensors."""
    if not master.numel():
        return
    shape = master.shape[0], -1
    arrays = tuple(t.detach().contiguous().view(shape).numpy() for t in (master, grad, *moments))
    numbers = tuple(factor.contiguous().numpy() for factor in factors)
    constants = tuple(np.float32(x) for x in (1.0 - rule.beta1, rule.beta2, 1.0 - rule.beta2, rule.epsilon))
    rate_of_decay = np.float32(decay)

    def work(_: int, part: slice) -> None:
        _update_some(part.start, part.stop, arrays, numbers, rate_of_decay, constants)

    over_chunks(work, 1, master.numel(), rows_per_chunk=VALUES_PER_CHUNK)
