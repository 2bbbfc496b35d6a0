"""The methods by name, those of every registered family and placement and further ones, and their encoders."""

import operator
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from inspect import signature
from typing import Any, Self, final

from knotwork._checks import argument_error, check_choice, check_int, listed
from knotwork.basis import FAMILIES
from knotwork.encoders._base import Encoder
from knotwork.encoders._piecewise import PiecewiseLinearEncoder
from knotwork.encoders._scalar import SCALINGS, ScalarEncoder
from knotwork.encoders._spline import SplineEncoder
from knotwork.errors import ArgumentTypeError
from knotwork.knots import PLACEMENTS
from knotwork.knots._placements import placement_traits, resolve_placement

__all__ = ["METHODS", "METHOD_TABLE", "Encoding", "Method", "MethodTable", "check_method", "make_encoder"]


@dataclass(frozen=True)
class Method:
    """A method.

    Parameters
    ----------
    family : str
        The functions, a name of `knotwork.basis.FAMILIES`, or the scaling, ``"standard"`` or ``"minmax"``.
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

    @property
    def has_bins(self) -> bool:
        """Whether knots are the edges of bins of piecewise-linear encoding."""
        return self.has_knots and not FAMILIES[check_choice(self.family, "family", FAMILIES)].with_placements

    @property
    def smallest_size(self) -> int:
        """Smallest number of columns per feature, with the degree that encoders have by default."""
        return FAMILIES[check_choice(self.family, "family", FAMILIES)].smallest_size(SplineEncoder().degree)

    @property
    def supervised(self) -> bool:
        """Whether knots are placed by looking at the target."""
        return self.placement is not None and resolve_placement(self.placement).supervised

    @property
    def knots_label(self) -> str:
        """How knots are placed, for readers of reports; empty if values are only scaled."""
        if self.placement is None:
            return ""
        label = placement_traits(check_choice(self.placement, "placement", PLACEMENTS)).label
        return f"learned from {label}" if self.learnable else label


_NAMED = {
    "Std": Method("standard"),
    "MinMax": Method("minmax"),
    "PLE": Method("ple", "cart"),
    "PLE-Adaptive": Method("ple", "cart", adaptive=True),
}
_NAMED_AND_LEARNED = {"PLE-Grad": Method("ple", "cart", learnable=True, start="PLE")}


def _crossed() -> dict[str, Method]:
    """Return the methods of all pairs: fixed knots, learned ones from the first placement, then from the others.

    Reports list methods in this order, which is the paper's.
    """
    families, placements = _shorts()
    pairs = [(family, short, place, end) for short, family in families for end, place in placements]
    learned = sorted(pairs, key=lambda pair: pair[3] != placements[0][0])
    return {
        **{f"{short}-{end}": Method(family, place) for family, short, place, end in pairs},
        **{
            f"{short}-Grad-{end}": Method(family, place, learnable=True, start=f"{short}-{end}")
            for family, short, place, end in learned
        },
    }


def _shorts() -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the beginnings of names with their families, and the ends with their placements, without duplicates."""
    families = tuple((each.short, name) for name, each in FAMILIES.items() if each.with_placements)
    placements = tuple((placement_traits(name).short, name) for name in PLACEMENTS)
    for parts in (families, placements):
        if len(dict(parts)) < len(parts):
            raise argument_error("short", "differ between families, and between placements", parts)
    return families, placements


