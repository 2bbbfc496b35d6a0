"""Small plans, and the columns of records that may differ between two runs."""

from knotwork.study import Plan, run

CLOCKS = ["prepare_seconds", "train_seconds", "epoch_seconds", "started_at", "recorded_at", "threads"]
SMALL_MLP = {"name": "mlp", "widths": [8]}
TRAINING = {"max_epochs": 3, "batch_size": 32, "learning_rate": 1e-2, "knot_warmup": 0}


def tiny_plan(**changes):
    content = {
        "name": "tiny",
        "datasets": ["sk_iris"],
        "methods": ["Std", "BS-Q", "IS-Grad-U"],
        "sizes": [5],
        "backbones": [SMALL_MLP],
        "folds": 2,
        "training": TRAINING,
    }
    return Plan.from_mapping(content | changes)


def many_units():
    """Return a plan of four small units."""
    backbones = [SMALL_MLP, {"name": "mlp", "widths": [4], "label": "narrow"}]
    return tiny_plan(sizes=[4, 5], backbones=backbones)


MANY_UNITS = many_units()  # built on import, so that a process with this module has loaded everything that plans need


def comparable(frame):
    """Return records in a fixed order without clocks, and without the commit: someone may commit while tests run."""
    return frame.drop(columns=[*CLOCKS, "commit", "source"]).sort_values("key").reset_index(drop=True)


def run_in_child(plan, out):
    """Run a plan as the only work of a process."""
    import torch

    torch.set_num_threads(1)
    run(plan, out, device="cpu")
