"""The Triton kernels of attention, gated units and layer norm against plain torch: on a GPU, or in the interpreter.

`test_triton` runs this file in a process of its own (``TRITON_INTERPRET=1``); on a GPU it can be run directly.
"""

import pytest
import torch

from knotwork._kernels import attention as attention_file
from knotwork._kernels import attention_triton, dropout_triton, transformer_triton
from knotwork._kernels.attention import attention, divided, is_short, weighted_values
from knotwork._kernels.dropout import Noise, keep_threshold, member_keys, pair_bits, pair_numbers
from knotwork._kernels.transformer import (
    layer_norm,
    layer_norm_formula,
    make_tokens,
    reglu_dropout,
    reglu_formula,
    tokens_formula,
)
from tests.kernels.cases import DEVICE, GPU, attention_tolerance, combinations, on_triton

__all__ = ["on_triton"]
pytestmark = pytest.mark.usefixtures("on_triton")

# The interpreter multiplies no bfloat16, and rounds to it towards zero.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3} | ({torch.bfloat16: 3e-2} if GPU else {})


def close(got, expected, tolerance, least=1e-6):
    scale = max(float(expected.abs().max()), least)
    torch.testing.assert_close(got.cpu().double() / scale, expected.cpu().double() / scale, rtol=0, atol=tolerance)


def make_noise(n_members):
    return Noise(torch.arange(n_members, device=DEVICE) * 977 + 3, torch.full((n_members,), 12, device=DEVICE))


SHAPES = [(3, 2, 5, 2, 24), (2, 3, 15, 3, 24), (1, 2, 33, 2, 24), (2, 1, 16, 1, 8)]
LONG = [(2, 1, 70, 1, 24), (1, 1, 130, 1, 8)]
MANY_ROWS = (2, 9, 3, 3, 5)  # more than a program takes, and heads and widths that are no powers of two


def attend(leaves, noise, n_heads, p):
    qkv, first, bias = leaves
    return attention(qkv, n_heads, p, noise, 5, bias=bias, first=first)


def definition(qkv, first, bias, n_heads, p, noise):
    """Compute attention in float64, whatever its length."""
    q, kv = divided(qkv, first)
    if bias is not None:
        shifts = bias[:, None, None]
        q, kv = q + shifts[..., : q.shape[-1]], kv + shifts[..., q.shape[-1] :]
    return weighted_values(q, kv, n_heads, p=p, keys=member_keys(noise, 5))


def check_attention(shape, p, dtype, *, with_bias, first):
    """Compare with the definition, and a member alone with the same member among others."""
    n_members, n_rows, n_tokens, n_heads, size = shape
    torch.manual_seed(0)
    width, n_queries = n_heads * size, 1 if first else n_tokens
    qkv = (2 * torch.randn(n_members, n_rows, n_tokens, (2 if first else 3) * width, device=DEVICE)).to(dtype)
    queries = torch.randn(n_members, n_rows, 1, width, device=DEVICE).to(dtype) if first else None
    bias = torch.randn(n_members, 3 * width, device=DEVICE) if with_bias else None
    grad = torch.randn(n_members, n_rows, n_queries, width, device=DEVICE).to(dtype)
    noise = make_noise(n_members)
    given = [qkv, queries, bias]
    exact = [None if each is None else each.double().requires_grad_() for each in given]
    expected = definition(*exact, n_heads, p, noise)
    expected_grads = torch.autograd.grad(expected, [each for each in exact if each is not None], grad.double())
    leaves = [None if each is None else each.clone().requires_grad_() for each in given]
    got = attend(leaves, noise, n_heads, p)
    got_grads = torch.autograd.grad(got, [each for each in leaves if each is not None], grad)
    assert got.dtype == got_grads[0].dtype == dtype
    close(got.detach(), expected.detach(), TOLERANCES[dtype])
    for actual, plain in zip(got_grads, expected_grads, strict=True):
        close(actual, plain, TOLERANCES[dtype])
    alone = [None if each is None else each[-1:].clone().requires_grad_() for each in given]
    once = attend(alone, Noise(*(each[-1:] for each in noise)), n_heads, p)
    assert torch.equal(once[0], got[-1]), "a member alone must give the same bits"
    assert torch.equal(torch.autograd.grad(once, alone[0], grad[-1:])[0][0], got_grads[0][-1])


