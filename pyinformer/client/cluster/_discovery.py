"""What a server serves: from a kind to its resource, and from a resource to its kind and scope.

Each group and version is read once and kept; a name that is not in it is looked up once more, since
custom resources are added while a program runs. Concurrent callers share one request. Names as
people type them need all that is served: two requests with aggregated discovery, else one for each
version.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Final, final

import anyio
import msgspec

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.cluster._resource_lookup import Catalogue, GroupVersions, merged, read_root
from pyinformer.client.transport import (
    APIResource,
    decode_resources,
    near_kinds,
    near_resources,
    table_of,
)
from pyinformer.errors import (
    ForbiddenError,
    InformerError,
    NotFoundError,
    ProtocolError,
    UnknownResourceError,
)
from pyinformer.objects import GroupVersionResource, check_text, did_you_mean, near_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

_log = get_logger(__name__)
_ANY: Final = "any"  # a resource, where only the version matters
_NOT_FOUND: Final = 404
_AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
)
_MAX_ROOT_BYTES: Final = 8 << 20  # 3,000 kinds of custom resources take 2 MiB
_MAX_TABLE_BYTES: Final = 2 << 20  # one version of one group; that of pods has 10 KiB
_MAX_VERSIONS: Final = 2_000
_VERSION_SECONDS: Final = 32.0  # kubectl's limit: one silent group delays the names of all others
_SHOWN_SUBRESOURCES: Final = 20  # pods have eleven
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_IN_FULL: Final = "name the resource in full, such as v1/pods or apps/v1/deployments"


_Table = list[APIResource]  # a new list for every response, even if nothing has changed


@final
class _PendingRequest:
    """A request under way, for which several callers may wait."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.error: InformerError | None = None


