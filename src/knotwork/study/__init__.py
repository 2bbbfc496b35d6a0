"""Studies: plans of networks to train, run in a folder that keeps every result."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork._preparation.members import Split, make_splits
from knotwork.study._plan import PLANS, Plan, load_plan
from knotwork.study._provenance import PROVENANCE, with_known
from knotwork.study._records import load_results, read_manifests
from knotwork.study._runner import RunSummary, prepare_plan, run
from knotwork.study._status import backbone_estimates, study_status
from knotwork.study._traces import load_curves, load_histories, load_knot_paths, pack
from knotwork.study._verify import Verification, verify

__all__ = [
    "PLANS",
    "Plan",
    "RunSummary",
    "Split",
    "Verification",
    "load_curves",
    "load_histories",
    "load_knot_paths",
    "load_plan",
    "load_results",
    "make_splits",
    "pack",
    "prepare_plan",
    "run",
    "verify",
]
