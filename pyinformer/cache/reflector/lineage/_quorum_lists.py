"""Round trips: a list that was sent at an instant, and the version that its answer names.

Only a request that was sent proves how old a cache is: what arrives may have been on its way for
minutes. A quorum list of one object names the newest version of its storage, so every reflector of
that storage is as new as the request once it has reached that version. The reflectors of one
connection share the answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, final

import anyio
from msgspec import Struct

from pyinformer._runtime.tasks import SharedTimer, Stepped, loop_time
from pyinformer.cache.reflector.lineage._comparison_turns import ComparisonTurns
from pyinformer.cache.reflector.lineage._groups import storage_of
from pyinformer.cache.reflector.lineage._proof import SelectorIgnoredError, read_live
from pyinformer.client.transport import ListWatch
from pyinformer.errors import APIStatusError, ProtocolError
from pyinformer.objects import resource_version_is_well_formed

if TYPE_CHECKING:
    from collections.abc import Callable

_STILL_SECONDS: Final = 60.0  # what stood still for one reflector may do so for others
_SELECTOR_REFUSED: Final = (400, 422)
_SPACING_SECONDS: Final = 2.0  # between the lists of several storages
_ROUND_SECONDS: Final = 80.0  # in which each of many storages has its list


@final
class RoundTrip(Struct, frozen=True):
    """One list that was answered."""

    sent_at: float
    """When the request was sent, on the loop's clock."""
    version: str
    """The newest version of the storage, at that instant or later."""
    path: str = ""
    """What was listed."""


class Member(Stepped, Protocol):
    """A reflector whose age the round trips of its storage renew."""

    def on_trip(self, trip: RoundTrip) -> None:
        """Record a round trip of the storage, whichever reflector has sent it.

        What it raises is passed to `fail`: it must not end another reflector.
        """
        ...


@final
class _LatestTrip:
    """The latest round trip of one storage or resource, and the one under way."""

    __slots__ = ("flight", "trip")

    def __init__(self) -> None:
        self.flight: anyio.Event | None = None
        self.trip: RoundTrip | None = None


