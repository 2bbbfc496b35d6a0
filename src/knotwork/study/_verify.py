"""Verification: a sample of recorded networks is trained again on this machine and compared."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student

import knotwork
from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed
from knotwork._preparation.members import Fitted
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.study._networks import FoldEncoding, NetworkSpec, expand, stack_id
from knotwork.study._plan import PLANS, LinearConfig, Plan, load_plan
from knotwork.study._prepared import fit_all, load_data
from knotwork.study._provenance import UNKNOWN, differences
from knotwork.study._records import RecordIndex, open_study
from knotwork.study._runner import DATA_ERRORS, Progress
from knotwork.study._traces import Result
from knotwork.study._trainer import UnitTrainer, environment_of
from knotwork.training import METRICS, resolve_device

VERDICTS = ("equal", "within noise", "different", "not retrained")
"""Agreement of a record: bit-identical, within the difference between random seeds, beyond it, or unknown."""


@dataclass(frozen=True)
class NoiseRule:
    """How much a retrained network may differ from its record.

    Parameters
    ----------
    n_seeds : int
        Number of further random seeds for estimating the noise of a network; each costs one more training.
    seed_step : int
        Step between these random seeds: networks of other folds have the seeds next to that of a network.
    confidence : float
        Share of correct records whose difference is below the noise even if rounding acts like another random seed.
    machines_to_stacks : float
        Maximum ratio of rounding differences between machines to those between a network alone and in a stack.
    rounding : float
        Minimum noise, relative to the score or to 1.
    sum_rounding : float
        Maximum relative difference of the columns `FIXED`, some of which are sums over test rows.
    changed_rows : int
        Number of test rows whose class or rank may change by rounding; their share is the minimum noise of
        classification scores.
    """

    n_seeds: int = 4
    seed_step: int = 1000
    confidence: float = 0.99
    machines_to_stacks: float = 100.0
    rounding: float = 1e-5
    sum_rounding: float = 1e-9
    changed_rows: int = 2


NOISE = NoiseRule()

FIXED = ("n_rows", "n_features", "n_parameters", "target_mean", "target_std", "target_range")
"""Columns that depend neither on the machine nor on rounding."""

COURSE = ("epochs", "best_epoch", "knots_moved")
"""Columns, besides scores, in which equal records agree."""

RECORD_COLUMNS = ("plan", "dataset", "backbone", "fold", "variant", "key")
"""Columns of a record in `Verification.table`."""

OUTCOME = {
    "verdict": "not retrained",
    "metric": "",
    **dict.fromkeys(("recorded", "retrained", "noise"), math.nan),
    "reason": "",
}
"""Further columns of `Verification.table`, with the values of a record that was not trained again."""


@dataclass(frozen=True)
class Verification:
    """The result of `verify`.

    Parameters
    ----------
    table : DataFrame
        One row for each record of the sample: its identity, `verdict` (one of `VERDICTS`), the `metric` with the
        largest difference relative to its noise, its `recorded` and `retrained` values, the `noise`, and the `reason`.
    n_records : int
        Number of trained networks that the sample was drawn from.
    notes : tuple of str
        Sentences on differences between this machine and the recorded one.
    interrupted : bool
        Whether Ctrl-C ended it: the table then has the records that were trained until then.
    """

    table: pd.DataFrame
    n_records: int
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """Number of records of each verdict."""
        return {verdict: int((self.table["verdict"] == verdict).sum()) for verdict in VERDICTS}

    @property
    def agrees(self) -> bool:
        """Whether all records of the sample were trained again, and are equal or within noise."""
        counts = self.counts
        return not self.interrupted and counts["different"] == counts["not retrained"] == 0


def verify(
    out: str | PathLike[str],
    *,
    sample: int = 20,
    random_seed: int = 0,
    plan: Plan | str | PathLike[str] | None = None,
    only: Sequence[str] = (),
    device: str = "auto",
    alone: bool = False,
    report: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Train a random sample of the recorded networks again, and compare the scores.

    Nothing is written to the folder. The plan, the folds and, if they are stored, the knots are those of the folder. On
    a machine with the recorded software and hardware, the whole stack of a network is trained again, and every bit must
    be the same; if two trainings here differ, the machine is not deterministic, and noise is tolerated. Otherwise a
    network is trained alone, and its difference is compared with that between random seeds.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    sample : int, default=20
        Number of records; all if there are fewer.
    random_seed : int, default=0
        Random seed of the sample.
    plan : Plan, str or path, optional
        Verify only the records of this plan, given by its name or file; by default of all plans in the folder. Your own
        plans that were run by version 0.1.0 must be given, because that version did not store them.
    only : sequence of str
        Verify only records of these data sets.
    device : str, default="auto"
        Device for training; by default a GPU if one is available.
    alone : bool, default=False
        Whether to train networks alone even if the bits of a whole stack could be compared, which is faster.
    report : callable, optional
        Called with a sentence for each record.
    progress : callable, optional
        As in `run`.

    Returns
    -------
    Verification
        A table with a verdict for each record, and whether all agree.

    Notes
    -----
    Noise is measured for each network. Its random seed and four others give the standard deviation s of a score; with a
    probability of 99 %, two random seeds differ by less than ``sqrt(2) t s``, where t is the 99.5 % quantile of
    Student's distribution with 4 degrees of freedom. Rounding cannot have a larger effect. If matrix products have the
    recorded precision, its effect is smaller: at most 100 times the difference between the network alone and the same
    network in a stack of five.

    Examples
    --------
    >>> import tempfile
    >>> from knotwork.study import Plan, run
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"], training={"max_epochs": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(plan, folder, device="cpu")
    ...     verify(folder, sample=3, device="cpu").agrees
    True
    """
    check_int(sample, "sample", minimum=1)
    check_int(random_seed, "random_seed", minimum=0)
    check_bool(alone, "alone")
    plan = plan if plan is None or isinstance(plan, Plan) else load_plan(plan)
    index = open_study(out)
    plans = _plans_of(index, plan)
    records = _records_of(index, plan, only)
    drawn = np.random.default_rng(random_seed).choice(len(records), size=min(sample, len(records)), replace=False)
    retraining = _Retraining(index, resolve_device(device), alone, progress)
    lines: list[dict[str, Any]] = []
    interrupted = False
    try:
        for line in retraining.lines(plans, records.iloc[drawn]):
            lines.append(line)
            if report is not None:
                report(f"[{len(lines)}/{len(drawn)}] {_sentence(line)}")
    except KeyboardInterrupt:
        interrupted = True
    table = pd.DataFrame(lines, columns=[*RECORD_COLUMNS, "encoding", *OUTCOME])
    return Verification(table, len(records), _notes(retraining.differing, len(lines)), interrupted)


