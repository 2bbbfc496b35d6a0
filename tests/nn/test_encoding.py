"""The layers as a user of torch meets them."""

import copy
import gc
import io
import weakref

import numpy as np
import pytest
import torch
from torch import nn

import knotwork as kw
from knotwork import basis
from knotwork._kernels.encoding import spacing_penalty
from tests.kernels.cases import combinations

FAMILIES = ["bspline", "mspline", "ispline", "ple", "cyclic", "natural", "radial", "thin_plate"]


def usually(*families):
    """Return all families as cases of a test; those that are not named here are slow."""
    return [name if name in families else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]


def make(family, n_features, size, **options):
    if family == "ple":
        return kw.nn.PiecewiseLinearEncoding(n_features, size, **options)
    return kw.nn.SplineEncoding(n_features, size, family=family, **options)


def inputs(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learnable", [False, True])
def test_shapes_with_several_batch_dimensions(family, learnable):
    layer = make(family, 3, 7, learnable=learnable)
    x = inputs(2, 4, 5, 3)
    out = layer(x)
    assert out.shape == (2, 4, 5, 3, 7)
    torch.testing.assert_close(layer(x[1, 2]), out[1, 2])
    assert layer(x[0, 0, 0]).shape == (3, 7)
    assert layer(x[:0]).shape == (0, 4, 5, 3, 7)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "mspline"])
def test_uniform_start_is_the_definition(family):
    layer = make(family, 2, 8)
    x = inputs(50, 2)
    n_knots = 8 - basis.FAMILIES[family].smallest_size(3)
    expected = basis.evaluate(family, x.double().numpy(), np.arange(1, n_knots + 1) / (n_knots + 1))
    torch.testing.assert_close(layer(x).detach(), torch.tensor(expected, dtype=torch.float32), rtol=0, atol=2e-5)


def test_learned_msplines_are_normalised_and_fixed_ones_are_not():
    x = inputs(50, 2)
    fixed, learned = (make("mspline", 2, 8, learnable=flag)(x).detach() for flag in (False, True))
    expected = basis.evaluate("mspline", x.double().numpy(), np.arange(1, 5) / 5)
    torch.testing.assert_close(fixed, torch.tensor(expected, dtype=torch.float32), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(learned, nn.functional.layer_norm(fixed, (8,)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "method", ["BS-Q", "IS-CART", "MS-U", "BS-LGBM", "PLE", "PLE-Adaptive", "CS-Q", "NS-Q", "RBF-U", "TPS-U"]
)
@pytest.mark.parametrize("missing", ["zeros", "indicator"])
def test_from_encoder_takes_raw_values(method, missing):
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(10.0, 3.0, 400), random.lognormal(size=400), random.integers(0, 5, 400)])
    X[::9, 0] = np.nan
    encoder = kw.make_encoder(method, 9, missing=missing).fit(X, np.sin(X[:, 1]))
    kind = kw.nn.PiecewiseLinearEncoding if method.startswith("PLE") else kw.nn.SplineEncoding
    layer = kind.from_encoder(encoder)
    got = layer(torch.tensor(X, dtype=torch.float32)).numpy()
    expected = encoder.transform(X)
    if method == "PLE-Adaptive":
        widths = [len(knots) + 1 + (missing == "indicator") for knots in encoder.knots_]
        blocks = np.split(expected, np.cumsum(widths)[:-1], axis=1)
        got = np.hstack([np.delete(got[:, i], slice(w - (missing == "indicator"), layer.size), axis=1)
                         for i, w in enumerate(widths)])  # fmt: skip
        expected = np.hstack(blocks)
    scale = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(got.reshape(len(X), -1) / scale, expected / scale, atol=2e-4)
    knots = layer.interior_knots()[0, : len(encoder.knots_[0])].numpy()
    np.testing.assert_allclose(knots, encoder.knots_[0], rtol=1e-3)
    started = kind.from_encoder(encoder, learnable=True)
    np.testing.assert_allclose(started.interior_knots()[0, : len(knots)].detach().numpy(), knots, atol=0.2)


