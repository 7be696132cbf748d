"""What a server serves: from a kind to its resource, and from a resource to its kind and scope.

What enters is a name of either sort; what leaves is an APIResource. Each group and version is asked
for once and kept; a name that is not found there is asked for once more, since custom resources
come while a program runs. Many who ask at once share one request.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import anyio
import msgspec
from msgspec import Struct

from pyinformer.apimachinery import (
    GroupVersionKind,
    GroupVersionResource,
    InformerError,
    NotFoundError,
    ProtocolError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_NOT_FOUND: Final = 404


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class APIResource:
    """One resource as the server describes it."""

    resource: GroupVersionResource
    """What its URL says: `apps`, `v1`, `deployments`."""

    kind: str
    """What its objects say: `Deployment`."""

    namespaced: bool
    """Whether its objects live in namespaces."""

    subresources: frozenset[str] = frozenset()
    """Such as `status` and `scale`."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind with its group and version."""
        return GroupVersionKind(self.resource.group, self.resource.version, self.kind)

    @property
    def has_status(self) -> bool:
        """Whether the status is written apart from the rest."""
        return "status" in self.subresources


class _Entry(Struct, frozen=True):
    name: str
    kind: str = ""
    namespaced: bool = False


class _Answer(Struct, frozen=True):
    resources: list[_Entry] = []


_decode = msgspec.json.Decoder(_Answer).decode
_Table = list[APIResource]  # a new one for every answer, even if that says nothing new


@final
class _Question:
    """A request under way, that others wait for too."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.error: InformerError | None = None


@final
class Discovery:
    """What one server serves, learned as it is asked for. Made by a Cluster.

    Args:
        read: reads a path of the server.
    """

    def __init__(self, read: Callable[[str], Awaitable[bytes]]) -> None:
        self._read = read
        self._tables: dict[str, _Table] = {}
        self._asking: dict[str, _Question] = {}

    async def resource(self, resource: GroupVersionResource) -> APIResource:
        """Describe a resource.

        Args:
            resource: such as `GroupVersionResource.of("apps/v1", "deployments")`.

        Raises:
            NotFoundError: the server does not serve it.
            ForbiddenError: it does not say what it serves.
            TransportError: it was not reached.

        Cancellation:
            Safe; others who wait for the same answer ask for themselves.
        """
        return await self._find(
            resource.api_version, lambda one: one.resource == resource, str(resource)
        )

    async def kind(self, api_version: str, kind: str) -> APIResource:
        """Describe the resource whose objects are of a kind.

        Args:
            api_version: `v1`, or `group/version`.
            kind: such as `Deployment`.

        Raises:
            NotFoundError: the server serves no such kind.
            ForbiddenError: it does not say what it serves.
            TransportError: it was not reached.

        Cancellation:
            Safe; others who wait for the same answer ask for themselves.
        """
        return await self._find(api_version, lambda one: one.kind == kind, f"{api_version}/{kind}")

    def known(self, resource: GroupVersionResource) -> APIResource | None:
        """Return the description of a resource if it was asked for before; asks nobody."""
        table = self._tables.get(resource.api_version, [])
        return next((one for one in table if one.resource == resource), None)

    async def _find(
        self, api_version: str, matches: Callable[[APIResource], bool], what: str
    ) -> APIResource:
        table = self._tables.get(api_version)
        found = next((one for one in table or [] if matches(one)), None)
        if found is None:
            table = await self._newer(api_version, table)
            found = next((one for one in table if matches(one)), None)
        if found is None:
            raise NotFoundError(
                status=_NOT_FOUND,
                reason="NotFound",
                message="the server does not serve it",
                request=f"discover {what}",
            )
        return found

    async def _newer(self, api_version: str, than: _Table | None) -> _Table:
        """Return a table that was asked for after the caller saw another one."""
        while (asking := self._asking.get(api_version)) is not None:
            await asking.answered.wait()
            if asking.error is not None:  # asked one by one, a dead server would keep all waiting
                raise copy(asking.error) from asking.error
            table = self._tables.get(api_version)
            if table is not None and table is not than:
                return table
        asking = self._asking[api_version] = _Question()
        try:
            table = self._tables[api_version] = await self._ask(api_version)
        except InformerError as error:
            asking.error = error
            raise
        finally:
            del self._asking[api_version]
            asking.answered.set()
        return table

    async def _ask(self, api_version: str) -> _Table:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            answer = await self._read(path)
        except NotFoundError:
            return []
        try:
            return _table(api_version, _decode(answer).resources)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"GET {path}", f"no list of resources: {error}") from error


def _table(api_version: str, entries: list[_Entry]) -> _Table:
    group, _, version = api_version.rpartition("/")
    subresources: dict[str, set[str]] = {}
    for entry in entries:
        plural, _, subresource = entry.name.partition("/")
        subresources.setdefault(plural, set()).update({subresource} - {""})
    return [
        APIResource(
            resource=GroupVersionResource(group, version, entry.name),
            kind=entry.kind,
            namespaced=entry.namespaced,
            subresources=frozenset(subresources[entry.name]),
        )
        for entry in entries
        if "/" not in entry.name
    ]
