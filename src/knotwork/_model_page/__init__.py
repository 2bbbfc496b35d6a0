"""The page of a fitted model: one file that explains it, predicts by itself, and can be sent to somebody."""

from knotwork._model_page._page import notebook_view, report_text, write_report
from knotwork._model_page._subject import (
    ContributionTables,
    FitRecord,
    KeptRows,
    PageEffect,
    PageSubject,
    kept_places,
)
from knotwork._model_page._columns import column_entries, column_kind, column_values, short
