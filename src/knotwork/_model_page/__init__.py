"""The page of a fitted model: one file that explains it, predicts by itself, and can be sent to somebody."""

from knotwork._model_page._columns import column_entries, column_kind, column_values, short
from knotwork._model_page._errors import ErrorRow
from knotwork._model_page._estimator import ReportedEstimator, subject_of
from knotwork._model_page._page import limited, notebook_view, report_text
from knotwork._model_page._sentences import headline
from knotwork._model_page._subject import (
    ContributionTables,
    FitRecord,
    PageEffect,
    PageRows,
    PageSubject,
    kept_places,
)
