"""What every backbone must hold, alone as an ordinary module and with an axis of members."""

import pytest
import torch

from knotwork import nn as knn
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.nn._backbones import BACKBONES, make_backbone
from knotwork.nn._linear import initialise

SMALL = {
    "mlp": {"widths": (12, 8)},
    "resnet": {"width": 12, "n_blocks": 2, "hidden": 16},
    "tabm": {"widths": (12, 8), "n_predictions": 4},
    "realmlp": {"widths": (12, 8)},
    "ft": {"d_token": 16, "n_blocks": 2, "n_heads": 4},
    "ft by coordinate": {"d_token": 16, "n_blocks": 2, "n_heads": 4, "tokens": "coordinate"},
}


def make(name, n_members=None, **settings):
    settings = SMALL[name] | settings
    if name.startswith("ft"):
        return knn.FTTransformer([4, 4, 2], 2, cardinalities=[3], **settings, n_members=n_members)
    kind = {"mlp": knn.MLP, "resnet": knn.ResNet, "tabm": knn.TabM, "realmlp": knn.RealMLP}[name]
    return kind(12, 2, **settings, n_members=n_members)


def inputs(name, *lead):
    if name.startswith("ft"):
        blocks = torch.rand(*lead, 3, 4)
        blocks[..., 2, 2:] = 0.0  # the third feature has two columns
        return blocks, torch.randint(3, (*lead, 1))
    return (torch.rand(*lead, 12),)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("lead", [(), (7,), (3, 5)])
def test_any_batch_dimensions(name, lead):
    network = make(name).eval()
    x = inputs(name, *lead)
    out = network(*x)
    assert out.shape == (*lead, 2)
    flat = network(*(tensor.reshape(-1, *tensor.shape[len(lead) :]) for tensor in x))
    torch.testing.assert_close(out.reshape(-1, 2), flat)


@pytest.mark.parametrize("name", SMALL)
def test_members_are_networks_of_their_own(name):
    stack = make(name, n_members=3)
    x = inputs(name, 3, 20)
    if name == "resnet":
        stack(*x)  # running statistics of its own for every member
    stack.eval()
    out = stack(*x)
    for member in range(3):
        alone = make(name).eval()
        alone.load_state_dict({key: value[member : member + 1] for key, value in stack.state_dict().items()})
        torch.testing.assert_close(alone(*(tensor[member] for tensor in x)), out[member])
    assert not torch.allclose(out[0], out[1])


@pytest.mark.parametrize("name", SMALL)
def test_state_dict_and_seed(name):
    torch.manual_seed(0)
    one = make(name)
    torch.manual_seed(0)
    other = make(name)
    for key, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key
    third = make(name)
    assert any(not torch.equal(value, third.state_dict()[key]) for key, value in one.state_dict().items())
    third.load_state_dict(one.state_dict())
    x = inputs(name, 5)
    torch.testing.assert_close(one.eval()(*x), third.eval()(*x))


@pytest.mark.parametrize("name", SMALL)
def test_parameters_start_by_their_seed_alone(name):
    stack, pair = make(name, n_members=3), make(name, n_members=2)
    initialise(stack, torch.tensor([5, 6, 7]))
    initialise(pair, torch.tensor([7, 5]))
    for (key, value), other in zip(stack.named_parameters(), pair.parameters(), strict=True):
        assert torch.equal(value[2], other[0]), key
        assert torch.equal(value[0], other[1]), key


def test_linear_layers_start_as_those_of_torch():
    layer = knn.MLP(400, 1, widths=(300,), n_members=2).first
    bound = 1 / 20
    weight, bias = layer.weight.detach(), layer.bias.detach()
    for tensor in (weight, bias):
        assert float(tensor.abs().max()) <= bound * (1 + 1e-6)
    assert float(weight.abs().max()) > 0.999 * bound
    assert abs(float(weight.mean())) < 0.02 * bound
    assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.01)


