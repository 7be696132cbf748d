"""Whether a resource that is answered with 404 is really gone.

A 404 alone deletes nothing: a lagging replica or an aggregator sends it as well. The cache is
emptied only after discovery lacked the resource twice, ten seconds apart, and then many times more,
each time on a new connection, and never under `require`: while a cluster is upgraded, some of its
servers serve a version that others do not, for minutes. A resource that is served again is loaded,
never resumed: the cache may have been emptied, or the server's history be another.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import enum
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, final, get_args

import msgspec
from msgspec.structs import replace

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.reflector._discovery_failures import DiscoveryFailures
from pyinformer.client.transport import (
    decode_groups,
    decode_resources,
    near_resources,
    read_bounded,
    table_of,
)
from pyinformer.errors import NotFoundError, ProtocolError
from pyinformer.objects import check_choice, did_you_mean, near_names

if TYPE_CHECKING:
    from pyinformer.client.transport import APIResource, Group, ListWatch
    from pyinformer.objects import GroupVersionResource

AbsencePolicy: TypeAlias = Literal["require", "wait", "optional"]
"""What to do while the server does not serve the resource. `require`: the first sync fails at once,
and the cache is never emptied. `wait`: keep waiting. `optional`: treat it as empty."""

CONFIRM_SECONDS: Final = 10.0
"""The least time between two answers of discovery: a lagging replica has caught up by then."""

_CONFIRMATIONS = 16  # one of two servers answers all of them by chance once in 65,536 cases
_ASKED_PER_LOAD = 6
_FIRST_RETRY_SECONDS = 1.0  # a program often starts a moment before its definitions are served
_DEADLINE_SECONDS = 30.0
_MAX_ANSWER_BYTES = 2 << 20  # one version, or the names of all groups; normal ones have 10 KiB
_GROUPS = "/apis"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_log = get_logger(__name__)


class DiscoveryOutcome(enum.Enum):
    """What follows from an answer of discovery."""

    SERVED = enum.auto()
    """The resource is served: load it."""
    KEEP = enum.auto()
    """Keep the cache and retry later."""
    EMPTY = enum.auto()
    """The absence is proven: empty the cache and retry later."""


@final
class Availability:
    """Judges the absence of one resource.

    Args:
        resource: its name in logs.
        policy: what to do while it is not served.
        confirm_seconds: the least time between two answers of discovery that empty the cache, and
            the longest delay between two answers.

    Raises:
        InvalidArgumentError: an unknown policy.
    """

    def __init__(
        self,
        resource: str,
        policy: AbsencePolicy = "wait",
        *,
        confirm_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        check_choice("absent", policy, get_args(AbsencePolicy))
        self.policy: AbsencePolicy = policy
        self.is_absent: bool = False
        """Whether the last list or watch was answered with 404; the cache may be stale."""
        self.confirm_seconds: float = confirm_seconds
        """The least time between two answers of discovery that empty the cache."""
        self._resource = resource
        self._is_logged = False  # once discovery has answered: it may know a better reason
        self._is_empty = False
        self._has_loaded = False
        self._near: tuple[str, ...] = ()
        self._is_near_logged = False
        self._is_misplaced = False
        self._is_elsewhere = False
        self._lacked_at: float | None = None
        self._asked = 0

    @property
    def is_confirmed(self) -> bool:
        """Whether discovery said at least once that the resource is not served."""
        return self.is_absent and self._lacked_at is not None

    @property
    def fails_sync(self) -> bool:
        """Whether the first list will not come.

        The resource is required and not served, or it has no namespaces and is followed in one.
        """
        is_missing = self.policy == "require" and self.is_confirmed
        return (is_missing or self._is_misplaced) and not self._has_loaded

    @property
    def remedy(self) -> str:
        """What the user can do while `fails_sync`, or if the scope is wrong; empty otherwise."""
        if self._is_misplaced:
            return (
                f"{self._resource} is cluster-scoped, but is followed in a namespace: leave out"
                " namespaces="
            )
        if not self.fails_sync:
            return ""
        return (
            f'{self._resource} is not served, and absent="require" demands it: install its'
            ' definition, correct the name, or use "wait" or "optional"'
            + (f"; {self.hint}" if self._near else "")
        )

    @property
    def hint(self) -> str:
        """Similar names that are served; empty if the resource is served, or there are none."""
        return did_you_mean(self._near)

    @property
    def retry_seconds(self) -> float:
        """The delay before discovery is asked again."""
        if self._has_loaded:
            return self.confirm_seconds
        return min(self.confirm_seconds, _FIRST_RETRY_SECONDS * 2.0 ** min(self._asked, 10))

    @property
    def tries_load(self) -> bool:
        """Whether to try a load now, though discovery lacks the resource.

        Not every aggregated API server lists all that it serves.
        """
        return self._asked % _ASKED_PER_LOAD == 0

    def not_found(self) -> None:
        """Record a 404 to a list or a watch, before discovery is asked for its reason."""
        self.is_absent = True

    def unanswered(self) -> None:
        """Record that discovery did not answer: the 404 is all that is known.

        A load is tried next, after a delay that grows as after every other refusal.
        """
        self._log_absence()

    def answered(self, answer: DiscoveryAnswer, asked_at: float) -> DiscoveryOutcome:
        """Record an answer of discovery, and return what follows from it.

        Args:
            answer: what `ask_discovery` returned.
            asked_at: when it was called, on the loop's clock.
        """
        self._asked += 1
        self._near = () if self._has_loaded else answer.near
        self._note_scope(is_misplaced=answer.is_misplaced)
        if not answer.is_misplaced:
            self._log_absence()
        if answer.is_served:
            self._lacked_at = None
            return DiscoveryOutcome.SERVED
        self._log_near()
        if answer.elsewhere and not self._is_elsewhere:
            self._is_elsewhere = True
            text = "%s is not served any more, but %s is: its objects exist, and the cache is kept"
            _log.warning(text, self._resource, answer.elsewhere, extra={"resource": self._resource})
        empties = self._may_empty(answer, asked_at)
        if self._lacked_at is None:
            self._lacked_at = asked_at
        if not empties:
            return DiscoveryOutcome.KEEP
        self._is_empty = True
        return DiscoveryOutcome.EMPTY

    def deletes_objects(self, answer: DiscoveryAnswer, asked_at: float) -> bool:
        """Return whether an answer empties a cache that was loaded; call it before `answered`.

        Args:
            answer: what `ask_discovery` returned.
            asked_at: when it was called, on the loop's clock.
        """
        return self._has_loaded and self._may_empty(answer, asked_at)

    def _may_empty(self, answer: DiscoveryAnswer, asked_at: float) -> bool:
        if answer.is_served or answer.elsewhere or self._is_empty or self.policy == "require":
            return False
        if not self._has_loaded:  # nothing is cached, so there is nothing to lose
            return self.policy == "optional"
        return self._lacked_at is not None and asked_at - self._lacked_at >= self.confirm_seconds

    def _log_absence(self) -> None:
        """Log the 404 once until the resource is back."""
        if self._is_logged:
            return
        self._is_logged = True
        facts = {"resource": self._resource, "policy": self.policy}
        if self.policy == "optional":
            text = "%s is not served (404); it is optional, and is followed once it is served"
            _log.info(text, self._resource, extra=facts)
            return
        _log.warning(
            "%s is not served (404): the cache is kept, and the reflector retries until it is back",
            self._resource,
            extra=facts,
        )

    def _note_scope(self, *, is_misplaced: bool) -> None:
        if is_misplaced and not self._is_misplaced:
            text = (
                "%s is cluster-scoped and cannot be followed in a namespace: leave out namespaces="
            )
            _log.warning(text, self._resource, extra={"resource": self._resource})
        self._is_misplaced = is_misplaced

    def _log_near(self) -> None:
        if self._near and not self._is_near_logged:
            self._is_near_logged = True
            _log.warning("%s has never been served; %s", self._resource, self.hint)

    def loaded(self) -> None:
        """Record a complete load: the resource is served; logged if it was not before."""
        if self._is_logged:
            facts = {"resource": self._resource}
            _log.info("%s is served again", self._resource, extra=facts)
        self.is_absent = self._is_logged = self._is_empty = False
        self._is_misplaced = self._is_elsewhere = False
        self._has_loaded = True
        self._near = ()
        self._lacked_at = None
        self._asked = 0


class DiscoveryAnswer(NamedTuple):
    """Whether discovery lists a resource."""

    is_served: bool
    near: tuple[str, ...] = ()
    """What is served under a similar name: `v1/pods`, or a group and version, `apps/v1`."""
    is_misplaced: bool = False
    """It is served without namespaces, and was requested in one."""
    elsewhere: str = ""
    """Another version of its group that has the resource: its objects exist."""


async def ask_discovery(
    list_watch: ListWatch, *, failures: DiscoveryFailures | None = None
) -> DiscoveryAnswer:
    """Ask the server whether it serves a resource, on a new connection.

    A 404 does not count as an answer, since a load balancer that has lost its servers sends it for
    every path. The list of all API groups has to confirm it.

    Args:
        list_watch: the resource, and the server.
        failures: of the connection, to use those of other reflectors. An answer is always the
            server's own to this question.

    Returns:
        Whether it is served, and if not, what is served under a similar name.

    Raises:
        APIStatusError: the server refuses discovery, or is overloaded.
        TransportError: it was not reached.
        ProtocolError: the answer is not valid, or contradicts itself.

    Cancellation:
        Safe; the connection is closed.
    """
    failures = failures or DiscoveryFailures()
    ask = partial(_ask, list_watch, failures)
    return await failures.ask(list_watch.resource.path, ask, by=list_watch)


async def _ask(list_watch: ListWatch, failures: DiscoveryFailures) -> DiscoveryAnswer:
    resource = list_watch.resource
    try:
        table = await served_beside(list_watch)
    except NotFoundError:
        near = await _near_versions(list_watch, failures)
        return DiscoveryAnswer(is_served=False, near=near)
    found = next((one for one in table if one.resource == resource), None)
    if found is not None:
        is_misplaced = bool(list_watch.namespace) and not found.namespaced
        return DiscoveryAnswer(is_served=True, is_misplaced=is_misplaced)
    return DiscoveryAnswer(is_served=False, near=near_resources(resource.resource, table))


async def ask_all_servers(list_watch: ListWatch, answer: DiscoveryAnswer) -> DiscoveryAnswer:
    """Ask again until one server answers that the resource is served, or many have not.

    Args:
        list_watch: the resource, and the address of its servers.
        answer: the first answer.

    Returns:
        The last answer.

    Raises:
        InformerError: as for `ask_discovery`.

    Cancellation:
        Safe; the connection is closed.
    """
    for _ in range(_CONFIRMATIONS):
        if answer.is_served:
            break
        answer = await ask_discovery(list_watch)
    return answer


async def with_other_versions(list_watch: ListWatch, answer: DiscoveryAnswer) -> DiscoveryAnswer:
    """Complete an answer by the other version of its group that has the resource, if one has.

    A definition whose version is not served any more has all its objects, in its other versions.

    Raises:
        InformerError: as for `ask_discovery`.

    Cancellation:
        Safe; the connection is closed.
    """
    resource = list_watch.resource
    for group in await _groups(list_watch):
        for one in group.versions if group.name == resource.group else ():
            other = replace(resource, version=one.version)
            if other != resource and any(
                found.resource == other for found in await _table(list_watch, other)
            ):
                return DiscoveryAnswer(
                    is_served=False, near=answer.near, elsewhere=other.api_version
                )
    return answer


async def served_beside(list_watch: ListWatch) -> list[APIResource]:
    """Return the resources that the server serves in the group and version of a resource.

    Raises:
        NotFoundError: the server does not serve the version; only other requests can confirm it.
        APIStatusError: the server refuses discovery, or is overloaded.
        TransportError: it was not reached.
        ProtocolError: the answer is not valid.

    Cancellation:
        Safe; the connection is closed.
    """
    return await _table(list_watch, list_watch.resource)


async def _table(list_watch: ListWatch, resource: GroupVersionResource) -> list[APIResource]:
    answer = await _read(list_watch, resource.path)
    try:
        found = decode_resources(answer)
        table = table_of(resource.api_version, found)
    except _UNREADABLE as error:
        raise _invalid_answer(resource.path, f"it is not a list of resources: {error}") from error
    if not (found.kind and found.group_version):  # a cache is not emptied because of it
        raise _invalid_answer(resource.path, "it does not say which version it is of")
    return table


async def _near_versions(list_watch: ListWatch, failures: DiscoveryFailures) -> tuple[str, ...]:
    """Check that a version is gone with its group, and return versions of similar names."""
    version = list_watch.resource.api_version
    if "/" not in version:
        raise _invalid_answer(list_watch.resource.path, "every server has its core resources")
    groups = await failures.ask(_GROUPS, partial(_groups, list_watch), by=list_watch)
    served = {f"{group.name}/{one.version}" for group in groups for one in group.versions}
    if version in served:
        raise _invalid_answer(_GROUPS, f"it names {version}, which was not found a moment ago")
    return near_names(version, {one.lower(): one for one in served})


async def _groups(list_watch: ListWatch) -> list[Group]:
    answer = await _read(list_watch, _GROUPS)
    try:
        found = decode_groups(answer)
    except _UNREADABLE as error:
        raise _invalid_answer(_GROUPS, f"it is not a list of groups: {error}") from error
    if found.kind != "APIGroupList":
        raise _invalid_answer(_GROUPS, f"it is a {found.kind}, not a list of groups")
    return found.groups or []


async def _read(list_watch: ListWatch, path: str) -> bytes:
    # Opened like a watch: such a connection is never shared with another request, or reused.
    async with list_watch.connection.stream(
        path, watch=True, what=f"discover {path}", deadline_seconds=_DEADLINE_SECONDS
    ) as body:
        answer = await read_bounded(body, _MAX_ANSWER_BYTES)
    if len(answer) > _MAX_ANSWER_BYTES:
        raise _invalid_answer(path, f"it is longer than {_MAX_ANSWER_BYTES} bytes")
    return answer


def _invalid_answer(path: str, reason: str) -> ProtocolError:
    return ProtocolError(f"discover {path}", f"the answer cannot be believed: {reason}")
