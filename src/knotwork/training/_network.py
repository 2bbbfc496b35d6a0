"""The network of a stack: encoded numbers, optionally embedded, and categories, followed by a backbone."""

import copy
import math
from collections.abc import Sequence
from functools import partial
from threading import Event
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from knotwork._checks import check_choice
from knotwork._kernels.dropout import Noise
from knotwork._kernels.fixed_order import fixed_order
from knotwork.encoders import Embedding
from knotwork.knots import TASKS
from knotwork.nn import (
    Backbone,
    FeatureEmbedding,
    InteractionConfig,
    PairEmbedding,
    StackEncoding,
    Stream,
    Uniform,
    first_places,
    initialise,
    left_empty,
    look_up,
    make_draw,
    mean_prediction,
    spread_values,
)
from knotwork.training._config import TrainingConfig
from knotwork.training._execution import side_by_side
from knotwork.training._members import Member, TrainingTable, column_units, complete

CATEGORIES = ("embedding", "code", "mixed")
D_CATEGORY = 8
"""Width of a category's embedding for a backbone with a flat input."""

PREDICTED_ROWS = {"cpu": 1 << 13, "cuda": 1 << 18}
"""Rows of all members together that are predicted at a time; on a CPU by one thread, whose cache they should fit."""

MOST_ONE_HOT = 9
"""Most codes of a categorical feature that enters one-hot in ``"mixed"``."""


