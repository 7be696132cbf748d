"""The templates of generated files: `%{name}` is replaced, and `%%` is a percent sign.

`$` and `{{` are left alone, which workflows, shells and Helm use.
"""

from __future__ import annotations

import string
from importlib import resources
from typing import final


@final
class _Template(string.Template):
    delimiter = "%"


def render(template: str, **values: object) -> str:
    """Return the text of a template.

    Args:
        template: the name of a file in `templates`, without its suffix.
        values: for all of its names.
    """
    file = resources.files(__package__) / "templates" / f"{template}.template"
    return _Template(file.read_text(encoding="utf-8")).substitute(values)
