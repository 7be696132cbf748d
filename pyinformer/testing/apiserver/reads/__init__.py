"""Lists and watches, and the representations in which they are sent."""

from pyinformer.testing.apiserver.reads._listing import Page, list_page, render_page
from pyinformer.testing.apiserver.reads._representations import Representation, negotiate
from pyinformer.testing.apiserver.reads._watching import (
    ExpiredWatch,
    WatchSettings,
    WatchStream,
    await_revision,
)

__all__ = [
    "ExpiredWatch",
    "Page",
    "Representation",
    "WatchSettings",
    "WatchStream",
    "await_revision",
    "list_page",
    "negotiate",
    "render_page",
]
