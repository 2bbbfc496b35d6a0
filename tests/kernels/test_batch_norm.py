"""Batch normalisation of stacks is torch's BatchNorm1d, run for each member on its own rows."""

import pytest
import torch
from torch.nn import functional

from knotwork._kernels.batch_norm import batch_norm, batch_norm_eval
from knotwork._kernels.dropout import Noise, dropout
from knotwork.errors import ArgumentError

MEMBERS, ROWS, WIDTH = 3, 40, 6
COUNTS = [None, [40, 40, 40], [40, 17, 2]]


def make_case(dtype=torch.float64, seed=0, mean=0.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(MEMBERS, ROWS, WIDTH, generator=generator, dtype=torch.float64) * 2 + mean
    weight, bias, running_mean = (torch.randn(MEMBERS, WIDTH, generator=generator, dtype=dtype) for _ in range(3))
    return x.to(dtype), weight, bias, running_mean, torch.rand(MEMBERS, WIDTH, generator=generator, dtype=dtype)


def as_tensor(counts):
    return None if counts is None else torch.tensor(counts)


def peer(case, member, count, momentum=0.1, epsilon=1e-5):
    """torch's layer of one member, and the member's rows as a leaf."""
    x, weight, bias, running_mean, running_var = case
    layer = torch.nn.BatchNorm1d(WIDTH, eps=epsilon, momentum=momentum, dtype=x.dtype)
    layer.load_state_dict(
        {
            "weight": weight[member].detach().clone(),
            "bias": bias[member].detach().clone(),
            "running_mean": running_mean[member].clone(),
            "running_var": running_var[member].clone(),
            "num_batches_tracked": torch.tensor(0),
        }
    )
    return layer, x[member, :count].detach().clone().requires_grad_()


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("momentum", "epsilon"), [(0.1, 1e-5), (0.7, 0.5)])
def test_equals_torch_on_the_own_rows(counts, relu, momentum, epsilon):
    case = make_case()
    leaves = [tensor.clone().requires_grad_() for tensor in case[:3]]
    buffers = [tensor.clone() for tensor in case[3:]]
    if counts is not None:
        with torch.no_grad():
            for member, count in enumerate(counts):
                leaves[0][member, count:] = torch.nan
    y = batch_norm(*leaves, *buffers, as_tensor(counts), momentum=momentum, epsilon=epsilon, relu=relu)
    gradient = torch.randn(y.shape, dtype=y.dtype)
    grads = torch.autograd.grad(y, leaves, gradient)
    for member, count in enumerate(counts or [ROWS] * MEMBERS):
        layer, rows = peer(case, member, count, momentum, epsilon)
        expected = functional.relu(layer(rows)) if relu else layer(rows)
        torch.testing.assert_close(y[member, :count], expected, rtol=1e-9, atol=1e-9)
        assert bool((y[member, count:] == 0).all())
        slopes = torch.autograd.grad(expected, (rows, layer.weight, layer.bias), gradient[member, :count])
        torch.testing.assert_close(grads[0][member, :count], slopes[0], rtol=1e-8, atol=1e-8)
        assert bool((grads[0][member, count:] == 0).all())
        for actual, slope in zip(grads[1:], slopes[1:], strict=True):
            torch.testing.assert_close(actual[member], slope, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(buffers[0][member], layer.running_mean)
        torch.testing.assert_close(buffers[1][member], layer.running_var)


@pytest.mark.parametrize("counts", COUNTS)
def test_residual_and_dropout(counts):
    case, counted = make_case(), as_tensor(counts)
    residual = torch.randn(MEMBERS, ROWS, WIDTH, dtype=torch.float64, requires_grad=True)
    noise = Noise(torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6]))
    plain = batch_norm(*(tensor.clone() for tensor in case), counted)
    added = batch_norm(*(tensor.clone() for tensor in case), counted, residual=residual)
    torch.testing.assert_close(added, residual + plain, rtol=1e-12, atol=1e-12)
    gradient = torch.randn(added.shape, dtype=torch.float64)
    assert torch.equal(torch.autograd.grad(added, residual, gradient)[0], gradient)
    dropped = batch_norm(*(tensor.clone() for tensor in case), counted, p=0.4, noise=noise, stream=3)
    assert torch.equal(dropped, dropout(plain, 0.4, noise, 3))
    positive = batch_norm(*(tensor.clone() for tensor in case), counted, p=0.4, noise=noise, stream=3, relu=True)
    assert torch.equal(positive, dropout(functional.relu(plain), 0.4, noise, 3))
    torch.manual_seed(0)
    random = batch_norm(*(tensor.clone() for tensor in case), counted, p=0.4, residual=residual)
    torch.manual_seed(0)
    torch.testing.assert_close(random, residual + functional.dropout(plain, 0.4), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("counts", [None, [40, 1, 0]])
@pytest.mark.parametrize(("relu", "p"), [(False, 0.0), (True, 0.0), (True, 0.4), (False, 0.4)])
@pytest.mark.parametrize("width", [6, 150])
def test_compiled_loops_are_the_definition(counts, relu, p, width):
    generator = torch.Generator().manual_seed(0)
    x, gradient, residual = (torch.randn(3, 40, width, generator=generator) for _ in range(3))
    others = [torch.rand(3, width, generator=generator) - shift for shift in (0.5, 0.5, 0.5, 0.0)]
    if counts is not None:
        x[1, 1:], x[2] = torch.nan, torch.nan
    noise = Noise(torch.tensor([1, 2, 2**31 - 1]), torch.tensor([4, 5, 6]))
    results = []
    for type_ in (torch.float32, torch.float64):
        weight, bias, *buffers = (tensor.to(type_, copy=True) for tensor in others)
        leaves = [tensor.to(type_, copy=True).requires_grad_() for tensor in (x, weight, bias, residual)]
        following = {"relu": relu, "p": p, "noise": noise, "residual": None if relu else leaves[3]}
        y = batch_norm(*leaves[:3], *buffers, as_tensor(counts), stream=2, **following)
        noise.step.add_(1)  # the gradient is still that of the step that was drawn
        grads = torch.autograd.grad(y, leaves, gradient.to(type_), allow_unused=True)
        noise.step.sub_(1)
        results.append([y.detach(), *(grad for grad in grads if grad is not None), *buffers])
    for got, expected in zip(*results, strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, expected.float(), rtol=1e-4, atol=1e-4)


def test_one_row_and_none():
    case = make_case()
    leaves = [tensor.clone().requires_grad_() for tensor in case[:3]]
    buffers = [tensor.clone() for tensor in case[3:]]
    y = batch_norm(*leaves, *buffers, torch.tensor([1, 0, 5]))
    torch.testing.assert_close(y[0, 0], case[2][0])
    assert bool((y[1] == 0).all())
    torch.testing.assert_close(buffers[0][0], 0.9 * case[3][0] + 0.1 * case[0][0, 0])
    assert torch.equal(buffers[1][:2], case[4][:2])
    assert torch.equal(buffers[0][1], case[3][1])
    grads = torch.autograd.grad(y.square().sum(), leaves)
    assert all(bool(grad.isfinite().all()) for grad in grads)
    assert all(bool((grad[1] == 0).all()) for grad in grads)
    torch.testing.assert_close(grads[0][0], torch.zeros(ROWS, WIDTH, dtype=torch.float64))


def test_a_member_does_not_see_its_neighbours():
    case, counts = make_case(torch.float32), torch.tensor([40, 17, 2])
    y = batch_norm(*(tensor.clone() for tensor in case), counts)
    other = make_case(torch.float32, seed=1)
    mixed = [torch.cat([b[:1], a[1:2], b[2:]]) for a, b in zip(case, other, strict=True)]
    assert torch.equal(batch_norm(*mixed, torch.tensor([3, 17, 9]))[1], y[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_large_mean_costs_no_accuracy(dtype):
    case = [tensor.to(torch.float32) for tensor in make_case(mean=1e3)]
    case[0] = case[0].to(dtype)
    y = batch_norm(*(tensor.clone() for tensor in case), None)
    exact = batch_norm(*(tensor.double() for tensor in case), None)
    assert y.dtype == dtype
    tolerance = 5e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(y.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("relu", [False, True])
def test_prediction_uses_the_running_statistics(relu):
    case = make_case()
    residual = None if relu else torch.randn_like(case[0])
    y = batch_norm_eval(*case, relu=relu, residual=residual, epsilon=1e-3)
    for member in range(MEMBERS):
        layer, rows = peer(case, member, ROWS, epsilon=1e-3)
        expected = layer.eval()(rows)
        expected = functional.relu(expected) if relu else residual[member] + expected
        torch.testing.assert_close(y[member], expected, rtol=1e-10, atol=1e-10)


def test_relu_and_residual_exclude_each_other():
    case = make_case()
    with pytest.raises(ArgumentError, match="relu must be False with a residual"):
        batch_norm(*case, None, relu=True, residual=case[0])


def test_all_cannot_be_dropped():
    with pytest.raises(ArgumentError, match="p must be at least 0 and less than 1"):
        batch_norm(*make_case(), None, p=1.0)
