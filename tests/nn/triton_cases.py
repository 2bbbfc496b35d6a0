"""The Triton kernels against the compiled loops: on a GPU, or in Triton's interpreter (``TRITON_INTERPRET=1``).

`test_paths` runs this file in a process of its own; on a GPU it can be run directly.
"""

import pytest
import torch

from knotwork.nn import cpu, triton_kernels, triton_spacings
from knotwork.nn.spacings import breaks_from_widths, spacing_penalty, widths_from_logits
from tests.nn.test_paths import CASES, GPU, make_case, make_layout

DEVICE = "cuda" if GPU else "cpu"
ROWS = 20_000 if GPU else 70


def close(got, expected, tolerance):
    scale = max(float(expected.abs().max()), 1e-6)
    torch.testing.assert_close(got.cpu().double() / scale, expected.double() / scale, rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, on lanes whose result is masked out
@pytest.mark.parametrize("tight", [False, True] if GPU else [True])
@pytest.mark.parametrize("n_knots", [[5, 9, 0], [26, 26]] if GPU else [[5, 9, 0]])
@pytest.mark.parametrize(("family", "degree"), CASES)
def test_encoding(family, degree, n_knots, tight):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, ROWS, n_knots, dtype=torch.float32, tight=tight)
    x[1, 30, 1] = torch.nan
    settings = {"kind": layout.kind, "degree": layout.scheme}
    size = layout.size(max(n_knots))
    expected = cpu.forward(x, breaks, counts, **settings, size=size)
    there = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    for dtype, tolerance in ((torch.float32, 2e-4 if tight else 1e-5), (torch.bfloat16, 1e-2)):
        close(triton_kernels.forward(*there, **settings, size=size, dtype=dtype), expected, tolerance)

    gradient = torch.randn(expected.shape)
    x_grad, breaks_grad = cpu.backward(gradient, x, breaks, counts, **settings)
    got = triton_kernels.backward(gradient.to(DEVICE), *there, **settings, with_x=True)
    assert all(bool(tensor.isfinite().all()) for tensor in got)
    close(got[0], x_grad, 1e-3 if tight else 1e-4)
    close(got[1], breaks_grad, 1e-3 if tight else 1e-4)
    logits, penalty_grad = torch.randn(2, len(n_knots), max(n_knots) + 1).to(DEVICE), torch.randn(2).to(DEVICE)
    expected = triton_spacings.breaks_backward(got[1], logits, there[2], 1e-3)
    expected = expected + triton_spacings.penalty_backward(penalty_grad, logits, there[2], 1e-3, 1e-6)
    spacings = triton_kernels.Spacings(logits, 1e-3, 1e-6, penalty_grad)
    fused = triton_kernels.backward_to_logits(gradient.to(DEVICE), *there, spacings, **settings, with_x=False)
    close(fused[1], expected.cpu(), 1e-5)
    again = triton_kernels.backward(gradient.to(DEVICE), *there, **settings, with_x=False)
    assert torch.equal(again[1], got[1]), "sums must repeat exactly"


@pytest.mark.parametrize("n_knots", [[7, 7, 7], [3, 7, 0]])
def test_spacings(n_knots):
    counts = torch.tensor([n_knots, n_knots[::-1]], dtype=torch.int32)
    logits = torch.randn(2, 3, 8, requires_grad=True)
    widths = widths_from_logits(logits, counts, 1e-3)
    breaks, penalty = breaks_from_widths(widths, counts), spacing_penalty(widths, counts, 1e-6)
    there = logits.detach().to(DEVICE), counts.to(DEVICE)
    close(triton_spacings.breaks_forward(*there, 1e-3), breaks.detach(), 1e-6)
    close(triton_spacings.penalty_forward(*there, 1e-3, 1e-6), penalty.detach(), 1e-6)
    for got, expected in zip(triton_spacings.breaks_and_penalty(*there, 1e-3, 1e-6), (breaks, penalty), strict=True):
        close(got, expected.detach(), 1e-6)
    for output, back in ((breaks, triton_spacings.breaks_backward), (penalty, triton_spacings.penalty_backward)):
        gradient = torch.randn(output.shape)
        (expected,) = torch.autograd.grad(output, logits, gradient, retain_graph=True)
        constants = (1e-3,) if output is breaks else (1e-3, 1e-6)
        close(back(gradient.to(DEVICE), *there, *constants), expected, 1e-5)


def test_millions_of_values():
    if not GPU:
        pytest.skip("millions of values are for a GPU")
    x, breaks, counts = make_case(1, 300_000, [26] * 14, dtype=torch.float32)
    expected = cpu.forward(x, breaks, counts, kind=2, degree=4, size=30)
    got = triton_kernels.forward(x.cuda(), breaks.cuda(), counts.cuda(), kind=2, degree=4, size=30, dtype=torch.float32)
    close(got, expected, 1e-5)
