"""The fused first layer computes what the encoding and a linear layer compute, forward and backward."""

import copy
import io

import pytest
import torch
from torch import nn

import knotwork as kw
from knotwork._kernels.encoded_linear import encode_linear
from knotwork._kernels.encoding import spacing_penalty
from tests.kernels.cases import combinations
from tests.kernels.test_encoding import CASES, encode_rows, make_case, make_layout

FAMILIES = ["bspline", "mspline", "ispline", "ple", "cyclic"]


def usually(*families):
    """Return all families as cases of a test; those that are not named here are slow."""
    return [name if name in families else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def make(family, size, *, n_features=3, **options):
    if family == "ple":
        return kw.nn.PiecewiseLinearEncoding(n_features, size, **options)
    return kw.nn.SplineEncoding(n_features, size, family=family, **options)


def moved(encoding):
    """Move the knots away from where they start."""
    if encoding.learnable:
        with torch.no_grad():
            encoding.logits.add_(torch.randn_like(encoding.logits))
    return encoding


def values(*shape):
    x = 1.2 * torch.rand(*shape) - 0.1
    x.reshape(-1)[::17] = torch.nan
    x.reshape(-1)[1::19] = 0.0
    x.reshape(-1)[2::19] = 1.0
    return x


@pytest.mark.parametrize(
    ("case", "n_knots", "with_bias"),
    combinations(
        CASES,
        [[5, 5, 5], [0, 3, 11]],
        [False, True],
        usual=lambda case, n_knots, with_bias: (
            case[1] in {0, 1, 3} and n_knots == [0, 3, 11] and with_bias == (case[1] != 3)
        ),
    ),
)
def test_operation_equals_encoding_then_product(case, n_knots, with_bias):
    family, degree = case
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, 300, n_knots)
    x[1, 50, 1] = torch.nan
    settings = {"kind": layout.kind, "degree": layout.scheme, "size": layout.smallest + max(n_knots)}
    weight, bias = torch.randn(2, 3 * settings["size"], 9).double(), torch.randn(2, 9).double()
    gradient = torch.randn(2, 300, 9).double()

    def dense(x, breaks, weight, bias):
        return encode_rows(x, breaks, counts, **settings).flatten(-2) @ weight + (bias[:, None] if with_bias else 0)

    def fused(x, breaks, weight, bias):
        return encode_linear(x, breaks, counts, weight, bias if with_bias else None, **settings)

    results = []
    for path in (dense, fused):
        leaves = [tensor.clone().requires_grad_() for tensor in (x, breaks, weight, bias)]
        out = path(*leaves)
        results.append([out, *torch.autograd.grad(out, leaves[: 3 + with_bias], gradient)])
    for expected, got in zip(*results, strict=True):
        scale = max(float(expected.detach().abs().max()), 1.0)
        torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("size", [7, [5, 9, 4]])
