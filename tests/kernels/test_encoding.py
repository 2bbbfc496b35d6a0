"""Every path of the encoding computes what the definition says, forward and backward."""

import numpy as np
import pytest
import torch

from knotwork import basis
from knotwork._kernels.dense import dense_formula, table_formula
from knotwork._kernels.encoding import (
    Knots,
    Layout,
    StackPart,
    breaks_from_widths,
    encode,
    encoding_formula,
    rows_formula,
    spacing_penalty,
    widths_from_logits,
)
from knotwork.basis import FAMILIES, Basis, Family
from knotwork.basis._families import Functions
from knotwork.errors import ArgumentError
from tests.kernels.cases import combinations

CASES = [("bspline", d) for d in range(5)] + [("mspline", d) for d in range(5)] + [("ispline", d) for d in range(5)]
CASES += [("ple", 0), ("normalised", 1), ("normalised", 3)] + [("cyclic", d) for d in range(1, 5)]


def encode_rows(x, breaks, counts, *, kind, degree, size):
    """The encoding of one kind on given breaks."""
    return encode(x, Knots(counts, breaks), [StackPart(kind, degree, 0, len(x))], size=size).values


def make_knots(logits, counts, **spacing):
    """Breaks and penalties alone."""
    n_groups, n_features = counts.shape
    return encode(logits.new_empty(n_groups, 0, n_features), Knots(counts, logits=logits, **spacing), (), size=1)


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
            functions = basis.make_basis(
                family if family != "normalised" else "mspline",
                breaks[group, feature, 1 : count + 1].double().numpy(),
                degree=degree,
            )
            rows = functions.evaluate(x[group, :, feature].double().clamp(0.0, 1.0).numpy())
            if family == "normalised":
                rows = torch.nn.functional.layer_norm(torch.tensor(rows), (functions.size,)).numpy()
            out[group, :, feature, : functions.size] = rows
    return torch.tensor(np.nan_to_num(out, nan=0.0))


# Different numbers of knots, among them none, meet every branch; others have few further cases.
@pytest.mark.parametrize(
    ("case", "n_knots", "tight"),
    combinations(
        CASES,
        [[5, 5, 5], [0, 3, 11], [26]],
        [False, True],
        usual=lambda case, n_knots, tight: n_knots == [0, 3, 11] or (case[1] == 3 and tight == (n_knots == [26])),
    ),
)
def test_cpu_and_plain_torch_equal_the_definition(case, n_knots, tight):
    family, degree = case
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, 60, n_knots, tight=tight)
    x[0, 40, 0] = torch.nan
    size = layout.smallest + max(n_knots)
    expected = definition(family, degree, x, breaks, counts, size)
    settings = {"kind": layout.kind, "degree": layout.scheme, "size": size}
    scale = expected.abs().max()
    for path in (encode_rows, rows_formula):
        torch.testing.assert_close(path(x, breaks, counts, **settings) / scale, expected / scale, rtol=0, atol=1e-12)
    single = encode_rows(x.float(), breaks.float(), counts, **settings)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double() / scale, expected / scale, rtol=0, atol=3e-4 if tight else 2e-5)


# Degrees differ in the length of loops. `test_closed_form_gradients_equal_autograd` has all of them.
@pytest.mark.parametrize(
    ("case", "n_knots"),
    combinations(
        [case for case in CASES if case[1] or case[0] != "bspline"],
        [[4, 4], [1, 6]],
        usual=lambda case, n_knots: n_knots == [1, 6] and case[1] in {0, 1, 3},
    ),
)
def test_gradients_are_those_of_differences(case, n_knots):
    family, degree = case
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, 7, n_knots, seed=3)
    random = np.random.default_rng(0)
    x[:, 2:] = torch.tensor(random.uniform(0.01, 0.99, x[:, 2:].shape))  # differences across a knot mean nothing
    interior = torch.arange(max(n_knots)) < counts[..., None]

    def run(values, knots):
        inner = torch.where(interior, knots, 1.0)
        full = torch.cat([torch.zeros_like(inner[..., :1]), inner, torch.ones_like(inner[..., :1])], dim=-1)
        return encode_rows(
            values, full, counts, kind=layout.kind, degree=layout.scheme, size=layout.smallest + max(n_knots)
        )

    values = x[:, 2:].clone().requires_grad_()
    knots = breaks[..., 1:-1].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (values, knots))


