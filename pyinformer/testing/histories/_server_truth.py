"""`ServerTruth`: every revision of an embedded server, written to a history."""

# Pure: it knows no event loop.

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, final

from pyinformer.objects import JSONObject, decoder_of
from pyinformer.testing.histories._digests import digest_of, status_digests
from pyinformer.testing.histories._etcd_log import resource_name
from pyinformer.testing.histories._history import History
from pyinformer.testing.histories._records import RestoredRecord, TruthRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.testing.apiserver.resources import ResourceType
    from pyinformer.testing.apiserver.storage import (
        ChangeReceiver,
        Record,
        SavedState,
        StoredChange,
    )

_decode = decoder_of(JSONObject)


class Observed(Protocol):
    """A server whose changes can be received: an APIServer."""

    def add_receiver(self, receiver: ChangeReceiver) -> None:
        """Call a receiver for the state of now, and then for every change."""
        ...

    def remove_receiver(self, receiver: ChangeReceiver) -> None:
        """Stop calling it."""
        ...


@final
class ServerTruth:
    """Follows an embedded server: `with ServerTruth(history, server) as truth`.

    Each change is recorded in the moment in which it is made. What exists before is recorded first.

    Args:
        history: where records go.
        server: the server.
    """

    def __init__(self, history: History, server: Observed) -> None:
        self._history = history
        self._server = server
        self.revision: int = 0
        """The newest revision in the history."""

    def catch_up(self) -> int:
        """Return the newest revision, which is in the history already."""
        return self.revision

    def __enter__(self) -> Self:
        self._server.add_receiver(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.remove_receiver(self)

    def take(self, waiting: tuple[ResourceType, StoredChange] | int) -> None:
        """Record a change; called by the server."""
        if isinstance(waiting, int):
            self.revision = waiting
            return
        change = waiting[1]
        self.revision = change.revision
        if change.new is not None:
            self._put(change.new)
        elif change.old is not None:
            self._history.add(
                TruthRecord(
                    revision=change.revision,
                    resource=_name(change.old),
                    key=change.key,
                    uid=change.old.uid,
                    verb="delete",
                )
            )

    def restore(self, saved: SavedState, bump_revision: int) -> None:
        """Record another history; called by the server."""
        self.revision = saved.revision + bump_revision
        records = [one for objects in saved.records.values() for one in objects.values()]
        self._history.add(
            RestoredRecord(revision=self.revision, puts=len(records), reason="restored")
        )
        for record in records:
            self._put(record)

    def read_again(
        self, resource: ResourceType, convert: Callable[[JSONObject], JSONObject]
    ) -> None:
        """Ignore a changed definition, as etcd's log has none of it; called by the server."""

    def forget(self) -> None:
        """Ignore that the server forgets its history; called by the server."""

    def _put(self, record: Record) -> None:
        obj = _decode(record.full)
        self._history.add(
            TruthRecord(
                revision=record.revision,
                resource=_name(record),
                key=record.key,
                uid=record.uid,
                labels=dict(record.labels),
                fields={path: value for path, value in record.fields.items() if value},
                digest=digest_of(obj),
                status=status_digests(obj.get("status")),
            )
        )


def _name(record: Record) -> str:
    return resource_name(record.resource.group, record.resource.plural)
