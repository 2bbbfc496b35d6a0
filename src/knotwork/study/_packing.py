"""Copies of a study in a few small files, to publish or to archive."""

import json
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from knotwork._checks import argument_error, check_bool
from knotwork.study._folder import write_bytes, write_file
from knotwork.study._records import IDENTITY, RecordIndex, record_schema, require_manifests
from knotwork.study._traces import load_traces

__all__ = ["pack"]


def pack(out: str | PathLike[str], target: str | PathLike[str], *, histories: bool = False) -> dict[str, int]:
    """Copy a study into another folder: one file of records for each plan, and its list of networks.

    The copy is a valid folder of a study: reports can be made of it, and running a plan in it trains the missing
    networks. A network that was trained more than once has one row, as in `load_results`; a network of several plans
    belongs to the plan that was run first. Paths of knots and fitted curves are included, fitted encodings are not.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    target : str or path
        Folder of the copy; it is created. Files of plans that were packed there before are replaced.
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
    manifests = require_manifests(folder)
    if folder.resolve() == copy.resolve():
        raise argument_error(
            "target", "be another folder than that of the study", str(target), "Name a new folder for the copy."
        )
    frame = RecordIndex(folder).refresh().frame()
    schema = record_schema(frame.columns)
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(schema.metadata)
    table = table.sort_by([(name, "ascending") for name in IDENTITY if name != "together"])
    written: dict[str, int] = {}
    taken: set[str] = set()
    for manifest in manifests:
        keys = {network[0] for network in manifest["networks"]} - taken
        rows = table.filter(pc.is_in(table["key"], pa.array(sorted(keys), pa.string())))
        name = f"{manifest['plan']}-{manifest['plan_hash'][:8]}"
        if len(rows):
            _write(copy / "records" / f"{name}.parquet", rows)
            for kind in ("knots", "curves", "histories")[: 3 if histories else 2]:
                traces = load_traces(kind, folder, manifest["plan_hash"]) if (folder / kind).is_dir() else ()
                if len(traces):
                    _write(copy / kind / f"{name}.parquet", traces)
            written[manifest["plan"]] = written.get(manifest["plan"], 0) + len(rows)
        write_bytes(copy / "plans" / f"{manifest['plan_hash'][:20]}.json", json.dumps(manifest).encode())
        taken |= keys
    return written


def _write(path: Path, rows: pa.Table) -> None:
    write_file(
        path,
        lambda file: pq.write_table(rows, file, compression="zstd", compression_level=19, write_page_checksum=True),
    )
