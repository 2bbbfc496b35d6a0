"""The encoding of values by splines and ramps: rows of functions, part by part, and the spacing penalty of the knots.

The formulas come first. K interior knots in (0, 1) are computed from K + 1 logits a. With the smallest spacing delta,

    w = delta + (1 - (K + 1) delta) softmax(a),        k_l = w_1 + ... + w_l,        l = 1, ..., K,

so that the knots increase by at least delta for any a. The penalty is the mean over features and widths w of
1 / (w + epsilon). Features of one layer may have different numbers of knots, `n_knots`; padding does not enter sums.

Only degree + 1 B-splines are not zero in the interval of a value x, and the triangular scheme computes them from the
2 degree knots around x. All families are built from these: see `rows_formula`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from knotwork._checks import argument_error, check_choice, check_int
from knotwork._kernels.dispatch import Operation, Packing, Path
from knotwork.basis import FAMILIES, TRAITS, Functions

NORM_EPSILON = 1e-5
"""Added to the variance of normalised rows, as in LayerNorm."""


@dataclass(frozen=True)
class Layout:
    """How a family of `knotwork.basis.FAMILIES` is computed: the kind of its rows, the degree of the triangular scheme.

    `degree` is that of the pieces, 0 for a family without one; `normalised` rows have mean 0 and variance 1.
    """

    family: str
    degree: int
    normalised: bool = False

    def __post_init__(self) -> None:
        family = FAMILIES[check_choice(self.family, "family", FAMILIES)]
        check_int(self.degree, "degree", minimum=0)
        if family.kind is None and family.function is None:
            advice = "Give its Family a function of torch tensors: Family(..., function=...)."
            raise argument_error("family", "have a function for torch layers", self.family, advice)
        if self.normalised and not family.normalised:
            raise argument_error("family", "have rows that can be normalised", self.family)

    @property
    def kind(self) -> int:
        """One of `Functions`, as a plain number: compiled operations specialise on the type."""
        kind = FAMILIES[self.family].kind
        return int(Functions.NORMALISED if self.normalised else Functions.PLAIN if kind is None else kind)

    @property
    def is_cyclic(self) -> bool:
        """Whether the functions repeat with period 1."""
        return FAMILIES[self.family].basis.is_cyclic

    @property
    def scheme(self) -> int:
        """Degree of the B-splines that the triangular scheme computes."""
        if self.kind == Functions.NATURAL:
            return 3
        return self.degree + (self.kind == Functions.TAILS)

    @property
    def smallest(self) -> int:
        """Number of functions without knots; every knot adds one."""
        return FAMILIES[self.family].smallest_size(self.degree)


def widths_from_logits(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the widths w of the intervals, which sum to one, from logits of shape (..., F, K + 1); padded with zeros.

    `n_knots`, of shape (F,) or (..., F), is the number of interior knots of each feature.
    """
    used = _used(logits.shape[-1], n_knots)
    shares = torch.softmax(logits.masked_fill(~used, -torch.inf), dim=-1)
    room = 1.0 - (n_knots[..., None] + 1).to(logits.dtype) * min_spacing
    return (min_spacing + room * shares) * used


def breaks_from_widths(widths: Tensor, n_knots: Tensor) -> Tensor:
    """Return ``[0, k_1, ..., k_K, 1]``, of shape (..., F, K + 2), padded with ones."""
    ends = torch.cumsum(widths, dim=-1).clamp(max=1.0)
    interior = torch.arange(widths.shape[-1], device=widths.device) < n_knots[..., None]
    return torch.cat([torch.zeros_like(ends[..., :1]), torch.where(interior, ends, 1.0)], dim=-1)


