"""What was run in a folder: each plan with its networks, so that status needs no data."""

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from knotwork._checks import argument_error
from knotwork.study._files import write_bytes
from knotwork.study._networks import NetworkSpec
from knotwork.study._plan import Plan

__all__ = ["read_manifest", "read_manifests", "require_manifests", "write_manifest"]


KEYS = {"plan", "plan_hash", "run_at", "n_rows", "networks"}
"""What every list of networks has."""


def _path(out: Path, plan_hash: str) -> Path:
    return out / "plans" / f"{plan_hash[:20]}.json"


def write_manifest(
    out: Path, plan: Plan, networks: Sequence[NetworkSpec], n_rows: dict[str, int], *, unknown: Collection[str] = ()
) -> None:
    """Write down the networks of a plan as it is run.

    Parameters
    ----------
    out : Path
        Folder of the study.
    plan : Plan
        The plan.
    networks : sequence of NetworkSpec
        Its networks, for the data as it is now.
    n_rows : dict of str to int
        Rows of each data set.
    unknown : collection of str
        Data sets that could not be loaded: what was written down of them before stays.
    """
    before = next((each for each in read_manifests(out) if each["plan_hash"] == plan.plan_hash), None) or {}
    kept = [network for network in before.get("networks", ()) if network[1] in unknown]
    rows = {name: number for name, number in before.get("n_rows", {}).items() if name in unknown}
    content = {
        "plan": plan.name,
        "plan_hash": plan.plan_hash,
        "run_at": time.time(),
        "n_rows": {**rows, **n_rows},
        "networks": kept
        + [
            [each.key, each.dataset, each.backbone.label, each.backbone.tokens, each.encoding.size] for each in networks
        ],
    }
    write_bytes(_path(out, plan.plan_hash), json.dumps(content).encode())


def read_manifest(out: Path, plan_hash: str) -> dict[str, Any]:
    """Return what `write_manifest` wrote for a plan."""
    path = _path(out, plan_hash)
    if not path.is_file():
        raise argument_error("plan_hash", f"be that of a plan that was run in {out}", plan_hash)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def read_manifests(out: Path) -> list[dict[str, Any]]:
    """Return all plans that were run in a folder, the latest last.

    What `write_manifest` has not written is left out; if it was a plan, running it again writes it anew.
    """
    found = []
    for path in (out / "plans").glob("*.json"):
        with suppress(ValueError):
            content = json.loads(path.read_bytes())
            if isinstance(content, dict) and content.keys() >= KEYS:
                found.append(content)
    return sorted(found, key=lambda content: float(content["run_at"]))


def require_manifests(out: Path) -> list[dict[str, Any]]:
    """Return what `read_manifests` does, of a folder that at least one plan was run in; other folders are refused."""
    manifests = read_manifests(out)
    if not manifests:
        raise argument_error(
            "out",
            "be a folder that a plan was run in",
            str(out),
            "Name the folder that 'knotwork study run NAME --out DIR' was given, or run a plan there first.",
        )
    return manifests
