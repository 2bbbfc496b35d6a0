"""The engine: one loop that trains a stack of networks."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._metrics import METRICS, Metric
from knotwork.training._objective import Objective
from knotwork.training._objectives import OBJECTIVES, Focal, Huber, LogLoss, Quantile, Tweedie
from knotwork.training._progress import EpochReport, StopTraining
from knotwork.training._results import History, Trained

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
