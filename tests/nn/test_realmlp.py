"""RealMLP against its formula in float64, and its initial parameters against their definition."""

import numpy as np
import pytest
import torch

from knotwork import nn as knn
from knotwork.errors import ArgumentError
from knotwork.nn._flat import NormalLinear
from knotwork.nn._linear import make_draw, normal

SELU = 1.0507009873554805, 1.6732632423543772
FORMULAS = {
    "selu": lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu": lambda x: np.maximum(x, 0.0),
}


def seeds(n_members):
    return torch.arange(n_members) + 11


@pytest.mark.parametrize("activation", FORMULAS)
def test_outputs_are_those_of_the_formula(activation):
    network = knn.RealMLP(7, 2, widths=(9, 5), activation=activation, n_members=3).eval()
    network.first.fan_in.copy_(torch.tensor([7.0, 4.0, 1.0]))
    with torch.no_grad():
        network.factors.uniform_(-2.0, 2.0)
    x = torch.randn(3, 20, 7)
    out = network(x).detach().numpy()
    for member in range(3):
        hidden = x[member].double().numpy() * network.factors[member].detach().double().numpy()
        for place, layer in enumerate((network.first, *network.layers)):
            if place:
                hidden = FORMULAS[activation](hidden)
            weight, bias = (tensor[member].detach().double().numpy() for tensor in (layer.weight, layer.bias))
            hidden = hidden @ weight / np.sqrt(float(layer.fan_in[member])) + bias
        np.testing.assert_allclose(out[member], hidden, rtol=1e-5, atol=1e-5)


def test_the_activation_follows_the_task():
    assert knn.RealMLP(3, 1).activation == "mish"
    assert knn.RealMLP(3, 2).activation == "selu"
    assert knn.RealMLP(3, 2, activation="relu").activation == "relu"
    with pytest.raises(ArgumentError, match="activation must be one of 'auto', 'selu', 'mish', 'relu'"):
        knn.RealMLP(3, 1, activation="tanh")


def test_gradients_are_those_of_finite_differences():
    network = knn.RealMLP(4, 1, widths=(5, 3), n_members=2, dropout=0.0).double()
    x = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in network.named_parameters()]

    def outputs(x, *parameters):
        return torch.func.functional_call(network, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(outputs, (x, *network.parameters()))


def test_weights_start_as_normal_numbers():
    layer = knn.RealMLP(300, 1, widths=(400,), n_members=1).first
    values = layer.weight.detach()
    assert abs(float(values.mean())) < 0.01
    assert float(values.std()) == pytest.approx(1.0, rel=0.01)
    assert float(values.pow(4).mean()) == pytest.approx(3.0, rel=0.05)


def test_normal_numbers_are_finite_even_for_a_draw_that_rounds_to_one():
    assert bool(normal(lambda n: torch.ones(2, n), 3).isfinite().all())


def test_weights_of_a_block_do_not_depend_on_its_padding():
    narrow, wide = (knn.RealMLP(3 * size + 2, 1, widths=(6,), blocks=(3, size), n_members=2) for size in (4, 7))
    for network in (narrow, wide):
        knn.initialise(network, seeds(2))
    wide_blocks = wide.first.weight[:, :21].unflatten(1, (3, 7))
    assert torch.equal(narrow.first.weight[:, :12].unflatten(1, (3, 4)), wide_blocks[:, :, :4])
    assert torch.equal(narrow.first.weight[:, 12:], wide.first.weight[:, 21:])


def test_layers_that_start_from_rows_have_outputs_of_variance_one_that_change_their_sign():
    network = knn.RealMLP(6, 2, widths=(40, 30), n_members=3)
    knn.initialise(network, seeds(3))
    rows = torch.rand(3, 500, 6) * torch.tensor([1.0, 0.1, 10.0, 1.0, 1.0, 0.0]) + 3.0
    network.start_from(rows, make_draw(seeds(3), 5))
    hidden = rows
    for layer in (network.first, *network.layers):
        out = layer.product(hidden) / layer.fan_in.sqrt()[:, None, None] + layer.bias[:, None]
        torch.testing.assert_close(out.std(dim=1, correction=0), torch.ones_like(out[:, 0]), rtol=1e-3, atol=1e-3)
        assert bool(((out > 0).any(dim=1) & (out < 0).any(dim=1)).all()), "a mean of rows lies among the rows"
        assert bool((layer.bias[0] != layer.bias[1]).any())
        hidden = torch.selu(out)


def test_a_layer_without_variation_keeps_its_scale():
    layer = NormalLinear(1, 2, 4)
    knn.initialise(layer, seeds(1))
    before = layer.weight.detach().clone()
    with torch.no_grad():
        out = layer.start_from(torch.ones(1, 10, 2), make_draw(seeds(1), 5))
    assert torch.equal(layer.weight, before)
    torch.testing.assert_close(out, torch.zeros(1, 10, 4), rtol=0, atol=1e-5)


def test_parameters_that_start_from_rows_do_not_depend_on_neighbours():
    rows = torch.randn(3, 100, 6)
    stack, pair = knn.RealMLP(6, 1, widths=(8, 5), n_members=3), knn.RealMLP(6, 1, widths=(8, 5), n_members=2)
    index = torch.tensor([2, 0])
    for network, of_members, values in ((stack, seeds(3), rows), (pair, seeds(3)[index], rows[index])):
        knn.initialise(network, of_members)
        network.start_from(values, make_draw(of_members, 5))
    for one, other in zip(stack.parameters(), pair.parameters(), strict=True):
        torch.testing.assert_close(one[index], other, rtol=1e-5, atol=1e-5)
