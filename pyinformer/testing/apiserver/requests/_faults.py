"""The fault script: which requests get a faulty response, and what is wrong with it.

Each request gets the first Fault that applies to it. All chances come from one seeded generator,
so the same seed and the same requests give the same faults. Any thread may add, clear and release.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_number, check_type
from pyinformer.testing.apiserver.requests._body_edits import Edit
from pyinformer.testing.apiserver.requests._request_log import RequestRecord
from pyinformer.testing.apiserver.requests.failures import Failure

Cut: TypeAlias = Literal["reset", "close", "chunk", "end"]
"""How a response ends early: with RST, with FIN between chunks or inside of one, or normally."""

Chance: TypeAlias = int | tuple[int, int]
"""A number of bytes, or an inclusive range from which a number is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong, for the requests it matches.

    Attributes:
        verb: only requests of this verb (`list`, `watch`, `get`, ...); None is any.
        resource: only of this resource (`pods`, `deployments.apps`); None is any.
        namespace: only in this namespace ("" is across namespaces); None is any.
        parameter: only requests with this query parameter, such as `continue` or
            `sendInitialEvents`; None is any.
        match: only requests for which this returns true; called in the server's thread.
        skip: the number of matching requests that are answered normally first.
        times: how many requests it affects; None is all.
        probability: the chance that it applies, drawn from the script's seed.
        delay_seconds: the wait before the answer, which is correct unless another option is set.
        hang: do not answer until the script releases the request.
        refuse: cut the connection without an answer.
        status: answer with this HTTP status and, without `body`, a Status object.
        reason: the Status's reason; None is the usual one.
        message: the Status's message.
        retry_after_seconds: sent as Retry-After and in the details of the Status.
        body: answer with these bytes (status 200 if `status` is None).
        content_type: of `body`.
        frames: bytes sent before the correct body, each in its own chunk.
        cut_after_bytes: the number of body bytes after which the response ends early.
        cut: how it ends early; see Cut.
        stall_after_bytes: the number of bytes after which the response waits for a release.
        edit: what is changed in the correct body; see Edit.
        gzip_members: compress each piece of the body as a gzip member of its own.
    """

    verb: str | None = None
    resource: str | None = None
    namespace: str | None = None
    parameter: str | None = None
    match: Callable[[RequestRecord], bool] | None = None
    skip: int = 0
    times: int | None = 1
    probability: float = 1.0
    delay_seconds: float = 0.0
    hang: bool = False
    refuse: bool = False
    status: int | None = None
    reason: str | None = None
    message: str = ""
    retry_after_seconds: int | None = None
    body: bytes | None = None
    content_type: str = "application/json"
    frames: tuple[bytes, ...] = ()
    cut_after_bytes: Chance | None = None
    cut: Cut = "reset"
    stall_after_bytes: Chance | None = None
    edit: Edit | None = None
    gzip_members: bool = False

    def __post_init__(self) -> None:
        if self.cut not in get_args(Cut):
            raise InvalidArgumentError("cut", f"has to be one of {', '.join(get_args(Cut))}")
        if self.edit is not None and self.edit not in get_args(Edit):
            raise InvalidArgumentError("edit", f"has to be one of {', '.join(get_args(Edit))}")
        check_number("probability", self.probability)
        if not 0.0 <= self.probability <= 1.0:
            raise InvalidArgumentError("probability", "has to be between 0 and 1")
        for name in ("skip", "times", "delay_seconds", "retry_after_seconds"):
            value = getattr(self, name)
            if value is not None:
                check_number(name, value)
            if value is not None and value < 0:
                raise InvalidArgumentError(name, "must not be negative")

    @property
    def changes_body(self) -> bool:
        """Whether it changes a correct body, which a proxy then has to receive plainly."""
        return self.edit is not None or self.gzip_members

    def applies_to(self, request: RequestRecord) -> bool:
        """Return whether this fault is meant for a request."""
        return (
            self.verb in (None, request.verb)
            and self.resource in (None, request.resource)
            and self.namespace in (None, request.namespace)
            and (self.parameter is None or self.parameter in request.query)
            and (self.match is None or self.match(request))
        )


@dataclass(slots=True, eq=False)
class _Entry:
    fault: Fault
    seen: int = 0
    struck: int = 0

    def is_due(self, rng: random.Random) -> bool:
        self.seen += 1
        fault = self.fault
        if self.seen <= fault.skip or (fault.times is not None and self.struck >= fault.times):
            return False
        if fault.probability < 1.0 and rng.random() >= fault.probability:
            return False
        self.struck += 1
        return True


class FaultScript:
    """The faults of one server.

    Args:
        seed: the seed of the generator for all chances.

    Raises:
        InvalidTypeError: it is not an int.
    """

    def __init__(self, seed: int = 0) -> None:
        check_type("seed", seed, int)
        self._rng = random.Random(seed)
        self._changed = threading.Condition()
        self._entries: list[_Entry] = []
        self._held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._first_lists: dict[str, bytes] = {}
        self._struck = 0

    @property
    def struck(self) -> int:
        """The number of requests that a fault has affected."""
        return self._struck

    @property
    def held(self) -> int:
        """The number of responses that stall or hang now."""
        with self._changed:
            return len(self._held)

    def add(self, *faults: Fault) -> None:
        """Append faults; each request gets the first one that applies."""
        with self._changed:
            self._entries.extend(_Entry(fault) for fault in faults)

    def clear(self) -> None:
        """Remove all faults; responses that stall now stay stalled until `release`."""
        with self._changed:
            self._entries.clear()
            self._first_lists.clear()

    def release(self) -> int:
        """Continue every response that stalls or hangs, and return their number."""
        with self._changed:
            held, self._held = self._held, []
        for loop, released in held:
            loop.call_soon_threadsafe(released.set)
        return len(held)

    def wait_for_held(self, count: int = 1, *, timeout_seconds: float = 10.0) -> None:
        """Block until this number of responses stall or hang.

        Raises:
            TimeoutError: the number was not reached in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._held) >= count, timeout_seconds):
                message = f"{len(self._held)} responses are held, not {count}"
                raise TimeoutError(message)

    def pick(self, request: RequestRecord) -> Fault | None:
        """Draw the chances for a request and return its fault or None; called by the server."""
        with self._changed:
            for entry in self._entries:
                if entry.fault.applies_to(request) and entry.is_due(self._rng):
                    return self._drawn(entry.fault)
            return None

    def drawn(self, fault: Fault) -> Fault:
        """Draw the chances in a fault that an interceptor has chosen; called by the server."""
        with self._changed:
            return self._drawn(fault)

    def _drawn(self, fault: Fault) -> Fault:
        self._struck += 1
        return replace(
            fault,
            cut_after_bytes=self._draw(fault.cut_after_bytes),
            stall_after_bytes=self._draw(fault.stall_after_bytes),
        )

    def first_list(self, target: str, body: bytes) -> bytes:
        """Return the first body that was passed for a target since the faults were cleared."""
        with self._changed:
            return self._first_lists.setdefault(target, body)

    async def hold(self) -> None:
        """Wait for `release`; called by the server.

        Cancellation:
            Safe; a cancelled response does not count as held.
        """
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self._changed:
            self._held.append(entry)
            self._changed.notify_all()
        try:
            await entry[1].wait()
        finally:
            with self._changed:
                if entry in self._held:
                    self._held.remove(entry)

    def _draw(self, chance: Chance | None) -> int | None:
        return self._rng.randint(*chance) if isinstance(chance, tuple) else chance


def scripted_failure(fault: Fault, status: int) -> Failure:
    """Return the failure that a fault asks for."""
    seconds = fault.retry_after_seconds
    details = {} if seconds is None else {"retryAfterSeconds": seconds}
    message = fault.message or "a fault of the fault script"
    return Failure(status, message, reason=fault.reason, details=details)
