"""Reading and writing single objects: the small client of a controller.

What enters are objects as dicts, KubeObjects or models; what leaves are KubeObjects made from the
server's own answers. Every write waits for its turn, leaves once, and is told to the observers of
its resource the moment its answer is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias, overload

from pyinformer.apimachinery import (
    GroupVersionResource,
    InvalidArgumentError,
    JSONObject,
    KubeObject,
    View,
)
from pyinformer.cluster._applying import Applying
from pyinformer.cluster._bodies import Body, body_of
from pyinformer.cluster._edits import patch_of, status_patch_of, unstored_fields
from pyinformer.cluster._observed_writes import query_of
from pyinformer.cluster._targets import (
    Target,
    identified,
    object_path,
    refuse_metadata_alone,
    target_of,
)

Propagation: TypeAlias = Literal["Background", "Foreground", "Orphan"]
"""What becomes of the objects that a deleted one owns."""

_SHOWN_FIELDS: Final = 5


class ObjectClient(Applying):
    """Reads and writes objects of one server; a Cluster is one.

    Args:
        connection: the server.
        options: how fast writes may leave.
    """

    async def get(self, api_version: str, plural: str, key: str) -> KubeObject:
        """Ask the server for one object; caches are faster: `informer.lister.get(key)`.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name, as in its URL.
            key: `namespace/name`, or `name` if it is cluster-scoped.

        Raises:
            NotFoundError: there is none.
            InvalidArgumentError: one of the names cannot be meant.
            APIStatusError: the server refused.
            TransportError: the server was not reached, or its answer did not come.

        Cancellation:
            Safe.
        """
        resource = GroupVersionResource.of(api_version, plural)
        raw = await self._sender.read(object_path(resource, key))
        return self._answers.record(resource, raw)

    async def create(
        self,
        obj: Body,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Create an object.

        Args:
            obj: with apiVersion, kind, and a name or generateName.
            namespace: where, if the object does not say so itself.
            field_manager: who owns its fields; None for this program's name.
            dry_run: let the server check it and store nothing.

        Returns:
            The object as the server stored it. What is answered and not stored, a
            SelfSubjectAccessReview for one, has no name: its key is empty, and its `status` has
            the answer. A Binding is answered by a Status.

        Raises:
            WriteAnswerError: it was created, and the answer cannot be read.
            ConflictError: it exists already; its reason is `AlreadyExists`.
            InvalidArgumentError: it does not say what it is, or where.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been created or not.

        Cancellation:
            Unless it still waits for its turn, it may have been created or not.
        """
        body = body_of(obj)
        target = await target_of(self.discovery, body, namespace=namespace, named=False)
        if target.namespace:
            body["metadata"] = {**(body.get("metadata") or {}), "namespace": target.namespace}
        query = query_of(field_manager, dry_run=dry_run)
        return await self._write("POST", target.collection_path, target, body, query=query)

    async def replace(
        self, obj: Body, *, field_manager: str | None = None, dry_run: bool = False
    ) -> KubeObject:
        """Replace an object by another version of it.

        A model drops the fields it does not know: start from `to_dict()`, or use `patch`.

        Args:
            obj: the whole object, so none that an informer's transform has cut. With a
                resourceVersion in it, only that version is replaced.
            field_manager: who owns its fields; None for this program's name.
            dry_run: let the server check it and store nothing.

        Returns:
            The object as the server stored it: under its old resource version if nothing changed.

        Raises:
            ConflictError: it was changed in between.
            NotFoundError: it does not exist.
            InvalidArgumentError: it does not say what it is, or where.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been replaced or not.

        Cancellation:
            Unless it still waits for its turn, it may have been replaced or not.
        """
        body = body_of(obj)
        target = await target_of(self.discovery, body)
        query = query_of(field_manager, dry_run=dry_run)
        version = body["metadata"].get("resourceVersion")
        return await self._write("PUT", target.path, target, body, query=query, version=version)

    async def patch(
        self,
        obj: KubeObject[View | None] | JSONObject,
        edited: Body,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Send what was edited in an object, and nothing else.

        Fields that a model does not know are kept, those in elements of lists too: elements are
        recognised by their name, type, port or the like, others by their place; one with another
        name is another one. A list goes as a whole: with `check_version` it cannot undo what
        others wrote to it in between.

        Args:
            obj: the object as it was; metadata alone, of an informer with `memory="metadata"`, is
                enough to edit metadata, and nothing else is touched. If an informer's transform
                has cut its lists, do not edit them: they would be written as short as they are;
                `get()` has all of them.
            edited: the whole object with the edits: `obj.to_dict()` or `obj.as_type(Model)`,
                changed. What is missing in it is removed. Resource version and uid do not count.
            check_uid: fail if it is another object of the same name by now.
            check_version: fail if the object has changed since `obj`.
            field_manager: who owns the fields; None for this program's name.
            dry_run: let the server check it and store nothing.

        Returns:
            The object as the server stored it; `obj` if nothing was edited, and nothing is sent.

        Raises:
            ConflictError: it is another object by now, or with `check_version` another version.
            NotFoundError: it does not exist.
            InvalidArgumentError: `edited` is another object, its status was edited where `status()`
                has to be used, or elements of a list cannot be told apart.
            InvalidTypeError: `obj` is a model: it may not know all fields.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been patched or not.

        Cancellation:
            Unless it still waits for its turn, it may have been patched or not.
        """
        target, before = await self._original(obj)
        patch = patch_of(before, edited)
        if "status" in patch and target.api.has_status:
            reason = f"the status of {target.resource} is written by status(), not by patch()"
            raise InvalidArgumentError("edited", reason)
        query = query_of(field_manager, dry_run=dry_run)
        return await self._patch(
            target.path,
            target,
            before,
            patch,
            query=query,
            check_uid=check_uid,
            check_version=check_version,
        )

    async def status(
        self,
        obj: KubeObject[View | None] | JSONObject,
        status: Body,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Send what is new in an object's status, and nothing else.

        Args:
            obj: the object as it was.
            status: the whole new status. What a dict leaves out is removed; what a model does
                not know is kept.
            check_uid: fail if it is another object of the same name by now.
            check_version: fail if the object has changed since `obj`.
            field_manager: who owns the fields; None for this program's name.
            dry_run: let the server check it and store nothing.

        Returns:
            The object as the server stored it; `obj` if nothing is new, and nothing is sent.

        Raises:
            ConflictError: it is another object by now, or with `check_version` another version.
            NotFoundError: it does not exist.
            InvalidArgumentError: `status` is a whole object, or elements of a list cannot be told
                apart; or the server stored none of the fields that are sent, since the resource
                has no status subresource, or its schema does not have these fields.
            InvalidTypeError: `obj` is a model: it may not know all fields.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been written or not.

        Cancellation:
            Unless it still waits for its turn, it may have been written or not.
        """
        target, before = await self._original(obj)
        refuse_metadata_alone(before.to_dict())
        patch = status_patch_of(before, status)
        query = query_of(field_manager, dry_run=dry_run)

        async def send(target: Target) -> tuple[KubeObject, tuple[str, ...]]:
            """Write the status; return what is stored, and the fields that are not."""
            found = await self._patch(
                target.status_path,
                target,
                before,
                patch,
                query=query,
                check_uid=check_uid,
                check_version=check_version,
            )
            has_status = target.api.has_status
            return found, (patch and unstored_fields(patch, found, has_status=has_status)) or ()

        found, missing = await send(target)
        if missing and not target.api.has_status:
            target = replace(target, api=await self.discovery.again(target.resource))
            if target.api.has_status:  # it has one by now: nothing was stored without it
                found, missing = await send(target)
        if missing:
            raise _not_stored(target, missing)
        return found

    @overload
    async def delete(
        self,
        obj: Body,
        /,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None: ...
    @overload
    async def delete(
        self,
        api_version: str,
        plural: str,
        key: str,
        /,
        *,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None: ...
    async def delete(
        self,
        obj: Body | str,
        plural: str = "",
        key: str = "",
        /,
        *,
        check_uid: bool = True,
        check_version: bool = False,
        propagation: Propagation | None = None,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None:
        """Delete an object: `delete(pod)`, or `delete("v1", "pods", "default/a")`.

        Args:
            obj: the object, or the resource's api version.
            plural: the resource's plural name, if no object is given.
            key: `namespace/name` or `name`, if no object is given.
            check_uid: do not delete a successor that has the same name.
            check_version: do not delete an object that has changed since.
            propagation: what becomes of the objects it owns; None is the resource's default.
            grace_period_seconds: how long it may take to end; None is the object's own.
            dry_run: let the server check it and delete nothing.

        Returns:
            None if the object is gone, or was not there; the object if finalizers or its grace
            period hold it.

        Raises:
            ConflictError: it is another object by now, or another version.
            NotFoundError: the server has no such resource, which says nothing of the object.
            InvalidArgumentError: the object does not say what it is, or where; the key lacks a
                namespace, or has one.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been deleted or not.

        Cancellation:
            Unless it still waits for its turn, it may have been deleted or not.
        """
        metadata: JSONObject = {}
        if isinstance(obj, str):
            resource = GroupVersionResource.of(obj, plural)
        else:
            body = body_of(obj)
            named = identified(obj, body) if isinstance(obj, KubeObject) else body
            target = await target_of(self.discovery, named)
            resource, key, metadata = target.resource, target.key, body["metadata"]
        uid = str(metadata.get("uid") or "")
        version = metadata.get("resourceVersion")
        wanted = {"uid": check_uid and uid, "resourceVersion": check_version and version}
        options: JSONObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {name: value for name, value in wanted.items() if value} or None,
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_period_seconds,
            "dryRun": ["All"] if dry_run else None,
        }
        return await self._delete(
            resource, key, uid, options, dry_run=dry_run, version=str(version) if version else None
        )


def _not_stored(target: Target, fields: Sequence[str]) -> InvalidArgumentError:
    shown = ", ".join(fields[:_SHOWN_FIELDS])
    if len(fields) > _SHOWN_FIELDS:
        shown += f" and {len(fields) - _SHOWN_FIELDS} more"
    reason = f"the server stored none of {shown}: the schema of {target.resource} must have them"
    if not target.api.has_status:
        reason = (
            f"the server stored none of {shown}: {target.resource} has no status subresource. For a"
            " custom resource, add `subresources: {status: {}}` and the schema of the status to its"
            " CustomResourceDefinition"
        )
    return InvalidArgumentError("status", reason)
