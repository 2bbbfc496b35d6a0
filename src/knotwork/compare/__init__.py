"""Comparison of encodings on a user's table within a time budget, and predictions of the model that it saves."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.compare._options import CompareOptions
from knotwork.compare._predictions import predict_table
from knotwork.compare._run import Comparison, compare_table

__all__ = ["CompareOptions", "Comparison", "compare_table", "predict_table"]
