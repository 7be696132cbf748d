"""Finalizers: an object that is deleted stays until its controller has cleaned up.

Every write carries the resource version that it was decided on, so the finalizers of other
controllers are never lost; after a conflict it is decided again, on the server's newest state.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias, final

from pyinformer._runtime.tasks import checked_by
from pyinformer.client.cluster import Cluster, check_cluster, head_of, state_of
from pyinformer.errors import ConflictError, InvalidArgumentError, InvalidTypeError, NotFoundError
from pyinformer.objects import JSONObject, KubeObject, ObjectMeta

FinalizerPhase: TypeAlias = Literal["active", "deleting", "gone"]
"""`active`: it is not deleted and has the finalizer. `deleting`: it waits for this controller to
clean up. `gone`: nothing is left to do here; it may still wait for other controllers."""

_Object: TypeAlias = KubeObject[object]
_Decision: TypeAlias = Callable[[ObjectMeta], list[str] | None]
"""Returns the desired finalizers; None if they need no change."""

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(
    rf"(?![^/]{{254}})({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)
"""A qualified name, for which a domain is not required: public operators have such finalizers."""
_ATTEMPTS: Final = 5  # each on the server's newest state; then the reconcile is retried


@final
class FinalizerContext:
    """An object with a finalizer, inside the block of `finalizer`."""

    def __init__(self, obj: _Object | None, name: str) -> None:
        self.object: _Object | None = obj
        """The newest known version; None once it is gone."""
        self.is_kept: bool = False
        """Whether the finalizer stays after the block although nothing was raised."""
        self.is_released: bool = False
        """Whether the finalizer is removed after the block although the object is not deleted."""
        self._name = name
        self._first = self.phase

    @property
    def phase(self) -> FinalizerPhase:
        """What the block has to do."""
        if self.object is None or self._name not in self.object.metadata.finalizers:
            return "gone"
        return "deleting" if self.object.metadata.deletion_timestamp else "active"

    @property
    def is_over(self) -> bool:
        """Whether the finalizer is removed if the block ends now, without an error."""
        return self.is_released or (self._first == "deleting" and not self.is_kept)

    @property
    def name(self) -> str:
        """The finalizer."""
        return self._name

    def keep(self) -> None:
        """Keep the finalizer after this block: cleaning up continues in a later reconcile."""
        self.is_kept = True
        self.is_released = False

    def release(self) -> None:
        """Remove the finalizer after this block in any phase.

        This is for an object that its controller no longer manages, such as one whose label was
        removed: with the finalizer it could never be deleted. A block that raises removes nothing.
        """
        self.is_released = True
        self.is_kept = False


@checked_by(check_cluster)
@asynccontextmanager
async def finalizer(
    cluster: Cluster, obj: KubeObject[object] | None, name: str, *, add: bool = True
) -> AsyncIterator[FinalizerContext]:
    """Add a finalizer to an object, and remove it when the object is deleted and cleaned up.

        async with finalizer(cluster, database, "acme.io/backups") as held:
            match held.phase:
                case "active":
                    await ensure_backups(database)
                case "deleting":
                    await delete_backups(database)  # may be called again

    The finalizer is added before the block is entered, so everything that the block creates will be
    cleaned up. It is removed when a block in phase `deleting` ends without an error and without
    `held.keep()`. Later reconciles retry both until they succeed; neither is done twice.

    Args:
        cluster: the object's cluster.
        obj: the object as the reconcile got it; None, or an object that is gone by now, is in phase
            `gone`. So is another object that was created under the same name meanwhile.
        name: the finalizer: `acme.io/backups`. The server refuses a new one without a domain and a
            slash, except for custom resources.
        add: False does not add the finalizer; an object without it is in phase `gone`. That is for
            objects that are not managed any more: `held.release()` removes their finalizer.

    Raises:
        InvalidArgumentError: the finalizer's name is invalid.
        InvalidTypeError: `obj` is not a KubeObject; or `cluster` is the cluster of a plain
            function, which calls `pyinformer.blocking.finalizer`.
        ConflictError: other clients changed the object several times meanwhile.
        NotFoundError: the answer does not name the object, which may exist; see `names_object`.
        APIStatusError: the server refused.
        TransportError: the server was not reached; the finalizer may or may not have changed.

    Cancellation:
        Safe; inside the block it counts as an error, and the finalizer stays.
    """
    held = await enter_finalizer(cluster, obj, name, add=add)
    yield held
    await leave_finalizer(cluster, held)


async def enter_finalizer(
    cluster: Cluster, obj: KubeObject[object] | None, name: str, *, add: bool = True
) -> FinalizerContext:
    """Begin a block of `finalizer`, with its arguments.

    Raises:
        InformerError: as `finalizer`.

    Cancellation:
        Safe.
    """
    if obj is not None and not isinstance(obj, KubeObject):
        reason = f"must be the object that a reconcile gets, not {type(obj).__name__}"
        raise InvalidTypeError("obj", reason)
    check_finalizer("name", name)

    def added(meta: ObjectMeta) -> list[str] | None:
        """Add the finalizer, unless the object is being deleted."""
        has_it = name in meta.finalizers or not add
        return None if has_it or meta.deletion_timestamp else [*meta.finalizers, name]

    state_of(cluster).add_finalizer(name)
    return FinalizerContext(await _change(cluster, obj, added), name)


def check_finalizer(argument: str, name: str) -> None:
    """Refuse what cannot be the name of a finalizer.

    Args:
        argument: the name of the argument, for the error.
        name: the finalizer.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reason = f"must be a finalizer's name, such as 'acme.io/backups', got {name!r}"
        raise InvalidArgumentError(argument, reason)


