"""The registration of one reconcile function: its resource, and the sources of its requests.

Arguments are checked when the decorator is called, so the traceback shows the user's line.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final

from pyinformer._runtime.tasks import check_plain, is_asynchronous, name_of
from pyinformer.blocking import BlockingCluster
from pyinformer.cache.informer import Scope
from pyinformer.client.cluster import Cluster, writing_as
from pyinformer.controller import ControllerOptions, Result
from pyinformer.controller.sources import PredicateFunction, Request
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, ModelMismatchError
from pyinformer.objects import (
    GroupVersionResource,
    KubeObject,
    Selector,
    UidRange,
    check_integer,
    check_model,
    decode_model,
    is_built_in_cluster_scoped,
)
from pyinformer.operator._custom_resource import CustomResource, declared_resource
from pyinformer.operator._daemons import Daemons, DaemonTerms, DecodedObjects
from pyinformer.operator._declarations import Owns, Watches, scope_of
from pyinformer.operator._declared_caches import Declaration
from pyinformer.operator._functions_with_cluster import (
    ClusterFunction,
    arguments_of,
    check_cluster_function,
    shown_as,
)
from pyinformer.operator._status_fields import status_fields_of
from pyinformer.operator._timers import TimedReconcile

if TYPE_CHECKING:  # loaded by the operators that have them
    from pyinformer.children import Children, ChildSets

M = TypeVar("M")

_PACKAGE: Final = __name__.partition(".")[0]
_ARGUMENTS: Final = 3
_THIRD: Final = 2  # the place of the cluster, or of the children, among the arguments
_CLUSTERS: Final = frozenset({"Cluster", "BlockingCluster"})

ReconcileFunction: TypeAlias = (
    Callable[[Request, M | None, Cluster], Awaitable[Result | None]]
    | Callable[[Request, M | None, BlockingCluster], Result | None]
    | Callable[[Request, M, "Children"], Awaitable[Result | None]]
)
"""A user's reconcile: it gets the request, the object or None if it is gone, and the cluster. A
plain function runs in a thread, and gets the blocking face of the cluster. One whose third argument
is called `children` gets them in place of the cluster, and is called for objects that are there."""

CleanupFunction: TypeAlias = (
    Callable[[Request, M, Cluster], Awaitable[Result | None]]
    | Callable[[Request, M, BlockingCluster], Result | None]
)
"""Called for an object that is being deleted, before its children are deleted."""

_Report: TypeAlias = Callable[
    [Request, KubeObject | None, ModelMismatchError], Awaitable[Result | None]
]

UnreadableFunction: TypeAlias = (
    Callable[[Request, KubeObject, Cluster, ModelMismatchError], Awaitable[Result | None]]
    | Callable[[Request, KubeObject, BlockingCluster, ModelMismatchError], Result | None]
)
"""Called in place of a reconcile for an object that does not fit the model."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """One registered reconcile function."""

    name: str
    resource: GroupVersionResource
    function: ReconcileFunction[Any]
    model: type | None
    owns: tuple[Owns[Any], ...]
    watches: tuple[Watches[Any], ...]
    label_selector: Selector
    field_selector: Selector
    predicate: PredicateFunction[None] | None
    workers: int
    options: ControllerOptions
    decoded: DecodedObjects
    on_unreadable: UnreadableFunction | None = None
    cleanup: CleanupFunction[Any] | None = None
    every_seconds: float | None = None
    uid_range: UidRange | None = None
    daemon: DaemonTerms | None = None

    @property
    def scope(self) -> Scope:
        """The resource, the selectors and the share of its objects, without namespaces."""
        resource, labels, fields = self.resource, self.label_selector, self.field_selector
        scope = Scope.of(resource.api_version, resource.resource, None, labels, fields)
        return replace(scope, uid_range=self.uid_range)

    @property
    def declarations(self) -> Iterator[Declaration]:
        """The caches that it needs."""
        yield Declaration(f"reconcile of {self.name!r}", self.scope, is_reconciled=True)
        for argument, records in (("owns", self.owns), ("watches", self.watches)):
            by = f"{argument}= of {self.name!r}"
            for one in records:
                yield Declaration(by, scope_of(one), one.model, one.memory)

    @property
    def custom_resource(self) -> CustomResource | None:
        """The model's declaration, or one made from its use here; None for built-in resources."""
        if self.model is None:
            return None
        declared = declared_resource(self.model)
        group = self.resource.group
        if declared is not None or "." not in group or group.endswith(".k8s.io"):
            return declared
        return CustomResource(resource=self.resource, kind=self.model.__name__)

    @property
    def status_fields(self) -> frozenset[str]:
        """Which fields by convention the status of the model has: conditions and more."""
        return frozenset() if self.model is None else status_fields_of(self.model)

    @property
    def writes_ready(self) -> bool:
        """Whether its objects get a condition Ready from their children."""
        return self.takes_children and "conditions" in self.status_fields

    @property
    def takes_children(self) -> bool:
        """Whether the function gets Children in place of the cluster."""
        return self.daemon is None and takes_children(self.function)

    def bound_to(
        self, cluster: Cluster, *, field_manager: str, sets: ChildSets | None = None
    ) -> TimedReconcile:
        """Return the function for a Controller, async or plain as the registered one.

        Args:
            cluster: its cluster.
            field_manager: the owner of the fields that it writes.
            sets: of a function with children.
        """
        function: Callable[[Request, Any, Any], Any] = self.function
        unreadable = self.on_unreadable
        calling = ClusterFunction(function, cluster, field_manager=field_manager)
        calling_unreadable = ClusterFunction(
            unreadable or function, cluster, field_manager=field_manager
        )

        async def report(
            request: Request, obj: KubeObject | None, mismatch: ModelMismatchError
        ) -> Result | None:
            """Call the hook for an object that does not fit the model, or raise."""
            if unreadable is None or obj is None:
                raise mismatch
            return await calling_unreadable(
                lambda given_cluster: unreadable(request, obj, given_cluster, mismatch)
            )

        @shown_as(function)
        async def reconcile(request: Request, obj: KubeObject | None) -> Result | None:
            """Call the function with the model."""
            try:
                given = self._decode(obj)
            except ModelMismatchError as error:
                return await report(request, obj, error)
            with self._remembered(given, obj):
                return await calling(lambda given_cluster: function(request, given, given_cluster))

        if sets is None:
            return reconcile
        return self._with_children(sets, calling, report, cluster, field_manager=field_manager)

    def _with_children(
        self,
        sets: ChildSets,
        calling: ClusterFunction,
        report: _Report,
        cluster: Cluster,
        *,
        field_manager: str,
    ) -> TimedReconcile:
        """Return the function for a Controller, which gets children in place of the cluster.

        Args:
            sets: of the function.
            calling: calls it.
            report: is called for an object that does not fit the model.
            cluster: its cluster.
            field_manager: the owner of the fields that it writes.
        """
        function: Callable[[Request, Any, Any], Any] = self.function
        has_cleanup = self.cleanup is not None
        clean_up: Callable[[Request, Any, Any], Any] = self.cleanup or function
        cleaning = ClusterFunction(clean_up, cluster, field_manager=field_manager)

        @shown_as(function)
        async def with_children(request: Request, obj: KubeObject | None) -> Result | None:
            """Call the function with the model and its children, if the object is there."""
            with writing_as(field_manager):
                is_going = obj is None or bool(obj.metadata.deletion_timestamp)
                if obj is None or (is_going and not (has_cleanup and sets.keeps(obj))):
                    return await sets.end(request.key, obj)
                try:
                    given = self._decode(obj)
                except ModelMismatchError as error:
                    if not is_going and self.on_unreadable is None:
                        await sets.explain_unreadable(obj, error)
                    return await report(request, obj, error)
                with self._remembered(given, obj):
                    if is_going:
                        return await sets.end(
                            request.key,
                            obj,
                            lambda: cleaning(lambda its: clean_up(request, given, its)),
                        )
                    return await sets.reconcile(
                        obj, lambda children: calling(lambda _: function(request, given, children))
                    )

        return with_children

    def daemons(self, cluster: Cluster, *, field_manager: str) -> Daemons | None:
        """Return what runs the function as a daemon of each object; None for a reconcile."""
        if self.daemon is None:
            return None
        function: Any = self.function
        return Daemons(
            function,
            self.daemon,
            model=self.model,
            decoded=self.decoded,
            cluster=cluster,
            field_manager=field_manager,
        )

    def waits_for_event(self, obj: KubeObject | None) -> bool:
        """Return whether an object does not fit the model, and no hook is called for it."""
        if self.on_unreadable is not None:
            return False
        try:
            self._decode(obj)
        except ModelMismatchError:
            return True
        return False

    def _decode(self, obj: KubeObject | None) -> object:
        """Return the function's argument: a model, the object, or None."""
        return obj if obj is None or self.model is None else decode_model(obj, self.model)

    @contextmanager
    def _remembered(self, given: object, obj: KubeObject | None) -> Iterator[None]:
        """Remember during a call which object a model was decoded from."""
        if obj is None or given is obj:
            yield
            return
        self.decoded[id(given)] = (given, obj)
        try:
            yield
        finally:
            del self.decoded[id(given)]


