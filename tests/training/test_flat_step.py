"""Steps without a graph over the layers are the steps with one, for everything that they are used for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import knotwork.training._stack as stacks
from knotwork.encoders import Embedding
from knotwork.nn import MLPConfig, RealMLPConfig, ResNetConfig
from knotwork.training import TrainingConfig
from knotwork.training._network import predict_stack
from knotwork.training._objectives import Custom, Focal, Huber
from tests.training.cases import make_member, make_stack, make_table

CONFIG = TrainingConfig(max_epochs=3, batch_size=64, learning_rate=0.01, patience=None)
MLP, REAL = MLPConfig(widths=(32, 24), dropout=0.2), RealMLPConfig(widths=(32, 24))
TASKS = {"regression": ("regression", 3), "binary": ("classification", 2), "multiclass": ("classification", 3)}


def make_case(
    method="PLE-Q", backbone=REAL, task="regression", *, config=CONFIG, table=None, categories="embedding", **settings
):
    """A stack of three members on folds of different sizes, with missing values."""
    kind, n_classes = TASKS[task]
    table = table or make_table(kind, n_classes=n_classes)
    table.numbers[::7, 0] = np.nan
    size = None if method in ("PBLD", "PLR", "Std") else 9
    members = [make_member(table, method, size, seed=place, fold=place, **settings) for place in range(3)]
    return make_stack(table, members, backbone.for_task(kind), config, categories=categories)


def without_flat_steps(stack):
    """The same stack, with a graph."""
    vars(stack)["flat_step"] = None
    return stack


def train_epoch(stack):
    """Train an epoch, and return the gradients of all its steps."""
    kept, step = [], stack.optimiser.step

    def keep(grads, rates, active):
        kept.append([None if grad is None else grad.clone() for grad in grads])
        step(grads, rates, active)

    stack.optimiser.step = keep
    stack.set_pace(1.0, 1.0)
    stack.begin()
    for _ in range(stack.n_steps):
        stack.step()
    stack.finish()
    del stack.optimiser.step
    return kept


def assert_equal_steps(**case):
    fast, plain = make_case(**case), without_flat_steps(make_case(**case))
    assert fast.flat_step is not None
    names = [name for name, _ in fast.network.named_parameters()]
    for got, expected in zip(train_epoch(fast), train_epoch(plain), strict=True):
        for name, one, other in zip(names, got, expected, strict=True):
            assert (one is None) == (other is None), name
            if one is not None:
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * float(other.abs().max()), msg=name)
    torch.testing.assert_close(fast.report, plain.report, rtol=1e-5, atol=1e-6)
    for name, one, other in zip(names, fast.weights, plain.weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, msg=name)
    assert torch.equal(fast.members.steps_done, plain.members.steps_done)
    assert torch.equal(fast.optimiser.steps, plain.optimiser.steps)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("backbone", [MLP, REAL], ids=["mlp", "realmlp"])
@pytest.mark.parametrize("method", ["BS-Q", "PBLD", "Std"])
def test_steps_equal_those_with_a_graph(method, backbone, task):
    assert_equal_steps(method=method, backbone=backbone, task=task)


EMBEDDINGS = [Embedding(4, relu=False, raw=True), Embedding(3, relu=True, raw=True), Embedding(8, relu=True, raw=False)]


@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=["linear", "relu", "without raw values"])
@pytest.mark.parametrize("method", ["PLE-Q", "BS-Q", "IS-U", "MS-Q", "Cosine", "Periodic"])
def test_embeddings_are_computed_in_loops(method, embedding):
    case = {"method": method, "embedding": embedding}
    assert make_case(**case).flat_step._inputs._embedding is not None
    assert_equal_steps(**case)


@pytest.mark.parametrize("method", ["NS-U", "CS-U", "BS-Grad-U", "IS-Grad-U"])
def test_other_embeddings_keep_a_graph(method):
    case = {"method": method, "embedding": EMBEDDINGS[0]}
    assert make_case(**case).flat_step._inputs._embedding is None
    assert_equal_steps(**case)


@pytest.mark.parametrize("embedding", [None, EMBEDDINGS[0]], ids=["none", "linear"])
@pytest.mark.parametrize("categories", ["embedding", "code", "mixed"])
def test_categories(categories, embedding):
    assert_equal_steps(categories=categories, embedding=embedding, table=make_table(n_categorical=2))


@pytest.mark.parametrize("task", TASKS)
def test_weights_and_label_smoothing(task):
    kind, n_classes = TASKS[task]
    weights = np.random.default_rng(1).uniform(0.0, 2.0, size=260)
    config = replace(CONFIG, label_smoothing=0.2)
    assert_equal_steps(task=task, table=make_table(kind, n_classes=n_classes, weights=weights), config=config)


@pytest.mark.parametrize("settings", [{"schedule": "cosine"}, {"schedule": "cycles"}, {"schedule": "constant"}])
@pytest.mark.parametrize(
    "backbone", [MLPConfig(widths=(16,), dropout=0.0), RealMLPConfig(widths=(20, 8), activation="relu")]
)
def test_schedules_activations_and_depths(settings, backbone):
    assert_equal_steps(backbone=backbone, config=replace(CONFIG, **settings))


def test_missing_values_that_are_learned():
    assert_equal_steps(learned_missing=True, embedding=EMBEDDINGS[0])


def test_wide_layers_are_in_several_chunks():
    assert_equal_steps(
        backbone=RealMLPConfig(widths=(2048, 40)), config=replace(CONFIG, batch_size=128, learning_rate=1e-4)
    )


def test_predictions_are_those_of_the_network():
    stack = make_case("BS-Q", embedding=EMBEDDINGS[1], table=make_table(n_categorical=2), categories="mixed")
    train_epoch(stack)
    rows, data = stack.members.valid_rows, stack.job.data
    expected = predict_stack(stack.network, data.numbers, data.codes, rows)
    torch.testing.assert_close(stack.flat_step.predict(rows), expected, rtol=1e-5, atol=1e-5)


def test_members_that_have_stopped_do_not_change():
    stack = make_case()
    stack.schedule.alive[1] = False
    before = [weight.clone() for weight in stack.weights]
    train_epoch(stack)
    for old, new in zip(before, stack.weights, strict=True):
        assert torch.equal(old[1], new[1])
    assert not torch.equal(before[-1][0], stack.weights[-1][0])


def test_a_stack_of_some_members_goes_on():
    """Buffers belong to one stack: those of a new one are its own."""
    fast, plain = make_case(), without_flat_steps(make_case())
    for stack in (fast, plain):
        train_epoch(stack)
    index = torch.tensor([0, 2])
    fast, plain = fast.take(index), without_flat_steps(plain.take(index))
    train_epoch(fast), train_epoch(plain)
    torch.testing.assert_close(fast.report, plain.report, rtol=1e-4, atol=1e-5)


def several_targets():
    table = make_table()
    return replace(table, target=np.stack([table.target, -table.target], axis=1))


def with_objective(objective, task="regression"):
    return replace(make_table(task), objective=objective)


OTHERS = {
    "several targets": lambda: {"table": several_targets()},
    "another loss": lambda: {"table": with_objective(Huber())},
    "another loss of classes": lambda: {"table": with_objective(Focal(), "classification"), "task": "multiclass"},
    "a function": lambda: {"table": with_objective(Custom(lambda outputs, target: (outputs - target) ** 2))},
    "averages": lambda: {"config": replace(CONFIG, weight_average=0.9)},
    "smoothness": lambda: {"config": replace(CONFIG, smoothness=1.0)},
    "reproducible": lambda: {"config": replace(CONFIG, reproducible=True)},
    "a residual network": lambda: {"backbone": ResNetConfig(width=16, hidden=16, n_blocks=1)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_have_a_graph(name):
    stack = make_case(**OTHERS[name]())
    assert stacks.find_flat_step(stack) is None
    train_epoch(stack)
