"""In what state a reflector is, and what it is told to do next."""

from __future__ import annotations

import enum
from typing import TypeAlias, final

from msgspec import Struct

from pyinformer.apimachinery import InformerError
from pyinformer.reflector._outage import Ending


class ReflectorState(enum.StrEnum):
    """What a reflector does at this moment."""

    NEW = "new"
    LOADING = "loading"
    WATCHING = "watching"
    PROVING = "proving"
    """The connection was lost: whether the server's history is still the same is asked first."""
    WAITING = "waiting"
    """An attempt failed; the next one follows after a delay."""
    FORBIDDEN = "forbidden"
    """The server refuses: rights are missing. It is asked again, seldom; the cache is kept."""
    ABSENT = "absent"
    """The resource is not served at this moment. It is asked again; the cache is kept."""
    FAILED = "failed"
    """It has given up, and looks seldom whether there is a way out; what was cached stays."""
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
    ended_by: Ending = Ending.NOTHING
    """What ends the wait before its time."""


@final
class Halt(Struct, frozen=True):
    """Command: give up for long, then call `woke`; the cache is kept."""

    error: InformerError


@final
class Prove(Struct, frozen=True):
    """Command: ask whether the server's history is the one that was followed."""


@final
class Verify(Struct, frozen=True):
    """Command: look at one key afresh; an event of it could not be proven right or wrong."""

    key: str


@final
class Discover(Struct, frozen=True):
    """Command: ask whether the resource is served, after a 404."""


Command: TypeAlias = Load | Follow | Watch | Sleep | Halt | Prove | Verify | Discover


@final
class Loaded(Struct, frozen=True):
    """Input: a complete list was taken over by the sink."""

    mode: LoadMode


@final
class LoadRecord(Struct, frozen=True):
    """A load that took place, for whoever asks later how an object came."""

    at: float
    """When: seconds since 1970."""
    mode: str
    reason: str
    """Why everything was loaded; empty for the first load."""
    before: str
    """The position before; empty for the first load."""
    position: str
    is_reset: bool = False
    """It was taken over as another history: what it lacks may have gone in that."""


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
    early: bool = False
    """It ended well before the time that was asked for, as when a server is shut down."""


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

    BOOKMARK = "a bookmark behind the position"
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
    verify: str = ""
    """The key whose event could not be proven stale, to be looked at afresh."""


@final
class WatchSilent(Struct, frozen=True):
    """Input: two watches in succession delivered nothing, though bookmarks were due."""

    seconds: float


class Verdict(enum.Enum):
    """Whether the history of a server is the one that was followed."""

    INTACT = "intact"
    LAGGING = "a server that is behind answered"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@final
class Proved(Struct, frozen=True):
    """Input: the proof has a verdict."""

    verdict: Verdict


@final
class ProofFailed(Struct, frozen=True):
    """Input: the server could not be reached for the proof."""

    error: InformerError


@final
class Verified(Struct, frozen=True):
    """Input: a key was looked at afresh, or could not be."""

    error: InformerError | None = None


@final
class Woke(Struct, frozen=True):
    """Input: the delay is over."""

    by: Ending = Ending.NOTHING
    """What ended it before its time."""


@final
class Discovered(Struct, frozen=True):
    """Input: whether the resource is served."""

    is_served: bool
    """False also if the server would not tell."""
    ask_again_seconds: float = 0.0
    tries_load: bool = False
    """Discovery is not to be relied on: a load is tried next, whatever it said."""


Input: TypeAlias = (
    Loaded
    | LoadFailed
    | WatchEnded
    | WatchFailed
    | WatchBroken
    | WatchSilent
    | Proved
    | ProofFailed
    | Verified
    | Discovered
    | Woke
)
