"""Inputs of a network from categories: codes, vectors, and one-hot columns."""

import numpy as np
import pytest
import torch

from knotwork.nn._backbones import MLPConfig, RealMLPConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import TrainingTable, complete
from knotwork.training._network import D_CATEGORY, MOST_ONE_HOT, build_network, take_members
from tests.training.cases import make_member, make_table

CARDINALITIES = (4, 3, MOST_ONE_HOT + 1, 2, MOST_ONE_HOT, 1)
"""Codes of features: three categories, two, many, one, the most that are one-hot, and none but missing ones."""

N_ONE_HOT = 3 + 1 + 1 + (MOST_ONE_HOT - 1)


def make_codes(n=260, seed=0):
    return np.random.default_rng(seed).integers(0, CARDINALITIES, size=(n, len(CARDINALITIES)))


def make_network(categories, n_members=2, codes=None):
    table = make_table(n_categorical=0)
    table = TrainingTable(
        table.numbers, make_codes() if codes is None else codes, table.target, table.task, CARDINALITIES
    )
    members = [make_member(table, "Std", seed=place) for place in range(n_members)]
    members = complete(members, MLPConfig(widths=(6,)), TrainingConfig())
    network = build_network(table, members, units=np.array([[0.0] * 3, [1.0] * 3]), categories=categories)
    network.start(torch.arange(n_members))
    return table, network


def inputs_from(network, codes):
    flat = torch.zeros(len(network.encoding.breaks), len(codes), 3)
    return network._with_categories(flat, torch.from_numpy(codes).expand(len(flat), -1, -1))[..., 3:]


def test_few_categories_enter_one_hot_and_many_as_vectors():
    codes = make_codes()
    _, network = make_network("mixed")
    extra = inputs_from(network, codes)
    assert extra.shape[-1] == N_ONE_HOT + D_CATEGORY
    two = np.select([codes[:, 1] == 1, codes[:, 1] == 2], [-1.0, 1.0], 0.0)[:, None]
    expected = np.concatenate(
        [np.eye(4)[codes[:, 0]][:, 1:], two, np.eye(2)[codes[:, 3]][:, 1:], np.eye(MOST_ONE_HOT)[codes[:, 4]][:, 1:]],
        axis=1,
    )
    for member in range(2):
        np.testing.assert_array_equal(extra[member, :, :N_ONE_HOT].detach().numpy(), expected)
        vectors = network.embeddings.values[member][torch.from_numpy(codes[:, 2])]
        torch.testing.assert_close(extra[member, :, N_ONE_HOT:], vectors)
    assert float(network.backbone.first.fan_in[0]) == 3 + N_ONE_HOT + D_CATEGORY


def test_missing_and_unseen_categories_are_zeros():
    _, network = make_network("mixed")
    extra = inputs_from(network, np.zeros((1, len(CARDINALITIES)), dtype=np.int64))
    assert bool((extra[..., :N_ONE_HOT] == 0).all())


@pytest.mark.parametrize(("categories", "width"), [("code", 6), ("embedding", 6 * D_CATEGORY)])
def test_other_inputs_from_categories(categories, width):
    codes = make_codes()
    _, network = make_network(categories)
    extra = inputs_from(network, codes)
    assert extra.shape[-1] == width
    if categories == "code":
        np.testing.assert_array_equal(extra[0].numpy(), codes - 1.0)
    else:
        starts = np.cumsum([0, *CARDINALITIES[:-1]])
        vectors = network.embeddings.values[1][torch.from_numpy(codes + starts)].flatten(-2)
        torch.testing.assert_close(extra[1], vectors)


def test_members_leave_without_a_change_of_the_one_hot_columns():
    """The places of columns are shared by all members, even if there are as many columns as members."""
    for n_members in (3, N_ONE_HOT):
        codes = make_codes()
        _, network = make_network("mixed", n_members)
        before = inputs_from(network, codes)
        index = torch.tensor([0, 2])
        torch.testing.assert_close(inputs_from(take_members(network, index), codes), before[index])


@pytest.mark.parametrize("backbone", [MLPConfig(widths=(16,)), RealMLPConfig(widths=(16,))])
def test_one_hot_categories_are_learned(backbone):
    codes = make_codes()
    table, _ = make_network("mixed", codes=codes)
    target = np.array([0.0, 5.0, -5.0, 2.0])[codes[:, 0]] + (codes[:, 1] == 2) - (codes[:, 2] > 4)
    table = TrainingTable(table.numbers, codes, target, "regression", CARDINALITIES)
    config = TrainingConfig(**{**backbone.training("regression"), "max_epochs": 60, "batch_size": 32})
    trained = train(table, [make_member(table, "Std")], backbone, config, device="cpu", categories="mixed")
    assert min(trained.histories[0].score) < 0.3
