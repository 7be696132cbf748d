"""Finalizers: an object that is deleted waits until its controller has cleaned up behind it.

What enters is an object as a reconcile got it; what leaves is the phase that it is in, and behind
the block an object without the finalizer, if it was being deleted and nothing was raised. Every
write carries the resource version that it was decided on, so nobody else's finalizer is lost; a
conflict is decided again, on what the server has.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias, final

from pyinformer.apimachinery import (
    ConflictError,
    InvalidArgumentError,
    InvalidTypeError,
    JSONObject,
    KubeObject,
    NotFoundError,
    ObjectMeta,
    View,
)
from pyinformer.cluster import Cluster, state_of

FinalizerPhase: TypeAlias = Literal["active", "deleting", "gone"]
"""`active`: it lives and has the finalizer. `deleting`: it waits for us to clean up. `gone`: there
is nothing to do for us any more; it may still wait for others."""

_Object: TypeAlias = KubeObject[View | None]
_Decision: TypeAlias = Callable[[ObjectMeta], list[str] | None]
"""The finalizers that there should be; None for those that there are."""

_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_ATTEMPTS: Final = 5  # each sees what the server has; who loses five times running comes back


@final
class FinalizerContext:
    """An object behind a finalizer; made by `finalizer`."""

    def __init__(self, obj: _Object | None, name: str) -> None:
        self.object: _Object | None = obj
        """The newest version that is known; None once there is none."""
        self.is_kept: bool = False
        """Whether the finalizer stays behind the block although nothing was raised."""
        self.is_released: bool = False
        """Whether the finalizer is removed behind the block although the object is not deleted."""
        self._name = name

    @property
    def phase(self) -> FinalizerPhase:
        """What there is to do."""
        if self.object is None or self._name not in self.object.metadata.finalizers:
            return "gone"
        return "deleting" if self.object.metadata.deletion_timestamp else "active"

    def keep(self) -> None:
        """Leave the finalizer on behind this block: cleaning up goes on in a later reconcile."""
        self.is_kept = True
        self.is_released = False

    def release(self) -> None:
        """Remove the finalizer behind this block in any phase: the object is given up.

        This is for an object that its controller no longer manages, such as one whose label is
        gone: with the finalizer it could never be deleted. A block that raises removes nothing.
        """
        self.is_released = True
        self.is_kept = False


@asynccontextmanager
async def finalizer(
    cluster: Cluster, obj: KubeObject[View | None] | None, name: str, *, add: bool = True
) -> AsyncIterator[FinalizerContext]:
    """Hold an object with a finalizer while it is reconciled, and let it go when it is deleted.

        async with finalizer(cluster, database, "acme.io/backups") as held:
            match held.phase:
                case "active":
                    await ensure_backups(database)
                case "deleting":
                    await delete_backups(database)  # has to bear being called again

    The finalizer is there before the block is entered, so that nothing is made that nobody cleans
    up. It is removed when a block in phase `deleting` is left without an error and without
    `held.keep()`. Both are done again in later reconciles until they are; neither is done twice.

    Args:
        cluster: the object's cluster.
        obj: the object as the reconcile got it; None, or one that is gone by now, is in phase
            `gone`. So is another object of the same name that was created meanwhile.
        name: the finalizer: `acme.io/backups`.
        add: False leaves an object without the finalizer alone; it is in phase `gone`. That is for
            one that is not managed any more: `held.release()` then removes what is left.

    Raises:
        InvalidArgumentError: the name is none for a finalizer.
        InvalidTypeError: `obj` is no KubeObject.
        ConflictError: others changed the object faster, several times running.
        APIStatusError: the server refused.
        TransportError: it was not reached; whether the finalizer was changed is not known.

    Cancellation:
        Safe; inside the block it is an error like others, and the finalizer stays.
    """
    if obj is not None and not isinstance(obj, KubeObject):
        reason = f"a {type(obj).__name__} is no object as a reconcile gets it"
        raise InvalidTypeError("obj", reason)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reason = f"{name!r} is no name of a finalizer, such as 'acme.io/backups'"
        raise InvalidArgumentError("name", reason)

    def added(meta: ObjectMeta) -> list[str] | None:
        """Add ours, unless it is too late for that."""
        has_it = name in meta.finalizers or not add
        return None if has_it or meta.deletion_timestamp else [*meta.finalizers, name]

    def removed(meta: ObjectMeta) -> list[str] | None:
        """Remove ours and nobody else's."""
        others = [each for each in meta.finalizers if each != name]
        return None if len(others) == len(meta.finalizers) else others

    state_of(cluster).add_finalizer(name)
    held = FinalizerContext(await _change(cluster, obj, added), name)
    phase = held.phase
    yield held
    if held.is_released or (phase == "deleting" and not held.is_kept):
        held.object = await _change(cluster, held.object, removed)


async def _change(cluster: Cluster, obj: _Object | None, decide: _Decision) -> _Object | None:
    """Bring an object's finalizers to what is decided; return what there is then."""
    attempts = 0
    while obj is not None and (finalizers := decide(obj.metadata)) is not None:
        attempts += 1
        before, edited = _head(obj, obj.metadata.finalizers), _head(obj, finalizers)
        try:
            return await cluster.patch(before, edited, check_version=True)
        except NotFoundError:
            return None
        except ConflictError:
            if attempts == _ATTEMPTS:
                raise
            obj = await _newest(cluster, obj)
    return obj


def _head(obj: _Object, finalizers: Iterable[str]) -> JSONObject:
    """Return what a patch of finalizers needs: an object may be too large or deep to decode."""
    meta = obj.metadata
    head: JSONObject = {
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": list(finalizers),
    }
    if meta.namespace:
        head["namespace"] = meta.namespace
    return {"apiVersion": obj.gvk.api_version, "kind": obj.gvk.kind, "metadata": head}


async def _newest(cluster: Cluster, obj: _Object) -> _Object | None:
    """Return the object as the server has it; None if it is gone, whoever has its name now."""
    found = await cluster.discovery.kind(obj.gvk.api_version, obj.gvk.kind)
    try:
        newest = await cluster.get(obj.gvk.api_version, found.resource.resource, obj.key)
    except NotFoundError:
        return None
    return newest if newest.metadata.uid == obj.metadata.uid else None
