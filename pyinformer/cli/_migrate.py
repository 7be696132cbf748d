"""`pyinformer migrate`: objects of a custom resource are stored again, in its storage version.

Then the other versions are removed from `status.storedVersions`, so that the definition can do
without them. Nothing of an object changes but its stored form.

Source:
    kube-controller-manager, StorageVersionMigration: a write that changes nothing is stored in the
    storage version.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO, final
from urllib.parse import quote

import msgspec

from pyinformer._printable import printable
from pyinformer.cli._exit_status import CLOSED_PIPE, FAILED, OK
from pyinformer.cli._shutdown import Shutdown, run
from pyinformer.cli.objects import CommandError
from pyinformer.cli.output import Output
from pyinformer.errors import APIStatusError, ConflictError, InformerError, NotFoundError
from pyinformer.objects import GroupVersionResource, JSONObject, KubeObject

if TYPE_CHECKING:
    from pyinformer.cli.objects import ServerAccess
    from pyinformer.client.cluster import Cluster

_API_VERSION: Final = "apiextensions.k8s.io/v1"
_PLURAL: Final = "customresourcedefinitions"
_MERGE_PATCH: Final = "application/merge-patch+json"
_ATTEMPTS: Final = 5  # at one object that others write at the same time
_MOST_REFUSED: Final = 10  # most often all objects are refused, for one reason
_REPORTED_EVERY: Final = 1_000  # objects; ten seconds of writes


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One run of the command."""

    access: ServerAccess
    name: str
    """The name of the definition, such as `databases.acme.io`."""
    dry_run: bool
    """The server checks each write and stores nothing."""

    def run(self, *, output: TextIO, errors: TextIO) -> int:
        """Migrate the objects. Call it in the main thread.

        Args:
            output: receives what was done.
            errors: receives progress, refusals, and why the command failed.

        Returns:
            The exit status: 1 if anything was refused; then `status.storedVersions` is as it was.
        """
        printed, notes = Output(output, os.environ), Output(errors, os.environ)

        async def command(_: Shutdown) -> int:
            """Connect and migrate."""
            try:
                async with self.access.connected() as cluster:
                    return await self._migrate(cluster, printed, notes)
            except BrokenPipeError:
                return CLOSED_PIPE
            except (InformerError, CommandError) as error:
                notes.line(f"pyinformer migrate: {printable(str(error))}")
                return FAILED

        return run(command, output)

    async def _migrate(self, cluster: Cluster, output: Output, errors: Output) -> int:
        definition = _Definition(await cluster.get(_API_VERSION, _PLURAL, self.name))
        storage, others = definition.storage, definition.others
        if not others:
            output.line(f"{self.name}: all objects are stored as {storage}")
            return OK
        # First all, then write: a list expires while it is read slowly. What is created from now
        # on is stored in the storage version.
        listed = cluster.list(definition.resource.api_version, definition.resource.resource)
        objects = [_Stored(one) async for one in listed]
        counts = _Counts()
        for number, obj in enumerate(objects, start=1):
            try:
                is_there = await obj.rewrite(cluster, definition.resource, dry_run=self.dry_run)
            except APIStatusError as error:
                counts.refused += 1
                errors.line(printable(f"{obj.key}: {error}"))
                if counts.refused == _MOST_REFUSED:
                    break
            else:
                counts.rewritten += is_there
                counts.gone += not is_there
            if number % _REPORTED_EVERY == 0:
                errors.line(f"{self.name}: {number} of {len(objects)} objects")
        would = "would be " if self.dry_run else ""
        output.line(f"{self.name}: {counts.rewritten} objects {would}stored as {storage}{counts}")
        if counts.refused:
            raise CommandError(f"objects may still be stored as {', '.join(others)}")
        if not self.dry_run:
            await self._prune(cluster, definition)
        output.line(f"{self.name}: {', '.join(others)} {would}removed from status.storedVersions")
        return OK

    async def _prune(self, cluster: Cluster, definition: _Definition) -> None:
        """Set the stored versions, if no version has become the storage version meanwhile."""
        path = f"/apis/{_API_VERSION}/{_PLURAL}/{quote(self.name)}/status"
        status = {"storedVersions": [definition.storage]}
        current = definition
        for left in reversed(range(_ATTEMPTS)):
            if current.generation != definition.generation:
                reason = f"{self.name} has changed while its objects were written: run it again"
                raise CommandError(reason)
            patch = {"metadata": {"resourceVersion": current.resource_version}, "status": status}
            try:
                await cluster.request(
                    "PATCH", path, body=msgspec.json.encode(patch), content_type=_MERGE_PATCH
                )
            except ConflictError:
                if not left:
                    raise
                current = _Definition(await cluster.get(_API_VERSION, _PLURAL, self.name))
            else:
                return


