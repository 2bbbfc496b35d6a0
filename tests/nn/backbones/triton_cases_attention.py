"""The Triton kernels of attention, gated units and layer norm against plain torch: on a GPU, or in the interpreter.

`test_attention` runs this file in a process of its own (``TRITON_INTERPRET=1``); on a GPU it can be run directly.
"""

import pytest
import torch

from knotwork.nn.backbones import attention as attention_file
from knotwork.nn.backbones import layer_norm as layer_norm_file
from knotwork.nn.backbones import reglu as reglu_file
from knotwork.nn.backbones import triton_keys, triton_layer_norm
from knotwork.nn.backbones.dropout import dropout
from knotwork.nn.backbones.noise import Noise, member_keys

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
# The interpreter multiplies no bfloat16, and rounds to it towards zero.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 4e-3} | ({torch.bfloat16: 3e-2} if GPU else {})


def close(got, expected, tolerance):
    scale = max(float(expected.abs().max()), 1e-6)
    torch.testing.assert_close(got.cpu().double() / scale, expected.cpu().double() / scale, rtol=0, atol=tolerance)


def make_noise(n_members):
    return Noise(torch.arange(n_members, device=DEVICE) * 977 + 3, torch.full((n_members,), 12, device=DEVICE))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("p", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("shape", [(3, 2, 5, 2, 24), (2, 3, 15, 3, 24), (1, 2, 33, 2, 24), (2, 1, 16, 1, 8)])
def test_attention(shape, p, dtype):
    n_members, n_rows, n_tokens, n_heads, width = shape
    torch.manual_seed(0)
    qkv = (2 * torch.randn(n_members, n_rows, n_tokens, 3 * n_heads * width, device=DEVICE)).to(dtype)
    grad = torch.randn(n_members, n_rows, n_tokens, n_heads * width, device=DEVICE).to(dtype)
    keys = member_keys(make_noise(n_members), 5) if p else None
    exact = qkv.double().requires_grad_()
    expected = attention_file._attention_plain(exact, n_heads, p, keys)
    (expected_grad,) = torch.autograd.grad(expected, exact, grad.double())
    leaf = qkv.clone().requires_grad_()
    got = attention_file._ShortAttention.apply(leaf, keys, n_heads, p, False)
    (got_grad,) = torch.autograd.grad(got, leaf, grad)
    assert got.dtype == got_grad.dtype == dtype
    close(got.detach(), expected.detach(), TOLERANCES[dtype])
    close(got_grad, expected_grad, TOLERANCES[dtype])
    alone = qkv[-1:].clone().requires_grad_()
    once = attention_file._ShortAttention.apply(alone, None if keys is None else keys[-1:], n_heads, p, False)
    assert torch.equal(once[0], got[-1]), "a member alone must give the same bits"
    assert torch.equal(torch.autograd.grad(once, alone, grad[-1:])[0][0], got_grad[-1])


def test_keys():
    noise = make_noise(3)
    for stream in (0, 1, 7):
        assert torch.equal(triton_keys.member_keys(noise, stream), member_keys(noise, stream))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("shape", [(3, 7, 2, 170), (2, 40, 64), (1, 5)])
def test_reglu(shape, p, dtype):
    torch.manual_seed(0)
    x = torch.randn(*shape[:-1], 2 * shape[-1], device=DEVICE).to(dtype)
    x[0, ..., -1] = 0.0
    noise = make_noise(shape[0])
    exact = x.double().requires_grad_()
    expected = dropout(reglu_file._reglu_plain(exact), p, noise, 4)
    grad = torch.randn(shape, device=DEVICE).to(dtype)
    (expected_grad,) = torch.autograd.grad(expected, exact, grad.double())
    leaf = x.clone().requires_grad_()
    got = reglu_file._Reglu.apply(leaf, member_keys(noise, 4), p)
    (got_grad,) = torch.autograd.grad(got, leaf, grad)
    assert got.dtype == got_grad.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 8e-3
    close(got.detach(), expected.detach(), tolerance)
    close(got_grad, expected_grad, tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(2, 9, 5, 24), (2, 50, 192), (1, 3, 1000), (2, 1, 1)])
def test_layer_norm(shape, dtype, monkeypatch):
    monkeypatch.setattr(triton_layer_norm, "MOST_PARTS", 2)  # so that programs of 50 rows take several blocks
    torch.manual_seed(0)
    x = (3 * torch.randn(shape, device=DEVICE) + 5).to(dtype)
    grad = torch.randn(shape, device=DEVICE).to(dtype)
    weight, bias = (torch.randn(shape[0], shape[-1], device=DEVICE) for _ in range(2))
    exact = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    expected = layer_norm_file._layer_norm_plain(*exact, 1e-5)
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    got = layer_norm_file._LayerNorm.apply(*leaves, 1e-5)
    gradients = torch.autograd.grad(got, leaves, grad)
    tolerance = 2e-6 if dtype == torch.float32 else 8e-3
    close(got.detach(), expected.detach(), tolerance)
    assert got.dtype == dtype
    for own, plain, leaf in zip(gradients, torch.autograd.grad(expected, exact, grad.double()), leaves, strict=True):
        assert own.dtype == leaf.dtype
        close(own, plain, tolerance)
    alone = [tensor[:1].detach().requires_grad_() for tensor in leaves]
    once = torch.autograd.grad(layer_norm_file._LayerNorm.apply(*alone, 1e-5), alone, grad[:1])
    assert all(torch.equal(own[:1], other) for own, other in zip(gradients, once, strict=True))
