"""Tables on a cluster: partitions of Ray Data sets and Dask data frames are fitted and encoded where they are.

An encoder is fitted on each partition by `partial_fit`; the encoders are then merged, sixteen at a time. If a worker
dies, the engine runs its task again elsewhere.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from sklearn import clone

from knotwork._checks import argument_error, suggestion

ENCODERS_PER_TASK = 16
"""Encoders of partitions that one task merges."""

RETRIES = 3
"""Number of times that Dask runs a failing task again; Ray has its own setting."""

ROWS_PER_TABLE = 1 << 16
"""Rows of an encoded table that a task yields, which has many times the columns of the input."""


def find_cluster(X: object) -> "Cluster | None":
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


def _fit_partition(encoder: Any, partition: Any, y: Any, sample_weight: Any) -> Any:
    """Return an encoder that has seen the rows of a partition."""
    return clone(encoder).partial_fit(partition, y, sample_weight)


def _merge_all(encoders: Iterable[Any]) -> Any:
    """Return one encoder that has seen the rows of several."""
    first, *others = encoders
    merged = clone(first).merge(first)
    for other in others:
        merged.merge(other)
    return merged


def _encode_partition(encoder: Any, partition: Any, names: list[str]) -> Any:
    """Return an encoded partition as an array, also of no rows."""
    return (
        np.asarray(encoder.transform(partition)) if len(partition) else np.empty((0, len(names)), dtype=encoder.dtype)
    )


@final
class _RayData:
    """Data sets of Ray Data."""

    def fit(self, encoder: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return an encoder that has seen all rows; `encoder` is unfitted and is not changed."""
        names = X.columns()  # names are checked before partitions are read: Ray would report errors at length
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not isinstance(value, str):
                raise argument_error(name, "be the name of a column of a Ray Data set", type(value).__name__)
            if names is not None and value is not None and value not in names:
                raise argument_error(name, "be the name of a column of X", value, suggestion(value, names))

        def fit_partition(partition: Any) -> Iterator[dict[str, Any]]:  # Ray hides the types of other functions' errors
            yield _packed(_fit_partition(encoder, partition, y, sample_weight))

        def merge_some(parts: dict[str, Any]) -> dict[str, Any]:
            return _packed(_merge_all(_unpacked(parts["encoder"])))

        with _in_order(X), _plain_errors():
            parts = X.map_batches(fit_partition, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)
            parts = parts.materialize()  # encoders of partitions are small
            while parts.count() > ENCODERS_PER_TASK:
                parts = parts.map_batches(merge_some, batch_format="numpy", batch_size=ENCODERS_PER_TASK).materialize()
            return _merge_all([encoder, *_unpacked(row["encoder"] for row in parts.iter_rows())])

    def transform(self, encoder: Any, X: Any) -> Any:
        """Return the encoded table."""
        names = [str(name) for name in encoder.get_feature_names_out()]
        columns = X.columns()
        if columns is not None:
            import pyarrow as pa  # noqa: PLC0415 - Ray Data needs it

            encoder._check_names(
                encoder._without_left_out(pa.table({name: pa.array([], pa.float64()) for name in columns}))
            )

        def encode_partition(partition: Any) -> Iterator[Any]:
            import pyarrow as pa  # noqa: PLC0415 - Ray Data needs it

            for start in range(0, max(partition.num_rows, 1), ROWS_PER_TABLE):
                part = partition.slice(start, ROWS_PER_TABLE)
                values = _encode_partition(encoder, part, names)
                kept = [name for name in encoder._left_out if name in part.column_names]
                encoded = [pa.array(np.ascontiguousarray(column)) for column in values.T]
                yield pa.table([*encoded, *(part.column(name) for name in kept)], names=[*names, *kept])

        return X.map_batches(encode_partition, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


@contextmanager
def _in_order(X: Any) -> Iterator[None]:
    """Merge partitions in their order, whichever is ready first, so that two fits of a data set are equal."""
    options = X.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise the error of a task, such as one about a column, instead of Ray's report of it."""
    from ray.exceptions import RayTaskError  # noqa: PLC0415 - the user has it

    try:
        yield
    except RayTaskError as error:
        sentences = str(error.cause).partition("\nFailed to apply UDF")[0]  # without the settings of Ray that follow
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
        arguments = [
            _delayed_parts(name, value, len(parts)) for name, value in (("y", y), ("sample_weight", sample_weight))
        ]
        fit_partition, merge_all = delayed(_fit_partition, pure=False), delayed(_merge_all, pure=False)
        encoders = [fit_partition(encoder, *partition) for partition in zip(parts, *arguments, strict=True)]
        while len(encoders) > 1:
            groups = range(0, len(encoders), ENCODERS_PER_TASK)
            encoders = [merge_all(encoders[start : start + ENCODERS_PER_TASK]) for start in groups]
        return encoders[0].compute(retries=RETRIES)  # only distributed schedulers use `retries`

    def transform(self, encoder: Any, X: Any) -> Any:
        """Return the encoded table."""
        encoder._check_names(encoder._without_left_out(X._meta))
        kept = [name for name in encoder._left_out if name in X.columns]
        names = [str(name) for name in encoder.get_feature_names_out()]

        def encode_partition(partition: Any) -> Any:
            import pandas as pd  # noqa: PLC0415 - Dask needs it

            values = _encode_partition(encoder, partition, names)
            encoded = pd.DataFrame(values, columns=names, index=partition.index)
            return pd.concat([encoded, partition[kept]], axis=1)

        return X.map_partitions(encode_partition, meta=encode_partition(X._meta))


def _delayed_parts(name: str, value: Any, n_parts: int) -> list[Any]:
    """Return the argument of each partition: its part of a column on the cluster, or a name for all."""
    if value is None or isinstance(value, str):
        return [value] * n_parts
    parts = list(value.to_delayed())
    if len(parts) != n_parts:
        hint = "Pass the name of a column of X."
        raise argument_error(name, f"have as many partitions as X, {n_parts}", len(parts), hint)
    return parts


Cluster = _RayData | _DaskFrame

CLUSTERS: dict[tuple[str, str], Cluster] = {
    ("ray", "Dataset"): _RayData(),
    ("dask", "DataFrame"): _DaskFrame(),
    ("dask", "Series"): _DaskFrame(),
}
"""The engines, by package and class of their tables and columns."""
