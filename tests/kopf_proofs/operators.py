"""kopf operators for tests: each in a thread and event loop of its own, on a server under test.

What the handlers were called with is recorded, so that a test can compare it with the server. kopf
cancels every task of its loop at the end, so it must not share a loop with a test.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import threading
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kopf._core.engines.indexing import OperatorIndexers

import kopf
from tests.waiting import poll, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"
PROGRESS = re.compile(r"kopf\.zalando\.org/(?!last-handled)")
STOP_SECONDS = 100.0
READY_SECONDS = 100.0


class AnyServer(Protocol):
    """The embedded server, or the real one."""

    @property
    def url(self) -> str:
        """Its address."""
        ...

    @property
    def ca_file(self) -> Path | None:
        """Its authority."""
        ...


@dataclass(frozen=True)
class Call:
    """One call of a handler."""

    handler: str
    kind: str
    """The type of the event, or the reason of the change."""
    name: str
    uid: str
    version: str
    diff: str = ""
    retry: int = 0


class Operator:
    """One operator, which is started once.

    Attributes:
        registry: its handlers; a test adds them before it starts.
        settings: its settings; a test changes them before it starts.
        calls: the calls of the handlers that `record` made, in their order.
        error: the exception that ended it, or None.
    """

    def __init__(
        self,
        server: AnyServer,
        *,
        token: Callable[[], str] = str,
        url: str | None = None,
        settings: kopf.OperatorSettings | None = None,
        **options: Any,
    ) -> None:
        self.registry = kopf.OperatorRegistry()
        self.settings = settings or kopf.OperatorSettings()
        self.settings.posting.enabled = False
        self.settings.process.ultimate_exiting_timeout = None
        self.calls: list[Call] = []
        self.error: BaseException | None = None
        self.logins = 0
        self._options = {"standalone": True, "clusterwide": True} | options
        self._indexers = OperatorIndexers()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kopf operator")

        async def login(**_: Any) -> kopf.ConnectionInfo:
            self.logins += 1
            ca_path = str(server.ca_file) if server.ca_file else None
            return kopf.ConnectionInfo(
                server=url or server.url, ca_path=ca_path, token=token() or None
            )

        kopf.on.login(registry=self.registry, id="login")(login)

    def record_events(self, *resource: str, **filters: Any) -> None:
        """Record the raw events of a resource."""

        async def seen(event: Any, meta: Any, **_: Any) -> None:
            self.calls.append(_call("event", event["type"] or "LISTED", meta))

        kopf.on.event(*resource, registry=self.registry, id="seen", **filters)(seen)

    def index_names(self, *resource: str) -> None:
        """Keep the name and uid of each object in an index."""

        async def names(name: str, uid: str, **_: Any) -> dict[str, str]:
            return {name: uid}

        kopf.index(*resource, registry=self.registry, id="names")(names)

    def record_changes(
        self, *resource: str, reasons: Sequence[str] = ("create", "update", "resume", "delete")
    ) -> None:
        """Record creations, updates, resumptions and deletions, which use kopf's annotations."""
        for reason in reasons:
            self._record_reason(reason, resource)

    def told(self, kind: str) -> set[str]:
        """Return the names of the objects that events of one type were about."""
        return {call.name for call in list(self.calls) if call.kind == kind}

    def count(self, kind: str) -> int:
        """Return how many calls were of one type."""
        return Counter(call.kind for call in list(self.calls))[kind]

    def indexed(self) -> dict[str, list[str]]:
        """Return the uids that the index has under each name."""
        index: Any = self._indexers.indices["names"]
        return {str(name): [str(uid) for uid in index[name]] for name in list(index)}

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, wait until it is ready, and stop it at the end of the block."""
        self._thread.start()
        try:
            assert poll(
                lambda: self._ready.is_set() or not self.is_running, timeout_seconds=READY_SECONDS
            )
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Ask it to stop, as SIGTERM would, and wait until it has."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended, and closed its loop
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_SECONDS)
        assert not self.is_running, "the operator does not stop"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # kopf, plain too, leaves some TLS connections to the collector

    def _record_reason(self, reason: str, resource: tuple[str, ...]) -> None:
        async def changed(meta: Any, diff: Any, retry: int, **_: Any) -> None:
            self.calls.append(_call(reason, reason, meta, repr(diff), retry))

        getattr(kopf.on, reason)(*resource, registry=self.registry, id=reason)(changed)

    def _run(self) -> None:
        try:
            asyncio.run(self._operate())
        except BaseException as error:
            self.error = error

    async def _operate(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            await kopf.operator(
                registry=self.registry,
                settings=self.settings,
                indexers=self._indexers,
                stop_flag=self._stop,
                ready_flag=self._ready,
                **self._options,
            )
        finally:
            await settle()  # kopf does not wait until its TLS connections are closed


def _call(handler: str, kind: str, meta: Any, diff: str = "", retry: int = 0) -> Call:
    version = str(meta.get("resourceVersion", ""))
    return Call(handler, kind, str(meta.get("name")), str(meta.get("uid")), version, diff, retry)
