"""Write the sections of README.md that state results: the study, stacks and speed.

    python results/readme.py

The numbers are those of the records in this folder and of the tables in benchmarks/README.md, which the scripts there
have printed. Nothing is trained or measured. `make paper-tables` runs it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for tests, which run this file without its folder on the path

from findings import PLAIN_STEP, device_seconds, learned_gains, steps_of  # noqa: E402 - needs the line above
from questions import (  # noqa: E402 - needs the line above
    SIZES,
    TASKS,
    ablation_correlation,
    ablation_grid,
    clear_gains,
    correlation,
    error_change,
    gains_of_variant,
    largest_ratios,
    leaders,
    main_benchmark,
    noise,
    paper_ranks,
    paragraph,
    ranks_by_problem,
)
from token_kinds import token_pairs  # noqa: E402 - needs the line above
from token_sizes import all_changes, answer, with_interval  # noqa: E402 - needs the line above

README = HERE.parent / "README.md"
BENCHMARKS = HERE.parent / "benchmarks" / "README.md"
Row = dict[str, str]


def measured_tables(text: str) -> Iterator[tuple[str, list[Row]]]:
    """Return the tables of a page, each as the heading above it and a mapping of columns to cells for each row."""
    heading, lines = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if lines:
            names, _, *rows = lines
            yield heading, [dict(zip(names, row, strict=True)) for row in rows]
        lines = []
        heading = line.strip("# ") if line.startswith("#") else heading


def rows_of(heading: str, columns: str) -> list[Row]:
    """Return the rows of the first table below a heading that begins so and that has these columns."""
    text = BENCHMARKS.read_text(encoding="utf-8")
    wanted = set(columns.split(", "))
    return next(rows for title, rows in measured_tables(text) if title.startswith(heading) and wanted <= set(rows[0]))


def stated(pattern: str) -> list[float]:
    """Return the numbers of a sentence of the benchmarks, by a pattern with a group for each."""
    match = re.search(pattern, " ".join(BENCHMARKS.read_text(encoding="utf-8").split()))
    if match is None:
        raise LookupError(f"benchmarks/README.md must have a sentence like {pattern!r}.")
    return [float(number) for number in match.groups()]


def faster(kind: str, other: str, *, dtype: str = "float32") -> tuple[float, float]:
    """Return how many times faster than another library an encoder is at size 30, by medians and by best times."""
    rows = rows_of(f"Dense, 200,000 x 10 values in {dtype}, m = 30", f"knotwork {kind}")
    row = next(row for row in rows if next(iter(row.values())).startswith(other))
    median, best = row[f"knotwork {kind}"].split(" / ")
    return float(median), float(best)


def step_of(backbone: str, members: int) -> Row:
    """Return the row of a stack in the table of training steps."""
    rows = rows_of("Training stacks of networks", "times faster")
    return next(row for row in rows if (row["backbone"], row["members"]) == (backbone, str(members)))


def largest_stack(backbone: str) -> Row:
    """Return the row of the largest stack whose step is compared with that of the paper's trainings."""
    return step_of(backbone, {"mlp": 145, "resnet": 190, "ft": 40}[backbone])


