"""Why a cache shows what it shows of one key, in sentences, the answer first.

Nothing is kept for this that every event would pay for, the server is asked only by `explain_live`,
and no sentence holds the content of an object. Callable from any thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, final

from pyinformer._printable import printable
from pyinformer._runtime.clock import utc_text
from pyinformer.cache.informer._provenance import Provenance, provenance_of
from pyinformer.cache.informer._settings import named
from pyinformer.cache.reflector import ReflectorState, read_live
from pyinformer.cache.store import UnconfirmedWrite
from pyinformer.errors import InformerError, InvalidArgumentError, InvalidTypeError, NotFoundError
from pyinformer.objects import ObjectKey, V, VersionOrder, check_encodable

if TYPE_CHECKING:
    from pyinformer.cache.informer._context import InformerContext
    from pyinformer.cache.informer._namespace_cache import NamespaceCache
    from pyinformer.cache.informer._settings import Scope
    from pyinformer.cache.informer.delivery import HandlerHistory, SharedProcessor
    from pyinformer.cache.reflector import LiveIdentity, StaleObject
    from pyinformer.cache.store import Lister
    from pyinformer.objects import KubeObject

_LATEST: Final = 4  # of what happened: more would hide what is said before
_AROUND_SECONDS: Final = 60.0  # before a load: what led to it
_NAMED: Final = 3  # keys that may have been meant
_PARTS: Final = 2  # namespace and name
_SHOWN: Final = 80  # characters of a wrong key


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a cache shows what it shows of one key."""

    informer: str
    """What it follows."""
    key: str
    """`namespace/name`, or `name` if cluster-scoped."""
    sentences: tuple[str, ...]
    """The answer, without the content of any object."""

    def __str__(self) -> str:
        lines = (f"{self.key} in the cache of {self.informer}:", *self.sentences)
        return "\n".join(map(printable, lines))


