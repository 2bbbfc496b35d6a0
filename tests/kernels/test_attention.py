"""Attention equals torch's, drops what its bits say, and sees neither other rows nor other members."""

import math

import pytest
import torch
from torch.nn import functional

from knotwork._kernels import attention as attention_file
from knotwork._kernels.attention import IN_PLACE, attention, divided, divided_product, weighted_values
from knotwork._kernels.dropout import Noise, member_keys, pair_bits, pair_numbers
from knotwork.errors import ArgumentError
from tests.kernels.cases import attention_tolerance


def make_qkv(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def make_noise(n_members, step=0):
    return Noise(torch.arange(n_members) * 31 + 5, torch.full((n_members,), step))


def by_head(qkv, n_heads):
    """One head after the other, by torch's attention."""
    thirds = qkv.split(qkv.shape[-1] // 3, dim=-1)
    size = thirds[0].shape[-1] // n_heads
    heads = [[third[..., h * size : (h + 1) * size] for third in thirds] for h in range(n_heads)]
    return torch.cat([functional.scaled_dot_product_attention(*head) for head in heads], dim=-1)


def run_plain(qkv, n_heads):
    return weighted_values(*divided(qkv, None), n_heads)


@pytest.mark.parametrize("path", [attention, run_plain])
@pytest.mark.parametrize(("n_tokens", "n_heads", "width"), [(1, 1, 3), (5, 2, 24), (17, 8, 24), (70, 2, 5)])
def test_equals_torch_head_by_head(path, n_tokens, n_heads, width):
    qkv = make_qkv(2, 3, n_tokens, 3 * n_heads * width)
    got = path(qkv, n_heads)
    assert got.shape == (2, 3, n_tokens, n_heads * width)
    torch.testing.assert_close(got, by_head(qkv, n_heads), rtol=0, atol=1e-12)
    single = path(qkv.float(), n_heads)
    assert single.dtype == torch.float32
    heads = [third.unflatten(-1, (n_heads, width)).transpose(2, 3) for third in qkv.float().double().chunk(3, dim=-1)]
    allowed = (
        attention_tolerance(*heads, torch.ones(n_tokens, n_tokens, dtype=torch.float64)).transpose(2, 3).flatten(-2)
    )
    off = (single.double() - by_head(qkv.float().double(), n_heads)).abs()
    assert bool((off <= allowed).all()), f"{float((off / allowed).max()):.1f} times what rounding explains"


def test_equals_the_formula_written_out():
    qkv = torch.tensor([[0.0, 1.0, 10.0], [2.0, 3.0, 20.0]], dtype=torch.float64).view(1, 1, 2, 3)
    share = math.exp(6) / (math.exp(2) + math.exp(6))
    expected = [15.0, 10 + 10 * share]
    torch.testing.assert_close(attention(qkv, 1).flatten().tolist(), expected)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("most", [2**24, 1])
def test_gradients_are_those_of_differences(p, most, monkeypatch):
    monkeypatch.setattr(attention_file, "MOST_WEIGHTS", most)
    qkv = make_qkv(2, 2, 3, 12).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: attention(x, 2, p, make_noise(2)), (qkv,))


def test_the_bits_of_a_weight_drop_it():
    n_members, n_rows, n_tokens, n_heads = 2, 3, 4, 2
    qkv = torch.zeros(n_members, n_rows, n_tokens, 3, n_heads, n_tokens, dtype=torch.float64)
    qkv[..., 2, :, :] = torch.eye(n_tokens).view(1, 1, n_tokens, 1, n_tokens)  # each head's result is its weights
    noise, p = make_noise(n_members, step=7), 0.4
    got = attention(qkv.flatten(3), n_heads, p, noise, 3).view(n_members, n_rows, n_tokens, n_heads, n_tokens)
    numbers, columns = pair_numbers(member_keys(noise, 3), n_rows * n_heads * n_tokens, n_tokens)
    bits = pair_bits(numbers, columns).view(n_members, n_rows, n_heads, n_tokens, n_tokens).transpose(2, 3)
    expected = (bits >= p * 2**32).double() / n_tokens / (1 - p)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("with_noise", [True, False])
def test_dropout_keeps_the_mean_and_drops_its_share(with_noise):
    torch.manual_seed(0)
    n_tokens, p = 16, 0.3
    qkv = torch.zeros(2, 200, n_tokens, 3, 2, n_tokens)
    qkv[..., 2, :, :] = torch.eye(n_tokens).view(1, 1, n_tokens, 1, n_tokens)
    weights = attention(qkv.flatten(3), 2, p, make_noise(2) if with_noise else None) * n_tokens
    dropped = (weights == 0).double()
    error = math.sqrt(p * (1 - p) / dropped.numel())
    assert abs(float(dropped.mean()) - p) < 5 * error
    assert abs(float(weights.double().mean()) - 1) < 5 * error / (1 - p)
    assert not torch.equal(weights[0], weights[1])


def test_seed_step_and_stream_change_what_is_dropped():
    qkv = make_qkv(1, 4, 6, 24)
    base = attention(qkv, 2, 0.5, make_noise(1), 0)
    assert torch.equal(base, attention(qkv, 2, 0.5, make_noise(1), 0))
    for noise, stream in ((Noise(torch.tensor([6]), torch.tensor([0])), 0), (make_noise(1, 1), 0), (make_noise(1), 1)):
        assert not torch.equal(base, attention(qkv, 2, 0.5, noise, stream))


@pytest.mark.parametrize("p", [0.0, 0.25])
def test_members_and_rows_do_not_see_each_other(p):
    qkv = make_qkv(3, 5, 9, 3 * 2 * 24, dtype=torch.float32)
    noise = make_noise(3, step=2)
    together = attention(qkv, 2, p, noise)
    heads = [third.unflatten(-1, (2, 24)).transpose(2, 3) for third in qkv.double().chunk(3, dim=-1)]
    allowed = 2 * float(attention_tolerance(*heads, torch.ones(9, 9, dtype=torch.float64)).max()) / (1 - p)
    for m in range(3):
        alone = attention(qkv[m : m + 1], 2, p, Noise(*(tensor[m : m + 1] for tensor in noise)))
        torch.testing.assert_close(together[m], alone[0], rtol=0, atol=allowed)
    torch.testing.assert_close(together[:, :2], attention(qkv[:, :2], 2, p, noise), rtol=0, atol=allowed)
    spoilt = qkv.clone()
    spoilt[1, 2, 3, 4] = torch.nan
    same = torch.ones(3, 5, dtype=torch.bool)
    same[1, 2] = False
    got = attention(spoilt, 2, p, noise)
    assert torch.equal(got[same], together[same])
    assert not torch.equal(got[1, 2], together[1, 2])  # NaN, or with some of torch's CPU kernels other numbers


@pytest.mark.parametrize(("p", "with_noise"), [(0.0, False), (0.3, True)])
@pytest.mark.parametrize("most", [2**24, 1])
def test_the_first_query_alone_gives_the_first_result(p, with_noise, most, monkeypatch):
    monkeypatch.setattr(attention_file, "MOST_WEIGHTS", most)
    qkv, bias = make_qkv(2, 3, 5, 36), make_qkv(2, 36)
    noise = make_noise(2) if with_noise else None
    expected = attention(qkv + bias[:, None, None], 2, p, noise, 4)[:, :, :1]
    got = attention(qkv[..., 12:], 2, p, noise, 4, bias=bias, first=qkv[:, :, :1, :12])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(attention(qkv, 2, p, noise, 4, bias=bias)[:, :, :1], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("what", "shape"), [("bias", (2, 24)), ("bias", (1, 36)), ("first", (2, 3, 2, 18)), ("first", (2, 3, 1, 12))]
)
def test_wrong_shapes_of_bias_and_first_query(what, shape):
    with pytest.raises(ArgumentError, match=f"{what} must be of shape"):
        attention(make_qkv(2, 3, 5, 36), 2, **{what: torch.zeros(shape)})


def test_chunks_change_nothing(monkeypatch):
    qkv = make_qkv(2, 7, 5, 24).requires_grad_()
    noise = make_noise(2)
    parts = divided(qkv, None)
    expected = weighted_values(*parts, 2, p=0.3, keys=member_keys(noise, 1))
    monkeypatch.setattr(attention_file, "MOST_WEIGHTS", 2 * 2 * 25 * 3)
    monkeypatch.setattr(attention_file, "MOST_ROWS", 4)
    got = attention(qkv, 2, 0.3, noise, 1)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-14)
    gradients = [torch.autograd.grad(y.square().sum(), qkv)[0] for y in (got, expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-13)
    torch.testing.assert_close(attention(qkv, 2), by_head(qkv, 2), rtol=0, atol=1e-12)


def test_long_rows_with_noise_keep_no_weights():
    qkv = make_qkv(1, 64, 200, 24, dtype=torch.float32).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda t: t):
        attention(qkv, 8, 0.1, make_noise(1))
    assert sum(kept) < 64 * 8 * 200 * 200 / 2