@final
@dataclass(slots=True)
class _Counts:
    rewritten: int = 0
    gone: int = 0
    refused: int = 0

    def __str__(self) -> str:
        gone = f", {self.gone} deleted meanwhile" if self.gone else ""
        return gone + (f", {self.refused} refused" if self.refused else "")


@final
class _Definition:
    """What a migration needs to know of a CustomResourceDefinition."""

    def __init__(self, obj: KubeObject) -> None:
        body = obj.to_dict()
        spec: JSONObject = body["spec"]
        versions: list[JSONObject] = spec["versions"]
        served = [str(one["name"]) for one in versions if one.get("served")]
        self.storage: str = next((str(one["name"]) for one in versions if one.get("storage")), "")
        if not served or not self.storage:
            raise CommandError(f"{obj.key} has no version that is served, or none for storage")
        stored: list[str] = (body.get("status") or {}).get("storedVersions") or []
        self.others: list[str] = [name for name in stored if name != self.storage]
        self.generation: int = body["metadata"].get("generation", 0)
        self.resource_version: str = obj.metadata.resource_version
        used = self.storage if self.storage in served else served[0]
        self.resource: GroupVersionResource = GroupVersionResource.of(
            f"{spec['group']}/{used}", spec["names"]["plural"]
        )


@final
class _Stored:
    """An object as it was listed; its body is not kept."""

    __slots__ = ("_name", "_namespace", "_uid", "_version", "key")

    def __init__(self, obj: KubeObject) -> None:
        meta = obj.metadata
        self.key: str = obj.key
        self._namespace, self._name = meta.namespace, meta.name
        self._uid, self._version = meta.uid, meta.resource_version

    async def rewrite(
        self, cluster: Cluster, resource: GroupVersionResource, *, dry_run: bool
    ) -> bool:
        """Write the object without a change; return whether it still exists.

        Raises:
            APIStatusError: the server refuses the write.
            TransportError: the server was not reached.

        Cancellation:
            It may have been written or not.
        """
        place = f"/namespaces/{quote(self._namespace)}" if self._namespace else ""
        path = f"{resource.path}{place}/{resource.resource}/{quote(self._name)}"
        for left in reversed(range(_ATTEMPTS)):
            patch = {"metadata": {"uid": self._uid, "resourceVersion": self._version}}
            try:
                await cluster.request(
                    "PATCH",
                    path,
                    query=[("dryRun", "All")] if dry_run else (),
                    body=msgspec.json.encode(patch),
                    content_type=_MERGE_PATCH,
                )
            except NotFoundError:
                return False
            except ConflictError:
                if not left:
                    raise
                if not await self._refresh(cluster, resource):
                    return False
            else:
                break
        return True

    async def _refresh(self, cluster: Cluster, resource: GroupVersionResource) -> bool:
        """Read the object's version; return whether it is still the same object."""
        try:
            now = await cluster.get(resource.api_version, resource.resource, self.key)
        except NotFoundError:
            return False
        self._version = now.metadata.resource_version
        return now.metadata.uid == self._uid
