"""Server-side apply, and apply only where something changed.

What enters is the part of an object that one field manager wants; what leaves is the object as the
server has it. What was applied is remembered only while its outcome is known.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pyinformer.apimachinery import (
    InvalidArgumentError,
    InvalidObjectError,
    JSONObject,
    JSONValue,
    KubeObject,
    View,
)
from pyinformer.cluster._applied import AppliedMemory, Identity
from pyinformer.cluster._bodies import Body, body_of
from pyinformer.cluster._observed_writes import ObservedWrites, query_of
from pyinformer.cluster._options import WriteOptions
from pyinformer.cluster._targets import Target, target_of

if TYPE_CHECKING:
    from pyinformer.transport import ConnectionProtocol

_APPLY_PATCH: Final = "application/apply-patch+yaml"  # JSON is YAML


class _Managed(Struct, frozen=True, rename="camel"):
    managed_fields: JSONValue = None


class _Answer(Struct, frozen=True):
    metadata: _Managed = _Managed()


_decode_managed = msgspec.json.Decoder(_Answer).decode


class Applying(ObservedWrites):
    """Applies objects, and remembers what it applied.

    Args:
        connection: the server.
        options: how fast writes may leave.
    """

    def __init__(
        self, connection: ConnectionProtocol, *, options: WriteOptions | None = None
    ) -> None:
        super().__init__(connection, options=options)
        self._applied = AppliedMemory()

    async def apply(
        self,
        desired: Body,
        *,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> KubeObject:
        """Make an object have these fields, by server-side apply; create it if need be.

        Args:
            desired: the fields that this manager wants and no others. Fields that it applied
                before and are missing now are removed.
            field_manager: who wants them.
            force: take fields over that others own.
            dry_run: let the server check it and store nothing.

        Returns:
            The object as the server stored it: under its old resource version if nothing changed.

        Raises:
            ApplyConflictError: others own some of the fields with other values.
            InvalidArgumentError: it does not say what it is, or where, or there is no manager.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been applied or not.

        Cancellation:
            Unless it still waits for its turn, it may have been applied or not.

        Source:
            KEP-555.
        """
        body, target = await self._desired(desired, field_manager)
        return await self._apply(body, target, field_manager, force=force, dry_run=dry_run)

    async def apply_if_changed(
        self,
        desired: Body,
        current: KubeObject[View | None] | None,
        *,
        field_manager: str,
        force: bool = False,
    ) -> KubeObject:
        """Apply an object unless it still is as this process has applied it.

        Only the paths in `desired` count, and those that were applied last: what the server adds
        as defaults and what others own makes no difference, nor do null, {} and []. A list that the
        server counts as one field, as most of custom resources are, is owned as a whole. What this
        process has not applied yet since it started is applied once.

        Args:
            desired: as for `apply`.
            current: the object as it is known now, from a cache perhaps; None if there is none.
            field_manager: who wants these fields.
            force: take fields over that others own.

        Returns:
            The object as the server stored it; `current` if nothing was sent.

        Raises:
            ApplyConflictError: others own some of the fields with other values.
            InvalidArgumentError: it does not say what it is, or where, or `current` is another.
            APIStatusError: the server refused.
            TransportError: no answer came; it may have been applied or not.

        Cancellation:
            As for `apply`; after that it is applied again, whatever was.
        """
        body, target = await self._desired(desired, field_manager)
        if current is None:
            return await self._apply(body, target, field_manager, force=force)
        if current.key != target.key or current.gvk != target.api.gvk:
            raise InvalidArgumentError("current", f"{current!r} is not {target.key!r}")
        identity = Identity(target.resource, target.key, field_manager)
        if self._applied.is_applied(
            identity, _owned(body, target), current.to_dict(), current.metadata
        ):
            self._skipped += 1
            return self._answers.record(target.resource, current.raw)
        return await self._apply(
            body,
            target,
            field_manager,
            force=force,
            version=current.metadata.resource_version,
            is_due=self._applied.has_room_for(identity),
        )

    async def _desired(self, desired: Body, field_manager: str) -> tuple[JSONObject, Target]:
        if not field_manager:
            raise InvalidArgumentError("field_manager", "is empty; say who wants these fields")
        body = body_of(desired, "desired")
        target = await target_of(self.discovery, body)
        body["metadata"].pop("managedFields", None)  # the server refuses to be told
        return body, target

    async def _apply(
        self,
        body: JSONObject,
        target: Target,
        field_manager: str,
        *,
        force: bool,
        dry_run: bool = False,
        version: str | None = None,
        is_due: bool = False,
    ) -> KubeObject:
        query = [*query_of(field_manager, dry_run=dry_run)]
        if force:
            query.append(("force", "true"))
        identity = Identity(target.resource, target.key, field_manager)
        sending = self._write_whole(
            "PATCH",
            target.path,
            target,
            body,
            query=query,
            content_type=_APPLY_PATCH,
            version=version,
            is_due=is_due,
        )
        if dry_run:
            return (await sending)[0]
        self._applied.begin(identity)  # until the answer is here, anything may be true
        try:
            found, raw = await sending
            with suppress(InvalidObjectError, RecursionError):  # too deep to be remembered
                managed = _decode_managed(raw).metadata.managed_fields
                owned = _owned(body, target)
                self._applied.remember(identity, owned, found.to_dict(), found.metadata, managed)
        finally:
            self._applied.end(identity)
        return found


def _owned(body: JSONObject, target: Target) -> JSONObject:
    """Return what an apply can own: a status that is written apart is ignored by the server."""
    ignored = "status" if target.api.has_status else ""
    return {name: value for name, value in body.items() if name != ignored}