def study() -> str:
    """Return the results of the repeated study."""
    frame = main_benchmark()
    names = ("mlp", "resnet", "ft feature")
    parts = {name: frame[frame["network"] == name] for name in names}
    card = {name: device_seconds(part) / 60 for name, part in parts.items()}
    hours = sum(float(steps_of(part).sum()) * PLAIN_STEP[name] for name, part in parts.items()) / 3600
    values = [
        correlation(ranks_by_problem(frame, task, size), paper_ranks(task)[f"m{size}"])
        for task in TASKS
        for size in SIZES
    ]
    orders = list(leaders(frame))
    ple = [order.names.index("PLE") + 1 for order in orders if order.task == "classification"]
    last = sum(order.names[-1] == "MinMax" for order in orders)
    costs = largest_ratios()
    verdicts = [pair.verdict for pair in token_pairs()]
    changes = all_changes()["coordinate", SIZES[-1]].of("splines")
    n_methods, n_folds, n_sets = (frame[column].nunique() for column in ("method", "fold", "dataset"))
    return paragraph(f"""
        **The paper's study, repeated.** All {len(frame):,} networks of its main benchmark ({n_sets} tables,
        {n_methods} methods, {len(SIZES)} sizes, {n_folds} folds; MLP, ResNet, and FT-Transformer with a token per
        feature) took {sum(card.values()):.0f} minutes on one H200 ({card["mlp"]:.0f}, {card["resnet"]:.0f} and
        {card["ft feature"]:.0f}), including loading and scoring; one at a time, in an ordinary torch loop on the
        same card, they would take about {hours:.0f} hours. Our average ranks correlate with the paper's at
        {np.mean(values):.2f} (mean of {len(values)} settings), the {len(ablation_grid())} configurations of its
        ablation, whose number of rows was chosen to agree, at {ablation_correlation():.2f}; PLE ranks
        {", ".join(map(str, ple))} of {n_methods} in classification at sizes {", ".join(map(str, SIZES))}, and MinMax is
        last in {last} of {len(orders)} settings. Learned knots take at most {costs["mlp"]:.2f} times the
        time per epoch of fixed ones at size {SIZES[-1]} with an MLP, {costs["resnet"]:.2f} with a ResNet and
        {costs["ft feature"]:.2f} with an FT-Transformer, each network alone on the card. With the paper's settings,
        learning the knots changes the error, compared with the same knots fixed, by
        {error_change(gain for entry in learned_gains(frame).values() for gain in entry)} (means over tables, by
        backbone, method and task); trained from the first epoch, by
        {error_change(gains_of_variant("rate 2, at once"))} compared with the paper's warm-up (significant in
        {clear_gains("rate 2, at once")} comparisons). At size {SIZES[0]} an FT-Transformer with a token per feature
        was better than one with a token per coordinate, which the paper's probably has, on {verdicts.count(-1)} of
        {len(verdicts)} small tables, and worse on
        {verdicts.count(1)}. With a token per coordinate, the error of splines changes by {with_interval(changes)} from
        size {SIZES[0]} to {SIZES[-1]} on {len(changes)} tables. Do they become worse, as the paper's do?
        {answer(changes).capitalize()}.""").strip()


def stack() -> str:
    """Return the effect of a stack on its members, and the time of a step."""
    row, gaps = largest_stack("mlp"), noise().query("source == 'two plans'")["gap"]
    return paragraph(f"""
        All training goes through one engine that trains a *stack*: hundreds of networks in one program, each with
        its own rows, encoding, random seed and early stopping, which do not depend on the other members. Sums are
        rounded differently in stacks of another shape, and training amplifies such differences: of {len(gaps)}
        MLPs that two plans trained in different stacks, {(gaps == 0).sum()} have exactly the same score; the median
        difference is {gaps.median():.4f}, the largest {gaps.max():.4f}. With `TrainingConfig(reproducible=True)`
        every bit is the same: on a GPU for MLP and ResNet, on a CPU for all backbones. On an H200, a step takes
        {float(row["stack, us per network"]):.0f} microseconds per network in a stack of {row["members"]} MLPs, and
        {float(row["plain, us"]) / 1000:.0f} milliseconds for one network in an ordinary torch loop.""").strip()