@final
class Explainer(Generic[V]):
    """Explains one key of an informer's cache.

    Args:
        context: what the caches of the informer share.
        scope: what the informer follows.
        cache: the cache of the key's namespace; None if that is not followed.
        lister: reads the cache and the own writes over it.
        processor: the handlers.
    """

    def __init__(
        self,
        context: InformerContext[V],
        scope: Scope,
        cache: NamespaceCache[V] | None,
        *,
        lister: Lister[V],
        processor: SharedProcessor[V],
    ) -> None:
        self._context = context
        self._scope = scope if cache is None else cache.scope
        self._cache = cache
        self._lister = lister
        self._processor = processor

    def explain(self, key: str) -> Explanation:
        """Explain what the cache shows of a key.

        Raises:
            InvalidTypeError: the key is not a string.
            InvalidArgumentError: it is not a key.
        """
        if not isinstance(key, str):
            raise InvalidTypeError("key", f"must be 'namespace/name' or 'name', got {key!r}")
        parts = key.split("/")
        if not all(parts) or len(parts) > _PARTS:
            reason = f"must be 'namespace/name' or 'name', got {key[:_SHOWN]!r}"
            raise InvalidArgumentError("key", reason)
        check_encodable("key", key)
        sentences = tuple(map(printable, self._sentences(key)))
        return Explanation(self._scope.named_in(self._context.cluster), key, sentences)

    async def explain_live(self, key: str) -> Explanation:
        """Explain what the cache shows of a key, and what the server has of it now.

        Raises:
            InvalidTypeError: the key is not a string.
            InvalidArgumentError: it is not a key.

        Cancellation:
            Safe.
        """
        known = self.explain(key)
        asked = tuple([printable(sentence) async for sentence in self._on_server(key)])
        return Explanation(known.informer, known.key, known.sentences + asked)

    def _sentences(self, key: str) -> Iterator[str]:
        cache = self._cache
        if cache is None or not self._scope.covers(ObjectKey(key).namespace):
            yield self._outside(key)
            return
        found, reflector = cache.indexer.get(key), cache.reflector
        provenance = None
        if found is None:
            yield from self._on_absence(key, cache)
        else:
            version = found.metadata.resource_version
            loads = reflector.loads() if reflector.version_order is VersionOrder.GLOBAL else ()
            provenance = provenance_of(version, loads, reflector.position)
            yield f"It is cached at {version}, brought by {provenance}."
            if found.problem:
                yield from _on_problem(found, reflector.last_good(key))
        yield from self._on_own_write(key, found)
        yield from self._on_selection()
        yield from self._on_state(cache)
        histories = self._processor.histories(key, self._context.lifecycle.now())
        yield from _on_handlers(histories, is_cached=found is not None)
        yield from _on_journal(key, provenance, cache)

    def _outside(self, key: str) -> str:
        scope, namespace = self._scope, ObjectKey(key).namespace
        where = f"in namespace {namespace}" if namespace else "in no namespace"
        first = min(scope.namespaces or ("default",))
        hint = "" if namespace else f" Write namespace/name, such as {first}/{key}."
        return f"It cannot be cached: it is {where}, and {_followed_by(scope)}.{hint}"

    def _on_absence(self, key: str, cache: NamespaceCache[V]) -> Iterator[str]:
        gone = cache.reflector.tombstone_version(key)
        resets = [load.at for load in cache.reflector.loads() if load.is_reset]
        if gone and self._scope.is_selective:
            yield f"It is not cached: it was deleted, or stopped matching the selectors, at {gone}."
        elif gone:
            yield f"It is not cached: it was deleted at {gone}."
        elif resets:
            found = "when the server's history was found to be another"
            yield f"It is not cached: it may have gone {found}, at {utc_text(resets[-1])}."
        elif cache.has_synced:
            yield "It is not cached, and no deletion of it is remembered."
        else:
            yield "It is not cached: nothing is, before the first load is complete."
        name, keys = ObjectKey(key).name, cache.indexer.keys()
        alike = [one for one in keys if one == name or one.endswith(f"/{name}")]
        if alike:
            more = ", ..." if len(alike) > _NAMED else ""
            yield f"Cached under that name: {', '.join(sorted(alike)[:_NAMED])}{more}."
        if "/" not in key and any("/" in one for one in keys):
            yield "What is followed here has namespaces: write namespace/name."

    def _on_own_write(self, key: str, found: KubeObject[V] | None) -> Iterator[str]:
        written = self._lister.get(key, allow_unsynced=True)
        if written is found:
            return
        if written is None:
            entry = self._context.entries.get(key)
            what, version = "deleted it, or written it out of what is followed", ""
            if isinstance(entry, UnconfirmedWrite):
                what, version = "written it out of what is followed", f" (at {entry.version})"
            elif entry is not None:
                what = "deleted it"
            reads = "reads show that already, the watch does not yet"
            yield f"This process has {what}{version}: {reads}."
        else:
            version = written.metadata.resource_version
            yield f"This process has written {version}: reads show it, the watch does not yet."

    def _on_selection(self) -> Iterator[str]:
        scope = self._scope
        for name, selector in (("label", scope.label_selector), ("field", scope.field_selector)):
            if not selector.is_empty:
                yield f"Only objects that match the {name} selector {selector} are followed."
        if scope.uid_range is not None:
            yield f"Only the objects of {scope.uid_range} are followed, by a hash of their uids."
        if self._context.settings.transform is not None:
            yield "A transform of the program changes objects before they are cached."

    def _on_state(self, cache: NamespaceCache[V]) -> Iterator[str]:
        lifecycle, position = self._context.lifecycle, cache.reflector.position or "nothing"
        if lifecycle.crash is not None:
            yield f"The informer has crashed, and its cache stays at {position}: {lifecycle.crash}"
        elif cache.state is ReflectorState.NEW:
            since = "was started a moment ago, and has not asked the server yet"
            yield f"The informer {since if lifecycle.is_running else 'has not been started'}."
        elif cache.state is ReflectorState.STOPPED:
            yield f"The informer is closed: its cache stays at {position}."
        elif not cache.has_synced:
            yield f"The cache has never held everything: {cache.staleness}."
        elif cache.staleness:
            yield f"The cache is at {position} and may be behind: {cache.staleness}."
        else:
            age = cache.age_seconds()
            proven = "" if age is None else f", last proven {age:.0f} s ago"
            yield f"The cache follows the server: it has every change up to {position}{proven}."
        if cache.reflector.status().breaks_order:
            yield "The server breaks the order of resource versions: changes may be late."

    async def _on_server(self, key: str) -> AsyncIterator[str]:
        scope, cache, is_list = self._scope, self._cache, False
        try:
            if cache is not None and scope.covers(ObjectKey(key).namespace):
                # A list is answered with 404 only if the whole resource is missing.
                is_list = True
                fresh = await read_live(cache.reflector.list_watch.only(key))
                position = cache.reflector.position or "nothing"
                at = fresh.resource_version
                yield f"The server is at {at} now, and the cache had reached {position}."
                if fresh.uid:
                    yield _on_fresh(fresh, cache.indexer.get(key))
                    return
            is_list, resource = False, scope.resource
            cluster = self._context.cluster
            live = await cluster.get(resource.api_version, resource.resource, key)
        except NotFoundError as error:
            if is_list:
                yield f"The server does not serve {scope.resource} at all."
                return
            if not error.names_object:
                yield f"The server does not say whether it has it: {error}."
                return
            is_cached = cache is not None and key in cache.indexer
            still = ", and the watch has not brought that yet" if is_cached else ""
            yield f"The server does not have it{still}."
        except InformerError as error:
            yield f"The server did not answer: {error}."
        else:
            version = live.metadata.resource_version
            yield f"The server has it at {version}, and it is not followed: {self._why_not(live)}."

    def _why_not(self, live: KubeObject[Any]) -> str:
        scope = self._scope
        if not scope.covers(live.metadata.namespace):
            return _followed_by(scope).removesuffix(" followed")
        if not scope.label_selector.matches(live.metadata.labels):
            return f"its labels do not match {scope.label_selector}"
        if not scope.field_selector.is_empty:
            return f"its fields do not match {scope.field_selector}"
        if scope.uid_range is not None and not scope.uid_range.has(live.metadata.uid):
            return f"its uid is not in {scope.uid_range}"
        return "it came a moment ago"


