"""Reports: the results of studies in tables, figures and pages."""

from knotwork._checks import check_part

check_part(__name__)

from knotwork._look import DARK, LIGHT, Theme
from knotwork.report._aggregate import LEVEL, RankTable, ReportPart, rank_table, read_records, summarise_folds
from knotwork.report._cd_diagram import draw_cd_diagram
from knotwork.report._costs import Advice, Configuration, advise, per_epoch
from knotwork.report._document import load_plans, load_records, make_report, report_folder
from knotwork.report._figures import RankPair, draw_agreement
from knotwork.report._illustrations import (
    FitPanel,
    FittedCurve,
    draw_bases,
    draw_encoded_value,
    draw_features,
    draw_fits,
    draw_scatter,
)
from knotwork.report._page import Picture, Section, page_template, save_figure, shown_picture
from knotwork.report._style import PHONE, clean_axes, method_colour, new_figure
from knotwork.report._tables import Cell, ReportTable
from knotwork.report._traces import TRUTHS, Traces, load_traces, noiseless_scores
from knotwork.report._words import describe_best, enumerate_words

__all__ = [
    "DARK",
    "LIGHT",
    "Cell",
    "FitPanel",
    "FittedCurve",
    "Picture",
    "RankPair",
    "RankTable",
    "ReportPart",
    "ReportTable",
    "Section",
    "Theme",
    "Traces",
    "clean_axes",
    "draw_agreement",
    "draw_bases",
    "draw_cd_diagram",
    "draw_encoded_value",
    "draw_features",
    "draw_fits",
    "draw_scatter",
    "load_plans",
    "load_records",
    "load_traces",
    "make_report",
    "per_epoch",
    "rank_table",
    "report_folder",
    "save_figure",
]
