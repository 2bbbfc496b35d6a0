"""Copies of a study in a few small files, for publishing or archiving."""

import re
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knotwork._checks import argument_error, check_bool, warn_user
from knotwork.study._folder import RecordWarning, write_table
from knotwork.study._records import IDENTITY, RecordIndex, record_schema, store_manifest
from knotwork.study._traces import load_traces

__all__ = ["pack"]

SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 19}
"""Compression options for files that are written once and copied often."""


def pack(out: str | PathLike[str], target: str | PathLike[str], *, histories: bool = False) -> dict[str, int]:
    """Copy a study into another folder: one file of records for each plan, and its list of networks.

    The copy is a valid study folder: reports can be made from it, and running a plan in it trains the missing networks.
    A network that was trained more than once has one row, as in `load_results`; a network in several plans belongs to
    the plan that was run first. Paths of knots and fitted curves are included, fitted encodings are not.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    target : str or path
        Folder of the copy, which is created. Files of plans that were packed before are replaced.
    histories : bool, default=False
        Whether to include the losses and scores of every epoch.

    Returns
    -------
    dict of str to int
        Number of networks that were written, by plan.

    Examples
    --------
    >>> import tempfile
    >>> from knotwork.study import Plan, run
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"], training={"max_epochs": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(plan, f"{folder}/study")
    ...     pack(f"{folder}/study", f"{folder}/results"), run(plan, f"{folder}/results").n_before
    ({'tiny': 5}, 5)
    """
    check_bool(histories, "histories")
    folder, copy = Path(out), Path(target)
    index = RecordIndex(folder).refresh()
    manifests = index.manifests(required=True)
    if folder.resolve() == copy.resolve():
        hint = "Name a new folder for the copy."
        raise argument_error("target", "be another folder than that of the study", str(target), hint)
    index.warn()
    frame = index.frame()
    schema = record_schema(frame.columns)
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(schema.metadata)
    table = table.sort_by([(name, "ascending") for name in IDENTITY if name != "together"])
    written: dict[str, int] = {}
    taken: set[str] = set()
    for manifest in manifests:
        keys = {network[0] for network in manifest["networks"]} - taken
        rows = table.filter(pc.is_in(table["key"], pa.array(sorted(keys), pa.string())))
        name = _file_name(manifest)
        if len(rows):
            write_table(copy / "records" / name, rows, **SMALL)
            for kind in ("knots", "curves", "histories")[: 3 if histories else 2]:
                traces = load_traces(kind, folder, manifest["plan_hash"]) if (folder / kind).is_dir() else ()
                if len(traces):
                    write_table(copy / kind / name, traces, **SMALL)
            written[manifest["plan"]] = written.get(manifest["plan"], 0) + len(rows)
        store_manifest(copy, manifest)
        taken |= keys
    n_left = len(set(frame["key"]) - taken)
    if n_left:
        warn_user(
            f"{n_left} networks in {folder} belong to no plan of its folder 'plans', and were not copied. Run their "
            "plans again in the folder: no network is trained twice.",
            RecordWarning,
        )
    return written


def _file_name(manifest: dict[str, Any]) -> str:
    """Return the file name of a plan; earlier versions allowed plan names with path separators."""
    safe = re.sub(r"[^\w .+-]", "_", manifest["plan"]).strip(". ")[:100]
    return f"{safe or 'plan'}-{manifest['plan_hash'][:8]}.parquet"