async def leave_finalizer(
    cluster: Cluster, held: FinalizerContext, *, attempts: int = _ATTEMPTS
) -> None:
    """End a block of `finalizer` that has raised nothing.

    Args:
        cluster: the object's cluster.
        held: what `enter_finalizer` has returned.
        attempts: 1 removes nothing from an object that has changed.

    Raises:
        InformerError: as `finalizer`.

    Cancellation:
        Safe; the finalizer may or may not have been removed.
    """

    def removed(meta: ObjectMeta) -> list[str] | None:
        """Remove the finalizer, and no other."""
        others = [each for each in meta.finalizers if each != held.name]
        return None if len(others) == len(meta.finalizers) else others

    if held.is_over:
        held.object = await _change(cluster, held.object, removed, attempts)


async def _change(
    cluster: Cluster, obj: _Object | None, decide: _Decision, most: int = _ATTEMPTS
) -> _Object | None:
    """Write the finalizers that are decided; return the resulting object."""
    attempts = 0
    while obj is not None and (finalizers := decide(obj.metadata)) is not None:
        attempts += 1
        before, edited = _head(obj, obj.metadata.finalizers), _head(obj, finalizers)
        try:
            return await cluster.patch(before, edited, check_version=True)
        except NotFoundError as error:
            if not error.names_object:
                raise  # of a proxy, or the kind is not served now: the object may exist
            return None
        except ConflictError:
            if attempts == most:
                raise
            obj = await _newest(cluster, obj)
    return obj


def _head(obj: _Object, finalizers: Iterable[str]) -> JSONObject:
    """Return the fields that a patch of finalizers needs: whole objects may not be decodable."""
    head = head_of(obj)
    head["metadata"]["finalizers"] = list(finalizers)
    return head


async def _newest(cluster: Cluster, obj: _Object) -> _Object | None:
    """Return the object from the server; None if it is gone, or its name belongs to another."""
    found = await cluster.discovery.kind(obj.gvk.api_version, obj.gvk.kind)
    try:
        newest = await cluster.get(obj.gvk.api_version, found.resource.resource, obj.key)
    except NotFoundError as error:
        if not error.names_object:
            raise
        return None
    return newest if newest.metadata.uid == obj.metadata.uid else None
