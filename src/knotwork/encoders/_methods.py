"""The methods by name, those of the paper and further ones with learned knots, and the encoder of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Self

from knotwork._checks import argument_error, check_choice, check_int, listed
from knotwork.encoders._base import Encoder
from knotwork.encoders._piecewise import PiecewiseLinearEncoder
from knotwork.encoders._scalar import SCALINGS, ScalarEncoder
from knotwork.encoders._spline import SplineEncoder
from knotwork.errors import ArgumentTypeError

__all__ = ["METHODS", "METHOD_TABLE", "Encoding", "Method", "make_encoder"]


@dataclass(frozen=True)
class Method:
    """A method.

    Parameters
    ----------
    family : {"standard", "minmax", "ple", "bspline", "mspline", "ispline"}
        The functions, or the scaling.
    placement : str or None
        How knots are chosen, or from where learned knots start.
    learnable : bool
        Whether the knots are learned with a network.
    adaptive : bool
        Whether the size is chosen for each column.
    start : str or None
        Name of the method whose knots learned ones start from.
    """

    family: str
    placement: str | None = None
    learnable: bool = False
    adaptive: bool = False
    start: str | None = field(default=None, repr=False)

    @property
    def has_knots(self) -> bool:
        """Whether values are more than scaled."""
        return self.placement is not None

    @property
    def has_size(self) -> bool:
        """Whether the user chooses the number of columns per feature."""
        return self.has_knots and not self.adaptive


_SPLINES = {"BS": "bspline", "IS": "ispline", "MS": "mspline"}
_PLACEMENTS = {"U": "uniform", "Q": "quantile", "CART": "cart", "LGBM": "lgbm"}

METHOD_TABLE: dict[str, Method] = {
    "Std": Method("standard"),
    "MinMax": Method("minmax"),
    "PLE": Method("ple", "cart"),
    "PLE-Adaptive": Method("ple", "cart", adaptive=True),
    **{
        f"{short}-{end}": Method(family, placement)
        for short, family in _SPLINES.items()
        for end, placement in _PLACEMENTS.items()
    },
    **{
        f"{short}-Grad-U": Method(family, "uniform", learnable=True, start=f"{short}-U")
        for short, family in _SPLINES.items()
    },
}
"""What each of the 19 names stands for."""

METHODS: tuple[str, ...] = tuple(METHOD_TABLE)
"""Names of the paper's 19 methods."""

METHOD_TABLE |= {
    f"{short}-Grad-{end}": Method(family, placement, learnable=True, start=f"{short}-{end}")
    for short, family in _SPLINES.items()
    for end, placement in _PLACEMENTS.items()
    if end != "U"
}
METHOD_TABLE["PLE-Grad"] = Method("ple", "cart", learnable=True, start="PLE")

DEFAULT_SIZE = 15


def make_encoder(method: str | Mapping[Any, str], size: int | None = None, **options: Any) -> Any:
    """Return the encoder of a method, or of a mapping from columns to methods.

    Parameters
    ----------
    method : str or mapping
        A name of `METHODS` whose knots are not learned, such as ``"BS-Q"``, with or without a size, as in
        ``"BS-Q@30"``; or a mapping such as ``{"age": "BS-Q@15", "income": "PLE@30"}``, which makes a
        `PerFeatureEncoder`.
    size : int, optional
        Columns per feature, 15 if none is given. Std, MinMax and PLE-Adaptive have no size and do not use it.
    **options
        Further parameters of the encoder: ``extrapolation``, ``missing``, ``dtype``, ...

    Returns
    -------
    SplineEncoder, PiecewiseLinearEncoder, ScalarEncoder or PerFeatureEncoder
        A transformer, not yet fitted.

    Examples
    --------
    >>> make_encoder("IS-LGBM", size=7)
    SplineEncoder(family='ispline', placement='lgbm', size=7)
    """
    if isinstance(method, Mapping):
        from knotwork.encoders._per_feature import PerFeatureEncoder  # noqa: PLC0415 - it makes encoders by this function

        if size is not None:
            raise argument_error("size", "not be given for a mapping", size, "Write it as in {'age': 'BS-Q@15'}.")
        return _build(PerFeatureEncoder, {"methods": method}, options)
    encoding = Encoding.parse(method)
    if encoding.size is not None and size is not None and encoding.size != size:
        raise argument_error("size", f"agree with the method {method!r}", size)
    if encoding.size is None and encoding.kind.has_size:
        encoding = Encoding(encoding.method, size)
    return encoding.encoder(**options)


