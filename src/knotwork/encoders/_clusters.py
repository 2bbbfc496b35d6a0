"""Tables on a cluster: blocks of Ray Data sets and Dask data frames are fitted and encoded where they are.

An encoder is fitted on each block by `partial_fit`; the encoders are then merged, sixteen at a time. If a worker dies,
the engine runs its task again elsewhere.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from sklearn import clone

from knotwork._checks import argument_error, suggestion

__all__ = ["find_cluster"]

MERGED_AT_ONCE = 16
"""Encoders of blocks that one task merges."""

RETRIES = 3
"""Number of times that Dask runs a failing task again; Ray has a number of its own."""

ROWS_AT_ONCE = 1 << 16
"""Rows of an encoded block: its columns are many times those of the table."""


def find_cluster(X: Any) -> "_RayData | _DaskFrame | None":
    """Return the engine of a table or a column on a cluster, or None; neither Ray nor Dask is imported.

    Examples
    --------
    >>> find_cluster([[1.0], [2.0]]) is None
    True
    """
    for kind in type(X).__mro__:
        cluster = CLUSTERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if cluster is not None:
            return cluster
    return None


def _fit_block(encoder: Any, block: Any, y: Any, sample_weight: Any) -> Any:
    """Return an encoder that has seen the rows of a block."""
    return clone(encoder).partial_fit(block, y, sample_weight)


def _merge_all(encoders: Iterable[Any]) -> Any:
    """Return one encoder that has seen what several have."""
    first, *others = encoders
    merged = clone(first).merge(first)
    for other in others:
        merged.merge(other)
    return merged


def _encode_block(encoder: Any, block: Any, names: list[str]) -> Any:
    """Return an encoded block as an array, also of no rows."""
    return np.asarray(encoder.transform(block)) if len(block) else np.empty((0, len(names)), dtype=encoder.dtype)


@final
class _RayData:
    """Data sets of Ray Data."""

    def fit(self, encoder: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return an encoder that has seen all rows; `encoder` is unfitted and is not changed."""
        names = X.columns()  # errors of names come before blocks are read, by which Ray would report them at length
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not isinstance(value, str):
                raise argument_error(name, "be the name of a column of a Ray Data set", type(value).__name__)
            if names is not None and value is not None and value not in names:
                raise argument_error(name, "be the name of a column of X", value, suggestion(value, names))

        def fit_block(block: Any) -> Iterator[dict[str, Any]]:  # Ray hides the type of errors that others raise
            yield _packed(_fit_block(encoder, block, y, sample_weight))

        def merge_some(parts: dict[str, Any]) -> dict[str, Any]:
            return _packed(_merge_all(_unpacked(parts["encoder"])))

        with _in_order(X), _plain_errors():
            parts = X.map_batches(fit_block, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)
            parts = parts.materialize()  # encoders of blocks are small
            while parts.count() > MERGED_AT_ONCE:
                parts = parts.map_batches(merge_some, batch_format="numpy", batch_size=MERGED_AT_ONCE).materialize()
            return _merge_all([encoder, *_unpacked(row["encoder"] for row in parts.iter_rows())])

    def transform(self, encoder: Any, X: Any) -> Any:
        """Return the encoded table."""
        names = [str(name) for name in encoder.get_feature_names_out()]
        known = X.columns()
        if known is not None:
            import pyarrow as pa  # noqa: PLC0415 - Ray Data needs it

            encoder._check_names(
                encoder._without_left_out(pa.table({name: pa.array([], pa.float64()) for name in known}))
            )

        def encode_block(block: Any) -> Iterator[Any]:
            import pyarrow as pa  # noqa: PLC0415 - Ray Data needs it

            for start in range(0, max(block.num_rows, 1), ROWS_AT_ONCE):
                part = block.slice(start, ROWS_AT_ONCE)
                values = _encode_block(encoder, part, names)
                kept = [name for name in encoder._left_out if name in part.column_names]
                columns = [pa.array(np.ascontiguousarray(column)) for column in values.T]
                yield pa.table([*columns, *(part.column(name) for name in kept)], names=[*names, *kept])

        return X.map_batches(encode_block, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


@contextmanager
def _in_order(X: Any) -> Iterator[None]:
    """Let blocks be merged in their order, whichever is ready first, so that two fits of a data set are equal."""
    options = X.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise what a task has raised, such as an error about a column, in place of Ray's account of it."""
    from ray.exceptions import RayTaskError  # noqa: PLC0415 - the user has it

    try:
        yield
    except RayTaskError as error:
        sentences = str(error.cause).partition("\nFailed to apply UDF")[0]  # and what Ray's own settings are
        error.cause.args = (sentences,)
        raise error.cause from None


def _packed(encoder: Any) -> dict[str, Any]:
    from ray import cloudpickle  # noqa: PLC0415 - for a placement that is defined in a notebook

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return {"encoder": np.array([dumps(encoder)], dtype=object)}


def _unpacked(parts: Iterable[bytes]) -> list[Any]:
    return [pickle.loads(part) for part in parts]


@final
class _DaskFrame:
    """Data frames of Dask."""

    def fit(self, encoder: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return an encoder that has seen all rows; `encoder` is unfitted and is not changed."""
        from dask.delayed import delayed  # noqa: PLC0415 - the user has it

        parts = X.to_delayed()
        beside = [
            _delayed_parts(name, value, len(parts)) for name, value in (("y", y), ("sample_weight", sample_weight))
        ]
        fit_block, merge_all = delayed(_fit_block, pure=False), delayed(_merge_all, pure=False)
        encoders = [fit_block(encoder, *block) for block in zip(parts, *beside, strict=True)]
        while len(encoders) > 1:
            groups = range(0, len(encoders), MERGED_AT_ONCE)
            encoders = [merge_all(encoders[start : start + MERGED_AT_ONCE]) for start in groups]
        return encoders[0].compute(retries=RETRIES)  # only distributed schedulers know them

    def transform(self, encoder: Any, X: Any) -> Any:
        """Return the encoded table."""
        encoder._check_names(encoder._without_left_out(X._meta))
        kept = [name for name in encoder._left_out if name in X.columns]
        names = [str(name) for name in encoder.get_feature_names_out()]

        def encode_block(block: Any) -> Any:
            import pandas as pd  # noqa: PLC0415 - Dask needs it

            values = _encode_block(encoder, block, names)
            return pd.concat([pd.DataFrame(values, columns=names, index=block.index), block[kept]], axis=1)

        return X.map_partitions(encode_block, meta=encode_block(X._meta))


def _delayed_parts(name: str, value: Any, n_parts: int) -> list[Any]:
    """Return what belongs to each block: the parts of a column on the cluster, or a name for all."""
    if value is None or isinstance(value, str):
        return [value] * n_parts
    parts = list(value.to_delayed())
    if len(parts) != n_parts:
        hint = "Pass the name of a column of X."
        raise argument_error(name, f"have as many partitions as X, {n_parts}", len(parts), hint)
    return parts


CLUSTERS: dict[tuple[str, str], _RayData | _DaskFrame] = {
    ("ray", "Dataset"): _RayData(),
    ("dask", "DataFrame"): _DaskFrame(),
    ("dask", "Series"): _DaskFrame(),
}
"""The engines, by package and class of their tables and columns."""
