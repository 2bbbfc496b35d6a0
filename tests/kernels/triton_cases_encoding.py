"""The Triton kernels against the compiled loops: on a GPU, or in Triton's interpreter (``TRITON_INTERPRET=1``).

`test_triton` runs this file in a process of its own; on a GPU it can be run directly.
"""

import copy

import pytest
import torch

from knotwork._kernels import dispatch, encoding_triton, knots_triton
from knotwork._kernels.encoding import (
    Knots,
    Spacings,
    StackPart,
    breaks_from_widths,
    encode,
    spacing_penalty,
    widths_from_logits,
)
from knotwork._kernels.encoding_cpu import LOOPS
from knotwork.basis._families import Functions
from knotwork.nn import SplineEncoding
from tests.kernels.cases import DEVICE, GPU, combinations, on_triton
from tests.kernels.test_encoding import CASES, STACKS, make_case, make_layout, make_stack

__all__ = ["on_triton"]

ROWS = 20_000 if GPU else 70
# The interpreter is slow. Degrees differ in the length of loops that are unrolled: it runs each kind with one or two,
# and further ones with all tests.
INTERPRETED = [("bspline", 0), ("bspline", 3), ("mspline", 2), ("ispline", 3), ("ple", 0), ("normalised", 3)]
INTERPRETED += [("cyclic", 4)]
FURTHER = [("bspline", 1), ("mspline", 0), ("ispline", 0), ("normalised", 1), ("cyclic", 1)]
INTERPRETED += [pytest.param(*case, marks=pytest.mark.slow) for case in FURTHER]


def rows_on_the_cpu(x, breaks, counts, *, size, **settings):
    out = torch.zeros(*x.shape, size)
    LOOPS.rows(x, breaks, counts, out, **settings)
    return out


def rows_in_triton(x, breaks, counts, *, size, dtype, **settings):
    """Whatever is not written stays NaN."""
    out = torch.full((*x.shape, size), torch.nan, dtype=dtype, device=DEVICE)
    encoding_triton.forward(x, breaks, counts, out, **settings)
    return out


def close(got, expected, tolerance):
    scale = max(float(expected.abs().max()), 1e-6)
    torch.testing.assert_close(got.cpu().double() / scale, expected.double() / scale, rtol=0, atol=tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, on lanes whose result is masked out
@pytest.mark.parametrize("tight", [False, True] if GPU else [True])
@pytest.mark.parametrize("n_knots", [[5, 9, 0], [26, 26]] if GPU else [[5, 9, 0]])
@pytest.mark.parametrize(("family", "degree"), CASES if GPU else INTERPRETED)
def test_encoding(family, degree, n_knots, tight):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, ROWS, n_knots, dtype=torch.float32, tight=tight)
    x[1, 30, 1] = torch.nan
    settings = {"kind": layout.kind, "degree": layout.scheme}
    size = layout.smallest + max(n_knots)
    expected = rows_on_the_cpu(x, breaks, counts, **settings, size=size)
    on_device = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    for dtype, tolerance in ((torch.float32, 2e-4 if tight else 1e-5), (torch.bfloat16, 1e-2)):
        close(rows_in_triton(*on_device, **settings, size=size, dtype=dtype), expected, tolerance)

    gradient = torch.randn(expected.shape)
    x_grad, breaks_grad = LOOPS.rows_backward(gradient, x, breaks, counts, **settings, with_x=True)
    got = encoding_triton.backward(gradient.to(DEVICE), *on_device, **settings, with_x=True)
    assert all(bool(tensor.isfinite().all()) for tensor in got)
    close(got[0], x_grad, 1e-3 if tight else 1e-4)
    close(got[1], breaks_grad, 1e-3 if tight else 1e-4)
    logits, penalty_grad = torch.randn(2, len(n_knots), max(n_knots) + 1).to(DEVICE), torch.randn(2).to(DEVICE)
    expected = knots_triton.knots_to_logits(got[1], penalty_grad, logits, on_device[2], None, 1e-3, 1e-6)
    spacings = Spacings(logits, 1e-3, 1e-6, penalty_grad)
    fused = encoding_triton.backward(gradient.to(DEVICE), *on_device, spacings, **settings, with_x=False)
    close(fused[1], expected.cpu(), 1e-5)
    if GPU or degree < 2:
        again = encoding_triton.backward(gradient.to(DEVICE), *on_device, **settings, with_x=False)
        assert torch.equal(again[1], got[1]), "sums must repeat exactly"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("family", "degree"), [("bspline", 3), ("normalised", 2), ("ispline", 3), ("ple", 0), ("cyclic", 3)]
)
def test_more_columns_and_knots_than_a_program_has(family, degree):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(1, ROWS, [70, 33], dtype=torch.float32)
    x[0, 30, 1] = torch.nan
    settings, size = {"kind": layout.kind, "degree": layout.scheme}, layout.smallest + 70
    expected = rows_on_the_cpu(x, breaks, counts, **settings, size=size)
    on_device = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    close(rows_in_triton(*on_device, **settings, size=size, dtype=torch.float32), expected, 1e-4)
    gradient = torch.randn(expected.shape)
    wanted = LOOPS.rows_backward(gradient, x, breaks, counts, **settings, with_x=True)
    got = encoding_triton.backward(gradient.to(DEVICE), *on_device, **settings, with_x=True)
    for actual, other in zip(got, wanted, strict=True):
        close(actual, other, 1e-3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("family", "degree"), [("bspline", 3), ("normalised", 1)] if GPU else [("normalised", 1)])