# Types differ in how kernels load and round: one shape has them all.
@pytest.mark.parametrize(
    ("shape", "way"),
    combinations(
        SHAPES,
        [*((0.2, dtype) for dtype in TOLERANCES), (0.0, torch.float32)],
        usual=lambda shape, way: shape == SHAPES[0] or way == (0.2, torch.float32),
    ),
    ids=str,
)
def test_attention(shape, way):
    p, dtype = way
    check_attention(shape, p, dtype, with_bias=False, first=False)


@pytest.mark.parametrize(
    ("shape", "settings", "dtype"),
    combinations(
        [SHAPES[0], SHAPES[2]],
        [(0.2, True, False), (0.2, True, True), (0.0, False, True)],
        TOLERANCES,
        usual=lambda shape, settings, dtype: (
            (shape == SHAPES[0]) == (dtype == torch.float32) and (settings[0] > 0 or dtype == torch.float32)
        ),
    ),
    ids=str,
)
def test_attention_with_a_bias_or_the_first_query_alone(shape, settings, dtype):
    p, with_bias, first = settings
    check_attention(shape, p, dtype, with_bias=with_bias, first=first)


@pytest.mark.parametrize(
    ("shape", "first", "dtype"),
    combinations(
        LONG,
        [False, True],
        TOLERANCES,
        usual=lambda shape, first, dtype: (dtype == torch.float32) == ((shape == LONG[0]) != first),
    ),
    ids=str,
)
def test_attention_among_many_tokens(shape, first, dtype):
    check_attention(shape, 0.2, dtype, with_bias=True, first=first)


@pytest.mark.parametrize("first", [False, True])
def test_attention_in_many_rows(first):
    check_attention(MANY_ROWS, 0.2, torch.float32, with_bias=True, first=first)


TILED = [(2, 1, 80, 2, 24), (1, 1, 129, 1, 40)]


@pytest.mark.parametrize(
    ("shape", "first", "dtype"),
    combinations(
        TILED,
        [False, True],
        TOLERANCES,
        usual=lambda shape, first, dtype: (dtype == torch.float32) == ((shape == TILED[0]) != first),
    ),
    ids=str,
)
def test_attention_in_tiles(shape, first, dtype, monkeypatch):
    monkeypatch.setattr(attention_file, "MOST_TOKENS", 16)
    check_attention(shape, 0.2, dtype, with_bias=not first, first=first)


def test_tiles_begin_where_one_program_ends():
    assert is_short(64, 24)
    assert not is_short(65, 24)
    check_attention((1, 1, 65, 1, 24), 0.2, torch.float32, with_bias=True, first=False)


def test_tiles_of_large_scores_do_not_overflow(monkeypatch):
    monkeypatch.setattr(attention_file, "MOST_TOKENS", 16)
    torch.manual_seed(0)
    qkv = 40 * torch.randn(1, 2, 70, 3 * 16, device=DEVICE)
    qkv[:, :, 69] *= 3  # the largest score comes last
    got = attention(qkv, 1, 0.2, make_noise(1), 5)
    exact = definition(qkv.double(), None, None, 1, 0.2, make_noise(1))
    numbers, columns = pair_numbers(member_keys(make_noise(1), 5), 2 * 70, 70)
    kept = (pair_bits(numbers, columns) >= keep_threshold(0.2)).view(2, 70, 70)
    allowed = attention_tolerance(*qkv[0].double().chunk(3, dim=-1), kept / 0.8)
    off = (got.double() - exact).abs()[0]
    assert bool((off <= allowed).all()), f"{float((off / allowed).max()):.1f} times what rounding explains"
    assert float((allowed / exact.abs().max()).quantile(0.9)) < 1e-4, "most entries must be checked sharply"


def test_the_first_query_among_more_tokens_than_its_own_kernel_holds():
    shape = (1, 1, 130, 4, 24)
    assert not attention_triton.holds(130, 4, 24)
    check_attention(shape, 0.2, torch.float32, with_bias=True, first=True)


def test_rows_lie_where_a_grid_may_be_long():
    q = torch.empty(3, 2**18, 9, 192, device="meta")
    assert attention_triton._grid(q, 8, 1) == (8 * 2**18, 3)


TOKENS = [(3, 0, 5, 70, 24), (2, 3, 17, 7, 24), (0, 2, 4, 3, 24), (1, 1, 4, 5, 260)]