def is_cluster_scoped(resource: GroupVersionResource, reconcilers: Iterable[Reconciler]) -> bool:
    """Return whether a resource is known without discovery to be in no namespace.

    Args:
        resource: one of Kubernetes itself, or of a model that declares its scope.
        reconcilers: have the models.
    """
    declared = (each.custom_resource for each in reconcilers)
    if any(one and one.resource == resource and one.scope == "Cluster" for one in declared):
        return True
    return is_built_in_cluster_scoped(resource)


def takes_children(function: object) -> bool:
    """Return whether the third argument of a function is called `children`."""
    third = _third_argument(function)
    return third is not None and third.name == "children"


def _third_argument(function: object) -> inspect.Parameter | None:
    given = arguments_of(function, _ARGUMENTS)
    return given[_THIRD] if len(given) > _THIRD else None


def _annotation(argument: inspect.Parameter, function: object) -> str:
    """Return the last word of an annotation, be it a class or a text; empty for a user's class."""
    found = argument.annotation
    if isinstance(found, str):
        text = found.strip("\"'")  # what is imported for types alone is known by its name
        found = getattr(inspect.unwrap(function), "__globals__", {}).get(text, text)  # type: ignore[arg-type]  # callable
    if isinstance(found, type):
        return found.__name__ if found.__module__.partition(".")[0] == _PACKAGE else ""
    return str(found).rpartition(".")[2]


