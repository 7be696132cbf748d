"""Translate kopf's settings, which may change at any time, into those of a reflector.

All of it is computed again for each request, as kopf reads its settings.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.client.transport import SessionTimeouts
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    ResourceExpiredError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)

if TYPE_CHECKING:
    import random

    from kopf._cogs.configs.configuration import (
        NetworkingSettings,
        OperatorSettings,
        WatchingSettings,
    )
    from kopf._cogs.structs.references import Resource

    from pyinformer.errors import InformerError

_log = get_logger(__name__)

_USUAL: Final = ReflectorOptions()
_PAGE_SIZE: Final = 500
_INACTIVITY_SECONDS: Final = 70.0
_MOST_BACKOFFS: Final = 1000  # of an iterable without an end
_UNKNOWN_BACKOFF_SECONDS: Final = 1.0  # a generator cannot be read without using it up
_MOST_DOUBLINGS: Final = 20  # the reflector's own limit is far lower
_RETRIED: Final = (TransportError, ServerError, ForbiddenError, TooManyRequestsError)


def reflector_options(settings: OperatorSettings, rng: random.Random) -> ReflectorOptions:
    """Return the options of the next request of a stream.

    Raises:
        InvalidArgumentError: a setting has a value that cannot work.
    """
    watching, networking = settings.watching, settings.networking
    ends = [each for each in (watching.server_timeout, watching.client_timeout) if each is not None]
    inactivity = _inactivity_seconds(watching)
    chunk_size: int | None = _of(watching, "chunk_size")

    def limit(failures: int, error: InformerError) -> float:
        return most_seconds(failures, error, watching, networking)

    return ReflectorOptions(
        use_watch_list=bool(_of(watching, "initial_streaming")),
        page_size=_PAGE_SIZE if chunk_size is None else chunk_size,
        silence_seconds=math.inf if inactivity is None else inactivity,
        watch_timeout_seconds=(min(ends), min(ends)) if ends else _USUAL.watch_timeout_seconds,
        max_retry_seconds=limit,
        rng=rng,
    )


def selectors_of(settings: OperatorSettings, resource: Resource) -> tuple[str, str, str]:
    """Return the label, field and shard selectors of a resource; empty ones select all."""
    watching = settings.watching
    labels = ",".join(sorted(_selectors(watching, "label_selectors", resource)))
    fields = ",".join(sorted(_selectors(watching, "field_selectors", resource)))
    shard, *_ = _selectors(watching, "shard_selectors", resource) or [""]
    return labels, fields, shard


def _selectors(watching: WatchingSettings, name: str, resource: Resource) -> list[str]:
    """Return the different selectors of one setting in their order."""
    chosen = _of(watching, name)
    return [] if chosen is None else list(dict.fromkeys(chosen.collect(resource)))


def _inactivity_seconds(watching: WatchingSettings) -> float | None:
    """Return how long a watch may be silent; before kopf 1.44 the default of later versions."""
    found: float | None = getattr(watching, "inactivity_timeout", _INACTIVITY_SECONDS)
    return found


def _of(settings: object, name: str) -> Any:  # noqa: ANN401 - kopf's types
    """Return a setting; None if this version of kopf has none of that name."""
    return getattr(settings, name, None)


def timeouts_of(settings: OperatorSettings, *, watch: bool) -> SessionTimeouts:
    """Return the deadlines of the next request."""
    watching, networking = settings.watching, settings.networking
    total, connect = networking.request_timeout, networking.connect_timeout
    if not watch:
        return SessionTimeouts(connect_seconds=connect, headers_seconds=total, total_seconds=total)
    connects = (watching.connect_timeout, connect, total)
    return SessionTimeouts(
        connect_seconds=next((each for each in connects if each is not None), None),
        headers_seconds=_inactivity_seconds(watching),
        total_seconds=total,
    )


def warn_of_replaced(settings: OperatorSettings, warned: set[str]) -> None:
    """Log each setting that cannot be followed, once, and what replaces it.

    Args:
        settings: kopf's settings.
        warned: the names of those that were logged; they are added.
    """
    name = "settings.networking.error_backoffs"
    if name in warned or _backoffs(settings.networking.error_backoffs) is not None:
        return
    warned.add(name)
    _log.warning(
        "%s cannot be read without using it up: streams wait for %.0f s at most after a failure,"
        " and a refusal never turns liveness red; use a tuple instead",
        name,
        _UNKNOWN_BACKOFF_SECONDS,
    )


def patience_seconds(networking: NetworkingSettings) -> float:
    """Return for how long kopf repeats a request before it gives up; may be infinite."""
    backoffs = _backoffs(networking.error_backoffs)
    return math.inf if backoffs is None else sum(backoffs)


def most_seconds(
    failures: int,
    error: InformerError,
    watching: WatchingSettings,
    networking: NetworkingSettings,
) -> float:
    """Return the longest wait before the next attempt, so that none comes later than kopf's own.

    kopf repeats a request after each of its `error_backoffs`. When they are used up it begins again
    after an outage of the network or a 429. After other errors it ends the operator, and here the
    waits grow from a second. After a 410 in a watch it lists again after its `reconnect_backoff`,
    however often that happens; it does not retry a 410 to a list.

    Args:
        failures: how many attempts in a row have failed; 0 if a watch broke that had lasted.
        error: the failure.
        watching: kopf's settings.
        networking: kopf's settings.
    """
    is_requested = isinstance(error, APIStatusError) and error.retry_after_seconds is not None
    if is_requested and _of(networking, "enforce_retry_after"):
        return 0.0  # only the server's Retry-After counts
    if isinstance(error, ResourceExpiredError) and failures <= 1:  # the last list has worked
        return watching.reconnect_backoff
    if not isinstance(error, _RETRIED):
        return math.inf
    if failures == 0:
        return 0.0
    backoffs = _backoffs(networking.error_backoffs)
    if backoffs is None:
        return _UNKNOWN_BACKOFF_SECONDS
    if failures <= len(backoffs):
        return backoffs[failures - 1]
    if not isinstance(error, TransportError | TooManyRequestsError):
        return _first_seconds_after(failures - len(backoffs))
    turn = (failures - 1) % (len(backoffs) + 1)
    return watching.reconnect_backoff if turn == len(backoffs) else backoffs[turn]


def _first_seconds_after(failures: int) -> float:
    """Return 1, 2, 4, ... seconds, for the attempts after those that kopf makes."""
    return 2.0 ** min(failures - 1, _MOST_DOUBLINGS)


def _backoffs(given: float | Iterable[float]) -> Sequence[float] | None:
    """Return the backoffs; None if they have no end, or can be read only once."""
    if not isinstance(given, Iterable):
        return (given,)
    if not isinstance(given, Sized):
        return None
    return tuple(islice(given, _MOST_BACKOFFS))
