"""Penalties on the weights that read encoded features: smoothness of curves, and gates of features."""

from collections.abc import Sequence
from typing import Self, final

import numpy as np
import torch
from torch import Tensor

from knotwork.nn._backbones import Backbone
from knotwork.nn._gates import column_moments, gate_gradient
from knotwork.nn._smoothness import bands_of, penalty_gradient
from knotwork.training._config import TrainingConfig
from knotwork.training._members import Member
from knotwork.training._network import Network, block_weights

__all__ = ["WeightPenalties"]


@final
class WeightPenalties:
    """The penalties of a stack; only their gradients are computed.

    Parameters
    ----------
    network : Network
        The network of the stack.
    backbone : Backbone
        Its configuration.
    smoothness, gates : Tensor of shape (n_members, n_features)
        Strengths of the penalties.
    order : int
        Order of the differences that smoothness penalises.
    moments : Tensor or None
        Result of `column_moments`; None without gates.
    """

    def __init__(
        self, network: Network, backbone: Backbone, *, smoothness: Tensor, gates: Tensor, order: int,
        moments: Tensor | None,
    ) -> None:  # fmt: skip
        self.network, self.backbone = network, backbone
        self.smoothness, self.gates, self.order, self.moments = smoothness, gates, order, moments
        self.bands = self._bands()

    @classmethod
    def of_members(
        cls, members: Sequence[Member], network: Network, backbone: Backbone, config: TrainingConfig, *, rows: Tensor
    ) -> Self | None:
        """Return the penalties of members; None if no weight is penalised.

        `config` is that of members that have none of their own; `rows` are numbers of some training rows of each
        member, of shape (n_members, n, n_features), by which gates are measured.
        """
        shape = len(members), len(members[0].blocks)
        smoothness = np.array([(member.config or config).strengths(shape[1]) for member in members]).reshape(shape)
        gates = np.array([np.zeros(shape[1]) if member.gates is None else member.gates for member in members])
        if not (smoothness.any() or gates.any()) or block_weights(network, backbone) is None:
            return None
        with torch.no_grad():
            moments = column_moments(network.encoding(rows)[0]) if gates.any() else None
        first, second = (torch.from_numpy(each).to(rows.device, torch.float32) for each in (smoothness, gates))
        order = config.smoothness_order
        return cls(network, backbone, smoothness=first, gates=second, order=order, moments=moments)

    @torch.no_grad()
    def _bands(self) -> Tensor:
        return bands_of(self.network.encoding, self.smoothness, self.order)

    def update(self) -> None:
        """Allow for knots that have moved; in place, for captured graphs."""
        if self.network.encoding.logits is not None:
            self.bands.copy_(self._bands())

    def weights(self) -> Tensor:
        """Return the weights, as a function of the network's parameters."""
        weights = block_weights(self.network, self.backbone)
        assert weights is not None
        return weights

    def gradient(self, weights: Tensor) -> Tensor:
        """Return the gradient of all penalties in the weights."""
        gradient = penalty_gradient(weights, self.bands)
        return gradient if self.moments is None else gradient + gate_gradient(weights, self.moments, self.gates)

    def kept(self, index: Tensor, network: Network) -> "WeightPenalties":
        """Return the penalties of the members of an index, whose network is given."""
        moments = None if self.moments is None else self.moments[index]
        strengths = {"smoothness": self.smoothness[index], "gates": self.gates[index]}
        return WeightPenalties(network, self.backbone, **strengths, order=self.order, moments=moments)
