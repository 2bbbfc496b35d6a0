"""The penalty on the weights that read encoded features, by which curves are smooth."""

from collections.abc import Sequence
from typing import Self, final

import numpy as np
import torch
from torch import Tensor

from knotwork.nn import Backbone, bands_of, penalty_gradient
from knotwork.training._config import TrainingConfig
from knotwork.training._members import Member
from knotwork.training._network import Network, block_weights

__all__ = ["SmoothnessPenalty"]


@final
class SmoothnessPenalty:
    """The smoothness penalty of a stack; only its gradient is computed.

    Parameters
    ----------
    network : Network
        The network of the stack.
    backbone : Backbone
        Its configuration.
    strengths : Tensor of shape (n_members, n_features)
        Strengths of the penalty.
    order : int
        Order of the differences that are penalised.
    """

    def __init__(self, network: Network, backbone: Backbone, *, strengths: Tensor, order: int) -> None:
        self.network, self.backbone = network, backbone
        self.strengths, self.order = strengths, order
        self.bands = self._bands()

    @classmethod
    def of_members(
        cls, members: Sequence[Member], network: Network, backbone: Backbone, config: TrainingConfig
    ) -> Self | None:
        """Return the penalty of members; None if no weight is penalised.

        `config` is that of members that have none of their own.
        """
        shape = len(members), len(members[0].blocks)
        strengths = np.array([(member.config or config).strengths(shape[1]) for member in members]).reshape(shape)
        if not strengths.any() or block_weights(network, backbone) is None:
            return None
        on_device = torch.from_numpy(strengths).to(network.encoding.breaks.device, torch.float32)
        return cls(network, backbone, strengths=on_device, order=config.smoothness_order)

    @torch.no_grad()
    def _bands(self) -> Tensor:
        return bands_of(self.network.encoding, self.strengths, self.order)

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
        """Return the gradient of the penalty in the weights."""
        return penalty_gradient(weights, self.bands)

    def take(self, index: Tensor, network: Network) -> "SmoothnessPenalty":
        """Return the penalty of the members of an index, whose network is given."""
        return SmoothnessPenalty(network, self.backbone, strengths=self.strengths[index], order=self.order)
