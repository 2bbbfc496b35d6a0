"""Functions of pairs of features: their definition, gradients, initial weights, members, and the layer with knots."""

import numpy as np
import pytest
import torch
from torch import nn

import knotwork as kw
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.nn import InteractionConfig, PairEmbedding, SplineEncoding, TensorSplineEncoding, initialise
from knotwork.nn._interactions import WAVE_RULE, spread_values
from knotwork.nn._linear import Stream, make_draw

FAMILIES = ("bspline", "ispline", "mspline")


def test_each_member_starts_from_its_own_waves():
    encoded = SplineEncoding(2, size=15)(torch.linspace(0.0, 1.0, WAVE_RULE.n_points)[:, None].expand(-1, 2))[
        None
    ].detach()
    fastest = [0.0, 1.0, 16.0]
    layer = PairEmbedding([(0, 1)], size=15, rank=1, width=8, n_members=3)
    before = layer.weight.detach().clone()
    seeds = torch.tensor([3, 3, 3])
    layer.start_from(encoded, make_draw(seeds, Stream.PAIRS), fastest=fastest)
    torch.testing.assert_close(layer.weight[0], before[0])
    for member in (1, 2):
        alone = PairEmbedding([(0, 1)], size=15, rank=1, width=8)
        alone.start_from(encoded, make_draw(seeds[:1], Stream.PAIRS), fastest=fastest[member : member + 1])
        torch.testing.assert_close(layer.weight[member], alone.weight[0])
    curves = encoded[0, :, 0] @ layer.weight[:, 0] + layer.bias[:, 0][:, None]
    roughness = curves.diff(n=2, dim=1).square().mean(dim=(1, 2)) / curves.square().mean(dim=(1, 2))
    assert roughness[1] < roughness[2] / 5
    assert roughness[1] < roughness[0] / 5
    for wrong in (-1.0, 0.5, float("inf"), True):
        with pytest.raises((ArgumentError, ArgumentTypeError), match="waves must be a number of at least 1, or 0"):
            InteractionConfig(waves=wrong)


def test_an_output_is_a_sum_of_products_of_two_functions():
    layer = PairEmbedding([(0, 2), (2, 1)], size=5, rank=3, width=4)
    blocks = torch.randn(6, 2, 3, 5)
    weight, bias = layer.weight[0].view(2, 2, 5, 3, 4), layer.bias[0].view(2, 2, 3, 4)
    for place, (first, second) in enumerate([(0, 2), (2, 1)]):
        factors = [
            torch.einsum("abs,srk->abrk", blocks[:, :, feature], weight[place, side]) + bias[place, side]
            for side, feature in enumerate((first, second))
        ]
        expected = (factors[0] * factors[1]).sum(dim=2) / 3**0.5
        torch.testing.assert_close(layer(blocks)[:, :, place], expected)


def test_members_have_their_own_pairs_and_weights():
    layer = PairEmbedding([[(0, 1)], [(2, 0)]], size=4, rank=2, width=3, n_members=2)
    assert layer.pairs == [[(0, 1)], [(2, 0)]]
    blocks = torch.randn(2, 7, 3, 4)
    together = layer(blocks)
    for member, pair in enumerate([(0, 1), (2, 0)]):
        alone = PairEmbedding([pair], size=4, rank=2, width=3)
        alone.load_state_dict({name: tensor[member : member + 1] for name, tensor in layer.state_dict().items()})
        torch.testing.assert_close(together[member], alone(blocks[member]))


def test_gradients_of_weights_and_blocks():
    layer = PairEmbedding([(0, 1), (1, 2)], size=3, rank=2, width=2, n_members=2).double()
    blocks = torch.randn(2, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (blocks, layer.weight, layer.bias))


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_knots_values_and_weights(family):
    torch.manual_seed(0)
    layer = TensorSplineEncoding(4, [(3, 1), (1, 0)], size=6, rank=2, width=2, family=family).double()
    x = torch.rand(5, 4, dtype=torch.float64, requires_grad=True)
    parameters = dict(layer.named_parameters())
    assert set(parameters) == {"encoding.logits", "products.weight", "products.bias"}
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *parameters.values()))
    layer(x).square().sum().backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in parameters.values())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [5, 30])
def test_outputs_are_of_the_order_of_one_at_first(family, size):
    torch.manual_seed(0)
    layer = TensorSplineEncoding(2, [(0, 1)], size=size, width=64, family=family)
    with torch.no_grad():
        spread = float(layer(torch.rand(2000, 2)).std())
    assert 0.05 < spread < 2.0


