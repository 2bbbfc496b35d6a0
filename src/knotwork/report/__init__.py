"""Reports: the results of studies in tables, figures and pages."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork.report._bases import draw_bases, draw_features
from knotwork.report._cd_diagram import draw_cd_diagram
from knotwork.report._document import load_plans, load_records, make_report, report_folder
from knotwork.report._illustrations import Fit, FitPanel, draw_encoded_value, draw_fits, draw_scatter

__all__ = [
    "Fit",
    "FitPanel",
    "draw_bases",
    "draw_cd_diagram",
    "draw_encoded_value",
    "draw_features",
    "draw_fits",
    "draw_scatter",
    "load_plans",
    "load_records",
    "make_report",
    "report_folder",
]