@final
class Network(nn.Module):
    """Encoding, categories and backbone of every member of a stack.

    `categories` are learned vectors (``"embedding"``) or, for a flat input, may be codes taken as numbers
    (``"code"``), minus one: the first code stands for missing and unseen categories. ``"mixed"`` is one-hot for
    features of up to `MOST_ONE_HOT` codes, see `one_hot_places`, and learned vectors for others.

    Members whose encodings are smaller than the stack's have inputs that are always 0; their first layer has `fan_in`,
    the number of the others. `task` says what several outputs are: logits, in ``"classification"``. An `embedding` maps
    the encoded values of each feature, and may add the scaled value before them. `interactions`, one of equal shape for
    each member, add functions of pairs of features: further inputs, or a token for each pair.

    A `reproducible` network rounds as each of its members does alone, see `TrainingConfig.reproducible`.
    """

    reproducible: bool = False
    category_starts: Tensor
    embedded_places: Tensor
    one_hot_places: Tensor

    def __init__(
        self,
        encoding: StackEncoding,
        cardinalities: Sequence[int],
        backbone: Backbone,
        d_out: int,
        *,
        task: str = "regression",
        categories: str = "embedding",
        fan_in: Tensor | None = None,
        embedding: Embedding | None = None,
        interactions: Sequence[InteractionConfig] = (),
    ) -> None:
        super().__init__()
        self.task = check_choice(task, "task", TASKS)
        n_members = len(encoding.breaks)
        self.encoding = encoding
        self.has_tokens = backbone.takes_tokens
        self.categories = check_choice(categories, "categories", CATEGORIES)
        self.cardinalities = tuple(cardinalities)
        n_extra = self._add_categories(cardinalities, categories, n_members)
        sizes = self._add_embeddings(embedding, interactions)
        if not self.has_tokens:
            n_extra += sum(map(math.prod, self._pair_shape()))
        built: Any = backbone.for_task(task).build(sizes, n_extra, cardinalities, d_out, n_members=n_members)
        if not self.has_tokens and fan_in is not None:
            built.first.fan_in.copy_(fan_in + n_extra)
        self.backbone = built

    def _add_embeddings(self, embedding: Embedding | None, interactions: Sequence[InteractionConfig]) -> Sequence[int]:
        """Add the maps of features and of pairs, and return the sizes of the features that the backbone takes."""
        layout, n_members = self.encoding.layout, len(self.encoding.breaks)
        sizes: Sequence[int] = layout.sizes if self.has_tokens else [layout.size] * len(layout.sizes)
        self.embedding = embedding
        self.feature_embedding: FeatureEmbedding | None = None
        self.pair_embedding: PairEmbedding | None = None
        self.waves = [each.waves for each in interactions]
        if interactions:
            _, rank, width = interactions[0].shape
            pairs = [each.pairs for each in interactions]
            self.pair_embedding = PairEmbedding(pairs, layout.size, rank=rank, width=width, n_members=n_members)
        if embedding is not None:
            sizes = [embedding.columns(size) for size in sizes]
            if embedding.width:
                self.feature_embedding = FeatureEmbedding(
                    len(sizes), layout.size, width=embedding.width, relu=embedding.relu, n_members=n_members
                )
        return [*sizes, *(width for n_pairs, width in self._pair_shape() for _ in range(n_pairs) if self.has_tokens)]

    def _pair_shape(self) -> list[tuple[int, int]]:
        """Return numbers of pairs and of their outputs, or nothing without interactions."""
        return [] if self.pair_embedding is None else [(self.pair_embedding.n_pairs, self.pair_embedding.width)]

    def _add_categories(self, cardinalities: Sequence[int], categories: str, n_members: int) -> int:
        """Add the tensors that the inputs from categories need, and return the number of these inputs."""
        one_hot = [categories == "mixed" and n_codes <= MOST_ONE_HOT for n_codes in cardinalities]
        embedded = [place for place, flat in enumerate(one_hot) if not flat and categories != "code"]
        n_codes = [cardinalities[place] for place in embedded]
        has_vectors = bool(embedded) and not self.has_tokens
        self.embeddings = Uniform(n_members, sum(n_codes), D_CATEGORY, bound=1.0) if has_vectors else None
        self.register_buffer("category_starts", first_places(n_codes), persistent=False)
        self.register_buffer("embedded_places", torch.tensor(embedded, dtype=torch.int64), persistent=False)
        self.register_buffer("one_hot_places", one_hot_places(cardinalities, one_hot), persistent=False)
        n_one_hot = self.one_hot_places.shape[1]
        return len(cardinalities) if categories == "code" else n_one_hot + D_CATEGORY * len(embedded)

    def start(self, seeds: Tensor) -> None:
        """Initialise all parameters but the knots, those of each member by its seed."""
        initialise(self, seeds)
        self.encoding.start(seeds)
        if self.pair_embedding is not None and not seeds.is_meta:
            with torch.no_grad():
                values = spread_values(self.encoding.spacings()[0], self.encoding.n_knots)
                encoded, _ = self.encoding.encode_scaled(values, torch.float32)
            self.pair_embedding.start_from(encoded, make_draw(seeds, Stream.PAIRS), fastest=self.waves)

    @torch.no_grad()
    def start_from(self, numbers: Tensor, codes: Tensor, seeds: Tensor) -> None:
        """Set the initial parameters of a backbone with `Backbone.starts_from_rows` by rows, given as in `forward`."""
        self.backbone.start_from(self.inputs(numbers, codes)[0], make_draw(seeds, Stream.ROWS))

    def forward(
        self, numbers: Tensor, codes: Tensor, *, counts: Tensor | None = None, noise: Noise | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return outputs and spacing penalties.

        Parameters
        ----------
        numbers : Tensor of shape (n_members, batch, n_numerical)
            Numerical features, NaN where missing.
        codes : Tensor of shape (n_members, batch, n_categorical)
            Codes of the categories, int64.
        counts : Tensor of shape (n_members,), optional
            Number of valid rows of each member; the rest is padding.
        noise : Noise, optional
            Source of randomness for dropout.

        Returns
        -------
        outputs : Tensor of shape (n_members, batch, d_out)
            In float32 or float64; in training, of a backbone with several predictions, those of all of them, of shape
            (n_members, n_predictions, batch, d_out).
        penalty : Tensor of shape (n_members,)
            Spacing penalty of each member, 0 where knots are fixed.
        """
        with fixed_order(self.reproducible):
            return self._forward(numbers, codes, counts, noise)

    def _forward(
        self, numbers: Tensor, codes: Tensor, counts: Tensor | None, noise: Noise | None
    ) -> tuple[Tensor, Tensor]:
        if self.has_tokens:
            encoded, penalty = self._encoded(numbers, self.backbone.head.weight.dtype)
            outputs = self.backbone.forward_stack(encoded, codes if self.cardinalities else None, noise=noise)
        else:
            rows, penalty = self.inputs(numbers, codes)
            outputs = self.backbone.rest(self.backbone.enter(rows), counts=counts, noise=noise)
        if outputs.dim() > 3 and not self.training:
            outputs = mean_prediction(outputs, 1, logits=self.task == "classification")
        return outputs if outputs.dtype == torch.float64 else outputs.float(), penalty

    def inputs(self, numbers: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs of a backbone with a flat input, of shape (n_members, batch, d_in), and penalties."""
        encoded, penalty = self._encoded(numbers, self.backbone.first.weight.dtype)
        return self._with_categories(encoded, codes), penalty

    def _encoded(self, numbers: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the inputs from numerical features and penalties.

        The inputs have the shape (n_members, batch, n_numerical, columns), for tokens with the functions of each
        pair after them; otherwise, if there are pairs, (n_members, batch, n_inputs).
        """
        if self.embedding is None and self.pair_embedding is None:
            encoded, penalty = self.encoding(numbers, dtype)
            return encoded, penalty
        values = self.encoding.scaled(numbers)
        encoded, penalty = self.encoding.encode_scaled(values, dtype)
        pairs = None if self.pair_embedding is None else self.pair_embedding.forward_stack(encoded)
        if self.feature_embedding is not None:
            encoded = self.feature_embedding.forward_stack(encoded)
        if self.embedding is not None and self.embedding.raw:
            encoded = torch.cat([self.encoding.raw(values)[..., None].to(encoded.dtype), encoded], dim=-1)
        return encoded if pairs is None else self._with_pairs(encoded, pairs), penalty

    def _with_pairs(self, encoded: Tensor, pairs: Tensor) -> Tensor:
        """Return encoded features and functions of pairs as inputs of the backbone."""
        if not self.has_tokens:
            return torch.cat([encoded.flatten(-2), pairs.flatten(-2).to(encoded.dtype)], dim=-1)
        padding = self.token_padding()
        parts = [nn.functional.pad(values, (0, more)) for values, more in zip((encoded, pairs), padding, strict=True)]
        return torch.cat([parts[0], parts[1].to(encoded.dtype)], dim=2)

    def token_padding(self) -> tuple[int, int]:
        """Return the columns of zeros with which features and pairs become tokens of one size."""
        assert self.pair_embedding is not None
        size, width = self.encoding.layout.size, self.pair_embedding.width
        size = size if self.embedding is None else self.embedding.columns(size)
        return max(width - size, 0), max(size - width, 0)

    def _with_categories(self, encoded: Tensor, codes: Tensor) -> Tensor:
        flat = encoded.flatten(2)
        return torch.cat([flat, *self.of_categories(codes, flat.dtype)], dim=-1) if self.cardinalities else flat

    def of_categories(self, codes: Tensor, dtype: torch.dtype) -> list[Tensor]:
        """Return the inputs from categories, each of shape (n_members, batch, columns)."""
        parts = []
        if self.categories == "code":
            parts.append(codes.to(dtype) - 1)
        if self.one_hot_places.shape[1]:
            features, ones, minus_ones = self.one_hot_places
            chosen = codes.index_select(-1, features)
            parts.append((chosen == ones).to(dtype) - (chosen == minus_ones).to(dtype))
        if self.embeddings is not None:
            if len(self.embedded_places) < len(self.cardinalities):
                codes = codes.index_select(-1, self.embedded_places)
            vectors = look_up(self.embeddings.values, codes + self.category_starts)
            parts.append(vectors.flatten(-2).to(dtype))
        return parts


def build_network(
    table: TrainingTable,
    members: Sequence[Member],
    *,
    units: np.ndarray,
    categories: str = "embedding",
    device: torch.device | None = None,
) -> Network:
    """Return the network of complete members in the order of their kinds without initial values, usually on the CPU."""
    backbone, config = members[0].settings
    encodings, learnable = [member.encodings for member in members], [member.learnable for member in members]
    settings: dict[str, Any] = {"min_spacing": config.knot_spacing, "learned_missing": members[0].learned_missing}
    encoding = StackEncoding.from_encodings(encodings, learnable, units=units, **settings)
    fan_in = torch.tensor([float(member.n_columns) for member in members])
    interactions = [member.interactions for member in members if member.interactions is not None]
    with left_empty():
        network = Network(
            encoding, table.cardinalities, backbone, table.d_out, task=table.task, categories=categories, fan_in=fan_in,
            embedding=members[0].embedding, interactions=interactions,
        )  # fmt: skip
    if network.feature_embedding is not None:
        network.feature_embedding.set_fan_in([member.sizes for member in members])
    if device is not None:
        network.to(device)
    network.reproducible = config.reproducible
    if config.reproducible:
        network.encoding.settle()
    return network


def count_parameters(table: TrainingTable, member: Member, backbone: Backbone, *, categories: str = "embedding") -> int:
    """Return the number of parameters of a member without the padding that its encodings may have in a stack."""
    units = column_units(table.numbers[:1])
    members = complete([member], backbone, TrainingConfig())
    network = build_network(table, members, units=units, categories=categories)
    return sum(parameter.numel() for parameter in network.parameters())


def one_hot_places(cardinalities: Sequence[int], one_hot: Sequence[bool]) -> Tensor:
    """Return the columns of features that enter one-hot, of shape (3, n_columns), int64.

    The rows are the feature of a column, the code for which it is 1, and the code for which it is -1, or -1 if none
    is. There is a column for each code but the first, which stands for missing and unseen categories. A feature of two
    categories has one column, -1 and 1.
    """
    columns: list[tuple[int, int, int]] = []
    for feature, n_codes in enumerate(cardinalities):
        if one_hot[feature] and n_codes == 3:
            columns.append((feature, 2, 1))
        elif one_hot[feature]:
            columns += [(feature, code, -1) for code in range(1, n_codes)]
    return torch.tensor(columns, dtype=torch.int64).reshape(-1, 3).T.contiguous()


def weight_decays(network: Network, backbone: Backbone, weight_decay: float) -> list[float]:
    """Return the weight decay of each of `network.parameters()`: 0 for the encoding and the backbone's `undecayed`."""

    def decay(name: str) -> float:
        undecayed = name.startswith("encoding.") or any(part in name for part in backbone.undecayed)
        return 0.0 if undecayed else weight_decay

    return [decay(name) for name, _ in network.named_parameters()]


class RateGroup(NamedTuple):
    """Parameters with the same multiple of the learning rate; knots wait for `TrainingConfig.knot_warmup`."""

    factor: float = 1.0
    knots: bool = False


def rate_groups(network: Network, backbone: Backbone, knot_rate: float) -> tuple[list[RateGroup], list[int]]:
    """Return the groups, with that of the factor 1 first, and the place of the group of each parameter."""

    def group(name: str) -> RateGroup:
        if name == "encoding.logits":
            return RateGroup(knot_rate, knots=True)
        return RateGroup(next((factor for part, factor in backbone.rate_factors if part in name), 1.0))

    of_parameters = [group(name) for name, _ in network.named_parameters()]
    groups = list(dict.fromkeys([RateGroup(), *of_parameters]))
    return groups, [groups.index(each) for each in of_parameters]


def matrices(network: Network) -> list[nn.Parameter]:
    """Return the parameters of matrix products, which may be kept in lower precision."""
    modules = ("backbone.", "feature_embedding.", "pair_embedding.")
    return [
        parameter
        for name, parameter in network.named_parameters()
        if name.startswith(modules) and name.endswith("weight") and parameter.dim() >= 3
    ]


def feature_weights(network: Network, backbone: Backbone) -> Tensor | None:
    """Return the weights of the linear map of each feature, of shape (n_members, n_features, size, n_outputs).

    They are those of the embedding, if any, otherwise those of the backbone's first layer; None without such a map.
    """
    if network.feature_embedding is not None:
        return network.feature_embedding.weight
    weights = backbone.first_weights(network.backbone)
    if weights is None or not len(network.encoding.layout.sizes):
        return None
    if weights.dim() == 3:  # a flat input, followed by further inputs
        n_features, raw = len(network.encoding.layout.sizes), network.embedding is not None and network.embedding.raw
        columns = network.encoding.layout.size + raw
        weights = weights[:, : n_features * columns].view(len(weights), n_features, columns, -1)
    return weights[:, :, -network.encoding.layout.size :]


def running_statistics(network: Network) -> list[Tensor]:
    """Return the buffers of batch normalisation, which belong to the weights of a member."""
    return [buffer for name, buffer in network.named_buffers() if "running" in name]


def take_members(network: Network, index: Tensor) -> Network:
    """Return a network of the members of an increasing index, with copies of their tensors only."""
    n_members = len(network.encoding.breaks)
    shared = {id(buffer) for name, buffer in network.named_buffers() if name.endswith(("category_starts", "places"))}
    tensors = [*network.parameters(), *network.buffers()]
    taken = copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})  # copies no tensor
    for module in taken.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(parameter.detach()[index].contiguous()))
        for name, buffer in module.named_buffers(recurse=False):
            if id(buffer) not in shared and len(buffer) == n_members:
                setattr(module, name, buffer[index].contiguous())
    taken.encoding.layout = network.encoding.layout.take(index.tolist())
    return taken