def logits_from_knots(breaks: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the logits of given breaks, the inverse of `breaks_from_widths` and `widths_from_logits`.

    They are ``log(max(share, 1e-12))`` with ``share = (w - delta) / (1 - (K + 1) delta)``, padded with zeros: knots
    nearer than delta are moved apart.
    """
    used = _used(breaks.shape[-1] - 1, n_knots)
    room = 1.0 - (n_knots[..., None] + 1).to(breaks.dtype) * min_spacing
    shares = (torch.diff(breaks, dim=-1) - min_spacing) / room
    return torch.where(used, shares.clamp(min=1e-12).log(), 0.0)


def spacing_penalty(widths: Tensor, n_knots: Tensor, epsilon: float) -> Tensor:
    """Return the mean over features and widths of ``1 / (w + epsilon)``, of shape (...)."""
    used = _used(widths.shape[-1], n_knots)
    barrier = torch.where(used, 1.0 / (widths + epsilon), 0.0)
    return (barrier.sum(dim=-1) / (n_knots + 1)).mean(dim=-1)


def _used(n_widths: int, n_knots: Tensor) -> Tensor:
    """Return a mask of the widths that are not padding, of shape (..., F, n_widths)."""
    return torch.arange(n_widths, device=n_knots.device) <= n_knots[..., None]


def into_unit(x: Tensor) -> Tensor:
    """Return values moved into [0, 1) by whole numbers; infinite values become 0, NaN stays."""
    return torch.where(x.isinf(), 0.0, x - x.floor())


def rows_formula(x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int) -> Tensor:
    """Return the rows of one kind of functions at values between 0 and 1.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values, clipped to [0, 1]; NaN gives a row of zeros.
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones; float32 or float64.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature of each group, int32.
    kind, degree : int
        Kind of the rows and degree of the triangular scheme, as in `Layout`.
    size : int
        Length of a row.

    Returns
    -------
    Tensor of shape (G, B, F, size)
        The functions of `knotwork.basis`, padded with zeros.

    Notes
    -----
    B-splines of degree q follow from those of degree q - 1: with knots t_l < t_r around x, a value v adds
    v (t_r - x) / (t_r - t_l) to the left one of two neighbours, and v (x - t_l) / (t_r - t_l) to the right one.
    M-splines are B-splines times (degree + 1) / (t_(l + degree + 1) - t_l). I-splines and ramps are the sums of all
    B-splines (of one degree more) from the right: a row is ones, then fractions, then zeros. Cyclic splines are the
    B-splines of the knots that repeat with period 1, whose columns are counted modulo the number of intervals.
    """
    missing = torch.isnan(x)
    n_knots = n_knots[:, None]
    x = torch.where(missing, 0.0, x).clamp(0.0, 1.0)
    knots = breaks[:, None, :, 1:-1]
    interval = torch.minimum((knots <= x[..., None]).sum(dim=-1), n_knots)
    window = interval[..., None] + torch.arange(-degree, degree + 2, device=x.device)
    n_intervals, all_breaks = (n_knots + 1)[..., None], breaks[:, None].expand(*x.shape, breaks.shape[-1])
    if kind == Functions.CYCLIC:
        turns = torch.div(window, n_intervals, rounding_mode="floor")
        t = (torch.gather(all_breaks, -1, window - turns * n_intervals) + turns).unbind(dim=-1)
    else:
        t = torch.gather(all_breaks, -1, torch.minimum(window.clamp(min=0), n_intervals)).unbind(dim=-1)

    values = [torch.ones_like(x)]
    for q in range(1, degree + 1):
        from_left, raised = torch.zeros_like(x), []
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            share = values[r] / (right - left)
            raised.append(from_left + (right - x) * share)
            from_left = (x - left) * share
        values = [*raised, from_left]
    if kind in (Functions.UNIT_AREA, Functions.NORMALISED):
        values = [value * (degree + 1) / (t[degree + r + 1] - t[r]) for r, value in enumerate(values)]
    if kind == Functions.TAILS:
        values = list(torch.stack(values[1:], dim=-1).flip(-1).cumsum(-1).flip(-1).unbind(-1))

    columns = torch.arange(size, device=x.device)
    rows = (columns < interval[..., None]).to(x.dtype) if kind == Functions.TAILS else x.new_zeros(*x.shape, size)
    places = interval[..., None] + torch.arange(len(values), device=x.device)
    if kind == Functions.CYCLIC:  # functions may meet in one column
        rows = rows.scatter_add(-1, places % n_intervals, torch.stack(values, dim=-1))
    else:
        rows = rows.scatter(-1, places, torch.stack(values, dim=-1))
    if kind == Functions.NORMALISED:
        sizes = (n_knots + degree + 1)[..., None]
        centred = (rows - rows.sum(dim=-1, keepdim=True) / sizes) * (columns < sizes)
        rows = centred * torch.rsqrt((centred**2).sum(dim=-1, keepdim=True) / sizes + NORM_EPSILON)
    return torch.where(missing[..., None], 0.0, rows)


@dataclass(frozen=True)
class StackPart:
    """Groups start to stop - 1, with some or (None) all features, that are encoded by the same kind of functions.

    `kind` and `degree` are those of `Layout`, or `Functions.AFFINE`; knots are computed from logits if `learned`.
    `family` is the name of a family without compiled code, which runs its `function` in plain torch, or empty. The
    degree of `Functions.PERIODIC` and `Functions.COSINE` is their number of functions; their frequencies are not known
    here, and `encode` does not compute them.
    """

    kind: int
    degree: int
    start: int
    stop: int
    learned: bool = False
    features: tuple[int, ...] | None = None
    family: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", int(self.kind))  # compiled operations specialise on the type

    @property
    def functions(self) -> dict[str, int]:
        """Kind and degree, as the loops take them."""
        return {"kind": self.kind, "degree": self.degree}

    @property
    def function(self) -> Callable[..., Tensor] | None:
        """The function in plain torch of a family without compiled code."""
        return FAMILIES[self.family].function if self.family else None

    @property
    def smallest(self) -> int:
        """Number of functions without knots; every knot adds one."""
        if self.family:
            return FAMILIES[self.family].smallest_size(self.degree)
        return TRAITS[self.kind].smallest_size(self.degree)

    @property
    def is_composed(self) -> bool:
        """Whether `encode` computes the part after the others: its functions vary everywhere, or are in plain torch."""
        return bool(self.family) or TRAITS[self.kind].is_dense

    @property
    def is_cyclic(self) -> bool:
        """Whether values are moved into [0, 1) by whole periods."""
        return FAMILIES[self.family].basis.is_cyclic if self.family else TRAITS[self.kind].is_cyclic

    @property
    def has_widths(self) -> bool:
        """Whether widths of the functions are learned with the knots."""
        return TRAITS[self.kind].has_widths

    def of(self, tensor: Tensor, axis: int = 1) -> Tensor:
        """Return the part's groups and, along `axis`, its features."""
        piece = tensor if self.stop - self.start == len(tensor) else tensor[self.start : self.stop]
        return piece if self.features is None else piece.index_select(axis, _index(self.features, tensor.device))

    def write(self, tensor: Tensor, values: Tensor, axis: int = 1) -> None:
        """Write the part's groups and, along `axis`, its features."""
        piece = tensor[self.start : self.stop]
        if self.features is None:
            piece.copy_(values)
        else:
            piece.index_copy_(axis, _index(self.features, tensor.device), values)


@cache
def _index(features: tuple[int, ...], device: torch.device) -> Tensor:
    """Return features as a tensor: created once, because a CUDA graph capture must not copy from the host.

    The cache is never cleared, because captured graphs read the tensor again at each replay.
    """
    return torch.tensor(features, device=device)


class Knots(NamedTuple):
    """Knots of all groups: `n_knots` and `breaks` as in `rows_formula`, or logits of shape (G, F, K + 1), or both.

    With both, `learned`, bool of shape (G,), selects the groups whose knots are computed from logits, which are those
    of parts that are `learned`; None selects all. `epsilon` is that of the penalty. `log_widths`, (G, F, size), are
    logarithms of the factors of the widths of radial functions; None for factors of one.
    """

    n_knots: Tensor
    breaks: Tensor | None = None
    logits: Tensor | None = None
    learned: Tensor | None = None
    min_spacing: float = 1e-3
    epsilon: float = 1e-6
    log_widths: Tensor | None = None


class Encoded(NamedTuple):
    """Differentiable results of `encode`: values (G, B, F, size), breaks (G, F, K + 2), and the spacing penalty (G,).

    The penalty is 0 for groups whose knots are not learned, and None if no knots are.
    """

    values: Tensor
    breaks: Tensor
    penalty: Tensor | None


def encoding_formula(
    logits: Tensor | None, breaks: Tensor | None, x: Tensor, n_knots: Tensor, learned: Tensor | None, *,
    parts: Sequence[StackPart], size: int, dtype: torch.dtype, min_spacing: float, epsilon: float,
) -> Any:  # fmt: skip
    """Compute `encode` in plain torch: the values, and with logits the penalty and the breaks."""
    if n_knots.dim() == 1:
        spacing = {"min_spacing": min_spacing, "epsilon": epsilon}
        settings: dict[str, Any] = {"parts": parts, "size": size, "dtype": dtype, **spacing}
        all_logits, all_breaks, values, counts = _with_groups(logits, breaks, x, n_knots)
        results: Any = encoding_formula(all_logits, all_breaks, values, counts, None, **settings)
        if logits is None:
            return results.reshape(*x.shape, size)
        return results[0].reshape(*x.shape, size), *(result[0] for result in results[1:])
    others: tuple[Tensor, ...] = ()
    if logits is not None:
        widths = widths_from_logits(logits, n_knots, min_spacing)
        learned_breaks, penalty = breaks_from_widths(widths, n_knots), spacing_penalty(widths, n_knots, epsilon)
        if learned is None or breaks is None:
            breaks = learned_breaks
        else:
            breaks = torch.where(learned[:, None, None], learned_breaks, breaks)
            penalty = torch.where(learned, penalty, 0.0)
        others = (penalty, breaks)
    assert breaks is not None
    if _is_whole(parts, n_knots):  # nothing is written in place, which `torch.vmap` does not allow
        values = _rows(parts[0], x, breaks, n_knots, size).to(dtype)
    else:
        values = torch.zeros(*x.shape, size, dtype=dtype, device=x.device)
        for part in parts:
            if part.kind == Functions.AFFINE:
                part.write(values[..., 0], torch.nan_to_num(part.of(x, axis=2), nan=0.0).to(dtype), axis=2)
            else:
                part.write(values, _rows(part, x, breaks, n_knots, size).to(dtype), axis=2)
    return (values, *others) if others else values


def _with_groups(logits: Tensor | None, breaks: Tensor | None, x: Tensor, n_knots: Tensor) -> Any:
    """Return tensors of one group with an axis of groups; x, of shape (..., F), with one of rows."""
    axis = (None if tensor is None else tensor[None] for tensor in (logits, breaks))
    return *axis, x.reshape(1, -1, x.shape[-1]), n_knots[None]


def _rows(part: StackPart, x: Tensor, breaks: Tensor, n_knots: Tensor, size: int) -> Tensor:
    """Return the rows of a part by `rows_formula`."""
    piece = part.of(x, axis=2).to(breaks.dtype)
    return rows_formula(piece, part.of(breaks), part.of(n_knots), **part.functions, size=size)


class Spacings(NamedTuple):
    """The logits that breaks were computed from, and the gradient of the penalty, if it has one."""

    logits: Tensor
    min_spacing: float
    epsilon: float = 0.0
    penalty_grad: Tensor | None = None


class Loops(NamedTuple):
    """The loops of one device for the encoding; `path_of` runs them part by part.

    - ``knots(logits, n_knots, breaks, learned, min_spacing, epsilon, size)`` returns the breaks and penalties of all
      groups.
    - ``knots_backward(breaks_grad, penalty_grad, logits, n_knots, learned, min_spacing, epsilon, size)`` returns the
      gradient of the logits; one of the first two may be None.
    - ``rows(x, breaks, n_knots, out, *, kind, degree)`` fills `out`, which is contiguous.
    - ``rows_backward(grad, x, breaks, n_knots, *, kind, degree, with_x, with_knots)`` returns the gradients of x, in
      its type (undefined unless `with_x`), and of the breaks (undefined unless `with_knots`).
    - ``rows_to_logits(grad, x, breaks, n_knots, spacings, *, kind, degree, with_x, out)``, optional, does
      `rows_backward` and `knots_backward` in one: the second result is `out`, filled with the gradient of the logits.
    - ``rows_from_logits(x, logits, n_knots, out, *, kind, degree, min_spacing, epsilon)``, optional, does `knots` and
      `rows` in one: it returns breaks and penalty, or None where it cannot.

    The last two take tensors with or without an axis of groups.
    """

    knots: Callable[..., tuple[Tensor, Tensor]]
    knots_backward: Callable[..., Tensor]
    rows: Callable[..., None]
    rows_backward: Callable[..., tuple[Tensor, Tensor]]
    rows_to_logits: Callable[..., tuple[Tensor, Tensor]] | None = None
    rows_from_logits: Callable[..., tuple[Tensor, Tensor] | None] | None = None


def path_of(loops: Loops) -> Path:
    """Return the path of a device; backward keeps only values and knots, and runs the scheme again."""
    return Path(partial(_forward, loops), partial(_backward, loops))


def _forward(
    loops: Loops, logits: Tensor | None, breaks: Tensor | None, x: Tensor, n_knots: Tensor, learned: Tensor | None, *,
    parts: Sequence[StackPart], size: int, dtype: torch.dtype, min_spacing: float, epsilon: float,
) -> Any:  # fmt: skip
    tensors, shape = (logits, breaks, x, n_knots, learned), (*x.shape, size)
    if logits is not None and breaks is None and loops.rows_from_logits is not None and _is_whole(parts, n_knots):
        values = torch.empty(shape, dtype=dtype, device=x.device)
        spacing = {"min_spacing": min_spacing, "epsilon": epsilon}
        knots = loops.rows_from_logits(x, logits, n_knots, values, **parts[0].functions, **spacing)
        if knots is not None:
            breaks, penalty = knots
            return (values, penalty, breaks), (*tensors, None, breaks)  # the penalty is not needed again
    in_groups = n_knots.dim() > 1
    if not in_groups:
        logits, breaks, x, n_knots = _with_groups(logits, breaks, x, n_knots)
    others: tuple[Tensor, ...] = ()
    if logits is not None:
        breaks, penalty = loops.knots(logits, n_knots, breaks, learned, min_spacing, epsilon, size)
        others = (penalty, breaks)
    assert breaks is not None
    n_filled = sum(part.stop - part.start for part in parts if part.features is None and part.kind != Functions.AFFINE)
    # Loops write zeros: writing them first would cost a pass over memory.
    results = (torch.empty if n_filled == len(x) else torch.zeros)(shape, dtype=dtype, device=x.device)
    values = results if in_groups else results.view(*x.shape, size)
    for part in parts:
        piece = part.of(x, axis=2)
        if part.kind == Functions.AFFINE:
            part.write(values[..., 0], torch.nan_to_num(piece, nan=0.0).to(dtype), axis=2)
            continue
        in_place = part.features is None
        block = part.of(values) if in_place else torch.empty(*piece.shape, size, dtype=dtype, device=x.device)
        loops.rows(piece, part.of(breaks), part.of(n_knots), block, **part.functions)
        if not in_place:
            part.write(values, block, axis=2)
    if not in_groups:  # in place, because a view that a function returns cannot be modified
        others = tuple(other.squeeze_(0) for other in others)
    return (results, *others), (*tensors, None, others[1]) if others else tensors


def _is_whole(parts: Sequence[StackPart], n_knots: Tensor) -> bool:
    """Return whether one part has all groups and features, and functions with breaks."""
    if len(parts) != 1 or parts[0].features is not None or parts[0].kind == Functions.AFFINE:
        return False
    return parts[0].stop - parts[0].start == (len(n_knots) if n_knots.dim() > 1 else 1)


def _backward(
    loops: Loops, grads: Any, kept: Any, needed: Any, *, parts: Sequence[StackPart], min_spacing: float, epsilon: float,
    size: int, **_: Any,
) -> Any:  # fmt: skip
    """Return the gradients of logits, breaks and x.

    The gradient of the breaks, a sum over rows, comes first; with that of the penalty it gives the gradient of the
    logits. On a device with `rows_to_logits`, a part with all features does both in one pass.
    """
    logits, breaks, x, n_knots, learned, *others = kept
    grad, penalty_grad, breaks_grad = grads if others else (*grads, None, None)
    tensors = (grad, x, others[1] if others else breaks, n_knots)
    at_once = loops.rows_to_logits is not None and needed[0] and not needed[1]
    at_once = at_once and grad is not None and breaks_grad is None
    if n_knots.dim() == 1 and not (at_once and _is_whole(parts, n_knots)):
        settings = {"parts": parts, "min_spacing": min_spacing, "epsilon": epsilon, "size": size}
        return _backward_in_groups(loops, grads, kept, needed, settings)
    if at_once:
        spacings = Spacings(logits, min_spacing, epsilon, penalty_grad)
        of_logits, of_x = _backward_to_logits(loops, parts, tensors, spacings, needed[2])
        return of_logits, None, of_x, None, None
    x_grad, slopes = torch.zeros_like(x) if grad is None else None, None
    if grad is not None:
        x_grad, slopes = _sums(loops, parts, tensors, needed)
    if breaks_grad is not None:
        slopes = breaks_grad if slopes is None else slopes + breaks_grad
    logits_grad = None
    if needed[0]:
        logits_grad = loops.knots_backward(slopes, penalty_grad, logits, n_knots, learned, min_spacing, epsilon, size)
    if needed[1] and learned is not None:
        slopes = torch.zeros_like(breaks) if slopes is None else torch.where(learned[:, None, None], 0.0, slopes)
    return logits_grad, slopes if needed[1] else None, x_grad if needed[2] else None, None, None


def _backward_in_groups(loops: Loops, grads: Any, kept: Any, needed: Any, settings: dict[str, Any]) -> Any:
    """Return the gradients of tensors of one group without an axis of groups."""
    logits, breaks, x, n_knots, _, *others = kept
    grad, *other_grads = grads
    grad = None if grad is None else grad.reshape(1, -1, *grad.shape[-2:])
    axis = [None if tensor is None else tensor[None] for tensor in (*other_grads, *others)]
    grouped = (*_with_groups(logits, breaks, x, n_knots), None, *axis[len(other_grads) :])
    results = _backward(loops, (grad, *axis[: len(other_grads)]), grouped, needed, **settings)
    pairs = zip(results, (logits, breaks, x, None, None), strict=True)
    return tuple(None if result is None else result.reshape(tensor.shape) for result, tensor in pairs)


def _sums(loops: Loops, parts: Sequence[StackPart], tensors: Any, needed: Any) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of x and of the breaks, None if not needed."""
    _, x, breaks, n_knots = tensors
    with_x, with_knots = needed[2], needed[0] or needed[1]
    if _is_whole(parts, n_knots):  # no copy is needed
        return _part_slopes(loops, parts[0], tensors, with_x, with_knots)
    x_out, slopes_out = torch.zeros_like(x) if with_x else None, torch.zeros_like(breaks) if with_knots else None
    for part in parts:
        _write_slopes(loops, part, tensors, x_out, slopes_out if needed[1] or part.learned else None)
    return x_out, slopes_out


def _part_slopes(
    loops: Loops, part: StackPart, tensors: tuple[Tensor, ...], with_x: bool, with_knots: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return a part of the gradients of x and of the breaks, None if not wanted."""
    grad, x, breaks, n_knots = tensors
    if part.kind == Functions.AFFINE:
        piece = part.of(grad[..., 0], axis=2).to(x.dtype)
        return torch.where(part.of(x, axis=2).isfinite(), piece, 0.0) if with_x else None, None
    if not with_x and not with_knots:
        return None, None
    pieces = part.of(grad, axis=2), part.of(x, axis=2), part.of(breaks), part.of(n_knots)
    x_grad, slopes = loops.rows_backward(*pieces, **part.functions, with_x=with_x, with_knots=with_knots)
    return x_grad if with_x else None, slopes if with_knots else None


def _write_slopes(loops: Loops, part: StackPart, tensors: Any, x_out: Tensor | None, slopes_out: Tensor | None) -> None:
    """Write a part of the gradients of x and of the breaks, unless they are None."""
    x_grad, slopes = _part_slopes(loops, part, tensors, x_out is not None, slopes_out is not None)
    if x_out is not None and x_grad is not None:
        part.write(x_out, x_grad, axis=2)
    if slopes_out is not None and slopes is not None:
        part.write(slopes_out, slopes)


def _backward_to_logits(
    loops: Loops, parts: Sequence[StackPart], tensors: Any, spacings: Spacings, with_x: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of logits and of x (None unless `with_x`).

    Which way a member takes depends on itself only: so do its gradients, bit for bit.
    """
    logits, min_spacing, epsilon, penalty_grad = spacings
    assert loops.rows_to_logits is not None
    if _is_whole(parts, tensors[3]):  # no copy is needed
        out = torch.empty_like(logits, memory_format=torch.contiguous_format)
        x_grad, _ = loops.rows_to_logits(*tensors, spacings, **parts[0].functions, with_x=with_x, out=out)
        return out, x_grad if with_x else None
    x_out = torch.zeros_like(tensors[1]) if with_x else None
    moving = [part for part in parts if part.learned and part.kind != Functions.AFFINE and part.features is None]
    covered = sum(part.stop - part.start for part in moving) == len(logits)
    out = torch.empty_like(logits) if covered else torch.zeros_like(logits)
    for part in moving:
        piece = slice(part.start, part.stop)
        of_penalty = None if penalty_grad is None else penalty_grad[piece]
        inputs = (*[tensor[piece] for tensor in tensors], Spacings(logits[piece], min_spacing, epsilon, of_penalty))
        part_x_grad, _ = loops.rows_to_logits(*inputs, **part.functions, with_x=with_x, out=out[piece])
        if x_out is not None:
            x_out[piece] = part_x_grad
    others = [part for part in parts if part not in moving]
    learned = sorted({(part.start, part.stop) for part in others if part.learned})
    slopes = torch.zeros_like(tensors[2]) if learned else None
    for part in others:
        _write_slopes(loops, part, tensors, x_out, slopes if part.learned else None)
    for start, stop in learned:
        of_breaks, of_penalty = (None if grad is None else grad[start:stop] for grad in (slopes, penalty_grad))
        knots = logits[start:stop], tensors[3][start:stop], None, min_spacing, epsilon, tensors[0].shape[-1]
        out[start:stop] = loops.knots_backward(of_breaks, of_penalty, *knots)
    return out, x_out


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Types of values; packed settings hold the index of a type in this tuple."""


def _to_numbers(settings: dict[str, Any]) -> list[float]:
    """Pack settings into numbers: four, then for each part six and its features."""
    numbers = [float(settings["size"]), float(TYPES.index(settings["dtype"]))]
    numbers += [settings["min_spacing"], settings["epsilon"]]
    for part in settings["parts"]:
        features = part.features
        numbers += [float(n) for n in (part.kind, part.degree, part.start, part.stop, part.learned)]
        numbers.append(-1.0 if features is None else float(len(features)))
        numbers += [] if features is None else [float(feature) for feature in features]
    return numbers


@cache
def _to_settings(numbers: tuple[float, ...]) -> dict[str, Any]:
    size, dtype, min_spacing, epsilon, *rest = numbers
    parts = []
    while rest:
        kind, degree, start, stop, learned, count = (int(n) for n in rest[:6])
        features = None if count < 0 else tuple(int(n) for n in rest[6 : 6 + count])
        parts.append(StackPart(kind, degree, start, stop, bool(learned), features))
        rest = rest[6 + max(count, 0) :]
    spacing = {"min_spacing": min_spacing, "epsilon": epsilon}
    return {"parts": tuple(parts), "size": int(size), "dtype": TYPES[int(dtype)], **spacing}


def _shapes(logits: Tensor | None, breaks: Any, x: Tensor, *_: Any, size: int, dtype: Any, **__: Any) -> Any:
    del breaks
    values = x.new_empty(*x.shape, size, dtype=dtype)
    if logits is None:
        return (values,)
    return values, logits.new_empty(logits.shape[:-2]), logits.new_empty(*logits.shape[:-1], logits.shape[-1] + 1)


_ENCODING = Operation(
    encoding_formula,
    cpu="encoding_cpu.ENCODING",
    types=TYPES,
    triton="encoding_triton.ENCODING",
    packing=Packing(_to_numbers, _to_settings, _shapes),
    apart=True,  # the penalty may be differentiated before or after the values
)


def encode(
    x: Tensor, knots: Knots, parts: Sequence[StackPart], *, size: int, dtype: torch.dtype | None = None
) -> Encoded:
    """Encode values of shape (G, B, F), part by part, into one tensor; x and size are those of `rows_formula`.

    Tensors of one group may have no axis of groups: if `n_knots` has the shape (F,), that of x is (..., F).
    Parts cover every group and feature once; without parts, only knots and penalty are computed. `dtype` is the type
    of the values, by default that of the knots; arithmetic is in the type of the knots, on the CPU in float64. The
    result is differentiable with respect to x, breaks and logits.

    The paths: compiled loops on the CPU; Triton on a GPU, where one kernel computes the knots and penalties of all
    groups, and one the gradient of the logits from the sums over rows and the gradient of the penalty; the formula for
    float64 on a GPU, on other devices, and without Triton. All are tested against `knotwork.basis`.
    """
    given = knots.breaks if knots.logits is None else knots.logits
    assert given is not None
    dtype = given.dtype if dtype is None else dtype
    composed = [part for part in parts if part.is_composed]
    if composed and knots.n_knots.dim() == 1:
        return _encode_in_groups(x, knots, parts, size=size, dtype=dtype)
    if composed and _is_whole(parts, knots.n_knots):  # nothing else is written
        others = encode(x[:, :0], knots, (), size=size, dtype=dtype)
        return others._replace(values=_composed_rows(parts[0], x, others.breaks, knots, size, dtype))
    results = _ENCODING(
        knots.logits,
        knots.breaks,
        x,
        knots.n_knots,
        knots.learned,
        parts=tuple([part for part in parts if not part.is_composed]) if composed else tuple(parts),
        size=size,
        dtype=dtype,
        min_spacing=knots.min_spacing,
        epsilon=knots.epsilon,
    )
    values, penalty, breaks = (results, None, given) if knots.logits is None else results
    for part in composed:
        part.write(values, _composed_rows(part, x, breaks, knots, size, dtype), axis=2)
    return Encoded(values, breaks, penalty)


def _encode_in_groups(x: Tensor, knots: Knots, parts: Sequence[StackPart], *, size: int, dtype: torch.dtype) -> Encoded:
    """Encode values of one group without an axis of groups."""
    logits, breaks, values, n_knots = _with_groups(knots.logits, knots.breaks, x, knots.n_knots)
    widths = None if knots.log_widths is None else knots.log_widths[None]
    grouped = knots._replace(logits=logits, breaks=breaks, n_knots=n_knots, log_widths=widths)
    encoded = encode(values, grouped, parts, size=size, dtype=dtype)
    penalty = None if encoded.penalty is None else encoded.penalty[0]
    return Encoded(encoded.values.reshape(*x.shape, size), encoded.breaks[0], penalty)


def _composed_rows(part: StackPart, x: Tensor, breaks: Tensor, knots: Knots, size: int, dtype: torch.dtype) -> Tensor:
    """Return the rows of a part whose functions vary everywhere, or whose family has no compiled code."""
    if not part.family:
        from knotwork._kernels import dense  # noqa: PLC0415 - it is built on this module

        return dense.dense_rows(part, x, breaks, knots, size=size, dtype=dtype)
    piece = part.of(x, axis=2).to(breaks.dtype)
    missing = torch.isnan(piece)
    inside = torch.where(missing, 0.0, piece).clamp(0.0, 1.0)
    assert part.function is not None
    rows = part.function(inside, part.of(breaks), part.of(knots.n_knots), degree=part.degree, size=size)
    if rows.shape != (*piece.shape, size):
        raise argument_error("function", f"return rows of shape {(*piece.shape, size)}", tuple(rows.shape))
    return torch.where(missing[..., None], 0.0, rows).to(dtype)