def test_steps_have_no_gradient():
    x, breaks, counts = make_case(1, 50, [5])
    inputs = [tensor.requires_grad_() for tensor in (x, breaks)]
    gradients = torch.autograd.grad(encode_rows(*inputs, counts, kind=0, degree=0, size=6).sum(), inputs)
    assert all(bool((gradient == 0).all()) for gradient in gradients)


@pytest.mark.parametrize(("family", "degree"), [case for case in CASES if case != ("bspline", 0)])
def test_closed_form_gradients_equal_autograd(family, degree):
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(3, 300, [9, 4, 7])
    x[1, 50, 1] = torch.nan
    settings = {"kind": layout.kind, "degree": layout.scheme, "size": layout.smallest + 9}
    gradient = torch.randn(*x.shape, settings["size"], dtype=torch.float64)
    results = []
    for path in (encode_rows, rows_formula):
        inputs = [tensor.clone().requires_grad_() for tensor in (x, breaks)]
        results.append(torch.autograd.grad(path(*inputs, counts, **settings), inputs, gradient, allow_unused=True))
    actual, auto = (result[1] for result in results)
    auto = torch.zeros_like(actual) if auto is None else auto
    place = torch.arange(actual.shape[-1])
    interior = (place >= 1) & (place <= counts[..., None])
    pair = [torch.where(interior, tensor, 0.0) for tensor in (actual, auto)]
    torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9 * float(auto.abs().max() + 1))
    actual, auto = (result[0] for result in results)
    auto = torch.zeros_like(actual) if auto is None else auto
    between = (x > 0) & (x < 1)  # at an end, plain torch halves the gradient between inside and outside
    torch.testing.assert_close(actual[between], auto[between], rtol=1e-9, atol=1e-9 * float(auto.abs().max() + 1))


def test_nothing_is_kept_for_backward_but_values_and_knots():
    x, breaks, counts = make_case(1, 100, [5, 5])
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.shape) or tensor, lambda t: t):
        encode_rows(x, breaks.requires_grad_(), counts, kind=0, degree=3, size=9)
    assert sorted(kept) == sorted([x.shape, breaks.shape, counts.shape])


def test_threads_do_not_change_sums():
    x, breaks, counts = make_case(1, 5000, [12] * 4, dtype=torch.float32)
    gradient = torch.randn(1, 5000, 4, 16)
    sums = []
    before = torch.get_num_threads()
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        leaf = breaks.clone().requires_grad_()
        sums.append(torch.autograd.grad(encode_rows(x, leaf, counts, kind=0, degree=3, size=16), leaf, gradient)[0])
    torch.set_num_threads(before)
    assert torch.equal(*sums)


def test_empty_batches():
    x, breaks, counts = make_case(1, 3, [5])
    leaf = breaks.requires_grad_()
    out = encode_rows(x[:, :0], leaf, counts, kind=2, degree=4, size=9)
    assert out.shape == (1, 0, 1, 9)
    out.sum().backward()
    assert torch.equal(leaf.grad, torch.zeros_like(leaf))


