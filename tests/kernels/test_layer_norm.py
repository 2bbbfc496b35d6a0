"""Layer norm of a stack equals torch's, member by member."""

import pytest
import torch
from torch import nn

from knotwork._kernels.transformer import layer_norm
from knotwork.errors import ArgumentError


@pytest.mark.parametrize("shape", [(3, 4, 5, 12), (2, 7, 192), (2, 1), (1, 3, 1100)])
def test_equals_torch_member_by_member(shape):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(shape[0], shape[-1], dtype=torch.float64, requires_grad=True) for _ in range(2))
    grad = torch.randn(shape, dtype=torch.float64)
    y = layer_norm(x, weight, bias, epsilon=1e-3)[1]
    gradients = torch.autograd.grad(y, (x, weight, bias), grad)
    for m in range(shape[0]):
        norm = nn.LayerNorm(shape[-1], eps=1e-3, dtype=torch.float64)
        norm.weight.data, norm.bias.data = weight[m].detach(), bias[m].detach()
        member_x = x[m].detach().requires_grad_()
        expected = norm(member_x)
        torch.testing.assert_close(y[m], expected, rtol=0, atol=1e-12)
        expected_gradients = torch.autograd.grad(expected, (member_x, norm.weight, norm.bias), grad[m])
        for got, wanted in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(got[m], wanted, rtol=0, atol=1e-10)


def test_gradients_are_those_of_differences():
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(2, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(layer_norm, (x, weight, bias))


def test_members_do_not_see_each_other():
    x, weight, bias = torch.randn(3, 20, 16), torch.randn(3, 16), torch.randn(3, 16)
    together = layer_norm(x, weight, bias)[1]
    for m in range(3):
        assert torch.equal(together[m], layer_norm(*(tensor[m : m + 1] for tensor in (x, weight, bias)))[1][0])


def test_constant_rows_become_the_bias():
    bias = torch.randn(2, 6)
    y = layer_norm(torch.full((2, 3, 6), 4.0), torch.randn(2, 6), bias)[1]
    assert torch.equal(y, bias[:, None].expand(2, 3, 6))


def test_result_has_the_type_of_the_values():
    y = layer_norm(torch.randn(2, 3, 6).bfloat16(), torch.ones(2, 6), torch.zeros(2, 6))[1]
    assert y.dtype == torch.bfloat16


def test_empty_batches():
    weight = torch.ones(2, 6, requires_grad=True)
    layer_norm(torch.zeros(2, 0, 6), weight, torch.zeros(2, 6))[1].sum().backward()
    assert torch.equal(weight.grad, torch.zeros(2, 6))


@pytest.mark.parametrize("shape", [(6,), (2, 5), (1, 6)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(ArgumentError, match="weight must be of shape"):
        layer_norm(torch.zeros(2, 3, 6), torch.ones(shape), torch.zeros(2, 6))


def test_a_sum_and_its_norm():
    x, added = torch.randn(2, 3, 4, 6).double(), torch.randn(2, 3, 4, 6).double()
    shift, weight, bias = torch.randn(3, 2, 6).double()
    total, y = layer_norm(x, weight, bias, added=added, shift=shift)
    torch.testing.assert_close(total, x + added + shift[:, None, None])
    same, expected = layer_norm(total, weight, bias)
    assert torch.equal(same, total)
    torch.testing.assert_close(y, expected)
    first, again = layer_norm(x, weight, bias, added=added, shift=shift, first=True)
    assert torch.equal(first, total[:, :, :1])
    assert torch.equal(again, y)
    for wrong, name in (({"shift": shift[:1]}, "shift"), ({"added": added[:1]}, "added"), ({"shift": None}, "shift")):
        with pytest.raises(ArgumentError, match=f"{name} must be"):
            layer_norm(x, weight, bias, **({"added": added, "shift": shift} | wrong))