def test_initial_weights_do_not_depend_on_padding():
    encoded = SplineEncoding(2, size=5)(torch.rand(1, 33, 2).sort(dim=1).values).detach()
    layers = [PairEmbedding([(0, 1)], size=size, n_members=2) for size in (5, 8)]
    for layer in layers:
        initialise(layer, torch.tensor([3, 3]))
    torch.testing.assert_close(layers[0].weight, layers[1].weight[:, :, :5])
    for layer in layers:
        layer.start_from(nn.functional.pad(encoded, (0, layer.size - 5)), make_draw(torch.tensor([3, 4]), Stream.PAIRS))
    torch.testing.assert_close(layers[0].weight, layers[1].weight[:, :, :5])
    torch.testing.assert_close(layers[0].bias, layers[1].bias)
    assert not layers[1].weight[:, :, 5:].any()
    assert not torch.equal(layers[0].weight[0], layers[0].weight[1])


@pytest.mark.parametrize("family", ["bspline", "ispline"])  # learned M-splines are normalised, which makes them wavy
def test_outputs_are_from_smooth_to_rough_at_first(family):
    torch.manual_seed(0)
    layer = TensorSplineEncoding(2, [(0, 1)], size=20, rank=1, width=50, family=family)
    line = torch.linspace(0.0, 1.0, 200)
    with torch.no_grad():
        values = layer(torch.stack([line, torch.full_like(line, 0.5)], dim=1))[:, 0]
    turns = ((values.diff(dim=0)[1:] * values.diff(dim=0)[:-1]) < 0).sum(dim=0)
    smooth, rough = (float(part.float().mean()) for part in (turns[:15], turns[-15:]))
    assert smooth < 3.0  # independent weights would turn at most of the 20 knots
    assert rough > smooth + 2.0


