"""The networks in a graph of ONNX: one member at a time, with its weights as constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from knotwork.estimators._onnx_graph import Graph, as_numpy
from knotwork.nn._ft_transformer import FTTransformer, LayerNorm, Tokenizer
from knotwork.nn._linear import Linear
from knotwork.nn._mlp import MLP
from knotwork.nn._resnet import BatchNorm, ResNet
from knotwork.training._network import Network

__all__ = ["NETWORKS", "run_member"]

NETWORKS = (MLP, ResNet, FTTransformer)
"""The networks that `run_member` knows; one derived from them may compute something else, and is not among them."""

EPSILON = 1e-5
"""What batch and layer normalisation add to the variance."""


def run_member(graph: Graph, blocks: str | None, codes: str | None, *, network: Network, member: int) -> str:
    """Add what a member makes of encoded numbers and codes.

    Parameters
    ----------
    graph : Graph
        What is added to.
    blocks : str or None
        Name of the encoded numbers, of shape (n, n_features, size); None if there are none.
    codes : str or None
        Name of the codes, int64 of shape (n, n_categorical); None if there are none.
    network : Network
        The network.
    member : int
        The member.

    Returns
    -------
    str
        Name of the outputs, float32 of shape (n, d_out).
    """
    backbone = network.backbone
    if isinstance(backbone, FTTransformer):
        return _ft_transformer(graph, blocks, codes, backbone=backbone, member=member)
    inputs = _flat_inputs(graph, blocks, codes, network=network, member=member)
    hidden = _linear(graph, inputs, backbone.first, member)
    if isinstance(backbone, MLP):
        for layer in backbone.layers:
            hidden = _linear(graph, graph("Relu", hidden), layer, member)  # type: ignore[arg-type]
        return hidden
    return _resnet(graph, hidden, backbone, member)


def _flat_inputs(graph: Graph, blocks: str | None, codes: str | None, *, network: Network, member: int) -> str:
    """Add the blocks side by side, and behind them the categories."""
    parts: list[str] = []
    layout = network.encoding.layout
    if blocks is not None:
        parts.append(graph.reshape(blocks, -1, len(layout.sizes) * layout.size))
    if codes is not None and network.embeddings is None:
        parts.append(graph("Sub", graph("Cast", codes, to=1), np.float32(1.0)))
    elif codes is not None:
        vectors = _look_up(graph, codes, network.embeddings.values[member], network.category_starts)  # type: ignore[union-attr]
        width = network.embeddings.values.shape[-1]  # type: ignore[union-attr]
        parts.append(graph.reshape(vectors, -1, len(network.cardinalities) * width))
    return graph.join(parts, 1)


def _look_up(graph: Graph, codes: str, table: Any, starts: Any) -> str:
    """Add the vectors of codes, of shape (n, n_categorical, width)."""
    return graph("Gather", as_numpy(table), graph("Add", codes, as_numpy(starts)), axis=0)


def _linear(graph: Graph, x: str, layer: Linear, member: int) -> str:
    product = graph("MatMul", x, as_numpy(layer.weight[member]))
    return product if layer.bias is None else graph("Add", product, as_numpy(layer.bias[member]))


def _resnet(graph: Graph, hidden: str, backbone: ResNet, member: int) -> str:
    for block in backbone.blocks:
        up = _batch_norm(graph, _linear(graph, hidden, block.up, member), block.up_norm, member)  # type: ignore[arg-type]
        down = _linear(graph, graph("Relu", up), block.down, member)  # type: ignore[arg-type]
        hidden = graph("Add", hidden, _batch_norm(graph, down, block.down_norm, member))  # type: ignore[arg-type]
    return _linear(graph, hidden, backbone.head, member)


def _batch_norm(graph: Graph, x: str, norm: BatchNorm, member: int) -> str:
    """Add a normalisation by the running statistics."""
    scale = norm.weight[member] * (norm.running_var[member] + EPSILON).rsqrt()
    shift = norm.bias[member] - norm.running_mean[member] * scale
    return graph("Add", graph("Mul", x, as_numpy(scale)), as_numpy(shift))


def _layer_norm(graph: Graph, x: str, norm: LayerNorm, member: int) -> str:
    weights = as_numpy(norm.weight[member]), as_numpy(norm.bias[member])
    return graph("LayerNormalization", x, *weights, axis=-1, epsilon=EPSILON)


def _ft_transformer(
    graph: Graph, blocks: str | None, codes: str | None, *, backbone: FTTransformer, member: int
) -> str:
    x = _tokens(graph, blocks, codes, tokenizer=backbone.tokenizer, member=member)
    n_blocks = len(backbone.blocks)
    for place, block in enumerate(backbone.blocks):
        x = _block(graph, x, block, member=member, n_tokens=backbone.tokenizer.n_tokens, only_cls=place == n_blocks - 1)
    width = backbone.norm.weight.shape[-1]
    cls = _layer_norm(graph, graph.reshape(x, -1, width), backbone.norm, member)
    return _linear(graph, graph("Relu", cls), backbone.head, member)


def _tokens(graph: Graph, blocks: str | None, codes: str | None, *, tokenizer: Tokenizer, member: int) -> str:
    """Add the tokens, of shape (n, n_tokens, d_token): zeros in front of all, then a constant for each."""
    parts: list[str] = []
    if blocks is not None:
        parts.append(_number_tokens(graph, blocks, tokenizer, member))
    if codes is not None and tokenizer.categories is not None:
        parts.append(_look_up(graph, codes, tokenizer.categories.values[member], tokenizer.category_starts))
    behind = graph("Pad", graph.join(parts, 1), graph.ints(0, 1, 0, 0, 0, 0))
    ends = np.concatenate([as_numpy(tokenizer.cls[member])[None], as_numpy(tokenizer.bias[member])])
    return graph("Add", behind, ends)


def _number_tokens(graph: Graph, blocks: str, tokenizer: Tokenizer, member: int) -> str:
    weight = as_numpy(tokenizer.weight[member])
    n_features, size, d_token = weight.shape
    if tokenizer.by_coordinate:
        places = as_numpy(tokenizer.places)
        values = graph("Gather", graph.reshape(blocks, -1, n_features * size), places, axis=1)
        return graph("Mul", graph("Unsqueeze", values, graph.ints(2)), weight.reshape(-1, d_token)[places])
    by_feature = graph("MatMul", graph("Transpose", blocks, perm=[1, 0, 2]), weight)
    return graph("Transpose", by_feature, perm=[1, 0, 2])


def _block(graph: Graph, x: str, block: Any, *, member: int, n_tokens: int, only_cls: bool) -> str:
    mixed = _attention(graph, x, block, member=member, n_tokens=n_tokens)
    if only_cls:
        x, mixed = (_slice(graph, each, 0, 1, axis=1) for each in (x, mixed))
    x = graph("Add", x, _linear(graph, mixed, block.out, member))
    up = _linear(graph, _layer_norm(graph, x, block.norm, member), block.up, member)
    hidden = block.up.weight.shape[-1] // 2
    values, gates = _slice(graph, up, 0, hidden, axis=2), _slice(graph, up, hidden, 2 * hidden, axis=2)
    gated = graph("Mul", values, graph("Relu", gates))
    return graph("Add", x, _linear(graph, gated, block.down, member))


def _attention(graph: Graph, x: str, block: Any, *, member: int, n_tokens: int) -> str:
    """Add attention of all tokens to all, in several heads."""
    d_token, n_heads = block.out.weight.shape[-1], block.n_heads
    width = d_token // n_heads
    qkv = _linear(graph, _layer_norm(graph, x, block.attention_norm, member), block.qkv, member)
    heads = graph("Transpose", graph.reshape(qkv, -1, n_tokens, 3, n_heads, width), perm=[2, 0, 3, 1, 4])
    q, k, v = (graph("Gather", heads, graph.constant(place, np.int64), axis=0) for place in range(3))
    scores = graph("Mul", graph("MatMul", q, graph("Transpose", k, perm=[0, 1, 3, 2])), np.float32(width**-0.5))
    mixed = graph("MatMul", graph("Softmax", scores, axis=-1), v)
    return graph.reshape(graph("Transpose", mixed, perm=[0, 2, 1, 3]), -1, n_tokens, d_token)


def _slice(graph: Graph, x: str, start: int, stop: int, *, axis: int) -> str:
    ends: Sequence[str] = graph.ints(start), graph.ints(stop), graph.ints(axis)
    return graph("Slice", x, *ends)
