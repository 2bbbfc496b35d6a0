"""Write docs/paper_claims.md: every claim of the paper that the records can check, with our numbers and a verdict.

    python results/claims.py

Nothing is trained. A verdict is computed: a claim is a statement on numbers, and is confirmed if ours have the same
property. `make paper-tables` runs it after the findings.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from knotwork.datasets import DATASETS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for tests, which run this file without its folder on the path

import advice  # noqa: E402 - needs the line above
import benchmark_claims as benchmark  # noqa: E402 - needs the line above
import token_sizes  # noqa: E402 - needs the line above
import training_claims as training  # noqa: E402 - needs the line above
from questions import TASKS, mean_interval, paragraph, table_head  # noqa: E402 - needs the line above

PAGE = HERE.parent / "docs" / "paper_claims.md"
MARKS = {"confirmed": "✓", "not confirmed": "✕", "cannot be told": "?"}
"""The verdicts in the order of the chart, and the mark of a claim."""


def sections() -> Iterator[tuple[str, list[benchmark.Claim]]]:
    """Return the claims of each part of the paper, under a heading."""
    study = benchmark.Benchmark()
    yield "Data sets and counts", list(benchmark.sizes_of_study(study))
    yield "Tests and ranks", list(benchmark.tests_of_ranks(study))
    yield (
        "Regression",
        [
            *benchmark.regression_ranks(study),
            *benchmark.with_all_divisors(study, benchmark.regression_means, benchmark.regression_tokens),
            coordinate_claim(),
        ],
    )
    yield (
        "Classification",
        [claim for part in (benchmark.classification_ranks, benchmark.classification_means) for claim in part(study)],
    )
    yield "All tasks", [*benchmark.with_all_divisors(study, benchmark.takeaways), *benchmark.quoted(study)]
    yield "Learned knots", [*training.learned_claims(study), *training.learned_ranks(study)]
    yield "Cost on SGEMM", list(training.cost_claims(study))
    yield "Ablation", [*training.ablation_curves(), *training.ablation_families()]
    yield "Illustration", list(training.illustration_claims())
    yield "Practical advice", list(advice_claims())


def coordinate_claim() -> benchmark.Claim:
    """Check with a token per coordinate, on the regressions that have it, whether B-splines become worse with size."""
    main, names = token_sizes.all_changes()["coordinate", 30], ["BS-Q", "BS-CART"]
    table = main.by_table[[DATASETS[str(name)].task == "regression" for name in main.by_table.index]]
    shown = [f"{name} {token_sizes.with_interval(table[name])}" for name in names]
    _, low, high = mean_interval(table[names].mean(axis=1))
    return benchmark.Claim(
        "4.3 Regression, Fig. 4",
        "FT-Transformer: B-splines become worse with the size, here with a token per coordinate",
        f"change of the error from m = 7 to 30 on {len(table)} small data sets: {', '.join(shown)}; both "
        f"{token_sizes.with_interval(table[names].mean(axis=1))}",
        True if low > 0 else False if high < 0 else None,
    )


def advice_claims() -> Iterator[benchmark.Claim]:
    """Check the paper's practical advice within the budgets of `knotwork.recommend`."""
    tables, where = advice.budgets(), "4.5 takeaway, Table 2"
    scaled = {task: advice.choice_of(tables[task, "ft", "high"], ("Std", None)) for task in TASKS}
    yield benchmark.Claim(
        where,
        "plain scaling is a strong first choice for networks that tokenise features",
        "Std with an FT-Transformer, by average rank of all methods and sizes: "
        + ", ".join(f"{task} place {choice.place} of {choice.of}" for task, choice in scaled.items()),
        all(choice.place <= choice.of / 2 for choice in scaled.values()),
    )
    for task, names, text in (
        (
            "regression",
            ("BS-U", "BS-Q"),
            "MLP and ResNet, regression: start with B-splines on uniform or quantile knots",
        ),
        ("classification", ("PLE",), "MLP and ResNet, classification: start with PLE"),
    ):
        best = {network: tables[task, network, "low"] for network in ("mlp", "resnet")}
        chosen = {network: entry.configurations[advice.chosen(entry)] for network, entry in best.items()}
        n_others = len(next(iter(best.values())).configurations)
        yield benchmark.Claim(
            where,
            f"{text}, at small sizes",
            f"least mean error of {n_others} methods at m = 7 without trees or learning: "
            + ", ".join(f"{network} {advice.named(choice)}" for network, choice in chosen.items()),
            all(method in names for method, _ in chosen.values()),
        )


