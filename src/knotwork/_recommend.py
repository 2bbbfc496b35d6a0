"""The encoding to start with, by task, backbone and budget: advice from the paper and from our own records."""

import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from knotwork._checks import check_choice
from knotwork.knots import TASKS

CHOICES = {
    "task": TASKS,
    "backbone": ("mlp", "resnet", "ft"),
    "budget": ("low", "medium", "high"),
    "source": ("paper", "records"),
}
"""The possible values of each argument of `recommend`."""


@dataclass(frozen=True)
class Recommendation:
    """An encoding to start with.

    Parameters
    ----------
    method : str
        A name of `knotwork.METHODS`.
    size : int or None
        Columns per feature; None for Std and MinMax.
    reason : str
        The reason, with numbers from its source. It starts with "Decided here" if the paper leaves the choice open.
    alternatives : tuple of str
        Other methods to try, at the same size if they have one.
    evidence : str
        Rank of the encoding among all methods and sizes in our records, for either source.
    """

    method: str
    size: int | None
    reason: str
    alternatives: tuple[str, ...]
    evidence: str = ""

    def __str__(self) -> str:
        size = "" if self.size is None else f" with {self.size} columns per feature"
        return f"{self.method}{size} (or {', '.join(self.alternatives)}). {self.reason} {self.evidence}".rstrip()


_SPLINES_FIRST = (
    "The paper starts regression with B-splines on uniform or quantile knots at sizes 7 to 10; of the two, quantile "
    "knots have the better average rank at size 7 (5.65 against 7.29)."
)
_ISPLINES_NEXT = (
    "Decided here: with more budget the paper adds target-aware knots and I-splines, and of the fixed methods these "
    "have the best average ranks at size 15 (6.01, 6.10 and 6.67)."
)
_PLE_7 = "The paper starts classification with PLE at sizes 7 to 10; it has the best average rank at size 7 (5.01)."
_PLE_15 = (
    "Decided here: the paper's default for classification is PLE, whose lead in average rank grows with the size (3.96 "
    "at size 15)."
)
_PLE_30 = (
    "Decided here: the paper's default for classification is PLE, which ranks best by far at size 30 (3.33, the next "
    "5.19), though gains from size 15 to 30 are usually smaller than from 7 to 15."
)

RECOMMENDATIONS: dict[tuple[str, str, str], Recommendation] = {
    ("regression", "mlp", "low"): Recommendation("BS-Q", 7, _SPLINES_FIRST, ("BS-U",)),
    ("regression", "mlp", "medium"): Recommendation("IS-Q", 15, _ISPLINES_NEXT, ("IS-LGBM", "IS-CART")),
    ("regression", "mlp", "high"): Recommendation(
        "BS-Grad-U",
        30,
        "Decided here: of learned knots the paper prefers these, and on the MLP their mean NRMSE falls from 0.2491 at "
        "size 7 to 0.2278 at size 30, where IS-Grad-U has 0.2273 for much more time; over all backbones IS-Q ranks "
        "better (5.64 against 6.47).",
        ("IS-Grad-U", "IS-Q"),
    ),
    ("regression", "resnet", "low"): Recommendation("BS-Q", 7, _SPLINES_FIRST, ("BS-U",)),
    ("regression", "resnet", "medium"): Recommendation("IS-Q", 15, _ISPLINES_NEXT, ("IS-LGBM", "IS-CART")),
    ("regression", "resnet", "high"): Recommendation(
        "IS-LGBM",
        30,
        "Decided here: target-aware I-splines are what the paper adds with more budget, and on the ResNet this one has "
        "the lowest mean NRMSE (0.2246); BS-Grad-U is its choice among learned knots.",
        ("IS-Q", "BS-Grad-U"),
    ),
    ("regression", "ft", "low"): Recommendation(
        "Std",
        None,
        "The paper starts models that tokenise features with plain scaling; on the FT-Transformer Std has a mean NRMSE "
        "of 0.2465 and is better than PLE at every size.",
        ("MinMax",),
    ),
    ("regression", "ft", "medium"): Recommendation(
        "BS-Q",
        7,
        "Decided here: the paper adds fixed knots where scaling is not enough; on the FT-Transformer BS-Q at size 7 is "
        "better than Std (mean NRMSE 0.2451 against 0.2465), and at larger sizes no B-spline is.",
        ("BS-LGBM", "Std"),
    ),
    ("regression", "ft", "high"): Recommendation(
        "BS-Q",
        7,
        "Decided here: on the FT-Transformer BS-Q becomes worse with the size (mean NRMSE 0.2451 at 7, 0.2666 at 15 "
        "and 0.3034 at 30), so more budget is better spent on trying more methods at size 7.",
        ("BS-LGBM", "BS-CART", "BS-Grad-U", "Std"),
    ),
    ("classification", "mlp", "low"): Recommendation("PLE", 7, _PLE_7, ("BS-CART", "BS-LGBM")),
    ("classification", "mlp", "medium"): Recommendation("PLE", 15, _PLE_15, ("IS-CART", "BS-CART")),
    ("classification", "mlp", "high"): Recommendation("PLE", 30, _PLE_30, ("IS-Q", "IS-LGBM")),
    ("classification", "resnet", "low"): Recommendation("PLE", 7, _PLE_7, ("BS-CART", "BS-LGBM")),
    ("classification", "resnet", "medium"): Recommendation("PLE", 15, _PLE_15, ("IS-CART", "BS-CART")),
    ("classification", "resnet", "high"): Recommendation("PLE", 30, _PLE_30, ("IS-Q", "IS-LGBM")),
    ("classification", "ft", "low"): Recommendation(
        "Std",
        None,
        "Decided here: the paper's table says plain scaling for models that tokenise features and PLE for "
        "classification; Std costs less, PLE at size 7 has the higher mean AUC (0.9319 against 0.9256).",
        ("MinMax", "PLE"),
    ),
    ("classification", "ft", "medium"): Recommendation(
        "PLE",
        15,
        "Decided here: the paper adds PLE where scaling is not enough, and it has the highest mean AUC on the "
        "FT-Transformer at every size; at size 15 only these B-splines are better than Std as well.",
        ("BS-CART", "BS-LGBM", "BS-Q"),
    ),
    ("classification", "ft", "high"): Recommendation(
        "PLE",
        30,
        "Decided here: PLE has the highest mean AUC on the FT-Transformer at every size (0.9331 at size 30), where no "
        "spline is better than Std (0.9256).",
        ("Std",),
    ),
}
"""The paper's recommendation for each (task, backbone, budget)."""