def _line(record: Mapping[str, Any], **outcome: Any) -> dict[str, Any]:
    """Return a row of `Verification.table` on a record."""
    encoding = str(record["method"]) + ("" if pd.isna(record["size"]) else f"@{record['size']}")
    return {**{name: record[name] for name in RECORD_COLUMNS}, "encoding": encoding, **OUTCOME, **outcome}


def _sentence(line: Mapping[str, Any]) -> str:
    """Return a row of `Verification.table` as a sentence."""
    variant = "" if pd.isna(line["variant"]) else f", {line['variant']}"
    name = f"{line['dataset']}, {line['backbone']}, {line['encoding']}, fold {line['fold']}{variant}"
    return f"{name}: {line['verdict']}" + (f" ({line['reason']})" if line["reason"] else "")


def _plans_of(index: RecordIndex, plan: Plan | None) -> dict[str, Plan | str]:
    """Return the plans in the folder of a study by their hashes, or the reason why a plan is not available."""
    manifests = index.manifests(required=True)
    index.warn()
    built_in = {each.plan_hash: each for each in map(load_plan, PLANS)}
    plans = {manifest["plan_hash"]: _stored_plan(manifest, built_in) for manifest in manifests}
    return plans if plan is None else {**plans, plan.plan_hash: plan}


def _stored_plan(manifest: Mapping[str, Any], built_in: Mapping[str, Plan]) -> Plan | str:
    """Return the plan of a manifest, stored or built-in, or the reason why it is not available."""
    if "definition" not in manifest:
        missing = f"the folder does not contain the plan {manifest['plan']!r}; name its file by --plan"
        return built_in.get(manifest["plan_hash"], missing)
    try:
        plan = Plan.from_mapping(manifest["definition"])
    except (ArgumentError, ArgumentTypeError, TypeError) as error:
        return f"the plan {manifest['plan']!r} is not valid here: {error}"
    if plan.plan_hash != manifest["plan_hash"]:
        return f"the plan {manifest['plan']!r} has another meaning in version {knotwork.__version__} of the library"
    return plan


def _records_of(index: RecordIndex, plan: Plan | None, only: Sequence[str]) -> pd.DataFrame:
    """Return the records that a sample is drawn from, in an order that does not depend on files."""
    frame = index.frame()
    frame = frame[frame["status"] == "ok"]
    if plan is not None:
        names = sorted(set(frame["plan"].dropna()))
        frame = frame[frame["plan_hash"] == plan.plan_hash]
        if not len(frame):
            requirement = f"be a plan whose networks were trained in {index.out}"
            raise argument_error("plan", requirement, plan.name, f"Its plans: {listed(names)}.")
    for name in only:
        check_choice(name, "only", sorted(set(frame["dataset"])))
    if only:
        frame = frame[frame["dataset"].isin(only)]
    if not len(frame):
        raise argument_error("out", "have a record of a trained network", str(index.out), "Run a plan there first.")
    return frame.sort_values("key", ignore_index=True)


