"""What `encoding=` of an estimator says: the encoding of every numerical column, one or several to choose among."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from knotwork._checks import argument_error, check_int, type_error
from knotwork._recommend import recommend
from knotwork.encoders._methods import PER_FEATURE, Encoding

__all__ = ["CANDIDATES", "SEARCHES", "choose_encodings", "propose", "with_size"]

RECOMMENDED = ("auto", "recommended")
"""Words for what `recommend` says."""

SEARCHES = ("validated", "ensemble")
"""Words for what validation rows decide, of all columns at once."""

WORDS = (*RECOMMENDED, *SEARCHES, PER_FEATURE)
"""Everything that is not the name of a method."""

DEFAULT_SIZE = 15
BUDGET = "medium"
"""Of `recommend`, for ``encoding="recommended"``."""

CANDIDATES = (
    "Std",
    "BS-Q@7",
    "PLE@7",
    "PLE@15",
    "IS-Q@15",
    "BS-U@15",
    "PLE@30",
    "IS-Q@30",
    "IS-CART@30",
    "BS-Grad-U@30",
)
"""Encodings that ``encoding="validated"`` and ``"ensemble"`` try: those that are recommended for a medium budget, and
others that together with them come nearest to the best.

By the records in `results/` of MLP and ResNet on 25 tables, the best of these ten is on average 0.9 % above the error
(NRMSE, or 1 - AUC; geometric means, where more than twice counts as twice) of the best of the paper's 38 methods and
sizes, where the recommended encoding is 9.7 % above it and the best of all at size 15, 4.9 %. Knots from LightGBM are
not among them: they take longer to place than those of CART, and do not improve the result. Small sizes come first: the
time that their stacks leave goes to the others.
"""


def propose(encoding: Any, size: int | None, *, names: list[Any], task: str, backbone: str) -> list[Encoding]:
    """Return the encodings to choose among: `CANDIDATES` for ``"validated"`` and ``"ensemble"``, none otherwise.

    With a size, candidates have that one, and duplicates are left out. Of a table without numerical columns all
    encodings are the same: there is one candidate, the recommended one. Parameters as in `choose_encodings`.
    """
    if not isinstance(encoding, str) or encoding not in SEARCHES:
        return []
    if not names:
        return list(choose_encodings("recommended", size, names=[""], task=task, backbone=backbone))
    return with_size(CANDIDATES, size)


def with_size(candidates: Sequence[str], size: int | None) -> list[Encoding]:
    """Return candidates, with a size all of that one and without duplicates."""
    encodings = [Encoding.parse(spec) for spec in candidates]
    if size is not None:
        check_int(size, "size", minimum=2)
        encodings = [Encoding(each.method, size) if each.kind.has_size else each for each in encodings]
    return list(dict.fromkeys(encodings))


def choose_encodings(
    encoding: Any, size: int | None, *, names: list[Any], task: str, backbone: str
) -> tuple[Encoding, ...]:
    """Return the encoding of each numerical column.

    Parameters
    ----------
    encoding : str or mapping
        ``"recommended"`` or ``"auto"``, a method with or without a size and an embedding, or a mapping from column
        names to these; columns that the mapping does not name have what is recommended, with the embedding of the
        others. Knots are learned in all columns that have some, or in none, and all have the same embedding.
    size : int or None
        The size of methods that name none.
    names : list
        Names of the numerical columns, or their places in the table.
    task, backbone : str
        The task, and the paper's backbone that is recommended for (`Backbone.advice`).
    """
    if size is not None:
        check_int(size, "size", minimum=2)
    if not isinstance(encoding, Mapping):
        return (_choice(encoding, size, task, backbone),) * len(names)
    unknown = [name for name in encoding if name not in names]
    if unknown:
        raise argument_error("encoding", "name numerical columns of X", unknown, f"The numerical columns are {names}.")
    choices = _with_one_embedding(
        {name: _choice(encoding.get(name, "auto"), size, task, backbone) for name in names}, encoding
    )
    with_knots = [(name, choice) for name, choice in zip(names, choices, strict=True) if choice.has_knots]
    fixed = [name for name, choice in with_knots if not choice.learnable]
    if 0 < len(fixed) < len(with_knots):
        raise argument_error(
            "encoding",
            "have learned knots for all columns that have knots, or for none",
            {name: str(choice) for name, choice in zip(names, choices, strict=True)},
            f"Name methods with learned knots, such as 'IS-Grad-U', or 'Std', which has none, for {fixed}.",
        )
    return choices


def _with_one_embedding(choices: dict[Any, Encoding], named: Mapping[Any, Any]) -> tuple[Encoding, ...]:
    """Return the encodings, those of columns that are not named with the embedding of the others."""
    embeddings = {choices[name].embedding for name in named} or {None}
    if len(embeddings) > 1:
        raise argument_error(
            "encoding",
            "have the same embedding for all columns",
            {name: str(choices[name]) for name in named},
            "Write the same embedding behind each encoding, as in {'age': 'BS-Q@15+L8', 'income': 'PLE@30+L8'}.",
        )
    (embedding,) = embeddings
    if embedding is None:
        return tuple(choices.values())
    return tuple(
        choice if name in named else replace(choice, method=f"{choice.method}+{embedding}")
        for name, choice in choices.items()
    )


def _choice(spec: Any, size: int | None, task: str, backbone: str) -> Encoding:
    if not isinstance(spec, str):
        wanted = f"be {', '.join(map(repr, WORDS))}, the name of a method, or a mapping from columns"
        raise type_error("encoding", wanted, spec, "Write encoding='BS-Q@15', or {'age': 'BS-Q@15'} for one column.")
    if spec in RECOMMENDED:
        advice = recommend(task, backbone, budget=BUDGET)
        return Encoding(advice.method, advice.size if size is None or advice.size is None else size)
    if spec in (*SEARCHES, PER_FEATURE):
        raise argument_error(
            "encoding", "name a method for each column", spec, f"Write encoding={spec!r} to choose for all columns."
        )
    encoding = Encoding.parse(spec, DEFAULT_SIZE if size is None else size, argument="encoding", also=WORDS)
    if size is not None and encoding.size not in (None, size):
        raise argument_error("size", f"agree with the encoding {spec!r}", size)
    return encoding
