"""The methods, the parser of names such as ``"CS-U@12%24"`` and ``"PLE@30+LR8"``, and the encoders of encodings."""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import KW_ONLY, dataclass, field, replace
from inspect import signature
from typing import Any, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, suggestion, type_error
from knotwork.basis import FAMILIES
from knotwork.encoders._base import Encoder
from knotwork.encoders._transformers import (
    SCALINGS,
    WAVE_FAMILIES,
    PeriodicEncoder,
    PiecewiseLinearEncoder,
    ScalarEncoder,
    SplineEncoder,
    check_period,
)
from knotwork.errors import ArgumentTypeError
from knotwork.knots import PLACEMENTS, placement_traits, resolve_placement


class EncodingName(NamedTuple):
    """The parts of the name of an encoding, as text; None where a part is missing.

    Parameters
    ----------
    base : str
        The method without its period and its embedding, such as ``"BS-Grad-Q"``.
    size : str or None
        The size, after ``@``.
    period : str or None
        The period, after ``%``.
    embedding : str or None
        The embedding, after ``+``.

    Examples
    --------
    >>> name = EncodingName.parse("CS-U@12%24+L8")
    >>> name
    EncodingName(base='CS-U', size='12', period='24', embedding='L8')
    >>> name.method, name.family, str(name)
    ('CS-U%24+L8', 'CS', 'CS-U@12%24+L8')
    """

    base: str
    size: str | None = None
    period: str | None = None
    embedding: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split a name into its parts, without checking that they are valid."""
        rest, embedding = _cut(text, "+")
        rest, period = _cut(rest, "%")
        base, size = _cut(rest, "@")
        return cls(base, size, period, embedding)

    @property
    def method(self) -> str:
        """The name without its size."""
        return str(self._replace(size=None))

    @property
    def plain(self) -> str:
        """The name without its size and its embedding."""
        return str(self._replace(size=None, embedding=None))

    @property
    def family(self) -> str:
        """Short name of the family, such as ``"BS"``."""
        return self.base.partition("-")[0]

    @property
    def knots(self) -> str:
        """The rest of the base, such as ``"Grad-Q"``."""
        return self.base.partition("-")[2]

    def __str__(self) -> str:
        parts = ("@", self.size), ("%", self.period), ("+", self.embedding)
        return self.base + "".join(f"{sign}{part}" for sign, part in parts if part is not None)


def _cut(text: str, sign: str) -> tuple[str, str | None]:
    """Return the text before a sign and the text after it, None without the sign."""
    before, mark, after = text.partition(sign)
    return before, after if mark else None


_EMBEDDING = re.compile(r"(?:L(R?)([1-9][0-9]{0,5}))?(x?)")


@dataclass(frozen=True, order=True)
class Embedding:
    """A learned map of the encoded values of each feature, written as ``"L8"``, ``"LR8"``, ``"L8x"`` or ``"x"``.

    Parameters
    ----------
    width : int
        Number of outputs of a linear map of the encoded values; 0 for no map.
    relu : bool, default=False
        Whether a ReLU follows the map.
    raw : bool, default=False
        Whether the scaled value of the feature is an output as well, before the others.

    Examples
    --------
    >>> embedding = Embedding.parse("LR8x")
    >>> embedding
    Embedding(width=8, relu=True, raw=True)
    >>> str(embedding), embedding.columns(30)
    ('LR8x', 9)
    """

    width: int
    relu: bool = False
    raw: bool = False

    def __post_init__(self) -> None:
        check_int(self.width, "width", minimum=0)
        if not self.width and (check_bool(self.relu, "relu") or not check_bool(self.raw, "raw")):
            raise argument_error("width", "be at least 1 with relu=True or raw=False", self.width)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an embedding, as in ``"LR8"``."""
        match = _EMBEDDING.fullmatch(text) if text else None
        if match is None:
            raise argument_error(
                "embedding",
                "be a linear map as in 'L8', with ReLU as in 'LR8', with the value as in 'L8x', or 'x'",
                text,
            )
        return cls(int(match[2] or 0), bool(match[1]), bool(match[3]))

    def __str__(self) -> str:
        return (f"L{'R' if self.relu else ''}{self.width}" if self.width else "") + ("x" if self.raw else "")

    def columns(self, size: int) -> int:
        """Return the number of outputs for a feature that is encoded in `size` columns."""
        return (self.width or size) + self.raw


