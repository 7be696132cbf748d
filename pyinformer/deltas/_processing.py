"""What a delta means to a consumer that knows an older state.

The events of a key alternate: added, any number of updates, deleted. Pure: the caller stores.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import TypeVar

from pyinformer.apimachinery import Added, Deleted, Event, KubeObject, Updated, View
from pyinformer.deltas._delta import Delta, DeltaType, KnownObjects, last_state

V = TypeVar("V", bound=View | None, default=None)


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
            yield from _difference(
                delta, known, may_still_exist=may_still_exist, may_go_back=may_go_back
            )
        case _:
            if isinstance(delta.object, KubeObject):
                yield from _change(
                    known.get(delta.key),
                    delta.object,
                    is_in_initial_list=delta.is_in_initial_list,
                    is_resync=delta.type is DeltaType.SYNC,
                    may_go_back=may_go_back,
                )


def _change(
    old: KubeObject[V] | None,
    new: KubeObject[V],
    *,
    is_in_initial_list: bool,
    is_resync: bool = False,
    may_go_back: bool = False,
) -> Iterator[Event[V]]:
    if old is None:
        yield Added(new, is_in_initial_list)
    elif old.metadata.uid != new.metadata.uid:
        yield Deleted(old, final_state_unknown=True)
        yield Added(new, is_in_initial_list)
    elif not _is_same_version(old, new):
        yield Updated(old, new, may_go_back=may_go_back)
    elif old is not new and not old.same_content(new):  # a version may name two states
        yield Updated(old, new, may_go_back=may_go_back or bool(new.metadata.resource_version))
    elif is_resync:
        yield Updated(old, old, is_resync=True)


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


def _difference(
    delta: Delta[V], known: KnownObjects[V], *, may_still_exist: bool, may_go_back: bool
) -> Iterator[Event[V]]:
    for key in tuple(known.keys()):
        old = None if key in delta.objects else known.get(key)
        if old is not None:
            yield Deleted(old, final_state_unknown=True, may_still_exist=may_still_exist)
    for key, new in delta.objects.items():
        yield from _change(
            known.get(key),
            new,
            is_in_initial_list=delta.is_in_initial_list,
            may_go_back=may_go_back,
        )
