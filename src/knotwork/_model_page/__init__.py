"""The page of a fitted model: one file that explains it, predicts by itself, and can be sent to somebody."""

from knotwork._model_page._columns import column_entries, column_kind, column_values, short
from knotwork._model_page._errors import ErrorRow
from knotwork._model_page._estimator import ReportedEstimator
from knotwork._model_page._page import report_text
from knotwork._model_page._subject import (
    ContributionTables,
    FitRecord,
    PageEffect,
    PageRows,
    PageSubject,
    kept_places,
)