@pytest.mark.parametrize(
    ("learned", "shape", "dtype"),
    combinations(
        [True, False],
        TOKENS,
        TOLERANCES,
        usual=lambda learned, shape, dtype: shape == TOKENS[1] or (learned and dtype == torch.float32),
    ),
    ids=str,
)
def test_tokens(learned, shape, dtype):
    n_products, n_categories, size, n_rows, width = shape
    torch.manual_seed(0)
    n_members = 2
    given = [
        torch.randn(n_members, n_rows, n_products, size, device=DEVICE).to(dtype),
        torch.randn(n_members, n_products, size, width, device=DEVICE).to(dtype),
        torch.randn(n_members, n_rows, n_categories, width, device=DEVICE).to(dtype),
        torch.randn(n_members, n_products + n_categories, width, device=DEVICE),
        torch.randn(n_members, width, device=DEVICE),
    ]
    first = 0 if learned else 1
    exact = [each.double().requires_grad_(place >= first) for place, each in enumerate(given)]
    expected = tokens_formula(*exact)
    leaves = [each.clone().requires_grad_(place >= first) for place, each in enumerate(given)]
    got = make_tokens(*leaves)
    assert got.dtype == dtype
    close(got.detach(), expected.detach(), TOLERANCES[dtype])
    grad = torch.randn(got.shape, device=DEVICE).to(dtype)
    own_grads = torch.autograd.grad(got, leaves[first:], grad)
    plain_grads = torch.autograd.grad(expected, exact[first:], grad.double(), allow_unused=True)
    for actual, plain, leaf in zip(own_grads, plain_grads, leaves[first:], strict=True):
        assert actual.shape == leaf.shape
        assert actual.dtype == leaf.dtype
        if actual.numel():
            close(actual, plain, TOLERANCES[dtype])
    alone = [leaf.detach()[-1:].requires_grad_() for leaf in leaves[3:]]
    once = torch.autograd.grad(make_tokens(*(each[-1:] for each in given[:3]), *alone), alone, grad[-1:])
    assert all(torch.equal(actual[-1:], other) for actual, other in zip(own_grads[-2:], once, strict=True))


def test_keys():
    noise = make_noise(3)
    for stream in (0, 1, 7):
        assert torch.equal(dropout_triton.member_keys(noise, stream), member_keys(noise, stream))


@pytest.fixture
def several_blocks(monkeypatch):
    """Let programs take several blocks of rows, and sums of parts several iterations, although tensors are small."""
    for name, value in {"TILE": 256, "ADDED": 2, "ADDED_COLUMNS": 128}.items():
        monkeypatch.setattr(transformer_triton, name, value)


UNITS = [(3, 2, 2, 170), (2, 21, 64), (1, 5)]


@pytest.mark.parametrize(
    ("shape", "with_bias", "p", "dtype"),
    combinations(
        UNITS,
        [False, True],
        [0.0, 0.6],
        [torch.float32, torch.bfloat16],
        usual=lambda shape, with_bias, p, dtype: (
            (with_bias and p > 0) if dtype == torch.float32 else (shape == UNITS[0] and with_bias == (p > 0))
        ),
    ),
    ids=str,
)
@pytest.mark.usefixtures("several_blocks")
def test_reglu(shape, with_bias, p, dtype):
    torch.manual_seed(0)
    bias = torch.randn(shape[0], 2 * shape[-1], device=DEVICE) if with_bias else None
    x = torch.randn(*shape[:-1], 2 * shape[-1], device=DEVICE).to(dtype)
    x[0, ..., -1] = 0.0
    noise = make_noise(shape[0])
    exact = x.double().requires_grad_()
    exact_bias = None if bias is None else bias.double().requires_grad_()
    expected = reglu_formula(exact, exact_bias, p=p, noise=noise, stream=4)
    grad = torch.randn(shape, device=DEVICE).to(dtype)
    wanted = [exact] if bias is None else [exact, exact_bias]
    expected_grads = torch.autograd.grad(expected, wanted, grad.double())
    leaves = [x.clone().requires_grad_(), None if bias is None else bias.clone().requires_grad_()]
    got = reglu_dropout(leaves[0], p, noise, 4, bias=leaves[1])
    got_grads = torch.autograd.grad(got, leaves[: len(wanted)], grad)
    assert got.dtype == got_grads[0].dtype == dtype
    tolerance = 2e-6 if dtype == torch.float32 else 8e-3
    close(got.detach(), expected.detach(), tolerance)
    for actual, plain in zip(got_grads, expected_grads, strict=True):
        close(actual, plain, 2 * tolerance)
    if with_bias and p:
        alone = [leaf.detach()[-1:].requires_grad_() for leaf in leaves]
        once = reglu_dropout(alone[0], p, Noise(*(each[-1:] for each in noise)), 4, bias=alone[1])
        for actual, other in zip(got_grads, torch.autograd.grad(once, alone, grad[-1:]), strict=True):
            assert torch.equal(actual[-1:], other), "a member alone must give the same bits"


