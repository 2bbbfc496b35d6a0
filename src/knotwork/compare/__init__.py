"""Which encoding for a user's table? A comparison within a time budget, and predictions of the model that it saves."""

from knotwork.compare.options import CompareOptions
from knotwork.compare.predictions import predict_table
from knotwork.compare.run import Comparison, compare_table

__all__ = ["CompareOptions", "Comparison", "compare_table", "predict_table"]
