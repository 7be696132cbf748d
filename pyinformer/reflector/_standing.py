"""Where a guard stands: its position, its epoch, its order, and how these move.

What enters are versions that were applied, bookmarks and lists that were taken over; what leaves is
where to resume, and what a list is measured by. Within an epoch the position never goes back, and a
new epoch begins with nothing remembered. Pure; what an event may do is decided by the guard.
"""

from __future__ import annotations

from collections.abc import Collection

from pyinformer._logging import get_logger
from pyinformer.apimachinery import older, resource_version_is_well_formed
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector._memory import Memory
from pyinformer.reflector._orders import RULES
from pyinformer.reflector._ruling import Order
from pyinformer.reflector._tally import GuardStatistics, Tally

_log = get_logger(__name__)
_UNORDERED_LISTS = 2  # the second was asked for because of the first
_UNORDERED_CONNECTIONS = 3  # one can be a lagging server, two a coincidence
_NOT_RESUMABLE = frozenset({"", "0"})  # "0" asks for any state at all


class Standing:
    """Where the guard of one reflector stands; the arguments are the Guard's."""

    __slots__ = (
        "_memory",
        "_order",
        "_previous",
        "_resource",
        "_rules",
        "_unordered",
        "distrusts",
        "epoch",
        "is_resetting",
        "position",
        "tally",
        "unordered_lists",
    )

    def __init__(
        self,
        *,
        metrics: Metrics = NO_METRICS,
        resource: str = "",
        order: Order = "global",
    ) -> None:
        self.position: str = ""
        """Every change up to here is applied; empty before the first list."""
        self.epoch: int = 0
        self.tally: Tally = Tally(metrics, resource)
        """What is counted; whoever counts beside the table does it there."""
        self.distrusts: bool = False
        """A list showed that the server went back in time: the next one compares contents."""
        self.is_resetting: bool = False
        """A list that begins a new epoch is being taken over: its updates may go back in time."""
        self.unordered_lists: int = 0
        """So many lists in a row held objects newer than themselves."""
        self._previous = ""
        self._unordered = 0
        self._memory = Memory()
        self._resource = resource
        self._order: Order = order
        self._rules = RULES[order]
        self.tally.show_order(order)

    @property
    def order(self) -> Order:
        """What resource versions are taken to prove."""
        return self._order

    def use_order(self, order: Order) -> None:
        """Take resource versions to prove something else from now on, and say so.

        What is cached stays; load again where the order has become a stricter one.
        """
        if order == self._order:
            return
        _log.error(
            "%s: resource versions are taken as %s instead of %s from now on",
            self._resource,
            order,
            self._order,
            extra={"resource": self._resource, "order": order, "order_before": self._order},
        )
        self._order, self._rules = order, RULES[order]
        self._previous = self.position
        self._unordered = 0
        self._memory.readings.clear()
        self.tally.show_order(order)

    def sees_no_order(self) -> bool:
        """Tell whether streams in a row went back though each object's versions grew, or lists did.

        That is how an API looks whose versions compare only within an object. A server that
        replays or lags also shows objects as they were, which ends this suspicion.
        """
        lists = self.unordered_lists >= _UNORDERED_LISTS
        return lists or self._unordered >= _UNORDERED_CONNECTIONS

    @property
    def can_resume(self) -> bool:
        """Whether a watch can start at the position; if not, only lists tell what changed."""
        return self.position not in _NOT_RESUMABLE

    @property
    def resume_position(self) -> str:
        """Where a new watch starts: at the last distinct version before the position.

        Several changes can have one resource version (the end of a lease, a transaction of an
        aggregated API), and the stream may have been cut off after the first of them. A watch from
        here repeats the changes of the position itself; the rules drop those that were applied.
        """
        return self._previous

    @property
    def complete_position(self) -> str:
        """Every change up to here is applied for certain: a witness of history is asked for here.

        At the position itself more changes of the same version may be on their way.
        """
        return self._previous

    def applied(self, resource_version: str) -> None:
        """Move the position, now that the sink has taken an event of this version."""
        position = self.position
        if len(resource_version) == len(position) and resource_version > position:
            self._previous = position
            self.position = resource_version
        else:
            self._move(resource_version)

    def is_behind(self, resource_version: str) -> bool:
        """Tell whether a bookmark or a complete list is older than what is applied already."""
        return self._order == "global" and older(resource_version, self.position)

    def taking_over(
        self, resource_version: str, *, rewound: bool = False, broken: bool = False
    ) -> bool:
        """Take note that a list is about to be handed to the sink; the arguments are `loaded`'s.

        Returns:
            Whether it begins a new epoch; `is_resetting` says so, too, until it is loaded.
        """
        begins = rewound or broken or self.is_behind(resource_version)
        self.is_resetting = bool(self.position) and begins
        return self.is_resetting

    def loaded(self, resource_version: str, *, rewound: bool = False, broken: bool = False) -> bool:
        """Take the version of a complete, consistent list over as the position.

        Args:
            resource_version: the list's own, well formed unless the order is opaque.
            rewound: an item of the list proves that the server went back in time.
            broken: the server's history was proven to be another one than the one followed.

        Returns:
            Whether this is a new epoch: the server's history is not the one we followed.
        """
        new_epoch = self.taking_over(resource_version, rewound=rewound, broken=broken)
        if new_epoch:
            if rewound:
                self.tally.regressed("reset", source="list_item")
            elif self.is_behind(resource_version):
                self.tally.regressed("reset", source="list")
            self.epoch += 1
            self.tally.count("lineage_resets")
            self._memory.clear()
        self.is_resetting = self.distrusts = False
        self.unordered_lists = 0
        self._settle(resource_version)
        return new_epoch

    def has_buried(self, key: str, uid: str) -> bool:
        """Tell whether this object is dead, as far as is remembered."""
        return self._memory.dead.has(key, uid)

    def burial(self, key: str) -> str:
        """Return the version of the latest deletion under a key, as far as is remembered."""
        return self._memory.dead.died_at(key)

    def newest_tombstone(self) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest deletion, or None.

        A witness of the history that was followed: it does not exist at the later of that version
        and `complete_position`.
        """
        return self._memory.dead.newest(self.position) if self._order == "global" else None

    def read_after(self, resource_version: str) -> Collection[str]:
        """Return the keys of which a verify has shown a state later than a list's."""
        return self._memory.readings.beyond(resource_version).keys()

    def count(self, name: str, value: str = "", *, label: str = "action") -> None:
        """Count something that happened beside the table."""
        self.tally.count(name, value, label=label)

    def statistics(self) -> GuardStatistics:
        """Return where the guard stands."""
        buried, counts = len(self._memory.dead), self.tally.counts()
        return GuardStatistics(self.position, self.epoch, buried, counts, self._order)

    def _settle(self, resource_version: str) -> None:
        # Nothing before this version is outstanding, so a watch may resume exactly here; a quiet
        # stream that resumed earlier would one day resume at a version the server has forgotten.
        self.position = self._previous = resource_version
        self._memory.readings.reached(resource_version)

    def _advance(self, resource_version: str) -> None:
        if resource_version not in {self.position, ""}:
            self._previous, self.position = self.position, resource_version

    def _move(self, resource_version: str) -> None:
        """Move to the version of an event; in a global order only forward."""
        if self._order != "global" or self._is_news(resource_version):
            self._advance(resource_version)

    def _is_news(self, resource_version: str) -> bool:
        return self._order == "global" and older(self.position, resource_version)

    def _is_readable(self, *versions: str) -> bool:
        return self._order == "opaque" or all(map(resource_version_is_well_formed, versions))