def moved(network: Network, device: torch.device) -> Network:
    """Return a network whose tensors are on a device; those that are on it already are shared."""
    parameters = {id(each): nn.Parameter(each.detach().to(device)) for each in network.parameters()}
    return copy.deepcopy(network, {**parameters, **{id(each): each.to(device) for each in network.buffers()}})


def predict_stack(
    network: Network, numbers: Tensor, codes: Tensor, rows: Tensor, *, n_threads: int = 1, counts: Tensor | None = None
) -> Tensor:
    """Return the outputs of every member for its rows of shape (n_members, n), of shape (n_members, n, d_out).

    `counts` are the rows that are not padding, by default all: on a CPU a reproducible network predicts no others.
    """
    if network.reproducible and rows.device.type == "cpu" and len(rows) > 1:
        return _predict_one_by_one(network, numbers, codes, rows, n_threads=n_threads, counts=counts)
    was_training = network.training
    network.eval()
    # A power of two, of which the rows that streams predict at a time are a multiple: rounding may depend on it.
    at_once = 1 << (max(PREDICTED_ROWS.get(rows.device.type, 1 << 13) // len(rows), 1).bit_length() - 1)

    def outputs(part: Tensor, _: Event) -> Tensor:
        with torch.no_grad():  # holds for one thread only
            result: Tensor = network(numbers[part], codes[part])[0]
            return result

    parts = side_by_side([partial(outputs, part) for part in torch.split(rows, at_once, dim=1)], n_threads)
    network.train(was_training)
    return torch.cat(parts, dim=1)


def _predict_one_by_one(
    network: Network, numbers: Tensor, codes: Tensor, rows: Tensor, *, n_threads: int, counts: Tensor | None
) -> Tensor:
    """Return the outputs of `predict_stack`, computed as those of each member alone."""
    lengths = [rows.shape[1]] * len(rows) if counts is None else counts.tolist()
    outputs = []
    for place, n in enumerate(lengths):
        one = take_members(network, torch.tensor([place]))
        values = predict_stack(one, numbers, codes, rows[place : place + 1, :n], n_threads=n_threads)
        outputs.append(torch.nn.functional.pad(values, (0, 0, 0, rows.shape[1] - n)))
    return torch.cat(outputs)
