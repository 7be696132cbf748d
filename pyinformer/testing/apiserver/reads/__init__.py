"""Lists, watches and logs, and the representations in which they are sent."""

from pyinformer.testing.apiserver.reads._listing import Page, list_page, render_page
from pyinformer.testing.apiserver.reads._logs import log_of, parse_log_options, serve_log
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
    "log_of",
    "negotiate",
    "parse_log_options",
    "render_page",
    "serve_log",
]