@final
class Discovery:
    """What one server serves, read when it is needed and kept. Made by a Cluster.

    Args:
        read: reads a path of the server, in a given representation.
    """

    def __init__(self, read: Callable[[str, str], Awaitable[bytes]]) -> None:
        self._read = read
        self._catalogue: Catalogue | None = None
        self._learning = anyio.Lock()
        self._tables: dict[str, _Table] = {}
        self._asking: dict[str, _PendingRequest] = {}

    async def resource(self, resource: GroupVersionResource) -> APIResource:
        """Describe a resource.

        Args:
            resource: such as `GroupVersionResource.of("apps/v1", "deployments")`.

        Raises:
            NotFoundError: the server does not serve it.
            ForbiddenError: discovery is forbidden.
            TransportError: the server was not reached.

        Cancellation:
            Safe; other callers that wait for the same response send the request again.
        """
        return await self._find(
            resource.api_version,
            lambda one: one.resource == resource,
            str(resource),
            lambda table: near_resources(resource.resource, table),
        )

    async def kind_of(self, resource: GroupVersionResource) -> str:
        """Return the kind of a resource's objects; empty if discovery does not say.

        Args:
            resource: such as `GroupVersionResource.of("apps/v1", "deployments")`.

        Raises:
            TransportError: the server was not reached.

        Cancellation:
            Safe; other callers that wait for the same response send the request again.
        """
        try:
            return (await self.resource(resource)).kind
        except (ForbiddenError, NotFoundError):
            return ""

    async def kind(self, api_version: str, kind: str) -> APIResource:
        """Describe the resource whose objects are of a kind.

        Args:
            api_version: `v1`, or `group/version`.
            kind: such as `Deployment`.

        Raises:
            InvalidArgumentError: `api_version` is malformed.
            NotFoundError: the server does not serve this kind.
            ForbiddenError: discovery is forbidden.
            TransportError: the server was not reached.

        Cancellation:
            Safe; other callers that wait for the same response send the request again.
        """
        if api_version not in self._tables:
            GroupVersionResource.of(api_version, _ANY)  # it becomes a part of a path
        return await self._find(
            api_version,
            lambda one: one.kind == kind,
            f"{api_version}/{kind}",
            lambda table: near_kinds(kind, table),
        )

    async def find(self, name: str) -> tuple[APIResource, ...]:
        """Find the resources that a name as people type it stands for.

        Args:
            name: a plural, singular, kind or short name in any case (`deploy`), alone or with its
                group (`deployments.apps`, `deployments.v1.apps`); or in full with its version, as
                `v1/pods` or `apps/v1/deployments`, for which no other group is read.

        Returns:
            The likeliest first, which kubectl would take; at most one of each group.

        Raises:
            UnknownResourceError: nothing that is served has this name; lists similar names.
            InvalidArgumentError: it cannot be a name.
            ForbiddenError: discovery is forbidden.
            TransportError: the server was not reached.

        Cancellation:
            Safe.
        """
        check_text("name", name)
        if "/" in name:
            api_version, _, plural = name.rpartition("/")
            return (await self.resource(GroupVersionResource.of(api_version, plural)),)
        seen = self._catalogue
        found = () if seen is None else seen.find(name)
        if not found:
            catalogue = await self._newer_catalogue(seen)
            found = catalogue.find(name)
            if not found:
                near, silent = catalogue.near(name), catalogue.unavailable
                raise UnknownResourceError(name=name, near=near, unavailable=silent)
        return found

    async def of_kinds(self, kinds: Collection[str]) -> list[APIResource]:
        """Return the resources of kinds that can be listed, with at most one reading of all.

        Args:
            kinds: such as `StatefulSet.apps`, or `Secret` of the core group. One that the server
                does not serve is left out.

        Raises:
            UnknownResourceError: the server currently cannot say whether it serves a kind.
            ForbiddenError: discovery is forbidden.
            TransportError: the server was not reached.

        Cancellation:
            Safe.
        """
        seen = self._catalogue
        served = {} if seen is None else seen.by_kind()
        if not served.keys() >= set(kinds):
            catalogue = await self._newer_catalogue(seen)
            served = catalogue.by_kind()
            silent = {one.partition("/")[0] for one in catalogue.unavailable}
            for kind in kinds:
                if kind not in served and kind.partition(".")[2] in silent:
                    raise UnknownResourceError(name=kind, unavailable=catalogue.unavailable)
        found = (served[kind] for kind in sorted(kinds) if kind in served)
        return [one for one in found if "list" in one.verbs]

    async def _newer_catalogue(self, than: Catalogue | None) -> Catalogue:
        """Return a catalogue that is newer than the one that the caller has used."""
        async with self._learning:  # one at a time: it takes long, and the next caller can share it
            if self._catalogue is None or self._catalogue is than:
                self._catalogue = merged(await self._parts())
                self._tables |= self._catalogue.tables
            return self._catalogue

    async def _parts(self) -> list[Catalogue]:
        """Return what is served in the core group, and in the others; a server may have one half.

        Source:
            client-go discovery/discovery_client.go, downloadLegacy and downloadAPIs.
        """
        found: list[Catalogue] = []
        absent: NotFoundError | None = None
        for path in ("/api", "/apis"):
            try:
                found.append(await self._part(path))
            except NotFoundError as error:
                absent = error
        if absent is not None and not found:  # not a server of this API at all
            raise absent
        return found

    async def _part(self, path: str) -> Catalogue:
        try:
            found = read_root(_bounded(path, await self._read(path, _AGGREGATED), _MAX_ROOT_BYTES))
        except ForbiddenError as error:
            raise error.with_hint(_IN_FULL) from error
        except _UNREADABLE as error:
            raise ProtocolError(f"GET {path}", f"not a document of discovery: {error}") from error
        return found if isinstance(found, Catalogue) else await self._one_by_one(found)

    async def _one_by_one(self, groups: tuple[GroupVersions, ...]) -> Catalogue:
        """Read each version; one whose server is down or silent does not hide the others.

        Source:
            client-go discovery/discovery_client.go, defaultTimeout.
        """
        asked = [one for group in groups for one in group.api_versions]
        if len(asked) > _MAX_VERSIONS:
            reason = f"it names {len(asked)} versions, and at most {_MAX_VERSIONS} are requested"
            raise ProtocolError("GET /apis", reason)
        tables: dict[str, list[APIResource]] = {}

        async def ask(api_version: str) -> None:
            """Record the response, if there is one in time."""
            with suppress(InformerError), anyio.move_on_after(_VERSION_SECONDS):
                tables[api_version] = await self._ask(api_version)

        async with anyio.create_task_group() as group:
            for api_version in asked:
                group.start_soon(ask, api_version)
        ordered = {one: tables[one] for one in asked if one in tables}
        return Catalogue(ordered, tuple(sorted(set(asked) - set(tables))))

    async def read_again(self, resource: GroupVersionResource) -> APIResource:
        """Describe a resource as the server serves it now, without the kept description.

        Raises:
            NotFoundError: the server does not serve it.
            ForbiddenError: discovery is forbidden.
            TransportError: the server was not reached.

        Cancellation:
            Safe; other callers that wait for the same response send the request again.
        """
        await self._newer(resource.api_version, self._tables.get(resource.api_version))
        return await self.resource(resource)

    async def current(self, api: APIResource) -> APIResource:
        """Describe a kind as the server serves it now, for an argument that does not fit.

        Args:
            api: the kept description.

        Returns:
            The new description; the kept one if none can be read.

        Cancellation:
            Safe; other callers that wait for the same response send the request again.
        """
        try:
            try:
                return await self.read_again(api.resource)
            except NotFoundError:  # the kind may have another plural by now
                return await self.kind(api.resource.api_version, api.kind)
        except InformerError as failure:
            _log.debug("%s: discovery failed: %s", api.resource, failure)
            return api

    async def check_served(self, resource: GroupVersionResource, error: NotFoundError) -> None:
        """Raise an error with similar names if a 404 came because a resource is not served.

        Args:
            resource: the resource of the request.
            error: the answer. If it names an object, nothing is read.

        Raises:
            NotFoundError: the server does not serve the resource.

        Cancellation:
            Safe.
        """
        if not error.names_object:
            await self._served_now(resource, error)

    async def check_subresource(
        self,
        resource: GroupVersionResource,
        subresource: str,
        error: NotFoundError,
        *,
        again: bool = False,
    ) -> None:
        """Raise an error with the existing names if a 404 came because of a subresource's name.

        Args:
            resource: the resource of the request.
            subresource: the subresource of the request.
            error: the answer. Servers name the object in it also where only the subresource is
                unknown.
            again: read discovery although it had the subresource, which may be gone by now.

        Raises:
            NotFoundError: the server does not serve the resource, or not this subresource of it.

        Cancellation:
            Safe.
        """
        known = self.known(resource)
        if again or known is None or subresource not in known.subresources:
            known = await self._served_now(resource, error)
        if known is not None and subresource not in known.subresources:
            raise _no_subresource(known, subresource) from error

    async def _served_now(
        self, resource: GroupVersionResource, error: NotFoundError
    ) -> APIResource | None:
        """Describe the resource of a request that got a 404; None if discovery fails."""
        try:
            return await self.read_again(resource)
        except NotFoundError as unserved:
            raise unserved from error
        except InformerError as failure:  # the caller raises the answer to its request
            _log.debug("%s: discovery failed: %s", resource, failure)
        return None

    def near(self, resource: GroupVersionResource) -> tuple[str, ...]:
        """Return resources with similar names, such as `v1/pods`, without a request."""
        return near_resources(resource.resource, self._tables.get(resource.api_version, []))

    def known(self, resource: GroupVersionResource) -> APIResource | None:
        """Return the description of a resource if it was read before, without a request."""
        table = self._tables.get(resource.api_version, [])
        return next((one for one in table if one.resource == resource), None)

    async def _find(
        self,
        api_version: str,
        matches: Callable[[APIResource], bool],
        what: str,
        near: Callable[[_Table], tuple[str, ...]],
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
                message=f"the server does not serve it{_question(near(table or []))}",
                request=f"discover {what}",
            )
        return found

    async def _newer(self, api_version: str, than: _Table | None) -> _Table:
        """Return a table that is newer than the one that the caller has used."""
        while (asking := self._asking.get(api_version)) is not None:
            await asking.answered.wait()
            if asking.error is not None:  # else each caller would wait for a dead server in turn
                raise copy(asking.error) from asking.error
            table = self._tables.get(api_version)
            if table is not None and table is not than:
                return table
        asking = self._asking[api_version] = _PendingRequest()
        try:
            table = self._tables[api_version] = await self._ask(api_version)
            if than is not None and than != table:
                self._catalogue = None  # it has the same old description
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
            answer = await self._read(path, "")
        except NotFoundError:
            return []
        try:
            found = decode_resources(_bounded(path, answer, _MAX_TABLE_BYTES))
            return table_of(api_version, found)
        except _UNREADABLE as error:
            raise ProtocolError(f"GET {path}", f"not a list of resources: {error}") from error


def _bounded(path: str, answer: bytes, limit: int) -> bytes:
    """Refuse an answer whose decoding would stop the event loop for long."""
    if len(answer) > limit:
        reason = f"a document of discovery of {len(answer)} bytes is not read; the limit is {limit}"
        raise ProtocolError(f"GET {path}", reason)
    return answer


def _no_subresource(api: APIResource, subresource: str) -> NotFoundError:
    known = ", ".join(sorted(api.subresources)[:_SHOWN_SUBRESOURCES]) or "none"
    near = near_names(subresource, {one: one for one in api.subresources})
    return NotFoundError(
        status=_NOT_FOUND,
        reason="NotFound",
        message=(
            f"the server does not serve the subresource {subresource!r} of {api.resource}; it has:"
            f" {known}{_question(near)}"
        ),
        request=f"discover {api.resource}",
    )


def _question(near: tuple[str, ...]) -> str:
    return f"; {did_you_mean(near)}" if near else ""
