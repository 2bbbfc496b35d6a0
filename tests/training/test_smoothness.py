"""The smoothness penalty in the engine: what it does to curves, and with which layers, encodings and stacks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from knotwork.nn import FTTransformerConfig, MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig
from knotwork.nn._smoothness import difference_penalty, differences
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import plan_stacks, train
from knotwork.training._members import TrainingTable, complete
from knotwork.training._network import feature_weights
from tests.training.cases import make_member, make_stack, make_table

ADDITIVE = MLPConfig(widths=(), dropout=0.0)
QUICK = TrainingConfig(
    max_epochs=40, batch_size=64, learning_rate=0.1, beta2=0.95, schedule="cosine", patience=None, knot_rate=0.05
)


def wave_table(n=300):
    x = np.random.default_rng(0).uniform(size=(n, 1)) ** 2
    return TrainingTable(x, np.zeros((n, 0), dtype=np.int64), np.sin(9 * x[:, 0]) + x[:, 0], "regression")


def curve(table, member, config, backbone=ADDITIVE):
    trained = train(table, [member], backbone, config, device="cpu")
    grid = np.linspace(0.01, 0.99, 50)[:, None]
    outputs = trained.outputs(grid, np.zeros((50, 0), dtype=np.int64), [np.arange(50)])[0]
    return grid[:, 0], np.asarray(outputs)[:, 0]


def bend(x, y, degree):
    """Return how far a curve is from a polynomial, as a share of its extent."""
    rest = y - np.polyval(np.polyfit(x, y, degree), x)
    return np.abs(rest).max() / np.ptp(y)


STRAIGHT = {"BS-Q": 30, "MS-Q": 300, "IS-Q": 30, "PLE-Q": 30, "IS-Q+x": 30, "BS-Q+L4": 3000, "IS-Grad-Q": 300}
"""Strengths that leave no bend: more is needed where the next layer can make up for small weights."""


@pytest.mark.parametrize("method", STRAIGHT)
def test_a_strong_penalty_makes_curves_straight(method):
    table = wave_table()
    member = make_member(table, method, 10, n_valid=0)  # the last weights are kept, not those that validate best
    assert bend(*curve(table, member, QUICK), 1) > 0.2
    assert bend(*curve(table, member, replace(QUICK, smoothness=STRAIGHT[method])), 1) < 0.05


def test_the_order_decides_what_a_strong_penalty_leaves():
    table = wave_table()
    member = make_member(table, "BS-U", 8, n_valid=0)
    x, parabola = curve(table, member, replace(QUICK, smoothness=30.0, smoothness_order=3, max_epochs=80))
    assert bend(x, parabola, 2) < 0.05
    assert bend(x, parabola, 1) > 0.1
    _, constant = curve(table, member, replace(QUICK, smoothness=3000.0, smoothness_order=1))
    assert np.ptp(constant) < 0.1 * np.ptp(parabola)


BACKBONES = [
    MLPConfig(widths=(16,), dropout=0.0),
    ResNetConfig(width=16, n_blocks=1, hidden=16, dropout=0.0),
    RealMLPConfig(widths=(16,), dropout=0.0),
    TabMConfig(widths=(16,), n_predictions=2, dropout=0.0),
    FTTransformerConfig(d_token=8, n_blocks=1, n_heads=2, attention_dropout=0.0, ffn_dropout=0.0),
]


def gradients(stack):
    """Return the gradients of a step, without taking it."""
    kept = {}
    stack.optimiser.step = lambda grads, *_: kept.update(grads=grads)
    stack._begin()
    stack._step()
    return kept["grads"]


@pytest.mark.parametrize("backbone", BACKBONES, ids=lambda backbone: backbone.name)
@pytest.mark.parametrize("method", ["BS-Grad-Q", "IS-Q", "PLE-Q+L4x"])
def test_a_step_adds_the_gradient_of_the_definition(backbone, method):
    table = make_table()
    member = make_member(table, method)
    strengths = (0.0, 0.5, 2.0)
    config = TrainingConfig(smoothness=strengths)
    smooth = make_stack(table, [member], backbone, config)
    plain = make_stack(table, [member], backbone, replace(config, smoothness=0.0))
    encoding, weights = smooth.network.encoding, feature_weights(smooth.network, backbone)
    [part] = encoding.layout.parts
    breaks = encoding.spacings()[0].detach()
    rows = differences(breaks, encoding.n_knots, kind=part.kind, degree=part.degree, order=2).float()
    total = (torch.tensor(strengths) * difference_penalty(weights, rows)).sum()
    expected = torch.autograd.grad(total, list(smooth.network.parameters()), allow_unused=True)
    assert any(grad is not None and grad.abs().sum() > 0 for grad in expected)
    for with_it, without, part_of in zip(gradients(smooth), gradients(plain), expected, strict=True):
        if with_it is not None:
            torch.testing.assert_close(with_it, without + (0.0 if part_of is None else part_of), rtol=1e-3, atol=1e-5)


def test_members_of_different_strengths_share_a_stack_and_do_not_affect_each_other():
    table = make_table()
    config = replace(QUICK, max_epochs=4, weight_average=0.5)
    configs = [replace(config, smoothness=value) for value in (0.0, 3.0, (0.0, 0.0, 50.0))]
    members = [make_member(table, "BS-Q", config=each) for each in configs] + [make_member(table, "Std")]
    backbone = MLPConfig(widths=(16,), dropout=0.0)
    assert len(plan_stacks(table, complete(members, backbone, config), torch.device("cpu"), None)) == 1
    together = train(table, members, backbone, config, device="cpu")
    for place, member in enumerate(members):
        alone = train(table, [member], backbone, config, device="cpu")
        np.testing.assert_allclose(together.histories[place].score, alone.histories[0].score, rtol=1e-4)
    assert len({round(float(history.loss[-1]), 6) for history in together.histories[:3]}) == 3


def test_a_member_without_a_configuration_has_the_strength_of_the_call():
    table, backbone = make_table(), MLPConfig(widths=(16,), dropout=0.0)
    config = replace(QUICK, max_epochs=3)
    first, second = make_member(table, config=replace(config, smoothness=5.0)), make_member(table)
    both = train(table, [first, second], backbone, config, device="cpu")
    alone = train(table, [second], backbone, config, device="cpu")
    np.testing.assert_allclose(both.histories[1].score, alone.histories[0].score, rtol=1e-4)


def test_what_has_no_splines_is_not_changed():
    table, config = make_table(), replace(QUICK, max_epochs=3)
    coordinate = FTTransformerConfig(tokens="coordinate", d_token=8, n_blocks=1, n_heads=2)
    for method, backbone in (
        ("Std", MLPConfig(widths=(8,))),
        ("Periodic", MLPConfig(widths=(8,))),
        ("IS-Q", coordinate),
    ):
        member = make_member(table, method)
        scores = [
            train(table, [member], backbone, replace(config, smoothness=value), device="cpu").histories[0].score
            for value in (0.0, 10.0)
        ]
        np.testing.assert_allclose(*scores, rtol=1e-6)  # steps with a penalty have a graph, which rounds differently
