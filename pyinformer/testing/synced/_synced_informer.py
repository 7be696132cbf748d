"""An informer that has synced, without a server and without an event loop.

Its lister and indexes are those of production. A test changes the cached objects by synchronous
calls, which call the handlers in order, after the cache has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from pyinformer.apimachinery import (
    Added,
    Deleted,
    Event,
    FieldSelector,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    LabelSelector,
    ObjectCodec,
    Transform,
    Updated,
    V,
    check_iterable,
    is_view,
)
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidObjectError,
    LifecycleError,
    ObjectNotFoundError,
)
from pyinformer.informer import Handler, InformerStatus, Registration, SharedInformer
from pyinformer.reflector import ReflectorState
from pyinformer.store import Indexer, IndexFunction, Lister
from pyinformer.tasks import LogExceptions
from pyinformer.testing.apiserver.resources import BUILT_IN, ResourceType
from pyinformer.testing.synced._call_now import call_now
from pyinformer.testing.synced._completed import completed
from pyinformer.testing.synced._coverage import Coverage, selecting_fields
from pyinformer.testing.synced._offline_connection import offline_cluster

if TYPE_CHECKING:
    from pyinformer.apimachinery import Selector
    from pyinformer.informer import (
        EventFunction,
        Memory,
        ObjectFunction,
        ResourceEventHandler,
        UpdateFunction,
    )


class SyncedInformer(SharedInformer[V]):  # type: ignore[misc]  # final for others: this is its double
    """A SharedInformer that a test fills itself; created by `synced_informer`.

    Lister, indexes and handlers are those of production. `start()` and `wait_for_cache_sync()`
    return at once. Methods that wait for events (`events`, `wait_for`, `wait_until`) and writes
    need a server or a World.
    """

    def __init__(
        self,
        api_version: str,
        plural: str,
        *,
        namespaced: bool | None,
        namespaces: str | Sequence[str] | None,
        label_selector: Selector | LabelSelector,
        field_selector: Selector | FieldSelector,
        model: type[V] | None,
        memory: Memory,
        transform: Transform | None,
    ) -> None:
        super().__init__(
            offline_cluster(),
            api_version,
            plural,
            namespaces=namespaces,
            label_selector=label_selector,
            field_selector=field_selector,
            model=model,
            memory=memory,
            transform=transform,
        )
        given = [namespaces] if isinstance(namespaces, str) else namespaces
        resource = GroupVersionResource.of(api_version, plural)
        self._known = next(
            (one for one in BUILT_IN if (one.api_version, one.plural) == (api_version, plural)),
            None,
        )
        self._completed = partial(
            completed,
            resource=resource,
            kind="" if self._known is None else self._known.kind,
            namespaced=_is_namespaced(self._known) if namespaced is None else namespaced,
        )
        self._codec: ObjectCodec[V] = ObjectCodec(
            resource,
            view=model,
            strip_managed_fields=memory != "raw",
            compact=memory == "compact",
            transform=transform,
            metadata_only=memory == "metadata",
        )
        self._selects_fields = selecting_fields(resource, self._known, self.scope.field_selector)
        self._coverage = Coverage(None if given is None else frozenset(given), str(resource))
        self._held: Indexer[V] = Indexer(cast("type[V]", model) if is_view(model) else None)
        self._called: list[tuple[Registration[V], Handler[V]]] = []
        self._version = 0
        self.lister: Lister[V] = Lister(
            self._held, resource=str(resource), readiness=self._coverage
        )

    @property
    def has_synced(self) -> bool:
        """Always true: the cache is complete."""
        return True

    @property
    def state(self) -> ReflectorState:
        """Always `watching`."""
        return ReflectorState.WATCHING

    @property
    def staleness(self) -> str:
        """Always empty: without a server nothing can be stale."""
        return ""

    def add_index(self, name: str, by: str | IndexFunction) -> None:
        """Add an index to the cache, as to any informer.

        Raises:
            InvalidArgumentError: the name is taken.
            InvalidArgumentError: the path cannot be parsed.
        """
        self._held.add_index(name, by)

    def add_event_handler(
        self,
        handler: EventFunction[V] | ResourceEventHandler[V] | None = None,
        *,
        on_add: ObjectFunction[V] | None = None,
        on_update: UpdateFunction[V] | None = None,
        on_delete: ObjectFunction[V] | None = None,
        name: str | None = None,
        mailbox_size: int = 1024,
        resync_period_seconds: float = 0.0,
        log_exceptions: LogExceptions = "classes",
    ) -> Registration[V]:
        """Call a handler with every cached object before this returns, then with every change.

        Options of mailboxes and resyncs are checked, but have no effect: `apply` and `delete` call
        the handler directly, and raise what it raises.

        Raises:
            InvalidTypeError: it cannot be called.
            InvalidArgumentError: a number is negative.
            LifecycleError: it is asynchronous, and an event loop runs in this thread.
        """
        registration = super().add_event_handler(
            handler,
            on_add=on_add,
            on_update=on_update,
            on_delete=on_delete,
            name=name,
            mailbox_size=mailbox_size,
            resync_period_seconds=resync_period_seconds,
            log_exceptions=log_exceptions,
        )
        checked: Handler[V] = Handler.of(
            handler, on_add=on_add, on_update=on_update, on_delete=on_delete, name=name
        )
        for obj in self._held.list():
            call_now(checked, Added(obj, is_in_initial_list=True))
        self._called.append((registration, checked))
        return registration

    async def remove_event_handler(
        self, registration: Registration[V], *, grace_seconds: float = 5.0
    ) -> None:
        """Stop calling a handler.

        Raises:
            InvalidArgumentError: the registration is another informer's, or the grace is negative.

        Cancellation:
            Takes effect when the handler is removed.
        """
        await super().remove_event_handler(registration, grace_seconds=grace_seconds)
        self._called = [one for one in self._called if one[0] is not registration]

    def apply(self, obj: JSONObject) -> KubeObject[V]:
        """Add or change an object, as if the server had sent it, and call the handlers.

        Args:
            obj: an object with a name. Missing apiVersion, kind, namespace, uid, resourceVersion
                and creationTimestamp are set; the dict is not changed. An object with another uid
                than the cached one replaces it: handlers get a deletion and an addition.

        Returns:
            The object in its cached form, even if the selectors exclude it.

        Raises:
            InvalidArgumentError: it is not an object of this resource.
            InvalidObjectError: it cannot be decoded, or does not fit the view.
            Exception: what a handler raises; later handlers are not called.
        """
        self._version += 1
        body = self._completed(obj, version=str(self._version))
        new = self._decoded(body)
        key = str(new.key)
        old = self._held.get(key)
        is_selected = self._selects(new) and self._selects_fields(body)
        if old is not None and (not is_selected or old.metadata.uid != new.metadata.uid):
            self._call_handlers(Deleted(old, may_still_exist=not is_selected))
            old = None
        if is_selected:
            self._call_handlers(Added(new) if old is None else Updated(old, new))
        return new

    def delete(self, key: str) -> KubeObject[V]:
        """Remove an object, as if the server had deleted it, and call the handlers.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            The last cached object.

        Raises:
            ObjectNotFoundError: no object is cached under this key.
            Exception: what a handler raises; later handlers are not called.
        """
        old = self._held.get(key)
        if old is None:
            raise ObjectNotFoundError(resource=str(self.scope.resource), key=key)
        self._call_handlers(Deleted(old))
        return old

    def status(self, *, with_journal: bool = False) -> InformerStatus:
        """Return its status, in which it is always watching."""
        found = super().status(with_journal=with_journal)
        facts = replace(found.reflector, state=self.state)
        return replace(
            found,
            has_synced=True,
            state=self.state,
            objects=len(self._held.list()),
            reflector=facts,
        )

    async def set_namespaces(self, namespaces: Iterable[str]) -> None:
        """Refuse to change the namespaces.

        Raises:
            LifecycleError: always.

        Cancellation:
            It never waits.
        """
        raise LifecycleError("the namespaces of a synced_informer() cannot change: use a World")

    async def start(self) -> None:
        """Do nothing: there is no server to list and watch.

        Cancellation:
            It never waits.
        """

    async def wait_for_cache_sync(
        self, *, timeout_seconds: float = 30.0, fail_fast: bool = False
    ) -> None:
        """Return at once: the cache is complete.

        Cancellation:
            It never waits.
        """

    def __repr__(self) -> str:
        return f"<SyncedInformer of {self.name}>"

    def _selects(self, obj: KubeObject[V]) -> bool:
        is_there = self._coverage.covers(obj.metadata.namespace)
        return is_there and self.scope.label_selector.matches(obj.metadata.labels)

    def _call_handlers(self, event: Event[V]) -> None:
        if isinstance(event, Updated):
            self._held.update_nowait(event.old, event.new)
        else:
            self._held.apply_nowait(event)
        for _, handler in self._called:
            call_now(handler, event)

    def _decoded(self, body: JSONObject) -> KubeObject[V]:
        raw = msgspec.json.encode(body)
        decoded = self._codec.decode(raw, 0, len(raw))
        if decoded.problem:
            raise InvalidObjectError(f"{self.scope.resource} {decoded.key}", decoded.problem)
        return decoded


def _is_namespaced(known: ResourceType | None) -> bool:
    return known is None or known.namespaced


def synced_informer(
    api_version: str,
    plural: str,
    objects: Iterable[JSONObject] = (),
    *,
    model: type[V] | None = None,
    namespaces: str | Sequence[str] | None = None,
    label_selector: Selector | LabelSelector = None,
    field_selector: Selector | FieldSelector = None,
    memory: Memory = "strip_managed_fields",
    namespaced: bool | None = None,
    transform: Transform | None = None,
) -> SyncedInformer[V]:
    """Return an informer that has synced with these objects, without a server and without a loop.

        def test_pods_of_a_node() -> None:
            pods = synced_informer("v1", "pods", [pod("a", node="n1"), pod("b", node="n2")])
            pods.add_index("node", "spec.nodeName")
            assert names(pods.lister.by_index("node", "n1")) == ["a"]
            pods.delete("default/a")
            assert not pods.lister.by_index("node", "n1")

    Args:
        api_version: `v1`, or `group/version`.
        plural: the resource's plural name.
        objects: the cached objects; see `SyncedInformer.apply`. Their uids follow from their names:
            those of the same name in two informers are equal, unless one gets another uid.
        model: what the `view` of each object is.
        namespaces: as for an informer; objects in other namespaces are left out.
        label_selector: as for an informer; other objects are left out.
        field_selector: as for an informer; other objects are left out.
        memory: as for an informer: `metadata` keeps no bodies.
        namespaced: whether objects without a namespace are put into `default`; None decides by the
            built-in resources, and is True for others.
        transform: a function that changes each object before it is cached.

    Raises:
        InvalidArgumentError: an argument is invalid, or an object is not of this resource.
        InvalidObjectError: an object cannot be decoded, or does not fit the view.
        InvalidSelectorError: a selector cannot be parsed.
    """
    informer: SyncedInformer[V] = SyncedInformer(
        api_version,
        plural,
        namespaced=namespaced,
        namespaces=namespaces,
        label_selector=label_selector,
        field_selector=field_selector,
        model=model,
        memory=memory,
        transform=transform,
    )
    if isinstance(objects, str | dict):
        reason = f"is a list of objects: [{{...}}], not a {type(objects).__name__}"
        raise InvalidArgumentError("objects", reason)
    check_iterable("objects", objects, shown="a list of objects")
    for obj in objects:
        informer.apply(obj)
    return informer
