"""The proof that a server's history is the one that was followed.

A probe shows whether the server has reached the followed position. Samples of the history then show
whether the newest object and the newest deletion exist in the server's history as they were seen.
Each request has its own connection, so that two answers do not come from one server. A server that
cannot be reached is an error; one that does not answer the question leaves it undecided.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, final

import anyio
import msgspec
from msgspec import Struct

from pyinformer._runtime.tasks import TimeBudget, spread
from pyinformer.cache.reflector.lineage._groups import has_comparable_position
from pyinformer.client.transport import NO_SERVER_BEHIND, ListSplitter
from pyinformer.errors import (
    APIStatusError,
    BadRequestError,
    InformerError,
    InvalidError,
    ProtocolError,
    RequestTimeoutError,
    ResourceVersionTooLargeError,
    ServerError,
)
from pyinformer.objects import (
    Identity,
    identity_in,
    null_as_absent,
    object_key,
    older,
    resource_version_is_well_formed,
)

if TYPE_CHECKING:
    from pyinformer.cache.reflector.lineage._groups import HistoryMember
    from pyinformer.cache.reflector.lineage._samples import HistorySample
    from pyinformer.client.transport import Body, ListWatch

_APART_SECONDS: Final = 1.0  # between two quorum lists: a lagging server catches up meanwhile
_PROBERS: Final = 3  # how many resources are tried if the first cannot be listed
_REQUEST_SECONDS: Final = 10.0  # a server waits three for a version that it has not reached
_NOT_NOW: Final = NO_SERVER_BEHIND | {429}
_UID_SECONDS: Final = 3.0  # it only explains a break that is known already
_MAX_ANSWER_BYTES: Final = 64 << 20
_MAX_ITEM_BYTES: Final = 1 << 20  # of a longer item only the metadata is read


class _Metadata(Struct, frozen=True):
    uid: str = ""


class _Namespace(Struct, frozen=True):
    metadata: _Metadata


_decode_namespace = null_as_absent(_Namespace)


@final
class SelectorIgnoredError(ProtocolError):
    """A server ignores or refuses field selectors: its lists are complete, or none."""


@final
class LiveIdentity(Struct, frozen=True):
    """The identity of the object that a server has under a key, within a scope."""

    resource_version: str
    """The list's version."""
    uid: str
    """Empty if the object does not exist, or is not in the scope."""
    version: str
    """The object's version; empty as well then."""
    is_whole: bool = False
    """Whether the server ignored the limit of one item, and sent many."""


async def read_live(
    list_watch: ListWatch,
    *,
    resource_version: str = "",
    resource_version_match: str = "",
    own_connection: bool = False,
    metadata_only: bool = False,
) -> LiveIdentity:
    """List at most one item and return its identity.

    Args:
        list_watch: the resource and the scope.
        resource_version: no answer may be older; empty for the newest.
        resource_version_match: how the version is meant; empty for `NotOlderThan`.
        own_connection: use a new connection, and give it up after ten seconds.
        metadata_only: request only metadata, if the list watch does not anyway.

    Raises:
        InformerError: the server refused, could not be reached, or did not answer with a list.

    Cancellation:
        Safe; the request is dropped.
    """
    what = f"list {list_watch.resource}"
    try:
        with anyio.fail_after(_REQUEST_SECONDS):
            async with list_watch.list(
                resource_version=resource_version,
                resource_version_match=resource_version_match,
                limit=1,
                own_connection_seconds=_REQUEST_SECONDS if own_connection else None,
                metadata_only=metadata_only,
            ) as body:
                version, item, is_whole = await _first_of(body, what)
    except TimeoutError as error:
        if isinstance(error, InformerError):
            raise
        reason = f"no answer within {_REQUEST_SECONDS:g} s"
        raise RequestTimeoutError(what, reason, waited_seconds=_REQUEST_SECONDS) from error
    if list_watch.key and item != Identity():
        check_is_asked_for(list_watch, (object_key(item.namespace, item.name),))
    if list_watch.is_foreign(item.uid):
        item = Identity()
    return LiveIdentity(version, item.uid, item.resource_version, is_whole)


