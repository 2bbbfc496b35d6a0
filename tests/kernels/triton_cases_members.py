"""The Triton kernels of stacks against their definitions: on a GPU, or in the interpreter (``TRITON_INTERPRET=1``).

`test_triton` runs this file in a process of its own; on a GPU it can be run directly.
"""

import pytest
import torch

from knotwork._kernels import adamw_triton, batch_norm_triton, dispatch
from knotwork._kernels.adamw import AdamWConstants, Factors, update_formula
from knotwork._kernels.batch_norm import BatchNormSettings, batch_norm_formula
from knotwork._kernels.dropout import ACTIVATIONS, Noise, keep_mask, member_keys
from knotwork._kernels.dropout_triton import BIAS_ACT, DROPOUT
from tests.kernels.cases import DEVICE, GPU, combinations

TYPES = [torch.float32, torch.bfloat16]


# Rows and columns that fill blocks, that do not, and that are one number.
BIASED = combinations(
    [(3, 130, 65), (4, 1, 1), (2, 64, 32)],
    TYPES,
    [0.0, 0.4],
    usual=lambda shape, dtype, p: (
        (dtype == torch.float32 and p > 0) or (shape[1] == 130 and (p == 0) == (dtype == torch.float32))
    ),
)


def make_noise(members):
    seeds = torch.tensor([0, 1, 2**31 - 1, 12_345][:members], device=DEVICE)
    return Noise(seeds, torch.tensor([0, 7, 3_000_000, 1][:members], device=DEVICE))


def same(got, expected):
    """Equal, zeros included; but the interpreter cuts float32 off to bfloat16 where a GPU rounds."""
    assert got.dtype == expected.dtype
    assert torch.equal(got == 0, expected == 0)
    tolerance = 2**-7 if got.dtype == torch.bfloat16 and not GPU else 0
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize(
    ("shape", "dtype", "p"),
    combinations(
        [(3, 40, 65), (4, 1, 1), (2, 2048)],
        TYPES,
        [0.1, 0.75],
        usual=lambda shape, dtype, p: (p == 0.1) == (dtype == torch.float32) and (p == 0.1 or len(shape) == 3),
    ),
)
def test_dropout(shape, dtype, p):
    x, gradient = (torch.randn(shape, device=DEVICE).to(dtype) for _ in range(2))
    noise = make_noise(shape[0])
    keep, scale = keep_mask(x, p, noise, 1), 1 / (1 - p)
    settings = {"p": p, "noise": noise, "stream": 1}
    (y,), (keys,) = DROPOUT.forward(x, **settings)
    assert torch.equal(keys, member_keys(noise, 1))
    same(y, torch.where(keep, x * scale, 0))
    (x_grad,) = DROPOUT.backward((gradient,), (keys,), (True,), **settings)
    same(x_grad, torch.where(keep, gradient * scale, 0))


