"""With `TrainingConfig.reproducible`, the bits of a member do not depend on the members that it is trained with."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import knotwork as kw
from knotwork.errors import ArgumentError
from knotwork.nn._backbones import FTTransformerConfig, MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig
from knotwork.nn._stack import StackEncoding
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import _check_reproducible, train
from knotwork.training._members import complete
from knotwork.training._network import build_network
from tests.training.cases import make_member, make_mixed, make_table

CONFIG = TrainingConfig(
    max_epochs=4, batch_size=64, learning_rate=3e-3, knot_warmup=1, patience=None, metric="reported", reproducible=True
)
BACKBONES = {
    "mlp": MLPConfig(widths=(33, 17), dropout=0.2),
    "resnet": ResNetConfig(width=17, n_blocks=2, hidden=33),
    "tabm": TabMConfig(widths=(17,), n_predictions=3),
    "realmlp": RealMLPConfig(widths=(17, 17)),
    "ft": FTTransformerConfig(d_token=16, n_blocks=1, n_heads=2),
}


def numbers(trained, place, table):
    """Everything that training has computed for a member."""
    history = trained.histories[place]
    piece = next(piece for piece in trained.pieces if place in piece.places)
    index = piece.places.index(place)
    outputs = trained.outputs(table.numbers[:60], table.codes[:60])[place]
    weights = [tensor[index].detach().numpy() for tensor in piece.network.backbone.parameters()]
    return [history.loss, history.score, outputs, *weights]


def assert_same(one, other):
    assert len(one) == len(other)
    for values, others in zip(one, other, strict=True):
        assert values.shape == others.shape
        assert values.tobytes() == others.tobytes()


def leaving(members):
    """Members that are trained for 2, 3 and 4 epochs, in turn, so that some leave the stack before others."""
    return [replace(member, rates=np.full(2 + place % 3, 3e-3)) for place, member in enumerate(members)]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("mlp", "classification"),
        *((name, "regression") for name in BACKBONES if name != "mlp"),
        pytest.param("mlp", "regression", marks=pytest.mark.slow),
        pytest.param("resnet", "classification", marks=pytest.mark.slow),
    ],
)
def test_a_member_alone_and_in_a_stack_has_the_same_bits(name, task):
    table = make_table(task)
    members = leaving(make_mixed(table))
    members[2] = replace(members[2], train=members[2].train[:41])  # fewer rows than a batch
    together = train(table, members, BACKBONES[name], CONFIG, device="cpu")
    some = train(table, members[2:7], BACKBONES[name], CONFIG, device="cpu")
    assert len({history.epochs for history in together.histories}) == 3
    for place in (0, 2, 5, 12):  # only scaled, PLE with few rows, learned knots, another function for every feature
        alone = train(table, members[place : place + 1], BACKBONES[name], CONFIG, device="cpu")
        assert_same(numbers(alone, 0, table), numbers(together, place, table))
    for place in (3, 6):
        assert_same(numbers(some, place - 2, table), numbers(together, place, table))


def test_weights_schedules_and_averages_have_the_same_bits():
    weights = np.random.default_rng(0).uniform(size=260)
    table = make_table("classification", weights=weights)
    config = replace(CONFIG, schedule="cosine", weight_average=0.5, metric="auc", label_smoothing=0.1)
    members = [
        make_member(table, method, seed=place, fold=place) for place, method in enumerate(("PLE", "BS-Q", "IS-U"))
    ]
    together = train(table, members, BACKBONES["mlp"], config, device="cpu")
    alone = train(table, members[1:2], BACKBONES["mlp"], config, device="cpu")
    assert_same(numbers(alone, 0, table), numbers(together, 1, table))


def test_resumed_members_have_the_same_bits():
    table = make_table(weights=np.random.default_rng(0).uniform(size=260))
    members = [make_member(table, "BS-Grad-U", seed=place, fold=place) for place in range(3)]
    config = replace(CONFIG, max_epochs=2)
    first = train(table, members, BACKBONES["realmlp"], config, device="cpu")
    together = train(table, members, BACKBONES["realmlp"], config, device="cpu", start=first)
    alone = train(table, members[1:2], BACKBONES["realmlp"], config, device="cpu", start=first.take([1]))
    assert [history.epochs for history in together.histories] == [4, 4, 4]
    assert_same(numbers(alone, 0, table), numbers(together, 1, table))


def test_units_of_losses_have_the_same_bits():
    table = make_table()
    table = replace(table, objective=kw.training._objectives.Custom(lambda outputs, target: (outputs - target).abs()))
    config = replace(CONFIG, metric="auto")
    members = [make_member(table, "PLE", seed=place, fold=place) for place in range(3)]
    together = train(table, members, BACKBONES["mlp"], config, device="cpu")
    alone = train(table, members[1:2], BACKBONES["mlp"], config, device="cpu")
    assert_same(numbers(alone, 0, table), numbers(together, 1, table))


def test_the_number_of_threads_changes_nothing():
    table, before = make_table(), torch.get_num_threads()
    members = [make_member(table, "BS-Q", seed=place) for place in range(3)]
    large = MLPConfig(widths=(2048, 512))  # a step that several threads would share
    results = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            settings = replace(CONFIG, max_epochs=1, batch_size=20)
            results.append([train(table, members[:n], large, settings, device="cpu") for n in (1, 3)])
    finally:
        torch.set_num_threads(before)
    expected = numbers(results[0][0], 0, table)
    for trained in (results[0][1], *results[1]):
        assert_same(numbers(trained, 0, table), expected)


@pytest.mark.parametrize("family", ["BS", "IS"])
@pytest.mark.parametrize("name", ["mlp", "resnet"])
def test_learned_knots_that_have_not_moved_equal_fixed_ones(name, family):
    table = make_table()
    methods = f"{family}-U", f"{family}-Grad-U"
    fixed, learned = (make_member(table, method, size=9, seed=3) for method in methods)
    waiting = replace(CONFIG, knot_warmup=4)
    together = train(table, [fixed, learned, make_member(table, "PLE", size=9)], BACKBONES[name], waiting, device="cpu")
    expected = numbers(together, 0, table)
    assert_same(numbers(together, 1, table), expected)
    assert_same(numbers(train(table, [learned], BACKBONES[name], waiting, device="cpu"), 0, table), expected)
    assert_same(numbers(train(table, [fixed], BACKBONES[name], waiting, device="cpu"), 0, table), expected)
    moved = train(table, [learned], BACKBONES[name], CONFIG, device="cpu")
    assert moved.histories[0].score[0] == together.histories[0].score[0]  # the first epoch, before knots move
    assert moved.histories[0].score[-1] != together.histories[0].score[-1]


def test_only_knots_that_are_far_enough_apart_are_settled():
    table = make_table()
    member = make_member(table, "BS-Q", size=9)
    encodings = [StackEncoding.from_encodings([member.encodings], [learned]) for learned in (False, True)]
    for encoding in encodings:
        encoding.breaks[0, 0, 2] = encoding.breaks[0, 0, 1] + 1e-5
        encoding.breaks[0, 1, 1:-1] += 1e-8 * torch.arange(5)
        before = encoding.breaks.clone()
        encoding.settle()
        torch.testing.assert_close(encoding.breaks, before, rtol=0, atol=1e-6)
        assert torch.equal(encoding.breaks[0, 0], before[0, 0])
    fixed, learned = (encoding.spacings()[0].detach() for encoding in encodings)
    assert torch.equal(fixed[0, 1:], learned[0, 1:])
    assert float((fixed[0, 0] - learned[0, 0]).abs().max()) > 1e-4  # learned knots are moved apart


def test_a_network_knows_the_mode():
    table = make_table()
    units = np.array([[0.0] * 3, [1.0] * 3])
    for config in (CONFIG, replace(CONFIG, reproducible=False)):
        members = complete([make_member(table)], BACKBONES["mlp"], config)
        assert build_network(table, members, units=units).reproducible == config.reproducible


def test_further_training_has_the_same_bits():
    table = make_table()
    members = [make_member(table, "PLE", seed=place, fold=place) for place in range(3)]
    results = []
    for group in (members, members[1:2]):
        first = train(table, group, BACKBONES["mlp"], CONFIG, device="cpu")
        results.append(train(table, group, BACKBONES["mlp"], CONFIG, device="cpu", start=first))
    assert_same(numbers(results[1], 0, table), numbers(results[0], 1, table))


def test_what_a_gpu_cannot_do_is_refused():
    table, cuda = make_table(), torch.device("cuda")
    splines, waves = make_member(table, "BS-Grad-U"), make_member(table, "Periodic")
    for backbone in (MLPConfig(), ResNetConfig()):
        _check_reproducible(*complete([splines], backbone, CONFIG), cuda)
    for backbone in (FTTransformerConfig(), TabMConfig(), RealMLPConfig()):
        with pytest.raises(ArgumentError, match=f"on the CPU with the backbone '{backbone.name}'"):
            _check_reproducible(*complete([splines], backbone, CONFIG), cuda)
        _check_reproducible(*complete([splines], backbone, replace(CONFIG, reproducible=False)), cuda)
        _check_reproducible(*complete([splines], backbone, CONFIG), torch.device("cpu"))
    with pytest.raises(ArgumentError, match="encodings that learn frequencies"):
        _check_reproducible(*complete([waves], MLPConfig(), CONFIG), cuda)
    with pytest.raises(ArgumentError, match="on the CPU, or on a GPU with Triton"):
        _check_reproducible(*complete([splines], MLPConfig(), CONFIG), torch.device("mps"))


def test_a_saved_ensemble_predicts_the_same_bits(tmp_path):
    table = make_table()
    training = TrainingConfig(max_epochs=3, reproducible=True)
    model = kw.TabularRegressor("BS-Grad-U@7", n_members=3, training=training, device="cpu", random_state=0)
    model.fit(table.numbers, table.target)
    model.save(tmp_path / "model.knotwork")
    loaded = kw.load(tmp_path / "model.knotwork")
    assert loaded.training.reproducible
    assert loaded.predict(table.numbers).tobytes() == model.predict(table.numbers).tobytes()


def test_penalties_on_weights_have_the_same_bits():
    table = make_table()
    methods = ("BS-Q", "IS-Grad-U", "PLE")
    config = replace(CONFIG, smoothness=0.5)
    members = [make_member(table, method, seed=place, fold=place) for place, method in enumerate(methods)]
    together = train(table, members, BACKBONES["mlp"], config, device="cpu")
    for place, member in enumerate(members):
        alone = train(table, [member], BACKBONES["mlp"], config, device="cpu")
        assert_same(numbers(alone, 0, table), numbers(together, place, table))