@dataclass(frozen=True)
class Method:
    """A method: a family and a placement, cosines and sines, a scaling, or a choice for each column.

    Parameters
    ----------
    family : str
        The functions, a name of `knotwork.basis.FAMILIES`, ``"periodic"`` or ``"cosine"`` as in `PeriodicEncoder`; or
        the scaling, ``"standard"``, ``"minmax"`` or ``"robust"``; or ``"per-feature"``.
    placement : str or None
        The placement of the knots, or of the initial knots if they are learned. None for functions without knots.
    learnable : bool
        Whether the knots are learned with a network.
    adaptive : bool
        Whether the size is chosen for each column.
    start : str or None
        Name of the method with fixed knots and without an embedding that this one starts from.
    embedding : Embedding or None
        Map of the encoded values of each feature, learned with a network; needs `start`.
    period : float or None
        Period of a cyclic family; None for the training range.
    """

    family: str
    placement: str | None = None
    learnable: bool = False
    adaptive: bool = False
    start: str | None = field(default=None, repr=False)
    embedding: Embedding | None = field(default=None, repr=False)
    period: float | None = field(default=None, repr=False)  # studies cache knots by the representation

    def __post_init__(self) -> None:
        if self.period is not None:
            check_period(self.period)
            if not self.is_cyclic:
                raise argument_error("period", f"be None for the family {self.family!r}, which has none", self.period)
        if self.embedding is not None and self.start is None:
            raise argument_error("start", "be the name of the method without its embedding", self.start)

    @property
    def has_knots(self) -> bool:
        """Whether the method has knots; False for cosines and sines and for a scaling."""
        return self.placement is not None

    @property
    def in_paper(self) -> bool:
        """Whether the paper studies the family, or it is a scaling."""
        return self.family in SCALINGS or (self.family in FAMILIES and FAMILIES[self.family].in_paper)

    @property
    def is_cyclic(self) -> bool:
        """Whether the functions repeat with a period."""
        return self.family in FAMILIES and FAMILIES[self.family].basis.is_cyclic

    @property
    def has_size(self) -> bool:
        """Whether the user chooses the number of columns per feature."""
        return self.family not in SCALINGS and not self.adaptive and not self.is_choice

    @property
    def is_choice(self) -> bool:
        """Whether training rows choose the encoding of each column."""
        return self.family == PER_FEATURE

    @property
    def has_bins(self) -> bool:
        """Whether the knots are edges of bins, as in piecewise-linear encoding."""
        return self.has_knots and not FAMILIES[check_choice(self.family, "family", FAMILIES)].with_placements

    @property
    def has_usual_bins(self) -> bool:
        """Whether the knots are edges of bins where piecewise-linear encoding has them by default."""
        return self.has_bins and self.placement == PiecewiseLinearEncoder().placement

    @property
    def smallest_size(self) -> int:
        """Smallest number of columns per feature, for the default degree of the encoders."""
        if self.family in WAVE_FAMILIES:
            return 2
        return FAMILIES[check_choice(self.family, "family", FAMILIES)].smallest_size(SplineEncoder().degree)

    @property
    def supervised(self) -> bool:
        """Whether knots, or the choice of encodings, need the target."""
        return self.is_choice or (self.placement is not None and resolve_placement(self.placement).supervised)

    @property
    def knots_label(self) -> str:
        """The placement as reports name it; empty for functions without knots."""
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
_BEYOND_PAPER = {
    "Robust": Method("robust"),
    "PLE-Q": Method("ple", "quantile"),
    "Periodic": Method("periodic"),
    "Cosine": Method("cosine"),
    "PLR": Method("periodic", start="Periodic", embedding=Embedding(16, relu=True)),
    "PBLD": Method("cosine", start="Cosine", embedding=Embedding(3, raw=True)),
}

PER_FEATURE = "per-feature"
"""The method whose encoding of each column training rows choose, as `knotwork.choose_per_feature` does."""


