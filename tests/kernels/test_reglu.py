"""The gated unit equals its formula, and drops what its bits say."""

import math

import pytest
import torch

from knotwork._kernels.dropout import Noise, random_bits
from knotwork._kernels.transformer import reglu_dropout
from knotwork.errors import ArgumentError


def make_noise(n_members):
    return Noise(torch.arange(n_members) * 31 + 5, torch.full((n_members,), 4))


def test_equals_the_formula():
    x = torch.randn(3, 4, 5, 14, dtype=torch.float64)
    a, b = x[..., :7], x[..., 7:]
    torch.testing.assert_close(reglu_dropout(x), a * b.clamp(min=0), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bits_of_an_element_drop_it(dtype):
    x = torch.randn(3, 4, 5, 14, dtype=dtype)
    noise, p = make_noise(3), 0.35
    kept = random_bits(noise, 2, 4 * 5 * 7).view(3, 4, 5, 7) >= p * 2**32
    expected = reglu_dropout(x) * kept / (1 - p)
    torch.testing.assert_close(reglu_dropout(x, p, noise, 2), expected)
    assert not torch.equal(reglu_dropout(x, p, noise, 3) == 0, expected == 0)


@pytest.mark.parametrize("with_noise", [True, False])
def test_dropout_drops_its_share(with_noise):
    torch.manual_seed(0)
    y = reglu_dropout(torch.ones(2, 500, 100), 0.2, make_noise(2) if with_noise else None)
    share = float((y == 0).double().mean())
    assert abs(share - 0.2) < 5 * math.sqrt(0.2 * 0.8 / y.numel())
    torch.testing.assert_close(y[y != 0].unique(), torch.tensor([1.25]))


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_gradients_are_those_of_differences(p):
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: reglu_dropout(x, p, make_noise(2), 1), (x,))


def test_members_do_not_see_each_other():
    x = torch.randn(3, 20, 30)
    noise = make_noise(3)
    together = reglu_dropout(x, 0.4, noise)
    for m in range(3):
        alone = reglu_dropout(x[m : m + 1], 0.4, Noise(*(tensor[m : m + 1] for tensor in noise)))
        assert torch.equal(together[m], alone[0])


def test_nan_stays_nan():
    x = torch.tensor([[1.0, torch.nan, 2.0, torch.nan, 1.0, -1.0]])
    assert reglu_dropout(x).isnan().tolist() == [[True, True, False]]


@pytest.mark.parametrize(("shape", "p"), [((2, 3), 0.0), ((4,), 0.0), ((2, 4), 1.0), ((2, 4), -0.1)])
def test_wrong_arguments_are_refused(shape, p):
    with pytest.raises(ArgumentError, match="must be"):
        reglu_dropout(torch.zeros(shape), p)


def test_the_bias_is_added_first():
    x, bias = torch.randn(2, 3, 4, 10).double(), torch.randn(2, 10).double()
    noise = Noise(torch.tensor([3, 9]), torch.tensor([1, 1]))
    expected = reglu_dropout(x + bias[:, None, None], 0.3, noise, 2)
    assert torch.equal(reglu_dropout(x, 0.3, noise, 2, bias=bias), expected)
    with pytest.raises(ArgumentError, match="bias must be of shape"):
        reglu_dropout(x, bias=bias[:, :5])
