"""The abstract bases: checks of knots and domain, values outside the domain, missing values."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import frexp, isfinite, ldexp
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, check_int

FloatArray = npt.NDArray[np.float64]

EXTRAPOLATIONS = {
    "clip": "a value outside the domain is moved to the nearer end",
    "linear": "the basis continues in a straight line, with its value and slope at the end",
    "continue": "the basis continues by the polynomials of its first and last interval",
    "periodic": "a value outside the domain is moved into it by whole periods, for cyclic bases",
    "error": "a value outside the domain raises an error",
}
"""The treatments of values outside the domain. A cyclic basis has no ends: all except ``"error"`` mean
``"periodic"``."""

UNBOUNDED = ("linear", "continue", "periodic")
"""Treatments that need finite values."""

MOST_TURNS = 2.0**52
"""Beyond this many periods, float64 does not resolve the phase of a value."""

MIN_GAP = 1e-290
"""Minimum distance between neighbouring knots, in the unit of `binary_unit`: its reciprocal is still finite."""


def binary_unit(low: float, high: float) -> float:
    """Return the power of two to scale x by if the width of the domain is near the limits of float64, otherwise 1.

    Multiplying by a power of two is exact, so formulas hold to the last bit for domains like ``(-1e308, 1e308)``,
    whose width overflows, and ``(0, 1e-310)``, whose reciprocal does. Widths are scaled to about 2**500 and 2**-500,
    not to 1, so that small numbers do not underflow on a column with an outlier of 1e308.

    Examples
    --------
    >>> binary_unit(0.0, 5.0), binary_unit(-1e308, 1e308) == 2.0**-524
    (1.0, True)
    """
    half_width = 0.5 * high - 0.5 * low
    if 1e-200 < half_width < 1e200:
        return 1.0
    return ldexp(1.0, (500 if half_width > 1.0 else -500) - frexp(half_width)[1])


def check_domain(domain: object) -> tuple[float, float]:
    """Return the domain as two finite floats, the first smaller than the second."""
    requirement = "be two finite numbers, the first smaller than the second"
    try:
        low, high = (float(end) for end in domain)  # type: ignore[attr-defined]  # the except clause catches the rest
    except (TypeError, ValueError) as error:
        raise argument_error("domain", requirement, domain) from error
    if not (isfinite(low) and isfinite(high) and low < high):
        raise argument_error("domain", requirement, domain)
    return low, high


def check_knots(knots: npt.ArrayLike, domain: tuple[float, float]) -> FloatArray:
    """Return the interior knots as a read-only array: finite, strictly increasing, strictly inside the domain."""
    try:
        array = np.array(knots, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise argument_error("knots", "be a sequence of numbers", knots) from error
    if array.ndim != 1:
        raise argument_error("knots", "be one-dimensional", knots)
    low, high = domain
    unit = binary_unit(low, high)
    breaks = np.concatenate(([low], array, [high])) * unit
    if not np.all(np.diff(breaks) > MIN_GAP):
        raise argument_error(
            "knots",
            f"be strictly increasing and strictly inside the domain ({low!r}, {high!r})",
            array,
            "Sort them, drop duplicates, and drop the ends of the domain.",
        )
    array.setflags(write=False)
    return array


def into_period(x: FloatArray, domain: tuple[float, float]) -> FloatArray:
    """Shift values into the domain by whole periods; values too large to have a phase become the left end.

    Examples
    --------
    >>> into_period(np.array([-1.0, 0.0, 23.5, 24.0, 49.0]), (0.0, 24.0))
    array([23. ,  0. , 23.5,  0. ,  1. ])
    """
    low, high = domain
    unit = binary_unit(low, high)  # the width of the domain may overflow
    start, width = low * unit, high * unit - low * unit
    with np.errstate(invalid="ignore", over="ignore"):
        turns = np.floor((x * unit - start) / width)
        moved = x * unit - width * turns
        valid = (np.abs(turns) < MOST_TURNS) & (moved >= start) & (moved < high * unit)
        moved = np.where(valid, moved / unit, low)
    inside: FloatArray = np.where(np.isnan(x) | ((x >= low) & (x < high)), x, moved)
    return inside


@dataclass(frozen=True, eq=False)
class Basis(ABC):
    """A set of ``size`` functions on an interval, determined by interior knots.

    Parameters
    ----------
    knots : array-like of shape (K,)
        Interior knots, strictly increasing and strictly inside the domain; may be empty.
    domain : tuple of float
        The two ends, which both belong to the basis.
    """

    knots: FloatArray
    domain: tuple[float, float] = (0.0, 1.0)
    _smallest: ClassVar[int] = 1  # number of functions without knots
    _is_density: ClassVar[bool] = False  # values have the unit 1 / x, as those of M-splines do
    is_monotone: ClassVar[bool] = False  # no function falls, and everywhere in the domain one of them rises
    is_cyclic: ClassVar[bool] = False  # values outside the domain are moved into it by whole periods

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", check_domain(self.domain))
        object.__setattr__(self, "knots", check_knots(self.knots, self.domain))

    @property
    def size(self) -> int:
        """Number m of functions; every knot adds one."""
        return len(self.knots) + self._smallest

    @property
    def degree(self) -> int:
        """Degree of the pieces; 0 for a basis without this parameter."""
        return 0

    @abstractmethod
    def _values(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        """Return values of shape (n, size) at x of shape (n,); ``breaks = [low, *knots, high]``.

        Values of x outside the domain are those of ``extrapolation="continue"``.
        """

    @abstractmethod
    def _slopes(self, x: FloatArray, breaks: FloatArray) -> FloatArray:
        """Return the derivatives with respect to x; arguments and shape as for `_values`."""

    def evaluate(self, x: npt.ArrayLike, extrapolation: str = "clip") -> FloatArray:
        """Return the values of all functions.

        A missing value gives a row of NaN.

        Parameters
        ----------
        x : array-like of shape (...)
            Points to evaluate at.
        extrapolation : {"clip", "linear", "continue", "periodic", "error"}
            Treatment of values outside the domain, see `EXTRAPOLATIONS`.

        Returns
        -------
        ndarray of shape (..., size)
            Values in float64.
        """
        return self._evaluate(x, extrapolation)

    def encode(self, x: npt.ArrayLike, extrapolation: str = "clip") -> FloatArray:
        """Return the values of the functions on the domain scaled to [0, 1]; parameters as for `evaluate`.

        They differ from `evaluate` only for densities such as M-splines, whose height depends on the width of the
        domain.
        """
        return self._evaluate(x, extrapolation, scaled=True)

    def _evaluate(self, x: npt.ArrayLike, extrapolation: str, *, scaled: bool = False) -> FloatArray:
        x, inside, unit = self._prepare(x, extrapolation)
        breaks = self._breaks(unit)
        values = self._values(inside * unit, breaks)
        if extrapolation == "linear" and not self.is_cyclic:
            outside = np.flatnonzero(x.ravel() != inside)
            steps = (x.ravel()[outside] - inside[outside]) * unit
            values[outside] += steps[:, None] * self._slopes(inside[outside] * unit, breaks)
        with np.errstate(over="ignore"):  # an M-spline on a domain narrower than 1e-308 is infinite in float64
            if self._is_density:
                values *= breaks[-1] - breaks[0] if scaled else unit
        values[np.isnan(inside)] = np.nan
        return values.reshape(*x.shape, self.size)

    def derivative(self, x: npt.ArrayLike, extrapolation: str = "clip") -> FloatArray:
        """Return the derivatives of all functions with respect to x.

        If a derivative jumps at a knot, the limit from the right is returned; at the right end, the limit from the
        left. Outside the domain, the derivative is zero for ``"clip"``, the slope at the end for ``"linear"``, and that
        of the polynomial for ``"continue"``. Parameters and shapes are those of `evaluate`.
        """
        x, inside, unit = self._prepare(x, extrapolation)
        slopes = self._slopes(inside * unit, self._breaks(unit))
        with np.errstate(over="ignore"):
            slopes *= unit * (unit if self._is_density else 1.0)
        if extrapolation == "clip" and not self.is_cyclic:
            slopes[x.ravel() != inside] = 0.0
        slopes[np.isnan(inside)] = np.nan
        return slopes.reshape(*x.shape, self.size)

    def _breaks(self, unit: float) -> FloatArray:
        low, high = self.domain
        return np.concatenate(([low], self.knots, [high])) * unit

    def _prepare(self, x: npt.ArrayLike, extrapolation: str) -> tuple[FloatArray, FloatArray, float]:
        """Return x, the flattened points to evaluate at, and the factor of `binary_unit`."""
        available = [name for name in EXTRAPOLATIONS if name != "periodic" or self.is_cyclic]
        check_choice(extrapolation, "extrapolation", available)
        x = np.asarray(x, dtype=np.float64)
        low, high = self.domain
        if extrapolation == "error":
            invalid, requirement = x[(x < low) | (x > high)], f"lie inside the domain ({low!r}, {high!r})"
        else:
            invalid, requirement = x[np.isinf(x) & (extrapolation in UNBOUNDED)], "be finite"
        if invalid.size:
            advice = "Pass extrapolation='clip' to move such values into the domain."
            raise argument_error("x", requirement, invalid[0], advice)
        if self.is_cyclic:
            inside = into_period(x.ravel(), self.domain)
        else:
            inside = x.ravel() if extrapolation == "continue" else np.clip(x.ravel(), low, high)
        return x, inside, binary_unit(low, high)


@dataclass(frozen=True, eq=False)
class SplineBasis(Basis):
    """A basis of piecewise polynomials.

    Parameters
    ----------
    knots, domain
        As for `Basis`.
    degree : int
        Degree p >= 0 of the polynomials.
    """

    degree: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degree", check_int(self.degree, "degree", minimum=0))

    @property
    def size(self) -> int:
        """Number m of functions: K + degree + 1."""
        return len(self.knots) + self.degree + 1
