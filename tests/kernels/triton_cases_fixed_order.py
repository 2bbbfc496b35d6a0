"""Products and sums in a fixed order: against their definitions, and the same bits in stacks of any size.

`test_triton` runs this file. Where there is no GPU, the operations are told that there is one, and the kernels run in
the interpreter.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from knotwork._kernels import dispatch, fixed_order
from knotwork._kernels.batch_norm import batch_norm
from knotwork._kernels.dropout import Noise
from knotwork._kernels.encoding import Knots, StackPart, encode
from knotwork._kernels.fixed_order import add_bias, look_up, product, row_sums
from knotwork.basis._families import Functions
from knotwork.nn._backbones import MLPConfig, ResNetConfig
from knotwork.training import _stack
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._stack import StackJob
from tests.kernels.cases import DEVICE, GPU, combinations
from tests.training.cases import make_member, make_table


@pytest.fixture(autouse=True)
def on_triton(monkeypatch):
    if not GPU:
        monkeypatch.setattr(dispatch, "on_triton", lambda tensor: tensor.dtype in (torch.float32, torch.bfloat16))
        monkeypatch.setattr(fixed_order, "_on_gpu", lambda x: True)


def random(*shape, dtype=torch.float32):
    return torch.randn(shape).to(DEVICE, dtype)


def run(function, tensors, gradient):
    """Return the result of a function and the gradients of its floating-point arguments."""
    leaves = [tensor.detach().clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, [leaf for leaf in leaves if leaf.requires_grad], gradient)]


# The interpreter has no products of bfloat16.
@pytest.mark.parametrize("dtype", [torch.float32, *([torch.bfloat16] if GPU else [])], ids=str)
@pytest.mark.parametrize(
    ("shape", "with_bias"),
    combinations(
        [(70, 37, 5), (33, 4, 140), (130, 66, 1)],
        [True, False],
        usual=lambda shape, with_bias: with_bias or shape == (33, 4, 140),
    ),
)
def test_product_is_that_of_torch(shape, dtype, with_bias):
    torch.manual_seed(0)
    n_rows, d_in, d_out = shape
    tensors = [random(3, n_rows, d_in, dtype=dtype), random(3, d_in, d_out, dtype=dtype)]
    tensors += [random(3, d_out, dtype=dtype)] if with_bias else []
    gradient = random(3, n_rows, d_out, dtype=dtype)
    with fixed_order.fixed_order():
        got = run(product, tensors, gradient)
    exact = run(product, [tensor.double() for tensor in tensors], gradient.double())
    for one, other in zip(got, exact, strict=True):
        assert one.dtype == dtype
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


def test_bias_and_table_are_those_of_torch():
    torch.manual_seed(0)
    places = torch.randint(0, 70, (3, 65, 2), device=DEVICE)
    cases = [(add_bias, [random(3, 130, 35), random(3, 35)]), (look_up, [random(3, 70, 8), places])]
    for function, tensors in cases:
        gradient = torch.randn_like(function(*tensors))
        with fixed_order.fixed_order():
            got = run(function, tensors, gradient)
        for one, other in zip(got, run(function, tensors, gradient), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sums_of_rows_ignore_padding(dtype):
    values = random(3, 2, 1500, dtype=dtype)
    with fixed_order.fixed_order():
        sums = row_sums(values)
        padded = row_sums(torch.nn.functional.pad(values, (0, 900)))
    torch.testing.assert_close(sums, values.double().sum(dim=-1).to(dtype), rtol=1e-5, atol=1e-5)
    assert torch.equal(sums, padded)


def normalised(x, weight, bias):
    members, _, width = x.shape
    buffers = torch.zeros(members, width, device=DEVICE), torch.ones(members, width, device=DEVICE)
    noise = Noise(torch.arange(members, device=DEVICE) * 0 + 3, torch.zeros(members, dtype=torch.int64, device=DEVICE))
    return batch_norm(x, weight, bias, *buffers, None, relu=True, p=0.2, noise=noise)


STACKS = {
    "product": (product, lambda m: [random(m, 70, 37), random(m, 37, 20), random(m, 20)], (70, 20)),
    "bias": (add_bias, lambda m: [random(m, 70, 20), random(m, 20)], (70, 20)),
    "batch norm": (normalised, lambda m: [random(m, 140, 70), random(m, 70), random(m, 70)], (140, 70)),
    "table": (look_up, lambda m: [random(m, 9, 8), torch.randint(0, 9, (m, 65), device=DEVICE)], (65, 8)),
}


@pytest.mark.parametrize("name", STACKS)
def test_bits_do_not_depend_on_the_stack(name):
    torch.manual_seed(0)
    function, make, shape = STACKS[name]
    tensors, gradient = make(5), random(5, *shape)
    with fixed_order.fixed_order():
        together = run(function, tensors, gradient)
        for member in range(5):
            alone = run(function, [tensor[member : member + 1] for tensor in tensors], gradient[member : member + 1])
            for one, other in zip(alone, together, strict=True):
                assert torch.equal(one[0], other[member])


@pytest.mark.parametrize(("kind", "degree"), [(Functions.LOCAL, 3), (Functions.NORMALISED, 3), (Functions.TAILS, 4)])
def test_knots_do_not_depend_on_members_with_more_of_them(kind, degree):
    torch.manual_seed(0)
    size, n_knots, logits = 9, 5, random(1, 3, 6)
    x, gradient = torch.rand(3, 40, 3).to(DEVICE), random(3, 40, 3, size)

    def gradients(members, n_widths):
        """The first member has 5 knots; others have as many as there is room for."""
        padded = torch.zeros(members, 3, n_widths, device=DEVICE)
        padded[:1, :, :6] = logits
        counts = torch.full((members, 3), n_widths - 1, dtype=torch.int32, device=DEVICE)
        counts[0] = n_knots
        breaks = torch.linspace(0, 1, n_widths + 1, device=DEVICE).repeat(members, 3, 1)
        learned = torch.arange(members, device=DEVICE) == 0
        leaf = padded.requires_grad_()
        # Parts of one feature each take the way of members whose features are encoded by different functions.
        mixed = [StackPart(kind, degree, 2, 3, True, features=(f,)) for f in range(3)] if members > 2 else []
        parts = [
            StackPart(kind, degree, 0, 1, learned=True),
            *([StackPart(Functions.LOCAL, 1, 1, 2)] if members > 1 else []),
            *mixed,
        ]
        learned = learned | (torch.arange(members, device=DEVICE) == 2)
        encoded = encode(x[:members], Knots(counts, breaks, leaf, learned), parts, size=size)
        outputs = [encoded.values, encoded.penalty]
        (grad,) = torch.autograd.grad(outputs, [leaf], [gradient[:members], torch.ones(members, device=DEVICE)])
        return encoded.values[0].detach(), encoded.breaks[0, :, : n_knots + 1].detach(), grad[0, :, :6]

    alone = gradients(1, 6)
    assert float(alone[2].abs().max()) > 0
    for one, other in zip(alone, gradients(2, 8), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(alone, gradients(3, 6), strict=True):
        assert torch.equal(one, other)


BACKBONES = {"mlp": MLPConfig(widths=(20, 12)), "resnet": ResNetConfig(width=12, n_blocks=1, hidden=20)}


@pytest.mark.parametrize(("name", "task", "place"), [("mlp", "regression", 0), ("resnet", "classification", 2)])
def test_a_member_is_the_same_alone_and_in_a_stack(name, task, place, monkeypatch):
    """The engine's path for a GPU; in the interpreter, tensors are those of the CPU."""
    if not GPU:
        monkeypatch.setattr(StackJob, "members_alone", False)
        monkeypatch.setattr(_stack, "MEMBERS_PER_PART", 3)
        monkeypatch.setattr(_stack, "VALUES_PER_PART", 1 << 40)
    table = make_table(task, n=80)
    settings = {"max_epochs": 2, "batch_size": 32, "learning_rate": 1e-2, "knot_warmup": 1, "metric": "reported"}
    config = TrainingConfig(**settings, reproducible=True)
    members = [
        make_member(table, method, seed=place, fold=place, n_valid=20, rates=np.full(2 - place % 2, 1e-2))
        for place, method in enumerate(("BS-Grad-U", "PLE", "IS-U"))
    ]
    members[2] = replace(members[2], train=members[2].train[:25])  # fewer rows than a batch
    together = train(table, members, BACKBONES[name], config, device=DEVICE)
    alone = train(table, [members[place]], BACKBONES[name], config, device=DEVICE)
    assert np.array_equal(alone.histories[0].loss, together.histories[place].loss)
    assert np.array_equal(alone.histories[0].score, together.histories[place].score)
    outputs = [trained.outputs(table.numbers[:40], table.codes[:40]) for trained in (alone, together)]
    assert np.array_equal(outputs[0][0], outputs[1][place])
