"""Reports without the files that take most of their time."""

import pytest

from knotwork.report import _page as page


def leave_out_pdf(patch):
    """Write empty files in the place of PDFs, for which every figure is drawn twice more."""
    patch.setattr(page, "_pdf", lambda figure: b"")


@pytest.fixture
def no_pdf(monkeypatch):
    """For tests that read the page or tables: PDFs are those of `test_document.py`."""
    leave_out_pdf(monkeypatch)
