"""The regressor."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from knotwork._preparation.targets import check_target
from knotwork._preparation.weights import row_weights
from knotwork.estimators._base import TabularEstimator
from knotwork.nn._backbones.config import Backbone
from knotwork.training._config import TrainingConfig

__all__ = ["TabularRegressor"]


@final
class TabularRegressor(RegressorMixin, TabularEstimator):
    """Predict numbers from a table by a network on encoded columns.

    Columns of numbers and booleans are encoded; text and categories become learned vectors. Missing values need no
    care: a missing number is a block of zeros, and where there are any in training a vector says so as well; a missing
    or unseen category has a vector of its own. Constant columns, ties and outliers of any size train.

    Parameters
    ----------
    encoding : str or mapping, default="auto"
        How numbers are encoded. A method such as ``"BS-Q"`` or ``"PLE@30"`` (`knotwork.METHODS`), or a mapping from
        columns to methods (those with knots all learned, or all fixed); or a word:

        ``"recommended"``, or ``"auto"``, is what the paper recommends for the task and the backbone
        (`knotwork.recommend`): one network.

        ``"validated"`` trains ten encodings together and keeps the one that is best on the validation rows.

        ``"ensemble"`` trains the same ten and predicts by a weighted mean of those that are best together on the
        validation rows; the others are not kept.
    backbone : {"mlp", "resnet", "ft"} or configuration, default="mlp"
        The network: a name, or a configuration such as ``knotwork.nn.MLPConfig(widths=(512, 512))``. Defaults are the
        library's; ``MLPConfig.paper()`` has the paper's settings.
    size : int, optional
        Columns per feature, for methods that name none; by default 15, or what is recommended, or for ``"validated"``
        and ``"ensemble"`` several.
    n_members : int, default=1
        Number of networks that are trained together from different seeds and whose predictions are averaged; for
        ``"validated"`` and ``"ensemble"`` so many of every encoding.
    categories : {"embedding", "code"}, default="embedding"
        Whether a category is a learned vector or, as in the paper, an integer code; an FT-Transformer always learns
        vectors.
    categorical : sequence, optional
        Columns of numbers that are categories: names, or places in an array.
    validation_share : float, default=0.1
        Share of the rows that training is stopped by, and encodings are chosen by.
    training : TrainingConfig, optional
        How networks are trained; by default ``TrainingConfig()``. Its ``time_limit`` holds for all of them together,
        the placing of knots included; each has at least one epoch.
    device : str or torch.device, default="auto"
        Where they are trained and predict; by default on a GPU if there is one.
    random_state : int, RandomState or None, default=None
        Seeds all that is random.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    encoding_ : list of dict
        For each member, the method and the size of each numerical column, as in ``{"age": "BS-Q@15"}``.
    weights_ : ndarray of shape (n_members,)
        Weights of the members in predictions, of sum one.
    candidates_ : list of dict
        For ``"validated"`` and ``"ensemble"``, each encoding that was tried: ``method``, ``size``, ``score`` on the
        validation rows (the mean of its members' predictions; NaN if training failed), ``metric`` (its name),
        ``seconds`` of training, and ``weight`` in predictions. Otherwise empty.
    history_ : list of dict
        How each member was trained.
    knots_ : list of dict
        Interior knots of each column, for each member.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much the loss grows when a column is shuffled.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> model = TabularRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> model.predict(X[:5]).shape
    (5,)
    """

    def __init__(
        self,
        encoding: str | Mapping[Any, str] = "auto",
        backbone: str | Backbone = "mlp",
        *,
        size: int | None = None,
        n_members: int = 1,
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
        self.categories = categories
        self.categorical = categorical
        self.validation_share = validation_share
        self.training = training
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return predictions, of shape (n,): the mean over members with their weights.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names.
        """
        table = self._read(X)
        return _weighted_mean(self._outputs(table), self.weights_)

    @property
    def _task(self) -> str:
        return "regression"

    def _read_target(self, y: Any) -> npt.NDArray[Any]:
        return check_target(y)

    def _row_weights(self, target: npt.NDArray[Any], sample_weight: Any) -> npt.NDArray[np.float64] | None:
        return row_weights(sample_weight, len(target))

    def _loss(self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any]) -> float:
        errors = (
            0.5 * _weighted_mean(outputs, self.weights_) - 0.5 * target
        )  # the whole of an error, and its square, may overflow
        largest = max(float(np.abs(errors).max()), 1e-300)
        return min(2.0 * float(np.sqrt(np.mean((errors / largest) ** 2))) * largest, float(np.finfo(np.float64).max))


def _weighted_mean(outputs: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of outputs of shape (n_members, n, 1), by halves, for the rounding of the sum may overflow."""
    most = 0.5 * np.finfo(np.float64).max
    halves = (weights[:, None] * (0.5 * outputs[..., 0])).sum(axis=0)
    mean: npt.NDArray[np.float64] = 2.0 * np.clip(halves, -most, most)
    return mean
