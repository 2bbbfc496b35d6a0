"""The encoding of values by splines and ramps: rows of functions, part by part, and the spacing penalty of the knots.

The formulas come first. For K interior knots in (0, 1) there are K + 1 free numbers a (logits). With the smallest
spacing delta,

    w = delta + (1 - (K + 1) delta) softmax(a),        k_l = w_1 + ... + w_l,        l = 1, ..., K,

so that whatever a is, the knots increase by at least delta. The penalty is the mean over features and widths of
1 / (w + epsilon). Features of one layer may have different numbers of knots: `n_knots` says how many each has, and what
lies beyond in the padded arrays is left out of every sum.

A value x lies in the interval between two breaks; only degree + 1 B-splines are not zero there, and the triangular
scheme gets them from the 2 degree knots around it. All families are made of these: see `rows_formula`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from knotwork._checks import argument_error, check_choice, check_int
from knotwork._kernels.dispatch import Operation, Packing, Path
from knotwork.basis._families import AFFINE, FAMILIES, LOCAL, NORMALISED, PLAIN, TAILS, UNIT_AREA

__all__ = [
    "AFFINE",
    "LOCAL",
    "NORMALISED",
    "NORM_EPSILON",
    "PLAIN",
    "TAILS",
    "UNIT_AREA",
    "Encoded",
    "Knots",
    "Layout",
    "Loops",
    "Part",
    "breaks_from_widths",
    "encode",
    "encoding_formula",
    "logits_from_knots",
    "path_of",
    "rows_formula",
    "spacing_penalty",
    "widths_from_logits",
]

NORM_EPSILON = 1e-5
"""What LayerNorm adds to the variance."""


@dataclass(frozen=True)
class Layout:
    """How a family is computed: the kind of its rows, and the degree of the triangular scheme.

    Parameters
    ----------
    family : str
        A name of `knotwork.basis.FAMILIES`.
    degree : int
        Degree of the pieces; 0 for a family that has none.
    normalised : bool
        Whether rows are brought to mean 0 and variance 1, for families of which that is possible.
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
            raise argument_error("family", "be one whose rows can be normalised", self.family)

    @property
    def kind(self) -> int:
        """Kind of the rows."""
        kind = FAMILIES[self.family].kind
        return NORMALISED if self.normalised else PLAIN if kind is None else kind

    @property
    def scheme(self) -> int:
        """Degree of the B-splines that are computed."""
        return self.degree + 1 if self.kind == TAILS else self.degree

    @property
    def smallest(self) -> int:
        """Number of functions without any knot; every knot adds one."""
        return FAMILIES[self.family].smallest_size(self.degree)


