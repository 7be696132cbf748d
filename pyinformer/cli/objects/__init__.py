"""The commands `watch` and `get`: they show the objects in an informer's cache."""

from pyinformer.cli.objects._command import Command, DisplayOptions
from pyinformer.cli.objects._get import Get, ObjectFilter
from pyinformer.cli.objects._record import RecordCommand
from pyinformer.cli.objects._session import CommandError, ServerAccess, WatchTarget
from pyinformer.cli.objects._watch import WatchCommand

__all__ = [
    "Command",
    "CommandError",
    "DisplayOptions",
    "Get",
    "ObjectFilter",
    "RecordCommand",
    "ServerAccess",
    "WatchCommand",
    "WatchTarget",
]
