"""What a delta means to a consumer that knows an older state.

The events of a key alternate: added, any number of updates, deleted. Pure: the caller stores.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterator, Mapping

from typing_extensions import TypeVar

from pyinformer.cache.deltas._delta import Delta, DeltaType, KnownObjects, last_state
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated

V = TypeVar("V", default=None)


def events_of(
    delta: Delta[V],
    known: KnownObjects[V],
    *,
    may_still_exist: bool = False,
    may_go_back: bool = False,
) -> Iterator[Event[V]]:
    """Yield the events by which a delta changes the known objects, in the order to deliver them.

    Apply each event to `known` before the next one is taken, or all of them afterwards: both give
    the same events, as long as nothing else changes `known` meanwhile.

    Args:
        delta: what was popped. Of a list, deletions come first, then its objects in order; an
            unchanged object gives no event.
        known: the state before the delta.
        may_still_exist: deleted objects may exist and no longer match a selector.
        may_go_back: the delta is of a list that begins a new epoch of the server's history: its
            updates may go back in time, and one version may have two contents.

    Yields:
        A recreated object is a deletion and an addition; a sync is an update to itself; a deletion
        of an unknown object, and a bookmark, give no event.

    Source:
        client-go tools/cache/controller.go, processDeltas.
    """
    match delta.type:
        case DeltaType.BOOKMARK:
            return
        case DeltaType.DELETED:
            yield from _deletion(delta, known, may_still_exist=may_still_exist)
        case DeltaType.SYNC_ALL:
            yield from _sync_of_all(known)
        case DeltaType.REPLACED_ALL:
            events = differences(
                known,
                delta.objects,
                is_in_initial_list=delta.is_in_initial_list,
                may_still_exist=may_still_exist,
                may_go_back=may_go_back,
            )
            yield from (event for event in events if event is not None)
        case _:
            if isinstance(delta.object, KubeObject):
                yield from _change(
                    known.get(delta.key),
                    delta.object,
                    is_in_initial_list=delta.is_in_initial_list,
                    is_resync=delta.type is DeltaType.SYNC,
                    may_go_back=may_go_back,
                )


def differences(
    before: KnownObjects[V],
    after: Mapping[str, KubeObject[V]],
    *,
    is_in_initial_list: bool = False,
    may_still_exist: bool = False,
    may_go_back: bool = False,
) -> Iterator[Event[V] | None]:
    """Yield the events between two states, deletions first, and None for each unchanged object.

    Args:
        before: the known objects. They may be changed by each event before the next one is taken.
        after: what a list shows, by key.
        is_in_initial_list: what additions say of themselves.
        may_still_exist: deleted objects may exist and no longer match a selector.
        may_go_back: the list begins a new epoch of the server's history.
    """
    for key in tuple(before.keys()):
        old = None if key in after else before.get(key)
        yield (
            None
            if old is None
            else Deleted(old, final_state_unknown=True, may_still_exist=may_still_exist)
        )
    for key, new in after.items():
        old = before.get(key)
        if old is new:  # nearly all of a list that is read again
            yield None
        elif events := _change(
            old, new, is_in_initial_list=is_in_initial_list, may_go_back=may_go_back
        ):
            yield from events
        else:
            yield None


def _change(
    old: KubeObject[V] | None,
    new: KubeObject[V],
    *,
    is_in_initial_list: bool,
    is_resync: bool = False,
    may_go_back: bool = False,
) -> tuple[Event[V], ...]:
    if old is None:
        return (Added(new, is_in_initial_list),)
    if old.metadata.uid != new.metadata.uid:
        return Deleted(old, final_state_unknown=True), Added(new, is_in_initial_list)
    if not _is_same_version(old, new):
        return (Updated(old, new, may_go_back=may_go_back),)
    if old is not new and not old.same_content(new):  # a version may name two states
        has_two_states = bool(new.metadata.resource_version)
        return (Updated(old, new, may_go_back=may_go_back or has_two_states),)
    return (Updated(old, old, is_resync=True),) if is_resync else ()


def _is_same_version(old: KubeObject[V], new: KubeObject[V]) -> bool:
    return old.metadata.resource_version == new.metadata.resource_version


def _deletion(
    delta: Delta[V], known: KnownObjects[V], *, may_still_exist: bool
) -> Iterator[Event[V]]:
    old = known.get(delta.key)
    if old is None:
        return
    is_final = isinstance(delta.object, KubeObject)
    last = last_state(delta)
    if last is None or last.metadata.uid != old.metadata.uid:
        # Handlers receive the deletion of the uid they know, whose own event was missed.
        last, is_final = old, False
    yield Deleted(last, final_state_unknown=not is_final, may_still_exist=may_still_exist)


def _sync_of_all(known: KnownObjects[V]) -> Iterator[Event[V]]:
    for key in tuple(known.keys()):
        old = known.get(key)
        if old is not None:
            yield Updated(old, old, is_resync=True)
