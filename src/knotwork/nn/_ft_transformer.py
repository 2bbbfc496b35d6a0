"""The FT-Transformer: features as tokens, attention among them."""

import math
from collections.abc import Sequence
from typing import cast, final

import numpy as np
import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_choice, check_int
from knotwork._graph import EPSILON, Graph, as_numpy
from knotwork._kernels.attention import attention, divided_product
from knotwork._kernels.dropout import Noise
from knotwork._kernels.fixed_order import look_up
from knotwork._kernels.transformer import layer_norm, make_tokens, reglu_dropout
from knotwork.nn._linear import (
    Draw,
    Initial,
    Linear,
    Uniform,
    check_dropout,
    draw_columns,
    first_places,
    flat_rows,
    initialise,
    member_seeds,
)

TOKENS = ("feature", "coordinate")


@final
class LayerNorm(nn.Module):
    """Layer normalisation with separate weights for every member."""

    def __init__(self, n_members: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_members, width))
        self.bias = nn.Parameter(torch.zeros(n_members, width))

    def forward(self, x: Tensor, *, first: bool = False) -> tuple[Tensor, Tensor]:
        """Return x, with `first` only its first token, and the normalised x of all tokens."""
        return layer_norm(x, self.weight, self.bias, first=first)

    def of_sum(self, x: Tensor, layer: Linear, z: Tensor, *, first: bool = False) -> tuple[Tensor, Tensor]:
        """Return ``s = x + layer(z)``, with `first` only its first token, and the normalised s of all tokens."""
        assert layer.bias is not None
        return layer_norm(x, self.weight, self.bias, added=layer.product(z), shift=layer.bias, first=first)

    def to_graph(self, graph: Graph, x: str, member: int) -> str:
        """Add the normalisation of a member."""
        weights = as_numpy(self.weight[member]), as_numpy(self.bias[member])
        return graph("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)


@final
class Tokenizer(Initial):
    """Maps encoded features and categories to tokens, after the CLS token.

    With ``tokens="feature"`` a linear map per feature turns its encoded values into one token; with ``"coordinate"``
    each of these values is a token: the value times a vector, plus a bias. Every category has a vector.
    """

    def __init__(self, n_members: int, sizes: Sequence[int], cardinalities: Sequence[int], d_token: int, tokens: str):
        super().__init__()
        self.by_coordinate = tokens == "coordinate"
        self.bound = 1.0 / math.sqrt(d_token)
        size = max(sizes, default=0)
        self.cls = nn.Parameter(torch.empty(n_members, d_token))
        self.weight = nn.Parameter(torch.empty(n_members, len(sizes), size, d_token))
        places = [feature * size + place for feature, length in enumerate(sizes) for place in range(length)]
        self.register_buffer("places", torch.tensor(places, dtype=torch.int64), persistent=False)
        self.places: Tensor
        n_numerical = len(places) if self.by_coordinate else len(sizes)
        self.bias = nn.Parameter(torch.empty(n_members, n_numerical + len(cardinalities), d_token))
        self.register_buffer("category_starts", first_places(cardinalities), persistent=False)
        self.category_starts: Tensor
        self.categories = Uniform(n_members, sum(cardinalities), d_token, bound=self.bound) if cardinalities else None
        self.n_tokens = 1 + n_numerical + len(cardinalities)

    def start(self, draw: Draw) -> None:
        """Draw the vectors; those of a feature do not depend on its padding."""
        for parameter in (self.cls, self.bias):
            parameter.copy_(self.bound * draw(math.prod(parameter.shape[1:])).view_as(parameter))
        self.weight.copy_(self.bound * draw_columns(draw, self.weight.shape))

    def forward(self, encoded: Tensor, codes: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return tokens of shape (n_members, batch, n_tokens, d_token)."""
        self._check(encoded, codes)
        weight = self.weight.to(dtype)
        if self.by_coordinate:  # every value is a feature with one column
            encoded = encoded.flatten(-2)[..., self.places, None]
            weight = weight.flatten(1, 2)[:, self.places, None]
        if self.categories is not None and codes is not None:
            categories = look_up(self.categories.values, codes + self.category_starts).to(dtype)
        else:
            categories = weight.new_zeros(*encoded.shape[:2], 0, weight.shape[-1])
        return make_tokens(encoded.to(dtype), weight, categories, self.bias, self.cls)

    def to_graph(self, graph: Graph, encoded: str | None, codes: str | None, member: int) -> str:
        """Add the tokens, of shape (n, n_tokens, d_token): zeros in front for the CLS token, then a bias for each."""
        parts: list[str] = []
        if encoded is not None:
            parts.append(self._numbers_to_graph(graph, encoded, member))
        if codes is not None and self.categories is not None:
            parts.append(graph.look_up(codes, self.categories.values[member], self.category_starts))
        padded = graph("Pad", graph.join(parts, 1), graph.ints(0, 1, 0, 0, 0, 0))
        biases = np.concatenate([as_numpy(self.cls[member])[None], as_numpy(self.bias[member])])
        return graph("Add", padded, biases)

    def _numbers_to_graph(self, graph: Graph, encoded: str, member: int) -> str:
        weight = as_numpy(self.weight[member])
        n_features, size, d_token = weight.shape
        if self.by_coordinate:
            places = as_numpy(self.places)
            values = graph("Gather", graph.reshape(encoded, -1, n_features * size), places, axis=1)
            return graph("Mul", graph("Unsqueeze", values, graph.ints(2)), weight.reshape(-1, d_token)[places])
        by_feature = graph("MatMul", graph("Transpose", encoded, perm=[1, 0, 2]), weight)
        return graph("Transpose", by_feature, perm=[1, 0, 2])

    def _check(self, encoded: Tensor, codes: Tensor | None) -> None:
        n_features, size = self.weight.shape[1:3]
        if encoded.shape[2] != n_features or (n_features and encoded.shape[3] != size):
            raise argument_error("blocks", f"be of shape (..., {n_features}, {size})", tuple(encoded.shape))
        n_expected, n_columns = len(self.category_starts), 0 if codes is None else codes.shape[-1]
        if n_columns != n_expected:
            raise argument_error("codes", f"have {n_expected} columns, one for each categorical feature", n_columns)


@final
class TransformerBlock(nn.Module):
    """Attention and a feed-forward layer, each on normalised inputs, with skip connections."""

    def __init__(self, n_members: int, d_token: int, n_heads: int, hidden: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm, self.norm = LayerNorm(n_members, d_token), LayerNorm(n_members, d_token)
        self.qkv, self.out = Linear(n_members, d_token, 3 * d_token), Linear(n_members, d_token, d_token)
        self.up, self.down = Linear(n_members, d_token, 2 * hidden), Linear(n_members, hidden, d_token)

    def forward(
        self, x: Tensor, y: Tensor, after: LayerNorm, *, p: tuple[float, float], noise: Noise | None, stream: int,
        n_after: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Return new tokens, and these normalised by `after`, the first normalisation of the next block.

        `y` is x normalised by `attention_norm`. Each sum is normalised by the kernel that computes it, and the biases
        of linear maps are added by the kernels that read their products. `n_after` is the number of blocks that follow.
        The head reads only the first token, so the last block (`n_after` = 0) computes no other, and the block before
        it returns only the first token of x.
        """
        bias = self.qkv.bias
        if n_after:
            mixed = attention(self.qkv.product(y), self.n_heads, p[0], noise, stream, bias=bias)
        else:
            weight = self.qkv.weight
            first, keys_values = divided_product(y.to(weight.dtype), weight, n_columns=x.shape[-1])
            mixed = attention(keys_values, self.n_heads, p[0], noise, stream, bias=bias, first=first)
        x, y = self.norm.of_sum(x, self.out, mixed)
        hidden = reglu_dropout(self.up.product(y), p[1], noise, stream + 1, bias=self.up.bias)
        return after.of_sum(x, self.down, hidden, first=n_after == 1)

    def to_graph(self, graph: Graph, x: str, *, member: int, n_tokens: int, is_last: bool) -> str:
        """Add the block of a member."""
        mixed = self._attention_to_graph(graph, x, member=member, n_tokens=n_tokens)
        if is_last:  # the head reads only the first token of the last block
            x, mixed = (graph.slice(value, 0, 1, axis=1) for value in (x, mixed))
        x = graph("Add", x, graph.linear(mixed, self.out, member))
        up = graph.linear(self.norm.to_graph(graph, x, member), self.up, member)
        hidden = self.up.weight.shape[-1] // 2
        values, gates = graph.slice(up, 0, hidden, axis=2), graph.slice(up, hidden, 2 * hidden, axis=2)
        gated = graph("Mul", values, graph("Relu", gates))
        return graph("Add", x, graph.linear(gated, self.down, member))

    def _attention_to_graph(self, graph: Graph, x: str, *, member: int, n_tokens: int) -> str:
        """Add multi-head attention between all tokens."""
        d_token = self.out.weight.shape[-1]
        width = d_token // self.n_heads
        qkv = graph.linear(self.attention_norm.to_graph(graph, x, member), self.qkv, member)
        heads = graph("Transpose", graph.reshape(qkv, -1, n_tokens, 3, self.n_heads, width), perm=[2, 0, 3, 1, 4])
        q, k, v = (graph("Gather", heads, graph.constant(place, np.int64), axis=0) for place in range(3))
        scores = graph("Mul", graph("MatMul", q, graph("Transpose", k, perm=[0, 1, 3, 2])), np.float32(width**-0.5))
        mixed = graph("MatMul", graph("Softmax", scores, axis=-1), v)
        return graph.reshape(graph("Transpose", mixed, perm=[0, 2, 1, 3]), -1, n_tokens, d_token)


@final
class FTTransformer(nn.Module):
    """The FT-Transformer of Gorishniy et al. (2021) on encoded features.

    Parameters
    ----------
    sizes : sequence of int
        Columns of each numerical feature; smaller encodings are padded in the input.
    d_out : int
        Number of outputs.
    cardinalities : sequence of int, default=()
        Number of categories of each categorical feature.
    tokens : {"feature", "coordinate"}, default="feature"
        Whether a feature, or each of its encoded values, is a token.
    d_token : int, default=192
        Width of a token.
    n_blocks : int, default=3
        Number of blocks.
    n_heads : int, default=8
        Number of attention heads; it must divide `d_token`.
    attention_dropout : float, default=0.2
        Dropout of attention weights.
    ffn_dropout : float, default=0.1
        Dropout in the feed-forward layers.
    ffn_factor : float, default=1.3333333333333333
        Width of the feed-forward layers over that of a token.
    n_members : int, optional
        Number of networks that are computed together, as in `MLP`.

    Examples
    --------
    >>> network = FTTransformer([7, 7, 7], 1, cardinalities=[4])
    >>> network(torch.rand(32, 3, 7), torch.randint(4, (32, 1))).shape
    torch.Size([32, 1])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        d_out: int,
        *,
        cardinalities: Sequence[int] = (),
        tokens: str = "feature",
        d_token: int = 192,
        n_blocks: int = 3,
        n_heads: int = 8,
        attention_dropout: float = 0.2,
        ffn_dropout: float = 0.1,
        ffn_factor: float = 4 / 3,
        n_members: int | None = None,
    ) -> None:
        super().__init__()
        self.n_members = n_members if n_members is None else check_int(n_members, "n_members", minimum=1)
        self.dropout = (
            check_dropout(attention_dropout, "attention_dropout"),
            check_dropout(ffn_dropout, "ffn_dropout"),
        )
        check_choice(tokens, "tokens", TOKENS)
        if not len(sizes) and not len(cardinalities):
            raise argument_error("sizes", "have at least one feature if cardinalities is empty", sizes)
        if check_int(d_token, "d_token", minimum=1) % check_int(n_heads, "n_heads", minimum=1):
            raise argument_error("n_heads", f"divide d_token={d_token}", n_heads)
        hidden = int(d_token * ffn_factor)
        if hidden < 1:
            raise argument_error("ffn_factor", "give the feed-forward layers at least one unit", ffn_factor)
        members = n_members or 1
        self.tokenizer = Tokenizer(members, sizes, cardinalities, d_token, tokens)
        n_blocks = check_int(n_blocks, "n_blocks", minimum=1)
        blocks = nn.ModuleList(TransformerBlock(members, d_token, n_heads, hidden) for _ in range(n_blocks))
        self.blocks = cast("Sequence[TransformerBlock]", blocks)
        self.norm = LayerNorm(members, d_token)
        self.head = Linear(members, d_token, check_int(d_out, "d_out", minimum=1))
        initialise(self, member_seeds(members))

    def forward(self, blocks: Tensor, codes: Tensor | None = None) -> Tensor:
        """Return outputs of shape (..., d_out).

        Parameters
        ----------
        blocks : Tensor of shape (..., n_features, size)
            Encoded features, with a leading member axis if any.
        codes : Tensor of shape (..., n_categorical), optional
            Codes of the categories, int64.
        """
        lead = blocks.shape[:-2]
        rows = flat_rows(blocks, self.n_members, n_last=2)
        codes = codes if codes is None else flat_rows(codes, self.n_members)
        return self.forward_stack(rows, codes).reshape(*lead, -1)

    def forward_stack(self, encoded: Tensor, codes: Tensor | None, *, noise: Noise | None = None) -> Tensor:
        """Return outputs of shape (n_members, batch, d_out).

        Parameters
        ----------
        encoded : Tensor of shape (n_members, batch, n_features, size)
            Encoded features.
        codes : Tensor of shape (n_members, batch, n_categorical) or None
            Codes of the categories.
        noise : Noise, optional
            Random numbers of dropout; by default torch's generator.
        """
        p = self.dropout if self.training else (0.0, 0.0)
        x = self.tokenizer(encoded, codes, self.head.weight.dtype)
        first, *others = [block.attention_norm for block in self.blocks]
        n_after = len(others)
        x, y = first(x, first=not n_after)
        for place, (block, after) in enumerate(zip(self.blocks, [*others, self.norm], strict=True)):
            x, y = block(x, y, after, p=p, noise=noise, stream=2 * place, n_after=n_after - place)
        out: Tensor = self.head(torch.relu(y[:, :, 0]))
        return out

    def to_graph(self, graph: Graph, encoded: str | None, codes: str | None, *, member: int, logits: bool) -> str:
        """Add the network of a member to a graph."""
        del logits
        n_tokens, x = self.tokenizer.n_tokens, self.tokenizer.to_graph(graph, encoded, codes, member)
        for block in self.blocks:
            x = block.to_graph(graph, x, member=member, n_tokens=n_tokens, is_last=block is self.blocks[-1])
        cls = self.norm.to_graph(graph, graph.reshape(x, -1, self.norm.weight.shape[-1]), member)
        return graph.linear(graph("Relu", cls), self.head, member)
