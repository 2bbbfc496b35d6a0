"""Messy files as people have them, made anew each time: ``python tests/messy/make.py FOLDER``.

All of them, where nothing else is said, hold the same table of 60 flats: `area` with decimals, `rooms`, `town` with
letters outside of ASCII, and `rent`.
"""

import bz2
import gzip
import io
import lzma
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

TOWNS = ("Köln", "Ulm", "Nîmes")


def flats(n=60):
    """Return the table that most of the files hold."""
    place = np.arange(n)
    area = 20.25 + place * 1.75
    rooms = 1 + place % 5
    town = [TOWNS[i % 3] for i in place]
    return pd.DataFrame({"area": area, "rooms": rooms, "town": town, "rent": np.round(5 * area + 31.5 * rooms, 2)})


def text(frame=None, *, encoding="utf-8", **settings):
    """Return a table as the bytes of a text file."""
    return (flats() if frame is None else frame).to_csv(index=False, **settings).encode(encoding)


def lines(change, encoding="utf-8"):
    """Return the table as a CSV file after a change of the list of its lines."""
    rows = text().decode().splitlines()
    return ("\n".join(change(rows)) + "\n").encode(encoding)


def archive(members):
    """Return a zip archive of files by name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def workbook(frame, sheets=("flats", "notes")):
    """Return an Excel file as small as one may be; its second sheet is empty."""
    namespace = "http://schemas.openxmlformats.org"
    main, office = f"{namespace}/spreadsheetml/2006/main", f"{namespace}/officeDocument/2006/relationships"
    package = f"{namespace}/package/2006"

    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    rows = [list(frame.columns), *frame.to_numpy(dtype=object).tolist()]
    data = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    numbers = range(1, len(sheets) + 1)
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="application/vnd.openxmlformats-'
        'officedocument.spreadsheetml.worksheet+xml"/>'
        for n in numbers
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>' + kinds + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/'
        'officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>' + "".join(
            f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in zip(numbers, sheets, strict=True)
        ) + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">' + "".join(
            f'<Relationship Id="r{n}" Type="{office}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n in numbers
        ) + "</Relationships>",
    }  # fmt: skip
    for n in numbers:
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{data if n == 1 else ""}</sheetData></worksheet>'
        )
    return archive(parts)


def columnar(write, frame=None):
    """Return the bytes that a method of a frame writes."""
    out = io.BytesIO()
    write(flats() if frame is None else frame, out)
    return out.getvalue()


def feather(compression="lz4"):
    return columnar(lambda frame, out: frame.to_feather(out, compression=compression))


def parquet():
    return columnar(lambda frame, out: frame.to_parquet(out, index=False))


def bent_offsets():
    """Return an Arrow file with an offset of text that lies far outside of the file, as after a flipped bit."""
    data = bytearray(feather("uncompressed"))
    offsets = np.cumsum([0, *(len(town.encode()) for town in flats()["town"])]).astype("<i4").tobytes()
    wide = np.cumsum([0, *(len(town.encode()) for town in flats()["town"])]).astype("<i8").tobytes()
    place = data.find(wide)
    place, size = (place, 8) if place >= 0 else (data.find(offsets), 4)
    data[place + 30 * size + size - 1] ^= 0x40
    return bytes(data)


def endless(n_rows=10**12):
    """Return an Arrow file of a few bytes that declares a huge number of rows."""
    out = io.BytesIO()
    batch = pa.record_batch([pa.nulls(0)], names=["nothing"])
    huge = pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.null(), n_rows, [None])], schema=batch.schema)
    with pa.ipc.new_file(out, batch.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True)) as writer:
        writer.write(huge)
    return out.getvalue()


def endless_parquet(n_rows=2**27 + 1):
    """Return a Parquet file of a few kilobytes that needs gigabytes in memory."""
    out = io.BytesIO()
    pq.write_table(pa.table({"nothing": pa.nulls(n_rows)}), out, compression="zstd")
    return out.getvalue()


def repeated_text(n_rows=100_000):
    """Return a Parquet file of a kilobyte with a text of 10 MB, stored once, in every row."""
    out = io.BytesIO()
    town = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, dtype=np.int32)), pa.array(["x" * 10**7]))
    pq.write_table(pa.table({"town": town}), out, compression="zstd", store_schema=False)
    return out.getvalue()


def shared_text(n_rows=100_000):
    """Return the same as an Arrow file, with views of one text."""
    entry = np.array([10**7, int.from_bytes(b"xxxx", "little"), 0, 0], dtype=np.int32)
    views, texts = pa.py_buffer(np.tile(entry, n_rows)), pa.py_buffer(b"x" * 10**7)
    town = pa.Array.from_buffers(pa.string_view(), n_rows, [None, views, texts])
    out, table = io.BytesIO(), pa.table({"town": town})
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return out.getvalue()


def doubled_names():
    frame = flats().assign(more=7)
    frame.columns = ["area", "rooms", "town", "rent", "area"]
    return text(frame)


def missing_targets():
    return text(flats().assign(rent=lambda frame: frame["rent"].where(frame.index % 3 > 0)))


def wide():
    columns = {f"x{i}": np.arange(60) * (i + 1) / 7 for i in range(2000)}
    return text(pd.DataFrame(columns).assign(rent=flats()["rent"]))


def grouped():
    frame = flats().assign(
        price=[f"{1 + i}.{234 + i},50" for i in range(60)], count=[f"{1 + i}.000" for i in range(60)]
    )
    return text(frame, sep=";", decimal=",")


FILES = {
    # Dialects
    "comma.csv": text,
    "semicolon.csv": lambda: text(sep=";"),
    "semicolon_decimal_comma.csv": lambda: text(sep=";", decimal=","),
    "tab.tsv": lambda: text(sep="\t"),
    "tab.txt": lambda: text(sep="\t", decimal=","),
    "pipe.csv": lambda: text(sep="|"),
    "quoted.csv": lambda: text(quoting=1),
    "quoted_after_spaces.csv": lambda: lines(lambda rows: [", ".join(f'"{x}"' for x in r.split(",")) for r in rows]),
    "sep_line.csv": lambda: b"sep=;\r\n" + text(sep=";", lineterminator="\r\n"),
    "old_mac.csv": lambda: text(lineterminator="\r"),
    "blank_lines.csv": lambda: lines(lambda rows: ["", *(line for row in rows for line in (row, ""))]),
    "commas_in_text.csv": lambda: text(flats().assign(town=[f"{t}, Altstadt; 2|3" for t in flats()["town"]])),
    "texts_of_two_lines.csv": lambda: text(flats().assign(note='two "fine"\nlines')),
    "inches.csv": lambda: lines(lambda rows: [rows[0], *(row.replace("Ulm", '5" pipe') for row in rows[1:])]),
    "inches_and_lines.csv": lambda: text(flats().assign(note='two "fine"\nlines')).replace(b"Ulm", b'5" x 6"'),
    "inches_after_lines.csv": lambda: text(flats().assign(note='two "fine"\nlines')).replace(b"Ulm", b'"5" pipe'),
    "grouped_thousands.csv": grouped,
    # Encodings
    "latin.csv": lambda: text(encoding="cp1252"),
    "latin_late.csv": lambda: text(pd.concat([flats().assign(town="Ulm")] * 800 + [flats()]), encoding="cp1252"),
    "mark.csv": lambda: text(encoding="utf-8-sig"),
    "utf16.csv": lambda: text(encoding="utf-16", sep="\t"),
    "utf16_without_mark.csv": lambda: text(encoding="utf-16-le"),
    "utf32.csv": lambda: text(encoding="utf-32"),
    "damaged_utf8.csv": lambda: text().replace("Nîmes".encode(), b"N\xeemes", 1),
    "nul.csv": lambda: text().replace(b"Ulm", b"U\0m", 1),
    # Compression
    "packed.csv.gz": lambda: gzip.compress(text(), mtime=0),
    "packed.csv.bz2": lambda: bz2.compress(text()),
    "packed.tsv.xz": lambda: lzma.compress(text(sep="\t")),
    "packed.csv.zst": lambda: pa.compress(text(sep=";"), "zstd", asbytes=True),
    "packed.csv.zip": lambda: archive({"flats.csv": text()}),
    "two_tables.zip": lambda: archive({"flats.csv": text(), "houses.csv": text()}),
    "cut.csv.gz": lambda: gzip.compress(text(), mtime=0)[:-40],
    "bomb.csv.gz": lambda: gzip.compress(b"area,rent\n" + b"0,0\n" * 2**19, mtime=0) * 140,
    "gzip_by_another_name.csv": lambda: gzip.compress(text(), mtime=0),
    # Names and rows
    "duplicate_names.csv": doubled_names,
    "spaces_in_names.csv": lambda: text().replace(b"area,rooms,town,rent", b" area , rooms,town , rent"),
    "pandas_index.csv": lambda: flats().to_csv().encode(),
    "row_names.csv": lambda: flats().to_csv().encode().removeprefix(b","),
    "separator_at_the_end.csv": lambda: lines(lambda rows: [f"{row}," for row in rows]),
    "separator_at_the_end_of_rows.csv": lambda: lines(lambda rows: [rows[0], *(f"{row}," for row in rows[1:])]),
    "short_row.csv": lambda: lines(lambda rows: [*rows[:20], "41.5,3", *rows[20:]]),
    "long_row.csv": lambda: lines(lambda rows: [*rows[:20], "41.5,3,Ulm,400,7,8", *rows[20:]]),
    "title.csv": lambda: b"Flats of 2024\n\n" + text(sep=";"),
    "open_quote.csv": lambda: text().replace(b"Ulm", b'"Ulm', 1),
    "stray_quotes.csv": lambda: lines(lambda rows: [*rows[:10], rows[10].replace("Köln", '"Köln'), *rows[11:40],
                                                    rows[40].replace("Köln", 'Kö"ln'), *rows[41:]]),
    "empty.csv": lambda: b"",
    "blank.csv": lambda: b"\n\n  \n",
    "header_only.csv": lambda: b"area,rooms,town,rent\n",
    "three_rows.csv": lambda: text(flats(3)),
    "missing_targets.csv": missing_targets,
    "wide.csv": wide,
    # Other formats
    "flats.parquet": parquet,
    "flats.feather": feather,
    "flats.arrow": lambda: feather("uncompressed"),
    "endless.parquet": endless_parquet,
    "polars.parquet": lambda: columnar(lambda frame, out: pl.from_pandas(frame).write_parquet(out)),
    "polars.arrow": lambda: columnar(lambda frame, out: pl.from_pandas(frame).write_ipc(out, compression="zstd")),
    "repeated_text.parquet": repeated_text,
    "shared_text.arrow": shared_text,
    "flats.xlsx": lambda: workbook(flats()),
    "cut.xlsx": lambda: workbook(flats())[:-100],
    "flats.json": lambda: flats().to_json().encode(),
    "cut.parquet": lambda: parquet()[:-30],
    "version_1.feather": lambda: b"FEA1" + bytes(60) + b"FEA1",
    "bent_offsets.arrow": bent_offsets,
    "endless.arrow": endless,
}  # fmt: skip
"""A function that returns the bytes of each file."""


def make(folder):
    """Write all files into a folder."""
    for name, content in FILES.items():
        Path(folder, name).write_bytes(content())


if __name__ == "__main__":
    make(sys.argv[1])
