"""Which reconcile makes a write, and whether the write changed anything.

A controller sets a context variable around each reconcile. The variable follows the reconcile into
tasks, worker threads and back, so user code does not have to pass anything along.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol, final
from weakref import ReferenceType, WeakKeyDictionary, ref

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from pyinformer.objects import GroupVersionResource

_MAX_REMEMBERED: Final = 65_536  # about 10 MB; the oldest are dropped first

OUTSIDE: Final = ""
"""The name under which writes outside of any reconcile are counted."""


class Writer(Protocol):
    """Is called with the outcome of its own writes, on the event loop; must not block or raise."""

    @property
    def name(self) -> str:
        """Its name in statistics; few writers have different names."""
        ...

    @property
    def identity(self) -> Hashable:
        """Equal for the reconciles of one key by one controller, of which no two run at once."""
        ...

    def wrote(self, *, changed: bool) -> None:
        """Record a write that the server has carried out.

        Args:
            changed: the object has another resource version than before.
        """
        ...


CURRENT_WRITER: Final = ContextVar[Writer | None]("pyinformer writer", default=None)

CURRENT_CALLER: Final = ContextVar[object | None]("pyinformer caller", default=None)
"""Who makes a call of the blocking API, each of which has a task of its own: a thread."""

_CALL: Final = ContextVar[ReferenceType[asyncio.Task[Any]] | None]("pyinformer call", default=None)
"""The task of that call: tasks that the called function starts write for themselves."""

_tokens: Final[WeakKeyDictionary[asyncio.Task[Any], object]] = WeakKeyDictionary()
"""The identity of each task that has written; the task itself would be kept by what it wrote."""


def current_identity() -> Hashable:
    """Return the identity of the present writer: of a reconcile, else of the thread or the task.

    Handlers, views of a web server and other parts of one program read and write independently.
    """
    writer = CURRENT_WRITER.get()
    if writer is not None:
        return writer.identity
    task, caller = asyncio.current_task(), CURRENT_CALLER.get()
    if caller is not None:
        call = _CALL.get()
        if call is None or call() is task:
            return caller
    return None if task is None else _tokens.setdefault(task, object())


def begin_call() -> None:
    """Let this task write for CURRENT_CALLER, and the tasks that it starts for themselves."""
    task = asyncio.current_task()
    _CALL.set(None if task is None else ref(task))


def context_without_writer() -> Context:
    """Return a copy of the present context for what outlives the reconcile that starts it."""
    context = copy_context()
    context.run(CURRENT_WRITER.set, None)
    context.run(CURRENT_CALLER.set, None)
    return context


@final
class WriteOutcomes:
    """Counts the writes of one cluster that changed nothing, and reports outcomes to writers.

    Args:
        limit: how many objects' last resource versions are kept.
    """

    __slots__ = ("_limit", "_unchanged", "_versions")

    def __init__(self, *, limit: int = _MAX_REMEMBERED) -> None:
        self._limit = limit
        self._versions: dict[int, int] = {}  # hashes: a collision is a miscount, nothing worse
        self._unchanged: Counter[str] = Counter()

    @property
    def unchanged(self) -> Mapping[str, int]:
        """How many writes changed nothing, by the writer's name."""
        return dict(self._unchanged)

    def created(self, resource: GroupVersionResource, key: str, after: str) -> None:
        """Record a creation, which always is a change.

        Args:
            resource: the resource.
            key: which object.
            after: the resource version in the response.
        """
        self._remember(hash((resource, key)), hash(after))
        _report(changed=True)

    def changed(self, resource: GroupVersionResource, key: str) -> None:
        """Record a write that is a change, and after which the version is unknown: a deletion."""
        self._versions.pop(hash((resource, key)), None)
        _report(changed=True)

    def wrote(
        self,
        resource: GroupVersionResource,
        key: str,
        *,
        before: str | None,
        after: str,
        is_due: bool = False,
    ) -> None:
        """Record a write to an object that may have existed.

        It changed nothing if the response has the version that the writer knew, or that of an
        earlier response. Where neither is known, nothing is reported.

        Args:
            resource: the resource.
            key: which object.
            before: the resource version that the writer knew; empty or None if it knew none.
            after: the one in the response.
            is_due: the writer cannot know whether it changes anything, and has to write once.
        """
        version = hash(after)
        earlier = self._remember(hash((resource, key)), version)
        if not before and earlier is None:
            return
        changed = after != before and version != earlier
        if not changed:
            writer = CURRENT_WRITER.get()
            self._unchanged[OUTSIDE if writer is None else writer.name] += 1
        if changed or not is_due:
            _report(changed=changed)

    def _remember(self, identity: int, version: int) -> int | None:
        earlier = self._versions.pop(identity, None)
        self._versions[identity] = version
        if len(self._versions) > self._limit:
            del self._versions[next(iter(self._versions))]
        return earlier


def _report(*, changed: bool) -> None:
    writer = CURRENT_WRITER.get()
    if writer is not None:
        writer.wrote(changed=changed)
