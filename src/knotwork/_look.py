"""The look of everything: colours, type sizes, and the logo. Figures take them from here, pages from ``_look.css``.

A test compares the two, so that a colour has one value wherever it is seen.
"""

import base64
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Theme:
    """Colours of one mode; data colours differ in lightness, for colour-blind readers and prints.

    Parameters
    ----------
    background, soft : str
        Background of pages and figures, and of cards.
    ink, muted, link, line : str
        Text, secondary text, links, and grid lines.
    blue, orange, green, pink, grey, red : str
        Colours of data.
    """

    background: str
    soft: str
    ink: str
    muted: str
    link: str
    line: str
    blue: str
    orange: str
    green: str
    pink: str
    grey: str
    red: str

    @property
    def data_colours(self) -> tuple[str, ...]:
        """Colours of data, in the order in which figures use them."""
        return self.blue, self.orange, self.green, self.pink, self.red, self.grey


LIGHT = Theme(
    background="#FFFFFF", soft="#F4F6F8", ink="#1F2328", muted="#5C646C", link="#005787", line="#D9DDE1",
    blue="#005787", orange="#CA8008", green="#008067", pink="#A23881", grey="#78828B", red="#85180D",
)  # fmt: skip
"""Colours of figures for light backgrounds."""

DARK = Theme(
    background="#15181C", soft="#1E2329", ink="#E8EAED", muted="#9AA2AB", link="#7CC4F0", line="#343A41",
    blue="#3B8DD5", orange="#FFCC6F", green="#56D6B1", pink="#EB92C5", grey="#707881", red="#FF6C59",
)  # fmt: skip
"""Colours of figures for dark backgrounds. Its blue stands out on light ground, too: notebooks have either."""


@dataclass(frozen=True)
class TypeSizes:
    """Sizes of text in figures, in typographic points.

    Parameters
    ----------
    tiny, small, text, title : float
        Crowded labels; names and legends; axes; titles of panels.
    """

    tiny: float = 7.5
    small: float = 8.0
    text: float = 9.0
    title: float = 9.5


TYPE = TypeSizes()

FIGURE_FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', system-ui, sans-serif"
"""Fonts of figures: the first one is that for which matplotlib computes the layout."""


@cache
def icon() -> str:
    """Return the logo as a data address.

    Examples
    --------
    >>> icon()[:26]
    'data:image/svg+xml;base64,'
    """
    logo = files("knotwork").joinpath("_logo.svg").read_bytes().strip()
    return f"data:image/svg+xml;base64,{base64.b64encode(logo).decode('ascii')}"


@cache
def look_style() -> str:
    """Return the style that all pages share: colours, type, and the class ``logo``."""
    style = files("knotwork").joinpath("_look.css").read_text("utf-8")
    logo = f'.logo {{ flex: none; width: 30px; height: 30px; background: url("{icon()}") center / contain no-repeat; }}'
    root = ":root { color-scheme: light dark; font: var(--size)/1.5 var(--font); }"
    return f"{style}{root}\n{logo}\n"
