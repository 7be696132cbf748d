"""The states of a reflector, the commands of its machine, and the inputs that end them."""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias, final

from msgspec import Struct

from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.errors import InformerError, ListInconsistentError, ProtocolError


class ReflectorState(enum.StrEnum):
    """What a reflector does now."""

    NEW = "new"
    LOADING = "loading"
    WATCHING = "watching"
    PROVING = "proving"
    """The connection was lost: the reflector checks whether the server's history is the same."""
    WAITING = "waiting"
    """An attempt failed; the next one follows after a delay."""
    POLLING = "polling"
    """Watches are refused, or stand still, while lists are answered: everything is listed again and
    again."""
    FORBIDDEN = "forbidden"
    """The server refuses: rights are missing. Attempts are rare; the cache is kept."""
    ABSENT = "absent"
    """The server does not serve the resource now. The reflector retries; the cache is kept."""
    FAILED = "failed"
    """The reflector has given up and retries rarely; the cache is kept."""
    STOPPED = "stopped"


class LoadMode(enum.Enum):
    """The request that loads everything that exists."""

    WATCH_LIST = "watch-list"
    PAGED = "paged list"
    WHOLE = "unpaged list"


LoadCause: TypeAlias = Literal[
    "initial", "expired", "history", "audit", "outage", "poll", "absence", "request", "failure"
]
"""Why everything is loaded: for the first time; the position expired; the server's history is
another; an audit found differences; the server was away for long; a list has no version to watch
from, or watches are refused; the resource was not served; the program asked; a watch failed or
could not be followed."""


class WakeCause(enum.Enum):
    """What ends a reflector's wait, apart from time."""

    TIME = "nothing but time"
    ANSWER = "an answer to a probe"
    RECOVERY = "an answer to a probe after one without an answer"
    RIGHTS = "a request that was refused for missing rights and is no longer"


class Breach(enum.Enum):
    """Why the reflector closed a watch."""

    BOOKMARK = "a bookmark behind the position"
    MALFORMED = "malformed resource version"
    SUSPECT = "the stream is out of order"
    UNREADABLE = "a frame that cannot be read"


@final
class ListBehindError(ProtocolError):
    """A complete list is older than what is cached: the server lags, or its history is another."""


@final
class ListUnorderedError(ListInconsistentError):
    """A list holds an object that is newer than the list: its versions are not ordered."""


@final
class ListWithoutVersionError(ProtocolError):
    """A list has no resource version: a wrong body, or an API without versions."""


@final
class PagesInconsistentError(ListInconsistentError):
    """The pages of a list are not one list: the server, or a proxy, does not know pages."""


@final
class WatchListUnfinishedError(ListInconsistentError):
    """A watch-list brought nothing more and no end: the server is slow, or knows no watch-lists."""


@final
class WatchListUnspokenError(ListInconsistentError):
    """A watch-list shows that the server behind the resource does not know watch-lists."""


@final
class Load(Struct, frozen=True):
    """Command: load everything that exists."""

    mode: LoadMode


@final
class Follow(Struct, frozen=True):
    """Command: continue the stream of the watch-list that was just loaded."""


@final
class Watch(Struct, frozen=True):
    """Command: open a watch at the guard's resume position."""


@final
class Sleep(Struct, frozen=True):
    """Command: wait, then report `Woke`."""

    seconds: float
    wake_on: WakeCause = WakeCause.TIME
    """What ends the wait early."""


@final
class Halt(Struct, frozen=True):
    """Command: give up for a long time, then report `Woke`; the cache is kept."""

    error: InformerError


@final
class Prove(Struct, frozen=True):
    """Command: prove that the server's history is the one that was followed."""


@final
class Verify(Struct, frozen=True):
    """Command: list one key, because an event of it could not be proven right or wrong."""

    key: str


@final
class Discover(Struct, frozen=True):
    """Command: ask discovery whether the resource is served, after a 404."""


Command: TypeAlias = Load | Follow | Watch | Sleep | Halt | Prove | Verify | Discover


@final
class Loaded(Struct, frozen=True):
    """Input: the sink took a complete list."""

    mode: LoadMode


@final
class LoadFailed(Struct, frozen=True):
    """Input: a load ended before it was complete."""

    mode: LoadMode
    error: InformerError
    pages: int = 0
    """How many pages had been read completely."""
    established: bool = False
    """Whether the server had accepted the request before it failed."""


@final
class WatchEnded(Struct, frozen=True):
    """Input: a watch's body ended properly."""

    events: int
    seconds: float
    early: bool = False
    """Whether it ended well before its requested time, as when a server shuts down."""


@final
class WatchFailed(Struct, frozen=True):
    """Input: a watch was refused, broke, or sent ERROR."""

    error: InformerError
    established: bool
    """Whether the server had accepted the watch and sent something before it failed."""
    seconds: float = 0.0
    """How long it was open."""


@final
class WatchBroken(Struct, frozen=True):
    """Input: the reflector closed a watch whose content cannot be followed."""

    breach: Breach
    error: InformerError
    digest: bytes = b""
    """Identifies an unreadable frame."""
    verify: str = ""
    """The key whose event could not be proven stale; it is listed next."""


@final
class WatchSilent(Struct, frozen=True):
    """Input: two watches in a row delivered nothing, though bookmarks were due."""

    seconds: float


@final
class WatchStill(Struct, frozen=True):
    """Input: a watch does not follow what lists of its resource show."""

    is_certain: bool
    """Whether that is known; if not, nothing shows that it does follow them."""


@final
class Proved(Struct, frozen=True):
    """Input: the proof of the history has a verdict."""

    verdict: HistoryVerdict
    lists_work: bool = False
    """Whether a list was answered though nothing could be decided."""


@final
class ProofFailed(Struct, frozen=True):
    """Input: the server could not be reached for the proof."""

    error: InformerError


@final
class Verified(Struct, frozen=True):
    """Input: a key was listed, or could not be."""

    error: InformerError | None = None


@final
class Woke(Struct, frozen=True):
    """Input: the delay is over."""

    by: WakeCause = WakeCause.TIME
    """What ended it."""


@final
class Discovered(Struct, frozen=True):
    """Input: discovery answered."""

    is_served: bool
    retry_seconds: float = 0.0
    tries_load: bool = False
    """Whether a load is tried next whatever discovery said, since it may be incomplete."""


@final
class DiscoveryFailed(Struct, frozen=True):
    """Input: discovery did not answer, so nothing confirms the 404."""

    error: InformerError


Input: TypeAlias = (
    Loaded
    | LoadFailed
    | WatchEnded
    | WatchFailed
    | WatchBroken
    | WatchSilent
    | WatchStill
    | Proved
    | ProofFailed
    | Verified
    | Discovered
    | DiscoveryFailed
    | Woke
)