@dataclass(eq=False)
class _Retraining:
    """Trains networks again, one plan and data set after the other.

    `differing` counts the differences between the recorded machines and this one.
    """

    index: RecordIndex
    device: torch.device
    alone: bool
    progress: Progress | None
    differing: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def lines(self, plans: Mapping[str, Plan | str], sample: pd.DataFrame) -> Iterator[dict[str, Any]]:
        """Train the networks of a sample again, and yield the rows of `Verification.table`."""
        order = ["plan", "dataset", "backbone", "stack", "key"]
        for names, rows in sample.sort_values(order).groupby(["plan_hash", "dataset"], sort=False):
            plan_hash, dataset = map(str, names)
            plan = plans.get(plan_hash, "the folder has no list of the networks of its plan")
            reason = plan if isinstance(plan, str) else self._load(plan, dataset)
            for row in rows.to_dict("records"):
                record = {str(name): value for name, value in row.items()}
                yield _line(record, reason=reason) if reason else _line(record, **self._outcome(record))

    def _load(self, plan: Plan, dataset: str) -> str:
        """Load a data set of a plan; return the reason if it is not available."""
        try:
            self.plan, self.data = plan, load_data(plan, dataset)
        except DATA_ERRORS as error:
            return str(error)
        self.networks = {network.key: network for network in expand(plan, dataset, self.data.identity)}
        self.trained: tuple[list[NetworkSpec], dict[NetworkSpec, Result]] = [], {}
        return ""

    def _outcome(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns `OUTCOME` on a record."""
        network = self.networks.get(record["key"])
        if network is None:
            changed = record["data_sha256"] != self.data.identity.sha256
            reason = f"data set {self.data.name!r} has changed" if changed else "its key has changed with the library"
            return {"reason": f"{reason} since it was recorded"}
        fitted = self._fit([network])[network.fold_encoding]
        if isinstance(fitted, str):
            return {"reason": _last_line(fitted)}
        environment = environment_of(self.plan.config_of(network.variant), network.backbone.config, self.device)
        is_supervised = network.encoding.kind.supervised
        differing = differences(record, environment | fitted.versions, supervised=is_supervised)
        is_same = differing.keys() <= {"source"} and not self.alone
        stack = self._stack(record) if is_same else None
        result = self._train(stack or [network])[network]
        if result.row["status"] != "ok":
            return {"reason": f"training failed here: {_last_line(result.row['error'])}"}
        outcome = _compared(record, result.row, noise=None)
        if outcome["verdict"] != "equal":
            is_exact = stack is not None and not differing and self._is_deterministic(stack, network, result)
            if not is_exact:
                noise = self._noise(network, result, same_precision="precision" not in differing)
                outcome = _compared(record, result.row, noise=noise)
        self.differing.update((name, *both) for name, both in differing.items())
        return outcome

    def _fit(self, networks: Sequence[NetworkSpec]) -> dict[FoldEncoding, Fitted | str]:
        """Return all encodings, with those of networks: stored ones from the folder; others are not stored."""
        new = sorted({network.fold_encoding for network in networks} - self.data.fitted.keys(), key=repr)
        if new:
            folder = self.index.out / "prepared"
            self.data.fitted.update(fit_all(self.data, new, folder=folder, bins=self.plan.bins, store=False))
        return self.data.fitted

    def _stack(self, record: Mapping[str, Any]) -> list[NetworkSpec] | None:
        """Return the networks of a record's stack, in order; None if one is unknown."""
        frame = self.index.frame()
        keys = frame[frame["stack"] == record["stack"]].sort_values("stack_place")["key"].tolist()
        if stack_id(keys) != record["stack"] or not set(keys) <= self.networks.keys():
            return None
        return [self.networks[key] for key in keys]

    def _train(self, networks: list[NetworkSpec], *, again: bool = False) -> dict[NetworkSpec, Result]:
        """Train networks in one stack; unless `again`, the results of the last stack are kept for its networks."""
        if not again and self.trained[0] == networks:
            return self.trained[1]
        self._fit(networks)
        with nullcontext(None) if self.progress is None else self.progress() as report:
            results = UnitTrainer(self.plan, self.data, str(self.device), report).results(networks)
        trained = dict(zip(networks, results, strict=True))
        if not again:
            self.trained = networks, trained
        return trained

    def _is_deterministic(self, stack: list[NetworkSpec], network: NetworkSpec, result: Result) -> bool:
        """Return whether a second training on this machine gives the same bits as the first."""
        return bool(
            _compared(result.row, self._train(stack, again=True)[network].row, noise=None)["verdict"] == "equal"
        )

    def _noise(self, network: NetworkSpec, result: Result, *, same_precision: bool) -> dict[str, float]:
        """Return the noise of every score of a network, for `_compared`."""
        scores = _scores(result.row)
        step = (
            NOISE.changed_rows / len(self.data.splits[network.fold].test)
            if self.data.table.task == "classification"
            else 0.0
        )
        floors = {name: max(NOISE.rounding * max(abs(value), 1.0), step) for name, value in scores.items()}
        if isinstance(network.backbone.config, LinearConfig):
            return floors
        # The first seed is that of the network itself.
        seeds = [network.seed + NOISE.seed_step * number for number in range(NOISE.n_seeds + 1)]
        others = [replace(network, seed=seed) for seed in seeds]
        copy, *rest = self._train(others, again=True).values()
        noise = _spreads(result.row, [other.row for other in rest])
        if same_precision:
            rounding = {
                name: NOISE.machines_to_stacks * abs(copy.row.get(name, math.inf) - scores[name]) for name in scores
            }
            noise = {name: min(value, rounding[name]) for name, value in noise.items()}
        return {name: max(floor, noise.get(name, 0.0)) for name, floor in floors.items()}


def _spreads(row: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the possible difference between two random seeds for every score, from the rows of several."""
    rows = [row, *(other for other in others if other["status"] == "ok")]
    if len(rows) < 2:
        return {}
    factor = math.sqrt(2.0) * float(student.ppf(0.5 + NOISE.confidence / 2, len(rows) - 1))
    names = [name for name in _scores(row) if all(name in _scores(other) for other in rows)]
    return {name: factor * float(np.std([other[name] for other in rows], ddof=1)) for name in names}


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores of a record."""
    names = [column for metric in METRICS.values() for column in metric.columns]
    return {name: float(row[name]) for name in names if name in row and pd.notna(row[name])}


def _compared(
    record: Mapping[str, Any], row: Mapping[str, Any], *, noise: Mapping[str, float] | None
) -> dict[str, Any]:
    """Compare a record with the row of a network that was trained again.

    `noise` has the maximum difference of each score; if it is None, every bit must be the same.
    """
    recorded, now = _scores(record), _scores(row)
    gaps = {name: abs(now[name] - value) if name in now else math.inf for name, value in recorded.items()}
    limits = {name: NOISE.rounding * max(abs(value), 1.0) for name, value in recorded.items()} | dict(noise or {})
    worst = max(gaps, key=lambda name: gaps[name] / limits[name])
    unequal = _unequal(record, row, FIXED, NOISE.sum_rounding)
    course = _unequal(record, row, COURSE)
    if unequal:
        verdict, reason = "different", unequal
    elif not any(gaps.values()) and not course:
        verdict, reason = "equal", ""
    elif noise is None:
        verdict = "different"
        reason = "" if any(gaps.values()) else course
    else:
        verdict, reason = "within noise" if gaps[worst] <= limits[worst] else "different", ""
    allowed = 0.0 if noise is None else limits[worst]
    values = {"recorded": recorded[worst], "retrained": now.get(worst, math.nan), "noise": allowed}
    return {"verdict": verdict, "metric": worst, **values, "reason": reason}


def _unequal(record: Mapping[str, Any], row: Mapping[str, Any], names: Sequence[str], rounding: float = 0.0) -> str:
    """Return a sentence on the first column that differs; empty if none does. Missing columns are not compared."""
    for name in names:
        before, now = record.get(name), row.get(name)
        if pd.notna(before) and pd.notna(now) and abs(float(now) - float(before)) > rounding * abs(float(before)):
            return f"{name} is {now:g} here, recorded is {before:g}"
    return ""


def _last_line(error: str) -> str:
    """Return the message of a traceback."""
    lines = error.strip().splitlines() or ["unknown error"]
    return lines[-1].partition(": ")[2] or lines[-1]


def _notes(differing: Counter[tuple[str, str, str]], n_records: int) -> tuple[str, ...]:
    """Return sentences on differences between the recorded machines and this one."""
    missing = sorted({name for name, before, _ in differing if before == UNKNOWN})
    notes = [f"Not recorded: {', '.join(missing)}. Bits need not be equal."] if missing else []
    for (name, before, now), count in differing.items():
        if before != UNKNOWN:
            notes.append(f"{name}: {before} recorded, {now} here ({count} of {n_records} records).")
    return tuple(notes)