def test_spacings_have_an_exact_inverse():
    knots = np.array([[0.1, 0.15, 0.8], [0.3, 0.5, 0.9]])
    layer = kw.nn.SplineEncoding(2, 7, knots=knots)
    np.testing.assert_allclose(layer.interior_knots().numpy(), knots, atol=1e-6)
    close = kw.nn.SplineEncoding(1, 6, knots=[[0.5, 0.5001]])  # nearer than the smallest spacing: moved apart
    assert torch.diff(close.interior_knots()[0]).item() == pytest.approx(1e-3, rel=0.01)


def test_features_of_different_sizes_and_members_with_their_own_knots():
    sizes = [5, 9, 4]
    layer = kw.nn.SplineEncoding(3, sizes, family="bspline", n_members=2)
    x = inputs(2, 30, 3)
    out = layer(x)
    assert out.shape == (2, 30, 3, 9)
    for feature, size in enumerate(sizes):
        alone = kw.nn.SplineEncoding(1, size)
        torch.testing.assert_close(out[1, :, feature, :size], alone(x[1, :, feature, None])[:, 0])
        assert (out[:, :, feature, size:] == 0).all()
    with torch.no_grad():
        layer.logits[1] += torch.randn_like(layer.logits[1])
    changed = layer(x)
    assert torch.equal(changed[0], out[0])
    assert not torch.equal(changed[1], out[1])
    assert layer.spacing_penalty().shape == (2,)
    layer.set_range(np.zeros((2, 3)), np.array([[1.0] * 3, [2.0] * 3]))
    torch.testing.assert_close(layer(torch.stack([x[0], 2 * x[1]])), changed)


@pytest.mark.parametrize("family", FAMILIES)
def test_missing_values_have_no_output_and_no_gradient(family):
    layer = make(family, 2, 7, missing="indicator")
    x = inputs(20, 2)
    x[3, 1] = torch.nan
    x.requires_grad_()
    out = layer(x)
    assert out.shape == (20, 2, 8)
    np.testing.assert_array_equal(out[3, 1].detach(), [0, 0, 0, 0, 0, 0, 0, 1])
    out.square().sum().backward()
    assert x.grad[3, 1] == 0
    assert bool(layer.logits.grad.isfinite().all())
    with pytest.raises(ValueError, match="hold no NaN"):
        make(family, 2, 7, missing="error")(x)


@pytest.mark.parametrize("family", FAMILIES)
def test_state_dict_and_copies(family):
    layer = make(family, 3, 8).set_range([0.0, -1.0, 5.0], [1.0, 1.0, 9.0])
    with torch.no_grad():
        layer.logits.add_(torch.randn_like(layer.logits))
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = make(family, 3, 8).set_range([0.0] * 3, [1.0] * 3)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    x = 9 * inputs(10, 3)
    torch.testing.assert_close(other(x), layer(x))
    torch.testing.assert_close(copy.deepcopy(layer)(x), layer(x))
    assert layer.double()(x.double()).dtype == torch.float64


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
# A compilation takes a second: each formula has one, and one has learned knots and fixed ones.
@pytest.mark.parametrize(
    ("family", "learnable"),
    combinations(
        FAMILIES,
        [True, False],
        usual=lambda family, learnable: (
            family == "bspline" or (family != "ple" and learnable == (family in {"mspline", "natural", "radial"}))
        ),
    ),
)
def test_compile_and_autocast(family, learnable):
    layer = make(family, 3, 8, learnable=learnable)
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for n_rows in (40, 23):  # the second batch must not compile anything
        x = inputs(n_rows, 3).requires_grad_()
        leaves = [x, *layer.parameters()]
        with torch.compiler.set_stance("fail_on_recompile" if n_rows == 23 else "default"):
            pair = [path(x) for path in (layer, compiled)]
        torch.testing.assert_close(*pair)
        gradients = [torch.autograd.grad(out.square().sum(), leaves) for out in pair]
        torch.testing.assert_close(*gradients)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_finite_at_the_smallest_spacing(family, dtype):
    layer = make(family, 4, 12)
    with torch.no_grad():
        layer.logits[:, 1:] = -80.0  # all widths but the first at the smallest spacing
    layer = layer.to(dtype)
    x = torch.linspace(-0.1, 1.1, 2000).repeat(4, 1).T.contiguous()
    encoded = layer(x)
    (encoded.float().square().sum() + layer.spacing_penalty()).backward()
    assert bool(encoded.isfinite().all())
    assert bool(layer.logits.grad.isfinite().all())


