"""The Triton kernels against the compiled loops: on a GPU, or in Triton's interpreter (``TRITON_INTERPRET=1``).

`test_paths` runs this file in a process of its own; on a GPU it can be run directly.
"""

import pytest
import torch

import knotwork._kernels.parts as parts_module
from knotwork._kernels import cpu, triton_kernels, triton_spacings
from knotwork._kernels.layout import LOCAL, NORMALISED, TAILS
from knotwork._kernels.parts import AFFINE, LearnedKnots, Part, encode_learned_parts
from knotwork._kernels.spacings import breaks_from_widths, spacing_penalty, widths_from_logits
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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("family", "degree"), [("bspline", 3), ("normalised", 2), ("ispline", 3), ("ple", 0)])
def test_more_columns_and_knots_than_a_program_has(family, degree):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(1, ROWS, [70, 33], dtype=torch.float32)
    x[0, 30, 1] = torch.nan
    settings, size = {"kind": layout.kind, "degree": layout.scheme}, layout.size(70)
    expected = cpu.forward(x, breaks, counts, **settings, size=size)
    there = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    # Whatever is not written stays NaN.
    out = torch.full(expected.shape, torch.nan).to(DEVICE)
    close(triton_kernels.forward(*there, **settings, size=size, dtype=torch.float32, out=out), expected, 1e-4)
    gradient = torch.randn(expected.shape)
    wanted = cpu.backward(gradient, x, breaks, counts, **settings)
    got = triton_kernels.backward(gradient.to(DEVICE), *there, **settings, with_x=True)
    for own, other in zip(got, wanted, strict=True):
        close(own, other, 1e-3)


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


STACKS = {
    "all learned": [(LOCAL, 3, True, 2), (NORMALISED, 3, True, 1)],
    "some learned": [(AFFINE, 0, False, 1), (LOCAL, 3, True, 1), (TAILS, 4, False, 1), (TAILS, 4, True, 1)],
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("large", "dtype"), [(False, torch.bfloat16), (True, torch.float32)], ids=str)
@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_with_learned_knots(stack, large, dtype, monkeypatch):
    parts, n_groups = [], 0
    for kind, degree, is_learned, n_members in STACKS[stack]:
        parts.append(Part(kind, degree, n_groups, n_groups + n_members, learned=is_learned))
        n_groups += n_members
    x, breaks, counts = make_case(n_groups, ROWS, [5, 9, 0], dtype=torch.float32)
    x[0, 30, 1] = torch.nan
    groups = torch.zeros(n_groups, dtype=torch.bool)
    for part in parts:
        groups[part.start : part.stop] = part.learned
    logits = torch.randn(n_groups, 3, 10)
    gradient = torch.randn(n_groups, ROWS, 3, 14)

    def run(device):
        free = logits.clone().to(device).requires_grad_()
        there = [tensor.to(device) for tensor in (x, breaks, counts)]
        learned = LearnedKnots(free, groups.to(device), 1e-3, 1e-6)
        out, penalty = encode_learned_parts(*there, learned, parts, size=14, dtype=dtype)
        # The gradient of a sum is one number, seen as many.
        total = (out * gradient.to(device)).sum() + penalty.sum()
        return [out.detach(), penalty.detach(), *torch.autograd.grad(total, [free])]

    expected = run("cpu")
    assert bool((expected[1] != 0).eq(groups).all())
    monkeypatch.setattr(parts_module, "on_triton", lambda tensor: tensor.dtype == torch.float32)
    if large:
        monkeypatch.setattr(triton_spacings, "MOST_IN_ONE", 1)
    rounding = 1e-2 if dtype == torch.bfloat16 else 1e-4
    for own, other, tolerance in zip(run(DEVICE), expected, (rounding, 1e-6, rounding), strict=True):
        close(own, other, tolerance)


def test_no_rows_leave_the_gradient_of_the_penalty():
    x, breaks, counts = (tensor.to(DEVICE) for tensor in make_case(2, 40, [5, 5], dtype=torch.float32))
    logits, gradient = torch.randn(2, 2, 6).to(DEVICE), torch.zeros(2, 0, 2, 9).to(DEVICE)
    spacings = triton_kernels.Spacings(logits, 1e-3, 1e-6, torch.ones(2).to(DEVICE))
    settings = {"kind": LOCAL, "degree": 3, "with_x": False}
    got = triton_kernels.backward_to_logits(gradient, x[:, :0], breaks, counts, spacings, **settings)[1]
    assert torch.equal(got, triton_spacings.penalty_backward(spacings.penalty_grad, logits, counts, 1e-3, 1e-6))
    assert bool(got.any())


def test_the_gradient_of_penalties_may_be_one_number_seen_as_many():
    x, breaks, counts = make_case(2, 40, [5, 5], dtype=torch.float32)
    there = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    logits, gradient = torch.randn(2, 2, 6).to(DEVICE), torch.randn(2, 40, 2, 9).to(DEVICE)
    one = torch.ones(1).to(DEVICE)
    got = [
        triton_kernels.backward_to_logits(
            gradient, *there, triton_kernels.Spacings(logits, 1e-3, 1e-6, grad), kind=LOCAL, degree=3, with_x=False
        )[1]
        for grad in (one.expand(2), torch.cat([one, one]))
    ]
    assert torch.equal(*got)


def test_millions_of_values():
    if not GPU:
        pytest.skip("millions of values are for a GPU")
    x, breaks, counts = make_case(1, 300_000, [26] * 14, dtype=torch.float32)
    expected = cpu.forward(x, breaks, counts, kind=2, degree=4, size=30)
    got = triton_kernels.forward(x.cuda(), breaks.cuda(), counts.cuda(), kind=2, degree=4, size=30, dtype=torch.float32)
    close(got, expected, 1e-5)