@cache
def _answers() -> dict[tuple[str, str, str, str], Recommendation]:
    """Return the recommendations of both sources with their evidence, from the file that results/advice.py writes."""
    lines = json.loads(files("knotwork").joinpath("recommendations.json").read_text(encoding="utf-8"))
    answers = {}
    for line in lines:
        key = line["task"], line["backbone"], line["budget"]
        answers[*key, "paper"] = replace(RECOMMENDATIONS[key], evidence=line["evidence_for_the_paper"])
        answers[*key, "records"] = Recommendation(
            line["method"], line["size"], line["reason"], tuple(line["alternatives"]), line["evidence"]
        )
    return answers


def recommend(
    task: str = "regression", backbone: str = "mlp", *, budget: str = "low", source: str = "paper"
) -> Recommendation:
    """Return the encoding to start with, according to the paper or to our own records.

    Parameters
    ----------
    task : {"regression", "classification"}
        The task.
    backbone : {"mlp", "resnet", "ft"}
        The network after the encoding; "ft" is the FT-Transformer, and also the choice for other models that tokenise
        features.
    budget : {"low", "medium", "high"}
        Low: training once at a small size, with knots that are quick to place. Medium: up to size 15, and knots from
        trees. High: up to size 30, and learned knots.
    source : {"paper", "records"}
        The paper's advice, or the method and size with the lowest mean error in our own records among those that the
        budget allows. Methods that end in ``LGBM`` need the package lightgbm.

    Returns
    -------
    Recommendation
        Method, size, reason, alternatives, and the rank of this encoding in our records.

    Notes
    -----
    The paper's table has backbones and tasks, and mentions only smaller and larger budgets; the three budgets are this
    library's interpretation. Average ranks are over all three backbones. The paper's FT-Transformer probably has one
    token per encoded column; in our records it has one per feature.

    The error is NRMSE or 1 - AUC, relative to the best configuration of the same table, and its mean is geometric. The
    reason states how well such a choice does on a new table: each of the 13 or 12 tables is left out in turn, the
    encoding is chosen on the others, and the choice is scored on the table left out.

    Examples
    --------
    >>> advice = recommend("classification", budget="medium")
    >>> advice.method, advice.size
    ('PLE', 15)
    >>> advice = recommend("regression", budget="medium", source="records")
    >>> advice.method, advice.size
    ('BS-LGBM', 15)
    """
    question = task, backbone, budget, source
    for (name, choices), value in zip(CHOICES.items(), question, strict=True):
        check_choice(value, name, choices)
    return _answers()[question]
