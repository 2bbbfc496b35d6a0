"""The fused Triton kernels against the compiled loops: on a GPU, or in Triton's interpreter (``TRITON_INTERPRET=1``).

`test_encoded_linear` runs this file in a process of its own; on a GPU it can be run directly.
"""

import pytest
import torch

from knotwork._kernels import cpu_fused, triton_fused
from tests.nn.test_paths import GPU, make_case, make_layout
from tests.nn.triton_cases import DEVICE, close

ROWS, N_OUT = (20_000, 200) if GPU else (70, 20)
HALF = torch.bfloat16 if GPU else torch.float16  # the interpreter would multiply the bits of bfloat16
CASES = [("bspline", 3), ("mspline", 2), ("normalised", 3), ("ispline", 3), ("ple", 0)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, on lanes whose result is masked out
@pytest.mark.parametrize("n_knots", [[5, 9, 0], [96, 26]] if GPU else [[5, 9, 0]])
@pytest.mark.parametrize(("family", "degree"), CASES)
def test_encoding_and_linear_map(family, degree, n_knots, monkeypatch):
    torch.manual_seed(0)
    layout = make_layout(family, degree)
    x, breaks, counts = make_case(2, ROWS, n_knots, dtype=torch.float32)
    x[1, 30, 1] = torch.nan
    settings = {"kind": layout.kind, "degree": layout.scheme, "size": layout.size(max(n_knots))}
    weight, bias = torch.randn(2, len(n_knots) * settings["size"], N_OUT), torch.randn(2, N_OUT)
    gradient = torch.randn(2, ROWS, N_OUT)
    expected = cpu_fused.forward(x, breaks, counts, weight, bias, **settings)
    slopes = cpu_fused.backward(gradient, x, breaks, counts, weight, **settings, with_breaks=True, with_weight=True)
    there = [tensor.to(DEVICE) for tensor in (x, breaks, counts)]
    asked = {"with_x": True, "with_breaks": True, "with_weight": True}
    for dtype, tolerance, n_programs in ((torch.float32, 1e-5, 6), (HALF, 2e-2, 12)):
        if not GPU:  # one sum over two blocks of rows, then two sums over one
            monkeypatch.setattr(triton_fused, "PROGRAMS", n_programs)
        own_weight, own_bias, own_gradient = (tensor.to(DEVICE, dtype) for tensor in (weight, bias, gradient))
        got = triton_fused.forward(*there, own_weight, own_bias if dtype == HALF else None, **settings)
        assert got.dtype == dtype
        close(got, expected if dtype == HALF else expected - bias[:, None], tolerance)
        results = triton_fused.backward(own_gradient, *there, own_weight, **settings, **asked)
        for own, other in zip(results, slopes, strict=True):
            close(own, other, 10 * tolerance)
        if GPU:
            again = triton_fused.backward(own_gradient, *there, own_weight, **settings, **asked)
            assert torch.equal(again[2], results[2]), "sums must repeat exactly"
