"""TabM against its formula in float64, and its initial parameters against their definition."""

import numpy as np
import pytest
import torch

from knotwork import nn as knn
from knotwork.errors import ArgumentError
from knotwork.nn._flat import mean_prediction


def seeds(n_members):
    return torch.arange(n_members) + 11


def formula(network, member, x):
    """Return all predictions of a member for rows of shape (n, d_in), of shape (n, n_predictions, d_out)."""
    factors, weight, bias = (
        tensor[member].detach().double().numpy()
        for tensor in (network.adapters.values, network.heads.weight, network.heads.bias)
    )
    predictions = []
    for place in range(network.n_predictions):
        hidden = x.double().numpy() * factors[place]
        for layer in (network.first, *network.layers):
            shared, shift = (tensor[member].detach().double().numpy() for tensor in (layer.weight, layer.bias))
            hidden = np.maximum(hidden @ shared + shift, 0.0)
        predictions.append(hidden @ weight[place] + bias[place])
    return np.stack(predictions, axis=1)


@pytest.mark.parametrize("d_out", [1, 2, 3])
@pytest.mark.parametrize("widths", [(9,), (9, 6, 5)])
def test_outputs_are_those_of_the_formula(d_out, widths):
    network = knn.TabM(7, d_out, widths=widths, n_predictions=4, dropout=0.0, n_members=3)
    x = torch.randn(3, 20, 7)
    for member in range(3):
        every = formula(network, member, x[member])
        np.testing.assert_allclose(network.train()(x)[member].detach(), every, rtol=1e-5, atol=1e-5)
        if d_out == 1:
            mean = every.mean(axis=1)
        else:  # logarithms of the mean probabilities
            shares = np.exp(every) / np.exp(every).sum(axis=-1, keepdims=True)
            mean = np.log(shares.mean(axis=1))
        np.testing.assert_allclose(network.eval()(x)[member].detach(), mean, rtol=1e-5, atol=1e-5)


def test_a_single_prediction_is_an_mlp_behind_factors():
    network = knn.TabM(5, 1, widths=(8, 6), n_predictions=1).eval()
    mlp = knn.MLP(5, 1, widths=(8, 6)).eval()
    state = {name: tensor for name, tensor in network.state_dict().items() if name in mlp.state_dict()}
    head = {f"layers.1.{name}": getattr(network.heads, name)[:, 0] for name in ("weight", "bias")}
    mlp.load_state_dict({**state, **head})
    x = torch.randn(30, 5)
    torch.testing.assert_close(network(x), mlp(x * network.adapters.values[0, 0]))


def test_means_of_extreme_logits_are_finite():
    logits = torch.tensor([[[200.0, -200.0]], [[-200.0, 200.0]]])
    torch.testing.assert_close(mean_prediction(logits, 0, logits=True).exp(), torch.full((1, 2), 0.5))
    assert mean_prediction(logits.bfloat16(), 0, logits=True).dtype == torch.float32
    assert mean_prediction(logits.double(), 0, logits=True).dtype == torch.float64


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("d_out", [1, 2])
def test_gradients_are_those_of_finite_differences(d_out, training):
    torch.manual_seed(0)
    network = knn.TabM(3, d_out, widths=(4, 3), n_predictions=2, n_members=2, dropout=0.0).double().train(training)
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in network.named_parameters()]

    def outputs(x, *parameters):
        return torch.func.functional_call(network, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(outputs, (x, *network.parameters()))


def test_a_loss_per_prediction_does_not_reach_the_others():
    network = knn.TabM(3, 1, widths=(4,), n_predictions=3, dropout=0.0)
    network(torch.randn(10, 3))[:, 1].square().mean().backward()
    for parameter in (network.adapters.values, network.heads.weight, network.heads.bias):
        reached = parameter.grad[0].flatten(1).abs().sum(dim=1) > 0
        assert reached.tolist() == [False, True, False]


def test_dropout_differs_between_predictions():
    network = knn.TabM(3, 1, widths=(64,), n_predictions=2, dropout=0.5)
    with torch.no_grad():
        for tensor in (network.adapters.values, network.heads.weight, network.heads.bias):
            tensor.copy_(tensor[:, :1].expand_as(tensor))  # both predictions have the same weights
    x = torch.rand(20, 3)
    dropped, complete = network(x), network.eval()(x)
    assert not torch.allclose(dropped[:, 0], dropped[:, 1])
    assert not torch.allclose(dropped[:, 0], complete)


def test_factors_start_as_normal_numbers_which_the_columns_of_a_feature_share():
    torch.manual_seed(0)
    network = knn.TabM(200 * 3 + 50, 1, widths=(4,), n_predictions=40, blocks=(200, 3))
    of_blocks, rest = network.adapters.values[0].detach().split([600, 50], dim=1)
    of_features = of_blocks.unflatten(1, (200, 3))
    assert torch.equal(of_features, of_features[..., :1].expand_as(of_features))
    for values in (of_features[..., 0], rest):
        assert abs(float(values.mean())) < 0.07
        assert float(values.var()) == pytest.approx(1.0, rel=0.07)
    assert len(of_features[..., 0].unique()) > 0.99 * 200 * 40


def test_initial_parameters_of_a_block_do_not_depend_on_its_padding():
    narrow, wide = (
        knn.TabM(3 * size + 2, 1, widths=(6,), n_predictions=4, blocks=(3, size), n_members=2) for size in (4, 7)
    )
    for network in (narrow, wide):
        network.first.fan_in.fill_(14.0)
        knn.initialise(network, seeds(2))
    for name, axis in (("adapters.values", 2), ("first.weight", 1)):
        one, other = (network.get_parameter(name) for network in (narrow, wide))
        one_blocks, one_rest = one.split([12, 2], dim=axis)
        other_blocks, other_rest = other.split([21, 2], dim=axis)
        same_columns = other_blocks.unflatten(axis, (3, 7)).narrow(axis + 1, 0, 4)
        assert torch.equal(one_blocks.unflatten(axis, (3, 4)), same_columns)
        assert torch.equal(one_rest, other_rest)
    assert torch.equal(narrow.heads.weight, wide.heads.weight)


def test_heads_start_as_linear_layers():
    torch.manual_seed(0)
    heads = knn.TabM(3, 20, widths=(400,), n_predictions=8).heads
    weight, bias = heads.weight.detach(), heads.bias.detach()
    for tensor in (weight, bias):
        assert float(tensor.abs().max()) <= 1 / 20 * (1 + 1e-6)
    assert float(weight.std()) == pytest.approx(1 / 20 / 3**0.5, rel=0.02)


@pytest.mark.parametrize("settings", [{"n_predictions": 0}, {"widths": (0,)}, {"dropout": 1.0}])
def test_wrong_settings_are_named(settings):
    (name,) = settings
    with pytest.raises(ArgumentError, match=name):
        knn.TabMConfig(**settings)
