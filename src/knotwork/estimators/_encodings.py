"""What `encoding` and `search` of an estimator say: the encoding of every numerical column, or a choice among some."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from knotwork._checks import argument_error, check_choice, listed, type_error
from knotwork._recommend import recommend
from knotwork.encoders import PER_FEATURE, Encoding

__all__ = ["CANDIDATES", "ENSEMBLE", "SEARCHES", "candidates_of", "check_search", "choose_encodings"]

RECOMMENDED = ("auto", "recommended")
"""Words for what `recommend` says."""

ENSEMBLE = "ensemble"
SEARCHES = ("validated", ENSEMBLE, PER_FEATURE)
"""Ways to choose among encodings: validation rows decide on one or on a weighted mean, of all columns at once, or
training rows on each column by itself."""

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
"""Encodings that ``search="validated"`` and ``"ensemble"`` try: those that are recommended for a medium budget, and
others that together with them come nearest to the best.

By the records in `results/` of MLP and ResNet on 25 tables, the best of these ten is on average 0.9 % above the error
(NRMSE, or 1 - AUC; geometric means, where more than twice counts as twice) of the best of the paper's 38 methods and
sizes, where the recommended encoding is 9.7 % above it and the best of all at size 15, 4.9 %. Knots from LightGBM are
not among them: they take longer to place than those of CART, and do not improve the result. Small sizes come first: the
time that their stacks leave goes to the others.
"""


def check_search(encoding: Any, search: Any) -> None:
    """Raise an error if a way to choose among encodings does not suit the encodings."""
    is_list = isinstance(encoding, Sequence) and not isinstance(encoding, str)
    if search is None:
        if is_list:
            hint = f"Set search to {listed(SEARCHES)}."
            raise argument_error("encoding", "be one for all columns, or a mapping, without search", encoding, hint)
        return
    check_choice(search, "search", SEARCHES)
    if not is_list and not (isinstance(encoding, str) and encoding == "auto"):
        hint = "Give a list of methods, leave encoding out, or leave search out."
        raise argument_error("encoding", "leave a choice if search is given", encoding, hint)
    if is_list and not (encoding and all(isinstance(each, str) for each in encoding)):
        raise argument_error("encoding", "name at least one method, and methods only", encoding)


def candidates_of(encoding: Any, usual: Sequence[str]) -> list[Encoding]:
    """Return the encodings to choose among: those of a list without duplicates, or the usual ones of a search."""
    specs = usual if isinstance(encoding, str) else encoding
    return list(dict.fromkeys(Encoding.parse(spec, DEFAULT_SIZE, argument="encoding") for spec in specs))


def choose_encodings(encoding: Any, *, names: list[Any], task: str, backbone: str) -> tuple[Encoding, ...]:
    """Return the encoding of each numerical column.

    Parameters
    ----------
    encoding : str or mapping
        ``"recommended"`` or ``"auto"``, a method with or without a size and an embedding, or a mapping from column
        names to these; columns that the mapping does not name have what is recommended, with the embedding of the
        others. Knots are learned in all columns that have some, or in none, and all have the same embedding.
    names : list
        Names of the numerical columns, or their places in the table.
    task, backbone : str
        The task, and the paper's backbone that is recommended for (`Backbone.advice`).
    """
    if not isinstance(encoding, Mapping):
        return (_choice(encoding, task, backbone),) * len(names)
    unknown = [name for name in encoding if name not in names]
    if unknown:
        raise argument_error("encoding", "name numerical columns of X", unknown, f"The numerical columns are {names}.")
    choices = _with_one_embedding(
        {name: _choice(encoding.get(name, "auto"), task, backbone) for name in names}, encoding
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


def _choice(spec: Any, task: str, backbone: str) -> Encoding:
    if not isinstance(spec, str):
        wanted = f"be {', '.join(map(repr, RECOMMENDED))}, the name of a method, or a mapping from columns"
        raise type_error("encoding", wanted, spec, "Write encoding='BS-Q@15', or {'age': 'BS-Q@15'} for one column.")
    if spec in RECOMMENDED:
        advice = recommend(task, backbone, budget=BUDGET)
        return Encoding(advice.method, advice.size)
    word = spec.partition("@")[0]
    if word in SEARCHES:
        raise argument_error("encoding", "name a method", spec, f"Write search={word!r} to choose among methods.")
    return Encoding.parse(spec, DEFAULT_SIZE, argument="encoding", also=RECOMMENDED)
