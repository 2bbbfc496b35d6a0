"""The engine: one loop that trains a stack of networks."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.training._chunks import FLAGS, ChunkWriter, RowChunks, RowFormat
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import network_products, resolve_device, train
from knotwork.training._job import mean_score, validation_scores
from knotwork.training._members import Member, TrainingTable, column_units, in_units
from knotwork.training._metrics import METRICS, Metric, evaluate
from knotwork.training._network import CATEGORIES, D_CATEGORY, Network, count_parameters
from knotwork.training._objective import Objective, output_units
from knotwork.training._objectives import (
    OBJECTIVES,
    ClassObjective,
    Focal,
    Huber,
    LogLoss,
    Quantile,
    Tweedie,
    make_objective,
)
from knotwork.training._progress import (
    LOGGER,
    EpochReport,
    ProgressBar,
    Reporter,
    Reporters,
    StopTraining,
    log_epoch,
    shown_stage,
)
from knotwork.training._results import History, Piece, Trained
from knotwork.training._spread import MAX_RETRIES, connected, device_type, is_cluster, resolve_devices, train_spread

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