def test_programs_with_many_rows(family, degree):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(1, 4200, [5, 4], dtype=torch.float32)  # beyond 4096 they have more rows at once
    settings, gradient = {"kind": layout.kind, "degree": layout.scheme}, torch.randn(1, 4200, 2, layout.smallest + 5)
    wanted = LOOPS.rows_backward(gradient, x, breaks, counts, **settings, with_x=True)
    on_device = [tensor.to(DEVICE) for tensor in (gradient, x, breaks, counts)]
    for actual, other in zip(encoding_triton.backward(*on_device, **settings, with_x=True), wanted, strict=True):
        close(actual, other, 1e-4)


@pytest.mark.parametrize("n_knots", [[7, 7, 7], [3, 7, 0]])
@pytest.mark.parametrize("in_one", [True, False])
def test_knots(n_knots, in_one, monkeypatch):
    counts = torch.tensor([n_knots, n_knots[::-1]], dtype=torch.int32)
    logits = torch.randn(2, 3, 8, requires_grad=True)
    widths = widths_from_logits(logits, counts, 1e-3)
    breaks, penalty = breaks_from_widths(widths, counts), spacing_penalty(widths, counts, 1e-6)
    on_device = logits.detach().to(DEVICE), counts.to(DEVICE)
    if not in_one:
        monkeypatch.setattr(knots_triton, "MOST_IN_ONE", 1)
    computed = knots_triton.make_knots(*on_device, None, None, 1e-3, 1e-6)
    for got, expected in zip(computed, (breaks, penalty), strict=True):
        close(got, expected.detach(), 1e-6)
    grads = [torch.randn(output.shape) for output in (breaks, penalty)]
    for used in ((0,), (1,), (0, 1)):
        outputs, slopes = [(breaks, penalty)[i] for i in used], [grads[i] for i in used]
        (expected,) = torch.autograd.grad(outputs, logits, slopes, retain_graph=True)
        given = [grads[i].to(DEVICE) if i in used else None for i in range(2)]
        close(knots_triton.knots_to_logits(*given, *on_device, None, 1e-3, 1e-6), expected, 1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("stack", "large"),
    combinations(
        ["one part", "parts", "features", "cycles"],
        [False, True],
        usual=lambda stack, large: GPU or large == (stack in {"one part", "cycles"}),
    ),
)
def test_a_stack_with_learned_knots(stack, large, monkeypatch):
    """All pairs of a stack, one or several launches, with or without a gradient of x."""
    parts, dtype = STACKS[stack], torch.float32 if large else torch.bfloat16
    with_x = large == (stack in {"one part", "features"})
    (x, breaks, logits), counts, learned = make_stack(parts, torch.float32, ROWS)
    gradient = torch.randn(*x.shape, 14)

    def run(device):
        free, values = (tensor.detach().to(device).requires_grad_() for tensor in (logits, x))
        fixed = [tensor.detach().to(device) for tensor in (counts, breaks)]
        knots = Knots(*fixed, free, learned.to(device))
        computed = encode(values if with_x else values.detach(), knots, parts, size=14, dtype=dtype)
        # The gradient of a sum is one number, seen as many.
        total = (computed.values * gradient.to(device)).sum() + computed.penalty.sum()
        grads = torch.autograd.grad(total, [free, values] if with_x else [free])
        return [computed.values.detach(), computed.penalty.detach(), *grads]

    expected = run("cpu")
    monkeypatch.setattr(dispatch, "on_triton", lambda tensor: tensor.dtype == torch.float32)
    if large:
        monkeypatch.setattr(knots_triton, "MOST_IN_ONE", 1)
    rounding = 1e-2 if dtype == torch.bfloat16 else 1e-3
    for actual, other, tolerance in zip(run(DEVICE), expected, (rounding, 1e-6, rounding, rounding), strict=False):
        close(actual, other, tolerance)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("n_knots", "dtype", "tolerance"), [([5, 9, 0], torch.float32, 2e-4), ([33], torch.bfloat16, 1e-2)], ids=str
)
@pytest.mark.parametrize("kind", [Functions.NATURAL, Functions.RADIAL, Functions.THIN_PLATE])
@pytest.mark.usefixtures("on_triton")
def test_functions_that_vary_everywhere(kind, n_knots, dtype, tolerance):
    x, _, counts = make_case(2, ROWS, n_knots, dtype=torch.float32)
    x[1, 30, 0] = torch.nan
    size, parts = max(n_knots) + 3, [StackPart(kind, 0, 0, 1, learned=True), StackPart(kind, 0, 1, 2, learned=True)]
    leaves = x, torch.randn(2, len(n_knots), max(n_knots) + 1), 0.1 * torch.randn(2, len(n_knots), size)
    gradient = torch.randn(*x.shape, size)

    def run(device, arithmetic, dtype):
        values, logits, widths = (tensor.to(device, arithmetic).requires_grad_() for tensor in leaves)
        knots = Knots(counts.to(device), logits=logits, log_widths=widths if kind == Functions.RADIAL else None)
        encoded = encode(values, knots, parts, size=size, dtype=dtype).values
        used = [values, logits, widths] if kind == Functions.RADIAL else [values, logits]
        return [encoded.detach(), *torch.autograd.grad(encoded, used, gradient.to(device, dtype))]

    expected = run("cpu", torch.float64, torch.float64)
    got = run(DEVICE, torch.float32, dtype)
    for actual, other in zip(got, expected, strict=True):
        close(actual, other, tolerance)
    if GPU:  # the interpreter computes program after program
        again = run(DEVICE, torch.float32, dtype)
        assert all(torch.equal(*pair) for pair in zip(again, got, strict=True)), "sums must repeat exactly"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("family", "learnable", "way"),
    [
        ("bspline", True, "one kernel"),
        ("bspline", True, "two kernels"),
        ("mspline", True, "one kernel"),
        ("ispline", True, "in groups"),
        ("cyclic", True, "two kernels"),
        ("ispline", False, "one kernel"),
    ],
)
def test_a_layer_without_groups(family, learnable, way, monkeypatch):
    layer = SplineEncoding(3, [7, 9, 6], family=family, learnable=learnable)
    if learnable:
        with torch.no_grad():
            layer.logits.normal_()
    x = torch.rand(5, 14, 3, requires_grad=True)
    gradient = torch.randn(5, 14, 3, 9)

    def run(device):
        values, moved = x.detach().to(device).requires_grad_(), copy.deepcopy(layer).to(device)
        out, penalty = moved(values), moved.spacing_penalty()
        loss = (out * gradient.to(device)).sum() + penalty
        leaves = [values, *moved.parameters()]
        return [out.detach(), penalty.detach(), *torch.autograd.grad(loss, leaves)]

    expected = run("cpu")
    monkeypatch.setattr(dispatch, "on_triton", lambda tensor: tensor.dtype == torch.float32)
    if way != "one kernel":
        monkeypatch.setattr(encoding_triton, "MOST_WITH_KNOTS" if way == "two kernels" else "MOST_IN_EACH", 0)
    for actual, other in zip(run(DEVICE), expected, strict=True):
        assert actual.shape == other.shape
        close(actual, other, 1e-4)


