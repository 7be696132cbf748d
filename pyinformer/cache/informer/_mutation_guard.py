"""The dicts that readers of one informer share, and the checks that no reader changes them.

With `sharing="decoded"` all readers get one dict per object. If one is changed in place, the
detector reports it: in mode `debug` as an error in the handler that did it, after its call or at
its next await, or else at the next read or await of the informer. Without shared dicts and without
a detector this costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Generator, Iterable
from contextlib import suppress
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, final

from pyinformer._runtime.call_site import call_site
from pyinformer.cache.audit import CacheMutation, MutationDetector
from pyinformer.cache.informer.delivery import Handler
from pyinformer.cache.store import DecodedObject, DecodedObjects
from pyinformer.errors import CacheMutatedError
from pyinformer.objects import V

if TYPE_CHECKING:
    from pyinformer.cache.audit import SharedValue
    from pyinformer.cache.informer._namespace_caches import NamespaceCaches
    from pyinformer.cache.informer.delivery import SharedProcessor
    from pyinformer.cache.store import Indexer
    from pyinformer.objects import Event

_MAX_UNREPORTED = 100  # the next reader gets one; all are counted and logged
_RECENT_READS = 256  # that are checked after each step


@final
class MutationGuard(Generic[V]):
    """The shared values of one informer, as a source for the mutation detector.

    Args:
        informer: names the informer in reports.
        caches: what is cached.
        processor: the handlers, which may have read any object.
        is_decoded: share decoded objects.
        detector: checks the shared values; None for a detector of its own. One that is given checks
            index functions and watched values even where no decoded objects are shared.
    """

    def __init__(
        self,
        informer: str,
        caches: NamespaceCaches[V],
        processor: SharedProcessor[V],
        *,
        is_decoded: bool,
        detector: MutationDetector | None,
    ) -> None:
        self.detector: MutationDetector = detector or MutationDetector()
        """Checks what is shared."""
        self.decoded: DecodedObjects[V] | None = (
            DecodedObjects(caches.shown) if is_decoded else None
        )
        """The decoded objects that readers share; None if they share none."""
        self.name: str = informer
        """The informer, as reports name it."""
        self.mutations: int = 0
        """How many changes of shared values were found."""
        self._caches = caches
        self._processor = processor
        self.is_swept: bool = self.detector.mode != "off" and (is_decoded or detector is not None)
        """Whether `run` has something to check."""
        self._is_debugging = self.detector.mode == "debug" and is_decoded
        self._others: _Reader = _Reader()
        self._unreported: deque[CacheMutation] = deque(maxlen=_MAX_UNREPORTED)
        if self.decoded is not None and self._is_debugging:
            self.decoded.on_read = self._read
            self.decoded.on_end = self._ended

    def handlers(self) -> tuple[str, ...]:
        """Return the handlers, each of which may have read any object."""
        return self._processor.handler_names

    async def run(self) -> None:
        """Check shared values as long as the informer runs.

        Cancellation:
            Ends it.
        """
        await self.detector.run(self, relists=self._relists)

    def _relists(self) -> int:
        return sum(one.indexer.generation for one in self._caches.all)

    def values(self) -> Iterable[SharedValue]:
        """Return the decoded objects that readers share now."""
        return () if self.decoded is None else self.decoded.values()

    def heal(self, value: SharedValue) -> None:
        """Decode a value again for its next reader."""
        if self.decoded is not None and isinstance(value, DecodedObject):
            self.decoded.forget(value)

    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Move each object to where its index functions say now, and yield the moves."""
        for indexer in [one.indexer for one in self._caches.all]:
            for key in indexer.keys() if indexer.has_index_functions else ():
                yield self._misplaced(indexer, key)

    def _misplaced(self, indexer: Indexer[V], key: str) -> CacheMutation | None:
        names, obj = indexer.reindex(key), indexer.get(key)
        if obj is None or not names:
            return None
        return CacheMutation(
            informer=self.name,
            key=key,
            resource_version=obj.metadata.resource_version,
            what=f"what index function {' and '.join(names)} returns",
        )

    def count(self, mutation: CacheMutation) -> None:
        """Count a mutation; in mode `debug`, keep it for the next reader."""
        if self._is_debugging:
            self._unreported.append(mutation)
        self.mutations += 1

    def check_nowait(self) -> None:
        """In mode `debug`, check what was read recently outside of handlers.

        Raises:
            CacheMutatedError: it was changed, or an earlier check has found a change.
        """
        if self._is_debugging:
            self._others.check()
            untold, self._unreported = self._unreported, deque(maxlen=_MAX_UNREPORTED)
            for mutation in untold:
                raise _error_of(mutation)

    def checked(self, handler: Handler[V]) -> Handler[V]:
        """In mode `debug`, return a handler that is checked after each step; else the same."""
        if not self._is_debugging:
            return handler
        return _checked_handler(handler, _Reader(handler.name))

    def check(self, decoded: DecodedObject[V]) -> None:
        """Check one object that is still shared.

        Raises:
            CacheMutatedError: it was changed.
        """
        if self.decoded is None or not self.decoded.is_shared(decoded):
            return
        mutation = self.detector.ledger.check(decoded, self)
        if mutation is not None:
            with suppress(ValueError):  # another thread may have got it already
                self._unreported.remove(mutation)
            raise _error_of(mutation)

    def _read(self, decoded: DecodedObject[V]) -> None:
        self.check(decoded)
        reader = _current_reader.get() or self._others
        decoded.note_reader(reader.name, call_site())
        reader.recent.append((self, decoded))

    def _ended(self, decoded: DecodedObject[V]) -> None:
        self.detector.ledger.check(decoded, self)