def _on_problem(found: KubeObject[V], good: StaleObject[V] | None) -> Iterator[str]:
    yield f"It has a problem: {found.problem}."
    if good is not None:
        state = good.object.metadata.resource_version
        yield f"Its last state that could be read is {state}; last_good() returns it."


def _on_journal(key: str, provenance: Provenance | None, cache: NamespaceCache[V]) -> Iterator[str]:
    """Yield entries about the key, before the load that brought it, and during trouble."""
    entries = cache.journal.entries()
    relevant = {entry for entry in entries if key in entry.what.split()}
    if provenance is not None and provenance.is_relist:
        before = [one for one in entries if -_AROUND_SECONDS < one.at - provenance.at <= 0]
        relevant.update(before[-_LATEST:])
    if cache.staleness:
        relevant.update(entries[-_LATEST:])
    yield from (f"At {entry}." for entry in entries if entry in relevant)


def _on_fresh(fresh: LiveIdentity, found: KubeObject[V] | None) -> str:
    """Compare what the server has with what is cached."""
    version = fresh.version
    if found is None:
        return f"The server has it at {version}, and the cache has not received it yet."
    if found.metadata.uid != fresh.uid:
        return f"The server has another object of that name, at {version}."
    cached = found.metadata.resource_version
    if cached == version:
        return f"The server has it at {version}, as the cache has."
    return f"The server has it at {version}, and the cache at {cached}: it is behind."


def _followed_by(scope: Scope) -> str:
    if not scope.namespaces:
        return "no namespace is followed"
    if len(scope.namespaces) == 1:
        return f"only namespace {scope.namespace} is followed"
    return f"only namespaces {named(scope.namespaces)} are followed"


def _on_handlers(histories: Sequence[HandlerHistory], *, is_cached: bool) -> Iterator[str]:
    for history in histories:
        extras = [*history.notes]
        if history.coalesced:
            extras.insert(0, f"{history.coalesced} of its events were merged into others")
        if history.is_in_flight:
            what = f"has been in a call for it for {_duration(history.in_flight_seconds)}"
        elif history.waits:
            what = f"has not received its latest state: {_waiting(history.ahead)} in its mailbox"
        elif not history.has_synced:
            what = "has not received everything yet that existed at its start"
        elif is_cached:
            what = "has received its latest state"
        elif extras:
            what = "has nothing left to receive of it"
        else:
            continue  # the object is not there, and never was
        yield f"Handler {history.name} {'; '.join((what, *extras))}."


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _waiting(number: int) -> str:
    return "1 event waits" if number == 1 else f"{number} events wait"
