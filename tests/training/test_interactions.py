"""Members with interactions in stacks: alone and together, removed, kept, and in lower precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from knotwork.nn import InteractionConfig
from knotwork.nn._backbones import FTTransformerConfig, MLPConfig, RealMLPConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import plan_stacks, train
from knotwork.training._members import complete
from knotwork.training._network import build_network, matrices
from tests.training.cases import make_member, make_table

CONFIG = TrainingConfig(max_epochs=4, batch_size=64)
BACKBONES = [
    MLPConfig(widths=(8,), dropout=0.0),
    RealMLPConfig(widths=(8,), dropout=0.0),
    FTTransformerConfig(d_token=8, n_heads=2, n_blocks=1, attention_dropout=0.0, ffn_dropout=0.0),
]


def with_pairs(member, *pairs, **settings):
    return replace(member, interactions=InteractionConfig(pairs, **{"rank": 2, "width": 3, **settings}))


def make_members(table):
    """Different pairs, methods, learned knots and sizes; the last has no interactions."""
    return [
        with_pairs(make_member(table, "BS-Q", seed=0), (0, 1)),
        with_pairs(make_member(table, "BS-Grad-U", seed=1, fold=1), (2, 0)),
        with_pairs(make_member(table, "IS-Q", 5, seed=2, fold=2), (1, 2)),
        with_pairs(make_member(table, "PLE", seed=3), (0, 1), (1, 2)),
        make_member(table, "BS-Q", seed=4),
    ]


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_members_train_together_as_alone(backbone):
    table = make_table()
    members = make_members(table)
    together = train(table, members, backbone, CONFIG, device="cpu")
    outputs = together.outputs(table.numbers, table.codes)
    for place, member in enumerate(members):
        alone = train(table, [member], backbone, CONFIG, device="cpu")
        np.testing.assert_allclose(together.histories[place].score, alone.histories[0].score, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(outputs[place], alone.outputs(table.numbers, table.codes)[0], rtol=1e-3, atol=1e-3)
        kept = together.take([place]).outputs(table.numbers, table.codes)[0]
        np.testing.assert_allclose(kept, outputs[place], rtol=1e-5, atol=1e-5)


def test_members_of_one_shape_form_a_stack():
    table = make_table()
    stacks = plan_stacks(table, complete(make_members(table), BACKBONES[0], CONFIG), torch.device("cpu"), None)
    assert sorted(map(sorted, stacks)) == [[0, 1], [2], [3], [4]]


def test_members_that_stop_are_removed_and_the_others_go_on():
    table = make_table()
    members = [
        with_pairs(make_member(table, seed=place), pair) for place, pair in enumerate([(0, 1), (1, 2), (0, 2), (2, 1)])
    ]
    short = np.full(1, 1e-3)
    stopping = [replace(member, rates=short if place % 2 else np.full(6, 1e-3)) for place, member in enumerate(members)]
    together = train(table, stopping, BACKBONES[0], CONFIG, device="cpu")
    assert [history.epochs for history in together.histories] == [4, 1, 4, 1]
    outputs = together.outputs(table.numbers, table.codes)
    for place in (0, 1):
        alone = train(table, [stopping[place]], BACKBONES[0], CONFIG, device="cpu")
        np.testing.assert_allclose(outputs[place], alone.outputs(table.numbers, table.codes)[0], rtol=1e-3, atol=1e-3)
    assert together.pieces[0].network.pair_embedding.pairs == [[(0, 1)], [(1, 2)], [(0, 2)], [(2, 1)]]


def test_learned_knots_move_by_the_interaction_alone():
    table = make_table(n_categorical=0)
    member = with_pairs(make_member(table, "BS-Grad-U"), (0, 1))
    network = build_network(table, complete([member], BACKBONES[0], CONFIG), units=np.array([[0.0] * 3, [1.0] * 3]))
    network.start(torch.tensor([0]))
    numbers = torch.from_numpy(table.numbers[None, :50]).float()
    blocks, _ = network.encoding(numbers)
    network.pair_embedding.forward_stack(blocks).square().sum().backward()
    gradient = network.encoding.logits.grad[0].abs().sum(dim=1)
    assert bool((gradient[:2] > 0).all())
    assert float(gradient[2]) == 0.0


def test_the_first_layer_counts_the_inputs_of_pairs():
    table = make_table(n_categorical=0)
    members = [with_pairs(make_member(table, "BS-Q", size), (0, 1), (1, 2)) for size in (7, 5)]
    network = build_network(table, complete(members, BACKBONES[0], CONFIG), units=np.array([[0.0] * 3, [1.0] * 3]))
    assert network.backbone.first.weight.shape[1] == 3 * 7 + 2 * 3
    assert network.backbone.first.fan_in.tolist() == [27.0, 21.0]
    assert any(parameter is network.pair_embedding.weight for parameter in matrices(network))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: that it trains as the CPU does is not tested here")
@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
def test_a_gpu_trains_as_the_cpu_does(backbone):
    table = make_table()
    config = replace(CONFIG, precision="float32")
    results = [train(table, make_members(table), backbone, config, device=where) for where in ("cpu", "cuda")]
    for one, other in zip(*(trained.histories for trained in results), strict=True):
        np.testing.assert_allclose(one.score, other.score, rtol=1e-3, atol=1e-3)
