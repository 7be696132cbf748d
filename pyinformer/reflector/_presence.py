"""Whether a resource that is answered with 404 is really gone.

What enters are 404s, complete loads, and what discovery said; what leaves is what may happen to the
cache. A 404 alone deletes nothing: a replica that lags behind or an aggregator says it, too. Only
discovery that lacks the resource, asked twice, ten seconds apart, each time on a connection of its
own, empties the cache, and never under `require`. Pure, but for the question itself.

The reflector's part:

- a list or a watch ends with NotFoundError: `presence.not_found()`, the state is ABSENT, and
  `ask_discovery(list_watch)` is called at once;
- it answered: `presence.answered(is_served, asked_at)` says how to go on. SERVED: load again, after
  the backoff (never resume the watch: the cache may have been emptied, or the server's history be
  another). KEEP: sleep `presence.ask_again_seconds`, then ask discovery again, or load if
  `presence.tries_load`. EMPTY: await `loader.take_absence()`, then as KEEP;
- it raised an InformerError: nothing is known, and perhaps never will be; without calling
  `answered`, sleep as for KEEP and load then: only a list can tell;
- a load was complete: `presence.loaded()`;
- an informer's wait for its first list ends at once while `presence.fails_sync`; under `optional`
  it ends by EMPTY, which hands the sink an empty list: a resource that is not served has no
  objects, and whoever called it optional reads none instead of an error.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final, get_args

import msgspec
from msgspec import Struct

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    InvalidArgumentError,
    NotFoundError,
    ProtocolError,
    did_you_mean,
    near_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.transport import ListWatch

AbsencePolicy: TypeAlias = Literal["require", "wait", "optional"]
"""What it means that a resource is not served. `require`: it has to be, waiting for the first list
fails at once, and the cache is never emptied. `wait`: it will be, waiting goes on. `optional`: it
need not be, and is then as good as empty."""

CONFIRM_SECONDS: Final = 10.0
"""How far two answers of discovery have to be apart: what lags behind has caught up by then."""

_ASKED_PER_LOAD = 6
_FIRST_ASK_SECONDS = 1.0  # a program often starts a moment before its own definitions are served
_DEADLINE_SECONDS = 30.0
_MAX_ANSWER_BYTES = 16 << 20
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_log = get_logger(__name__)


class Finding(enum.Enum):
    """What follows from an answer of discovery."""

    SERVED = enum.auto()
    """The resource is served: load it."""
    KEEP = enum.auto()
    """The cache stays as it is; ask again later."""
    EMPTY = enum.auto()
    """It is proven that there is nothing: the sink is to be told so. Ask again later."""


@final
class Presence:
    """Judges the absence of one resource.

    Args:
        resource: names it in logs.
        policy: see AbsencePolicy.

    Raises:
        InvalidArgumentError: there is no such policy.
    """

    def __init__(self, resource: str, policy: AbsencePolicy = "wait") -> None:
        if policy not in get_args(AbsencePolicy):
            reason = f"{policy!r} is none of {', '.join(get_args(AbsencePolicy))}"
            raise InvalidArgumentError("absent", reason)
        self.policy: AbsencePolicy = policy
        self.is_absent: bool = False
        """Whether the last list or watch was answered with 404; the cache may be stale."""
        self._resource = resource
        self._is_empty = False
        self._has_loaded = False
        self._near: tuple[str, ...] = ()
        self._is_near_logged = False
        self._lacked_at: float | None = None
        self._asked = 0

    @property
    def is_confirmed(self) -> bool:
        """Whether discovery said at least once that the resource is not served."""
        return self.is_absent and self._lacked_at is not None

    @property
    def fails_sync(self) -> bool:
        """Whether waiting for the first list is in vain: it is required, and not served."""
        return self.policy == "require" and self.is_confirmed and not self._has_loaded

    @property
    def cure(self) -> str:
        """What somebody has to do about it, while waiting for the first list is in vain."""
        if not self.fails_sync:
            return ""
        return (
            f'{self._resource} is not served, and absent="require" demands it: install its'
            ' definition, correct the name, or use "wait" or "optional"'
            + (f"; {self.hint}" if self._near else "")
        )

    @property
    def hint(self) -> str:
        """Which name may have been meant; empty if the resource is served, or none comes near."""
        return did_you_mean(self._near)

    @property
    def ask_again_seconds(self) -> float:
        """How long to wait before discovery is asked again."""
        if self._has_loaded:
            return CONFIRM_SECONDS
        return min(CONFIRM_SECONDS, _FIRST_ASK_SECONDS * 2.0 ** min(self._asked, 10))

    @property
    def tries_load(self) -> bool:
        """Whether it is time to try a load, though discovery lacks the resource.

        Not every aggregated API server says all that it serves.
        """
        return self._asked % _ASKED_PER_LOAD == 0

    def not_found(self) -> None:
        """Take note of a 404 to a list or a watch; logged once until the resource is back."""
        if self.is_absent:
            return
        self.is_absent = True
        facts = {"resource": self._resource, "policy": self.policy}
        if self.policy == "optional":
            text = "%s is not served (404), and need not be: it is followed once it is"
            _log.info(text, self._resource, extra=facts)
            return
        _log.warning(
            "%s is not served (404): what is cached is kept, and it is looked for until it is back",
            self._resource,
            extra=facts,
        )

    def answered(self, answer: Answer, asked_at: float) -> Finding:
        """Take an answer of discovery.

        Args:
            answer: what `ask_discovery` returned.
            asked_at: when it was asked, in loop seconds.
        """
        self._asked += 1
        self._near = () if self._has_loaded else answer.near
        if answer.is_served:
            self._lacked_at = None
            return Finding.SERVED
        self._log_near()
        first = self._lacked_at is None
        if self._lacked_at is None:
            self._lacked_at = asked_at
        if self._is_empty or not self._may_empty(first, asked_at - self._lacked_at):
            return Finding.KEEP
        self._is_empty = True
        return Finding.EMPTY

    def _may_empty(self, first: bool, apart_seconds: float) -> bool:  # noqa: FBT001 - one caller
        if self.policy == "require":
            return False
        if not self._has_loaded:  # nothing is cached, so there is nothing to lose
            return self.policy == "optional"
        return not first and apart_seconds >= CONFIRM_SECONDS

    def _log_near(self) -> None:
        if self._near and not self._is_near_logged:
            self._is_near_logged = True
            _log.warning("%s has never been served; %s", self._resource, self.hint)

    def loaded(self) -> None:
        """Take note of a complete load: the resource is there; logged once if it was not."""
        if self.is_absent:
            facts = {"resource": self._resource}
            _log.info("%s is served again", self._resource, extra=facts)
        self.is_absent = self._is_empty = False
        self._has_loaded = True
        self._near = ()
        self._lacked_at = None
        self._asked = 0


class Answer(NamedTuple):
    """What discovery says of a resource."""

    is_served: bool
    near: tuple[str, ...] = ()
    """What is served under a similar name: `v1/pods`, or a group and version, `apps/v1`."""


class _Entry(Struct, frozen=True, rename="camel"):
    name: str
    singular_name: str = ""
    kind: str = ""
    short_names: list[str] | None = None

    @property
    def words(self) -> Iterator[str]:
        """What people call it, in lower case."""
        for word in (self.name, self.singular_name, self.kind, *(self.short_names or ())):
            if word and "/" not in self.name:
                yield word.lower()


class _ResourceList(Struct, frozen=True, rename="camel"):
    kind: str
    group_version: str
    resources: list[_Entry] | None = None


class _Version(Struct, frozen=True, rename="camel"):
    group_version: str


class _Group(Struct, frozen=True):
    versions: list[_Version] | None = None


class _GroupList(Struct, frozen=True):
    kind: str
    groups: list[_Group] | None = None


_decode_resources = msgspec.json.Decoder(_ResourceList).decode
_decode_groups = msgspec.json.Decoder(_GroupList).decode


async def ask_discovery(list_watch: ListWatch) -> Answer:
    """Ask the server whether it serves a resource, on a connection made for this question.

    That a path is not there does not count as an answer: a load balancer that has lost its servers
    says so of every path. Then the list of all groups has to say it.

    Args:
        list_watch: the resource, and the server.

    Returns:
        Whether it is served, and if not, what is served under a similar name.

    Raises:
        APIStatusError: the server does not say what it serves, or not now.
        TransportError: it was not reached.
        ProtocolError: the answer is none, or contradicts itself.

    Cancellation:
        Safe; the connection is closed.
    """
    resource = list_watch.resource
    try:
        answer = await _read(list_watch, resource.path)
    except NotFoundError:
        return Answer(is_served=False, near=await _near_versions(list_watch))
    try:
        found = _decode_resources(answer)
    except _UNREADABLE as error:
        raise _no_answer(resource.path, f"it is no list of resources: {error}") from error
    if found.kind != "APIResourceList" or found.group_version != resource.api_version:
        reason = f"it is a {found.kind} of {found.group_version}, not of {resource.api_version}"
        raise _no_answer(resource.path, reason)
    entries = found.resources or ()
    if any(entry.name == resource.resource for entry in entries):
        return Answer(is_served=True)
    words = {word: f"{resource.api_version}/{one.name}" for one in entries for word in one.words}
    return Answer(is_served=False, near=near_names(resource.resource, words))


async def _near_versions(list_watch: ListWatch) -> tuple[str, ...]:
    """Check that a version is gone with its group, and return versions of similar names."""
    version = list_watch.resource.api_version
    if "/" not in version:
        raise _no_answer(list_watch.resource.path, "no server is without its core resources")
    try:
        found = _decode_groups(await _read(list_watch, "/apis"))
    except _UNREADABLE as error:
        raise _no_answer("/apis", f"it is no list of groups: {error}") from error
    if found.kind != "APIGroupList":
        raise _no_answer("/apis", f"it is a {found.kind}, no list of groups")
    served = {one.group_version for group in found.groups or () for one in group.versions or ()}
    if version in served:
        raise _no_answer("/apis", f"it names {version}, which was not found a moment ago")
    return near_names(version, {one.lower(): one for one in served})


async def _read(list_watch: ListWatch, path: str) -> bytes:
    # Opened as a watch is: such a connection is never shared with, or left over from, another.
    parts: list[bytes] = []
    size = 0
    async with list_watch.connection.stream(
        path, watch=True, what=f"discover {path}", deadline_seconds=_DEADLINE_SECONDS
    ) as body:
        while part := await body.read():
            size += len(part)
            if size > _MAX_ANSWER_BYTES:
                raise _no_answer(path, f"it is longer than {_MAX_ANSWER_BYTES} bytes")
            parts.append(part)
    return b"".join(parts)


def _no_answer(path: str, reason: str) -> ProtocolError:
    return ProtocolError(f"discover {path}", f"the answer cannot be believed: {reason}")