@pytest.mark.parametrize(
    ("family", "n_steps"),
    combinations(FAMILIES, [150, 1000], usual=lambda family, n_steps: n_steps == 150 or family == "bspline"),
)
def test_knots_stay_ordered_at_a_rate_far_too_high(family, n_steps):
    torch.manual_seed(0)
    layer = make(family, 3, 10)
    head = nn.Linear(30, 1)
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.2)  # 1000 times the paper's
    x = inputs(64, 3)
    target = torch.sin(20 * x).sum(dim=1, keepdim=True)
    for _ in range(n_steps):
        optimiser.zero_grad()
        (head(layer(x).flatten(1)) - target).square().mean().backward()
        optimiser.step()
    knots = layer.interior_knots()
    breaks = torch.cat([torch.zeros(3, 1), knots, torch.ones(3, 1)], dim=1)
    assert bool((torch.diff(breaks) >= 1e-3 - 1e-6).all())
    assert float((knots - make(family, 3, 10).interior_knots()).abs().max()) > 0.05, "knots did not move"


def test_penalty_is_the_formula():
    layer = kw.nn.SplineEncoding(2, 6, knots=[[0.2, 0.5], [0.4, 0.6]])
    widths = torch.tensor([[0.2, 0.3, 0.5], [0.4, 0.2, 0.4]])
    assert layer.spacing_penalty(1e-6).item() == pytest.approx((1 / (widths + 1e-6)).mean().item(), rel=1e-4)
    assert layer.spacing_penalty(1.0).item() == pytest.approx((1 / (widths + 1.0)).mean().item(), rel=1e-4)
    fixed = kw.nn.SplineEncoding(2, 6, knots=[[0.2, 0.5], [0.4, 0.6]], learnable=False)
    assert fixed.spacing_penalty().item() == pytest.approx(layer.spacing_penalty().item(), rel=1e-4)


def fresh_penalty(layer, epsilon=1e-6):
    return spacing_penalty(layer.widths(), layer.n_knots, epsilon)


@pytest.mark.parametrize("n_members", [None, 2])
def test_the_penalty_of_the_last_forward_is_remembered(n_members):
    layer = make("bspline", 3, 8, n_members=n_members)
    x = inputs(*(() if n_members is None else (n_members,)), 20, 3)
    out = layer(x)
    remembered = layer._penalty.values
    first = layer.spacing_penalty()
    assert first.grad_fn is not None
    assert first.data_ptr() == remembered.data_ptr(), "computed again"
    torch.testing.assert_close(first, fresh_penalty(layer))
    (expected,) = torch.autograd.grad(layer(x).sin().sum() + fresh_penalty(layer).sum(), layer.logits)
    (got,) = torch.autograd.grad(out.sin().sum() + first.sum(), layer.logits)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("backward", [True, False])
def test_a_step_that_is_over_leaves_nothing_behind(backward):
    layer, x = make("bspline", 3, 8), inputs(20, 3)
    batch = weakref.ref(x)
    gc.collect()
    gc.disable()
    try:
        loss = layer(x).sin().sum() + layer.spacing_penalty()
        if backward:
            loss.backward()
        del loss, x
        assert batch() is None, "only the garbage collector would free it"
    finally:
        gc.enable()


