"""What the two estimators share: parameters, `fit`, fitted attributes, explanations, and files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from knotwork._light import Predictor, check_suffix, export
from knotwork._model_page import PageSubject, ReportedEstimator
from knotwork._preparation.columns import CodedTable
from knotwork._tables import is_stream
from knotwork.estimators._explanations import (
    FeatureEffect,
    TableFunction,
    contributions,
    effects,
    plot_effects,
    plot_history,
    table_function,
)
from knotwork.estimators._model import FittedModel
from knotwork.estimators._page import page_subject
from knotwork.estimators._settings import ColumnConfig, FitSettings, hinted, nested_parameters, with_nested
from knotwork.estimators._steps import Monitor, fit_model
from knotwork.nn import Backbone, InteractionConfig
from knotwork.training import Objective, Reporter, TrainingConfig

if TYPE_CHECKING:  # an estimator that is made does not load additive models
    from knotwork.additive import Contributions

Value = TypeVar("Value")
Estimator = TypeVar("Estimator", bound="TabularEstimator")


class FromModel(property, Generic[Value]):
    """A fitted attribute of an estimator: a value of its model, or scikit-learn's error before a fit.

    Parameters
    ----------
    read : callable
        Returns the value.
    doc : str
        What it is.
    """

    def __init__(self, read: Callable[[FittedModel], Value], doc: str) -> None:
        super().__init__(lambda estimator: read(estimator._fitted), doc=doc)

    if TYPE_CHECKING:

        def __get__(self, instance: Any, owner: Any = None) -> Value: ...  # type: ignore[override]


class TabularEstimator(ReportedEstimator):
    """Networks on encoded columns and boosted trees, with scikit-learn's interface; see `TabularRegressor`."""

    _task: ClassVar[str]
    _model: FittedModel
    _drift: list[Any]

    @hinted
    def __init__(
        self,
        encoding: str | Mapping[Any, str] | Sequence[str] = "auto",
        backbone: str | Backbone = "auto",
        *,
        effort: str = "balanced",
        time_limit: float | None = None,
        search: str | None = None,
        members: str = "all",
        n_members: int | None = None,
        interactions: int | str | Sequence[Any] | InteractionConfig | None = None,
        columns: ColumnConfig | None = None,
        validation: Any = None,
        objective: str | Objective | Callable[..., Any] = "auto",
        training: TrainingConfig | None = None,
        warm_start: bool = False,
        device: Any = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.encoding = encoding
        self.backbone = backbone
        self.effort = effort
        self.time_limit = time_limit
        self.search = search
        self.members = members
        self.n_members = n_members
        self.interactions = interactions
        self.columns = columns
        self.validation = validation
        self.objective = objective
        self.training = training
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of configurations are included, as in ``training__learning_rate`` or ``columns__missing``;
            where these are not set, as the values that they would have if one of them were.
        """
        parameters: dict[str, Any] = super().get_params(deep=False)
        return {**parameters, **nested_parameters(parameters, self._task)} if deep else parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of configurations as in ``training__learning_rate=0.01``.

        A parameter of a configuration that is not set replaces one of its defaults. With one of `training` or
        `backbone`, `effort` no longer decides what is trained.

        Parameters
        ----------
        **params
            The parameters.
        """
        super().set_params(**with_nested(super().get_params(deep=False), params, self._task))
        return self

    @hinted
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        scratch: Any = None,
        callbacks: Sequence[Reporter] | None = None,
        verbose: bool = False,
    ) -> Self:
        """Train on a table, in memory or larger than memory.

        Parameters
        ----------
        X : table of shape (n, d)
            NumPy array, or pandas, polars or pyarrow table: numbers, booleans, dates, text and categories. Values may
            be missing. Numbers and dates written as text are parsed; columns that are unusual are named in a
            `ColumnWarning`, and `columns_.notices` has all that was inferred. A table larger than memory is a
            ``pyarrow.parquet.ParquetFile``, a ``pyarrow.dataset.Dataset``, or any iterable of tables that starts from
            the beginning each time, see Notes.
        y : array-like of shape (n,)
            The target; of a regressor several targets may have the shape (n, n_targets). In a table that is read in
            batches, the name of its column, or a list of names.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative. Rows of weight 0 are dropped. In a table that is read in batches, the
            name of its column.
        X_val, y_val : table of shape (n_val, d), array-like of shape (n_val,), optional
            Validation rows and their target; networks are then trained on all rows of `X`.
        groups : array-like of shape (n,), optional
            Group of each row, such as a person or a day: rows of one group never train and validate the same network.
        scratch : str or Path, optional
            Folder for the rows of a table that is read in batches, in compact form; by default that of the system for
            temporary files. They are removed after the fit.
        callbacks : sequence of callable, optional
            Functions that are called after every epoch with a `knotwork.training.EpochReport`. Training stops if one
            returns True or raises `knotwork.training.StopTraining`, and the best weights so far are kept. Kinds of
            networks are trained one after the other on a CPU, and those that have not begun are left out. A refit has
            no callbacks.
        verbose : bool, default=False
            Show progress.

        Returns
        -------
        self
            The fitted estimator; after Ctrl-C, with the best weights so far.

        Notes
        -----
        Networks agree with those of another machine, BLAS or order of the rows only up to differences that training
        makes of rounding errors; on one machine `random_state` gives the same ones.

        Ctrl-C stops training at the end of a step. It has no effect where it is ignored, as in a process that a shell
        has started in the background (``nohup python fit.py &``, cron): `time_limit` and `callbacks` stop it there.

        Batches are read twice. The first time, rows with the smallest hashes of their numbers are kept: validation rows
        (a share of them, at most 100,000), and a random sample of up to 200,000 others, by which columns are learned
        and knots that depend on the target are placed. The second time, columns are summarised, by which other knots
        are placed (`knotwork.knots.QuantileSketch` states the error), and rows are written to `scratch`, as float32 in
        the units of their columns, which is what networks see. Each row goes to one of the chunks, of up to 4 million
        rows, at random. Networks take the chunks, and the rows of each chunk, in another random order in every pass;
        two chunks are in memory, at most 512 MiB. After each chunk the validation rows are scored: in `history_` and
        for `TrainingConfig.patience` a chunk is an epoch, while `max_epochs` counts passes over all rows.
        """
        before = self._model if self.__sklearn_is_fitted__() else None
        self._model = fit_model(
            settings_of(self),
            X,
            y,
            sample_weight,
            scratch=scratch,
            before=before,
            monitor=Monitor(callbacks, verbose),
            X_val=X_val,
            y_val=y_val,
            groups=groups,
        )
        return self

    def update(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        callbacks: Sequence[Reporter] | None = None,
        verbose: bool = False,
    ) -> Self:
        """Learn from new rows, with the choices of the fit: networks train on from where they are, and trees grow on.

        Where numbers have left the range of the fit, networks are trained anew on knots and scaling of the new rows.
        Members that are worse on new rows than before are not kept. `drift_` has what differs; if something drifted, a
        warning says so, with the score before and after. Columns and classes stay those of the fit.

        Parameters
        ----------
        X : table of shape (n, d)
            New rows, at least 30, in memory: training that is to know the former rows as well needs them again.
        y : array-like of shape (n,)
            Their target.
        sample_weight : array-like of shape (n,), optional
            Their weights.
        callbacks, verbose
            As in `fit`.

        Returns
        -------
        self
            The estimator.
        """
        from knotwork.estimators._updates import update_model  # noqa: PLC0415 - it imports this module's neighbours

        monitor = Monitor(callbacks, verbose)
        updated = update_model(settings_of(self), self._fitted, X, y, sample_weight, monitor=monitor)
        self._model, self._drift = updated.model, updated.drift
        return self

    @property
    def drift_(self) -> Any:
        """A data frame of how each column, and the target, differed in the rows of the last `update`.

        ``distance`` of the distributions (0 to 1), ``shift`` of the mean in standard deviations, the shares of rows
        ``outside`` of the former range or of a new category and of ``missing`` values beyond those before, and
        ``drifted``, whether that is more than chance.
        """
        if not hasattr(self, "_drift"):
            raise AttributeError("drift_ is not available: update was not called.")
        import pandas as pd  # noqa: PLC0415 - only frames need it

        return pd.DataFrame(self._drift).set_index("column")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    @property
    def _fitted(self) -> FittedModel:
        """The fitted model; scikit-learn's error if there is none."""
        check_is_fitted(self)
        return self._model

    columns_ = FromModel(lambda model: model.columns, "What was learned of each column.")
    trained_ = FromModel(lambda model: model.trained, "The members: networks and boosted trees.")
    weights_ = FromModel(lambda model: model.weights, "Weights of the members in predictions.")
    encoding_ = FromModel(
        lambda model: model.encodings, "For each member, the method and the size of each numerical column."
    )
    encoding_choices_ = FromModel(
        lambda model: model.choices, "Why each numerical column has its encoding, where training rows decided it."
    )
    candidates_ = FromModel(lambda model: model.candidates, "Each kind of member that was tried.")
    validation_score_ = FromModel(lambda model: model.score, "The metric of the predictions on the validation rows.")
    target_name_ = FromModel(lambda model: model.target_name, "Name of the target, if it was a series with a name.")
    n_features_in_ = FromModel(lambda model: len(model.columns), "Number of columns.")
    backbones_ = FromModel(
        lambda model: model.backbones,
        "Configuration of each member's network after the encoding; None for boosted trees.",
    )
    knots_ = FromModel(
        lambda model: model.knots,
        "Interior knots of each numerical column for each member after training, in the units of the table.",
    )
    interactions_ = FromModel(
        lambda model: model.interactions,
        "Pairs of numerical columns whose interactions each member has; empty lists without interactions.",
    )
    feature_importances_ = FromModel(
        lambda model: model.importances,
        "Increase of the loss on up to 1,000 validation rows when a column is shuffled, one number per column.",
    )
    history_ = FromModel(
        lambda model: model.history,
        """How each member was trained.

        A dict of ``loss`` (mean training loss of each epoch), ``score`` (validation metric of each epoch, in the units
        of the target; NaN for networks of a refit, which have no validation rows), ``learning_rate``, ``metric`` (its
        name), ``best_epoch`` (whose weights are kept, from 1) and ``seconds``.
        """,
    )

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """Names of the columns, if they have names."""
        if self.columns_.names is None:
            raise AttributeError("feature_names_in_ is not available: the columns had no names.")
        return np.array(self.columns_.names, dtype=object)

    def _apply(self, predict: Callable[[CodedTable], Any], X: Any) -> Any:
        """Return what a function predicts for a table, or an iterator of its results for the batches of a stream."""
        model = self._fitted
        if not is_stream(X):
            return predict(model.columns.read(X))
        from knotwork.estimators._streams import predicted_batches  # noqa: PLC0415 - only streams need it

        return predicted_batches(model, X, predict)

    def _beside_target(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return target, predictions and weights; of a stream y and sample_weight are columns, read in one pass."""
        if not is_stream(X):
            return y, self.predict(X), sample_weight
        from knotwork.estimators._streams import read_beside_target  # noqa: PLC0415 - only streams need it

        return read_beside_target(self.predict, self._fitted, X, y, sample_weight)

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file that `knotwork.load` reads, without pickle.

        A file that is replaced keeps its mode. For more than 500 columns the importances are saved only if
        `feature_importances_` was used before: they take long.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        from knotwork.estimators._persistence import save  # noqa: PLC0415 - it imports this module

        check_is_fitted(self)
        save(self, path)

    def export(self, path: str | Path) -> None:
        """Write the whole predictor as code or a model for other programs; the suffix of the file says which.

        Predictions are those of `predict` to a relative 1e-5, missing values and unseen categories included.

        ``.onnx``: see `export_onnx`.

        ``.js``: JavaScript for pages and node, with the name ``model``. ``model.predict(rows)`` takes an array of
        objects, from the names of columns to cells, which are read as in Python: text, dates and percentages too.
        ``model.predictProba(rows)`` and ``model.interval(rows, coverage)`` return arrays.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        check_is_fitted(self)
        export(self._predictor, path, check_suffix(path))

    def _predictor(self) -> Predictor:
        """Return the fitted model as a graph."""
        from knotwork.estimators._predictor import predictor_of  # noqa: PLC0415 - only exports need it

        return predictor_of(self._fitted)

    def export_onnx(self, path: str | Path) -> None:
        """Write the whole predictor as an ONNX model for any number of rows: scaling, encoding, categories and network.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.

        Notes
        -----
        Inputs: ``numbers``, float64 of shape (n, n_numerical), the numerical columns in the order of the fit, NaN where
        missing; numbers that were text in the fit are numbers here, and dates are the numbers that they become, such as
        ``"sold (year)"``: ``model.columns_.read(X).numbers`` has all of them, and a `ColumnWarning` names such columns.
        Columns that are ignored are no input. And one input of shape (n, 1) for each categorical column, with its name
        (``column_2`` if it has none): text for columns of text, otherwise float64, or int64 where categories are whole
        numbers beyond 2**53. Booleans are 0 and 1. Categories that were not seen in the fit are treated as missing; so
        are NaN and, unless it is a category, the empty text. The model's metadata lists the columns of ``numbers`` and
        the other inputs under the key ``knotwork``, and under ``columns`` how the cells of each column are converted.

        Outputs: ``prediction``, float64 of the shape that `predict` returns; for the objective ``"gaussian"`` also
        ``std``, of the same shape; for classes ``probabilities``, float64 of shape (n, n_classes), and ``label`` of
        shape (n,): text, whole numbers, float64 or booleans.
        """
        check_is_fitted(self)
        export(self._predictor, path, ".onnx")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def effects(self, X: Any, columns: Sequence[Any] | None = None, *, n_points: int = 40) -> list[FeatureEffect]:
        """Return how predictions depend on each column: partial dependence, and the lines of single rows.

        A column takes values that rows of `X` have, in up to 200 random rows; all else stays as it is. It works on
        tables with text, dates and missing values.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows such as those of the fit.
        columns : str or sequence, optional
            Names of columns, or positions in an array; by default all that the model uses.
        n_points : int, default=40
            Maximum number of values of a numerical column.

        Returns
        -------
        list of FeatureEffect
            With ``name``, ``values``, ``mean``, ``lines`` and ``outputs``.
        """
        return effects(self._fitted, X, columns, n_points=n_points)

    def contributions(
        self, X: Any, background: Any = None, *, n_permutations: int = 16, random_state: Any = 0
    ) -> "Contributions":
        """Return what each column adds to each prediction, by sampled Shapley values.

        Columns of a background row take the values of the row of `X` one after the other, in random orders, each
        followed by its reverse; a contribution is the mean change of the prediction. Together with the baseline they
        add up to the prediction exactly; single ones have a sampling error that falls with the number of orders.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows to explain.
        background : table of shape (m, d), optional
            Rows that stand for the average; by default validation rows of the fit, which a loaded model does not have.
        n_permutations : int, default=16
            Number of orders. Each takes as many predictions as there are columns.
        random_state : int, RandomState or None, default=0
            Random seed.

        Returns
        -------
        Contributions
            With ``names``, ``values`` of shape (n, n_columns), and ``baseline``: numbers, or probabilities of the
            second of two classes; with more classes, a last axis of classes.
        """
        return contributions(self._fitted, X, background, n_permutations=n_permutations, random_state=random_state)

    def as_function(self, X: Any) -> TableFunction:
        """Return the model as a function of a matrix of numbers, for libraries that need one, such as SHAP.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows that become the matrix.

        Returns
        -------
        TableFunction
            With ``matrix`` (numbers, and codes of categories), ``names`` of its columns, and ``function``, as in
            ``shap.Explainer(explained.function, explained.matrix, feature_names=explained.names)``.
        """
        return table_function(self._fitted, X)

    def plot_effects(self, X: Any, columns: Sequence[Any] | None = None) -> Any:
        """Draw the effects of columns: mean predictions, over lines of single rows.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows such as those of the fit.
        columns : str or sequence, optional
            Names of columns, or positions in an array; by default the nine most important ones.

        Returns
        -------
        matplotlib.figure.Figure
            One panel for each column.
        """
        return plot_effects(self._fitted, X, columns)

    def plot_history(self) -> Any:
        """Draw training loss and validation score of each member by epoch; dots mark the weights that are kept.

        Returns
        -------
        matplotlib.figure.Figure
            Two panels.
        """
        return plot_history(self._fitted)

    def _page_subject(self) -> PageSubject:
        return page_subject(self)


def settings_of(estimator: TabularEstimator) -> FitSettings:
    """Return the parameters of an estimator, checked."""
    return FitSettings.read(estimator.get_params(deep=False), estimator._task)


def fitted(estimator: Estimator, model: FittedModel) -> Estimator:
    """Give a model to an estimator, as `fit` does, and return the estimator."""
    estimator._model = model
    return estimator


def model_of(estimator: TabularEstimator) -> FittedModel:
    """Return the model of a fitted estimator."""
    return estimator._fitted