def _crossed() -> dict[str, Method]:
    """Return the methods of all pairs of a family and a placement.

    Fixed knots come first, then learned ones that start from the first placement, then from the others. This is the
    order of the paper, and reports list methods in it.
    """
    families, placements = _shorts()
    pairs = [(begin, end, family, placement) for begin, family in families for end, placement in placements]
    fixed = {f"{begin}-{end}": Method(family, placement) for begin, end, family, placement in pairs}
    pairs.sort(key=lambda pair: pair[1] != placements[0][0])
    learned = {
        f"{begin}-Grad-{end}": Method(family, placement, learnable=True, start=f"{begin}-{end}")
        for begin, end, family, placement in pairs
    }
    return fixed | learned


def _shorts() -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the beginnings of names with their families, and the ends with their placements; duplicates raise."""
    families = tuple((family.short, name) for name, family in FAMILIES.items() if family.with_placements)
    placements = tuple((placement_traits(name).short, name) for name in PLACEMENTS)
    for parts in (families, placements):
        if len(dict(parts)) < len(parts):
            raise argument_error("short", "be unique among families and among placements", parts, "Rename one.")
    return families, placements


@final
class MethodTable(MutableMapping[str, Method]):
    """The methods by name.

    Each pair of a family in `knotwork.basis.FAMILIES` and a placement in `knotwork.knots.PLACEMENTS` has two methods,
    such as ``"BS-Q"`` with fixed knots and ``"BS-Grad-Q"`` with learned knots that start from these. A family or a
    placement that you register has its methods immediately. You can add further methods, and delete only these. A name
    with an embedding, such as ``"PLE+LR8"``, is the method followed by that embedding; a name with a period, such as
    ``"CS-U%24"``, is the method of a cyclic family modulo that period; and ``"per-feature"`` chooses the encoding of
    each column. Iteration does not list these.

    Examples
    --------
    >>> METHOD_TABLE["CS-U%24"].period
    24.0
    >>> METHOD_TABLE["IS-Grad-Q"].start
    'IS-Q'
    >>> METHOD_TABLE["PLE+LR8"].embedding
    Embedding(width=8, relu=True, raw=False)
    """

    def __init__(self) -> None:
        self._added: dict[str, Method] = {}
        self._computed: dict[str, Method] = {}
        self._names: tuple[str, ...] = ()
        self._parts: list[object] = []

    def _all(self) -> dict[str, Method]:
        """Return all methods; those of pairs are computed again only if a registry has changed."""
        names, parts = (*FAMILIES, *PLACEMENTS), [*FAMILIES.values(), *PLACEMENTS.values()]
        if names != self._names or not all(map(operator.is_, parts, self._parts)):
            self._computed = {**_NAMED, **_crossed(), **_NAMED_AND_LEARNED, **_BEYOND_PAPER}
            self._names, self._parts = names, parts
        return {**self._computed, **self._added} if self._added else self._computed

    def __getitem__(self, name: str) -> Method:
        methods = self._all()
        if name in methods or not isinstance(name, str):
            return methods[name]
        if name == PER_FEATURE:
            return Method(PER_FEATURE)
        parts = EncodingName.parse(name)
        if parts.size is not None:
            raise KeyError(name)
        method = methods[parts.base]
        start = method.start or (None if parts.embedding is None else parts.base)
        try:
            return replace(
                method,
                start=start and str(EncodingName(start, period=parts.period)),
                embedding=method.embedding if parts.embedding is None else Embedding.parse(parts.embedding),
                period=method.period if parts.period is None else float(parts.period),
            )
        except ValueError:
            raise KeyError(name) from None

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
"""All methods by name."""

PAPER_METHODS: tuple[str, ...] = tuple(
    name
    for name, method in METHOD_TABLE.items()
    if name not in _BEYOND_PAPER and method.in_paper and (not method.learnable or method.placement == "uniform")
)
"""Names of the 19 methods of the paper, in which learned knots start from equal distances."""

METHODS: tuple[str, ...] = (
    *PAPER_METHODS,
    *_BEYOND_PAPER,
    *(
        name
        for name, method in METHOD_TABLE.items()
        if method.has_knots
        and not (method.in_paper or method.supervised)
        and (not method.learnable or method.placement == "uniform")
    ),
)
"""Names of the methods: those of the paper, further ones, and those of other families with knots that need no target.
`METHOD_TABLE` has all pairs of a family and a placement."""


def check_method(name: Any, argument: str = "method", *, also: Iterable[str] = ()) -> str:
    """Return `name` if `METHOD_TABLE` has it; otherwise raise an error.

    The error names the most similar of the methods and of the values in `also`, or lists all if none is similar.
    """
    if isinstance(name, str) and name in METHOD_TABLE:
        return name
    parts = EncodingName.parse(name if isinstance(name, str) else "")
    is_known = parts.size is None and parts.base in METHOD_TABLE
    if is_known and parts.plain not in METHOD_TABLE:
        requirement = "have a period larger than 0, as in 'CS-U%24', and only for a cyclic family"
        raise argument_error(argument, requirement, name)
    if is_known:
        raise argument_error(argument, "have an embedding such as '+L8', '+LR8' or '+LR8x' after its name", name)
    if hint := suggestion(name, (*also, *METHOD_TABLE), most=3) if isinstance(name, str) else "":
        raise argument_error(argument, "be a valid name (knotwork.METHODS lists them)", name, hint)
    crossed = _crossed()
    names = [method for method in METHOD_TABLE if method in METHODS or method not in crossed]
    beginnings, ends = (", ".join(short for short, _ in parts) for parts in _shorts())
    requirement = (
        f"be one of {listed((*also, *names), most=80)}, or a family ({beginnings}) and a placement ({ends}) as in "
        "'BS-Q', with 'Grad' in between for learned knots as in 'BS-Grad-Q', each with or without an embedding as in "
        "'PLE+LR8', or a period as in 'CS-U%24'"
    )
    raise argument_error(argument, requirement, name)


@dataclass(frozen=True, order=True)
class Encoding:
    """A method and a size, with or without a period or an embedding: ``"BS-Q@15"``, ``"CS-U@12%24"``, ``"PLE@30+LR8"``.

    Parameters
    ----------
    method : str
        A name of `METHOD_TABLE`, such as ``"BS-Q"`` or ``"PLE+LR8"``.
    size : int or None
        Columns per feature; None for methods without a size.

    Examples
    --------
    >>> encoding = Encoding.parse("BS-Grad-Q@15")
    >>> encoding.size, encoding.learnable, str(encoding.start)
    (15, True, 'BS-Q@15')
    >>> Encoding.parse("PLE@30+LR8").embedding
    Embedding(width=8, relu=True, raw=False)
    """

    method: str
    size: int | None = None

    def __post_init__(self) -> None:
        has_size = self.kind.has_size
        if has_size and self.size is not None:
            check_int(self.size, "size", minimum=1)
        elif not has_size and self.size is not None:
            raise argument_error("size", f"be None for {self.method}, which has no size", self.size)

    @classmethod
    def parse(
        cls, spec: str, default_size: int | None = None, *, argument: str = "method", also: Iterable[str] = ()
    ) -> Self:
        """Read a method with or without a size and an embedding, as in ``"BS-Q@15"`` and ``"PLE@30+LR8"``.

        An embedding that is the method's default is left out: ``"PLR@16+LR16"`` is ``"PLR@16"``.

        Parameters
        ----------
        spec : str
            The method, then the size after ``@``, the period after ``%``, and the embedding after ``+``.
        default_size : int, optional
            Size if the method has one and `spec` does not contain it.
        argument : str, default="method"
            Name of the argument in errors.
        also : iterable of str, default=()
            Other valid values of the argument, for the error that lists them.
        """
        parts = EncodingName.parse(spec if isinstance(spec, str) else check_method(spec, argument, also=also))
        name, size = _without_usual_embedding(parts), parts.size
        if size is not None and name in also:
            raise argument_error(argument, f"be {name!r} without a size", spec)
        kind = METHOD_TABLE[check_method(name, argument, also=also)]
        if kind.is_choice:
            hint = "Training rows choose one for each column: knotwork.choose_per_feature returns the choices."
            raise argument_error(argument, "name one encoding", spec, hint)
        has_size = kind.has_size
        if size is None:
            return cls(name, default_size if has_size else None)
        if not size.isdecimal():
            raise argument_error(argument, "be a name, or a name and a size as in 'BS-Q@15'", spec)
        if not has_size:
            raise argument_error(argument, f"be {name!r} without a size", spec, f"{name} has no size.")
        return cls(name, int(size))

    def __str__(self) -> str:
        return str(EncodingName.parse(self.method)._replace(size=None if self.size is None else str(self.size)))

    @property
    def kind(self) -> Method:
        """The method and its traits."""
        return METHOD_TABLE[check_method(self.method)]

    @property
    def learnable(self) -> bool:
        """Whether the knots are learned with a network."""
        return self.kind.learnable

    @property
    def has_knots(self) -> bool:
        """Whether the method has knots; False for cosines and sines and for a scaling."""
        return self.kind.has_knots

    @property
    def embedding(self) -> Embedding | None:
        """The map of the encoded values of each feature, learned with a network; None if there is none."""
        return self.kind.embedding

    @property
    def start(self) -> Self:
        """The encoding with fixed knots and without an embedding that this one starts from, or itself."""
        return self if self.kind.start is None else replace(self, method=self.kind.start)

    def encoder(self, **options: Any) -> Encoder:
        """Return the unfitted encoder; a method with learned knots or an embedding raises an error.

        Parameters
        ----------
        **options
            Further parameters of the encoder.
        """
        method = self.kind
        if method.learnable:
            hint = (
                f"The knots of {self.method} are learned with a network: put {_layer(method)} in front of it. "
                f"The encoder that they start from is {method.start!r}."
            )
            raise argument_error("method", "have fixed knots", self.method, hint)
        if method.embedding is not None:
            hint = (
                f"The embedding {str(method.embedding)!r} of {self.method} is learned with a network: put "
                f"knotwork.nn.FeatureEmbedding in front of it, or pass encoding={str(self)!r} to an estimator. "
                f"The encoder in front of the embedding is {method.start!r}."
            )
            raise argument_error("method", "have no embedding", self.method, hint)
        if method.family in SCALINGS:
            return _build(ScalarEncoder, {"scaling": method.family}, options)
        kind: type[Encoder] = PeriodicEncoder if method.family in WAVE_FAMILIES else SplineEncoder
        settings = {"size": self.size, "placement": method.placement, "period": method.period}
        if method.has_bins:
            kind, settings["adaptive"] = PiecewiseLinearEncoder, method.adaptive or None
            settings["placement"] = None if method.has_usual_bins else method.placement
        elif method.family != "periodic":
            settings["family"] = method.family
        return _build(kind, {name: value for name, value in settings.items() if value is not None}, options)


def _without_usual_embedding(parts: EncodingName) -> str:
    """Return the name of a method, without an embedding that is its default."""
    names = parts.method, parts.plain
    if all(name in METHOD_TABLE for name in names) and len({METHOD_TABLE[name].embedding for name in names}) == 1:
        return parts.plain
    return parts.method


def _layer(method: Method) -> str:
    """Return the code that creates the layer with learned knots."""
    if method.has_bins:
        return "knotwork.nn.PiecewiseLinearEncoding(n_features, size)"
    return f"knotwork.nn.SplineEncoding(n_features, size, family={method.family!r})"


def _build(kind: type[Encoder], settings: Mapping[str, Any], options: Mapping[str, Any]) -> Encoder:
    """Call a class; an unknown option raises an error that lists the valid ones."""
    valid = [name for name in signature(kind).parameters if name not in settings]
    for name in options:
        if name not in valid:
            hint = (
                " The size, which is n_knots + degree + 1, says how many knots there are." if name == "n_knots" else ""
            )
            raise ArgumentTypeError(
                f"{kind.__name__} has no option {name!r} here, only {listed(valid, most=20)}.{hint}"
            )
    return kind(**settings, **options)


@final
@dataclass(eq=False, repr=False)
class PerFeatureEncoder(Encoder):
    """Encode each column by the method that a mapping names for it.

    Parameters
    ----------
    methods : mapping
        From column names (or indices, for an array without names) to methods such as ``"BS-Q@15"`` or ``"Std"``, or to
        unfitted encoders such as ``SplineEncoder(size=9, degree=1)``, of which the settings of knots are used.
    default : str, optional
        Method of columns that the mapping does not contain; without it, such a column raises an error.
    extrapolation : {"clip", "linear", "continue", "error"}, default="clip"
        Treatment of values outside the training range, as in `SplineEncoder`.
    missing, task, sparse_output, dtype, n_jobs, random_state
        As for `SplineEncoder`.

    Attributes
    ----------
    encoders_ : list of encoders
        The encoder of each column.
    knots_ : list of ndarray
        Interior knots of each column; empty for a scaling.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 50.0], "rooms": [1.0, 2.0, 4.0]})
    >>> encoder = PerFeatureEncoder({"age": "BS-Q@4"}, default="MinMax").fit(X)
    >>> encoder.get_feature_names_out()
    array(['age_bs0', 'age_bs1', 'age_bs2', 'age_bs3', 'rooms'], dtype=object)
    """

    methods: Mapping[Any, str | Encoder]
    _: KW_ONLY
    default: str | None = None
    extrapolation: str = "clip"
    missing: str = "zeros"
    task: str | None = None
    sparse_output: bool = False
    dtype: npt.DTypeLike = np.float32
    n_jobs: int | None = None
    random_state: Any = None

    @property
    def _supervised(self) -> bool:
        return any(encoder._supervised for encoder in self._encoders())

    def check_settings(self) -> None:
        """Raise an error if a parameter is not valid."""
        if not isinstance(self.methods, Mapping):
            raise type_error("methods", "be a mapping from columns to methods", self.methods)
        for encoder in self._encoders():
            encoder.check_settings()

    def _encoders(self) -> list[Encoder]:
        specs = [*self.methods.values(), *([] if self.default is None else [self.default])]
        return [_encoder(spec) for spec in specs]

    def _check_columns(self) -> None:
        columns = self._labels()
        if unknown := [name for name in self.methods if name not in columns]:
            hint = f"The columns of X are {listed(columns, most=30)}."
            raise argument_error("methods", "name columns of X", listed(unknown), hint)
        without = [name for name in columns if name not in self.methods]
        if without and self.default is None:
            hint = f"Without a method: {listed(without)}. Add them, or pass default='Std'."
            raise argument_error("methods", "contain every column of X if default is None", self.methods, hint)
        default: Any = self.default  # not None for a column without a method
        self.encoders_ = [_encoder(self.methods.get(name, default)) for name in columns]

    def _of_column(self, index: int) -> Encoder:
        return self.encoders_[index]


def _encoder(spec: Any) -> Encoder:
    """Return the encoder of an entry of a mapping, a name or an encoder."""
    return spec if isinstance(spec, Encoder) else Encoding.parse(spec).encoder()


def make_encoder(method: str | Mapping[Any, str | Encoder], size: int | None = None, **options: Any) -> Any:
    """Return the encoder of a method, or of a mapping from columns to methods.

    Parameters
    ----------
    method : str or mapping
        A name of `METHOD_TABLE` that learns nothing with a network, such as ``"BS-Q"``, with or without a size, as in
        ``"BS-Q@30"``; or a mapping such as ``{"age": "BS-Q@15", "income": "PLE@30"}``, for a `PerFeatureEncoder`, in
        which encoders such as ``SplineEncoder(degree=1)`` may replace names.
    size : int, optional
        Columns per feature, by default 15. Std, MinMax, Robust and PLE-Adaptive ignore it.
    **options
        Further parameters of the encoder: ``extrapolation``, ``missing``, ``dtype``, ...

    Returns
    -------
    SplineEncoder, PiecewiseLinearEncoder, PeriodicEncoder, ScalarEncoder or PerFeatureEncoder
        The unfitted transformer.

    Examples
    --------
    >>> make_encoder("IS-LGBM", size=7)
    SplineEncoder(family='ispline', placement='lgbm', size=7)
    """
    if isinstance(method, Mapping):
        if size is not None:
            raise argument_error("size", "be None for a mapping", size, "Write sizes as in {'age': 'BS-Q@15'}.")
        return _build(PerFeatureEncoder, {"methods": method}, options)
    encoding = Encoding.parse(method)
    if encoding.size is not None and size is not None and encoding.size != size:
        raise argument_error("size", f"agree with the method {method!r}", size, "Give the size once.")
    if encoding.size is None and encoding.kind.has_size:
        encoding = Encoding(encoding.method, size)
    return encoding.encoder(**options)
