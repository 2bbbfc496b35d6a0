"""The engine: one loop that trains a stack of networks."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.training._chunks import FLAGS, ChunkWriter, RowChunks, RowFormat
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import network_products, resolve_device, train
from knotwork.training._execution import cpu_threads, product_rate, side_by_side
from knotwork.training._members import (
    Member,
    TrainingTable,
    all_predictions,
    column_units,
    in_units,
    output_units,
    target_units,
)
from knotwork.training._metrics import METRICS, Metric, evaluate
from knotwork.training._network import CATEGORIES, D_CATEGORY, Network, count_parameters
from knotwork.training._objectives import (
    OBJECTIVES,
    ClassObjective,
    Focal,
    Huber,
    LogLoss,
    Objective,
    Quantile,
    Tweedie,
    make_objective,
)
from knotwork.training._progress import ProgressBar
from knotwork.training._results import (
    LOGGER,
    EpochReport,
    History,
    NetworkPiece,
    Piece,
    Reporter,
    Reporters,
    StopTraining,
    TableInputs,
    Trained,
    log_epoch,
)
from knotwork.training._spread import MAX_RETRIES, connected, device_type, is_cluster, resolve_devices, train_spread
from knotwork.training._stack import mean_score, validation_scores

__all__ = [
    "METRICS",
    "OBJECTIVES",
    "EpochReport",
    "Focal",
    "History",
    "Huber",
    "LogLoss",
    "Member",
    "Metric",
    "Objective",
    "Quantile",
    "StopTraining",
    "Trained",
    "TrainingConfig",
    "TrainingTable",
    "Tweedie",
    "train",
]