def check_function(function: object) -> None:
    """Refuse a function that cannot be called as a reconcile.

    Raises:
        InvalidTypeError: with its name.
    """
    check_cluster_function(function, "reconcile(request, object, cluster)", _ARGUMENTS)
    third, gets_children = _third_argument(function), takes_children(function)
    for number, one in enumerate(arguments_of(function, _ARGUMENTS)):
        if _annotation(one, function) == "Children" and not (gets_children and number == _THIRD):
            reason = (
                f"{name_of(function)} gets Children if its third argument is called `children`;"
                f" `{one.name}` would be something else"
            )
            raise InvalidTypeError("function", reason)
    if gets_children and third and _annotation(third, function) in _CLUSTERS:
        reason = (
            f"{name_of(function)} gets Children as its third argument, since that is called"
            " `children`: call it `cluster` for the cluster"
        )
        raise InvalidTypeError("function", reason)
    if gets_children and not is_asynchronous(function):
        reason = f"{name_of(function)} waits for its children, so that it must be `async def`"
        raise InvalidTypeError("function", reason)


def check_cleanup(cleanup: CleanupFunction[Any] | None, function: object) -> None:
    """Refuse a function that cannot be called as `cleanup`.

    Args:
        cleanup: the function; None for none.
        function: the reconcile function.

    Raises:
        InvalidArgumentError: the reconcile function does not have children.
        InvalidTypeError: with its name.
    """
    if cleanup is None:
        return
    if not takes_children(function):
        reason = (
            f"is for functions whose third argument is called `children`; {name_of(function)} gets"
            " objects that are being deleted itself: use pyinformer.controller.finalizer in it"
        )
        raise InvalidArgumentError("cleanup", reason)
    check_cluster_function(cleanup, "cleanup(request, object, cluster)", 3)
    if takes_children(cleanup):
        raise InvalidTypeError("cleanup", f"{name_of(cleanup)} gets the cluster, and no children")


def check_unreadable(hook: UnreadableFunction | None, model: type | None) -> None:
    """Refuse a function that cannot be called as `on_unreadable`.

    Raises:
        InvalidArgumentError: there is no model.
        InvalidTypeError: with its name.
    """
    if hook is None:
        return
    if model is None:
        raise InvalidArgumentError("on_unreadable", "needs a model=, which an object may not fit")
    check_cluster_function(hook, "on_unreadable(request, object, cluster, error)", 4)


def checked_model(model: type | None, resource: GroupVersionResource) -> type | None:
    """Refuse a class that is not a model, or a model of another resource.

    Raises:
        InvalidTypeError: an object cannot be decoded into it.
        InvalidArgumentError: it was declared for another resource.
    """
    if model is None:
        return None
    check_model(model)
    declared = declared_resource(model)
    if declared is not None and declared.resource != resource:
        reason = f"{model.__name__} is declared as {declared.resource}, not as {resource}"
        raise InvalidArgumentError("model", reason)
    return model


def check_selectors(resource: GroupVersionResource, labels: Selector, fields: Selector) -> None:
    """Refuse selectors now that an informer would refuse when the operator starts.

    Raises:
        InvalidSelectorError: one of them cannot be parsed.
    """
    Scope.of(resource.api_version, resource.resource, None, labels, fields)


def check_terms(
    workers: int,
    predicate: PredicateFunction[None] | None,
    options: ControllerOptions | None,
) -> None:
    """Refuse arguments now that a controller would refuse when the operator starts.

    Raises:
        InvalidArgumentError: one of them is invalid.
        InvalidTypeError: the predicate cannot be called with two states.
    """
    check_integer("workers", workers)
    if options is not None and not isinstance(options, ControllerOptions):
        reason = f"must be a ControllerOptions, not {type(options).__name__}"
        raise InvalidArgumentError("options", reason)
    if predicate is not None:
        check_plain(predicate, "predicate(old, new)", 2)
