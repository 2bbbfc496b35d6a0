"""The classifier."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import ClassifierMixin

from knotwork._preparation.targets import Labels
from knotwork._preparation.weights import class_weights, row_weights
from knotwork.estimators._base import TabularEstimator
from knotwork.nn._backbones.config import Backbone
from knotwork.training._config import TrainingConfig

__all__ = ["TabularClassifier"]


@final
class TabularClassifier(ClassifierMixin, TabularEstimator):
    """Predict classes from a table by a network on encoded columns.

    Tables are treated as by `TabularRegressor`. Labels may be text, numbers, booleans or categories.

    Parameters
    ----------
    encoding : str or mapping, default="auto"
        How numbers are encoded, as in `TabularRegressor`: a method, a mapping from columns to methods,
        ``"recommended"`` (``"auto"``), ``"validated"`` or ``"ensemble"``.
    backbone : {"mlp", "resnet", "ft"} or configuration, default="mlp"
        The network.
    size : int, optional
        Columns per feature, for methods that name none; by default 15, or what is recommended, or for ``"validated"``
        and ``"ensemble"`` several.
    n_members : int, default=1
        Number of networks that are trained together from different seeds and whose probabilities are averaged; for
        ``"validated"`` and ``"ensemble"`` so many of every encoding.
    class_weight : "balanced" or mapping, optional
        Weights of the classes in the loss: by one over their frequency, or as given for each label.
    categories : {"embedding", "code"}, default="embedding"
        Whether a category is a learned vector or an integer code.
    categorical : sequence, optional
        Columns of numbers that are categories: names, or places in an array.
    validation_share : float, default=0.1
        Share of the rows, of every class, that training is stopped by, and encodings are chosen by.
    training : TrainingConfig, optional
        How networks are trained; by default ``TrainingConfig()``. Its ``time_limit`` holds for all of them together.
    device : str or torch.device, default="auto"
        Where they are trained and predict.
    random_state : int, RandomState or None, default=None
        Seeds all that is random.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    encoding_, weights_, candidates_, history_, knots_, feature_importances_, n_features_in_, feature_names_in_
        As in `TabularRegressor`.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "over", "under")
    >>> model = TabularClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    """

    def __init__(
        self,
        encoding: str | Mapping[Any, str] = "auto",
        backbone: str | Backbone = "mlp",
        *,
        size: int | None = None,
        n_members: int = 1,
        class_weight: Any = None,
        categories: str = "embedding",
        categorical: Any = None,
        validation_share: float = 0.1,
        training: TrainingConfig | None = None,
        device: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.encoding = encoding
        self.backbone = backbone
        self.size = size
        self.n_members = n_members
        self.class_weight = class_weight
        self.categories = categories
        self.categorical = categorical
        self.validation_share = validation_share
        self.training = training
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class, of shape (n, n_classes): the mean over members with their weights.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names.
        """
        return self._probabilities(self._outputs(self._read(X)))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row, of shape (n,); parameters as in `predict_proba`."""
        probabilities = self.predict_proba(X)
        return self.labels_.decode(probabilities.argmax(axis=1))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels, sorted."""
        return self.labels_.classes

    @property
    def _task(self) -> str:
        return "classification"

    @property
    def _n_classes(self) -> int:
        return self.labels_.n_classes

    def _read_target(self, y: Any) -> npt.NDArray[Any]:
        self.labels_, codes = Labels.from_values(y)
        return codes

    def _row_weights(self, target: npt.NDArray[Any], sample_weight: Any) -> npt.NDArray[np.float64] | None:
        weights = row_weights(sample_weight, len(target))
        if self.class_weight is None:
            return weights
        own = class_weights(self.class_weight, self.classes_, target)[target]
        return row_weights(own if weights is None else own * weights, len(target))

    def _probabilities(self, outputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        shares = softmax(outputs[..., : self._n_classes], axis=-1)
        mean: npt.NDArray[np.float64] = np.tensordot(self.weights_, shares, axes=1)
        return mean

    def _loss(self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any]) -> float:
        own = self._probabilities(outputs)[np.arange(len(target)), target]
        return float(-np.log(np.maximum(own, 1e-300)).mean())