@dataclass(frozen=True, order=True)
class Encoding:
    """How a numerical column is encoded: a method, and how many columns it makes of one.

    Parameters
    ----------
    method : str
        A name of `METHOD_TABLE`.
    size : int or None
        Columns per feature; None for methods that have no size.

    Examples
    --------
    >>> encoding = Encoding.parse("BS-Grad-Q@15")
    >>> encoding.size, encoding.learnable, str(encoding.start)
    (15, True, 'BS-Q@15')
    """

    method: str
    size: int | None = None

    def __post_init__(self) -> None:
        has_size = self.kind.has_size
        if has_size and self.size is not None:
            check_int(self.size, "size", minimum=1)
        elif not has_size and self.size is not None:
            raise argument_error("size", f"be None, for {self.method} has none", self.size)

    @classmethod
    def parse(cls, spec: str, default_size: int | None = None) -> Self:
        """Read a method with or without a size, as in ``"BS-Q@15"``.

        Parameters
        ----------
        spec : str
            The method, and the size.
        default_size : int, optional
            The size of a method that has one where `spec` names none.
        """
        name, at, size = spec.partition("@") if isinstance(spec, str) else (spec, "", "")
        has_size = METHOD_TABLE[check_choice(name, "method", METHOD_TABLE)].has_size
        if not at:
            return cls(name, default_size if has_size else None)
        if not size.isdecimal():
            raise argument_error("method", "be a name, or a name and a size as in 'BS-Q@15'", spec)
        if not has_size:
            raise argument_error("method", f"have no size, for {name} has none", spec, f"Write {name!r}.")
        return cls(name, int(size))

    def __str__(self) -> str:
        return self.method if self.size is None else f"{self.method}@{self.size}"

    @property
    def kind(self) -> Method:
        """What the method is."""
        return METHOD_TABLE[check_choice(self.method, "method", METHOD_TABLE)]

    @property
    def learnable(self) -> bool:
        """Whether knots are learned with a network."""
        return self.kind.learnable

    @property
    def has_knots(self) -> bool:
        """Whether values are more than scaled."""
        return self.kind.has_knots

    @property
    def start(self) -> Self:
        """The encoding with fixed knots that learned ones start from; itself if knots are not learned."""
        return self if self.kind.start is None else replace(self, method=self.kind.start)

    def encoder(self, **options: Any) -> Encoder:
        """Return the encoder, not yet fitted, of a method without learned knots.

        Parameters
        ----------
        **options
            Further parameters of the encoder.
        """
        method = self.kind
        if method.learnable:
            raise argument_error(
                "method",
                "be one without learned knots",
                self.method,
                f"The knots of {self.method} are learned with a network: use {_layer(method)} in front of one. "
                f"The encoder that they start from is {method.start!r}.",
            )
        size = DEFAULT_SIZE if self.size is None else self.size
        encoder: Encoder
        if method.family in SCALINGS:
            encoder = _build(ScalarEncoder, {"scaling": method.family}, options)
        elif method.family == "ple":
            ple: dict[str, Any] = {"adaptive": True} if method.adaptive else {"size": size}
            if method.placement != "cart":
                ple["placement"] = method.placement
            encoder = _build(PiecewiseLinearEncoder, ple, options)
        else:
            settings = {"family": method.family, "size": size, "placement": method.placement}
            encoder = _build(SplineEncoder, settings, options)
        return encoder


def _layer(method: Method) -> str:
    """Return how the layer with learned knots is made."""
    if method.family == "ple":
        return "knotwork.nn.PiecewiseLinearEncoding(n_features, size)"
    return f"knotwork.nn.SplineEncoding(n_features, size, family={method.family!r})"


def _build(kind: type, settings: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Call a class; an unknown option is refused with the list of known ones."""
    known = [name for name in signature(kind).parameters if name not in settings]
    for name in options:
        if name not in known:
            raise ArgumentTypeError(f"{kind.__name__} has no option {name!r} here. It has {listed(known, most=20)}.")
    return kind(**settings, **options)