_Read: TypeAlias = tuple[MutationGuard[Any], DecodedObject[Any]]


@final
class _Reader:
    """A handler, or all other code, with what it has read recently.

    Args:
        name: the handler's; empty for all other code.
    """

    __slots__ = ("name", "recent")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.recent: deque[_Read] = deque(maxlen=_RECENT_READS)

    def check(self) -> None:
        """Check what was read recently.

        Raises:
            CacheMutatedError: it was changed.
        """
        for guard, decoded in tuple(self.recent):
            guard.check(decoded)


_current_reader: ContextVar[_Reader | None] = ContextVar("pyinformer_reader", default=None)
"""The handler in whose call, or in whose tasks and threads, this code runs."""


def _error_of(mutation: CacheMutation) -> CacheMutatedError:
    return CacheMutatedError(
        informer=mutation.informer,
        key=mutation.key,
        what=mutation.what,
        paths=tuple(map(str, mutation.paths)),
        readers=(*mutation.handlers, *mutation.call_sites),
    )


def _checked_handler(handler: Handler[V], reader: _Reader) -> Handler[V]:
    """Return a handler whose reads are checked after each of its steps."""

    def call(event: Event[V]) -> object:
        before = _current_reader.set(reader)
        try:
            result = handler.call(event)
        finally:
            _current_reader.reset(before)
        if isawaitable(result):
            return _CheckedSteps(result, reader)
        reader.check()
        return result

    return Handler(name=handler.name, call=call)


@final
class _CheckedSteps(Awaitable[object]):
    """Awaits a handler's result, and checks its reads each time it yields to the event loop."""

    def __init__(self, result: Awaitable[object], reader: _Reader) -> None:
        self._result = result
        self._reader = reader

    def __await__(self) -> Generator[object, object, object]:
        steps = self._result.__await__()
        problem: BaseException | None = None
        while True:
            before = _current_reader.set(self._reader)
            try:
                waits_for = _step(steps, problem)
            except StopIteration as end:
                _current_reader.reset(before)
                self._reader.check()
                return end.value
            except BaseException:
                _current_reader.reset(before)
                raise
            _current_reader.reset(before)
            problem = self._problem()
            if problem is None:
                problem = yield from _wait(waits_for)

    def _problem(self) -> Exception | None:
        try:
            self._reader.check()
        except Exception as error:  # noqa: BLE001 - raised again, where the handler waits
            return error
        return None


def _step(steps: Generator[object, object, object], problem: BaseException | None) -> object:
    return next(steps) if problem is None else steps.throw(problem)


def _wait(waits_for: object) -> Generator[object, object, BaseException | None]:
    """Wait for what the handler waits for; return the error raised there, for the handler."""
    try:
        yield waits_for
    except BaseException as error:  # noqa: BLE001 - mostly a cancellation, for the handler
        return error
    return None
