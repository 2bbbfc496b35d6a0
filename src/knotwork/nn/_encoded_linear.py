"""The first layer of a network on encoded features: encoding and linear map, fused if that is faster."""

import math
from typing import Self, final

import torch
from torch import Tensor, nn

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._kernels.encoded_linear import encode_linear, has_fused
from knotwork.nn._encoding import PiecewiseLinearEncoding, SplineEncoding
from knotwork.nn._smoothness import PENALISED, difference_penalty, differences

PATHS = ("auto", "fused", "dense")


def _fused_is_faster(device: str, *, size: int, n_out: int, n_rows: int) -> bool:
    """Return whether ``path="auto"`` takes the fused path, which is available only on the CPU."""
    # `python benchmarks/first_layer.py --threads 1`, 2026-11-15, AMD EPYC, 14 features, forward and backward. Time of
    # the dense path over that of the fused one, median over families and knots, at batch 256, 512 and 8192:
    # size 7 with 256 outputs 0.7, 0.7, 0.7; size 30 with 64 outputs 0.9, 0.9, 1.3, with 256 outputs 1.2, 1.4, 1.5;
    # size 100 with 64 outputs 1.4, 2.1, 3.8, with 256 outputs 2.2, 2.8, 4.5. On an H200 the dense path won in all 20
    # cases measured (batch 8192, sizes 7 and 30), by 2 to 14 times, so no fused path was kept for a GPU.
    return device == "cpu" and size >= 30 and (size * n_out >= 5000 or n_rows >= 4096)


