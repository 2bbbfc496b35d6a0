"""Messy files: each is read right, with what was inferred, or refused with the next step."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from knotwork.compare._inputs import read_source
from knotwork.datasets._files import read_frame
from knotwork.errors import ArgumentError, ColumnError, MissingPackageError
from tests.messy.make import FILES, flats, make


def detected(sep="commas", decimal="point", encoding="utf-8"):
    return (
        f"Format: fields separated by {sep}, decimal {decimal}, encoding {encoding}. "
        "Other formats: --sep, --decimal, --encoding."
    )


SAME = {
    "comma.csv": [],
    "semicolon.csv": [detected("';'")],
    "semicolon_decimal_comma.csv": [detected("';'", "comma")],
    "tab.tsv": [detected("tabs")],
    "tab.txt": [detected("tabs", "comma")],
    "pipe.csv": [detected("'|'")],
    "quoted.csv": [],
    "quoted_after_spaces.csv": [],
    "sep_line.csv": [detected("';'")],
    "old_mac.csv": [],
    "blank_lines.csv": [],
    "latin.csv": [detected(encoding="cp1252")],
    "mark.csv": [],
    "utf16.csv": [detected("tabs", encoding="utf-16")],
    "utf16_without_mark.csv": [detected(encoding="utf-16-le")],
    "utf32.csv": [detected(encoding="utf-32")],
    "packed.csv.gz": [],
    "packed.csv.bz2": [],
    "packed.tsv.xz": [detected("tabs")],
    "packed.csv.zst": [detected("';'")],
    "packed.csv.zip": [],
    "spaces_in_names.csv": [],
    "row_names.csv": ["The rows have one more field than the header: the first field, the row name, is ignored."],
    "separator_at_the_end.csv": [],
    "separator_at_the_end_of_rows.csv": [],
    "flats.parquet": [],
    "flats.feather": [],
    "flats.arrow": [],
    "polars.parquet": [],
    "polars.arrow": [],
}
"""Files that hold the table of `flats`, and what is said about them."""

CHANGED = {
    "commas_in_text.csv": (lambda f: f.assign(town=[f"{town}, Altstadt; 2|3" for town in f["town"]]), []),
    "texts_of_two_lines.csv": (lambda f: f.assign(note='two "fine"\nlines'), []),
    "inches.csv": (lambda f: f.assign(town=f["town"].replace("Ulm", '5" pipe')), []),
    "inches_and_lines.csv": (
        lambda f: f.assign(town=f["town"].replace("Ulm", '5" x 6"'), note='two "fine"\nlines'), []
    ),
    "grouped_thousands.csv": (
        lambda f: f.assign(price=[1000.0 * (1 + i) + 234.5 + i for i in f.index], count=1000.0 * (1 + f.index)),
        [detected("';'", "comma")],
    ),
    "latin_late.csv": (
        lambda f: pd.concat([*[f.assign(town="Ulm")] * 800, f], ignore_index=True), [detected(encoding="cp1252")]
    ),
    "duplicate_names.csv": (
        lambda f: f.assign(**{"area.1": 7}), ["Column 'area' occurs 2 times: the others are named 'area.1'."]
    ),
    "pandas_index.csv": (
        lambda f: f.reset_index(names="Unnamed: 0"), ["Columns without a name in the header: 'Unnamed: 0'."]
    ),
    "short_row.csv": (
        lambda f: pd.concat(
            [f[:19], f[:1].assign(area=41.5, rooms=3, town=np.nan, rent=np.nan), f[19:]],
            ignore_index=True,
        ),
        ["1 row has fewer fields than the header, first in line 21: the rest is taken as missing."],
    ),
    "three_rows.csv": (lambda f: f[:3], []),
    "missing_targets.csv": (lambda f: f.assign(rent=f["rent"].where(f.index % 3 > 0)), []),
    "wide.csv": (
        lambda f: pd.DataFrame({f"x{i}": f.index * (i + 1) / 7 for i in range(2000)}).assign(rent=f["rent"]), []
    ),
}  # fmt: skip
"""Files with another table: how it follows from `flats`, and what is said about it."""

REFUSED = {
    "damaged_utf8.csv": (ArgumentError, "line 4 is not valid UTF-8.*--encoding"),
    "nul.csv": (ColumnError, "column 'town' has a NUL character in line 3.*export it again"),
    "two_tables.zip": (ArgumentError, "archive of one file.*'flats.csv', 'houses.csv'. Extract the one to read"),
    "cut.csv.gz": (ArgumentError, "be a complete .gz file.*export it again"),
    "bomb.csv.gz": (ArgumentError, "need at most 0.25 GiB of memory.*without compression"),
    "gzip_by_another_name.csv": (ArgumentError, "It is compressed by gzip: rename it to end in .csv.gz"),
    "long_row.csv": (ArgumentError, "Line 21 has 6 fields, lines before have 4: put texts .* in quotation marks"),
    "title.csv": (ArgumentError, "its first line has 1 field, later ones 4.*Remove the lines above the names"),
    "open_quote.csv": (ArgumentError, "quotation mark that opens in row 3 is not closed. Close it"),
    "inches_after_lines.csv": (ArgumentError, "fails in line .* or before.*double those inside texts"),
    "stray_quotes.csv": (ArgumentError, "fails in line 41 or before.*Remove the stray quotation mark"),
    "empty.csv": (ColumnError, "is empty. A header and at least one row are needed"),
    "blank.csv": (ColumnError, "is empty. A header and at least one row are needed"),
    "header_only.csv": (ColumnError, "has no rows. A header and at least one row are needed"),
    "flats.json": (ArgumentError, "must end in one of '.csv'.*Convert the file"),
    "cut.parquet": (ArgumentError, "a readable .parquet file.*export it again"),
    "version_1.feather": (ArgumentError, "Feather file of version 1.*write it again with version 2"),
    "bent_offsets.arrow": (ArgumentError, "a readable .arrow file.*export it again"),
    "endless.arrow": (ArgumentError, "need at most 1.00 GiB of memory"),
    "endless.parquet": (ArgumentError, "need at most 1.00 GiB of memory"),
    "repeated_text.parquet": (ArgumentError, "need at most 1.00 GiB of memory"),
    "shared_text.arrow": (ArgumentError, "need at most 1.00 GiB of memory"),
    "cut.xlsx": (ArgumentError, "a readable .xlsx file.*or as CSV"),
}
"""Files that are refused: the error, and what it says."""

if find_spec("openpyxl") is None:
    needed = (MissingPackageError, "needs openpyxl: pip install openpyxl. Or save the sheet as CSV")
    REFUSED |= {"flats.xlsx": needed, "cut.xlsx": needed}
else:
    SAME["flats.xlsx"] = ["Sheet 'flats' is read; not read: 'notes'."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("messy")
    make(path)
    return path


def test_every_file_is_in_one_list():
    assert sorted([*SAME, *CHANGED, *REFUSED]) == sorted(FILES)
    assert len(FILES) >= 40


@pytest.mark.parametrize("name", SAME)
def test_the_same_table_is_read(folder, name):
    frame, notes = read_frame(folder / name)
    pd.testing.assert_frame_equal(frame, flats())
    assert notes == SAME[name]


@pytest.mark.parametrize("name", CHANGED)
def test_another_table_is_read(folder, name):
    change, sentences = CHANGED[name]
    frame, notes = read_frame(folder / name)
    pd.testing.assert_frame_equal(frame, change(flats()), check_dtype=False)
    assert notes == sentences


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_with_the_next_step(folder, name):
    error, words = REFUSED[name]
    with pytest.raises(error, match=words) as info:
        read_frame(folder / name)
    assert str(info.value).isprintable()
    assert len(str(info.value)) < 700


@pytest.mark.parametrize(
    ("name", "count"), [("missing_targets.csv", "40 rows with a known target"), ("three_rows.csv", "3 rows")]
)
def test_too_few_rows_for_a_comparison(folder, name, count):
    with pytest.raises(ColumnError, match=f"has {count}, and a comparison needs at least 50.*Collect more rows"):
        read_source(folder / name, "rent")


def test_a_comparison_reports_the_format(folder):
    source = read_source(folder / "semicolon_decimal_comma.csv", "rent")
    assert source.notes[0] == detected("';'", "comma")
    np.testing.assert_allclose(source.target, flats()["rent"])
