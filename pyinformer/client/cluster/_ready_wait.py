"""Reads an object until it is ready, for scripts; a reconcile returns instead, and is called again.

The object is read at growing intervals: one for which a script waits does not need a watch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio

from pyinformer import readiness
from pyinformer._runtime.tasks import loop_time
from pyinformer.errors import (
    InvalidObjectError,
    NotFoundError,
    ProtocolError,
    ReadyTimeoutError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from pyinformer.objects import JSONObject, KubeObject
from pyinformer.readiness import Readiness

_FIRST_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 2.0
_PASSING: Final = (
    InvalidObjectError, ProtocolError, ServerError, TooManyRequestsError, TransportError,
)  # fmt: skip
"""Of a server, or of a proxy before it, that is not there yet, or busy."""


def shown_object(body: JSONObject) -> str:
    """Return the name of an object for errors, whether its server knows it or not."""
    metadata = body.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    place = f"{given['namespace']}/" if given.get("namespace") else ""
    return f"{body.get('kind')} {place}{given.get('name')}"


async def wait_until_ready(
    read: Callable[[], Awaitable[KubeObject]],
    *,
    shown: str,
    timeout_seconds: float,
    rules: Mapping[tuple[str, str], Callable[[JSONObject], Readiness]] | None,
) -> KubeObject:
    """Return an object as soon as it is ready.

    Args:
        read: reads it.
        shown: the object, for the error.
        timeout_seconds: for how long it is read.
        rules: as for `readiness.of`.

    Raises:
        ReadyTimeoutError: it was not ready in time.
        APIStatusError: the server refused to show it.

    Cancellation:
        Safe.
    """
    began_at = loop_time()
    reason, pause_seconds = "was not read", _FIRST_SECONDS
    with anyio.move_on_after(timeout_seconds):
        while True:
            try:
                found = await read()
                answer = readiness.of(found, rules=rules)
                if answer.state == "Ready":
                    return found
                reason = answer.reason
            except NotFoundError as error:
                if not error.names_object:
                    raise  # the kind is not served
                reason = "does not exist"
            except _PASSING as error:
                reason = str(error)
            await anyio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _MOST_SECONDS)
    raise ReadyTimeoutError(shown=shown, reason=reason, waited_seconds=loop_time() - began_at)