@pytest.mark.parametrize("n_knots", [[7, 7, 7], [3, 7, 0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_spacings_equal_plain_torch(n_knots, dtype):
    counts = torch.tensor([n_knots, n_knots[::-1]], dtype=torch.int32)
    logits = torch.randn(2, 3, 8, dtype=dtype, requires_grad=True)
    widths = widths_from_logits(logits, counts, 1e-3)
    expected = breaks_from_widths(widths, counts), spacing_penalty(widths, counts, 1e-6)
    computed = make_knots(logits, counts)
    got = computed.breaks, computed.penalty
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    gradients = torch.randn_like(expected[0]), torch.randn_like(expected[1])
    for used in ((0,), (1,), (0, 1)):
        pair = [[outputs[i] for i in used] for outputs in (got, expected)]
        slopes = [gradients[i] for i in used]
        for actual, plain in zip(*pair, strict=True):
            torch.testing.assert_close(actual, plain, **tolerance)
        torch.testing.assert_close(
            *(torch.autograd.grad(outputs, logits, slopes, retain_graph=True)[0] for outputs in pair), **tolerance
        )


def natural_case(n_knots, *, dtype=torch.float64, n_rows=60, **settings):
    x, breaks, counts = make_case(2, n_rows, n_knots, dtype=dtype, **settings)
    x[0, n_rows // 2, 0] = torch.nan
    return x, breaks, counts, {"kind": Functions.NATURAL, "degree": 3, "size": max(n_knots) + 3}


@pytest.mark.parametrize("n_knots", [[5, 5, 5], [0, 3, 11], [26], [0], [1]])
@pytest.mark.parametrize("tight", [False, True])
def test_natural_splines_equal_the_definition(n_knots, tight):
    x, breaks, counts, settings = natural_case(n_knots, tight=tight)
    expected = definition("natural", 0, x, breaks, counts, settings["size"])
    bends = table_formula(breaks, counts, None, kind=Functions.NATURAL)
    plain = {"kind": Functions.NATURAL, "size": settings["size"], "dtype": breaks.dtype}
    scale = expected.abs().max()
    for got in (
        encode_rows(x, breaks, counts, **settings),
        dense_formula(x, breaks, counts, bends, **plain),
    ):
        torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=1e-10 if tight else 1e-12)
    single = encode_rows(x.float(), breaks.float(), counts, **settings)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double() / scale, expected / scale, rtol=0, atol=3e-4 if tight else 2e-5)


@pytest.mark.parametrize("n_knots", [pytest.param([4, 4], marks=pytest.mark.slow), [1, 6], [0, 2]])
def test_gradients_of_natural_splines_are_those_of_differences(n_knots):
    x, breaks, counts, settings = natural_case(n_knots, n_rows=6, seed=3)
    inner = torch.arange(max(n_knots)) < counts[..., None]

    def run(values, knots):
        middle = torch.where(inner, knots, 1.0)
        full = torch.cat([torch.zeros_like(middle[..., :1]), middle, torch.ones_like(middle[..., :1])], dim=-1)
        return encode_rows(values, full, counts, **settings)

    values = torch.tensor(np.random.default_rng(0).uniform(0.01, 0.99, x.shape)).requires_grad_()
    knots = breaks[..., 1:-1].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (values, knots))
    assert torch.autograd.gradgradcheck(run, (values[:, :2].detach().requires_grad_(), knots))


def test_bends_of_fixed_knots_are_computed_again_when_these_change():
    x, breaks, counts, settings = natural_case([5, 3])
    first = encode_rows(x, breaks, counts, **settings)
    assert torch.equal(encode_rows(x, breaks, counts, **settings), first)
    breaks[..., 1] *= 0.5
    expected = definition("natural", 0, x, breaks, counts, settings["size"])
    torch.testing.assert_close(encode_rows(x, breaks, counts, **settings), expected, rtol=0, atol=1e-10)


def test_natural_splines_in_a_stack():
    parts = [
        StackPart(Functions.NATURAL, 3, 0, 2, learned=True),
        StackPart(Functions.NATURAL, 3, 2, 4, features=(0, 2)),
        StackPart(Functions.LOCAL, 3, 2, 4, features=(1,)),
        StackPart(Functions.NATURAL, 3, 4, 5),
    ]
    (x, breaks, logits), counts, learned = make_stack(parts)
    encoded = encode(x, Knots(counts, breaks, logits, learned), parts, size=SIZE)
    for family, groups, features in (
        ("natural", [0, 1, 4], [0, 1, 2]),
        ("natural", [2, 3], [0, 2]),
        ("bspline", [2], [1]),
    ):
        of = [tensor.detach()[groups][..., features] for tensor in (x, counts)]
        expected = definition(family, 3, of[0], encoded.breaks.detach()[groups][:, features], of[1], SIZE)
        torch.testing.assert_close(encoded.values[groups][:, :, features], expected, rtol=0, atol=1e-9)
    gradients = torch.autograd.grad(encoded.values.square().sum(), [x, logits])
    assert bool(gradients[1][:2].abs().sum() > 0)
    assert bool((gradients[1][2:] == 0).all())


RADIAL_KINDS = {"radial": Functions.RADIAL, "thin_plate": Functions.THIN_PLATE}


@pytest.mark.parametrize("family", RADIAL_KINDS)
@pytest.mark.parametrize("n_knots", [[5, 5, 5], [0, 3, 11], [1]])
def test_radial_functions_equal_the_definition(family, n_knots):
    x, breaks, counts = make_case(2, 60, n_knots)
    x[0, 40, 0] = torch.nan
    settings = {"kind": RADIAL_KINDS[family], "degree": 0, "size": max(n_knots) + 3}
    expected = definition(family, 0, x, breaks, counts, settings["size"])
    torch.testing.assert_close(encode_rows(x, breaks, counts, **settings), expected, rtol=0, atol=1e-12)
    single = encode_rows(x.float(), breaks.float(), counts, **settings)
    torch.testing.assert_close(single.double(), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("family", RADIAL_KINDS)
def test_gradients_of_radial_functions_are_those_of_differences(family):
    x, breaks, counts = make_case(2, 6, [4, 1], seed=3)
    part = StackPart(RADIAL_KINDS[family], 0, 0, 2)
    inner = torch.arange(4) < counts[..., None]

    def run(values, knots, widths):
        middle = torch.where(inner, knots, 1.0)
        full = torch.cat([torch.zeros_like(middle[..., :1]), middle, torch.ones_like(middle[..., :1])], dim=-1)
        return encode(values, Knots(counts, full, log_widths=widths), [part], size=7).values

    widths = 0.1 * torch.randn(2, 2, 7, dtype=torch.float64)
    inputs = torch.rand_like(x), breaks[..., 1:-1].clone(), widths
    leaves = [tensor.requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves)
    outside = torch.tensor([-0.5, 1.5, torch.nan], dtype=torch.float64).reshape(1, 3, 1).expand(2, 3, 2)
    outside = outside.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(run(outside, *leaves[1:]).sum(), outside)
    assert bool((gradient == 0).all())


def hinges(x, breaks, n_knots, *, degree, size):
    """A family without compiled code: ``relu(x - k)`` for 0 and every knot k, to a power."""
    used = torch.arange(size) <= n_knots[:, None, :, None]
    starts = torch.nn.functional.pad(breaks[..., :-1], (0, size - breaks.shape[-1] + 1))
    return torch.where(used, torch.relu(x[..., None] - starts[:, None]), 0.0) ** degree


class Hinges(Basis):
    """The same in NumPy is not needed here."""

    size = property(lambda self: len(self.knots) + 1)
    _values = _slopes = None


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(FAMILIES, "hinges", Family(Hinges, "Hinges", "HG", function=hinges))
    short = Family(Hinges, "Short", "SH", function=lambda x, *_, **__: x[..., None])
    monkeypatch.setitem(FAMILIES, "short", short)


# Kind, degree, whether knots are learned, members, features, family.
STACKS = {
    "one part": [StackPart(Functions.LOCAL, 3, 0, 5, learned=True)],
    "parts": [
        StackPart(Functions.AFFINE, 0, 0, 1),
        StackPart(Functions.LOCAL, 3, 1, 2, learned=True),
        StackPart(Functions.TAILS, 4, 2, 3),
        StackPart(Functions.TAILS, 4, 3, 4, learned=True),
        StackPart(Functions.NORMALISED, 2, 4, 5, learned=True),
    ],
    "features": [
        StackPart(Functions.LOCAL, 3, 0, 2, learned=True, features=(0, 2)),
        StackPart(Functions.AFFINE, 0, 0, 2, learned=True, features=(1,)),
        StackPart(Functions.TAILS, 1, 2, 4),
        StackPart(Functions.CYCLIC, 3, 4, 5),
    ],
    "cycles": [
        StackPart(Functions.CYCLIC, 3, 0, 3, learned=True),
        StackPart(Functions.CYCLIC, 2, 3, 5, features=(0, 2)),
        StackPart(Functions.LOCAL, 3, 3, 5, features=(1,)),
    ],
    "own functions": [
        StackPart(Functions.PLAIN, 1, 0, 1, learned=True, family="hinges"),
        StackPart(Functions.PLAIN, 2, 1, 2, family="hinges"),
        StackPart(Functions.LOCAL, 3, 2, 3, learned=True),
        StackPart(Functions.TAILS, 4, 3, 5, features=(0, 2)),
        StackPart(Functions.PLAIN, 1, 3, 5, features=(1,), family="hinges"),
    ],
}
SIZE = 14


def make_stack(parts, dtype=torch.float64, n_rows=60):
    """Values, knots of a stack of five members as leaves, and what is learned."""
    x, breaks, counts = make_case(5, n_rows, [5, 9, 2], dtype=dtype)
    x[0, 40, 1] = torch.nan
    learned = torch.zeros(5, dtype=torch.bool)
    for part in parts:
        learned[part.start : part.stop] = part.learned
    logits = torch.randn(5, 3, 10, dtype=dtype)
    return [tensor.clone().requires_grad_() for tensor in (x, breaks, logits)], counts, learned


def plain_stack(x, breaks, logits, counts, learned, parts):
    """The formula, and for families without compiled code their function."""
    settings = {"size": SIZE, "dtype": x.dtype, "min_spacing": 1e-3, "epsilon": 1e-6}
    built_in = [part for part in parts if not part.family]
    values, penalty, all_breaks = encoding_formula(logits, breaks, x, counts, learned, parts=built_in, **settings)
    for part in parts:
        if part.family:
            piece = part.of(x, 2)
            inside = piece.nan_to_num(0.0).clamp(0, 1)
            rows = part.function(inside, part.of(all_breaks), part.of(counts), degree=part.degree, size=SIZE)
            part.write(values, torch.where(piece.isnan()[..., None], 0.0, rows), axis=2)
    return values, penalty, all_breaks


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_equals_the_formula(stack):
    parts = STACKS[stack]
    leaves, counts, learned = make_stack(parts)
    x, breaks, logits = leaves
    encoded = encode(x, Knots(counts, breaks, logits, learned), parts, size=SIZE)
    expected = plain_stack(*leaves, counts, learned, parts)
    assert bool((encoded.penalty != 0).eq(learned).all())
    gradients = [torch.randn_like(tensor) for tensor in expected]
    outputs = encoded.values, encoded.penalty, encoded.breaks
    for got, plain in zip(outputs, expected, strict=True):
        torch.testing.assert_close(got, plain, rtol=1e-10, atol=1e-10)
    for used in ((0,), (1,), (2,), (0, 1, 2)):
        pair = [
            torch.autograd.grad(
                [results[i] for i in used],
                leaves,
                [gradients[i] for i in used],
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            for results in (outputs, expected)
        ]
        between = (x > 0) & (x < 1)  # at an end, plain torch halves the gradient between inside and outside
        interior = torch.arange(breaks.shape[-1]) - 1 < counts[..., None]
        interior[..., 0] = False
        for got, plain, counted in zip(*pair, (between, interior, torch.ones_like(logits) > 0), strict=True):
            scale = 1.0 + float(plain.abs().nan_to_num(0).max())
            torch.testing.assert_close(got[counted] / scale, plain[counted] / scale, rtol=0, atol=1e-9)


@pytest.mark.parametrize("learned", [False, True])
def test_gradients_of_functions_of_their_own_are_those_of_differences(learned):
    part, mixed = (
        StackPart(Functions.PLAIN, 2, 0, 1, learned=learned, family="hinges"),
        StackPart(Functions.LOCAL, 3, 1, 2, learned=learned),
    )
    counts = torch.full((2, 1), 3, dtype=torch.int32)
    x = torch.rand(2, 6, 1, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(2, 1, 4, dtype=torch.float64, requires_grad=True)
    breaks = torch.tensor([0.0, 0.2, 0.5, 0.7, 1.0], dtype=torch.float64).repeat(2, 1, 1)

    def run(x, logits):
        knots = Knots(counts, logits=logits) if learned else Knots(counts, breaks + 0.0 * logits.sum())
        encoded = encode(x, knots, [part, mixed], size=7)
        return encoded.values, encoded.breaks

    assert torch.autograd.gradcheck(run, (x, logits))


def test_functions_of_their_own_must_fill_their_columns():
    x, breaks, counts = make_case(1, 20, [5])
    part = StackPart(Functions.PLAIN, 1, 0, 1, family="short")
    with pytest.raises(ArgumentError, match="function must return rows of shape"):
        encode(x, Knots(counts, breaks), [part], size=6)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_values_and_penalty_may_go_backward_one_after_the_other(order):
    parts = STACKS["one part"]
    (x, _, logits), counts, _ = make_stack(parts)
    x = x.detach()
    encoded = encode(x, Knots(counts, logits=logits), parts, size=SIZE)
    complete = encode(x, Knots(counts, logits=logits), parts, size=SIZE)
    (expected,) = torch.autograd.grad(complete.values.sin().sum() + complete.penalty.sum(), logits)
    losses = encoded.values.sin().sum(), encoded.penalty.sum()
    for place in order:
        losses[place].backward()
    torch.testing.assert_close(logits.grad, expected)


def test_what_changed_between_two_passes_backward_is_noticed():
    parts = STACKS["one part"]
    (x, _, logits), counts, _ = make_stack(parts)
    encoded = encode(x.detach(), Knots(counts, logits=logits), parts, size=SIZE)
    encoded.values.sum().backward()
    with torch.no_grad():
        logits.add_(1.0)
    with pytest.raises(RuntimeError, match="modified in place"):
        encoded.penalty.sum().backward()
