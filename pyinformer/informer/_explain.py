"""Why a cache shows what it shows of one key, in sentences.

What enters is a key and what the stations behind an informer remember; what leaves is a list of
sentences, from the scope to the handlers. Nothing is asked of the server, nothing is kept for this
that is paid for by every event, and no sentence holds an object's content.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from pyinformer.apimachinery import (
    InformerError,
    NotFoundError,
    ObjectKey,
    older,
    resource_version_is_well_formed,
)
from pyinformer.reflector import look

if TYPE_CHECKING:
    from pyinformer.informer._following import Following
    from pyinformer.informer._listener import HandlerStory
    from pyinformer.reflector import LoadRecord, Reflector
    from pyinformer.store import Indexer


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
        return "\n".join((f"{self.key} in the cache of {self.informer}:", *self.sentences))


@final
class Explainer:
    """Says why one informer's cache shows what it shows.

    Args:
        informer: whose cache it is.
        indexer: the cache, own writes left aside.
        reflector: what fills it.
        stories: returns what each handler has to do with a key.
    """

    def __init__(
        self,
        informer: Following[Any],
        indexer: Indexer[Any],
        reflector: Reflector[Any],
        stories: Callable[[str], Sequence[HandlerStory]],
    ) -> None:
        self._informer = informer
        self._indexer = indexer
        self._reflector = reflector
        self._stories = stories

    def explain(self, key: str) -> Explanation:
        """Say why the cache shows what it shows of a key."""
        sentences = (
            *self._on_scope(ObjectKey(key).namespace),
            *self._on_state(),
            *self._on_object(key),
            *_on_handlers(self._stories(key)),
        )
        return Explanation(str(self._informer.scope), key, sentences)

    async def explain_live(self, key: str) -> Explanation:
        """Say the same, and what the server has of the key now.

        Cancellation:
            Safe.
        """
        known = self.explain(key)
        asked = tuple([sentence async for sentence in self._on_server(key)])
        return Explanation(known.informer, known.key, known.sentences + asked)

    async def _on_server(self, key: str) -> AsyncIterator[str]:
        scope = self._informer.scope
        try:
            found = await look(self._reflector.list_watch.only(key))
            yield f"The server is at {found.resource_version}, the cache at {self._position}."
            if found.uid:
                yield f"The server has it in this scope, at {found.version}."
                return
            resource = scope.resource
            live = await self._informer.cluster.get(resource.api_version, resource.resource, key)
        except NotFoundError:
            yield "The server does not have it."
        except InformerError as error:
            yield f"The server would not tell: {error}."
        else:
            version = live.metadata.resource_version
            yield f"The server has it at {version}, and it is outside of this scope."

    @property
    def _position(self) -> str:
        return self._reflector.position or "nothing yet"

    def _on_scope(self, namespace: str) -> Iterator[str]:
        scope = self._informer.scope
        if scope.namespace is not None and namespace != scope.namespace:
            where = f"namespace {namespace}" if namespace else "no namespace"
            yield f"It is in {where}, and only namespace {scope.namespace} is followed."
        for name, selector in (("label", scope.label_selector), ("field", scope.field_selector)):
            if not selector.is_empty:
                yield f"Only objects that match the {name} selector {selector} are followed."
        if self._informer.settings.transform is not None:
            yield "A transform of the program changes objects before they are cached."

    def _on_state(self) -> Iterator[str]:
        if not self._informer.has_synced:
            yield f"The cache has never held everything: {self._informer.staleness}."
        elif self._informer.staleness:
            yield f"The cache may be behind the server: {self._informer.staleness}."
        else:
            yield f"The cache is followed; every change up to {self._reflector.position} is in it."

    def _on_object(self, key: str) -> Iterator[str]:
        found = self._indexer.get(key)
        if found is None:
            yield from self._on_absence(key)
        else:
            version = found.metadata.resource_version
            way = _way_of(version, self._reflector.loads())
            yield f"It is cached at {version}, which came {way}."
            if found.problem:
                yield f"It cannot be read as asked: {found.problem}."
            good = self._reflector.last_good(key)
            if good is not None:
                state = good.object.metadata.resource_version
                yield f"Its last state that could be read is {state}; last_good() returns it."
        written = self._informer.lister.get(key, allow_unsynced=True)
        if written is not None and written is not found:
            version = written.metadata.resource_version
            yield f"This process wrote {version}, which is read already and not heard of yet."

    def _on_absence(self, key: str) -> Iterator[str]:
        gone = self._reflector.burial(key)
        if gone:
            yield f"It is not cached: it was deleted, or left the selection, at {gone}."
        elif self._informer.has_synced:
            yield "It is not cached, and no deletion is remembered: it never was in the scope."
        else:
            yield "It is not cached."


def _way_of(version: str, loads: Sequence[LoadRecord]) -> str:
    if not resource_version_is_well_formed(version):
        return "by a list or a watch"
    for number, load in enumerate(loads):
        # Behind the position of then and not ahead of the list: the list brought it.
        newer = not load.before or older(load.before, version)
        if newer and load.position and not older(load.position, version):
            why = f" ({load.reason})" if load.reason and number else ""
            kind = "with the first load" if not load.before else "by a relist"
            return f"{kind}, a {load.mode} at {_clock(load.at)}{why}"
    return "by the watch"


def _on_handlers(stories: Sequence[HandlerStory]) -> Iterator[str]:
    for story in stories:
        parts = [f"Handler {story.name}"]
        if story.is_in_flight:
            parts.append(f"is busy with it, for {story.in_flight_seconds:.3f} s")
        elif story.waits:
            parts.append(f"has not heard of its latest state: it waits behind {story.ahead} others")
        elif not story.has_synced:
            parts.append("has not heard of everything that existed at first")
        else:
            parts.append("has heard of its latest state")
        sentence = " ".join(parts)
        extras = [*story.notes]
        if story.coalesced:
            extras.insert(0, f"{story.coalesced} of its events were merged into others")
        yield f"{sentence}{'; ' if extras else ''}{'; '.join(extras)}."


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at)) + " UTC"