@final
class EncodedLinear(nn.Module):
    """Encode features and map the encoding linearly, without storing the encoding if that is faster.

    Equal to ``nn.Sequential(encoding, nn.Flatten(-2), nn.Linear(n_features * size, out_features))``. Only a few
    functions are not constant at a value, so it needs only a few rows of the weights: the fused path reads those,
    stores nothing of the size of the encoding, and its cost hardly grows with the number of functions.

    Parameters
    ----------
    encoding : SplineEncoding or PiecewiseLinearEncoding
        The encoding, with fixed or learned knots, with or without members.
    out_features : int
        Number of outputs.
    bias : bool, default=True
        Whether a bias is added.
    path : {"auto", "fused", "dense"}, default="auto"
        Whether to fuse encoding and product, or to store the encoding and multiply; ``"auto"`` takes the path that was
        faster in benchmarks. The fused path is available on the CPU, for ramps and for splines other than natural
        ones; elsewhere the dense path is always used, as with ``missing="indicator"`` or ``"learned"``.

    Attributes
    ----------
    weight : Parameter of shape (n_features * size, out_features), or (n_members, n_features * size, out_features)
        Weights, with a row for each function: transposed compared with `torch.nn.Linear`, so that the weights of a
        function are adjacent in memory. They start as those of `torch.nn.Linear` do.
    bias : Parameter of shape (out_features,) or (n_members, out_features), or None
        Added to the product.

    Examples
    --------
    >>> from knotwork.nn import SplineEncoding
    >>> layer = EncodedLinear(SplineEncoding(n_features=3, size=7), out_features=16)
    >>> layer(torch.rand(32, 3)).shape
    torch.Size([32, 16])
    """

    def __init__(
        self, encoding: SplineEncoding | PiecewiseLinearEncoding, out_features: int, bias: bool = True, *,
        path: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(encoding, (SplineEncoding, PiecewiseLinearEncoding)):
            raise type_error("encoding", "be a SplineEncoding or PiecewiseLinearEncoding", type(encoding).__name__)
        self.encoding = encoding
        self.out_features = check_int(out_features, "out_features", minimum=1)
        self.path = check_choice(path, "path", PATHS)
        if path == "fused" and encoding.missing in ("indicator", "learned"):
            raise argument_error("path", f"be 'auto' or 'dense' if missing={encoding.missing!r}", path)
        n_in = encoding.n_features * (encoding.size + (encoding.missing == "indicator"))
        lead = () if encoding.n_members is None else (encoding.n_members,)
        self.weight = nn.Parameter(torch.empty(*lead, n_in, self.out_features))
        self.bias = nn.Parameter(torch.empty(*lead, self.out_features)) if check_bool(bias, "bias") else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights and a new bias, as `torch.nn.Linear` does; knots do not change."""
        bound = 1.0 / math.sqrt(self.weight.shape[-2])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    @classmethod
    def from_linear(
        cls, encoding: SplineEncoding | PiecewiseLinearEncoding, linear: nn.Linear, *, path: str = "auto"
    ) -> Self:
        """Return a layer equal to `linear` after the flattened encoding.

        Parameters
        ----------
        encoding : SplineEncoding or PiecewiseLinearEncoding
            The encoding, which is shared, not copied.
        linear : nn.Linear
            The linear map; weights and bias are copied, for every member.
        path : {"auto", "fused", "dense"}, default="auto"
            As in the class.
        """
        layer = cls(encoding, linear.out_features, linear.bias is not None, path=path)
        if linear.in_features != layer.weight.shape[-2]:
            raise argument_error("linear", f"take {layer.weight.shape[-2]} inputs", linear)
        weight = linear.weight.detach().T.expand_as(layer.weight)
        layer.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format))
        if layer.bias is not None:
            layer.bias = nn.Parameter(linear.bias.detach().expand_as(layer.bias).clone())
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """Encode and map values.

        Parameters
        ----------
        x : Tensor of shape (..., n_features), or (n_members, ..., n_features)
            Values in [0, 1], or in the units of the encoding's `set_range`; others are moved to the nearer end.

        Returns
        -------
        Tensor of shape (..., out_features)
            The linear map of the encoding.
        """
        return self._fused(x) if self._takes_fused(x) else self._mapped(self.encoding(x))

    def _takes_fused(self, x: Tensor) -> bool:
        if not has_fused(self.encoding.layout.kind):
            return False
        if self.path != "auto" or self.encoding.missing in ("indicator", "learned"):
            return self.path == "fused"
        n_rows = x.numel() // self.encoding.n_features
        return _fused_is_faster(x.device.type, size=self.encoding.size, n_out=self.out_features, n_rows=n_rows)

    def _mapped(self, encoded: Tensor) -> Tensor:
        """Return the linear map of an encoding of shape (..., n_features, columns)."""
        flat = encoded.flatten(-2)
        if self.encoding.n_members is None:
            return nn.functional.linear(flat, self.weight.T, self.bias)
        rows = flat.flatten(1, -2)
        out = (
            torch.bmm(rows, self.weight) if self.bias is None else torch.baddbmm(self.bias[:, None], rows, self.weight)
        )
        return out.reshape(*flat.shape[:-1], self.out_features)

    def _fused(self, x: Tensor) -> Tensor:
        """Return the output without storing the encoding."""
        encoding = self.encoding
        inputs = encoding.scaled(x), *encoding.grouped_knots()
        autocast = torch.is_autocast_enabled(x.device.type)
        dtype = torch.get_autocast_dtype(x.device.type) if autocast else self.weight.dtype
        weight, bias = self.weight.to(dtype), None if self.bias is None else self.bias.to(dtype)
        if encoding.n_members is None:
            weight, bias = weight[None], None if bias is None else bias[None]
        layout = encoding.layout
        out = encode_linear(*inputs, weight, bias, kind=layout.kind, degree=layout.scheme, size=encoding.size)
        return out.reshape(*x.shape[:-1], self.out_features)

    def smoothness_penalty(self, order: int = 2) -> Tensor:
        """Return the penalty of P-splines for each feature: add its sum, times a strength, to the loss.

        It is the sum of squared differences of the weights of adjacent functions, as a mean over the outputs, and is 0
        if the curve of every output is a polynomial of a lower degree than `order`; `knotwork.TrainingConfig` has the
        details. Knots get no gradient from it.

        Parameters
        ----------
        order : int, default=2
            Order of the differences.

        Returns
        -------
        Tensor of shape (n_features,), or (n_members, n_features)
            The penalties.
        """
        check_int(order, "order", minimum=1)
        encoding, layout = self.encoding, self.encoding.layout
        if layout.kind not in PENALISED:
            raise argument_error("encoding", "be B-, M- or I-splines or PLE to have a penalty", layout.family)
        breaks, n_knots = encoding.grouped_knots()
        rows = differences(breaks.detach(), n_knots, kind=layout.kind, degree=layout.scheme, order=order)
        weight = self.weight.view(len(rows), encoding.n_features, -1, self.out_features)[..., : encoding.size, :]
        return difference_penalty(weight, rows).reshape(*self.weight.shape[:-2], encoding.n_features)

    def extra_repr(self) -> str:
        """Return the settings for `print`."""
        return f"out_features={self.out_features}, bias={self.bias is not None}, path={self.path!r}"