def test_values_are_spread_over_the_knots():
    breaks = torch.tensor([[[0.0, 0.1, 0.2, 1.0], [0.0, 0.5, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]])
    values = spread_values(breaks, torch.tensor([[2, 1, 0]], dtype=torch.int32))[0]
    assert values.shape == (WAVE_RULE.n_points, 3)
    torch.testing.assert_close(values[[0, -1]], torch.tensor([[0.0] * 3, [1.0] * 3]))
    shares = [(values[:, 0] < end).float().mean().item() for end in (0.1, 0.2)]
    assert shares == pytest.approx([1 / 3, 2 / 3], abs=0.03)
    torch.testing.assert_close(values[:, 1:], torch.linspace(0.0, 1.0, WAVE_RULE.n_points)[:, None].expand(-1, 2))


def test_with_b_splines_it_is_a_tensor_product_spline_of_low_rank():
    X = np.random.default_rng(0).normal(size=(200, 3)) * 10.0
    encoder = kw.TensorSplineEncoder([(0, 2)], size=6, dtype="float64").fit(X)
    layer = TensorSplineEncoding.from_encoder(encoder, rank=2, width=3).double()
    weight, bias = layer.products.weight[0], layer.products.bias[0]  # the functions of a feature sum to one
    first, second = ((weight[side] + bias[side]).view(6, 2, 3) for side in (0, 1))
    coefficients = torch.einsum("irk,jrk->ijk", first, second) / 2**0.5
    assert [int(torch.linalg.matrix_rank(coefficients[:, :, k], atol=1e-9)) for k in range(3)] == [2, 2, 2]
    expected = torch.from_numpy(encoder.transform(X)) @ coefficients.reshape(36, 3)
    torch.testing.assert_close(layer(torch.from_numpy(X))[:, 0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("learnable", [False, True])
def test_from_encoder_has_its_knots_and_range(learnable):
    X = np.random.default_rng(0).exponential(size=(300, 4))
    encoder = kw.TensorSplineEncoder([(3, 1)], size=7).fit(X)
    layer = TensorSplineEncoding.from_encoder(encoder, learnable)
    knots = np.array([encoder.knots_[place] for place in (1, 3)])
    np.testing.assert_allclose(layer.interior_knots().detach().numpy(), knots, atol=1e-2)
    assert layer.encoding.learnable is learnable
    assert bool(torch.isfinite(layer(torch.from_numpy(X).float())).all())


def test_the_layer_in_a_model(tmp_path):
    torch.manual_seed(0)
    layer = TensorSplineEncoding(5, [(0, 1), (3, 4)], size=6, width=4)
    model = nn.Sequential(layer, nn.Flatten(-2), nn.Linear(layer.out_features, 1))
    x = torch.rand(3, 7, 5)
    assert layer(x).shape == (3, 7, 2, 4)
    torch.save(model.state_dict(), tmp_path / "state")
    other = TensorSplineEncoding(5, [(0, 1), (3, 4)], size=6, width=4)
    loaded = nn.Sequential(other, nn.Flatten(-2), nn.Linear(8, 1))
    loaded.load_state_dict(torch.load(tmp_path / "state"))
    torch.testing.assert_close(loaded(x), model(x))
    assert layer.spacing_penalty().shape == ()
    torch.testing.assert_close(layer(x[..., [0, 1, 2, 3, 4]].clone()), layer(x))
    changed = x.clone()
    changed[..., 2] = 0.5  # is in no pair
    torch.testing.assert_close(layer(changed), layer(x))


def test_a_layer_without_memory():
    with torch.device("meta"):
        layer = TensorSplineEncoding(3, [(0, 2)], n_members=2, width=4)
    assert all(tensor.is_meta for tensor in (*layer.parameters(), *layer.buffers()))


def test_members_of_the_layer():
    layer = TensorSplineEncoding(3, [(0, 2)], n_members=2, width=4)
    assert layer(torch.rand(2, 9, 3)).shape == (2, 9, 1, 4)
    assert layer.spacing_penalty().shape == (2,)
    layer.set_range(np.zeros(3), np.full((2, 3), 10.0))
    assert float(layer.interior_knots().max()) > 1.0


def test_a_missing_value_leaves_a_function_of_the_other():
    layer = TensorSplineEncoding(2, [(0, 1)], width=3)
    x = torch.tensor([[torch.nan, 0.2], [torch.nan, 0.9], [0.5, 0.2]])
    missing = layer(x)
    assert bool(torch.isfinite(missing).all())
    assert not torch.allclose(missing[0], missing[1])
    marked = TensorSplineEncoding(2, [(0, 1)], width=3, missing="indicator")
    assert marked(x).shape == (3, 1, 3)


def test_it_learns_a_surface_that_sums_of_functions_cannot():
    torch.manual_seed(0)
    x = torch.rand(500, 2)
    y = torch.sin(6 * x[:, 0]) * torch.cos(6 * x[:, 1])
    losses = []
    for layer in (TensorSplineEncoding(2, [(0, 1)], size=9, width=4), SplineEncoding(2, size=9)):
        model = nn.Sequential(layer, nn.Flatten(-2), nn.Linear(layer.out_features, 1))
        optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
        for _ in range(200):
            loss = (model(x)[:, 0] - y).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[0] < 0.02
    assert losses[1] > 0.1


@pytest.mark.parametrize("pairs", [[], [(0,)], [(0, 1, 2)], [(0, -1)], [("a", "b")], 3, [[(0, 1)], [(0, 1)], [(0, 2)]]])
def test_wrong_pairs_of_an_embedding(pairs):
    with pytest.raises((ArgumentError, TypeError), match="pairs must be pairs of places|not iterable|iterable"):
        PairEmbedding(pairs, size=4, n_members=2)


def test_wrong_arguments_of_the_layers():
    with pytest.raises(ArgumentError, match="two different features each, from 0 to 2"):
        TensorSplineEncoding(3, [(0, 3)])
    with pytest.raises(ArgumentError, match="two different features each"):
        TensorSplineEncoding(3, [(1, 1)])
    with pytest.raises(ArgumentError, match=r"x must have the shape \(\.\.\., 3\)"):
        TensorSplineEncoding(3, [(0, 1)])(torch.rand(5, 2))
    with pytest.raises(ArgumentError, match="high must have a number for each of the 3 features"):
        TensorSplineEncoding(3, [(0, 1)]).set_range(0.0, [1.0, 2.0])
    with pytest.raises(ArgumentError, match="knots must be given for each of the 3 features"):
        TensorSplineEncoding(3, [(0, 1)], knots=[[0.5]])
    with pytest.raises(ArgumentError, match=r"blocks must have the shape \(\.\.\., n_features, 4\)"):
        PairEmbedding([(0, 2)], size=4)(torch.rand(5, 2, 4))


def test_configurations():
    assert InteractionConfig.from_value(3) == InteractionConfig(3)
    assert InteractionConfig([["a", "b"]]).pairs == (("a", "b"),)
    assert InteractionConfig([(0, 1), (1, 2)], rank=2, width=5).shape == (2, 2, 5)
    for wrong in (True, "pairs", 1.5, {"a": "b"}):
        with pytest.raises(ArgumentTypeError, match="interactions must be 'auto', a number of pairs, or"):
            InteractionConfig(wrong)
    for wrong in (0, [], [("a", "a")], [("a", "b"), ("b", "a")], ["ab"], [("a", 1.5)], [("a", ["b"])]):
        with pytest.raises(ArgumentError, match=r"interactions must .* Write interactions=\[\('latitude'"):
            InteractionConfig(wrong)
    with pytest.raises(ArgumentError, match="rank must be an integer of at least 1"):
        InteractionConfig(1, rank=0)
