"""Every path of the encoding computes what the definition says, forward and backward.

On a machine with a GPU the Triton kernels run on it; elsewhere in Triton's interpreter, in a process of its own, if
Triton is installed.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from knotwork import basis
from knotwork._kernels.layout import Layout
from knotwork._kernels.operation import encode, make_spacings
from knotwork._kernels.reference import encode_plain
from knotwork._kernels.spacings import breaks_from_widths, spacing_penalty, widths_from_logits

CASES = [("bspline", d) for d in range(5)] + [("mspline", d) for d in range(5)] + [("ispline", d) for d in range(5)]
CASES += [("ple", 0), ("normalised", 1), ("normalised", 3)]
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
GPU = torch.cuda.is_available()


def make_case(n_groups, n_rows, n_knots, *, seed=0, dtype=torch.float64, tight=False):
    """Random knots, some at the smallest spacing, and values at ends, knots, outside, between and missing.

    Each group has the numbers of knots of the one before it, moved on by one feature.
    """
    random = np.random.default_rng(seed)
    counts = np.stack([np.roll(n_knots, group) for group in range(n_groups)])
    breaks = np.ones((n_groups, len(n_knots), max(n_knots) + 2))
    for group in range(n_groups):
        for feature, count in enumerate(counts[group]):
            widths = random.dirichlet(np.ones(count + 1)) + (0.02 if not tight else 0.0)
            if tight:
                widths[: count // 2] = 0.0
            widths = 1e-3 + (1 - (count + 1) * 1e-3) * widths / widths.sum()
            breaks[group, feature, : count + 1] = np.concatenate(([0.0], np.cumsum(widths)[:-1]))
    x = random.uniform(-0.1, 1.1, (n_groups, n_rows, len(n_knots)))
    x[:, 0], x[:, 1] = 0.0, 1.0
    for group in range(n_groups):
        for feature, count in enumerate(counts[group]):
            places = np.arange(2, min(2 + count, n_rows))
            x[group, places, feature] = breaks[group, feature, 1 : len(places) + 1]
    return torch.tensor(x, dtype=dtype), torch.tensor(breaks, dtype=dtype), torch.tensor(counts, dtype=torch.int32)


def make_layout(family, degree):
    return Layout("mspline", degree, normalised=True) if family == "normalised" else Layout(family, degree)


def definition(family, degree, x, breaks, n_knots, size):
    """The definition, value by value; a missing value is a row of zeros."""
    out = np.zeros((*x.shape, size))
    for group in range(x.shape[0]):
        for feature, count in enumerate(n_knots[group].tolist()):
            made = basis.make_basis(
                family if family != "normalised" else "mspline",
                breaks[group, feature, 1 : count + 1].double().numpy(),
                degree=degree,
            )
            rows = made.evaluate(x[group, :, feature].double().numpy())
            if family == "normalised":
                rows = torch.nn.functional.layer_norm(torch.tensor(rows), (made.size,)).numpy()
            out[group, :, feature, : made.size] = rows
    return torch.tensor(np.nan_to_num(out, nan=0.0))


@pytest.mark.parametrize(("family", "degree"), CASES)
@pytest.mark.parametrize("n_knots", [[5, 5, 5], [0, 3, 11], [26]])
@pytest.mark.parametrize("tight", [False, True])
def test_cpu_and_plain_torch_equal_the_definition(family, degree, n_knots, tight):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, 60, n_knots, tight=tight)
    x[0, 40, 0] = torch.nan
    size = layout.size(max(n_knots))
    expected = definition(family, degree, x, breaks, counts, size)
    settings = {"kind": layout.kind, "degree": layout.scheme, "size": size}
    scale = expected.abs().max()
    for path in (encode, encode_plain):
        torch.testing.assert_close(path(x, breaks, counts, **settings) / scale, expected / scale, rtol=0, atol=1e-12)
    single = encode(x.float(), breaks.float(), counts, **settings)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double() / scale, expected / scale, rtol=0, atol=3e-4 if tight else 2e-5)


@pytest.mark.parametrize(("family", "degree"), [case for case in CASES if case[1] or case[0] != "bspline"])
@pytest.mark.parametrize("n_knots", [[4, 4], [1, 6]])
def test_gradients_are_those_of_differences(family, degree, n_knots):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, 7, n_knots, seed=3)
    random = np.random.default_rng(0)
    x[:, 2:] = torch.tensor(random.uniform(0.01, 0.99, x[:, 2:].shape))  # differences across a knot mean nothing
    interior = torch.arange(max(n_knots)) < counts[..., None]

    def run(values, knots):
        inner = torch.where(interior, knots, 1.0)
        full = torch.cat([torch.zeros_like(inner[..., :1]), inner, torch.ones_like(inner[..., :1])], dim=-1)
        return encode(values, full, counts, kind=layout.kind, degree=layout.scheme, size=layout.size(max(n_knots)))

    values = x[:, 2:].clone().requires_grad_()
    knots = breaks[..., 1:-1].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (values, knots))


def test_steps_have_no_gradient():
    x, breaks, counts = make_case(1, 50, [5])
    inputs = [tensor.requires_grad_() for tensor in (x, breaks)]
    gradients = torch.autograd.grad(encode(*inputs, counts, kind=0, degree=0, size=6).sum(), inputs)
    assert all(bool((gradient == 0).all()) for gradient in gradients)


@pytest.mark.parametrize(("family", "degree"), [case for case in CASES if case != ("bspline", 0)])
def test_closed_form_gradients_equal_autograd(family, degree):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(3, 300, [9, 4, 7])
    x[1, 50, 1] = torch.nan
    settings = {"kind": layout.kind, "degree": layout.scheme, "size": layout.size(9)}
    gradient = torch.randn(*x.shape, settings["size"], dtype=torch.float64)
    results = []
    for path in (encode, encode_plain):
        inputs = [tensor.clone().requires_grad_() for tensor in (x, breaks)]
        results.append(torch.autograd.grad(path(*inputs, counts, **settings), inputs, gradient, allow_unused=True))
    own, auto = (result[1] for result in results)
    auto = torch.zeros_like(own) if auto is None else auto
    place = torch.arange(own.shape[-1])
    interior = (place >= 1) & (place <= counts[..., None])
    pair = [torch.where(interior, tensor, 0.0) for tensor in (own, auto)]
    torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9 * float(auto.abs().max() + 1))
    own, auto = (result[0] for result in results)
    auto = torch.zeros_like(own) if auto is None else auto
    between = (x > 0) & (x < 1)  # at an end, plain torch halves the gradient between inside and outside
    torch.testing.assert_close(own[between], auto[between], rtol=1e-9, atol=1e-9 * float(auto.abs().max() + 1))


def test_nothing_is_kept_for_backward_but_values_and_knots():
    x, breaks, counts = make_case(1, 100, [5, 5])
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.shape) or tensor, lambda t: t):
        encode(x, breaks.requires_grad_(), counts, kind=0, degree=3, size=9)
    assert sorted(kept) == sorted([x.shape, breaks.shape, counts.shape])


def test_threads_do_not_change_sums():
    x, breaks, counts = make_case(1, 5000, [12] * 4, dtype=torch.float32)
    gradient = torch.randn(1, 5000, 4, 16)
    sums = []
    before = torch.get_num_threads()
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        leaf = breaks.clone().requires_grad_()
        sums.append(torch.autograd.grad(encode(x, leaf, counts, kind=0, degree=3, size=16), leaf, gradient)[0])
    torch.set_num_threads(before)
    assert torch.equal(*sums)


def test_empty_batches():
    x, breaks, counts = make_case(1, 3, [5])
    leaf = breaks.requires_grad_()
    out = encode(x[:, :0], leaf, counts, kind=2, degree=4, size=9)
    assert out.shape == (1, 0, 1, 9)
    out.sum().backward()
    assert torch.equal(leaf.grad, torch.zeros_like(leaf))


def run_in_the_interpreter(name):
    """Run the cases of a file beside this one, in a process whose Triton interprets."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: its kernels are not tested here (pip install triton)")
    cases = str(Path(__file__).with_name(name))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cases]
    done = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.skipif(GPU or INTERPRETED, reason="Triton runs on the GPU, or is interpreted already")
def test_triton_kernels_in_the_interpreter():
    run_in_the_interpreter("triton_cases.py")


@pytest.mark.parametrize("n_knots", [[7, 7, 7], [3, 7, 0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_spacings_equal_plain_torch(n_knots, dtype):
    counts = torch.tensor([n_knots, n_knots[::-1]], dtype=torch.int32)
    logits = torch.randn(2, 3, 8, dtype=dtype, requires_grad=True)
    widths = widths_from_logits(logits, counts, 1e-3)
    expected = breaks_from_widths(widths, counts), spacing_penalty(widths, counts, 1e-6)
    got = make_spacings(logits, counts, 1e-3, 1e-6)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    gradients = torch.randn_like(expected[0]), torch.randn_like(expected[1])
    for used in ((0,), (1,), (0, 1)):
        pair = [[outputs[i] for i in used] for outputs in (got, expected)]
        slopes = [gradients[i] for i in used]
        for own, plain in zip(*pair, strict=True):
            torch.testing.assert_close(own, plain, **tolerance)
        torch.testing.assert_close(
            *(torch.autograd.grad(outputs, logits, slopes, retain_graph=True)[0] for outputs in pair), **tolerance
        )