@final
class QuorumLists:
    """The round trips of one connection, and what its watches have shown beside them."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], _LatestTrip] = {}
        self._still_at = float("-inf")
        self._members: dict[str, dict[Member, None]] = {}  # of each storage
        self.timer: SharedTimer = SharedTimer()
        """Steps the members."""
        self._waiting: dict[str, float] = {}  # storages, and since when a list of them is due
        self.turns: ComparisonTurns = ComparisonTurns()
        """Whose watch is compared with a list next."""
        self.reminders: ComparisonTurns = ComparisonTurns()
        """For whose watch a bookmark is brought about next."""
        self._paced_until = float("-inf")
        self.sent: int = 0
        """How many lists were sent."""
        self._without_limit: set[str] = set()  # paths whose lists ignore the limit of one item
        self._has_followed = False

    async def take(
        self, list_watch: ListWatch, *, oldest_at: float, alone: bool = False
    ) -> RoundTrip:
        """Return a round trip that is new enough, or send a list.

        Args:
            list_watch: the resource and the scope of the reflector that asks.
            oldest_at: a round trip that was sent before this instant is not enough.
            alone: list this very resource. A kube-apiserver that answers from its watch cache
                brings that cache up to date for it, and with it the next bookmark; a list of
                another resource does not.

        Raises:
            InformerError: the server refused, could not be reached, or named no version.

        Cancellation:
            Safe; another reflector that waits sends its own list.
        """
        resource = list_watch.resource
        storage = storage_of(resource)
        latest = self._latest.setdefault((storage, str(resource) if alone else ""), _LatestTrip())
        while latest.flight is not None:
            await latest.flight.wait()
        if latest.trip is not None and latest.trip.sent_at >= oldest_at:
            return latest.trip
        latest.flight = flight = anyio.Event()
        try:
            latest.trip = trip = await self._send(list_watch)
        finally:
            latest.flight = None
            flight.set()
        if not alone:
            for member in tuple(self._members.get(storage, ())):
                try:
                    member.on_trip(trip)
                except Exception as error:  # noqa: BLE001 - raised in the task of that member
                    member.fail(error)
        return trip

    def join(self, list_watch: ListWatch, member: Member) -> Callable[[], None]:
        """Add a reflector; return the function that removes it.

        Args:
            list_watch: the resource and the scope that it follows.
            member: is stepped when it is due, or a watch was found to stand still.
        """
        storage = storage_of(list_watch.resource)
        self._members.setdefault(storage, {})[member] = None
        leave_timer = self.timer.join(member)

        def leave() -> None:
            leave_timer()
            members = self._members[storage]
            del members[member]
            if not members:
                del self._members[storage]
                self._waiting.pop(storage, None)

        return leave

    def reserve(self, now: float) -> None:
        """Let others wait for the list that a member is about to send."""
        self._paced_until = max(self._paced_until, now + self._spacing_seconds)

    def paced_until(
        self, list_watch: ListWatch, due_at: float, now: float, courtesy_seconds: float
    ) -> float:
        """Return when a list that no reader waits for may be sent.

        The storage whose list has been due for longest comes first. With very many the lists come
        at shorter intervals, so that each storage has one in less than a minute and a half.

        Args:
            list_watch: the resource and the scope of the reflector that asks.
            due_at: when a list of its storage is due, or since when.
            now: the loop's time.
            courtesy_seconds: how much later than others of its storage it may be.
        """
        storage = storage_of(list_watch.resource)
        if due_at > now:
            return due_at
        since = self._waiting[storage] = min(due_at, self._waiting.get(storage, due_at))
        before = sum((at, one) < (since, storage) for one, at in self._waiting.items())
        at = self._paced_until + before * self._spacing_seconds
        return at if len(self._members) == 1 else at + courtesy_seconds

    @property
    def _spacing_seconds(self) -> float:
        return min(_SPACING_SECONDS, _ROUND_SECONDS / max(1, len(self._members)))

    def latest(self, list_watch: ListWatch) -> RoundTrip | None:
        """Return the latest round trip of a resource's storage, whichever reflector sent it."""
        latest = self._latest.get((storage_of(list_watch.resource), ""))
        return None if latest is None else latest.trip

    async def _send(self, list_watch: ListWatch) -> RoundTrip:
        self.sent += 1
        sent_at = loop_time()
        self._paced_until = sent_at + self._spacing_seconds
        # Those before it have not used their place: they take it again, if they still want it.
        storage = storage_of(list_watch.resource)
        since = self._waiting.get(storage, float("-inf")), storage
        self._waiting = {one: at for one, at in self._waiting.items() if (at, one) > since}
        least = _least_of(list_watch)
        is_whole = least.path in self._without_limit
        try:
            found = await read_live(list_watch.nothing() if is_whole else least, metadata_only=True)
        except APIStatusError as error:
            if is_whole and error.status in _SELECTOR_REFUSED:
                what, reason = f"list {list_watch.resource}", "it has no list of less than all"
                raise SelectorIgnoredError(what, reason) from error
            raise
        if found.is_whole:
            self._without_limit.add(least.path)
        version = found.resource_version
        if not resource_version_is_well_formed(version):
            what = f"list {list_watch.resource}"
            raise ProtocolError(what, f"it is at {version[:40]!r}, which cannot be compared")
        return RoundTrip(sent_at, version, list_watch.path)

    def followed(self) -> None:
        """Record that watches had the version of a list before them."""
        self._has_followed = True

    def knows_followed(self) -> bool:
        """Return whether watches have ever followed lists without a change of their resource.

        Without that a watch that is behind shows nothing: an older kube-apiserver may learn of the
        progress of its etcd every ten minutes.
        """
        return self._has_followed

    def stood_still(self, now: float) -> None:
        """Record that a watch was found not to follow lists: all others may not either."""
        self._still_at = now
        self.timer.wake_all()

    def is_suspect(self, looked_at: float, now: float) -> bool:
        """Return whether a watch that was compared at an instant may have stood still since."""
        return self._still_at > looked_at and now - self._still_at < _STILL_SECONDS


def _least_of(list_watch: ListWatch) -> ListWatch:
    """Return what is listed: without selectors, which a server may search all objects for.

    A role may allow an object by its name only; that selector stays.
    """
    if "metadata.name=" in dict(list_watch.selectors).get("fieldSelector", ""):
        return list_watch
    return ListWatch(list_watch.connection, list_watch.resource, namespace=list_watch.namespace)