def test_no_rows_leave_the_gradient_of_the_penalty():
    x, breaks, counts = (tensor.to(DEVICE) for tensor in make_case(2, 40, [5, 5], dtype=torch.float32))
    logits, gradient = torch.randn(2, 2, 6).to(DEVICE), torch.zeros(2, 0, 2, 9).to(DEVICE)
    spacings = Spacings(logits, 1e-3, 1e-6, torch.ones(2).to(DEVICE))
    settings = {"kind": Functions.LOCAL, "degree": 3, "with_x": False}
    got = encoding_triton.backward(gradient, x[:, :0], breaks, counts, spacings, **settings)[1]
    expected = knots_triton.knots_to_logits(None, spacings.penalty_grad, logits, counts, None, 1e-3, 1e-6)
    assert torch.equal(got, expected)
    assert bool(got.any())


def test_the_gradient_of_penalties_may_be_one_number_seen_as_many():
    x, breaks, counts = make_case(2, 40, [5, 5], dtype=torch.float32)
    on_device = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    logits, gradient = torch.randn(2, 2, 6).to(DEVICE), torch.randn(2, 40, 2, 9).to(DEVICE)
    one = torch.ones(1).to(DEVICE)
    got = [
        encoding_triton.backward(
            gradient,
            *on_device,
            Spacings(logits, 1e-3, 1e-6, grad),
            kind=Functions.LOCAL,
            degree=3,
            with_x=False,
        )[1]
        for grad in (one.expand(2), torch.cat([one, one]))
    ]
    assert torch.equal(*got)


def test_millions_of_values():
    if not GPU:
        pytest.skip("millions of values are for a GPU")
    x, breaks, counts = make_case(1, 300_000, [26] * 14, dtype=torch.float32)
    settings = {"kind": 2, "degree": 4, "size": 30}
    expected = rows_on_the_cpu(x, breaks, counts, **settings)
    close(rows_in_triton(x.cuda(), breaks.cuda(), counts.cuda(), **settings, dtype=torch.float32), expected, 1e-5)
