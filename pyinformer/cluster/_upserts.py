"""Read, change, write, and begin again if somebody was faster.

What enters is a function of the user's that changes an object, or one that makes a whole attempt;
what leaves is what came of it. Only a conflict is worth another attempt, and there are few of them.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar

import anyio

from pyinformer.apimachinery import (
    ApplyConflictError,
    ConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    JSONObject,
    KubeObject,
    NotFoundError,
    check_seconds,
)
from pyinformer.cluster._bodies import Body, body_of
from pyinformer.cluster._targets import target_of

if TYPE_CHECKING:
    from pyinformer.cluster._object_client import ObjectClient

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


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[_T]],
    *,
    attempts: int = _ATTEMPTS,
    backoff_seconds: float = _BACKOFF_SECONDS,
) -> _T:
    """Make an attempt, and another one when somebody else has changed the object in between.

    Args:
        attempt: reads, changes and writes; called anew each time.
        attempts: how many there are in all.
        backoff_seconds: the pause between two of them, with a little chance in it.

    Returns:
        What the attempt returned.

    Raises:
        ConflictError: the last attempt met one too; or it is one that no attempt would cure: the
            object exists already, or another field manager owns a field.
        InvalidArgumentError: no attempts, or no duration.
        InvalidTypeError: what the attempt returns cannot be awaited.

    Cancellation:
        Cancels the attempt.

    Source:
        client-go util/retry/util.go.
    """
    if attempts < 1:
        raise InvalidArgumentError("attempts", f"{attempts} is below 1")
    check_seconds("backoff_seconds", backoff_seconds)
    left = attempts
    while True:
        left -= 1
        try:
            made = attempt()
            if not isinstance(made, Awaitable):
                reason = f"returned {type(made).__name__}; give an async function"
                raise InvalidTypeError("attempt", reason)
            return await made
        except ConflictError as error:
            if not left or isinstance(error, ApplyConflictError) or _exists(error):
                raise
        await anyio.sleep(backoff_seconds * (1 + random.random() * _JITTER_FACTOR))


async def create_or_update(
    cluster: ObjectClient,
    desired: Body,
    mutate: Callable[[JSONObject], None] | None = None,
    *,
    field_manager: str | None = None,
) -> Upserted:
    """Create an object, or change the one that is there.

    Args:
        cluster: where.
        desired: the object to create; of one that exists only its name and kind matter.
        mutate: changes an object's dict in place into what it should be: the new one, or a fresh
            copy of the one that exists. It may be called several times. None changes nothing.
        field_manager: who owns the fields; None for this program's name.

    Returns:
        The object and what was done. One that is as it should be is not written.

    Raises:
        ConflictError: others wrote to it again and again.
        InvalidArgumentError: the object does not say what it is or where, or `mutate` made
            another one of it.
        InvalidTypeError: `mutate` is a coroutine function, or makes a dict of its own.
        APIStatusError: the server refused.
        TransportError: no answer came; it may have been written or not.

    Cancellation:
        It may have been written or not.

    Source:
        controller-runtime pkg/controller/controllerutil, CreateOrPatch.
    """
    skeleton = body_of(desired, "desired")
    target = await target_of(cluster.discovery, skeleton)
    resource = target.resource

    async def attempt() -> Upserted:
        """Create it, or change what is there."""
        try:
            found = await cluster.get(resource.api_version, resource.resource, target.key)
        except NotFoundError:
            body = _mutated(deepcopy(skeleton), mutate)
            if (await target_of(cluster.discovery, body)).key != target.key:
                reason = f"made another object of {target.key!r}"
                raise InvalidArgumentError("mutate", reason) from None
            created = await cluster.create(body, field_manager=field_manager)
            return Upserted(created, "created")
        edited = _mutated(found.to_dict(), mutate)
        written = await cluster.patch(
            found, edited, check_version=True, field_manager=field_manager
        )
        is_same = written.metadata.resource_version == found.metadata.resource_version
        return Upserted(written, "unchanged" if is_same else "updated")

    async def attempt_again_if_created() -> Upserted:
        """Change what somebody else has created in between."""
        try:
            return await attempt()
        except ConflictError as error:
            if not _exists(error):
                raise
            return await attempt()

    return await retry_on_conflict(attempt_again_if_created)


def _mutated(body: JSONObject, mutate: Callable[[JSONObject], None] | None) -> JSONObject:
    found: object = mutate(body) if mutate is not None else None
    if isinstance(found, Awaitable):
        close = getattr(found, "close", None)
        if close is not None:
            close()
        raise InvalidTypeError("mutate", "is asynchronous; prepare what it needs beforehand")
    if isinstance(found, Mapping) and found is not body and "metadata" in found:
        raise InvalidTypeError("mutate", "returns another dict; it has to change its own in place")
    return body


def _exists(error: ConflictError) -> bool:
    return error.reason == "AlreadyExists"
