"""The check of shared values against their digests, and the reports of those that were changed.

A changed value is passed back to its source to be restored, reported once for each change and
logged once for each key. What is kept is bounded.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Protocol, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import error_text, refuse_awaitable
from pyinformer.cache.audit._mutation_diff import (
    CacheMutation,
    MutatedPath,
    digest_of,
    mutated_paths,
)

if TYPE_CHECKING:
    from pyinformer.objects import KubeObject

_log = get_logger(__name__)

_MAX_REPORTS = 100
_MAX_LOGGED = 1_000  # keys; beyond that, a key may be logged a second time


class SharedValue(Protocol):
    """A value that several readers have."""

    digest: int | None
    """The digest of the unchanged value; None before the first check."""

    @property
    def what(self) -> str:
        """Its name in a report."""
        ...

    @property
    def record(self) -> KubeObject[object]:
        """The object that it was made from."""
        ...

    @property
    def readers(self) -> Collection[tuple[str, str]]:
        """Handler and call site of its readers, where they are recorded."""
        ...

    def current(self) -> object:
        """Return the value as it is now."""
        ...

    def original(self) -> object:
        """Make the value again from immutable data; None if that is impossible."""
        ...


class ValueSource(Protocol):
    """The origin of shared values."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in reports."""
        ...

    @abstractmethod
    def handlers(self) -> tuple[str, ...]:
        """Return the names of all handlers that may have read a value."""
        ...

    @abstractmethod
    def values(self) -> Iterable[SharedValue]:
        """Return all values that readers can get now."""
        ...

    @abstractmethod
    def heal(self, value: SharedValue) -> None:
        """Restore the value for later readers."""
        ...

    @abstractmethod
    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Check, step by step, that each object is found under its index values."""
        ...

    @abstractmethod
    def count(self, mutation: CacheMutation) -> None:
        """Count a mutation."""
        ...


@final
class MutationLedger:
    """Checks values and keeps the reports.

    Args:
        names_readers: whether readers are recorded; if not, the log says how to record them.
    """

    def __init__(self, *, names_readers: bool = False) -> None:
        self._unknown = "not known"
        if not names_readers:
            self._unknown += ': MutationDetector("debug") names them'
        self.checked: int = 0
        """How many checks of a value there were."""
        self.mutations: int = 0
        """How many checks found a change."""
        self.recent: deque[CacheMutation] = deque(maxlen=_MAX_REPORTS)
        self.listeners: list[Callable[[CacheMutation], object]] = []
        """Called with each report, in the thread that found it; what they raise is logged."""
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, value: SharedValue, source: ValueSource) -> CacheMutation | None:
        """Check that a value is unchanged; if not, have its source restore it, and report it."""
        self.checked += 1
        if value.digest is None:  # of the original, since readers may have changed the value
            value.digest = digest_of(value.original())
        now = digest_of(value.current())
        if now is not None and now == value.digest:
            return None
        original = value.original()
        paths = None if original is None else mutated_paths(original, value.current())
        value.digest = now  # so that the same change is not reported again
        if paths == () and now is not None:
            return None  # only the order of fields has changed
        mutation = _report(value, source, paths or ())
        source.heal(value)
        self.take(mutation, source)
        return mutation

    def take(self, mutation: CacheMutation, source: ValueSource) -> None:
        """Record, count and log a mutation, and report it to the listeners."""
        self.mutations += 1
        self.recent.append(mutation)
        source.count(mutation)
        self._log(mutation)
        for listener in self.listeners:
            try:
                refuse_awaitable(listener(mutation), "on_mutation")
            except ENDS_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001 - user code
                _log.error("on_mutation failed on %s: %s", mutation.key, error_text(error))

    def _log(self, mutation: CacheMutation) -> None:
        about = mutation.informer, mutation.key
        if about in self._logged:
            return
        self._logged[about] = None
        if len(self._logged) > _MAX_LOGGED:
            self._logged.popitem(last=False)
        _log.error(
            "%s of %s in %s was changed in place (%s); further changes of it are counted;"
            " readers: %s",
            mutation.what,
            mutation.key,
            mutation.informer,
            "; ".join(map(str, mutation.paths)) or "where is not known",
            ", ".join((*mutation.handlers, *mutation.call_sites)) or self._unknown,
        )


def _report(
    value: SharedValue, source: ValueSource, paths: tuple[MutatedPath, ...]
) -> CacheMutation:
    readers = tuple(value.readers)
    named = tuple(dict.fromkeys(handler for handler, _ in readers if handler))
    return CacheMutation(
        informer=source.name,
        key=value.record._key,
        resource_version=value.record.metadata.resource_version,
        what=value.what,
        paths=paths,
        handlers=named if readers else source.handlers(),
        call_sites=tuple(dict.fromkeys(site for _, site in readers if site)),
    )
