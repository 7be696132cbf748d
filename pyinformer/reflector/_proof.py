"""Asking a server whether its history is the one that was followed.

What enters are the reflectors of one cluster connection; what leaves is a verdict and its reason.
The probe shows whether the server has reached our position, the witness whether what we saw last
was so in its history. Each request has a connection of its own, so that two answers are not one
server's. A server that cannot be reached is an error, one that will not tell is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, final

import anyio
import msgspec
from msgspec import Struct

from pyinformer.apimachinery import (
    APIStatusError,
    Identity,
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    ResourceVersionTooLargeError,
    identity_in,
    object_key,
    older,
    resource_version_is_well_formed,
)
from pyinformer.reflector._state import Verdict
from pyinformer.tasks import TimeBudget, spread
from pyinformer.transport import ListSplitter

if TYPE_CHECKING:
    from pyinformer.transport import Body, ListWatch

_APART_SECONDS: Final = 1.0  # between two quorum lists: a server that lags catches up meanwhile
_PROBERS: Final = 3  # so many resources are tried if the first may not be listed
_REQUEST_SECONDS: Final = 10.0  # a server waits three for a version that it has not reached
_NOT_NOW: Final = frozenset({429, 502, 503, 504})
_UID_SECONDS: Final = 3.0  # it is an explanation, nothing waits for it longer than that
_MAX_ANSWER_BYTES: Final = 64 << 20
_MAX_ITEM_BYTES: Final = 1 << 20  # of a longer one the metadata is read as it arrives


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Item(Struct, frozen=True):
    metadata: _Meta


_decode_item = msgspec.json.Decoder(_Item).decode


@final
class Fresh(Struct, frozen=True):
    """What a server has of a key, within a scope."""

    resource_version: str
    """The list's own."""
    uid: str
    """Empty if there is no such object, or it is not in the scope."""
    version: str


async def look(
    list_watch: ListWatch,
    *,
    resource_version: str = "",
    resource_version_match: str = "",
    own_connection: bool = False,
) -> Fresh:
    """List one item at most, and keep of it what identifies it.

    Args:
        list_watch: the resource and the scope.
        resource_version: no answer may be older; empty for the newest.
        resource_version_match: how the version is meant; empty for `NotOlderThan`.
        own_connection: ask on a new connection, given up after ten seconds.

    Raises:
        InformerError: the server refused, could not be reached, or gave no list.

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
            ) as body:
                version, item = await _first_of(body, what)
    except TimeoutError as error:
        if isinstance(error, InformerError):
            raise
        reason = f"no answer within {_REQUEST_SECONDS:g} s"
        raise RequestTimeoutError(what, reason, waited_seconds=_REQUEST_SECONDS) from error
    if list_watch.key and item != Identity():
        check_is_asked_for(list_watch, (object_key(item.namespace, item.name),))
    return Fresh(version, item.uid, item.resource_version)


async def _first_of(body: Body, what: str) -> tuple[str, Identity]:
    """Return the version of a list and what identifies its first item; the others are passed over.

    A server may ignore the limit of one item, and show very much: others have their turn meanwhile.
    """
    first: list[Identity] = []

    def on_item(data: bytes, start: int, end: int) -> None:
        if not first:
            first.append(identity_in(data[start:end]))

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
    return splitter.finish().resource_version, first[0] if first else Identity()


def check_is_asked_for(list_watch: ListWatch, found: Iterable[str]) -> None:
    """Refuse an answer that shows other objects than the one that was asked for.

    An API server behind an aggregator may ignore field selectors, and show all it has.

    Args:
        list_watch: what `ListWatch.only` has returned.
        found: the keys in the answer.

    Raises:
        ProtocolError: it shows others, and so says nothing about that one.
    """
    others = [key for key in found if key != list_watch.key]
    if others:
        reason = f"it shows {others[0][:300]!r}: does the server ignore field selectors?"
        raise ProtocolError(f"list {list_watch.resource} {list_watch.key}", reason)


@final
class Witness(Struct, frozen=True):
    """Something that was so at a position: an object that existed, or one that was gone."""

    key: str
    uid: str
    resource_version: str
    """The object's own, or that of its deletion; the newest is the best witness."""
    at: str
    """The position at which it was so."""
    existed: bool


class Witnessing(Protocol):
    """A reflector, as far as the proof needs it."""

    @property
    def list_watch(self) -> ListWatch:
        """What it follows."""
        ...

    @property
    def position(self) -> str:
        """Up to where."""
        ...

    @property
    def is_ordered(self) -> bool:
        """Whether its resource versions have one order, so that a position proves something."""
        ...

    async def witnesses(self) -> Sequence[Witness]:
        """Return the newest object and the newest deletion that it knows of.

        Cancellation:
            Safe.
        """
        ...


