"""Who makes a write: whoever wants to know what came of its own writes sets a variable around them.

What enters is the answer of a write, as seen by the Cluster; what leaves is a word to the writer of
the current context: did the write change anything? The context follows a reconcile into tasks,
worker threads and back, so no argument has to be passed through the user's code.
"""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.apimachinery import GroupVersionResource

_MAX_REMEMBERED: Final = 65_536  # about 10 MB; the oldest goes first

NOBODY: Final = ""
"""The name under which writes outside of any reconcile count."""


class Writer(Protocol):
    """Is told of its own writes, on the event loop; must neither block nor raise."""

    @property
    def name(self) -> str:
        """Names it in statistics; few writers have different names."""
        ...

    def wrote(self, *, changed: bool) -> None:
        """Take note of a write that the server has carried out.

        Args:
            changed: the object has another resource version than before.
        """
        ...


CURRENT_WRITER: Final = ContextVar[Writer | None]("pyinformer writer", default=None)


@final
class WriteTally:
    """Counts the writes of one cluster that changed nothing, and tells their writers.

    Args:
        limit: of how many objects the last answer is remembered.
    """

    __slots__ = ("_answers", "_limit", "_unchanged")

    def __init__(self, *, limit: int = _MAX_REMEMBERED) -> None:
        self._limit = limit
        self._answers: dict[int, int] = {}  # hashes: a false equality is a miscount, no more
        self._unchanged: Counter[str] = Counter()

    @property
    def unchanged(self) -> Mapping[str, int]:
        """How many writes changed nothing, by the writer's name."""
        return dict(self._unchanged)

    def created(self, resource: GroupVersionResource, key: str, after: str) -> None:
        """Count a creation, which changes something whatever it is told.

        Args:
            resource: the resource.
            key: which object.
            after: the resource version that the server answered.
        """
        self._remember(hash((resource, key)), hash(after))
        _tell(changed=True)

    def deleted(self, resource: GroupVersionResource, key: str) -> None:
        """Count a write that an object has ended with, which is a change whatever it is told."""
        self._answers.pop(hash((resource, key)), None)
        _tell(changed=True)

    def wrote(
        self,
        resource: GroupVersionResource,
        key: str,
        *,
        before: str | None,
        after: str,
        is_due: bool = False,
    ) -> None:
        """Count a write to an object that may have existed.

        It has changed nothing if its answer has the version that the writer knew, or one that an
        earlier answer had. Where neither is known, nothing is said about it.

        Args:
            resource: the resource.
            key: which object.
            before: the resource version that the writer knew; empty or None if it knew none.
            after: the one that the server answered.
            is_due: the writer cannot know whether it changes anything, and has to write once.
        """
        version = hash(after)
        earlier = self._remember(hash((resource, key)), version)
        if not before and earlier is None:
            return
        changed = after != before and version != earlier
        if not changed:
            writer = CURRENT_WRITER.get()
            self._unchanged[NOBODY if writer is None else writer.name] += 1
        if changed or not is_due:
            _tell(changed=changed)

    def _remember(self, identity: int, version: int) -> int | None:
        earlier = self._answers.pop(identity, None)
        self._answers[identity] = version
        if len(self._answers) > self._limit:
            del self._answers[next(iter(self._answers))]
        return earlier


def _tell(*, changed: bool) -> None:
    writer = CURRENT_WRITER.get()
    if writer is not None:
        writer.wrote(changed=changed)
