"""The engine: one loop that trains a stack of networks."""

from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._metrics import METRICS, Metric
from knotwork.training._results import History, Trained

__all__ = ["METRICS", "History", "Member", "Metric", "Trained", "TrainingConfig", "TrainingTable", "train"]