@final
class Proof(Struct, frozen=True):
    """What asking has shown."""

    verdict: Verdict
    reason: str
    witnesses: int = 0
    """How many witnesses were asked for."""


async def prove(members: Iterable[Witnessing]) -> Proof:
    """Ask the server whether its history is the one that was followed.

    Args:
        members: the reflectors of one connection; the one that is furthest makes the probe.

    Raises:
        TransportError: the server could not be reached.
        APIStatusError: the server has no time, or what is before it has no server (429, 502 to
            504): whoever asks again at once asks too much.

    Cancellation:
        Safe; nothing is decided.
    """
    known = [
        one for one in members if one.is_ordered and resource_version_is_well_formed(one.position)
    ]
    known.sort(key=lambda one: _rank(one.position), reverse=True)
    proof = Proof(Verdict.UNDECIDED, "no resource that is followed can be listed")
    for member in known[:_PROBERS]:
        try:
            proof = await _probe(member.list_watch, member.position)
        except (APIStatusError, ProtocolError) as error:
            if isinstance(error, APIStatusError) and error.status in _NOT_NOW:
                raise
            proof = Proof(Verdict.UNDECIDED, f"the server would not tell: {error}")
            continue
        except RequestTimeoutError as error:
            proof = Proof(Verdict.UNDECIDED, f"the server does not answer lists: {error}")
        break
    return await _ask_witnesses(known) if proof.verdict is Verdict.INTACT else proof


async def _probe(list_watch: ListWatch, position: str) -> Proof:
    try:
        found = await look(list_watch, resource_version=position, own_connection=True)
        if _reaches(found, position):
            return Proof(Verdict.INTACT, f"the server has reached {position}")
    except ResourceVersionTooLargeError:
        pass  # behind, or another history: only a quorum knows
    versions: list[str] = []
    for wait_seconds in (0.0, _APART_SECONDS):
        await anyio.sleep(wait_seconds)
        found = await look(list_watch, own_connection=True)
        if _reaches(found, position):
            return Proof(Verdict.LAGGING, f"a server behind {position} answered first")
        versions.append(found.resource_version)
    shown = " and ".join(dict.fromkeys(version[:40] for version in versions))
    return Proof(Verdict.BROKEN, f"the newest version there is {shown}, and {position} was seen")


def _reaches(found: Fresh, position: str) -> bool:
    version = found.resource_version
    if not resource_version_is_well_formed(version):
        raise ProtocolError("probe", f"a list at {version[:40]!r}, which cannot be compared")
    return not older(version, position)


async def _ask_witnesses(members: Sequence[Witnessing]) -> Proof:
    """Ask for the newest object and the newest deletion of all that was followed."""
    heard: list[tuple[Witness, ListWatch]] = []
    for member in members:
        heard += [(witness, member.list_watch) for witness in await member.witnesses()]
    asked = 0
    for existed in (True, False):
        kind = [one for one in heard if one[0].existed is existed]
        if not kind:
            continue
        witness, list_watch = max(kind, key=lambda one: _rank(one[0].resource_version))
        asked += 1
        try:
            reason = await _contradiction(witness, list_watch)
        except (APIStatusError, ProtocolError, RequestTimeoutError):
            continue  # that version is forgotten, say: it proves nothing
        if reason:
            return Proof(Verdict.BROKEN, reason, asked)
    return Proof(Verdict.INTACT, "", asked)


async def _contradiction(witness: Witness, list_watch: ListWatch) -> str:
    """Return in what way a server's history contradicts a witness; empty if it does not."""
    found = await look(
        list_watch.only(witness.key),
        resource_version=witness.at,
        resource_version_match="Exact",
        own_connection=True,
    )
    if found.resource_version != witness.at:
        return ""  # a server that does not do Exact proves nothing
    name = f"{list_watch.resource.resource} {witness.key}"
    if not witness.existed:
        was = f"{name} was deleted before {witness.at}, and"
        return f"{was} exists there" if found.uid == witness.uid else ""
    was = f"{name} was at {witness.resource_version} when {witness.at} was reached, and there"
    if not found.uid:
        return f"{was} it did not exist"
    if found.uid != witness.uid:
        return f"{was} it is another object"
    same = found.version == witness.resource_version
    return "" if same else f"{was} it was at {found.version[:40]}"


async def cluster_uid(members: Iterable[Witnessing]) -> str:
    """Return the uid of the namespace kube-system, which tells clusters apart; or nothing.

    Cancellation:
        Safe.
    """
    for member in members:
        connection = member.list_watch.connection
        try:
            answer = await connection.request(
                "GET", "/api/v1/namespaces/kube-system", timeout_seconds=_UID_SECONDS
            )
            return _decode_item(answer).metadata.uid
        except (InformerError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""  # it may not be read: then nothing is known
    return ""


def _rank(resource_version: str) -> tuple[int, str]:
    return len(resource_version), resource_version