def test_the_graph_of_a_step_is_released_before_the_next_one_is_built(monkeypatch):
    layer, x, stored = make("bspline", 3, 8), inputs(20, 3), []
    knots = layer._knots

    def watched(epsilon):
        stored.append(layer._penalty)
        return knots(epsilon)

    monkeypatch.setattr(layer, "_knots", watched)
    for _ in range(3):
        layer(x).sum().backward()
    assert stored == [None] * 3


def test_the_penalty_is_right_whatever_happened_since():
    layer, x = make("bspline", 3, 8), inputs(20, 3)
    torch.testing.assert_close(layer.spacing_penalty(), fresh_penalty(layer))  # no forward pass at all
    layer(x)
    with torch.no_grad():
        layer.logits.add_(torch.randn_like(layer.logits))
    torch.testing.assert_close(layer.spacing_penalty(), fresh_penalty(layer))  # other knots
    layer(x)
    torch.testing.assert_close(layer.spacing_penalty(1.0), fresh_penalty(layer, 1.0))  # another epsilon
    layer.logits = nn.Parameter(torch.randn_like(layer.logits))
    torch.testing.assert_close(layer.spacing_penalty(), fresh_penalty(layer))  # another parameter
    with torch.no_grad():
        layer(x)
        assert not layer.spacing_penalty().requires_grad
    assert layer.spacing_penalty().requires_grad
    with torch.no_grad():
        assert not layer.spacing_penalty().requires_grad
    layer(x).sum().backward()
    layer.spacing_penalty().backward()  # the graph of the forward pass has been freed
    layer(x)
    assert layer.double().spacing_penalty().dtype == torch.float64
    assert copy.deepcopy(layer).spacing_penalty() == layer.spacing_penalty()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_the_penalty_inside_and_beside_a_compiled_pass():
    layer, x = make("bspline", 3, 8), inputs(20, 3)
    layer(x)
    expected = layer.spacing_penalty()
    torch._dynamo.reset()
    inside = torch.compile(lambda x: layer(x).sum() + layer.spacing_penalty(), backend="aot_eager")
    torch.testing.assert_close(inside(x), layer(x).sum() + expected)
    compiled = torch.compile(layer, backend="aot_eager")
    with torch.no_grad():
        layer.logits.add_(torch.randn_like(layer.logits))
    loss = compiled(x).sum() + layer.spacing_penalty()
    torch.testing.assert_close(loss, layer(x).sum() + fresh_penalty(layer))
    (got,) = torch.autograd.grad(loss, layer.logits)
    torch.testing.assert_close(got, torch.autograd.grad(layer(x).sum() + fresh_penalty(layer), layer.logits)[0])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_members", [None, 2])
def test_learned_vectors_of_missing_values(family, n_members):
    layer = make(family, 3, 7, missing="learned", n_members=n_members)
    lead = () if n_members is None else (n_members,)
    x = inputs(*lead, 20, 3)
    x[..., 4, 1] = torch.nan
    zeros = make(family, 3, 7, n_members=n_members)
    torch.testing.assert_close(layer(x), zeros(x))  # the vectors start at zero
    assert layer.missing_vectors.shape == (*lead, 3, 7)
    layer(x).sum().backward()
    expected = torch.zeros(*lead, 3, 7)
    expected[..., 1, :] = 1.0
    torch.testing.assert_close(layer.missing_vectors.grad, expected)
    with torch.no_grad():
        layer.missing_vectors.add_(2.5)
    assert bool((layer(x)[..., 4, 1, :] == 2.5).all())
    present = ~torch.isnan(x)
    torch.testing.assert_close(layer(x)[present], zeros(x)[present])
    assert layer.get_output_shape() == (3, 7)


def test_cyclic_layers_repeat_and_have_a_gradient_everywhere():
    layer = kw.nn.SplineEncoding(1, 6, family="cyclic", learnable=False).double().set_range([0.0], [24.0])
    x = torch.linspace(-60.0, 60.0, 31, dtype=torch.float64)[:, None].requires_grad_()
    torch.testing.assert_close(layer(x), layer(x + 48.0), rtol=0, atol=1e-6)
    gradient = torch.autograd.grad(layer(x)[..., 0].sum(), x)[0]
    moved = (layer(x + 1e-4)[..., 0] - layer(x - 1e-4)[..., 0]) / 2e-4
    torch.testing.assert_close(gradient, moved.detach(), rtol=0, atol=1e-3)
    assert bool(layer(torch.tensor([[torch.inf]], dtype=torch.float64)).isfinite().all())


