"""The pages of the gallery in the guide: four real columns, each in an explorer of its own.

    python examples/gallery.py docs/gallery

The tables are read from KNOTWORK_DATA or from the cache; 'knotwork datasets fetch NAME' downloads them.
"""

import sys
from pathlib import Path

import knotwork as kw

COLUMNS = {
    "latitude": ("california", "latitude"),
    "capital_gain": ("adult", "capital-gain"),
    "carat": ("diamonds", "carat"),
    "risk": ("fico", "ExternalRiskEstimate"),
}
"""The data set and the column of each page."""


def main(folder: Path) -> None:
    """Write the pages."""
    for name, (dataset, column) in COLUMNS.items():
        table = kw.datasets.load_dataset(dataset)
        y = table.frame[table.target]
        page = kw.explore(table.frame[[column]], y, task=table.task, name=dataset)
        print(page.save(folder / f"{name}.html"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "gallery"))