NORMALISED = [(2, 9, 5, 24), (2, 5, 192), (1, 3, 1000), (2, 1, 1)]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    combinations(
        NORMALISED,
        [torch.float32, torch.bfloat16],
        usual=lambda shape, dtype: shape == NORMALISED[0] or dtype == torch.float32,
    ),
    ids=str,
)
@pytest.mark.usefixtures("several_blocks")
def test_layer_norm(shape, dtype):
    torch.manual_seed(0)
    x = (3 * torch.randn(shape, device=DEVICE) + 5).to(dtype)
    grad = torch.randn(shape, device=DEVICE).to(dtype)
    weight, bias = (torch.randn(shape[0], shape[-1], device=DEVICE) for _ in range(2))
    exact = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    expected = layer_norm(*exact)[1]
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    same, got = layer_norm(*leaves)
    assert torch.equal(same, x)
    gradients = torch.autograd.grad(got, leaves, grad)
    tolerance = 2e-6 if dtype == torch.float32 else 8e-3
    close(got.detach(), expected.detach(), tolerance)
    assert got.dtype == dtype
    # The gradient of a row of one number is 0: what remains is the rounding of a difference, times 1 / sqrt(epsilon).
    least = 1e-5**-0.5 if shape[-1] == 1 else 1e-6
    for actual, plain, leaf in zip(gradients, torch.autograd.grad(expected, exact, grad.double()), leaves, strict=True):
        assert actual.dtype == leaf.dtype
        close(actual, plain, tolerance, least)
    alone = [tensor[:1].detach().requires_grad_() for tensor in leaves]
    once = torch.autograd.grad(layer_norm(*alone)[1], alone, grad[:1])
    assert all(torch.equal(actual[:1], other) for actual, other in zip(gradients, once, strict=True))


@pytest.mark.parametrize(
    ("first", "gradients_of", "dtype"),
    combinations(
        [False, True],
        [("both", False), ("norm", False), ("sum", False), ("both", True)],
        [torch.float32, torch.bfloat16],
        usual=lambda first, gradients_of, dtype: dtype == torch.float32 or gradients_of == ("both", False),
    ),
    ids=str,
)
@pytest.mark.usefixtures("several_blocks")
def test_layer_norm_of_a_sum(first, gradients_of, dtype):
    needed, alone = gradients_of
    torch.manual_seed(0)
    shape, members = (2, 9, 5, 24), (2, 24)
    given = [(3 * torch.randn(shape, device=DEVICE) + 5).to(dtype), torch.randn(shape, device=DEVICE).to(dtype)]
    given += [torch.randn(members, device=DEVICE) for _ in range(3)]
    given[1:3] = (None, None) if alone else given[1:3]
    grads = [torch.randn(shape, device=DEVICE).to(dtype) for _ in range(2)]
    exact = [None if each is None else each.double().requires_grad_() for each in given]
    expected = layer_norm_formula(*exact, epsilon=1e-5, first=first)
    grads[0] = grads[0][:, :, :1] if first else grads[0]
    leaves = [None if each is None else each.clone().requires_grad_() for each in given]
    x, added, shift, weight, bias = leaves
    got = layer_norm(x, weight, bias, added=added, shift=shift, first=first)
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    for actual, plain in zip(got, expected, strict=True):
        assert actual.dtype == dtype
        close(actual.detach(), plain.detach(), tolerance)
    chosen = {"both": [0, 1], "norm": [1], "sum": [0]}[needed]

    def gradients(results, inputs, kind):
        return torch.autograd.grad(
            [results[place] for place in chosen],
            [each for each in inputs if each is not None],
            [kind(grads[place]) for place in chosen],
            allow_unused=True,
        )

    plain = gradients(expected, exact, torch.Tensor.double)
    inputs = [leaf for leaf in leaves if leaf is not None]
    for actual, wanted, leaf in zip(gradients(got, leaves, torch.Tensor.clone), plain, inputs, strict=True):
        assert actual.dtype == leaf.dtype
        close(actual, torch.zeros_like(actual) if wanted is None else wanted, tolerance)
