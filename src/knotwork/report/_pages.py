"""Pages of HTML from templates that share a style."""

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

__all__ = ["page_template"]


def page_template(name: str) -> Any:
    """Return a template of the folder ``templates``, whose method ``render`` returns a page.

    Parameters
    ----------
    name : str
        Name of its file.
    """
    loader = PackageLoader("knotwork.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["whole"] = _whole
    return environment.get_template(name)


def _whole(text: str) -> Markup:
    """Return text in which names with hyphens are not broken over lines."""
    return Markup(re.sub(r"[\w.]+(?:-\w+)+", r'<i class="w">\g<0></i>', str(escape(text))))