def chart(parts: Mapping[str, Sequence[benchmark.Claim]]) -> Iterator[str]:
    """Return the verdicts as HTML that reads as text without a style: totals, and a mark for each claim by part."""
    totals = Counter(claim.verdict for claims in parts.values() for claim in claims)
    yield '<div class="claims">'
    yield '<div class="totals">'
    for verdict, mark in MARKS.items():
        yield (
            f'<button type="button" data-verdict="{verdict}" style="--n: {totals[verdict]}" disabled>'
            f"<b>{totals[verdict]}</b> {mark} {verdict}</button>"
        )
    yield "</div>"
    for title, claims in parts.items():
        counts = Counter(claim.verdict for claim in claims)
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in MARKS if counts[verdict])
        marks = "".join(
            f'<i data-verdict="{verdict}" title="{escape(claim.text)}: {verdict}">{MARKS[verdict]}</i>'
            for claim in claims
            for verdict in [claim.verdict]
        )
        link = f'<a href="#{title.lower().replace(" ", "-")}">{title}</a>'
        yield f'<div class="part">{link} <span class="marks" role="img" aria-label="{said}">{marks}</span></div>'
    yield "</div>\n"


def page() -> str:
    """Return the page."""
    parts = dict(sections())
    every = [claim for claims in parts.values() for claim in claims]
    counts, by_divisor = Counter(claim.verdict for claim in every), sum(claim.by_divisor for claim in every)
    lines = [
        "# The paper, claim by claim\n",
        "<!-- Written by results/claims.py from the records in results/. Do not edit. -->\n",
        paragraph(f"""
            Statements of the paper that can be checked with our records: {sum(counts.values())} of them, of which
            {counts["confirmed"]} are confirmed, {counts["not confirmed"]} are not, and {counts["cannot be told"]}
            cannot be told. Confirmed means that our numbers have the property that the paper states of its own;
            unless an interval is given, it does not mean that a difference is significant, for which [the
            findings](findings.md) have intervals. Statements on means of NRMSE are checked with three divisors, the
            standard deviation of the target, its range and its mean, because the paper does not give its own: each
            weighs the data sets differently, and {by_divisor} statements cannot be told for that reason. The numbers
            are from the same methods, sizes, folds and protocol;
            [differences](findings.md#what-differs-from-the-paper) are listed there, of which the most important are
            an FT-Transformer with a token per feature, knots of which the paper does not give all constants, and
            our own implementation on another card. Figures and tables are numbered as in the paper. m is the size."""),
        *chart(parts),
        paragraph(f"""
            Words of the paper are read by these rules. Often, many, most: more than half. Several: at least two. Among
            the strongest: up to place {benchmark.STRONGEST} of 14. Near the bottom: from place {benchmark.NEAR_BOTTOM}
            of 14 on, where the paper's Std is at the best. Competitive: in the first clique (Nemenyi), or in the better
            half (Std with an FT-Transformer). Much slower, substantial, clearly more: by a factor of
            {training.SUBSTANTIAL} or more; moderate growth: by a factor of {training.MODERATE} to
            {training.SUBSTANTIAL}; flat: a change of less than {training.FLAT:.0%}. Mean AUCs count as the same within
            {benchmark.SAME_AUC}. Where a claim is on means and a test of the same difference is possible but not
            significant, the test is shown with it."""),
    ]
    for title, claims in parts.items():
        lines += [f"## {title}\n", *table_head("claim | in the paper | here | verdict")]
        lines += [*(claim.line for claim in claims), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
