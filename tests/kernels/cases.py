"""Where the kernels are tested, how an operation is made to take its Triton path, and how far it may be off."""

import itertools
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from knotwork._kernels import dispatch

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def combinations(*axes, usual):
    """Return all combinations of these lists as cases of a test; those that are not `usual` are slow."""
    return [pytest.param(*each, marks=() if usual(*each) else pytest.mark.slow) for each in itertools.product(*axes)]


def attention_tolerance(queries, keys, values, factors, unit=2**-24):
    """Return how far attention may be off, for tensors of shape (..., T, D) and factors of the weights, all in float64.

    A score is a sum of D products over sqrt(D). It is off by (D + 4) units of rounding of the sum of absolute values:
    one for each sum and product, the others for the root, the base of the exponential and the difference to the largest
    score. With scores off by e_j, the result y = sum_j w_j x_j, where x_j is a value times its factor and weights add
    up to 1, becomes y' = sum_j w_j exp(e_j) x_j / sum_j w_j exp(e_j). Because of sum_j w_j (x_j - y) = 0,
    |y' - y| <= exp(max |e|) sum_j w_j (exp(|e_j|) - 1) |x_j - y|: little where one weight is nearly 1, as it mostly is
    among large scores. Exponentials, the T products with values and both sums are off by 2 T + 8 further units.
    """
    size, n_tokens = keys.shape[-1], keys.shape[-2]
    weights = (queries @ keys.transpose(-1, -2) * size**-0.5).softmax(dim=-1)
    errors = (size + 4) * unit * (queries.abs() @ keys.abs().transpose(-1, -2)) * size**-0.5
    results = (weights * factors) @ values
    parts = factors[..., None] * values[..., None, :, :] - results[..., None, :]
    moved = errors.amax(dim=-1, keepdim=True).exp() * ((weights * errors.expm1())[..., None] * parts.abs()).sum(dim=-2)
    tiny = torch.finfo(torch.float32).tiny  # weights below it may become 0
    return moved + ((2 * n_tokens + 8) * unit * weights * factors + tiny * factors) @ values.abs()


@pytest.fixture
def on_triton(monkeypatch):
    """Let operations take their Triton kernels, wherever tensors are and in float16 too; not in float64."""
    types = (torch.float32, torch.bfloat16, torch.float16)
    monkeypatch.setattr(dispatch, "on_triton", lambda tensor: tensor.dtype in types)


def _let_loops_end_at_numbers():
    """Let interpreted loops have ends that are arguments: the interpreter stores these as arrays of one number each."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


def _let_the_interpreter_do_nothing_twice():
    """Let functions that kernels call find the language as their kernel has left it, and leave out what has no effect.

    For every call of a function the interpreter replaces the whole language anew. For every sum of integers it computes
    whether it overflows, and then drops the answer, because it is not asked to debug. To see that two shapes are alike
    it builds half a dozen new ones.
    """
    from triton import language
    from triton.language.semantic import TritonSemantic
    from triton.runtime import interpreter

    original, everything = interpreter._patch_lang, SimpleNamespace(__globals__={"tl": language, "core": language.core})
    interpreter._patch_lang = lambda function: original(everything)
    interpreter.InterpretedFunction.__call__ = lambda self, *given, **settings: self.rewrite()(*given, **settings)
    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = replace(builder.options, sanitize_overflow=False)
    broadcast = TritonSemantic.broadcast_impl_value

    def broadcast_if_shapes_differ(self, one, other):
        alike = one.type.is_block() and other.type.is_block() and one.type.shape.values == other.type.shape.values
        return (one, other) if alike else broadcast(self, one, other)

    TritonSemantic.broadcast_impl_value = broadcast_if_shapes_differ


if INTERPRETED:
    _let_loops_end_at_numbers()
    _let_the_interpreter_do_nothing_twice()
