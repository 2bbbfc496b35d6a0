"""The two estimators: one predicts numbers, the other classes."""

from functools import partial
from numbers import Real
from typing import Any, final

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from knotwork._checks import argument_error, check_bool
from knotwork._light import SMALLEST_PROBABILITY, Residuals
from knotwork._preparation.columns import CodedTable
from knotwork.estimators._base import FromModel, TabularEstimator
from knotwork.training import OBJECTIVES


@final
class TabularRegressor(RegressorMixin, TabularEstimator):
    """Predict numbers from a table by networks on encoded columns, and by boosted trees.

    By default boosted trees and several kinds of networks are trained on folds of the rows, and those that are best
    together on the rows that they were not trained on predict; `effort` says how much is trained, and `members` whether
    both are. Name an encoding, a backbone or a number of members to train networks of your choice alone.

    Columns of numbers and booleans are encoded; text and categories become learned vectors. Numbers written as text,
    such as ``"1,234.5"``, ``"12%"`` or ``"(300)"``, are read as numbers, so are yes and no, and dates become numbers.
    Missing values are handled: a missing number becomes zeros, with a learned vector that marks it if the column
    has missing values in training; missing and unseen categories share a learned vector. Ties and outliers of any size
    are accepted. Identifiers, free text and constant columns are accepted and ignored, with a warning.

    Parameters
    ----------
    encoding : str or mapping, default="auto"
        How numbers are encoded. A method such as ``"BS-Q"``, ``"PLE@30"`` or ``"PLE@30+LR8"`` (`knotwork.METHODS`), or
        a mapping from columns to methods (knots are learned in all columns that have knots, or in none, and all have
        the same embedding); or one of:

        ``"auto"``: as `effort` decides; if `backbone`, `n_members` or `training` is given, ``"recommended"``; with
        `search`, the encodings that it usually tries.

        ``"recommended"``: the encoding that `knotwork.recommend` gives for the task and the backbone.

        A list of methods, of which `search` chooses.
    backbone : {"auto", "mlp", "resnet", "tabm", "realmlp", "ft"} or configuration, default="auto"
        The network: a name, or a configuration such as ``knotwork.nn.MLPConfig(widths=(512, 512))``; by default as
        `effort` decides, or ``"mlp"`` if another parameter says what is trained. Defaults of a name are the library's;
        ``MLPConfig.paper()`` has the paper's settings.
    effort : {"fast", "balanced", "best"}, default="balanced"
        How much is trained, if none of `encoding`, `backbone`, `search`, `n_members` and `training` is given (another
        effort is then an error): kinds of networks, folds and epochs follow from the numbers of rows and columns, the
        device and the time limit. For 10,000 rows on two cores ``"fast"`` takes a few seconds and ``"balanced"`` about
        half a minute; on a large GPU the three take about one, five and twenty seconds.
    time_limit : float, optional
        Seconds for the whole fit. If that is too short, less is trained: fewer kinds of members, as many as the speed
        of those before them allows; then learning rates fall in time, and training stops at the end of an epoch.
    search : {None, "validated", "ensemble", "per-feature"}, default=None
        How one or several of many encodings are chosen:

        ``"validated"``: train ten encodings, or those of a list, together, and keep the best one on the validation
        rows.

        ``"ensemble"``: train the same, and predict by a weighted mean of those that are best together on the validation
        rows; the others are dropped.

        ``"per-feature"``: for each column the encoding that `knotwork.choose_per_feature` chooses on training rows;
        `encoding_choices_` has the reasons.
    members : {"all", "networks", "trees"}, default="all"
        What `effort` trains: boosted trees and networks, or one of them alone. There are no trees for
        objectives that LightGBM does not have (``"gaussian"``, ``"focal"``, functions) and for tables that are read in
        batches. Without LightGBM all trees are symmetric, which squared error, classes and positive targets have.
    n_members : int, optional
        Number of networks that are trained together from different random seeds and whose predictions are averaged;
        with ``search="validated"`` and ``"ensemble"``, of every encoding. By default as `effort` decides, or one.
    interactions : None, int, "auto", sequence of pair or InteractionConfig, default=None
        Functions of two numerical columns together that enter the networks beside the encoded columns: of pairs given
        by names or places, as in ``[("latitude", "longitude")]``, of a number of pairs, which `knotwork.find_pairs`
        finds on the training rows of each network, or of those that stand out (``"auto"``). They are products of
        functions of the two encodings, of low rank; `knotwork.nn.InteractionConfig` has the settings.
    columns : ColumnConfig, optional
        How columns enter the networks: which are categories, and how categories, missing values and dates are treated,
        as in ``ColumnConfig(categorical=["zip_code"], missing="learned")``.
    validation : None, "time", float, int, splitter, sequence of pairs or ValidationConfig, default=None
        Which rows are held out, for early stopping and for every choice.

        None: a random tenth; if `effort` decides, folds: each row is held out from some networks.

        ``"time"``: the last tenth of the rows, for tables in the order of time.

        A float: a random part of this share, even if `effort` decides. An int: number of folds, even if it does not;
        all networks of the folds predict.

        A splitter of scikit-learn, such as ``TimeSeriesSplit(3)``, or pairs of training and validation rows.

        A `ValidationConfig`, such as ``ValidationConfig("time", share=0.2)``, or ``ValidationConfig(refit=True)``, with
        which the networks that were chosen are trained again on all rows.

        With ``fit(X, y, groups=...)`` parts and folds consist of whole groups, and ``fit(X, y, X_val=..., y_val=...)``
        holds out no row of `X`.
    objective : str, Objective or callable, default="auto"
        What networks are trained for, and what validation scores measure; ``"auto"`` is ``"squared"``:

        ``"squared"``: the mean, by squared errors.

        ``"absolute"``, ``"huber"`` or ``knotwork.Huber(delta)``: the median, or between median and mean, where outliers
        should matter less.

        ``"quantile"`` or ``knotwork.Quantile((0.05, 0.95))``: the median, or quantiles, which never cross.

        ``"poisson"``, ``"gamma"``, ``"tweedie"`` or ``knotwork.Tweedie(1.5)``: the mean of counts, of positive numbers,
        or of zeros and positive numbers, by the deviance of these distributions with a logarithmic link; predictions
        are positive.

        ``"gaussian"``: mean and standard deviation of a normal distribution.

        A function ``(outputs, targets) -> losses`` of torch tensors of equal shape, in the units of y, that returns the
        loss of every element, without waiting for the device. Such a model can be pickled, but not saved.
    training : TrainingConfig, optional
        How networks are trained; by default as `effort` decides, or ``TrainingConfig()`` with the settings that suit
        the backbone. Its ``time_limit`` is for the whole fit.
    warm_start : bool, default=False
        Whether `fit` resumes from the networks of the last fit, if columns, classes and what is trained are the same;
        settings of training may differ, and boosted trees are grown anew. The same rows validate if their number is the
        same, and `history_` continues.
    device : str, torch.device or list of them, default="auto"
        Where networks are trained and predict; by default on a GPU if one is available. Of several devices, as in
        ``["cuda:0", "cuda:1"]``, each trains a part of the networks, and the first one predicts: the results are those
        of one device up to rounding, and bit for bit with ``TrainingConfig(reproducible=True)``. With ``"ray"``,
        networks are divided among the GPUs of a Ray cluster, or its CPUs if it has none (``"ray:cuda"`` and
        ``"ray:cpu"`` name one of them): the connected cluster, that of RAY_ADDRESS, or one on this machine. If a worker
        dies, its networks are trained again elsewhere.
    random_state : int, RandomState or None, default=None
        Random seed.

    Attributes
    ----------
    encoding_ : list of dict
        For each member, the method and the size of each numerical column, as in ``{"age": "BS-Q@15"}``; empty for
        boosted trees.
    weights_ : ndarray of shape (n_members,)
        Weights of the members in predictions; they add up to one.
    backbones_ : list of configuration or None
        For each member, the network after the encoding; None for boosted trees.
    encoding_choices_ : list of dict
        With ``search="per-feature"``, for each numerical column: ``column``, ``encoding``, ``reason``, and ``losses``
        of all candidates. Otherwise empty.
    candidates_ : list of dict
        Each kind of member that was tried, unless there was no choice: ``method`` and ``size`` of the encoding (None
        for boosted trees), ``backbone`` (the network, or ``"boosted trees"``), ``score`` on the validation rows (in the
        units of the target; NaN if training failed), ``metric`` (its name), ``seconds`` of training, and ``weight`` in
        predictions.
    validation_score_ : float
        The metric of the predictions on the validation rows; with folds each row is predicted by networks that were not
        trained on it. It is a little too good: the rows also decided when training stopped, and the weights.
    history_ : list of dict
        How each member was trained: ``loss``, ``score`` on validation rows and ``learning_rate`` of each epoch,
        ``metric``, ``best_epoch``, counted from 1, and ``seconds``. An epoch of boosted trees is one more tree.
    knots_ : list of dict
        Interior knots of each column, for each network.
    interactions_ : list of list of tuple
        Pairs of columns whose interactions each member has.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Increase of the loss when a column is shuffled.
    columns_ : Columns
        What was learned of each column; ``columns_.notices`` has what was inferred and noticed, as sentences.
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
    >>> model.predict_interval(X[:5], coverage=0.8).shape
    (5, 2)
    """

    _task = "regression"

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions: the mean over members with their weights.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names. Of a stream as in `fit`, or an iterator of tables,
            an iterator is returned, of the predictions of each batch.
        return_std : bool, default=False
            Return standard deviations as well, which the objective ``"gaussian"`` predicts.

        Returns
        -------
        predictions : ndarray of shape (n,)
            With a trailing axis of targets if y has several, and then one of levels if there are several quantiles.
        std : ndarray of the same shape
            Standard deviations, if requested.
        """
        objective = self._fitted.task.objective
        if check_bool(return_std, "return_std") and not objective.predicts_std:
            raise argument_error(
                "return_std", f"be False for objective={objective.name!r}", return_std, "Fit with objective='gaussian'."
            )
        return self._apply(partial(self._predict, return_std=return_std), X)

    def _predict(self, table: CodedTable, *, return_std: bool) -> Any:
        """Return predictions for a table as it was read."""
        objective, predictions = self._model.task.objective, self._model.mean(table)
        result = objective.result(predictions)
        return (result, predictions[..., 1]) if return_std else result

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return intervals that contain the target of a share of new rows, by conformal prediction.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names; or a stream, as in `predict`.
        coverage : float, default=0.9
            Share of rows whose target is inside, between 0 and 1; equal shares are below and above.

        Returns
        -------
        ndarray of shape (n, 2), or (n, n_targets, 2) for several targets
            Lower and upper ends.

        Notes
        -----
        The widths come from residuals of rows that the networks were not trained on: those of the other folds, or the
        validation rows. The share holds on average over rows that are drawn as those of the fit; not for each kind of
        row. All intervals of ``"squared"``, ``"absolute"`` and ``"huber"`` have the same width. Those of ``"gaussian"``
        follow its standard deviations, those of two quantiles or more the distance between the lowest and the highest
        (conformalised quantile regression), those of ``"poisson"``, ``"gamma"`` and ``"tweedie"`` the standard
        deviation of the distribution.
        """
        residuals = self.residuals_
        if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise argument_error("coverage", "be a number between 0 and 1", coverage)
        if residuals is None:
            raise AttributeError(
                "predict_interval is not available: no rows were held out in the fit. Fit again, with at least 10 rows."
            )
        return self._apply(partial(self._intervals, residuals, coverage=float(coverage)), X)

    def _intervals(self, residuals: Residuals, table: CodedTable, *, coverage: float) -> npt.NDArray[np.float64]:
        model = self._model
        ends = residuals.interval(model.mean(table), model.task.objective, coverage=coverage)
        return ends if model.n_targets is not None else ends[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the target's variance that is explained, R²; of several levels, by the middle one.

        Of a stream as in `fit`, y and sample_weight are names of columns.
        """
        y, predictions, sample_weight = self._beside_target(X, y, sample_weight)
        central = self._model.task.objective.central(predictions)
        return float(r2_score(y, central, sample_weight=sample_weight))

    n_targets_ = FromModel(lambda model: model.n_targets, "Number of targets, or None for a target of shape (n,).")
    residuals_ = FromModel(
        lambda model: model.calibration.residuals,
        "Quantiles of residuals, by which intervals are made; None if no rows were held out.",
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        kind = OBJECTIVES.get(self.objective) if isinstance(self.objective, str) else self.objective
        tags.target_tags.positive_only = bool(getattr(kind, "is_positive", False))  # it may be any object before a fit
        return tags


@final
class TabularClassifier(ClassifierMixin, TabularEstimator):
    """Predict classes from a table by networks on encoded columns.

    Tables are treated as by `TabularRegressor`, and `effort` decides what is trained. Labels may be text, numbers,
    booleans or categories.

    Parameters
    ----------
    encoding, backbone, effort, time_limit, search, n_members, interactions, columns
        As in `TabularRegressor`; of every class the same share of rows is held out.
    validation, training, warm_start, device, random_state
        As in `TabularRegressor`.
    objective : str, Objective or callable, default="auto"
        What networks are trained for, and what validation scores measure; ``"auto"`` is ``"log_loss"``:

        ``"log_loss"`` or ``knotwork.LogLoss(class_weight="balanced", calibrate="temperature")``: the cross-entropy,
        with weights of classes and a correction of probabilities if requested. `TrainingConfig` smooths labels.

        ``"focal"`` or ``knotwork.Focal(gamma)``: the focal loss, in which rows that are predicted well count less.

        A function ``(logits, codes) -> losses`` of torch tensors of shapes (..., n_classes) and (...) that returns the
        loss of every row, without waiting for the device.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    temperature_ : float
        Logarithms of probabilities are divided by it; 1 if they are not calibrated.
    calibration_ : list of dict
        How far probabilities can be trusted, on rows that the networks were not trained on: in ten groups of rows,
        ordered by the probability of the predicted class, its mean ``probability``, the ``frequency`` with which it was
        right, and the number of ``rows``. Empty if no rows were held out.
    encoding_, encoding_choices_, backbones_, weights_, candidates_, validation_score_, history_, knots_, interactions_,
    feature_importances_, columns_, target_name_
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

    _task = "classification"

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, of shape (n, n_classes): the mean over members with their weights.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names. Of a stream as in `fit`, or an iterator of tables,
            an iterator is returned, of the probabilities of each batch.
        """
        return self._apply(self._fitted.responses, X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of `predict_proba`, all finite; parameters as there."""
        return self._apply(self._logarithms, X)

    def _logarithms(self, table: CodedTable) -> npt.NDArray[np.float64]:
        logarithms: npt.NDArray[np.float64] = np.log(np.maximum(self._model.responses(table), SMALLEST_PROBABILITY))
        return logarithms

    def decision_function(self, X: Any) -> Any:
        """Return the logarithm of the odds of the second of two classes, of shape (n,); parameters as in `predict`.

        Of more classes, or one, the logarithms of their probabilities, of shape (n, n_classes). The predicted class is
        the second one where the odds are above 0, or the first one with the largest value.
        """
        return self._apply(self._odds, X)

    def _odds(self, table: CodedTable) -> npt.NDArray[np.float64]:
        logarithms = self._logarithms(table)
        return logarithms[:, 1] - logarithms[:, 0] if logarithms.shape[1] == 2 else logarithms

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row, of shape (n,); parameters as in `predict_proba`."""
        return self._apply(lambda table: self.labels_.decode(self._model.responses(table).argmax(axis=1)), X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted; of a stream as in `fit`, y is the name of a column."""
        y, predictions, sample_weight = self._beside_target(X, y, sample_weight)
        return float(accuracy_score(y, predictions, sample_weight=sample_weight))

    labels_ = FromModel(lambda model: model.task.classes, "The classes, by which codes become labels.")
    classes_ = FromModel(lambda model: model.task.classes.classes, "The labels, sorted.")
    temperature_ = FromModel(
        lambda model: model.calibration.temperature, "Logarithms of probabilities are divided by it."
    )
    calibration_ = FromModel(lambda model: list(model.calibration.groups), "How far probabilities can be trusted.")
