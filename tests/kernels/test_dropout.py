"""Dropout of stacks: the zeros of the definition on every path, whatever the neighbours are."""

import pytest
import torch
from torch.nn import functional

from knotwork._kernels.dropout import Noise, bias_relu_dropout, dropout, keep_mask, random_bits
from knotwork.errors import ArgumentError


def relu_dropout(x, p, noise, stream):
    """Call the operation with a bias of zeros, on rows as it takes them."""
    rows = x if x.dim() == 3 else x[:, None]
    return bias_relu_dropout(rows, torch.zeros_like(rows[:, 0]), p, noise, stream).view_as(x)


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
    got = bias_relu_dropout(x, bias, p, noise, 4)
    keep = keep_mask(x, p, noise, 4)
    expected = torch.where(keep, functional.relu(x.to(dtypes[1]) + bias[:, None]) * (1 / (1 - p)), 0).to(dtypes[0])
    assert got.dtype == dtypes[0]
    torch.testing.assert_close(got, expected, rtol=1e-2 if dtypes[0] == torch.bfloat16 else 0, atol=0)
    pairs = zip(*(torch.autograd.grad(y, (x, bias), gradient) for y in (got, expected)), strict=True)
    for actual, other in pairs:
        assert actual.dtype == other.dtype
        torch.testing.assert_close(actual, other, rtol=1e-2 if dtypes[0] == torch.bfloat16 else 1e-5, atol=1e-4)


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_bad_rates(p):
    with pytest.raises(ArgumentError, match="p must be at least 0 and less than 1"):
        dropout(torch.ones(1, 2), p, make_noise(1), 0)
