"""Whether a server's history is still the one that was followed: asked once for a connection.

What enters are the reflectors of one cluster connection, and the question of each that has lost
its watch; what leaves is one verdict for all of them. A proof runs once however many ask. A break
is said once, and tells everybody to load again; several within minutes mean two clusters behind
one address.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, final

import anyio

from pyinformer._logging import get_logger
from pyinformer.apimachinery import InformerError
from pyinformer.reflector._histories import History, beside, concerned
from pyinformer.reflector._proof import Proof, Witnessing, cluster_uid, prove
from pyinformer.reflector._state import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

_log = get_logger(__name__)

_FLAP_RESETS: Final = 2  # more than one restore within minutes is nobody's routine
_FLAP_SECONDS: Final = 600.0


class Member(Witnessing, Protocol):
    """A reflector that follows the server."""

    def lineage_broken(self, reason: str) -> None:
        """Load again, and believe nothing that is cached."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LineageStatus:
    """What is known about the history of one server."""

    resets: int
    """How often it turned out not to be the one that was followed."""
    is_flapping: bool
    """It did so more than twice within ten minutes: two clusters behind one address?"""
    proofs: int
    """How often it was asked for; once however many informers had lost their watch."""
    witnesses: int
    """Requests for what was seen last, at the very version at which it was seen."""
    lagging: int
    """How often a server that is behind answered."""
    undecided: int
    """How often the server would not tell."""
    last_reason: str
    """What the last break was recognised by; empty if there was none."""


@final
class _Question:
    """What was asked last about one history, and is perhaps being asked."""

    __slots__ = ("began_at", "flight", "outcome")

    def __init__(self) -> None:
        self.began_at = float("-inf")
        self.flight: anyio.Event | None = None
        self.outcome: Proof | InformerError | None = None


@final
class Lineage:
    """The history behind one cluster connection; of several, where storages are several.

    Args:
        attempt: waits until one more connection may be tried.
    """

    def __init__(self, *, attempt: Callable[[], Awaitable[None]] | None = None) -> None:
        self._attempt = attempt
        self.generation: int = 0
        """How many breaks there were; a load remembers the one it began in."""
        self._members: dict[int, Member] = {}
        self._told: dict[int, int] = {}
        """The break that each of them was told of last."""
        self._questions: dict[str, _Question] = {}
        self._resets: deque[float] = deque(maxlen=_FLAP_RESETS + 1)
        self._counts = dict.fromkeys(("proofs", "witnesses", "lagging", "undecided"), 0)
        self._last_reason = ""
        self._is_flapping = False
        self._cluster_uid = ""

    def join(self, member: Member) -> Callable[[], None]:
        """Count a reflector in; what is returned counts it out."""
        self._members[id(member)] = member
        return lambda: self._leave(member)

    def _leave(self, member: Member) -> None:
        self._members.pop(id(member), None)
        self._told.pop(id(member), None)

    async def prove(
        self, lost_at: float, member: Member | None = None, *, alone: bool = False
    ) -> Proof:
        """Ask the server, unless it was asked since.

        Args:
            lost_at: when the watch was lost, on the loop's clock; an answer to a question that
                was asked after that is good enough, whoever asked it.
            member: who wants to know; of several histories, its own is asked about.
            alone: it asks for itself: nothing that others hear proves anything for it.

        Raises:
            TransportError: the server could not be reached.
            APIStatusError: the server has no time now.

        Cancellation:
            Safe; whoever else waits asks again.
        """
        if alone and member is not None:
            return await self._ask(_Question(), History("", [member], [member]))
        history = beside(self._members.values(), member)
        servers = beside(self._members.values(), None)
        if history.name != servers.name and any(one is member for one in servers.followers):
            # A restored kube-apiserver is proven once for all, whichever group asks first.
            proof = await self._prove_together(servers, lost_at)
            if proof.verdict is Verdict.BROKEN:
                return proof
        return await self._prove_together(history, lost_at)

    async def _prove_together(self, history: History, lost_at: float) -> Proof:
        question = self._questions.setdefault(history.name, _Question())
        while question.flight is not None:
            await question.flight.wait()
            if isinstance(question.outcome, InformerError) and question.began_at >= lost_at:
                raise question.outcome  # a server that one could not reach, nobody could
        if isinstance(question.outcome, Proof) and question.began_at >= lost_at:
            return question.outcome
        return await self._ask(question, history)

    async def _ask(self, question: _Question, history: History) -> Proof:
        question.flight = flight = anyio.Event()
        question.outcome = None
        generation = self.generation
        try:
            if self._attempt is not None:
                await self._attempt()
            question.began_at = anyio.current_time()
            question.outcome = proof = await prove(history.witnesses)
        except InformerError as error:
            question.outcome = error
            raise
        finally:
            question.flight = None
            flight.set()
        self._counts["proofs"] += 1
        self._counts["witnesses"] += proof.witnesses
        if proof.verdict.name.lower() in self._counts:
            self._counts[proof.verdict.name.lower()] += 1
        is_news = not all(self.has_told(one, generation) for one in history.followers)
        if proof.verdict is Verdict.BROKEN and is_news:
            self.broke(proof.reason, of=history.followers)
            await self._tell_cluster()
        return proof

    async def _tell_cluster(self) -> None:
        """Say if it is another cluster that answers; known from the second break on."""
        uid = await cluster_uid(self._members.values())
        before, self._cluster_uid = self._cluster_uid, uid or self._cluster_uid
        if uid and before and uid != before:
            self._last_reason += f"; another cluster answers: kube-system was {before}, is {uid}"
            _log.error("another cluster answers at this address: %s", self._last_reason)

    def has_told(self, member: Witnessing, generation: int) -> bool:
        """Tell whether a reflector was told of a break after so many of them."""
        return self._told.get(id(member), 0) > generation

    def broke(
        self,
        reason: str,
        *,
        by: Witnessing | None = None,
        of: Collection[object] | None = None,
    ) -> None:
        """Say once that a new epoch begins, and let everybody load again.

        Args:
            reason: what proves it.
            by: whose complete list is the proof, and so has loaded already.
            of: those whose history it is; None for all for whom a list of `by` proves it.
        """
        if of is None and by is not None:
            of = concerned(self._members.values(), by)
        followers = None if of is None else {id(one) for one in of}
        now = anyio.current_time()
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
        self._told.update(dict.fromkeys(aware, self.generation))
        _log.error(
            "the server's history is not the one that was followed: %s. A new epoch begins, as"
            " after a restore of etcd; informers that load everything again: %d%s",
            reason,
            len(members),
            ". It happens again and again: are two clusters behind one address?"
            if self._is_flapping
            else "",
        )
        for member in members:
            member.lineage_broken(reason)

    def status(self) -> LineageStatus:
        """Return what is known; from any thread."""
        return LineageStatus(
            resets=self.generation,
            is_flapping=self._is_flapping,
            last_reason=self._last_reason,
            **self._counts,
        )
