"""The light runtime: saved networks and boosted trees that predict without torch."""

from abc import ABC
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_bool
from knotwork._graph import Program
from knotwork._light._export import check_suffix, export
from knotwork._light._predictor import Predictor

Floats = npt.NDArray[np.float64]


class LightModel(ABC):
    """A saved model that predicts by its graph; see `knotwork.load`.

    Parameters
    ----------
    predictor : Predictor
        The model.
    """

    _task: ClassVar[str]

    def __init__(self, predictor: Predictor) -> None:
        self._light = predictor
        self.columns_ = predictor.columns
        self.n_features_in_ = len(predictor.columns)
        self.target_name_ = predictor.target_name
        if predictor.columns.names is not None:
            self.feature_names_in_ = np.array(predictor.columns.names, dtype=object)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_features_in_} columns)"

    def _predictor(self) -> Predictor:
        return self._light

    @cached_property
    def _program(self) -> Program:
        names = [name for name in (self._light.output, "std") if name in self._light.graph.outputs]
        return self._light.program(*names)

    def _outputs(self, X: Any, program: Program) -> dict[str, Floats]:
        return program(*self.columns_.read(X))

    def export(self, path: str | Path) -> None:
        """Write the model in another format, as `knotwork.TabularRegressor.export`.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        export(self._predictor, path, check_suffix(path))


@final
class LightRegressor(LightModel):
    """A saved `knotwork.TabularRegressor` that predicts without torch.

    Parameters
    ----------
    predictor : Predictor
        The model.
    """

    _task = "regression"

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions; parameters as in `knotwork.TabularRegressor.predict`, without streams."""
        outputs = self._outputs(X, self._program)
        if not check_bool(return_std, "return_std"):
            return outputs["prediction"]
        if "std" not in outputs:
            hint = "Fit with objective='gaussian'."
            raise argument_error("return_std", "be False for a model without standard deviations", return_std, hint)
        return outputs["prediction"], outputs["std"]

    @cached_property
    def _interval_program(self) -> Program:
        return self._light.program("centre", "spread")

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """Return intervals; parameters as in `knotwork.TabularRegressor.predict_interval`, without streams."""
        if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise argument_error("coverage", "be a number between 0 and 1", coverage)
        residuals = self._light.residuals
        if residuals is None:
            raise AttributeError(
                "predict_interval is not available: no rows were held out in the fit, or its objective cannot be "
                "written to a graph. Load with runtime='torch', or fit again."
            )
        outputs = self._outputs(X, self._interval_program)
        ends = residuals.ends_at(outputs["centre"], outputs["spread"], coverage=float(coverage))
        ends = np.maximum(ends, 0.0) if self._light.is_positive else ends
        return ends if self._light.n_targets is not None else ends[:, 0]


@final
class LightClassifier(LightModel):
    """A saved `knotwork.TabularClassifier` that predicts without torch.

    Parameters
    ----------
    predictor : Predictor
        The model.
    """

    _task = "classification"

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels, sorted."""
        assert self._light.labels is not None
        return self._light.labels.classes

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, of shape (n, n_classes)."""
        return self._outputs(X, self._program)["probabilities"]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row, of shape (n,)."""
        chosen: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return chosen
