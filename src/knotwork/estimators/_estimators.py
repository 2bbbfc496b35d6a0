"""The two estimators: one predicts numbers, the other classes."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin

from knotwork._preparation.targets import Labels, check_target, class_weights, row_weights
from knotwork.estimators._base import TabularEstimator, doubled
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig

__all__ = ["TabularClassifier", "TabularRegressor"]


@final
class TabularRegressor(RegressorMixin, TabularEstimator):
    """Predict numbers from a table by networks on encoded columns.

    By default several kinds of networks are trained together on folds of the rows, and those that are best together on
    the rows that they were not trained on predict; `effort` says how much is trained. Name an encoding, a backbone or
    a number of members to decide yourself what is trained.

    Columns of numbers and booleans are encoded; text and categories become learned vectors. Missing values are handled:
    a missing number is a block of zeros, with a learned vector that marks it if the column has missing values in
    training; missing and unseen categories share a learned vector. Constant columns, ties and outliers of any size are
    accepted.

    Parameters
    ----------
    encoding : str or mapping, default="auto"
        How numbers are encoded. A method such as ``"BS-Q"``, ``"PLE@30"`` or ``"PLE@30+LR8"`` (`knotwork.METHODS`), or
        a mapping from columns to methods (knots are learned in all columns that have knots, or in none, and all have
        the same embedding); or one of:

        ``"auto"``: as `effort` decides; if `backbone`, `size`, `n_members` or `training` is given, ``"recommended"``.

        ``"recommended"``: the encoding that `knotwork.recommend` gives for the task and the backbone.

        ``"validated"``: train ten encodings together, and keep the best one on the validation rows.

        ``"ensemble"``: train the same ten, and predict by a weighted mean of those that are best together on the
        validation rows; the others are dropped.
    backbone : {"auto", "mlp", "resnet", "tabm", "realmlp", "ft"} or configuration, default="auto"
        The network: a name, or a configuration such as ``knotwork.nn.MLPConfig(widths=(512, 512))``; by default as
        `effort` decides, or ``"mlp"`` if another parameter says what is trained. Defaults of a name are the library's;
        ``MLPConfig.paper()`` has the paper's settings.
    effort : {"fast", "balanced", "best"}, default="balanced"
        How much is trained, if none of `encoding`, `backbone`, `size`, `n_members` and `training` is given: kinds of
        networks, folds and epochs follow from the numbers of rows and columns, the device and the time limit.
        For 10,000 rows on two cores ``"fast"`` takes a few seconds and ``"balanced"`` about half a minute; on a large
        GPU the three take about one, five and twenty seconds.
    time_limit : float, optional
        Seconds for the whole fit. Less is trained if they do not suffice, learning rates fall in time, and networks in
        training stop at the end of an epoch.
    size : int, optional
        Columns per feature, for methods without a size in their name; by default 15 or the recommended one;
        ``"validated"`` and ``"ensemble"`` try several.
    n_members : int, optional
        Number of networks that are trained together from different random seeds and whose predictions are averaged;
        with ``"validated"`` and ``"ensemble"``, of every encoding. By default as `effort` decides, or one.
    categories : {"embedding", "code", "mixed"}, default="embedding"
        Whether a category is a learned vector or, as in the paper, an integer code, or, in columns of at most eight
        categories, one-hot and otherwise a learned vector; an FT-Transformer always learns vectors.
    categorical : sequence, optional
        Columns of numbers that are categories: names, or positions in an array.
    validation_share : float, default=0.1
        Share of the rows that are held out for early stopping and for choosing encodings, where `effort` does not
        decide: with it, each row is held out from some of the networks.
    training : TrainingConfig, optional
        How networks are trained; by default as `effort` decides, or ``TrainingConfig()`` with the settings that suit
        the backbone. Its ``time_limit`` is for the whole fit.
    device : str or torch.device, default="auto"
        Where networks are trained and predict; by default on a GPU if one is available.
    random_state : int, RandomState or None, default=None
        Random seed.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    encoding_ : list of dict
        For each member, the method and the size of each numerical column, as in ``{"age": "BS-Q@15"}``.
    weights_ : ndarray of shape (n_members,)
        Weights of the members in predictions; they add up to one.
    backbones_ : list of configuration
        For each member, the network behind the encoding.
    candidates_ : list of dict
        Each kind of network that was tried, unless there was no choice: ``method``, ``size``, ``backbone``, ``score``
        on the validation rows (of numbers in units of the target's standard deviation; NaN if training failed),
        ``metric`` (its name), ``seconds`` of training, and ``weight`` in predictions.
    validation_score_ : float
        The metric of the predictions on the validation rows; with folds each row is predicted by networks that were not
        trained on it. It is a little too good: the rows also decided when training stopped, and the weights.
    history_ : list of dict
        How each member was trained.
    knots_ : list of dict
        Interior knots of each column, for each member.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Increase of the loss when a column is shuffled.
    target_name_ : str or None
        Name of the target, if it was a series with a name.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> model = TabularRegressor(effort="fast", random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> model.predict(X[:5]).shape
    (5,)
    >>> one = TabularRegressor("BS-Q@15", "mlp", random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> one.encoding_
    [{0: 'BS-Q@15', 1: 'BS-Q@15'}]
    """

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

    def _loss(
        self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any], weights: npt.NDArray[np.float64]
    ) -> float:
        errors = 0.5 * _weighted_mean(outputs, weights) - 0.5 * target  # an error and its square may overflow
        largest = max(float(np.abs(errors).max()), 1e-300)
        return min(2.0 * float(np.sqrt(np.mean((errors / largest) ** 2))) * largest, float(np.finfo(np.float64).max))


def _weighted_mean(outputs: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean over members of outputs of shape (n_members, n, 1)."""
    return doubled((weights[:, None] * (0.5 * outputs[..., 0])).sum(axis=0))


@final
class TabularClassifier(ClassifierMixin, TabularEstimator):
    """Predict classes from a table by networks on encoded columns.

    Tables are treated as by `TabularRegressor`, and `effort` decides what is trained. Labels may be text, numbers,
    booleans or categories.

    Parameters
    ----------
    encoding : str or mapping, default="auto"
        How numbers are encoded, as in `TabularRegressor`: as `effort` decides, a method, a mapping from columns to
        methods, ``"recommended"``, ``"validated"`` or ``"ensemble"``.
    backbone : {"auto", "mlp", "resnet", "tabm", "realmlp", "ft"} or configuration, default="auto"
        The network, as in `TabularRegressor`.
    effort : {"fast", "balanced", "best"}, default="balanced"
        How much is trained, as in `TabularRegressor`.
    time_limit : float, optional
        Seconds for the whole fit.
    size : int, optional
        Columns per feature, for methods without a size in their name; by default 15 or the recommended one;
        ``"validated"`` and ``"ensemble"`` try several.
    n_members : int, optional
        Number of networks that are trained together from different random seeds and whose probabilities are averaged;
        with ``"validated"`` and ``"ensemble"``, of every encoding. By default as `effort` decides, or one.
    class_weight : "balanced" or mapping, optional
        Weights of the classes in the loss: inversely proportional to their frequency, or as given for each label.
    categories : {"embedding", "code", "mixed"}, default="embedding"
        Whether a category is a learned vector or an integer code, or, in columns of at most eight categories, one-hot
        and otherwise a learned vector.
    categorical : sequence, optional
        Columns of numbers that are categories: names, or positions in an array.
    validation_share : float, default=0.1
        Share of the rows of every class that are held out for early stopping and for choosing encodings.
    training : TrainingConfig, optional
        How networks are trained, as in `TabularRegressor`.
    device : str or torch.device, default="auto"
        Where networks are trained and predict.
    random_state : int, RandomState or None, default=None
        Random seed.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    encoding_, backbones_, weights_, candidates_, validation_score_, history_, knots_, feature_importances_,
    target_name_
        As in `TabularRegressor`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "over", "under")
    >>> model = TabularClassifier(effort="fast", random_state=0).fit(X, y)
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    """

    def __init__(
        self,
        encoding: str | Mapping[Any, str] = "auto",
        backbone: str | Backbone = "auto",
        *,
        effort: str = "balanced",
        time_limit: float | None = None,
        size: int | None = None,
        n_members: int | None = None,
        class_weight: Any = None,
        categories: str = "embedding",
        categorical: Any = None,
        validation_share: float = 0.1,
        training: TrainingConfig | None = None,
        device: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            encoding,
            backbone,
            effort=effort,
            time_limit=time_limit,
            size=size,
            n_members=n_members,
            categories=categories,
            categorical=categorical,
            validation_share=validation_share,
            training=training,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class, of shape (n, n_classes): the mean over members with their weights.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names.
        """
        return self._probabilities(self._outputs(self._read(X)), self.weights_)

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
        by_class = class_weights(self.class_weight, self.classes_, target)[target]
        return row_weights(by_class if weights is None else by_class * weights, len(target))

    def _probabilities(
        self, outputs: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        shares = softmax(outputs[..., : self._n_classes], axis=-1)
        mean: npt.NDArray[np.float64] = np.tensordot(weights, shares, axes=1)
        return mean

    def _loss(
        self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any], weights: npt.NDArray[np.float64]
    ) -> float:
        probabilities = self._probabilities(outputs, weights)[np.arange(len(target)), target]
        return float(-np.log(np.maximum(probabilities, 1e-300)).mean())
