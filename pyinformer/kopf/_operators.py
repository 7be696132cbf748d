"""What the streams of one kopf operator share, found by the operator's vault.

Every task of an operator has its vault in its context. Settings cannot identify an operator: two
operators of two clusters may share one settings object, and must not share a history.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary, WeakSet

import anyio
from kopf._cogs.clients import auth
from kopf._cogs.structs.references import CRDS, NAMESPACES

from pyinformer.cache.reflector import FollowedServer, RequestBudgetOptions
from pyinformer.client.transport import SessionConnection
from pyinformer.errors import LifecycleError
from pyinformer.kopf._ended_streams import EndedStreams
from pyinformer.kopf._index_gate import Gate
from pyinformer.kopf._initial_scan import InitialScan
from pyinformer.kopf._listers import Informers, StreamCaches
from pyinformer.kopf._missed_kind_rescans import MissedKindRescans
from pyinformer.kopf._refused_requests import RefusedRequests
from pyinformer.kopf._shared_scans import SharedScans
from pyinformer.kopf._vault_session import VaultSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kopf._cogs.configs.configuration import OperatorSettings
    from kopf._cogs.structs.bodies import RawBody
    from kopf._cogs.structs.credentials import Vault
    from kopf._cogs.structs.references import Resource
    from kopf._core.intents.registries import OperatorRegistry

    from pyinformer.kopf._stream import Stream

# High limits: kopf lists and watches everything at once, and no request may be sent later than kopf
# would send it.
_TAKE_SECONDS: Final = 10.0  # kopf takes events without waiting for handlers
_BUDGET: Final = RequestBudgetOptions(max_lists=32, attempts_per_second=1000.0, burst=1000)


@final
class KopfOperator:
    """One kopf operator.

    Args:
        settings: its settings.
        registry: its handlers.
    """

    def __init__(self, settings: OperatorSettings, registry: OperatorRegistry | None) -> None:
        self.settings: OperatorSettings = settings
        """Its settings."""
        self.registry: OperatorRegistry | None = registry
        """Its handlers; None if they are not known, as in kopf's own tests."""
        self.connection: SessionConnection = SessionConnection(VaultSession(settings))
        self.server: FollowedServer = FollowedServer(_BUDGET)
        """What its streams know of the server together."""
        self.rng: random.Random = random.Random()
        self.caches: StreamCaches = StreamCaches()
        """What its streams keep."""
        self.informers: Informers = Informers(self.caches, _current_caches)
        """The listers of its handlers."""
        self.streams: list[Stream] = []
        """The streams that are read now."""
        self.gate: Gate = Gate(self.streams)
        """What its handlers wait for before they begin."""
        self.plain: int = 0
        """How many streams are plain kopf."""
        self.initial_scan: InitialScan = InitialScan()
        """What kopf saw of resources and namespaces before it watched them."""
        self.has_scanned: bool = False
        """Whether the first scan of the server's resources has succeeded."""
        self.has_touched: bool = False
        """Whether a keep-alive for peers has succeeded."""
        self.has_fetched: bool = False
        """Whether a fetch of objects has succeeded."""
        self.warned: set[str] = set()
        """The settings of which a warning was logged."""
        self.refused: RefusedRequests = RefusedRequests()
        """The requests outside of streams that the server refuses."""
        self.scans: SharedScans = SharedScans()
        """The later scans, which concurrent callers share."""
        self.rescans: MissedKindRescans = MissedKindRescans(self.streams, self.initial_scan)
        """The kinds that are looked for again."""
        self.left: EndedStreams = EndedStreams()
        """What its ended streams had reported."""

    def begin(self, stream: Stream) -> None:
        """Add a stream that begins."""
        self.streams.append(stream)
        self.caches.join(stream)

    def end(self, stream: Stream) -> None:
        """Remove a stream; a second call does nothing."""
        if stream in self.streams:
            self.streams.remove(stream)
            self.caches.leave(stream)
            self.left.keep(stream.resource, stream.namespace, stream.left())
            if not self.streams:
                self.rescans.close()

    async def report_contents(self, resource: Resource, body: RawBody) -> None:
        """Report the objects of a definition or namespace that is deleted, before it is reported.

        When kopf receives it, it ends their streams, and a silent one has not reported them.

        Args:
            resource: that of the deleted object.
            body: the deleted object.

        Cancellation:
            Safe.
        """
        concerned = list(self._streams_of_contents(resource, body))
        for stream in concerned:
            stream.report_gone(body["metadata"].get("resourceVersion", ""))
        with anyio.move_on_after(_TAKE_SECONDS):
            for stream in concerned:
                await stream.wait_taken()

    def _streams_of_contents(self, resource: Resource, body: RawBody) -> Iterator[Stream]:
        is_definition, is_namespace = CRDS.check(resource), NAMESPACES.check(resource)
        spec = body.get("spec") or {}
        kind = (spec.get("group"), (spec.get("names") or {}).get("plural"))
        for stream in self.streams:
            is_of_kind = is_definition and (stream.resource.group, stream.resource.plural) == kind
            if is_of_kind or (is_namespace and stream.namespace == body["metadata"].get("name")):
                yield stream

    def needs_bodies(self, resource: Resource) -> bool:
        """Return whether a handler may have to receive a missed deletion with its body."""
        if self.registry is None or self.caches.wants(resource):
            return True
        handlers = (self.registry._watching, self.registry._spawning)  # noqa: SLF001 - kopf's
        return any(each.has_handlers(resource=resource) for each in handlers)


_operators: Final[WeakKeyDictionary[Vault, KopfOperator]] = WeakKeyDictionary()
_refused: Final[WeakSet[Vault]] = WeakSet()
_lock: Final = threading.Lock()  # operators may run in several threads


def register(settings: OperatorSettings, registry: OperatorRegistry) -> KopfOperator:
    """Record the operator that begins in this context, and return it.

    It replaces an earlier operator with the same vault, in another event loop: they share nothing.

    Raises:
        LookupError: no operator begins in this context.
    """
    operator, vault = KopfOperator(settings, registry), auth.vault_var.get()
    with _lock:
        _operators[vault] = operator
        _refused.discard(vault)
    return operator


def operator_of(settings: OperatorSettings) -> KopfOperator:
    """Return the operator of this context.

    Raises:
        LookupError: no operator runs in this context.
    """
    with _lock:
        vault = auth.vault_var.get()
        found = _operators.get(vault)
        if found is None:
            found = _operators[vault] = KopfOperator(settings, None)
        return found


def refuse() -> None:
    """Keep the streams of the operator of this context on plain kopf; without one, do nothing.

    A stream outside of an operator is plain kopf in any case.
    """
    vault = auth.vault_var.get(None)
    with _lock:
        if vault is not None:
            _refused.add(vault)


def is_refused() -> bool:
    """Return whether the streams of the operator of this context stay on plain kopf."""
    vault = auth.vault_var.get(None)
    with _lock:
        return vault is not None and vault in _refused


def current_operator() -> KopfOperator | None:
    """Return the operator of this context, or None."""
    vault = auth.vault_var.get(None)
    with _lock:
        return None if vault is None else _operators.get(vault)


def _current_caches() -> StreamCaches | None:
    operator = current_operator()
    return None if operator is None else operator.caches


def operator_for_handlers() -> KopfOperator:
    """Return the operator of this context, for a function that handlers call.

    Raises:
        LifecycleError: there is none, or install() was not called.
    """
    operator = current_operator()
    if operator is None:
        reason = "lister() needs an operator: call it in a handler, such as @kopf.on.startup(),"
        raise LifecycleError(f"{reason} after pyinformer.kopf.install()")
    return operator
