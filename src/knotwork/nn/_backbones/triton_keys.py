"""The members' keys in one Triton kernel: plain torch needs a launch for every step of the formula."""

import torch
import triton
from torch import Tensor
from triton import language as tl

from knotwork.nn._backbones.noise import Noise
from knotwork.nn._backbones.triton_dropout import member_key

__all__ = ["member_keys"]


@triton.jit(do_not_specialize=["stream"])
def _member_keys(seeds_pointer, steps_pointer, out_pointer, stream):
    member = tl.program_id(0)
    tl.store(out_pointer + member, member_key(seeds_pointer, steps_pointer, member, stream).to(tl.int64))


def member_keys(noise: Noise, stream: int) -> Tensor:
    """Return `knotwork.nn._backbones.noise.member_keys`."""
    out = torch.empty_like(noise.seeds)
    _member_keys[(len(out),)](noise.seeds.contiguous(), noise.step.contiguous(), out, stream, num_warps=1)
    return out