def widths_from_logits(logits: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Return the widths of the intervals between knots.

    Parameters
    ----------
    logits : Tensor of shape (..., F, K + 1)
        The free numbers a.
    n_knots : Tensor of shape (F,) or (..., F)
        Number of interior knots of each feature.
    min_spacing : float
        The smallest width, delta.

    Returns
    -------
    Tensor of shape (..., F, K + 1)
        Widths that add up to one, and zeros beyond each feature's last.
    """
    used = _used(logits.shape[-1], n_knots)
    shares = torch.softmax(logits.masked_fill(~used, -torch.inf), dim=-1)
    room = 1.0 - (n_knots[..., None] + 1).to(logits.dtype) * min_spacing
    return (min_spacing + room * shares) * used


def breaks_from_widths(widths: Tensor, n_knots: Tensor) -> Tensor:
    """Return ``[0, k_1, ..., k_K, 1]``, of shape (..., F, K + 2), with ones from each feature's end on."""
    ends = torch.cumsum(widths, dim=-1).clamp(max=1.0)
    interior = torch.arange(widths.shape[-1], device=widths.device) < n_knots[..., None]
    return torch.cat([torch.zeros_like(ends[..., :1]), torch.where(interior, ends, 1.0)], dim=-1)


def logits_from_knots(breaks: Tensor, n_knots: Tensor, min_spacing: float) -> Tensor:
    """Invert the map: free numbers whose knots are the given ones, moved apart where they are nearer than allowed.

    Parameters
    ----------
    breaks : Tensor of shape (..., F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones.
    n_knots : Tensor of shape (F,) or (..., F)
        Number of interior knots of each feature.
    min_spacing : float
        The smallest width, delta.

    Returns
    -------
    Tensor of shape (..., F, K + 1)
        ``log(max(share, 1e-12))`` with ``share = (w - delta) / (1 - (K + 1) delta)``; zeros beyond each feature's last.
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
    """Return which of the padded widths each feature has, of shape (F, n_widths)."""
    return torch.arange(n_widths, device=n_knots.device) <= n_knots[..., None]


def rows_formula(x: Tensor, breaks: Tensor, n_knots: Tensor, *, kind: int, degree: int, size: int) -> Tensor:
    """Return the rows of one kind of functions at values between 0 and 1.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values; those outside [0, 1] are moved to the nearer end, NaN gives a row of zeros.
    breaks : Tensor of shape (G, F, K + 2)
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones.
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature of each group.
    kind, degree : int
        As in `Layout`: kind of the rows, degree of the triangular scheme.
    size : int
        Length of a row.

    Returns
    -------
    Tensor of shape (G, B, F, size)
        The functions of `knotwork.basis`, zeros beyond each feature's last.

    Notes
    -----
    From the B-splines v of degree q - 1 at x, those of degree q: with knots t_l < ... < t_r around x,
    v_r / (t_r - t_l) times (t_r - x) goes to the left one of two neighbours, times (x - t_l) to the right one.
    M-splines are B-splines times (degree + 1) / (t_(l + degree + 1) - t_l). I-splines and ramps are the sums of all
    B-splines (of one degree more) from the right: a row is ones, then fractions, then zeros.
    """
    missing = torch.isnan(x)
    n_knots = n_knots[:, None]
    x = torch.where(missing, 0.0, x).clamp(0.0, 1.0)
    knots = breaks[:, None, :, 1:-1]
    interval = torch.minimum((knots <= x[..., None]).sum(dim=-1), n_knots)
    window = interval[..., None] + torch.arange(-degree, degree + 2, device=x.device)
    window = torch.minimum(window.clamp(min=0), (n_knots + 1)[..., None])
    t = torch.gather(breaks[:, None].expand(*x.shape, breaks.shape[-1]), -1, window).unbind(dim=-1)

    values = [torch.ones_like(x)]
    for q in range(1, degree + 1):
        from_left, raised = torch.zeros_like(x), []
        for r in range(q):
            left, right = t[degree + r + 1 - q], t[degree + r + 1]
            share = values[r] / (right - left)
            raised.append(from_left + (right - x) * share)
            from_left = (x - left) * share
        values = [*raised, from_left]
    if kind in (UNIT_AREA, NORMALISED):
        values = [value * (degree + 1) / (t[degree + r + 1] - t[r]) for r, value in enumerate(values)]
    if kind == TAILS:
        values = list(torch.stack(values[1:], dim=-1).flip(-1).cumsum(-1).flip(-1).unbind(-1))

    columns = torch.arange(size, device=x.device)
    rows = (columns < interval[..., None]).to(x.dtype) if kind == TAILS else x.new_zeros(*x.shape, size)
    places = interval[..., None] + torch.arange(len(values), device=x.device)
    rows = rows.scatter(-1, places, torch.stack(values, dim=-1))
    if kind == NORMALISED:
        sizes = (n_knots + degree + 1)[..., None]
        centred = (rows - rows.sum(dim=-1, keepdim=True) / sizes) * (columns < sizes)
        rows = centred * torch.rsqrt((centred**2).sum(dim=-1, keepdim=True) / sizes + NORM_EPSILON)
    return torch.where(missing[..., None], 0.0, rows)


@dataclass(frozen=True)
class Part:
    """Groups and features that are encoded by the same kind of functions.

    Parameters
    ----------
    kind, degree : int
        As in `Layout`, or `AFFINE`.
    start, stop : int
        The groups, from start to before stop.
    learned : bool
        Whether the knots are made of free numbers.
    features : tuple of int or None
        The features; None is all of them.
    family : str
        Name of a family that has no compiled code, whose `function` in plain torch runs; empty for the others.
    """

    kind: int
    degree: int
    start: int
    stop: int
    learned: bool = False
    features: tuple[int, ...] | None = None
    family: str = ""

    @property
    def function(self) -> Callable[..., Tensor] | None:
        """The functions in plain torch, where there is no compiled code; their gradient is torch's own."""
        return FAMILIES[self.family].function if self.family else None

    @property
    def smallest(self) -> int:
        """Number of functions without any knot; every knot adds one."""
        if self.family:
            return FAMILIES[self.family].smallest_size(self.degree)
        return self.degree + (self.kind != TAILS)

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
    """Return features as a tensor: made once, since nothing can be copied from the host while a graph is captured.

    It is kept for good, for graphs that were captured with it read it again and again.
    """
    return torch.tensor(features, device=device)


class Knots(NamedTuple):
    """Where the functions of all groups change.

    Parameters
    ----------
    n_knots : Tensor of shape (G, F)
        Number of interior knots of each feature of each group, int32.
    breaks : Tensor of shape (G, F, K + 2), optional
        ``[0, k_1, ..., k_K, 1]`` of each feature, padded with ones; float32 or float64. Not needed where the knots of
        all groups are learned.
    logits : Tensor of shape (G, F, K + 1), optional
        Free numbers that knots are made of; float32 or float64.
    learned : Tensor of shape (G,), optional
        Groups whose knots are made of them, bool: those of parts that are `learned`. None is all of them.
    min_spacing, epsilon : float
        Smallest width, and constant of the penalty.
    """

    n_knots: Tensor
    breaks: Tensor | None = None
    logits: Tensor | None = None
    learned: Tensor | None = None
    min_spacing: float = 1e-3
    epsilon: float = 1e-6


class Encoded(NamedTuple):
    """Result of `encode`: all three are differentiable.

    Parameters
    ----------
    values : Tensor of shape (G, B, F, size)
        The encoding.
    breaks : Tensor of shape (G, F, K + 2)
        The breaks of all groups.
    penalty : Tensor of shape (G,) or None
        The spacing penalty, 0 for groups whose knots are not learned; None where none are.
    """

    values: Tensor
    breaks: Tensor
    penalty: Tensor | None


def encoding_formula(
    logits: Tensor | None,
    breaks: Tensor | None,
    x: Tensor,
    n_knots: Tensor,
    learned: Tensor | None,
    *,
    parts: Sequence[Part],
    size: int,
    dtype: torch.dtype,
    min_spacing: float,
    epsilon: float,
) -> Any:
    """Compute `encode` in plain torch: the values, and with logits the penalty and the breaks."""
    others: tuple[Tensor, ...] = ()
    if logits is not None:
        widths = widths_from_logits(logits, n_knots, min_spacing)
        made, penalty = breaks_from_widths(widths, n_knots), spacing_penalty(widths, n_knots, epsilon)
        if learned is not None and breaks is not None:
            made, penalty = torch.where(learned[:, None, None], made, breaks), torch.where(learned, penalty, 0.0)
        breaks, others = made, (penalty, made)
    assert breaks is not None
    values = torch.zeros(*x.shape, size, dtype=dtype, device=x.device)
    for part in parts:
        piece = part.of(x, axis=2)
        if part.kind == AFFINE:
            part.write(values[..., 0], torch.nan_to_num(piece, nan=0.0).to(dtype), axis=2)
        else:
            piece, settings = piece.to(breaks.dtype), {"kind": part.kind, "degree": part.degree, "size": size}
            part.write(values, rows_formula(piece, part.of(breaks), part.of(n_knots), **settings).to(dtype), axis=2)
    return (values, *others) if others else values


class Loops(NamedTuple):
    """What a device has to offer for the encoding; `path_of` puts it together, part by part.

    Parameters
    ----------
    knots : callable
        ``knots(logits, n_knots, breaks, learned, min_spacing, epsilon)`` returns the breaks of all groups and the
        penalties.
    knots_backward : callable
        ``knots_backward(breaks_grad, penalty_grad, logits, n_knots, learned, min_spacing, epsilon)`` returns the
        gradient of the logits; either of the first two may be None.
    rows : callable
        ``rows(x, breaks, n_knots, out, *, kind, degree)`` fills `out`, which is contiguous and holds zeros.
    rows_backward : callable
        ``rows_backward(grad, x, breaks, n_knots, *, kind, degree, with_x)`` returns the gradients of x, in its type
        (anything unless `with_x`), and of the breaks.
    rows_to_logits : callable, optional
        ``rows_to_logits(grad, x, breaks, n_knots, penalty_grad, logits, min_spacing, epsilon, *, kind, degree, with_x,
        out)`` returns the gradient of x, and fills `out` with that of the logits: `rows_backward` and `knots_backward`
        in one.
    writes_zeros : bool, default=False
        Whether `rows` writes what is zero too, so that `out` may hold anything.
    """

    knots: Callable[..., tuple[Tensor, Tensor]]
    knots_backward: Callable[..., Tensor]
    rows: Callable[..., None]
    rows_backward: Callable[..., tuple[Tensor, Tensor]]
    rows_to_logits: Callable[..., Tensor] | None = None
    writes_zeros: bool = False


def path_of(loops: Loops) -> Path:
    """Return the path of a device: its loops, part by part, into one tensor.

    Backward keeps the values and the knots, and nothing else: the scheme is run again.
    """

    def forward(*tensors: Any, **settings: Any) -> Any:
        return _forward(loops, *tensors, **settings)

    def backward(grads: Any, kept: Any, needed: Any, **settings: Any) -> Any:
        return _backward(loops, grads, kept, needed, **settings)

    return Path(forward, backward)


def _forward(
    loops: Loops,
    logits: Tensor | None,
    breaks: Tensor | None,
    x: Tensor,
    n_knots: Tensor,
    learned: Tensor | None,
    *,
    parts: Sequence[Part],
    size: int,
    dtype: torch.dtype,
    min_spacing: float,
    epsilon: float,
) -> Any:
    tensors = (logits, breaks, x, n_knots, learned)
    others: tuple[Tensor, ...] = ()
    if logits is not None:
        breaks, penalty = loops.knots(logits, n_knots, breaks, learned, min_spacing, epsilon)
        others = (penalty, breaks)
    assert breaks is not None
    whole_rows = [part.stop - part.start for part in parts if part.features is None and part.kind != AFFINE]
    filled = loops.writes_zeros and sum(whole_rows) == len(x)  # then a pass over the memory is saved
    values = (torch.empty if filled else torch.zeros)(*x.shape, size, dtype=dtype, device=x.device)
    for part in parts:
        piece = part.of(x, axis=2)
        if part.kind == AFFINE:
            part.write(values[..., 0], torch.nan_to_num(piece, nan=0.0).to(dtype), axis=2)
            continue
        whole = part.features is None
        block = part.of(values) if whole else torch.zeros(*piece.shape, size, dtype=dtype, device=x.device)
        loops.rows(piece, part.of(breaks), part.of(n_knots), block, kind=part.kind, degree=part.degree)
        if not whole:
            part.write(values, block, axis=2)
    return (values, *others), (*tensors, *others)


def _backward(
    loops: Loops,
    grads: Any,
    kept: Any,
    needed: Any,
    *,
    parts: Sequence[Part],
    min_spacing: float,
    epsilon: float,
    **_: Any,
) -> Any:
    """Return the gradients of logits, breaks and x.

    All sums over rows are formed first, and go to the logits together with the gradient of the penalty; but on a
    device with `rows_to_logits` each part does so in one pass, where it has all features.
    """
    logits, breaks, x, n_knots, learned, *others = kept
    grad, penalty_grad, later_grad = grads if others else (*grads, None, None)
    tensors = (grad, x, others[1] if others else breaks, n_knots)
    moving = [part for part in parts if part.learned and part.kind != AFFINE]
    at_once = loops.rows_to_logits is not None and all(part.features is None for part in moving)
    if at_once and needed[0] and not needed[1] and grad is not None and later_grad is None:
        spacing = (penalty_grad, logits, min_spacing, epsilon)
        return *_backward_to_logits(loops, parts, moving, tensors, spacing, needed[2]), None, None
    x_grad, slopes = (torch.zeros_like(x), None) if grad is None else _sums(loops, parts, tensors, needed)
    if later_grad is not None:
        slopes = later_grad if slopes is None else slopes + later_grad
    logits_grad = None
    if needed[0]:
        logits_grad = loops.knots_backward(slopes, penalty_grad, logits, n_knots, learned, min_spacing, epsilon)
    if needed[1] and learned is not None:
        slopes = torch.zeros_like(breaks) if slopes is None else torch.where(learned[:, None, None], 0.0, slopes)
    return logits_grad, slopes if needed[1] else None, x_grad if needed[2] else None, None, None


def _sums(loops: Loops, parts: Sequence[Part], tensors: Any, needed: Any) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of x and of the breaks, the latter a sum over rows, where they are needed."""
    grad, x, breaks, n_knots = tensors
    with_knots, with_x = needed[0] or needed[1], needed[2]
    if len(parts) == 1 and _is_whole(parts[0], x):  # no copy is needed
        settings = {"kind": parts[0].kind, "degree": parts[0].degree, "with_x": with_x}
        x_grad, slopes = loops.rows_backward(grad, x, breaks, n_knots, **settings)
        return x_grad if with_x else None, slopes if with_knots else None
    x_out, slopes_out = torch.zeros_like(x) if with_x else None, torch.zeros_like(breaks) if with_knots else None
    for part in parts:
        _part_backward(loops, part, tensors, x_out, slopes_out if needed[1] or part.learned else None)
    return x_out, slopes_out


def _is_whole(part: Part, x: Tensor) -> bool:
    """Return whether a part has all groups and features, and functions that have breaks."""
    return part.features is None and part.kind != AFFINE and part.stop - part.start == len(x)


def _part_backward(
    loops: Loops, part: Part, tensors: tuple[Tensor, ...], x_grad: Tensor | None, slopes: Tensor | None
) -> None:
    """Write a part of the gradients of x and of the breaks, where they are wanted."""
    grad, x, breaks, n_knots = tensors
    if part.kind == AFFINE:
        if x_grad is not None:
            piece = part.of(grad[..., 0], axis=2).to(x.dtype)
            part.write(x_grad, torch.where(part.of(x, axis=2).isfinite(), piece, 0.0), axis=2)
        return
    if x_grad is None and slopes is None:
        return
    pieces = part.of(grad, axis=2), part.of(x, axis=2), part.of(breaks), part.of(n_knots)
    settings = {"kind": part.kind, "degree": part.degree, "with_x": x_grad is not None}
    own_x, own_slopes = loops.rows_backward(*pieces, **settings)
    if x_grad is not None:
        part.write(x_grad, own_x, axis=2)
    if slopes is not None:
        part.write(slopes, own_slopes)


def _backward_to_logits(
    loops: Loops, parts: Sequence[Part], moving: Sequence[Part], tensors: Any, spacing: Any, with_x: bool
) -> tuple[Tensor, None, Tensor | None]:
    """Return the gradients of logits, breaks (None) and x, the last where it is wanted."""
    penalty_grad, logits, min_spacing, epsilon = spacing
    x_grad = torch.zeros_like(tensors[1]) if with_x else None
    covered = sum(part.stop - part.start for part in moving) == len(logits)
    out = torch.empty_like(logits) if covered else torch.zeros_like(logits)
    assert loops.rows_to_logits is not None
    for part in moving:
        piece = slice(part.start, part.stop)
        slopes = None if penalty_grad is None else penalty_grad[piece]
        settings = {"kind": part.kind, "degree": part.degree, "with_x": with_x, "out": out[piece]}
        own_x = loops.rows_to_logits(
            *(t[piece] for t in tensors), slopes, logits[piece], min_spacing, epsilon, **settings
        )
        if x_grad is not None:
            x_grad[piece] = own_x
    for part in parts:
        if part not in moving:
            _part_backward(loops, part, tensors, x_grad, None)
    return out, None, x_grad


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Types of values; in packed settings, a type is its place here."""


def _to_numbers(settings: dict[str, Any]) -> list[float]:
    """Pack settings into numbers: of each part six, and its features."""
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
        parts.append(Part(kind, degree, start, stop, bool(learned), features))
        rest = rest[6 + max(count, 0) :]
    spacing = {"min_spacing": min_spacing, "epsilon": epsilon}
    return {"parts": tuple(parts), "size": int(size), "dtype": TYPES[int(dtype)], **spacing}


def _shapes(logits: Tensor | None, breaks: Any, x: Tensor, *_: Any, size: int, dtype: Any, **__: Any) -> Any:
    del breaks
    values = x.new_empty(*x.shape, size, dtype=dtype)
    if logits is None:
        return (values,)
    return values, logits.new_empty(len(logits)), logits.new_empty(*logits.shape[:-1], logits.shape[-1] + 1)


_ENCODING = Operation(
    encoding_formula,
    cpu="encoding_cpu.ENCODING",
    types=TYPES,
    triton="encoding_triton.ENCODING",
    packing=Packing(_to_numbers, _to_settings, _shapes),
    apart=True,  # a penalty may go backward before or after the values
)


def encode(x: Tensor, knots: Knots, parts: Sequence[Part], *, size: int, dtype: torch.dtype | None = None) -> Encoded:
    """Encode groups that are not all of one kind, part by part, into one tensor.

    Parameters
    ----------
    x : Tensor of shape (G, B, F)
        Values; those outside [0, 1] are moved to the nearer end, NaN gives a row of zeros.
    knots : Knots
        Breaks, or free numbers that they are made of.
    parts : sequence of Part
        Together they cover every group and feature once. Without any, knots and penalty are made and nothing else.
    size : int
        Length of a row.
    dtype : torch.dtype, optional
        Type of the values; by default that of the knots. Arithmetic is in the type of the knots, on the CPU in float64.

    Returns
    -------
    Encoded
        Values, breaks and penalty, differentiable with respect to x, breaks and logits.

    Notes
    -----
    The paths: compiled loops on the CPU; Triton on a GPU, where one kernel makes the knots and penalties of all groups,
    and one brings the sums over rows and the gradient of the penalty to the logits; the formula for float64 on a GPU,
    on other devices, and where Triton is not installed. All are tested against `knotwork.basis`.
    """
    given = knots.breaks if knots.logits is None else knots.logits
    assert given is not None
    dtype = given.dtype if dtype is None else dtype
    results = _ENCODING(
        knots.logits,
        knots.breaks,
        x,
        knots.n_knots,
        knots.learned,
        parts=tuple(part for part in parts if not part.family),
        size=size,
        dtype=dtype,
        min_spacing=knots.min_spacing,
        epsilon=knots.epsilon,
    )
    values, penalty, breaks = (results, None, given) if knots.logits is None else results
    for part in parts:
        if part.family:
            part.write(values, _plain_rows(part, x, breaks, knots.n_knots, size).to(dtype), axis=2)
    return Encoded(values, breaks, penalty)


def _plain_rows(part: Part, x: Tensor, breaks: Tensor, n_knots: Tensor, size: int) -> Tensor:
    """Return the rows of a part that has a function of its own."""
    piece = part.of(x, axis=2).to(breaks.dtype)
    missing = torch.isnan(piece)
    inside = torch.where(missing, 0.0, piece).clamp(0.0, 1.0)
    assert part.function is not None
    rows = part.function(inside, part.of(breaks), part.of(n_knots), degree=part.degree, size=size)
    if rows.shape != (*piece.shape, size):
        raise argument_error("function", f"return rows of shape {(*piece.shape, size)}", tuple(rows.shape))
    return torch.where(missing[..., None], 0.0, rows)