@pytest.mark.usefixtures("double")
def test_layer_equals_sequential(family, learnable, size):
    encoding = moved(make(family, size, learnable=learnable)).set_range([0.0, -0.05, 0.1], [1.0, 0.9, 1.3])
    linear = nn.Linear(3 * encoding.size, 6)
    plain = nn.Sequential(encoding, nn.Flatten(-2), linear)
    layer = kw.nn.EncodedLinear.from_linear(encoding, linear, path="fused")
    knots = [encoding.logits] if learnable else []
    x = values(4, 30, 3).requires_grad_()
    gradient = torch.randn(4, 30, 6)
    expected, got = plain(x), layer(x)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    expected = torch.autograd.grad(expected, [x, *knots, linear.weight, linear.bias], gradient)
    got = torch.autograd.grad(got, [x, *knots, layer.weight, layer.bias], gradient)
    torch.testing.assert_close(got[-2].T, expected[-2], rtol=0, atol=1e-10)
    for actual, other in zip((*got[:-2], got[-1]), (*expected[:-2], expected[-1]), strict=True):
        scale = max(float(other.abs().max()), 1.0)
        torch.testing.assert_close(actual / scale, other / scale, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.usefixtures("double")
def test_members_equal_each_alone(family, learnable):
    encoding = moved(make(family, [8, 6, 8], n_members=2, learnable=learnable))
    layer = kw.nn.EncodedLinear(encoding, 5, path="fused")
    assert layer.weight.shape == (2, 24, 5)
    assert layer.bias.shape == (2, 5)
    x = values(2, 4, 10, 3)
    encoded = encoding(x).flatten(-2)
    out = layer(x)
    assert out.shape == (2, 4, 10, 5)
    for member in range(2):
        expected = nn.functional.linear(encoded[member], layer.weight[member].T, layer.bias[member])
        torch.testing.assert_close(out[member], expected, rtol=0, atol=1e-10)
    dense = copy.deepcopy(layer)
    dense.path = "dense"
    torch.testing.assert_close(dense(x), out, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.usefixtures("double")
def test_penalty_comes_with_the_output(family, learnable):
    encoding = moved(make(family, 7, learnable=learnable))
    layers = [kw.nn.EncodedLinear(encoding, 4, path=path) for path in ("fused", "dense")]
    layers[1].load_state_dict(layers[0].state_dict())
    x = values(20, 3)
    results = []
    for layer in layers:
        out, penalty = layer(x), encoding.spacing_penalty(1e-3)
        torch.testing.assert_close(penalty, spacing_penalty(encoding.widths(), encoding.n_knots, 1e-3))
        gradients = torch.autograd.grad(out.square().sum() + penalty.sum(), list(layer.parameters()))
        results.append([out, *gradients])
    for actual, other in zip(*results, strict=True):
        torch.testing.assert_close(actual, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("family", "degree"), [("bspline", 2), ("mspline", 3), ("normalised", 3), ("ispline", 2), ("ple", 0)]
)
def test_gradients_are_those_of_differences(family, degree):
    layout = make_layout(family, degree)
    _, breaks, counts = make_case(2, 2, [4, 2])
    x = torch.rand(2, 5, 2, dtype=torch.float64)
    size = layout.smallest + 4
    interior = torch.arange(4) < counts[..., None]

    def run(x, knots, weight, bias):
        inner = torch.where(interior, knots, 1.0)
        full = torch.cat([torch.zeros_like(inner[..., :1]), inner, torch.ones_like(inner[..., :1])], dim=-1)
        return encode_linear(x, full, counts, weight, bias, kind=layout.kind, degree=layout.scheme, size=size)

    weight, bias = torch.randn(2, 2 * size, 3).double(), torch.randn(2, 3).double()
    leaves = [tensor.clone().requires_grad_() for tensor in (x, breaks[..., 1:-1], weight, bias)]
    assert torch.autograd.gradcheck(run, leaves)


def test_missing_values_add_nothing():
    layer = kw.nn.EncodedLinear(make("ispline", 7), 4, path="fused")
    torch.testing.assert_close(layer(torch.full((5, 3), torch.nan)), layer.bias.expand(5, 4))


def test_nothing_of_the_size_of_the_encoding_is_kept():
    layer = kw.nn.EncodedLinear(make("bspline", 9), 4, path="fused")
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.shape) or tensor, lambda t: t):
        layer(torch.rand(100, 3))
    shapes = [(1, 100, 3), (1, 3, 7), (1, 3), (1, 27, 4), (1, 4)]
    shapes += [(3, 6), (0, 3), (3,), (3, 7)]  # for the knots, which are made of no rows
    assert sorted(kept) == sorted(torch.Size(shape) for shape in shapes)