def speed() -> str:
    """Return the main results of the benchmarks."""
    b_spline, pretab = faster("B-spline", "SplineTransformer")[0], faster("B-spline", "PreTab")[0]
    i_splines = [*faster("I-spline", "SplineTransformer"), *faster("I-spline", "SplineTransformer", dtype="float64")]
    (floor,) = stated(r"\d+ us \(([\d.]+) times the floor\) for 14 features of size 30")
    low, high = stated(r"a training step with learned knots takes ([\d.]+) to ([\d.]+) times one with fixed knots")
    recursion = stated(r"take ([\d.]+) to ([\d.]+) times less than the recursion in plain torch")
    linear = stated(r"([\d.]+) to ([\d.]+) times as long as `nn.Linear`")
    table = next(row for row in rows_of("A large table on an H200", "rows of the table") if row[""] == "from files")
    spinning, passive = stated(
        r"plain loop ([\d.]+) s, TabularRegressor [\d.]+ s; with `OMP_WAIT_POLICY=PASSIVE`, so that waiting threads do "
        r"not spin, ([\d.]+) s"
    )
    rows = {name: largest_stack(name) for name in ("mlp", "resnet", "ft")}
    times = {name: f"{float(row['times faster']):.0f}" for name, row in rows.items()}
    share = {name: f"{float(row['share of matrix rate'].rstrip('%')):.0f} %" for name, row in rows.items()}
    points = [
        f"""Encoding 200,000 x 10 values into 30 columns each, two cores: B-splines {b_spline:.0f} times faster than
        scikit-learn's `SplineTransformer` and {pretab:.0f} times faster than PreTab; close to the time of filling
        that much memory with zeros.""",
        f"""I-splines are {min(i_splines):.0f} to {max(i_splines):.0f} times faster than `SplineTransformer`'s
        B-splines; they take longer than B-splines because half of each row consists of ones, which must
        be written.""",
        f"""Learned knots on an H200, captured in a CUDA graph: forward and backward of 65,536 x 14 values into 30
        columns take {floor:.1f} times (B-splines) the time of writing the output once and reading its gradient once;
        a training step of an MLP in plain torch takes {low:.2f} to {high:.2f} times the one with fixed knots. Without a
        graph, the layer takes {linear[0]:.1f} to {linear[1]:.1f} times as long as `nn.Linear` with as many outputs, and
        {recursion[0]:.0f} to {recursion[1]:.0f} times less than the recursion in plain torch.""",
        f"""Training on an H200, per network and step, compared with an ordinary torch loop for one network:
        MLP {times["mlp"]} times faster in a stack of {rows["mlp"]["members"]}, ResNet {times["resnet"]} times in one of
        {rows["resnet"]["members"]}, FT-Transformer {times["ft"]} times in one of {rows["ft"]["members"]};
        {share["resnet"]} and {share["ft"]} of the card's bf16 matrix rate for the last two.""",
        f"""A table of {table["rows of the table"]} rows in Parquet files, read and trained for one pass
        on an H200: {float(table["fit, s"]):.0f} s, {float(table["peak host memory, GiB"]):.1f} GiB of host memory, at
        the speed of a table in GPU memory.""",
        f"""On a CPU the estimators train parts of a stack in threads that do not wait for each other, one for each core
        of the process, so that a fit on shared or limited cores takes only its share of the CPU. In an ordinary torch
        loop, idle threads spin: under load, `OMP_WAIT_POLICY=PASSIVE`, set before Python starts, reduced its time from
        {spinning:.1f} to {passive:.1f} s.""",
    ]
    return "\n".join(bullet(point) for point in points)


def bullet(text: str) -> str:
    """Return text as a point of a list."""
    return paragraph("- " + text).strip().replace("\n", "\n  ")


SECTIONS = {"study": study, "stack": stack, "speed": speed}
"""The sections of README.md that are written here, by the name in their marks."""


def marks(name: str) -> tuple[str, str]:
    """Return the lines around a section."""
    return f"<!-- {name}: written by make paper-tables -->", f"<!-- {name}: end -->"


def with_sections(text: str) -> str:
    """Return a page with its sections written again."""
    for name, content in SECTIONS.items():
        begin, end = marks(name)
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n\n{content()}\n\n{end}{after}"
    return text


def main() -> None:
    """Write the sections."""
    README.write_text(with_sections(README.read_text(encoding="utf-8")), encoding="utf-8")
    print(README)


if __name__ == "__main__":
    main()
