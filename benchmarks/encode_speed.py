"""Speed of `fit` and `transform` of encoders, compared with other libraries and with writing the output once."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from encode_racing import LIMIT, MIB, OURS, SPLINES, Entry, Plan, Report, pair, race, show
from scipy.interpolate import BSpline
from sklearn.preprocessing import SplineTransformer

import knotwork as kw

try:
    import pretab
    from pretab import transformers as pretab_transformers
except ImportError:
    pretab = None
try:
    import rtdl_num_embeddings
    import torch
except ImportError:
    rtdl_num_embeddings = None

__all__ = ["dense", "fits", "growth", "pretab", "rtdl_num_embeddings", "sparse"]

LABELS = {**SPLINES, "ple": "PLE", "any": "all"}
PRETAB_MOST = 50  # columns per feature that PreTab's splines take


def normal(n_rows: int, n_columns: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, n_columns)).astype(dtype)


def target(X: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(len(X))
    return np.sin(3.0 * X).sum(axis=1) + np.abs(X[:, 0]) * X[:, -1] + 0.5 * noise


def our_encoder(family: str, size: int, **settings: Any) -> Any:
    if family == "ple":
        return kw.PiecewiseLinearEncoder(size, placement="quantile", **settings)
    return kw.SplineEncoder(family, size, placement="quantile", **settings)


def fill(*arrays: tuple[Any, Any]) -> list[np.ndarray]:
    """Return arrays of the given shapes and types, filled once."""
    filled = []
    for shape, dtype in arrays:
        array = np.empty(shape, dtype)
        array.fill(0)
        filled.append(array)
    return filled


def check_same(ours: Any, theirs: Any) -> None:
    """Raise if two encodings of the same values on the same knots differ by more than float32 rounding."""
    difference = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max()
    if difference > 1e-4:
        raise AssertionError(f"a peer on the same knots must compute the same, but differs by {difference}")


def our_entries(X: np.ndarray, size: int, families: Sequence[str], **settings: Any) -> list[Entry]:
    entries = []
    for family in families:
        encoder = our_encoder(family, size, **settings).fit(X)
        entries.append(Entry(family, OURS, partial(encoder.transform, X), len(X), 15))
    return entries


def sklearn_entry(X: np.ndarray, size: int, *, sparse_output: bool = False) -> Entry:
    settings = {"knots": "quantile", "extrapolation": "constant", "sparse_output": sparse_output}
    encoder = SplineTransformer(n_knots=size - 2, **settings).fit(X)
    return Entry("bspline", "SplineTransformer", partial(encoder.transform, X), len(X), 7, tuple(SPLINES))


def scipy_entry(X: np.ndarray, size: int) -> Entry:
    """Return one CSR array per column; they are not stacked."""
    fitted = our_encoder("bspline", size).fit(X)
    ends, n_columns = fitted.domain_, X.shape[1]
    knots = [np.concatenate(([low] * 4, fitted.knots_[j], [high] * 4)) for j, (low, high) in enumerate(ends)]

    def encode(n_rows: int | None = None) -> list[Any]:
        return [BSpline.design_matrix(X[:n_rows, j], knots[j], 3) for j in range(n_columns)]

    check_same(fitted.transform(X[:1000]), np.hstack([part.toarray() for part in encode(1000)]))
    return Entry("bspline", "design_matrix (sparse)", encode, len(X), 7, tuple(SPLINES))


def rtdl_entry(X: np.ndarray, size: int) -> Entry:
    fitted = our_encoder("ple", size).fit(X)
    ends = fitted.domain_
    bins = [np.concatenate(([low], fitted.knots_[j], [high])) for j, (low, high) in enumerate(ends)]
    encoder = rtdl_num_embeddings.PiecewiseLinearEncoding([torch.tensor(edges, dtype=torch.float32) for edges in bins])
    values = torch.from_numpy(X.astype(np.float32))
    check_same(fitted.transform(X[:1000]), encoder(values[:1000]))
    return Entry("ple", "rtdl_num_embeddings", partial(encoder, values), len(X), 7, ("ple",))


def pretab_entries(X: np.ndarray, size: int, families: Sequence[str], n_rows: int) -> list[Entry]:
    names = {"bspline": "BSpline", "mspline": "MSpline", "ispline": "ISpline", "ple": "PLE"}
    part, entries = X[:n_rows], []
    for family in families:
        if family == "ple" or size <= PRETAB_MOST:
            encoder = getattr(pretab_transformers, f"{names[family]}Transformer")(output_dim=size).fit(X, target(X))
            entries.append(Entry(family, "PreTab", partial(encoder.transform, part), len(part), 3, (family,)))
    return entries


def dense(report: Report, plan: Plan) -> None:
    cases = [(size, np.float32) for size in plan.sizes] + [(30, np.float64)]
    for size, dtype in cases:
        X = normal(plan.rows, 10, dtype)
        all_of = list(LABELS)[:4] if dtype == np.float32 else list(SPLINES)
        entries = [*our_entries(X, size, all_of), sklearn_entry(X, size), scipy_entry(X, size)]
        if rtdl_num_embeddings is not None and "ple" in all_of:
            entries.append(rtdl_entry(X, size))
        if pretab is not None and dtype == np.float32:
            entries += pretab_entries(X, size, all_of, plan.pretab_rows)
        entries.append(Entry("any", LIMIT, partial(fill, ((len(X), 10 * size), np.float32)), len(X), 15))
        report.say(f"### Dense, {plan.rows:,} x 10 values in {np.dtype(dtype).name}, m = {size}")
        if dtype == np.float64:
            report.say("Splines again with the input in float64: SplineTransformer then writes float64.")
        if pretab is not None and size > PRETAB_MOST:
            report.say(f"PreTab: its splines take at most {PRETAB_MOST} columns per feature, skipped here.")
        show(report, race(entries), 10, LABELS)


def sparse(report: Report, plan: Plan) -> None:
    X = normal(plan.rows, 10)
    for size in plan.sizes:
        families = ("bspline", "ispline")
        ours = our_entries(X, size, families, sparse_output=True)
        limits = []
        for family in families:
            n_entries = our_encoder(family, size, sparse_output=True).fit_transform(X).nnz
            arrays = ((n_entries, np.float32), (n_entries, np.int32), (len(X) + 1, np.int32))
            limits.append(Entry(family, LIMIT, partial(fill, *arrays), len(X), 15))
        peers = [sklearn_entry(X, size, sparse_output=True), scipy_entry(X, size)]
        report.say(f"### Sparse, {plan.rows:,} x 10 values in float32, m = {size}")
        show(report, race(ours + peers + limits), 10, LABELS)


def fits(report: Report, plan: Plan) -> None:
    X = normal(plan.rows, 10)
    y, entries = target(X), []
    for placement in ("uniform", "quantile", "cart", "lgbm"):
        supervised = placement in ("cart", "lgbm")
        repeats = 3 if supervised else 7
        encoder = kw.SplineEncoder("bspline", 30, placement=placement)
        entries.append(Entry(placement, OURS, partial(encoder.fit, X, y), len(X), repeats))
        if not supervised:
            peer = SplineTransformer(n_knots=28, knots=placement)
            entries.append(Entry(placement, "SplineTransformer", partial(peer.fit, X), len(X), repeats, (placement,)))
        if pretab is not None:
            name = "lightgbm" if placement == "lgbm" else placement
            other = pretab_transformers.BSplineTransformer(
                30, target_aware=supervised, placement_strategy=name, task="regression"
            )
            entries.append(Entry(placement, "PreTab", partial(other.fit, X, y), len(X), repeats, (placement,)))
    report.say(f"### Fit of B-splines, {plan.rows:,} x 10 values in float32, m = 30")
    show(report, race(entries), 10, {entry.what: entry.what for entry in entries})


def growth(report: Report, plan: Plan) -> None:
    n_values = 10 * plan.rows
    cases = {
        "n, at m = 30": [(n, d, 30) for n, d in plan.growth_rows],
        "d, at constant n d and m = 30": [(n_values // d, d, 30) for d in (1, 10, 100)],
        "m": [(plan.rows, 10, size) for size in plan.growth_sizes],
    }
    report.say("### Growth of the dense transform")
    for what, shapes in cases.items():
        rows = []
        for n, d, size in shapes:
            X, entries = normal(n, d), []
            for family in ("bspline", "ispline"):
                encoder = our_encoder(family, size).fit(X[:100_000])
                entries.append(Entry(family, OURS, partial(encoder.transform, X), n, 7))
            entries.append(Entry("any", LIMIT, partial(fill, ((n, d * size), np.float32)), n, 7))
            *timings, limit = race(entries)
            cells = [f"{1e9 * timing.median / (n * d):.1f}" for timing in timings]
            beyond = [pair(timing.over(limit)) for timing in timings]
            rows.append([f"{n:,}", d, size, f"{n * d * size * 4 / MIB:,.0f}", *cells, *beyond])
        header = ["n", "d", "m", "output MiB", "B-spline ns/value", "I-spline ns/value"]
        report.say(f"With {what} (medians of 7):")
        report.table([*header, "B: times the limit (median / best)", "I: times the limit (median / best)"], rows, 0)