async def _first_of(body: Body, what: str) -> tuple[str, Identity, bool]:
    """Return the version of a list, the identity of its first item, and whether there are more.

    A server may ignore the limit of one item and send many: other tasks run in between.
    """
    first: list[Identity] = []
    is_whole = False

    def on_item(data: bytes, start: int, end: int) -> None:
        nonlocal is_whole
        if not first:
            first.append(identity_in(data[start:end]))
        else:
            is_whole = True

    splitter = ListSplitter(
        on_item,
        what=what,
        max_item_bytes=_MAX_ITEM_BYTES,
        on_oversized=lambda head, _: on_item(head, 0, len(head)),
    )
    budget, size = TimeBudget(), 0
    while chunk := await body.read():
        size += len(chunk)
        if size > _MAX_ANSWER_BYTES:
            raise ProtocolError(what, f"the answer is longer than {_MAX_ANSWER_BYTES} bytes")
        await spread(splitter.steps(chunk), budget)
    return splitter.finish().resource_version, first[0] if first else Identity(), is_whole


def check_is_asked_for(list_watch: ListWatch, found: Iterable[str]) -> None:
    """Raise if an answer holds other objects than the requested one.

    An API server behind an aggregator may ignore field selectors and list everything.

    Args:
        list_watch: what `ListWatch.only` returned.
        found: the keys in the answer.

    Raises:
        SelectorIgnoredError: there are others, so the answer does not show whether the object
            exists.
    """
    others = [key for key in found if key != list_watch.key]
    if others:
        reason = f"it shows {others[0][:300]!r}: does the server ignore field selectors?"
        raise SelectorIgnoredError(f"list {list_watch.resource} {list_watch.key}", reason)


class HistoryVerdict(enum.Enum):
    """Whether the history of a server is the one that was followed."""

    INTACT = "intact"
    LAGGING = "a server that is behind answered"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@final
class Proof(Struct, frozen=True):
    """The outcome of a proof."""

    verdict: HistoryVerdict
    reason: str
    samples: int = 0
    """How many samples were checked."""
    is_unanswered: bool = False
    """Whether the server did not answer in time."""


async def prove(members: Iterable[HistoryMember]) -> Proof:
    """Ask the server whether its history is the one that was followed.

    Args:
        members: the reflectors of one connection; the one with the furthest position is probed.

    Raises:
        TransportError: the server could not be reached.
        APIStatusError: the server is overloaded, or the load balancer has no server (429, 502 to
            504): the caller waits before it repeats the proof.

    Cancellation:
        Safe; the question stays undecided.
    """
    known = sorted(
        filter(has_comparable_position, members), key=lambda one: _rank(one.position), reverse=True
    )
    proof = Proof(HistoryVerdict.UNDECIDED, "none of the followed resources can be listed")
    for member in known[:_PROBERS]:
        try:
            proof = await _probe(member.list_watch, member.position)
        except (APIStatusError, ProtocolError) as error:
            if isinstance(error, APIStatusError) and error.status in _NOT_NOW:
                raise
            proof = Proof(HistoryVerdict.UNDECIDED, f"the server did not answer the probe: {error}")
            continue
        except RequestTimeoutError as error:
            reason = f"the server does not answer lists: {error}"
            proof = Proof(HistoryVerdict.UNDECIDED, reason, is_unanswered=True)
        break
    if proof.verdict is HistoryVerdict.INTACT:
        return await _check_samples(known)
    return await _late(proof, known) if proof.verdict is HistoryVerdict.LAGGING else proof


async def _late(proof: Proof, members: Sequence[HistoryMember]) -> Proof:
    """Distinguish a server that lagged from another history that has passed the position since."""
    try:
        sampled = await _check_samples(members)
    except APIStatusError as error:  # one that lags may refuse: what it lacks is not shown
        return Proof(proof.verdict, f"{proof.reason}, and samples are refused: {error}")
    return sampled if sampled.verdict is HistoryVerdict.BROKEN else proof