@pytest.mark.parametrize(("shape", "dtype", "p"), BIASED)
def test_bias_and_relu(shape, dtype, p):
    x, gradient = (torch.randn(shape, device=DEVICE).to(dtype) for _ in range(2))
    bias = torch.randn(shape[0], shape[2], device=DEVICE)
    noise, scale = make_noise(shape[0]), 1 / (1 - p)
    settings = {"p": p, "noise": noise if p else None, "stream": 1, "activation": "relu", "scale": 1.0}
    (y,), kept = BIAS_ACT.forward(x, bias, **settings)
    positive = torch.relu(x.float() + bias[:, None])
    same(y, torch.where(keep_mask(x, p, noise, 1), positive * scale, 0).to(dtype))
    x_grad, bias_grad = BIAS_ACT.backward((gradient,), kept, (True, True), **settings)
    expected = torch.where(y > 0, gradient.float() * scale, 0)
    same(x_grad, expected.to(dtype))
    torch.testing.assert_close(bias_grad, expected.sum(dim=1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("shape", "dtype", "p"), BIASED)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bias_and_activation(activation, shape, dtype, p):
    torch.manual_seed(0)
    x, gradient = ((size * torch.randn(shape, device=DEVICE)).to(dtype) for size in (8, 1))
    bias = torch.randn(shape[0], shape[2], device=DEVICE)
    noise = make_noise(shape[0])
    settings = {"p": p, "noise": noise if p else None, "stream": 1, "activation": activation, "scale": 0.375}
    keep = keep_mask(x, p, noise, 1)
    leaves = [tensor.double().requires_grad_() for tensor in (x, bias)]
    z = 0.375 * leaves[0] + leaves[1][:, None]
    exact = torch.where(keep, ACTIVATIONS[activation](z) / (1 - p), 0)
    (y,), kept = BIAS_ACT.forward(x, bias, **settings)
    noise.step.add_(1)  # backward must not read the counters
    got = y, *BIAS_ACT.backward((gradient,), kept, (True, True), **settings)
    expected = exact.detach(), *torch.autograd.grad(exact, leaves, gradient.double())
    assert [tensor.dtype for tensor in got] == [dtype, dtype, torch.float32]
    tolerance = 2**-7 if dtype == torch.bfloat16 else 2e-6
    for one, other, (rtol, atol) in zip(got, expected, [(tolerance, 2e-6)] * 2 + [(1e-5, 1e-4)], strict=True):
        torch.testing.assert_close(one.double(), other, rtol=rtol, atol=atol)


def test_values_are_counted_in_64_bits_as_in_32(monkeypatch):
    def results():
        torch.manual_seed(0)
        x, gradient, bias = torch.randn(2, 40, 65), torch.randn(2, 40, 65), torch.randn(2, 65)
        x, gradient, bias = (tensor.to(DEVICE) for tensor in (x, gradient, bias))
        settings = {"p": 0.4, "noise": make_noise(2), "stream": 1}
        (y,), kept = DROPOUT.forward(x, **settings)
        made = [y, *DROPOUT.backward((gradient,), kept, (True,), **settings)]
        settings |= {"activation": "mish", "scale": 0.5}
        (y,), kept = BIAS_ACT.forward(x, bias, **settings)
        made += [y, *BIAS_ACT.backward((gradient,), kept, (True, True), **settings)]
        others, options = (bias, bias, bias, bias.abs()), {"noise": make_noise(2), "counts": None, "residual": None}
        for most_held in (0, batch_norm_triton.MOST_HELD):
            monkeypatch.setattr(batch_norm_triton, "MOST_HELD", most_held)
            norm = BatchNormSettings(0.2, 1e-5, relu=True, p=0.3, stream=5)
            made += run_batch_norm("triton", x, others, gradient, settings=norm, **options)
        return made

    assert not dispatch.is_long(2**31 - 2**17)
    assert dispatch.is_long(2**31 - 1)
    usual = results()
    monkeypatch.setattr(dispatch, "LONG_FROM", 0)
    for got, expected in zip(results(), usual, strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_of_extreme_values(activation):
    ends = torch.tensor(
        [-3e38, -200.0, -1e-3, -1e-7, 0.0, 1e-7, 19.9, 20.1, 300.0, torch.inf, torch.nan], device=DEVICE
    )
    x, bias, settings = ends[None, :, None], torch.zeros(1, 1, device=DEVICE), {"p": 0.0, "noise": None, "stream": 0}
    (y,), kept = BIAS_ACT.forward(x, bias, **settings, activation=activation, scale=1.0)
    exact = ACTIVATIONS[activation](x.double())
    torch.testing.assert_close(y.double(), exact, rtol=1e-6, atol=1e-36, equal_nan=True)
    options = {"activation": activation, "scale": 1.0}
    slopes, _ = BIAS_ACT.backward((torch.ones_like(x),), kept, (True, True), **settings, **options)
    assert bool(slopes[0, :-1].isfinite().all())
    top = 1.0507009873554805 if activation == "selu" else 1.0
    torch.testing.assert_close(slopes[0, 7:-1], torch.full_like(slopes[0, 7:-1], top))


@pytest.mark.parametrize("grad_type", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_adamw(dtype, grad_type):
    rule = AdamWConstants(0.9, 0.999, 1e-8)
    parameter = torch.randn(3, 50, 41, device=DEVICE).to(dtype)
    master = parameter.float() if dtype == torch.bfloat16 else parameter
    moments = torch.randn(3, 50, 41, device=DEVICE), torch.rand(3, 50, 41, device=DEVICE)
    expected = [tensor.clone() for tensor in (master, *moments)]
    untouched = parameter[1].clone()
    rates = torch.tensor([[0.1, 0.2, 0.3], [0.01, 0.02, 0.0]], device=DEVICE)
    active = torch.tensor([True, False, True], device=DEVICE)
    steps = torch.tensor([[0, 5, 1000], [999, 7, 1]], device=DEVICE)
    sizes, roots = adamw_triton.count(steps, rates, active, rule)
    assert steps.tolist() == [[1, 5, 1001], [1000, 7, 1]]
    corrections = [[1 - beta ** max(t, 1) for t in steps.flatten().tolist()] for beta in rule[:2]]
    exact = [torch.tensor(values, dtype=torch.float64).view(2, 3) for values in corrections]
    moves = torch.tensor([[True, False, True], [True, False, False]])
    for got, value in ((sizes, torch.where(moves, rates.cpu() / exact[0], 0)), (roots, exact[1].rsqrt())):
        torch.testing.assert_close(got.cpu(), value.float(), rtol=1e-6, atol=0)
    grad = torch.randn(3, 50, 41, device=DEVICE).to(grad_type)
    factors = Factors(rates[0], sizes[0], roots[0])
    adamw_triton.update(parameter, master, grad, moments, factors, decay=0.1, rule=rule)
    update_formula(expected[0], grad, tuple(expected[1:]), factors, decay=0.1, rule=rule)
    for got, plain in zip((master, *moments), expected, strict=True):
        torch.testing.assert_close(got, plain, rtol=2e-6, atol=2e-6)
    same(parameter, master.to(dtype))
    assert torch.equal(parameter[1], untouched)


def run_batch_norm(path, x, others, gradient, **options):
    """Return the result, the gradients of x, weight and bias, and the running statistics."""
    weight, bias, *buffers = (tensor.clone() for tensor in others)
    residual, options["buffers"] = options.pop("residual"), tuple(buffers)
    if path == "plain":
        leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
        y = batch_norm_formula(*leaves, residual, **options)
        return [y.detach(), *torch.autograd.grad(y, leaves, gradient), *buffers]
    (y,), kept = batch_norm_triton.BATCH_NORM.forward(x, weight, bias, residual, **options)
    needed = (True, True, True, False)
    return [y, *batch_norm_triton.BATCH_NORM.backward((gradient,), kept, needed, **options)[:3], *buffers]


# With relu not at 1e3, where rounding decides signs near 0 and with them gradients.
FOLLOWING = [(False, 0.0, 1e3), (True, 0.0, 0.0), (True, 0.3, 0.0), (False, 0.3, 0.0)]


@pytest.mark.parametrize(
    ("dtype", "counts", "following"),
    combinations(
        TYPES,
        [None, [140, 129, 1, 0]],
        FOLLOWING,
        usual=lambda dtype, counts, following: dtype == torch.float32 or following == (True, 0.3, 0.0),
    ),
    ids=str,
)
def test_batch_norm(dtype, counts, following, monkeypatch):
    relu, p, mean = following
    monkeypatch.setattr(batch_norm_triton, "PROGRAMS", 1 if mean or p else 264)  # wide tiles and narrow ones
    if (counts is None) == (dtype == torch.float32):  # several tiles, elsewhere all rows in registers
        monkeypatch.setattr(batch_norm_triton, "MOST_HELD", 0)
    torch.manual_seed(0)
    shape = (4, 140, 35)
    x, gradient, residual = ((torch.randn(shape) + mean).to(DEVICE, dtype) for mean in (mean, 0.0, 0.0))
    weight, bias = (torch.randn(4, shape[2]).to(DEVICE, dtype) for _ in range(2))
    others = weight, bias, torch.randn(4, shape[2], device=DEVICE), torch.rand(4, shape[2], device=DEVICE)
    counts = None if counts is None else torch.tensor(counts, device=DEVICE)
    if counts is not None:
        x = torch.where((torch.arange(140, device=DEVICE) < counts[:, None])[..., None], x, torch.nan)
    options = {
        "settings": BatchNormSettings(0.2, 1e-5, relu, p, 5),
        "noise": make_noise(4),
        "counts": counts,
        "residual": None if relu else residual,
    }
    results = [run_batch_norm(path, x, others, gradient, **options) for path in ("triton", "plain")]
    tolerance = 2e-2 if dtype == torch.bfloat16 else 5e-4 if mean else 2e-5
    for got, expected in zip(*results, strict=True):
        assert got.dtype == expected.dtype
        assert bool(got.isfinite().all())
        scale = float(expected.abs().max())
        torch.testing.assert_close(got.float() / scale, expected.float() / scale, rtol=0, atol=tolerance)
