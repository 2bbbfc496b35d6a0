"""Columns as model files have them."""

from knotwork._model_files import Reader, Writer
from knotwork._preparation.columns import Columns
from knotwork._preparation.learning import SAVED_COLUMNS, TableColumn


def write(columns):
    return Writer(SAVED_COLUMNS).write(tuple(columns), "columns")


def read(content):
    return Columns(Reader(SAVED_COLUMNS).read(content, tuple[TableColumn, ...], "columns"))
