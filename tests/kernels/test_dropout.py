"""Dropout of stacks: the zeros of the definition on every path, whatever the neighbours are."""

import pytest
import torch
from torch.nn import functional

from knotwork._kernels.dropout import ACTIVATIONS, Noise, bias_act_dropout, dropout, keep_mask, random_bits
from knotwork.errors import ArgumentError


def relu_dropout(x, p, noise, stream):
    """Call the operation with a bias of zeros, on rows as it takes them."""
    rows = x if x.dim() == 3 else x[:, None]
    return bias_act_dropout(rows, torch.zeros_like(rows[:, 0]), p, noise, stream).view_as(x)


OPERATIONS = [(dropout, lambda x: x), (relu_dropout, functional.relu)]


def make_noise(members=3):
    return Noise(torch.arange(members) * 1000 + 1, torch.arange(members) + 5)


@pytest.mark.parametrize("shape", [(3, 40_000), (3, 7, 5), (3, 1, 1), (3, 4, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("operation", "before"), OPERATIONS)
def test_values_and_gradients(operation, before, dtype, shape):
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    noise, p = make_noise(), 0.3
    got = operation(x, p, noise, 2)
    keep = (random_bits(noise, 2, x[0].numel()) >= p * 2**32).view(shape)
    expected = torch.where(keep, before(x) * (1 / (1 - p)), 0)
    assert got.dtype == dtype
    assert torch.equal(got, expected)
    gradient = torch.randn(shape, dtype=dtype)
    pair = [torch.autograd.grad(y, x, gradient)[0] for y in (got, expected)]
    torch.testing.assert_close(*pair, rtol=0, atol=0)


@pytest.mark.parametrize("operation", [dropout, relu_dropout])
def test_share_of_zeros(operation):
    x = torch.ones(2, 100_000)
    y = operation(x, 0.7, make_noise(2), 0)
    assert abs(float((y == 0).double().mean()) - 0.7) < 5 * (0.21 / 200_000) ** 0.5
    torch.testing.assert_close(y[y > 0], torch.full_like(y[y > 0], 1 / 0.3))


@pytest.mark.parametrize("operation", [dropout, relu_dropout])
def test_a_member_does_not_see_its_neighbours(operation):
    x, noise = torch.randn(3, 8, 4), make_noise()
    alone = operation(x[1:2, :5], 0.5, Noise(*(tensor[1:2] for tensor in noise)), 1)
    assert torch.equal(operation(x, 0.5, noise, 1)[1:2, :5], alone)
    assert not torch.equal(operation(x, 0.5, noise, 1), operation(x, 0.5, noise, 2))
    assert not torch.equal(operation(x, 0.5, noise, 1), operation(x, 0.5, Noise(noise.seeds, noise.step + 1), 1))


@pytest.mark.parametrize("operation", [dropout, relu_dropout])
def test_the_gradient_is_that_of_the_step_that_was_drawn(operation):
    x, noise = torch.rand(3, 1000, requires_grad=True), make_noise()
    y = operation(x, 0.5, noise, 0)
    noise.step.add_(1)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, torch.where(y > 0, 2.0, 0.0))


@pytest.mark.parametrize(("operation", "before"), OPERATIONS)
def test_without_noise_or_rate(operation, before):
    x = torch.randn(2, 500)
    assert torch.equal(operation(x, 0.0, make_noise(2), 0), before(x))
    torch.manual_seed(0)
    got = operation(x, 0.4, None, 0)
    torch.manual_seed(0)
    assert torch.equal(got, functional.dropout(before(x), 0.4))


@pytest.mark.parametrize("operation", [dropout, relu_dropout])
def test_missing_and_infinite_values_stay(operation):
    x = torch.tensor([torch.nan, torch.inf, 1.0]).repeat(1, 100)
    noise = make_noise(1)
    y, keep = operation(x, 0.5, noise, 0), keep_mask(x, 0.5, noise, 0)
    assert torch.equal(y.isnan(), x.isnan() & keep)
    assert torch.equal(y.isinf(), x.isinf() & keep)


def test_little_is_kept_for_backward():
    x, noise = torch.randn(2, 1000, requires_grad=True), make_noise(2)
    for operation, most in ((dropout, 8), (relu_dropout, 2000)):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, kept=kept: kept.append(t.numel()) or t, lambda t: t):
            operation(x, 0.5, noise, 0)
        assert 0 < sum(kept) <= most


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("dtypes", [(torch.float32,) * 2, (torch.float64,) * 2, (torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("shape", [(3, 700, 100), (2, 1, 1), (2, 5, 256)])
def test_bias(shape, dtypes, p):
    x = torch.randn(shape, dtype=dtypes[0], requires_grad=True)
    bias = torch.randn(shape[0], shape[2], dtype=dtypes[1], requires_grad=True)
    noise, gradient = make_noise(shape[0]), torch.randn(shape, dtype=dtypes[0])
    got = bias_act_dropout(x, bias, p, noise, 4)
    keep = keep_mask(x, p, noise, 4)
    expected = torch.where(keep, functional.relu(x.to(dtypes[1]) + bias[:, None]) * (1 / (1 - p)), 0).to(dtypes[0])
    assert got.dtype == dtypes[0]
    torch.testing.assert_close(got, expected, rtol=1e-2 if dtypes[0] == torch.bfloat16 else 0, atol=0)
    pairs = zip(*(torch.autograd.grad(y, (x, bias), gradient) for y in (got, expected)), strict=True)
    for actual, other in pairs:
        assert actual.dtype == other.dtype
        torch.testing.assert_close(actual, other, rtol=1e-2 if dtypes[0] == torch.bfloat16 else 1e-5, atol=1e-4)


EXACT = {
    "selu": lambda z: 1.0507009873554805 * torch.where(z > 0, z, 1.6732632423543772 * torch.expm1(z)),
    "mish": lambda z: z * torch.tanh(torch.log1p(torch.exp(z))),
    "relu": lambda z: torch.where(z > 0, z, 0.0),
}


def results(function, x, bias, gradient):
    """Return values, and gradients of x and of the bias, in float64."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, bias)]
    y = function(*leaves)
    return [tensor.detach().double() for tensor in (y, *torch.autograd.grad(y, leaves, gradient.to(y.dtype)))]


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 700, 100), (2, 1, 1), (2, 5, 256), (2, 0, 3)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_those_of_the_formula_in_float64(activation, shape, dtype, p):
    torch.manual_seed(0)
    x, gradient = 8 * torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    bias, noise, scale = torch.randn(shape[0], shape[2]).to(dtype), make_noise(shape[0]), 0.375

    def operation(x, bias):
        return bias_act_dropout(x, bias, p, noise, 4, activation=activation, scale=scale)

    def formula(x, bias):
        keep = keep_mask(x, p, noise, 4) if x.numel() else torch.ones_like(x, dtype=torch.bool)
        return torch.where(keep, EXACT[activation](x * scale + bias[:, None]) * (1 / (1 - p)), 0)

    got = results(operation, x, bias, gradient)
    expected = results(formula, x.double(), bias.double(), gradient)
    assert operation(x, bias).dtype == dtype
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 1e-2}[dtype]
    for name, one, other in zip(("values", "x", "bias"), got, expected, strict=True):
        allowed = tolerance * (shape[1] ** 0.5 if name == "bias" else 1.0)  # sums of as many rounded numbers
        torch.testing.assert_close(one, other, rtol=tolerance, atol=allowed, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_single_values_are_exact_everywhere(activation):
    ends = [
        -3e38,
        -200.0,
        -104.0,
        -87.5,
        -87.0,
        -20.0,
        -0.7,
        -1e-3,
        -1e-7,
        -1e-30,
        0.0,
        1e-30,
        1e-7,
        0.7,
        19.9,
        20.1,
        88.8,
    ]
    x = torch.cat([torch.tensor(ends), torch.linspace(-30.0, 30.0, 20_001)])[None, :, None]
    bias, noise = torch.zeros(1, 1), make_noise(1)
    with torch.no_grad():
        compiled = bias_act_dropout(x, bias, 0.0, noise, activation=activation)
    torch.testing.assert_close(compiled.double(), EXACT[activation](x.double()), rtol=5e-7, atol=1e-36)


@pytest.mark.parametrize("activation", ["mish", "selu"])
def test_slopes_are_exact_everywhere(activation):
    ends = torch.tensor([-3e38, -200.0, -87.5, -20.0, -1.2, -1e-7, 1e-7, 19.9, 20.1, 88.8, 3e38, torch.inf])
    x = torch.cat([ends, torch.linspace(-30.0, 30.0, 20_001)])[None, :, None]
    bias, noise = torch.zeros(1, 1), make_noise(1)
    _, got, _ = results(lambda *t: bias_act_dropout(*t, 0.0, noise, activation=activation), x, bias, torch.ones_like(x))
    inner = x.double().clamp(-300.0, 300.0)
    _, expected, _ = results(
        lambda z, shift: EXACT[activation](z + shift[:, None]), inner, bias.double(), torch.ones_like(x)
    )
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("activation", ["mish", "selu"])
def test_curves_keep_missing_and_infinite_values(activation, p):
    x = torch.tensor([torch.nan, torch.inf, 1.0]).repeat(1, 1, 100)
    noise = make_noise(1)
    y, keep = bias_act_dropout(x, x[:, 0] * 0 + 1, p, noise, activation=activation), keep_mask(x, p, noise, 0)
    assert torch.equal(y.isnan(), (x * 0).isnan() & keep)
    y = bias_act_dropout(x, torch.zeros_like(x[:, 0]), p, noise, activation=activation)
    assert torch.equal(y.isnan(), x.isnan() & keep)
    assert torch.equal(y.isinf(), x.isinf() & keep)


@pytest.mark.parametrize("activation", ["mish", "selu"])
def test_slopes_of_curves_are_those_of_the_step_that_was_drawn(activation):
    x, noise = torch.rand(3, 100, 10, requires_grad=True), make_noise()
    y = bias_act_dropout(x, torch.zeros(3, 10), 0.5, noise, 0, activation=activation)
    noise.step.add_(1)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient != 0, y != 0)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_those_of_finite_differences(activation, p):
    x, bias = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 6, 3), (2, 3)))

    def operation(x, bias):
        return bias_act_dropout(x, bias, p, make_noise(2), 1, activation=activation, scale=0.7)

    assert torch.autograd.gradcheck(operation, (x, bias))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_without_training_there_are_gradients_of_gradients(activation):
    x = torch.randn(1, 5, 3, requires_grad=True)
    y = bias_act_dropout(x, torch.zeros(1, 3), 0.0, None, activation=activation)
    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    assert bool(torch.autograd.grad(gradient.sum(), x)[0].isfinite().all())


def test_bad_activations():
    with pytest.raises(ArgumentError, match="activation must be one of 'selu', 'mish', 'relu'"):
        bias_act_dropout(torch.ones(1, 2, 2), torch.ones(1, 2), 0.0, None, activation="tanh")


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_bad_rates(p):
    with pytest.raises(ArgumentError, match="p must be at least 0 and less than 1"):
        dropout(torch.ones(1, 2), p, make_noise(1), 0)
