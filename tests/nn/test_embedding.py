"""The embedding of features: its product, its initial weights, and members."""

import pytest
import torch

from knotwork.errors import ArgumentError
from knotwork.nn import FeatureEmbedding, SplineEncoding, initialise


def test_each_feature_has_a_linear_map():
    layer = FeatureEmbedding(3, size=5, width=4)
    blocks = torch.randn(7, 2, 3, 5)
    expected = torch.einsum("abfs,fsd->abfd", blocks, layer.weight[0]) + layer.bias[0]
    torch.testing.assert_close(layer(blocks), expected)
    rectified = FeatureEmbedding(3, size=5, width=4, relu=True)
    rectified.load_state_dict(layer.state_dict())
    torch.testing.assert_close(rectified(blocks), expected.relu())


def test_members_have_their_own_weights():
    layer = FeatureEmbedding(3, size=5, width=4, n_members=2)
    blocks = torch.randn(2, 7, 3, 5)
    expected = torch.einsum("mbfs,mfsd->mbfd", blocks, layer.weight) + layer.bias[:, None]
    torch.testing.assert_close(layer(blocks), expected)
    assert not torch.equal(layer.weight[0], layer.weight[1])


def test_gradients():
    layer = FeatureEmbedding(2, size=3, width=2, relu=True, n_members=2).double()
    blocks = torch.randn(2, 4, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (blocks, layer.weight, layer.bias))


def test_initial_weights_do_not_depend_on_padding():
    seeds = torch.tensor([3, 3])
    wide = FeatureEmbedding(2, size=8, width=4, n_members=2)
    wide.set_fan_in([[8, 8], [5, 2]])
    narrow = FeatureEmbedding(2, size=5, width=4, n_members=2)
    narrow.set_fan_in([[5, 5], [5, 2]])
    for layer in (wide, narrow):
        initialise(layer, seeds)
    torch.testing.assert_close(wide.weight[1, :, :5], narrow.weight[1])
    torch.testing.assert_close(wide.bias[1], narrow.bias[1])
    bounds = wide.weight.abs().amax(dim=(2, 3)), narrow.bias.abs().amax(dim=2)
    for largest, fan_in in zip(bounds, (wide.fan_in, narrow.fan_in), strict=True):
        assert bool((largest <= fan_in.rsqrt()).all())
    assert bool((bounds[0] > 0.7 * wide.fan_in.rsqrt()).all())


def test_behind_an_encoding():
    layers = torch.nn.Sequential(SplineEncoding(3, size=7), FeatureEmbedding(3, size=7, width=2), torch.nn.Flatten(-2))
    assert layers(torch.rand(5, 3)).shape == (5, 6)


@pytest.mark.parametrize("shape", [(5, 3, 6), (5, 2, 5), (5,)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(ArgumentError, match=r"blocks must have the shape \(\.\.\., 3, 5\)"):
        FeatureEmbedding(3, size=5)(torch.zeros(shape))