@pytest.mark.parametrize("family", usually("mspline", "ispline"))
def test_threads_do_not_change_sums(family):
    layer = kw.nn.EncodedLinear(make(family, 12), 10, path="fused")
    x, gradient = torch.rand(5000, 3, requires_grad=True), torch.randn(5000, 10)
    results = []
    before = torch.get_num_threads()
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        out = layer(x)
        results.append([out, *torch.autograd.grad(out, [x, layer.weight, layer.encoding.logits], gradient)])
    torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_state_dict_copies_and_types(family):
    layer = kw.nn.EncodedLinear(moved(make(family, 8)), 6, path="fused")
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = kw.nn.EncodedLinear(make(family, 8), 6, path="fused")
    other.load_state_dict(torch.load(buffer, weights_only=True))
    x = torch.rand(10, 3)
    assert torch.equal(other(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert layer.double()(x.double()).dtype == torch.float64
    half = layer.bfloat16()
    out = half(x)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert all(parameter.grad.dtype == torch.bfloat16 for parameter in half.parameters())


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
@pytest.mark.parametrize("family", ["bspline", pytest.param("ispline", marks=pytest.mark.slow)])
def test_compile_and_autocast(family):
    layer = kw.nn.EncodedLinear(moved(make(family, 8)), 6, path="fused")
    x = torch.rand(40, 3)
    expected = layer(x)
    gradients = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    torch._dynamo.reset()
    got = torch.compile(layer, backend="aot_eager")(x)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(torch.autograd.grad(got.square().sum(), list(layer.parameters())), gradients)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize("path", ["fused", "dense"])
@pytest.mark.parametrize("n_members", [None, 2])
def test_empty_batches(path, n_members):
    layer = kw.nn.EncodedLinear(make("bspline", 7, n_members=n_members), 4, path=path)
    lead = () if n_members is None else (n_members,)
    out = layer(torch.rand(*lead, 0, 3))
    assert out.shape == (*lead, 0, 4)
    out.sum().backward()
    assert torch.equal(layer.weight.grad, torch.zeros_like(layer.weight))


def test_indicators_take_the_dense_path():
    encoding = make("bspline", 7, missing="indicator")
    layer = kw.nn.EncodedLinear(encoding, 4)
    x = values(20, 3)
    expected = nn.functional.linear(encoding(x).flatten(-2), layer.weight.T, layer.bias)
    torch.testing.assert_close(layer(x), expected)
    with pytest.raises(ValueError, match="path must be 'auto' or 'dense'"):
        kw.nn.EncodedLinear(encoding, 4, path="fused")


@pytest.mark.parametrize(("size", "n_rows", "kept"), [(7, 20, 7), (100, 20, 1), (30, 5000, 1), (30, 20, 30)])
def test_auto_takes_a_path_by_shape(size, n_rows, kept):
    """What is kept for backward tells the paths apart: the encoding, or only the values."""
    layer = kw.nn.EncodedLinear(make("bspline", size, learnable=False), 64)
    numbers = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: numbers.append(tensor.numel()) or tensor, lambda t: t):
        layer(torch.rand(n_rows, 3))
    assert n_rows * 3 * kept in numbers
    assert (n_rows * 3 * size in numbers) == (kept > 1)


def test_weights_start_as_those_of_linear():
    layer = kw.nn.EncodedLinear(make("bspline", 8), 400)
    bound = 24**-0.5
    for parameter in (layer.weight.detach(), layer.bias.detach()):
        assert float(parameter.abs().max()) <= bound
        assert float(parameter.abs().max()) == pytest.approx(bound, rel=0.02)
        assert float(parameter.std()) == pytest.approx(bound / 3**0.5, rel=0.1)
    assert kw.nn.EncodedLinear(make("bspline", 8), 4, bias=False).bias is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoding": nn.Identity()}, "encoding must be a SplineEncoding"),
        ({"out_features": 0}, "out_features"),
        ({"bias": 1}, "bias"),
        ({"path": "sparse"}, "path must be one of"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kw.nn.EncodedLinear(**({"encoding": make("bspline", 7), "out_features": 4} | arguments))
    with pytest.raises(ValueError, match="linear must take 21 inputs"):
        kw.nn.EncodedLinear.from_linear(make("bspline", 7), nn.Linear(20, 4))
