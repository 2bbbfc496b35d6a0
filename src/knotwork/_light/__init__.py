"""Predictions without torch: models as graphs, a light runtime for them, and other formats."""

from knotwork._light._export import check_suffix, export
from knotwork._light._javascript import payload, runtime_js
from knotwork._light._models import LightClassifier, LightRegressor
from knotwork._light._predictor import SMALLEST_PROBABILITY, Predictor, add_calibration, add_mean
from knotwork._light._residuals import Residuals
from knotwork._light._saving import LIGHT_MODELS, PREFIX, light_model, saved_graph

__all__ = ["LightClassifier", "LightRegressor"]