@final
class MethodTable(MutableMapping[str, Method]):
    """The methods by name.

    Every family of `knotwork.basis.FAMILIES` and placement of `knotwork.knots.PLACEMENTS` has its methods here, such as
    ``"BS-Q"`` and, with learned knots that start from there, ``"BS-Grad-Q"``; so a family or a placement that is
    registered has them at once. Further methods can be added, and only these can be deleted.

    Examples
    --------
    >>> METHOD_TABLE["IS-Grad-Q"].start
    'IS-Q'
    """

    def __init__(self) -> None:
        self._added: dict[str, Method] = {}
        self._computed: dict[str, Method] = {}
        self._names: tuple[str, ...] = ()
        self._parts: list[object] = []

    def _all(self) -> dict[str, Method]:
        """Return all methods; those of pairs are computed again only after a registry has changed."""
        names, parts = (*FAMILIES, *PLACEMENTS), [*FAMILIES.values(), *PLACEMENTS.values()]
        if names != self._names or not all(map(operator.is_, parts, self._parts)):
            self._computed = {**_NAMED, **_crossed(), **_NAMED_AND_LEARNED}
            self._names, self._parts = names, parts
        return {**self._computed, **self._added} if self._added else self._computed

    def __getitem__(self, name: str) -> Method:
        return self._all()[name]

    def __setitem__(self, name: str, method: Method) -> None:
        self._added[name] = method

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({listed(self, most=len(self))})"


METHOD_TABLE = MethodTable()
"""What each name stands for."""

METHODS: tuple[str, ...] = tuple(
    name for name, method in METHOD_TABLE.items() if not method.learnable or method.placement == "uniform"
)
"""Names of the paper's 19 methods; its learned knots start from equal distances."""


def check_method(name: Any, argument: str = "method", *, also: Iterable[str] = ()) -> str:
    """Return a name of `METHOD_TABLE`; otherwise raise an error that says how names are made.

    Parameters
    ----------
    name : str
        The method.
    argument : str
        What the user calls it.
    also : iterable of str
        What else the argument may be, for the message.
    """
    if isinstance(name, str) and name in METHOD_TABLE:
        return name
    families, placements = _shorts()
    crossed = _crossed()
    apart = [each for each in METHOD_TABLE if each in METHODS or each not in crossed]
    beginnings, ends = (", ".join(short for short, _ in parts) for parts in (families, placements))
    requirement = (
        f"be one of {listed((*also, *apart), most=30)}, or a family ({beginnings}) and a placement ({ends}) as in "
        "'BS-Q', with 'Grad' in between for learned knots as in 'BS-Grad-Q'"
    )
    near = get_close_matches(str(name), METHOD_TABLE, n=1)
    raise argument_error(argument, requirement, name, f"Did you mean {near[0]!r}?" if near else "")


DEFAULT_SIZE = 15


def make_encoder(method: str | Mapping[Any, str], size: int | None = None, **options: Any) -> Any:
    """Return the encoder of a method, or of a mapping from columns to methods.

    Parameters
    ----------
    method : str or mapping
        A name of `METHOD_TABLE` whose knots are not learned, such as ``"BS-Q"``, with or without a size, as in
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
        has_size = METHOD_TABLE[check_method(name)].has_size
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
        return METHOD_TABLE[check_method(self.method)]

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
        if method.family in SCALINGS:
            return _build(ScalarEncoder, {"scaling": method.family}, options)
        settings: dict[str, Any] = {"size": DEFAULT_SIZE if self.size is None else self.size}
        if not method.has_bins:
            return _build(SplineEncoder, {"family": method.family, "placement": method.placement, **settings}, options)
        if method.adaptive:
            settings = {"adaptive": True}
        if method.placement != "cart":
            settings["placement"] = method.placement
        return _build(PiecewiseLinearEncoder, settings, options)


def _layer(method: Method) -> str:
    """Return how the layer with learned knots is made."""
    if method.has_bins:
        return "knotwork.nn.PiecewiseLinearEncoding(n_features, size)"
    return f"knotwork.nn.SplineEncoding(n_features, size, family={method.family!r})"


def _build(kind: type[Encoder], settings: Mapping[str, Any], options: Mapping[str, Any]) -> Encoder:
    """Call a class; an unknown option is refused with the list of known ones."""
    known = [name for name in signature(kind).parameters if name not in settings]
    for name in options:
        if name not in known:
            raise ArgumentTypeError(f"{kind.__name__} has no option {name!r} here. It has {listed(known, most=20)}.")
    return kind(**settings, **options)
