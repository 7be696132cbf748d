"""Whether the server behind a connection still has the history that was followed.

The reflectors of one cluster connection share the answer: a proof runs once, however many of them
have lost their watch. A broken history is reported once, and every reflector that followed it lists
again. Several breaks within minutes mean that two clusters answer at one address.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.reflector.lineage._groups import HistoryGroup, affected_by, history_group
from pyinformer.cache.reflector.lineage._proof import HistoryVerdict, Proof, cluster_uid, prove
from pyinformer.cache.reflector.lineage._quorum_lists import QuorumLists
from pyinformer.errors import InformerError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from pyinformer.cache.reflector.lineage._groups import HistoryMember

_log = get_logger(__name__)

_FLAP_RESETS: Final = 2  # more than one restore within minutes is not routine
_FLAP_SECONDS: Final = 600.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LineageStatus:
    """What is known about the history of one server."""

    resets: int
    """How often it turned out not to be the history that was followed."""
    is_flapping: bool
    """Whether that happened more than twice within ten minutes: are two clusters behind one
    address?"""
    proofs: int
    """How many proofs were made; one for all informers that lost their watch together."""
    samples: int
    """How many samples of the history were checked: the newest object or deletion, at the version
    at which it was seen."""
    lagging: int
    """How often a server that is behind answered."""
    undecided: int
    """How often the server did not answer the question."""
    last_reason: str
    """What proved the last break; empty if there was none."""


@final
class _LatestProof:
    """The latest proof of one history, finished or under way."""

    __slots__ = ("began_at", "flight", "outcome")

    def __init__(self) -> None:
        self.began_at = float("-inf")
        self.flight: anyio.Event | None = None
        self.outcome: Proof | InformerError | None = None


@final
class Lineage:
    """The history behind one cluster connection, or one history for each storage behind it.

    Args:
        attempt: waits until one more connection may be tried.
    """

    def __init__(self, *, attempt: Callable[[], Awaitable[None]] | None = None) -> None:
        self._attempt = attempt
        self.round_trips: QuorumLists = QuorumLists()
        """The lists that show how old the caches of the connection are."""
        self.generation: int = 0
        """How many breaks there were; a load remembers the generation in which it began."""
        self._members: dict[int, HistoryMember] = {}
        self._notified: dict[int, int] = {}
        """The generation of the break that each member was notified of last."""
        self._latest_proofs: dict[str, _LatestProof] = {}
        self._resets: deque[float] = deque(maxlen=_FLAP_RESETS + 1)
        self._counts = dict.fromkeys(("proofs", "samples", "lagging", "undecided"), 0)
        self._last_reason = ""
        self._is_flapping = False
        self._cluster_uid = ""

    def join(self, member: HistoryMember) -> Callable[[], None]:
        """Add a reflector; return the function that removes it."""
        self._members[id(member)] = member
        return lambda: self._leave(member)

    def _leave(self, member: HistoryMember) -> None:
        self._members.pop(id(member), None)
        self._notified.pop(id(member), None)

    async def prove(
        self, lost_at: float, member: HistoryMember | None = None, *, alone: bool = False
    ) -> Proof:
        """Prove the history, unless it was proven after the watch was lost.

        Args:
            lost_at: when the watch was lost, on the loop's clock; a proof that began after that is
                shared, whichever reflector asked for it.
            member: the reflector that asks; of several histories, its own is proven.
            alone: prove it for this reflector alone, since answers to others prove nothing for it.

        Raises:
            TransportError: the server could not be reached.
            APIStatusError: the server is overloaded.

        Cancellation:
            Safe; another reflector that waits for the proof repeats it.
        """
        if alone and member is not None:
            return await self._ask(_LatestProof(), HistoryGroup("", [member], [member]))
        history = history_group(self._members.values(), member)
        servers = history_group(self._members.values(), None)
        if history.name != servers.name and any(one is member for one in servers.affected):
            # A restored kube-apiserver is proven once for all, whichever group asks first.
            proof = await self._prove_together(servers, lost_at)
            if proof.verdict is HistoryVerdict.BROKEN:
                return proof
        return await self._prove_together(history, lost_at)

    async def _prove_together(self, history: HistoryGroup, lost_at: float) -> Proof:
        latest = self._latest_proofs.setdefault(history.name, _LatestProof())
        while latest.flight is not None:
            await latest.flight.wait()
            if isinstance(latest.outcome, InformerError) and latest.began_at >= lost_at:
                raise latest.outcome  # another reflector could not have reached the server either
        if isinstance(latest.outcome, Proof) and latest.began_at >= lost_at:
            return latest.outcome
        return await self._ask(latest, history)

    async def _ask(self, latest: _LatestProof, history: HistoryGroup) -> Proof:
        latest.flight = flight = anyio.Event()
        latest.outcome = None
        generation = self.generation
        try:
            if self._attempt is not None:
                await self._attempt()
            latest.began_at = loop_time()
            latest.outcome = proof = await prove(history.deciding)
        except InformerError as error:
            latest.outcome = error
            raise
        finally:
            latest.flight = None
            flight.set()
        self._counts["proofs"] += 1
        self._counts["samples"] += proof.samples
        if proof.verdict.name.lower() in self._counts:
            self._counts[proof.verdict.name.lower()] += 1
        is_news = not all(self.has_notified(one, generation) for one in history.affected)
        if proof.verdict is HistoryVerdict.BROKEN and is_news:
            self.report_break(proof.reason, of=history.affected)
            await self._compare_clusters()
        return proof

    async def _compare_clusters(self) -> None:
        """Log if another cluster answers now; that is known from the second break on."""
        uid = await cluster_uid(self._members.values())
        before, self._cluster_uid = self._cluster_uid, uid or self._cluster_uid
        if uid and before and uid != before:
            self._last_reason += f"; another cluster answers: kube-system was {before}, is {uid}"
            _log.error("another cluster answers at this address: %s", self._last_reason)

    def has_notified(self, member: HistoryMember, generation: int) -> bool:
        """Return whether a reflector was notified of a break later than a generation."""
        return self._notified.get(id(member), 0) > generation

    def report_break(
        self, reason: str, *, by: HistoryMember | None = None, of: Collection[object] | None = None
    ) -> None:
        """Log that a new epoch begins, and notify the reflectors that have to list again.

        Args:
            reason: what proves the break.
            by: the reflector whose complete list is the proof; it has listed already.
            of: the reflectors that followed that history; None for all that a list of `by` affects.
        """
        if of is None and by is not None:
            of = affected_by(self._members.values(), by)
        followers = None if of is None else {id(one) for one in of}
        now = loop_time()
        self.generation += 1
        self._last_reason = reason
        self._resets.append(now)
        recent = [at for at in self._resets if now - at < _FLAP_SECONDS]
        self._is_flapping = len(recent) > _FLAP_RESETS
        members = [
            one
            for number, one in self._members.items()
            if one is not by and (followers is None or number in followers)
        ]
        aware = {id(one) for one in (*members, by)} & self._members.keys()
        self._notified.update(dict.fromkeys(aware, self.generation))
        _log.error(
            "the server's history is not the one that was followed: %s. A new epoch begins, as"
            " after a restore of etcd; informers that list everything again: %d%s",
            reason,
            len(members),
            ". This happened several times lately: are two clusters behind one address?"
            if self._is_flapping
            else "",
        )
        for member in members:
            member.on_history_broken(reason)

    def status(self) -> LineageStatus:
        """Return what is known, from any thread."""
        return LineageStatus(
            resets=self.generation,
            is_flapping=self._is_flapping,
            last_reason=self._last_reason,
            **self._counts,
        )
