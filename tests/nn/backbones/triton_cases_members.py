"""The Triton kernels of stacks against their definitions: on a GPU, or in the interpreter (``TRITON_INTERPRET=1``).

`test_dropout` runs this file in a process of its own; on a GPU it can be run directly.
"""

import pytest
import torch

from knotwork.nn.backbones import triton_dropout
from knotwork.nn.backbones.dropout import keep_mask
from knotwork.nn.backbones.noise import Noise, member_keys

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
TYPES = [torch.float32, torch.bfloat16]


def make_noise(members):
    seeds = torch.tensor([0, 1, 2**31 - 1, 12_345][:members], device=DEVICE)
    return Noise(seeds, torch.tensor([0, 7, 3_000_000, 1][:members], device=DEVICE))


def same(got, expected):
    """Equal, zeros included; but the interpreter cuts float32 off to bfloat16 where a GPU rounds."""
    assert got.dtype == expected.dtype
    assert torch.equal(got == 0, expected == 0)
    tolerance = 2**-7 if got.dtype == torch.bfloat16 and not GPU else 0
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=0)


@pytest.mark.parametrize("p", [0.1, 0.75])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(3, 40, 65), (4, 1, 1), (2, 2048)])
def test_dropout(shape, dtype, p):
    x, gradient = (torch.randn(shape, device=DEVICE).to(dtype) for _ in range(2))
    noise = make_noise(shape[0])
    keep, scale = keep_mask(x, p, noise, 1), 1 / (1 - p)
    y, keys = triton_dropout.forward(x, p, noise, 1, relu=False)
    assert torch.equal(keys, member_keys(noise, 1))
    same(y, torch.where(keep, x * scale, 0))
    same(triton_dropout.backward(gradient, p, keys), torch.where(keep, gradient * scale, 0))
    y, _ = triton_dropout.forward(x, p, noise, 1, relu=True)
    same(y, torch.where(keep, torch.relu(x) * scale, 0))
    same(triton_dropout.relu_backward(gradient, y, p), torch.where(y > 0, gradient * scale, 0))
