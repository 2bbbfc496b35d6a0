"""Where learned knots are after every epoch; nothing waits for the device until training is over."""

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from knotwork.basis._blocks import BasisBlock, Block
from knotwork.nn._stack import StackEncoding
from knotwork.training._members import Member

__all__ = ["KnotPaths"]


@final
class KnotPaths:
    """Gathers the knots of a stack, epoch after epoch, on the device."""

    def __init__(self) -> None:
        self._seen: list[tuple[Tensor, Tensor]] = []

    def add(self, ids: Tensor, encoding: StackEncoding) -> None:
        """Take in the knots of members as they are now; of stacks without learned knots, nothing.

        Parameters
        ----------
        ids : Tensor of shape (n_members,)
            Their places among the members that the stack began with.
        encoding : StackEncoding
            Their encoding.
        """
        if encoding.logits is not None:
            self._seen.append((ids.clone(), encoding.spacings()[0].detach().clone()))

    def paths(self, members: Sequence[Member], epochs: Sequence[int]) -> list[npt.NDArray[np.float64] | None]:
        """Return for each member an array of shape (epochs + 1, n_features, K), None where knots are not learned.

        Knots are in the units of the data. The first are those of the start. K is the number of knots of the feature
        that has most of them; the others are padded with NaN.

        Parameters
        ----------
        members : sequence of Member
            The members that the stack began with.
        epochs : sequence of int
            How many epochs each was trained.
        """
        seen = [(ids.tolist(), breaks.double().cpu().numpy()) for ids, breaks in self._seen]
        out: list[npt.NDArray[np.float64] | None] = []
        for place, (member, n_epochs) in enumerate(zip(members, epochs, strict=True)):
            own = [breaks[ids.index(place)] for ids, breaks in seen[: n_epochs + 1] if place in ids]
            out.append(_in_units(np.stack(own), member.blocks) if own and member.learnable else None)
        return out


def _in_units(breaks: npt.NDArray[np.float64], blocks: Sequence[Block]) -> npt.NDArray[np.float64]:
    """Return the knots of scaled breaks of shape (n, n_features, K + 2) in the units of the data."""
    counts = [len(block.basis.knots) if isinstance(block, BasisBlock) else 0 for block in blocks]
    knots = np.full((len(breaks), len(blocks), max(counts, default=0)), np.nan)
    for feature, (block, count) in enumerate(zip(blocks, counts, strict=True)):
        if isinstance(block, BasisBlock):
            low, high = block.basis.domain
            knots[:, feature, :count] = low + (high - low) * breaks[:, feature, 1 : count + 1]
    return knots
