"""In what state a reflector is, and what it is told to do next."""

from __future__ import annotations

import enum
from typing import TypeAlias, final

from msgspec import Struct

from pyinformer.apimachinery import InformerError


class ReflectorState(enum.StrEnum):
    """What a reflector does at this moment."""

    NEW = "new"
    LOADING = "loading"
    WATCHING = "watching"
    WAITING = "waiting"
    """An attempt failed; the next one follows after a delay."""
    FAILED = "failed"
    """It has given up; what was cached stays."""
    STOPPED = "stopped"


class LoadMode(enum.Enum):
    """How everything that exists is asked for."""

    WATCH_LIST = "watch-list"
    PAGED = "paged list"
    WHOLE = "unpaged list"


@final
class Load(Struct, frozen=True):
    """Command: load everything that exists."""

    mode: LoadMode


@final
class Follow(Struct, frozen=True):
    """Command: go on with the stream of the watch-list that has just been loaded."""


@final
class Watch(Struct, frozen=True):
    """Command: open a watch at the guard's resume position."""


@final
class Sleep(Struct, frozen=True):
    """Command: wait, then call `woke`."""

    seconds: float


@final
class Halt(Struct, frozen=True):
    """Command: give up; the cache is kept."""

    error: InformerError


Command: TypeAlias = Load | Follow | Watch | Sleep | Halt


@final
class Loaded(Struct, frozen=True):
    """Input: a complete list was taken over by the sink."""

    mode: LoadMode


@final
class LoadFailed(Struct, frozen=True):
    """Input: a load ended before it was complete."""

    mode: LoadMode
    error: InformerError
    pages: int = 0
    """Pages that had been read completely."""
    established: bool = False
    """The server had accepted the request before it failed."""


@final
class WatchEnded(Struct, frozen=True):
    """Input: a watch's body ended properly."""

    events: int
    seconds: float


@final
class WatchFailed(Struct, frozen=True):
    """Input: a watch was refused, broke, or said ERROR."""

    error: InformerError
    established: bool
    """The server had accepted the watch and sent something before it failed."""
    seconds: float = 0.0
    """How long it was open."""


class Breach(enum.Enum):
    """Why a watch was closed by us."""

    MALFORMED = "malformed resource version"
    SUSPECT = "the stream is out of order"
    UNREADABLE = "a frame that cannot be read"


@final
class WatchBroken(Struct, frozen=True):
    """Input: we closed a watch whose content cannot be followed."""

    breach: Breach
    error: InformerError
    digest: bytes = b""
    """Tells an unreadable frame from another."""


@final
class Woke(Struct, frozen=True):
    """Input: the delay is over."""


Input: TypeAlias = Loaded | LoadFailed | WatchEnded | WatchFailed | WatchBroken | Woke
