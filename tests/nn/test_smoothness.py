"""The difference penalty: zero for straight lines, equal to its definition, and its gradient to that of autograd."""

import numpy as np
import pytest
import torch

from knotwork.basis import FAMILIES, make_basis
from knotwork.basis._families import Functions
from knotwork.encoders import make_encoder
from knotwork.errors import ArgumentError
from knotwork.nn import EncodedLinear, SplineEncoding
from knotwork.nn._smoothness import PENALISED, bands_of, difference_penalty, differences, penalty_gradient
from knotwork.nn._stack import StackEncoding, kind_of

UNEVEN = [0.03, 0.04, 0.3, 0.7, 0.98]


def rows_of(family, knots, order, *, degree=3, padding=0):
    kind = FAMILIES[family].kind
    scheme = {"ple": 1, "ispline": degree + 1}.get(family, degree)
    breaks = torch.tensor([0.0, *knots, 1.0, *[1.0] * padding], dtype=torch.float64)
    return differences(breaks, torch.tensor(len(knots)), kind=kind, degree=scheme, order=order)


def weights_of(family, knots, curve, degree=3):
    """The weights with which a basis, and a constant, represents a curve, by least squares."""
    x = np.linspace(0, 1, 400)
    design = make_basis(family, knots, degree=degree).evaluate(x)
    if family in ("ispline", "ple"):
        design = np.column_stack([design, np.ones(len(x))])
    solution, *_ = np.linalg.lstsq(design, curve(x), rcond=None)
    assert np.abs(design @ solution - curve(x)).max() < 1e-8
    return solution[: make_basis(family, knots, degree=degree).size]


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.kind in PENALISED])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_differences_vanish_for_polynomials_of_a_lower_degree(family, order):
    for degree in range(order):
        if family == "ple" and degree > 1:
            continue  # ramps represent no parabola
        weights = torch.from_numpy(weights_of(family, UNEVEN, lambda x, degree=degree: 2.0 - 3.0 * x**degree))
        penalty = difference_penalty(weights[:, None], rows_of(family, UNEVEN, order))
        assert penalty < 1e-20 + 1e-12 * weights.square().sum()
    bent = torch.from_numpy(np.random.default_rng(0).normal(size=make_basis(family, UNEVEN).size))
    assert difference_penalty(bent[:, None], rows_of(family, UNEVEN, order)) > 1e-3


def test_equal_distances_have_the_usual_coefficients():
    knots = np.linspace(0, 1, 12)[1:-1]
    np.testing.assert_allclose(rows_of("bspline", knots, 2)[4], [1, -2, 1], atol=1e-12)
    np.testing.assert_allclose(rows_of("bspline", knots, 3)[4].abs(), [1, 3, 3, 1], atol=1e-12)
    np.testing.assert_allclose(rows_of("ple", knots, 2)[4].abs(), [1, 1], atol=1e-12)
    np.testing.assert_allclose(rows_of("ple", knots, 1)[4].abs(), [1], atol=1e-12)


@pytest.mark.parametrize("family", ["bspline", "mspline", "ispline", "ple"])
def test_padding_changes_nothing(family):
    plain, padded = rows_of(family, UNEVEN, 2), rows_of(family, UNEVEN, 2, padding=4)
    torch.testing.assert_close(padded[: len(plain)], plain)
    assert not padded[len(plain) :].any()
    assert not rows_of("bspline", [], 5).numel()


def stack(methods, *, learnable=False):
    X = np.random.default_rng(0).lognormal(size=(300, 2))
    members = [make_encoder(method, size=8).fit(X, X[:, 0]).fitted_ for method in methods]
    order = sorted(range(len(members)), key=lambda place: [kind_of(block, learnable) for block in members[place]])
    return StackEncoding.from_encodings([members[place] for place in order], [learnable] * len(members))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("learnable", [False, True])
def test_the_gradient_equals_autograd_of_the_definition(order, learnable):
    methods = ["BS-Q", "MS-Q", "IS-U", "PLE-Q", *([] if learnable else ["Std"])]
    encoding = stack(methods, learnable=learnable)
    strengths = torch.rand(len(methods), 2)
    weights = torch.randn(len(methods), 2, encoding.layout.size, 5, requires_grad=True)
    total = torch.zeros(())
    for part in encoding.layout.parts:
        if part.kind < 0:
            continue
        knots = part.of(encoding.spacings()[0].detach()), part.of(encoding.n_knots)
        rows = differences(*knots, kind=part.kind, degree=part.degree, order=order).float()
        total = total + (part.of(strengths) * difference_penalty(part.of(weights), rows)).sum()
    (expected,) = torch.autograd.grad(total, weights)
    actual = penalty_gradient(weights.detach(), bands_of(encoding, strengths, order))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert Functions.NORMALISED in {part.kind for part in encoding.layout.parts} or not learnable
    assert Functions.TAILS in {part.kind for part in encoding.layout.parts}


@pytest.mark.parametrize("path", ["fused", "dense"])
@pytest.mark.parametrize("n_members", [None, 2])
def test_a_first_layer_has_the_penalty(path, n_members):
    torch.manual_seed(0)
    layer = EncodedLinear(SplineEncoding(2, 8, n_members=n_members, learnable=True), 4, path=path)
    penalty = layer.smoothness_penalty()
    assert penalty.shape == ((2,) if n_members is None else (n_members, 2))
    penalty.sum().backward()
    assert layer.weight.grad.abs().sum() > 0
    rows = rows_of("bspline", np.linspace(0, 1, 6)[1:-1], 2).float()
    first = layer.weight.detach().reshape(-1, 2, 8, 4)[0, 0]
    torch.testing.assert_close(penalty.detach().flatten()[0], difference_penalty(first, rows), rtol=1e-4, atol=1e-6)
    with pytest.raises(ArgumentError, match="order"):
        layer.smoothness_penalty(order=0)


def test_missing_indicators_are_not_penalised():
    layer = EncodedLinear(SplineEncoding(1, 8, missing="indicator"), 4)
    before = layer.smoothness_penalty()
    with torch.no_grad():
        layer.weight[-1] += 10.0
    torch.testing.assert_close(layer.smoothness_penalty(), before)
