"""Who is trained together: members of one size, as many as fit into memory."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from knotwork.nn._backbones.config import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._members import Member, TrainingTable

__all__ = ["plan_stacks"]

MEMORY_SHARE = 0.6
"""Share of the free memory that a stack may fill by estimate."""


def plan_stacks(
    table: TrainingTable,
    members: Sequence[Member],
    backbone: Backbone,
    config: TrainingConfig,
    device: torch.device,
) -> list[list[int]]:
    """Return which members are trained together, in the order of their kinds.

    Members of one size go together, for smaller blocks would be padded; those that are only scaled join the smallest
    others, unless each value is a token.
    """
    by_coordinate = backbone.name == "ft" and backbone.tokens == "coordinate"  # type: ignore[attr-defined]
    by_size: dict[Any, list[int]] = {}
    for place, member in enumerate(members):
        by_size.setdefault(member.sizes if by_coordinate else member.size, []).append(place)
    if not by_coordinate and len(by_size) > 1 and 1 in by_size:
        scaled = by_size.pop(1)
        by_size[min(by_size)] += scaled
    memory = _free_memory(device) * MEMORY_SHARE
    stacks = []
    for places in by_size.values():
        places.sort(key=lambda place: members[place].kinds)
        size = max(members[place].size for place in places)
        most = max(int(memory / _member_bytes(table, size, backbone, config)), 1)
        stacks += np.array_split(np.array(places), -(-len(places) // most))
    return [[int(place) for place in stack] for stack in stacks]


def _member_bytes(table: TrainingTable, size: int, backbone: Backbone, config: TrainingConfig) -> int:
    """Return about how many bytes a member of a stack takes: weights, moments, gradients, and what backward needs."""
    n_features = table.numbers.shape[1]
    with torch.device("meta"):
        network = backbone.build(
            [size] * n_features, 8 * len(table.cardinalities), table.cardinalities, table.d_out, n_members=1
        )
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    batch = config.batch_size_for(len(table.target))
    per_row = backbone.activations([size] * n_features, len(table.cardinalities))
    return 4 * (7 * n_parameters + 2 * batch * per_row) + 16 * len(table.target)


def _free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
