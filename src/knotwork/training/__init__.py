"""The engine: one loop that trains a stack of networks."""

from knotwork.training.config import TrainingConfig
from knotwork.training.engine import train
from knotwork.training.members import Member, TrainingTable
from knotwork.training.metrics import METRICS
from knotwork.training.results import History, Trained

__all__ = ["METRICS", "History", "Member", "Trained", "TrainingConfig", "TrainingTable", "train"]
