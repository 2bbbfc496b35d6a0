"""The encoding layers in other people's code: raw values, shapes, checkpoints, `torch.func`, double backward, ONNX."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import knotwork as kw
from tests.nn.test_encoding import FAMILIES, inputs, make, usually


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "cyclic"])  # which wraps all values
def test_raw_values_are_warned_of_once(family):
    layer = make(family, 2, 7)
    ages = 20.0 + 50.0 * inputs(5, 2)
    with pytest.warns(UserWarning, match=r"values from 2\d.* to [5-7]\d.*, .*set_range\(low, high\)"):
        layer(ages)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(ages)
        make(family, 2, 7).set_range(20.0, 70.0)(ages)
        make(family, 2, 7)(torch.tensor([[0.0, 1.0], [torch.nan, 0.5]]))


def test_raw_values_after_a_first_pass_in_range_are_warned_of():
    layer = kw.nn.SplineEncoding(2, 7)
    layer(inputs(5, 2))
    with pytest.warns(UserWarning, match="set_range"):
        layer(100.0 * inputs(5, 2))


@pytest.mark.parametrize("missing", ["zeros", "indicator"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_layer_knows_its_width(family, missing):
    layer = make(family, 3, 7, missing=missing)
    encoded = layer(inputs(4, 3))
    assert encoded.shape[1:] == layer.get_output_shape()
    assert nn.Linear(layer.out_features, 2)(encoded.flatten(-2)).shape == (4, 2)


def test_a_range_is_loaded_into_a_layer_without_one():
    first = nn.Sequential(kw.nn.SplineEncoding(2, 7).set_range([0.0, 10.0], [5.0, 20.0]))
    second = nn.Sequential(kw.nn.SplineEncoding(2, 7))
    second.load_state_dict(first.state_dict())
    x = torch.tensor([[1.0, 12.0], [4.0, 19.0]])
    torch.testing.assert_close(second(x), first(x), rtol=0, atol=0)
    second[0].low.add_(1.0)
    assert first[0].low.tolist() == [0.0, 10.0]  # the range is copied


@pytest.mark.parametrize(("low", "high", "name"), [([0.0] * 3, 1.0, "low"), (0.0, [[1.0, 1.0]], "high")])
def test_a_range_of_the_wrong_length(low, high, name):
    with pytest.raises(ValueError, match=rf"{name} must be a number or have the shape \(2,\), got {name}=\("):
        kw.nn.SplineEncoding(2, 7).set_range(low, high)
    members = kw.nn.SplineEncoding(2, 7, n_members=3).set_range([0.0, 1.0], torch.full((3, 2), 2.0))
    assert members.low.tolist() == [[0.0, 1.0]] * 3


@pytest.mark.parametrize("family", FAMILIES)
def test_double_backward(family):
    layer = make(family, 2, 7).double()
    x = inputs(3, 2).double().requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda values, logits: _encoded(layer, values, logits), (x, layer.logits.detach().requires_grad_())
    )
    (slopes,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    (once,) = torch.autograd.grad(layer(x).square().sum(), x)
    torch.testing.assert_close(slopes, once)
    slopes.square().sum().backward()  # a gradient penalty
    assert float(layer.logits.grad.abs().sum()) > 0


def _encoded(layer, x, logits):
    return torch.func.functional_call(layer, {"logits": logits}, (x,))


@pytest.mark.parametrize("family", FAMILIES)
def test_transforms_of_functions(family):
    layer = make(family, 2, 7)
    x = inputs(3, 4, 2)
    torch.testing.assert_close(torch.vmap(layer)(x), layer(x))
    per_row = torch.vmap(torch.func.grad(lambda logits, row: _encoded(layer, row, logits).square().sum()), (None, 0))
    expected = torch.autograd.grad(layer(x[0]).square().sum(), layer.logits)[0]
    torch.testing.assert_close(per_row(layer.logits.detach(), x[0]).sum(dim=0), expected, rtol=1e-3, atol=1e-4)
    jacobian = torch.autograd.functional.jacobian(layer, x[0, 0])
    torch.testing.assert_close(torch.func.jacrev(layer)(x[0, 0]), jacobian, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", usually("bspline", "mspline", "ispline", "natural", "thin_plate"))
def test_export(family, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the onnx extra is NOT installed: exports are not tested")
    layer = make(family, 2, 7).set_range(0.0, 2.0)
    x, others = 2.0 * inputs(5, 2), 2.0 * inputs(9, 2, seed=1)
    exported = torch.export.export(layer, (x,))
    torch.testing.assert_close(exported.module()(x), layer(x), rtol=1e-5, atol=1e-5)
    assert "knotwork" not in str(exported.graph)  # no operation that other programs lack
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter warns of itself
        torch.onnx.export(
            layer, (x,), tmp_path / "layer.onnx", dynamo=False, input_names=["x"], dynamic_axes={"x": [0]}
        )
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    predicted = session.run(None, {"x": others.numpy()})[0]
    np.testing.assert_allclose(predicted, layer(others).detach().numpy(), rtol=0, atol=1e-5)