def test_widths_of_radial_functions_are_learned():
    layer = kw.nn.SplineEncoding(2, 6, family="radial")
    assert [name for name, _ in layer.named_parameters()] == ["logits", "log_widths"]
    x = inputs(30, 2)
    before = layer(x).detach()
    with torch.no_grad():
        layer.log_widths.add_(np.log(2.0))
    torch.testing.assert_close(layer(x), before**0.25)  # bumps twice as wide
    knots = torch.rand(2, 4, dtype=torch.float64).sort(dim=-1).values
    double = kw.nn.SplineEncoding(2, 6, family="radial", knots=knots.numpy()).double()
    values = inputs(4, 2).double()

    def run(logits, widths):
        return torch.func.functional_call(double, {"logits": logits, "log_widths": widths}, (values,))

    assert torch.autograd.gradcheck(run, tuple(double.parameters()))


def test_parameters_have_effects():
    x = inputs(30, 2)
    base = kw.nn.SplineEncoding(2, 7, knots=[[0.1, 0.1005, 0.9]] * 2)
    assert not torch.equal(base(x), kw.nn.SplineEncoding(2, 7, knots=[[0.1, 0.1005, 0.9]] * 2, min_spacing=0.1)(x))
    assert not torch.equal(base(x), kw.nn.SplineEncoding(2, 7, degree=2)(x))
    assert [name for name, _ in base.named_parameters()] == ["logits"]
    assert base.logits.shape == (2, 4)  # size - degree free numbers per feature
    assert not list(kw.nn.SplineEncoding(2, 7, learnable=False).parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0}, "n_features"),
        ({"size": 3}, "size must be an integer of at least 4"),
        ({"size": [7, 7, 7]}, "one for each of the 2 features"),
        ({"family": "ple"}, "family must be one of"),
        ({"degree": -1}, "degree"),
        ({"min_spacing": 0.5}, "min_spacing"),
        ({"missing": "mean"}, "missing"),
        ({"learnable": "yes"}, "learnable"),
        ({"knots": [[0.5]]}, "for each of the 2 features"),
        ({"knots": [[0.5], [0.5]]}, "hold 3 numbers for feature 0"),
        ({"knots": [[0.5, 0.4, 0.9]] * 2}, "increase strictly"),
        ({"n_members": 0}, "n_members"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kw.nn.SplineEncoding(**({"n_features": 2, "size": 7} | arguments))


def test_wrong_inputs_are_refused():
    layer = kw.nn.SplineEncoding(3, 7)
    with pytest.raises(ValueError, match=r"shape \(\.\.\., 3\)"):
        layer(torch.rand(5, 4))
    with pytest.raises(TypeError, match="floating-point"):
        layer(torch.ones(5, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"shape \(2, \.\.\., 3\)"):
        kw.nn.SplineEncoding(3, 7, n_members=2)(torch.rand(5, 3))
    with pytest.raises(ValueError, match="larger than low"):
        layer.set_range([0.0, 0.0, 1.0], [1.0, 1.0, 1.0])


def test_periodic_encoding():
    layer = kw.nn.PeriodicEncoding(3, 5)
    x = torch.randn(7, 3)
    out = layer(x)
    angles = 2 * torch.pi * layer.frequencies * x[..., None]
    torch.testing.assert_close(out, torch.cat([angles.cos(), angles.sin()], dim=-1))
    with pytest.raises(ValueError, match="sigma"):
        kw.nn.PeriodicEncoding(3, sigma=0.0)
    with pytest.raises(ValueError, match="shape"):
        layer(torch.randn(7, 2))
