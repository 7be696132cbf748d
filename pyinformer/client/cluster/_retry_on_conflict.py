"""Read, change and write an object, and start over after a conflict.

Only a conflict is worth another attempt, and the number of attempts is bounded.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar, final

import anyio

from pyinformer._runtime.tasks import check_callable, checked_by, is_asynchronous
from pyinformer.client.cluster._cluster import Cluster, check_cluster
from pyinformer.client.cluster._json_conversion import Body, body_of
from pyinformer.client.cluster._merge_patch import same
from pyinformer.client.cluster._targets import Target, target_of
from pyinformer.client.cluster._unstored_status_fields import is_status_stored
from pyinformer.errors import (
    ApplyConflictError,
    ConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
)
from pyinformer.objects import JSONObject, KubeObject, check_integer, check_seconds

if TYPE_CHECKING:
    from pyinformer.client.cluster._write_path import FieldValidation

_T = TypeVar("_T")

Operation: TypeAlias = Literal["created", "updated", "unchanged"]
"""What `create_or_update` did."""

_ATTEMPTS: Final = 5  # client-go's DefaultRetry
_BACKOFF_SECONDS: Final = 0.01
_JITTER_FACTOR: Final = 0.1


class Upserted(NamedTuple):
    """What `create_or_update` did, and to what."""

    object: KubeObject
    """The object as the server has it now."""

    operation: Operation


def check_attempt(
    attempt: object, *, attempts: int = _ATTEMPTS, backoff_seconds: float = _BACKOFF_SECONDS
) -> None:
    """Refuse what cannot be called again after a conflict.

    Raises:
        InvalidArgumentError: `attempts` is below 1, or `backoff_seconds` is negative.
        InvalidTypeError: the attempt cannot be called without arguments.
    """
    check_callable(attempt, "attempt()", 0)
    check_integer("attempts", attempts)
    check_seconds("backoff_seconds", backoff_seconds)


def pause_after_conflict(error: ConflictError, left: int, backoff_seconds: float) -> float:
    """Return for how many seconds to pause before the next attempt.

    Args:
        error: what the last attempt raised.
        left: how many attempts are left.
        backoff_seconds: the shortest pause.

    Raises:
        ConflictError: `error`: no attempt is left, or none would end without this conflict.
    """
    if not left or isinstance(error, ApplyConflictError) or _exists(error):
        raise error
    return backoff_seconds * (1 + random.random() * _JITTER_FACTOR)


def _check_awaited_attempt(attempt: object, *_: object, **__: object) -> None:
    """Refuse a plain attempt where no event loop runs: the coroutine would never be awaited.

    Raises:
        InvalidTypeError: it is one.
    """
    if is_asynchronous(attempt):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        reason = (
            "must be an async function: no event loop runs here; a plain function calls"
            " pyinformer.blocking.retry_on_conflict"
        )
        raise InvalidTypeError("attempt", reason) from None


@checked_by(_check_awaited_attempt)
async def retry_on_conflict(
    attempt: Callable[[], Awaitable[_T]],
    *,
    attempts: int = _ATTEMPTS,
    backoff_seconds: float = _BACKOFF_SECONDS,
) -> _T:
    """Call a function, and call it again when the object has changed since it was read.

    Args:
        attempt: reads, changes and writes the object; called again at each attempt.
        attempts: the number of calls in all.
        backoff_seconds: the pause between two calls, with up to 10 % added at random.

    Returns:
        What the attempt returned.

    Raises:
        ConflictError: the last attempt raised it; or no further attempt would help: the object
            exists already, or another field manager owns a field.
        InvalidArgumentError: `attempts` is below 1, or `backoff_seconds` is negative.
        InvalidTypeError: what the attempt returns cannot be awaited; or it is a plain function
            where no event loop runs, which calls `pyinformer.blocking.retry_on_conflict`.

    Cancellation:
        Cancels the attempt.

    Source:
        client-go util/retry/util.go.
    """
    check_attempt(attempt, attempts=attempts, backoff_seconds=backoff_seconds)
    left = attempts
    while True:
        left -= 1
        try:
            made = attempt()
            if not isinstance(made, Awaitable):
                reason = f"must be an async function; it returned {type(made).__name__}"
                raise InvalidTypeError("attempt", reason)
            return await made
        except ConflictError as error:
            seconds = pause_after_conflict(error, left, backoff_seconds)
        await anyio.sleep(seconds)


@checked_by(check_cluster)
async def create_or_update(
    cluster: Cluster,
    desired: Body,
    mutate: Callable[[JSONObject], None] | None = None,
    *,
    field_manager: str | None = None,
    field_validation: FieldValidation | None = None,
) -> Upserted:
    """Create an object, or change the one that exists.

    Args:
        cluster: where.
        desired: the object to create; if it exists, only its name and kind are used.
        mutate: changes an object's dict in place into what it should be: the new one, or a fresh
            copy of the one that exists. It may be called several times. None changes nothing. A
            status that it changes is written after the rest, in a request of its own where the
            kind has a status subresource.
        field_manager: the owner of the fields; None as for `Cluster.create`.
        field_validation: what the server does with unknown fields, as for `Cluster.create`.

    Returns:
        The object and what was done. One that `mutate` does not change is not written.

    Raises:
        ConflictError: other clients changed it before each attempt.
        InvalidArgumentError: the object lacks apiVersion, kind, a name or a namespace, or `mutate`
            changed its name or kind; or the server stored nothing of a status.
        InvalidTypeError: `mutate` is a coroutine function, or returns a dict of its own; or
            `cluster` is the cluster of a plain function, which calls
            `pyinformer.blocking.create_or_update`.
        APIStatusError: the server refused.
        TransportError: no response arrived; it may have been written or not.

    Cancellation:
        It may have been written or not.

    Source:
        controller-runtime pkg/controller/controllerutil, CreateOrPatch.
    """
    if mutate is not None:
        check_callable(mutate, "mutate(dict)", 1)
    skeleton = body_of(desired, "desired")
    target = await target_of(cluster.discovery, skeleton, argument="desired")
    resource = target.resource

    write = _Writes(cluster, target, field_manager, field_validation)

    async def attempt() -> Upserted:
        """Create it, or change the one that exists."""
        try:
            found = await cluster.get(resource.api_version, resource.resource, target.key)
        except NotFoundError:
            return await write.create(skeleton, mutate)
        return await write.change(found, mutate)

    async def attempt_again_if_created() -> Upserted:
        """Change it if it was created after the read."""
        try:
            return await attempt()
        except ConflictError as error:
            if not _exists(error):
                raise
            return await attempt()

    return await retry_on_conflict(attempt_again_if_created)


@final
@dataclass(frozen=True, slots=True)
class _Writes:
    """The writes of one attempt; a status that `mutate` changed comes after the rest."""

    cluster: Cluster
    target: Target
    field_manager: str | None
    field_validation: FieldValidation | None

    async def create(
        self, skeleton: JSONObject, mutate: Callable[[JSONObject], None] | None
    ) -> Upserted:
        """Create the object as `mutate` leaves it."""
        body = _mutated(body_of(skeleton, "desired"), mutate)
        found = await target_of(self.cluster.discovery, body, argument="mutate")
        if found.key != self.target.key:
            reason = f"must not change the name, namespace or kind of {self.target.key!r}"
            raise InvalidArgumentError("mutate", reason) from None
        status = _status_of(body)
        is_new = not same(status, _status_of(skeleton))
        if is_new and self.target.api.has_status:
            body = {name: value for name, value in body.items() if name != "status"}
        created = await self.cluster.create(
            body, field_manager=self.field_manager, field_validation=self.field_validation
        )
        if is_new and not is_status_stored({"status": status}, created):
            created = await self._status(created, status)
        return Upserted(created, "created")

    async def change(
        self, found: KubeObject, mutate: Callable[[JSONObject], None] | None
    ) -> Upserted:
        """Write what `mutate` changes in the object that exists."""
        before = found.to_dict()
        edited = _mutated(found.to_dict(), mutate)
        status = _status_of(edited)
        is_apart = self.target.api.has_status and not same(status, _status_of(before))
        if is_apart:
            edited = {**edited, "status": before.get("status")}
        written = await self.cluster.patch(
            found,
            edited,
            check_version=True,
            field_manager=self.field_manager,
            field_validation=self.field_validation,
        )
        if is_apart:
            written = await self._status(written, status, check_version=True)
        is_same = written.metadata.resource_version == found.metadata.resource_version
        return Upserted(written, "unchanged" if is_same else "updated")

    async def _status(
        self, obj: KubeObject, status: JSONObject, *, check_version: bool = False
    ) -> KubeObject:
        return await self.cluster.status(
            obj,
            status,
            check_version=check_version,
            field_manager=self.field_manager,
            field_validation=self.field_validation,
        )


def _status_of(body: JSONObject) -> JSONObject:
    status = body.get("status")
    return status if isinstance(status, dict) else {}


def _mutated(body: JSONObject, mutate: Callable[[JSONObject], None] | None) -> JSONObject:
    found: object = mutate(body) if mutate is not None else None
    if isinstance(found, Awaitable):
        close = getattr(found, "close", None)
        if close is not None:
            close()
        raise InvalidTypeError("mutate", "must not be asynchronous; await what it needs beforehand")
    if isinstance(found, Mapping) and found is not body and "metadata" in found:
        raise InvalidTypeError("mutate", "must change its dict in place, not return another one")
    return body


def _exists(error: ConflictError) -> bool:
    return error.reason == "AlreadyExists"
