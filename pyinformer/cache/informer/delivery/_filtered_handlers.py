"""A handler for objects in a state: added when they enter the state, deleted when they leave it.

The handler gets the events of a cache that has only these objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyinformer._runtime.tasks import check_plain, refuse_awaitable
from pyinformer.cache.informer.delivery._handlers import Handler
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated, V

if TYPE_CHECKING:
    from pyinformer.cache.informer.delivery._handlers import (
        EventFunction,
        ObjectFunction,
        ResourceEventHandler,
        UpdateFunction,
    )


def filtered(
    function: Callable[[KubeObject[V]], bool],
    handler: EventFunction[V] | ResourceEventHandler[V] | None = None,
    *,
    on_add: ObjectFunction[V] | None = None,
    on_update: UpdateFunction[V] | None = None,
    on_delete: ObjectFunction[V] | None = None,
) -> EventFunction[V]:
    """Make an event handler that gets only the objects in a state.

        pods.add_event_handler(filtered(is_ready, on_add=serve, on_delete=drain))

    An update that brings an object into the state becomes an `Added`, and one that takes it out of
    the state a `Deleted`, with the last object that was in the state and with `may_still_exist`. It
    filters the calls of one handler; an informer's `label_selector` also keeps other objects out of
    the cache and the network.

    Args:
        function: `function(obj)`, which returns whether an object is in the state. It is called for
            the old and the new object of an update, on the event loop or in the handler's thread,
            and must depend on the object alone. If it raises, the handler has failed on the event.
        handler: as for `add_event_handler`: one function of an event, or an object with all three
            methods; asynchronous or marked by `in_thread`, if it waits.
        on_add: called with an object that came into the state.
        on_update: called with the old and the new object, both in the state.
        on_delete: called with the last object that was in the state.

    Raises:
        InvalidTypeError: one of them cannot be called, `function` is asynchronous, or there is no
            handler, or more than one.

    Source:
        client-go tools/cache/controller.go, FilteringResourceEventHandler.
    """
    check_plain(function, "filter(obj)", 1)
    checked = Handler.of(handler, on_add=on_add, on_update=on_update, on_delete=on_delete)
    call = checked.call

    def is_in(obj: KubeObject[V]) -> bool:
        found: object = function(obj)
        refuse_awaitable(found, "filter")
        return bool(found)

    def call_filtered(event: Event[V]) -> object:
        if not isinstance(event, Updated):
            obj = event.object if isinstance(event, Added) else event.last_known
            return call(event) if is_in(obj) else None
        was, now = is_in(event.old), is_in(event.new)
        if now:
            return call(event if was else Added(event.new))
        return call(Deleted(event.old, may_still_exist=True)) if was else None

    # Its name in logs is that of the handler; a name is shown without this module.
    call_filtered.__module__, call_filtered.__qualname__ = "__main__", checked.name
    return call_filtered