async def _probe(list_watch: ListWatch, position: str) -> Proof:
    reached = HistoryVerdict.LAGGING, f"a server behind {position} answered first"
    try:
        found = await read_live(list_watch, resource_version=position, own_connection=True)
        if _reaches(found, position):
            return Proof(HistoryVerdict.INTACT, f"the server has reached {position}")
    except ResourceVersionTooLargeError:
        pass  # behind, or another history: only a quorum knows
    except (BadRequestError, InvalidError, ServerError) as error:
        if error.status in _NOT_NOW:
            raise
        # A server may know no lists at a version; one without says as much.
        reached = HistoryVerdict.INTACT, f"the server is at {position}, or later"
    versions: list[str] = []
    for wait_seconds in (0.0, _APART_SECONDS):
        await anyio.sleep(wait_seconds)
        found = await read_live(list_watch, own_connection=True)
        if _reaches(found, position):
            return Proof(*reached)
        versions.append(found.resource_version)
    shown = " and ".join(dict.fromkeys(version[:40] for version in versions))
    reason = f"{list_watch.shown}: the newest version there is {shown}, and {position} was seen"
    return Proof(HistoryVerdict.BROKEN, reason)


def _reaches(found: LiveIdentity, position: str) -> bool:
    version = found.resource_version
    if not resource_version_is_well_formed(version):
        raise ProtocolError("probe", f"a list at {version[:40]!r}, which cannot be compared")
    return not older(version, position)


async def _check_samples(members: Sequence[HistoryMember]) -> Proof:
    """Check the newest object and the newest deletion of all members."""
    samples = [
        (sample, member.list_watch)
        for member in members
        for sample in await member.history_samples()
    ]
    checked, reason = 0, ""
    refusal: APIStatusError | None = None
    is_unanswered = False
    for existed in (True, False):
        kind = [one for one in samples if one[0].existed is existed]
        if not kind:
            continue
        sample, list_watch = max(kind, key=lambda one: _rank(one[0].resource_version))
        checked += 1
        try:
            contradiction = await _contradiction(sample, list_watch)
        except (APIStatusError, ProtocolError, RequestTimeoutError) as error:
            reason = f"a sample proves nothing: {error}"  # that version may be forgotten
            is_unanswered = is_unanswered or isinstance(error, RequestTimeoutError)
            if isinstance(error, APIStatusError) and error.status in _NOT_NOW:
                refusal = error
            continue
        if contradiction:
            return Proof(HistoryVerdict.BROKEN, contradiction, checked)
    if refusal is not None:
        raise refusal
    verdict = HistoryVerdict.UNDECIDED if is_unanswered else HistoryVerdict.INTACT
    return Proof(verdict, reason, checked, is_unanswered=is_unanswered)


async def _contradiction(sample: HistorySample, list_watch: ListWatch) -> str:
    """Return how a server's history contradicts a sample; empty if it does not."""
    found = await read_live(
        list_watch.only(sample.key),
        resource_version=sample.at,
        resource_version_match="Exact",
        own_connection=True,
    )
    if found.resource_version != sample.at:
        return ""  # a server that ignores `Exact` proves nothing
    name = f"{list_watch.shown} {sample.key}"
    if not sample.existed:
        was = f"{name} was deleted before {sample.at}, and"
        return f"{was} exists there" if found.uid == sample.uid else ""
    was = f"{name} was at {sample.resource_version} when {sample.at} was reached, and there"
    if not found.uid:
        return f"{was} it did not exist"
    if found.uid != sample.uid:
        return f"{was} it is another object"
    same = found.version == sample.resource_version
    return "" if same else f"{was} it was at {found.version[:40]}"


async def cluster_uid(members: Iterable[HistoryMember]) -> str:
    """Return the uid of the namespace kube-system, which identifies a cluster, or an empty text.

    Cancellation:
        Safe.
    """
    for member in members:
        connection = member.list_watch.connection
        try:
            answer = await connection.request(
                "GET", "/api/v1/namespaces/kube-system", timeout_seconds=_UID_SECONDS
            )
            return _decode_namespace(answer).metadata.uid
        except (InformerError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""  # rights may be missing
    return ""


def _rank(resource_version: str) -> tuple[int, str]:
    return len(resource_version), resource_version