def test_empty_batches():
    assert attention(torch.zeros(2, 0, 4, 24), 2).shape == (2, 0, 4, 8)
    assert attention(torch.zeros(2, 0, 4, 24), 2, 0.5, make_noise(2)).shape == (2, 0, 4, 8)


@pytest.mark.parametrize(
    ("shape", "n_heads", "p"), [((2, 3, 4, 25), 2, 0.0), ((3, 4, 24), 2, 0.0), ((1, 1, 1, 6), 1, 1.0)]
)
def test_wrong_arguments_are_refused(shape, n_heads, p):
    with pytest.raises(ArgumentError, match="must be"):
        attention(torch.zeros(shape), n_heads, p)


@pytest.mark.parametrize("n_tokens", [1, 4])
@pytest.mark.parametrize("used", [(0, 1), (0,), (1,)])
def test_a_divided_product_has_the_gradients_of_two_products(n_tokens, used):
    weight = torch.randn(2, 5, 9, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 3, n_tokens, 5, dtype=torch.float64, requires_grad=True)
    results = divided_product(x, weight, n_columns=4)
    complete = x @ weight[:, None]
    torch.testing.assert_close(results[0], complete[:, :, :1, :4])
    torch.testing.assert_close(results[1], complete[..., 4:])
    grads = [torch.randn_like(part) if place in used else None for place, part in enumerate(results)]
    expected = torch.autograd.grad([results[place] for place in used], [x, weight], [grads[place] for place in used])
    with torch.no_grad():
        products, kept = IN_PLACE.forward(x, weight, n_columns=4)
        assert all(torch.equal(*pair) for pair in zip(products, results, strict=True))
        got = IN_PLACE.backward(grads, kept, (True, True), n_columns=4)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)