@pytest.mark.parametrize("name", SMALL)
def test_every_parameter_has_a_gradient_and_dropout_an_effect(name):
    network = make(name)
    x = inputs(name, 50)
    grads = torch.autograd.grad(network(*x).square().sum(), list(network.parameters()))
    for (key, parameter), grad in zip(network.named_parameters(), grads, strict=True):
        if key != "tokenizer.weight":  # columns that pad a block have none
            assert bool((grad != 0).any()), key
        assert grad.shape == parameter.shape
    if name != "resnet":
        assert not torch.allclose(network(*x), network(*x))
    network.eval()
    torch.testing.assert_close(network(*x), network(*x))


def test_coordinate_tokens_leave_out_padding():
    network = make("ft by coordinate").eval()
    assert network.tokenizer.n_tokens == 1 + (4 + 4 + 2) + 1
    blocks, codes = inputs("ft by coordinate", 6)
    other = blocks.clone()
    other[..., 2, 2:] = 7.0
    torch.testing.assert_close(network(blocks, codes), network(other, codes))


@pytest.mark.parametrize("name", BACKBONES)
def test_configurations_check_themselves(name):
    assert make_backbone(name) == BACKBONES[name]()
    with pytest.raises(ArgumentError, match="'colour'"):
        make_backbone(name, {"colour": 3})
    field = "attention_dropout" if name == "ft" else "dropout"
    for wrong in (-0.1, 1.0):
        with pytest.raises(ArgumentError, match=field):
            make_backbone(name, {field: wrong})
    with pytest.raises(ArgumentTypeError, match=field):
        make_backbone(name, {field: "much"})
    with pytest.raises(ArgumentError, match="n_heads" if name == "ft" else "width|must be an integer"):
        make_backbone(name, {"n_heads": 5} if name == "ft" else {"width": 0} if name == "resnet" else {"widths": (0,)})


def test_unknown_backbones_are_refused():
    with pytest.raises(ArgumentError, match="'mlp', 'resnet', 'tabm', 'realmlp', 'ft'"):
        make_backbone("cnn")
    with pytest.raises(ArgumentTypeError, match="configuration"):
        make_backbone(torch.nn.Linear(2, 2))
    with pytest.raises(ArgumentError, match="leading axis of 4 members"):
        make("mlp", n_members=4)(torch.rand(3, 5, 12))


def test_an_ft_transformer_of_categories_alone():
    network = knn.FTTransformer([], 2, cardinalities=[3, 4], d_token=16, n_heads=2, n_members=2)
    codes = torch.tensor([[0, 0], [2, 3], [1, 2]]).expand(2, -1, -1)
    out = network(torch.zeros(2, 3, 0, 0), codes)
    assert out.shape == (2, 3, 2)
    assert bool((out[:, 0] != out[:, 1]).all())


def test_an_ft_transformer_knows_autocast():
    network, (blocks, codes) = make("ft").eval(), inputs("ft", 6)
    with torch.autocast("cpu", torch.bfloat16):
        out = network(blocks, codes)
        out.float().sum().backward()
    torch.testing.assert_close(out.float(), network(blocks, codes), rtol=0.05, atol=0.05)
    assert all(bool(parameter.grad.isfinite().all()) for parameter in network.parameters())


@pytest.mark.parametrize(
    ("blocks", "codes", "message"),
    [
        ((6, 2, 4), (6, 1), r"blocks must be of shape \(\.\.\., 3, 4\)"),
        ((6, 3, 5), (6, 1), r"blocks must be of shape \(\.\.\., 3, 4\)"),
        ((6, 3, 4), (6, 2), "codes must have 1 columns"),
        ((6, 3, 4), None, "codes must have 1 columns"),
    ],
)
@pytest.mark.parametrize("name", ["ft", "ft by coordinate"])
def test_other_features_than_the_network_was_made_for_are_refused(name, blocks, codes, message):
    with pytest.raises(ArgumentError, match=message):
        make(name)(torch.rand(blocks), None if codes is None else torch.zeros(codes, dtype=torch.int64))
