"""What estimators with a page share: `report`, and the view of a notebook."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from knotwork._model_page._page import notebook_view, write_report
from knotwork._model_page._subject import PageSubject


def subject_of(model: "ReportedEstimator") -> PageSubject:
    """Return a fitted model as its page sees it."""
    return model._page_subject()


class ReportedEstimator(BaseEstimator, ABC):
    """An estimator that has a page once it is fitted."""

    @abstractmethod
    def _page_subject(self) -> PageSubject:
        """Return the fitted model as its page sees it."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Whether it is fitted."""

    def report(self, path: str | Path, X: Any = None, y: Any = None, *, rows: bool = True) -> Path:
        """Write the page of the model: one file that explains it and predicts by itself, without a network.

        Parameters
        ----------
        path : str or Path
            The file, such as ``"model.html"``; an existing one is replaced.
        X : table of shape (n, d), optional
            Rows to show, better not those of the fit. By default some rows of the fit, with predictions that did not
            see them; a model has them in memory until it is loaded from a file, and without any the page leaves out
            what needs rows.
        y : array-like of shape (n,), optional
            Their target, by which errors are shown.
        rows : bool, default=True
            Whether single rows are in the page; False leaves them out, and nobody can read one from the file.

        Returns
        -------
        Path
            The file.
        """
        check_is_fitted(self)
        return write_report(self._page_subject(), path, X, y, rows=rows)

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()
        return notebook_view(self._page_subject()) + html if self.__sklearn_is_fitted__() else html

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle
