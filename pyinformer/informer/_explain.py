"""Why a cache shows what it shows of one key, in sentences.

What enters is a key and what the stations behind an informer remember; what leaves is a list of
sentences, the answer first: the object, then what is followed, how fresh that is, and the handlers.
Nothing is asked of the server unless that is asked for, nothing is kept for this that is paid for
by every event, and no sentence holds an object's content. From any thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from pyinformer._clock import utc_text
from pyinformer._printable import printable
from pyinformer.apimachinery import (
    InformerError,
    InternalError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    ObjectKey,
    VersionOrder,
)
from pyinformer.informer._provenance import Provenance, provenance_of
from pyinformer.informer._settings import named
from pyinformer.reflector import ReflectorState, read_live
from pyinformer.store import UnconfirmedWrite

if TYPE_CHECKING:
    from pyinformer.apimachinery import Journal, KubeObject
    from pyinformer.cluster import Cluster
    from pyinformer.informer._listener import HandlerHistory
    from pyinformer.informer._settings import InformerSettings, Scope
    from pyinformer.reflector import LiveIdentity, Reflector
    from pyinformer.store import Cache, Lister, OverlayEntry

_LATEST: Final = 4  # of what happened: more would hide what is said before
_AROUND_SECONDS: Final = 60.0  # before a load: what led to it
_NAMED: Final = 3  # keys that may have been meant
_PARTS: Final = 2  # namespace and name
_SHOWN: Final = 80  # characters of what somebody has typed


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


class Explained(Protocol):
    """Whose cache it is."""

    @property
    def scope(self) -> Scope:
        """What it follows."""
        ...

    @property
    def settings(self) -> InformerSettings:
        """How it keeps that."""
        ...

    @property
    def cluster(self) -> Cluster:
        """The server."""
        ...

    @property
    def journal(self) -> Journal:
        """What happened to it lately."""
        ...

    @property
    def lister(self) -> Lister[Any]:
        """Reads its cache."""
        ...

    @property
    def has_synced(self) -> bool:
        """Whether it has held everything at least once."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither closed nor broken since."""
        ...

    @property
    def state(self) -> ReflectorState:
        """What it does."""
        ...

    @property
    def staleness(self) -> str:
        """Why it may be behind; empty while it is followed."""
        ...

    @property
    def crash(self) -> InformerError | None:
        """What went wrong inside."""
        ...

    def age_seconds(self) -> float | None:
        """Return how long ago it was proven."""
        ...


@final
class Explainer:
    """Says why one informer's cache shows what it shows.

    Args:
        informer: whose cache it is.
        indexer: the cache, own writes left aside.
        reflector: what fills it; None if nothing does, since the key's namespace is not followed.
        written: what this process has written, and the cache has not heard of.
        stories: returns what each handler has to do with a key.
    """

    def __init__(
        self,
        informer: Explained,
        indexer: Cache[Any],
        reflector: Reflector[Any] | None,
        written: Mapping[str, OverlayEntry[Any]],
        stories: Callable[[str], Sequence[HandlerHistory]],
    ) -> None:
        self._informer = informer
        self._indexer = indexer
        self._filler = reflector
        self._written = written
        self._stories = stories

    @property
    def _reflector(self) -> Reflector[Any]:
        if self._filler is None:
            raise InternalError("A cache that nothing fills was asked how it is filled")
        return self._filler

    def explain(self, key: str) -> Explanation:
        """Say why the cache shows what it shows of a key.

        Raises:
            InvalidTypeError: the key is no text.
            InvalidArgumentError: it cannot be a key.
        """
        if not isinstance(key, str):
            raise InvalidTypeError("key", f"is 'namespace/name' or 'name', not {key!r}")
        parts = key.split("/")
        if not all(parts) or len(parts) > _PARTS:
            reason = f"is 'namespace/name', or 'name' if cluster-scoped, not {key[:_SHOWN]!r}"
            raise InvalidArgumentError("key", reason)
        sentences = tuple(map(printable, self._sentences(key)))
        return Explanation(str(self._informer.scope), key, sentences)

    async def explain_live(self, key: str) -> Explanation:
        """Say the same, and what the server has of the key now.

        Raises:
            InvalidTypeError: the key is no text.
            InvalidArgumentError: it cannot be a key.

        Cancellation:
            Safe.
        """
        known = self.explain(key)
        asked = tuple([printable(sentence) async for sentence in self._on_server(key)])
        return Explanation(known.informer, known.key, known.sentences + asked)

    def _sentences(self, key: str) -> Iterator[str]:
        outside = self._outside(key)
        if outside:
            yield outside
            return
        found = self._indexer.get(key)
        origin = None
        if found is None:
            yield from self._on_absence(key)
        else:
            version = found.metadata.resource_version
            order, loads = self._reflector.version_order, self._reflector.loads()
            origin = provenance_of(version, loads if order is VersionOrder.GLOBAL else ())
            yield f"It is cached at {version}, brought by {origin}."
            yield from self._on_problem(key, found)
        yield from self._on_own_write(key, found)
        yield from self._on_selection()
        yield from self._on_state()
        yield from _on_handlers(self._stories(key), is_cached=found is not None)
        yield from self._on_journal(key, origin)

    def _outside(self, key: str) -> str:
        scope, namespace = self._informer.scope, ObjectKey(key).namespace
        if scope.covers(namespace):
            return ""
        where = f"in namespace {namespace}" if namespace else "in no namespace"
        first = min(scope.namespaces or ("default",))
        hint = "" if namespace else f" Write namespace/name, such as {first}/{key}."
        return f"It cannot be cached: it is {where}, and {_followed_by(scope)}.{hint}"

    def _on_absence(self, key: str) -> Iterator[str]:
        informer, gone = self._informer, self._reflector.tombstone_version(key)
        resets = [load.at for load in self._reflector.loads() if load.is_reset]
        if gone and informer.scope.is_selective:
            yield f"It is not cached: it was deleted, or stopped matching the selectors, at {gone}."
        elif gone:
            yield f"It is not cached: it was deleted at {gone}."
        elif resets:
            found = "when the server's history was found to be another"
            yield f"It is not cached: it may have gone {found}, at {utc_text(resets[-1])}."
        elif informer.has_synced:
            yield "It is not cached, and no deletion of it is remembered."
        else:
            yield "It is not cached: nothing is, before the first load is complete."
        name, keys = ObjectKey(key).name, self._indexer.keys()
        alike = [one for one in keys if one == name or one.endswith(f"/{name}")]
        if alike:
            more = ", ..." if len(alike) > _NAMED else ""
            yield f"Cached under that name: {', '.join(sorted(alike)[:_NAMED])}{more}."
        if "/" not in key and any("/" in one for one in keys):
            yield "What is followed here has namespaces: write namespace/name."

    def _on_problem(self, key: str, found: KubeObject[Any]) -> Iterator[str]:
        if found.problem:
            yield f"It has a problem: {found.problem}."
            good = self._reflector.last_good(key)
            if good is not None:
                state = good.object.metadata.resource_version
                yield f"Its last state that could be read is {state}; last_good() returns it."

    def _on_own_write(self, key: str, found: KubeObject[Any] | None) -> Iterator[str]:
        written = self._informer.lister.get(key, allow_unsynced=True)
        if written is found:
            return
        if written is None:
            entry = self._written.get(key)
            what, version = "deleted it, or written it out of what is followed", ""
            if isinstance(entry, UnconfirmedWrite):
                what, version = "written it out of what is followed", f" (at {entry.version})"
            elif entry is not None:
                what = "deleted it"
            reads = "reads say so already, the watch does not yet"
            yield f"This process has {what}{version}: {reads}."
        else:
            version = written.metadata.resource_version
            yield f"This process has written {version}: reads show it, the watch does not yet."

    def _on_selection(self) -> Iterator[str]:
        scope = self._informer.scope
        for name, selector in (("label", scope.label_selector), ("field", scope.field_selector)):
            if not selector.is_empty:
                yield f"Only objects that match the {name} selector {selector} are followed."
        if self._informer.settings.transform is not None:
            yield "A transform of the program changes objects before they are cached."

    def _on_state(self) -> Iterator[str]:
        informer, position = self._informer, self._reflector.position or "nothing"
        if informer.crash is not None:
            yield f"The informer has crashed, and its cache stays at {position}: {informer.crash}"
        elif informer.state is ReflectorState.NEW:
            since = "was started a moment ago, and has not asked the server yet"
            yield f"The informer {since if informer.is_running else 'has not been started'}."
        elif informer.state is ReflectorState.STOPPED:
            yield f"The informer is closed: its cache stays at {position}."
        elif not informer.has_synced:
            yield f"The cache has never held everything: {informer.staleness}."
        elif informer.staleness:
            yield f"The cache is at {position} and may be behind: {informer.staleness}."
        else:
            age = informer.age_seconds()
            proven = "" if age is None else f", last proven {age:.0f} s ago"
            yield f"The cache follows the server: it has every change up to {position}{proven}."
        if self._reflector.status().breaks_order:
            yield "The server breaks the order of resource versions: changes may be late."

    def _on_journal(self, key: str, origin: Provenance | None) -> Iterator[str]:
        """Tell what happened about the key, before the load that brought it, and in trouble."""
        entries = self._informer.journal.entries()
        told = {entry for entry in entries if key in entry.what.split()}
        if origin is not None and origin.is_relist:
            before = [one for one in entries if -_AROUND_SECONDS < one.at - origin.at <= 0]
            told.update(before[-_LATEST:])
        if self._informer.staleness:
            told.update(entries[-_LATEST:])
        yield from (f"At {entry}." for entry in entries if entry in told)

    async def _on_server(self, key: str) -> AsyncIterator[str]:
        scope, is_list = self._informer.scope, False
        try:
            if not self._outside(key):
                # Only a whole resource is answered to a list with 404; an object is left out.
                is_list = True
                fresh = await read_live(self._reflector.list_watch.only(key))
                position = self._reflector.position or "nothing"
                at = fresh.resource_version
                yield f"The server is at {at} now, and the cache had reached {position}."
                if fresh.uid:
                    yield self._on_fresh(key, fresh)
                    return
            is_list, resource = False, scope.resource
            live = await self._informer.cluster.get(resource.api_version, resource.resource, key)
        except NotFoundError:
            if is_list:
                yield f"The server does not serve {scope.resource} at all."
                return
            still = ", and the watch has not brought that yet" if key in self._indexer else ""
            yield f"The server does not have it{still}."
        except InformerError as error:
            yield f"The server would not tell: {error}."
        else:
            version = live.metadata.resource_version
            yield f"The server has it at {version}, and it is not followed: {self._why_not(live)}."

    def _on_fresh(self, key: str, fresh: LiveIdentity) -> str:
        """Compare what the server has with what is cached by now."""
        found, version = self._indexer.get(key), fresh.version
        if found is None:
            return f"The server has it at {version}, and the cache has not heard of it yet."
        if found.metadata.uid != fresh.uid:
            return f"The server has another object of that name, at {version}."
        cached = found.metadata.resource_version
        if cached == version:
            return f"The server has it at {version}, as the cache has."
        return f"The server has it at {version}, and the cache at {cached}: it is behind."

    def _why_not(self, live: KubeObject[Any]) -> str:
        scope, key = self._informer.scope, str(live.key)
        if self._outside(key):
            return _followed_by(scope).removesuffix(" followed")
        if not scope.label_selector.matches(live.metadata.labels):
            return f"its labels do not match {scope.label_selector}"
        if not scope.field_selector.is_empty:
            return f"its fields do not match {scope.field_selector}"
        return "it came a moment ago"


def _followed_by(scope: Scope) -> str:
    if not scope.namespaces:
        return "no namespace is followed"
    if len(scope.namespaces) == 1:
        return f"only namespace {scope.namespace} is followed"
    return f"only namespaces {named(scope.namespaces)} are followed"


def _on_handlers(stories: Sequence[HandlerHistory], *, is_cached: bool) -> Iterator[str]:
    for story in stories:
        extras = [*story.notes]
        if story.coalesced:
            extras.insert(0, f"{story.coalesced} of its events were merged into others")
        if story.is_in_flight:
            what = f"is in a call for it, since {_duration(story.in_flight_seconds)}"
        elif story.waits:
            what = f"has not heard of its latest state: {_waiting(story.ahead)} in its mailbox"
        elif not story.has_synced:
            what = "has not heard of everything yet that existed at its start"
        elif is_cached:
            what = "has heard of its latest state"
        elif extras:
            what = "has nothing left to hear of it"
        else:
            continue  # nothing is there, and nothing was: not worth a line
        yield f"Handler {story.name} {'; '.join((what, *extras))}."


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _waiting(number: int) -> str:
    return "1 event waits" if number == 1 else f"{number} events wait"
