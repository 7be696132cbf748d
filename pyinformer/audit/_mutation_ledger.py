"""Deciding whether shared values are as they arrived, and keeping the books of those that are not.

What enters are values with a digest of what they were, and a way to their original; what leaves is
a report for each that was changed. A changed one is handed back to be healed, reported once for
each change and logged once for each key. The books are bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Protocol, final

from pyinformer._logging import get_logger
from pyinformer.audit._mutation import CacheMutation, MutatedPath, digest_of, mutated_paths
from pyinformer.tasks import error_text

if TYPE_CHECKING:
    from pyinformer.apimachinery import KubeObject, View

_log = get_logger("pyinformer.audit")

_MAX_REPORTS = 100
_MAX_LOGGED = 1_000  # keys; beyond, a key may be logged a second time


class SharedValue(Protocol):
    """A value that several readers have."""

    digest: int | None
    """Of what it was when it arrived; None until somebody looks for the first time."""

    @property
    def what(self) -> str:
        """What a report calls it."""
        ...

    @property
    def record(self) -> KubeObject[View | None]:
        """The object that it was made of."""
        ...

    @property
    def readers(self) -> Collection[tuple[str, str]]:
        """Handler and call site of those who read it, where that is noted."""
        ...

    def current(self) -> object:
        """Return it as it is."""
        ...

    def original(self) -> object:
        """Make it anew from what cannot be changed; None if it cannot be made."""
        ...


class ValueSource(Protocol):
    """Where shared values come from."""

    @property
    def name(self) -> str:
        """Names it in reports."""
        ...

    def handlers(self) -> tuple[str, ...]:
        """Return the names of all who could have read a value."""
        ...

    def values(self) -> Iterable[SharedValue]:
        """Return all values that readers can get at this moment."""
        ...

    def heal(self, value: SharedValue) -> None:
        """Give the readers to come one that is as it arrived."""
        ...

    def misplaced(self) -> Iterable[CacheMutation | None]:
        """Look, step by step, whether objects are found by what they are indexed by."""
        ...

    def tell(self, mutation: CacheMutation) -> None:
        """Count a mutation."""
        ...


@final
class MutationLedger:
    """Checks values and remembers what was found.

    Args:
        names_readers: whether it is noted who reads; else the log says how to have it noted.
    """

    def __init__(self, *, names_readers: bool = False) -> None:
        self._unknown = "not known"
        if not names_readers:
            self._unknown += ': MutationDetector("debug") names them'
        self.checked: int = 0
        """How many times a value was looked at."""
        self.mutations: int = 0
        """How many were found changed."""
        self.recent: deque[CacheMutation] = deque(maxlen=_MAX_REPORTS)
        self.listeners: list[Callable[[CacheMutation], object]] = []
        """Are told of each one, in the thread that found it; what they raise is logged."""
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, value: SharedValue, source: ValueSource) -> CacheMutation | None:
        """Look whether a value is as it arrived; if not, have it healed and report it."""
        self.checked += 1
        if value.digest is None:  # of what arrived, not of what readers have had since
            value.digest = digest_of(value.original())
        now = digest_of(value.current())
        if now is not None and now == value.digest:
            return None
        original = value.original()
        paths = None if original is None else mutated_paths(original, value.current())
        value.digest = now  # what is told now is not told again
        if paths == () and now is not None:
            return None  # fields in another order say the same
        mutation = _report(value, source, paths or ())
        source.heal(value)
        self.take(mutation, source)
        return mutation

    def take(self, mutation: CacheMutation, source: ValueSource) -> None:
        """Keep, count, log and tell what was found."""
        self.mutations += 1
        self.recent.append(mutation)
        source.tell(mutation)
        self._log(mutation)
        for listener in self.listeners:
            try:
                listener(mutation)
            except Exception as error:  # noqa: BLE001 - user code
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
