"""What the readers of one informer share beyond the objects themselves, and who watches over it.

Reads of decoded objects, events and the steps of handlers enter; what leaves are dicts that all
readers share, and, where one of them was changed in place, a report: in `debug` as an error, in the
handler whose step it was or else at the next read or await of this informer. Where nothing is
shared and nobody gave a detector, nothing of this costs anything.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, final

from pyinformer.apimachinery import CacheMutatedError, KubeObject, V
from pyinformer.audit import CacheMutation, MutationDetector
from pyinformer.informer._call_site import call_site
from pyinformer.informer._reader_context import Reader, checked_handler, reading
from pyinformer.store import DecodedObject, DecodedObjects

if TYPE_CHECKING:
    from pyinformer.audit import SharedValue
    from pyinformer.informer._handlers import Handler
    from pyinformer.metrics import Metrics
    from pyinformer.store import Cache

_METRIC = "informer_cache_mutations_total"
_MAX_UNTOLD = 100  # whoever asks next is told of one; all of them are counted and logged


@final
class MutationGuard(Generic[V]):
    """The shared values of one informer, as a source for the mutation detector.

    Args:
        informer: names the informer in reports.
        cache: returns the cache, which is another one after a change of namespaces.
        is_decoded: its decoded objects are shared.
        detector: who watches over them; None for one of this informer's own. One that is given
            looks at index functions and watched values even where no decoded objects are shared.
        shown: returns what a reader sees under a key.
        handlers: returns the names of the handlers.
        metrics: where mutations are counted.
    """

    def __init__(
        self,
        informer: str,
        cache: Callable[[], Cache[V]],
        *,
        is_decoded: bool,
        detector: MutationDetector | None,
        shown: Callable[[str], KubeObject[V] | None],
        handlers: Callable[[], tuple[str, ...]],
        metrics: Metrics,
    ) -> None:
        self.detector: MutationDetector = detector or MutationDetector()
        """Who watches over what is shared."""
        self.decoded: DecodedObjects[V] | None = DecodedObjects(shown) if is_decoded else None
        """The decoded objects that readers share; None if they share none."""
        self.handlers: Callable[[], tuple[str, ...]] = handlers
        """Returns the handlers, who could have asked for any object."""
        self.name: str = informer
        """The informer, as reports name it."""
        self._cache = cache
        self._metrics = metrics
        self._thread = 0
        self._uncounted = 0
        self._is_swept = self.detector.mode != "off" and (is_decoded or detector is not None)
        self._is_debugging = self.detector.mode == "debug" and is_decoded
        self._others: Reader[_Read] = Reader()
        self._untold: deque[CacheMutation] = deque(maxlen=_MAX_UNTOLD)
        if self.decoded is not None and self._is_debugging:
            self.decoded.on_read = self._read
            self.decoded.on_end = self._ended

    async def run(self) -> None:
        """Sweep for as long as the informer runs, if there is anything to look at.

        Cancellation:
            The way to stop it.
        """
        self._thread = threading.get_ident()
        if self._is_swept:
            await self.detector.run(self, relists=lambda: self._cache().generation)

    def values(self) -> Iterable[SharedValue]:
        """Return the decoded objects that readers can get now."""
        return () if self.decoded is None else self.decoded.values()

    def heal(self, value: SharedValue) -> None:
        """Let readers to come get a newly decoded one."""
        if self.decoded is not None and isinstance(value, DecodedObject):
            self.decoded.forget(value)

    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Put each object where the index functions say that it belongs, and tell if it moved."""
        cache = self._cache()
        for key in cache.keys() if cache.has_index_functions else ():
            names, obj = cache.reindex(key), cache.get(key)
            yield (
                CacheMutation(
                    informer=self.name,
                    key=key,
                    resource_version=obj.metadata.resource_version,
                    what=f"what index function {' and '.join(names)} returns",
                )
                if names and obj is not None
                else None
            )

    def tell(self, mutation: CacheMutation) -> None:
        """Count a mutation; in `debug`, keep it until somebody can be told."""
        if self._is_debugging:
            self._untold.append(mutation)
        self._uncounted += 1
        if threading.get_ident() == self._thread:  # metrics are for the loop
            for _ in range(self._uncounted):
                self._metrics.increment(_METRIC, {"informer": self.name})
            self._uncounted = 0

    def check_nowait(self) -> None:
        """In `debug`, look at what was read outside of handlers lately.

        Raises:
            CacheMutatedError: it was changed, or something else was found changed before.
        """
        if self._is_debugging:
            _look_at(self._others)
            untold, self._untold = self._untold, deque(maxlen=_MAX_UNTOLD)
            for mutation in untold:
                raise _error_of(mutation)

    def checked(self, handler: Handler[V]) -> Handler[V]:
        """In `debug`, return a handler that hears at once of what it changes; else the same."""
        if not self._is_debugging:
            return handler
        reader: Reader[Any] = Reader(handler.name)
        return checked_handler(handler, reader, lambda: _look_at(reader))

    def look_at(self, decoded: DecodedObject[V]) -> None:
        """Look at one object, unless its reader has it alone.

        Raises:
            CacheMutatedError: it was changed.
        """
        if self.decoded is None or not self.decoded.is_shared(decoded):
            return
        mutation = self.detector.ledger.check(decoded, self)
        if mutation is not None:
            with suppress(ValueError):  # another thread may have been told already
                self._untold.remove(mutation)
            raise _error_of(mutation)

    def _read(self, decoded: DecodedObject[V]) -> None:
        self.look_at(decoded)
        reader: Reader[Any] = reading.get() or self._others
        decoded.note_reader(reader.name, call_site())
        reader.recent.append((self, decoded))

    def _ended(self, decoded: DecodedObject[V]) -> None:
        self.detector.ledger.check(decoded, self)


_Read: TypeAlias = tuple[MutationGuard[Any], DecodedObject[Any]]


def _look_at(reader: Reader[_Read]) -> None:
    for sharing, decoded in tuple(reader.recent):
        sharing.look_at(decoded)


def _error_of(mutation: CacheMutation) -> CacheMutatedError:
    return CacheMutatedError(
        informer=mutation.informer,
        key=mutation.key,
        what=mutation.what,
        paths=tuple(map(str, mutation.paths)),
        readers=(*mutation.handlers, *mutation.call_sites),
    )
