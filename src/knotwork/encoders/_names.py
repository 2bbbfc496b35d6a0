"""Names of encodings such as ``"CS-U@12%24"`` and ``"PLE@30+LR8"``, which are taken apart here and nowhere else."""

import re
from dataclasses import dataclass
from typing import NamedTuple, Self

from knotwork._checks import argument_error, check_bool, check_int

__all__ = ["Embedding", "EncodingName"]


class EncodingName(NamedTuple):
    """The parts of the name of an encoding, as text; None where a part is missing.

    Parameters
    ----------
    base : str
        The method without its period and its embedding, such as ``"BS-Grad-Q"``.
    size : str or None
        The size, behind ``@``.
    period : str or None
        The period, behind ``%``.
    embedding : str or None
        The embedding, behind ``+``.

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
        """Take a name apart; whether the parts are valid is not checked."""
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
    """Return what is in front of a sign and behind it."""
    before, mark, behind = text.partition(sign)
    return before, behind if mark else None


_EMBEDDING = re.compile(r"(?:L(R?)([1-9][0-9]{0,5}))?(x?)")


@dataclass(frozen=True, order=True)
class Embedding:
    """A learned map of each feature's block behind an encoding, written as ``"L8"``, ``"LR8"``, ``"L8x"`` or ``"x"``.

    Parameters
    ----------
    width : int
        Number of outputs of a linear map of the block; 0 for no map.
    relu : bool, default=False
        Whether a ReLU follows the map.
    raw : bool, default=False
        Whether the scaled value of the feature also enters, in front of the others.

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
        """Return the number of outputs for a feature with a block of `size` columns."""
        return (self.width or size) + self.raw
