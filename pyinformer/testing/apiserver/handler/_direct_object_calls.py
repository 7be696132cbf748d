"""The methods with which a test changes the objects of an embedded server, from any thread.

They bypass HTTP, take and return dicts that the caller owns, and write spec and status together.
Deletions do not wait for a kubelet. Refusals are the typed errors that a client would get.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from pyinformer._runtime.tasks import check_callable
from pyinformer.errors import ConflictError, InvalidArgumentError
from pyinformer.objects import JSONObject, split_api_version
from pyinformer.testing import _wall_clock
from pyinformer.testing._definition_files import API_VERSION, PLURAL, definitions_in
from pyinformer.testing.apiserver.admission import Admission
from pyinformer.testing.apiserver.patches import merge_patch_edit
from pyinformer.testing.apiserver.requests import Failure, WriteParameters, failures
from pyinformer.testing.apiserver.resources import ListShape, Registry, ResourceType, ScalePaths
from pyinformer.testing.apiserver.storage import OnExec, Selection, Storage, key_of
from pyinformer.testing.apiserver.writes import GarbageCollector, Writes

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.operator import Operator

_T = TypeVar("_T")

_WHOLE: Final = WriteParameters(whole=True)


class ObjectTestAPI:
    """Reads and writes the objects of a server directly; base of `APIServer` and `World`."""

    _storage: Storage
    _registry: Registry
    _writes: Writes
    _admission: Admission

    @property
    def resource_version(self) -> str:
        """The resource version of the newest write to any resource."""
        return str(self._storage.revision)

    def register(
        self,
        api_version: str,
        kind: str,
        plural: str,
        *,
        namespaced: bool = True,
        list_shape: ListShape = "custom",
        has_status: bool = False,
        field_labels: tuple[str, ...] = (),
        schema: JSONObject | None = None,
        short_names: tuple[str, ...] = (),
        has_scale: bool = False,
    ) -> None:
        """Serve a resource; creating a CustomResourceDefinition has the same effect.

        Args:
            api_version: `example.com/v1`.
            kind: `Widget`.
            plural: `widgets`.
            namespaced: whether its objects are in namespaces.
            list_shape: "custom" sorts all keys, as for custom resources; "built-in" writes
                metadata first and items without kind and apiVersion.
            has_status: whether clients must write the status through its subresource.
            field_labels: fields that field selectors may name besides name and namespace.
            schema: a structural OpenAPI v3 schema. Fields that it lacks are dropped and server-side
                apply merges lists and maps by it; what clients write must fit it. None keeps all.
            short_names: abbreviations for kubectl and `find_resource`.
            has_scale: whether it has a scale subresource, of `spec.replicas`, `status.replicas`
                and the text in `status.selector`.
        """
        group, version = split_api_version(api_version)
        self._registry.add(
            ResourceType(
                group,
                version,
                kind,
                plural,
                namespaced=namespaced,
                list_shape=list_shape,
                has_status=has_status,
                field_labels=field_labels,
                schema=schema or {},
                short_names=short_names,
                scale=ScalePaths(selector=("status", "selector")) if has_scale else None,
            )
        )

    def install_definitions(self, *paths: str | Path) -> tuple[str, ...]:
        """Serve the custom resources that files define, as `kubectl apply -f` on a real server.

            apiserver.install_definitions("config/crd")

        A definition that exists already is replaced by that of the file.

        Args:
            paths: YAML or JSON files, of several documents perhaps, and folders of such files; see
                `definitions_in`.

        Returns:
            The names of the definitions, such as `databases.acme.io`.

        Raises:
            DefinitionsNotFoundError: a path does not exist, or has no definition.
            InvalidArgumentError: a file cannot be read, or is not YAML.
            APIStatusError: the server refuses a definition.
        """
        resource, _ = self._resource(API_VERSION, PLURAL, None)
        names = []
        for body in definitions_in(*paths):
            name, as_client = str(body["metadata"]["name"]), WriteParameters()  # which is checked
            with _typed(f"install {name}"):
                known = self._storage.get(resource, name)
                if known is None:
                    self._writes.create(resource, "", body, as_client)
                else:
                    version = known.to_dict()["metadata"]["resourceVersion"]
                    body["metadata"] = {**body["metadata"], "resourceVersion": version}
                    self._writes.update(resource, "", name, body, as_client)
            names.append(name)
        return tuple(names)

    def unregister(self, api_version: str, plural: str) -> None:
        """Stop serving a resource, as when its aggregated API server disappears.

        Its watches end, and its objects are kept until it is registered again. Deleting a
        CustomResourceDefinition deletes the objects, too, and sends DELETED to the watches.
        """
        resource, _ = self._resource(api_version, plural, None)
        self._registry.remove(resource)
        with self._storage.lock:
            for subscription in self._storage.subscriptions(resource):
                subscription.end()

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        with contextlib.suppress(ConflictError):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object.

        Args:
            obj: with apiVersion, kind, and a name or generateName. Its uid and creationTimestamp
                are kept, as an old object and an owner need them; but not beside a resourceVersion,
                so that an object that was read and deleted can be created again.
            namespace: the namespace of an object without one; None is "default".

        Returns:
            The stored object.

        Raises:
            APIStatusError: the server refuses it; ConflictError if it exists.
        """
        resource, namespace, body = self._placed(obj, namespace)
        if body["metadata"].pop("resourceVersion", None):
            for made in ("uid", "creationTimestamp"):
                body["metadata"].pop(made, None)
        with _typed(f"create {resource.plural}"):
            return self._carry_out(
                lambda options: self._writes.create(resource, namespace, body, options).to_dict()
            )

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object, its status included.

        Args:
            obj: the new object; a resourceVersion or uid in it is a precondition.

        Returns:
            The stored object; its resource version is the old one if nothing changed.

        Raises:
            APIStatusError: the server refuses it; ConflictError if a precondition fails.
        """
        resource, namespace, body = self._placed(obj, None)
        name = str(body["metadata"].get("name", ""))
        with _typed(f"update {resource.plural}"):
            return self._carry_out(
                lambda options: self._writes.update(
                    resource, namespace, name, body, options
                ).to_dict()
            )

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch to an object, its status included.

        Returns:
            The stored object.

        Raises:
            APIStatusError: the server refuses it.
        """
        resource, namespace = self._resource(api_version, plural, namespace)
        with _typed(f"patch {plural}"):
            edit = merge_patch_edit(changes)
            return self._carry_out(
                lambda options: self._writes.patch(
                    resource, namespace, name, edit, options
                ).to_dict()
            )

    def get(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Return one object.

        Raises:
            NotFoundError: it does not exist.
        """
        resource, namespace = self._resource(api_version, plural, namespace)
        record = self._storage.get(resource, key_of(namespace, name))
        if record is None:
            raise failures.not_found(resource, name).typed(f"get {plural}")
        return record.to_dict()

    def delete(
        self,
        api_version: str,
        plural: str,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> JSONObject:
        """Delete an object, or only mark it if it has finalizers.

        The objects in a deleted namespace stay, unless the server collects garbage.

        Args:
            api_version: `v1` or `apps/v1`.
            plural: `pods`.
            name: its name.
            namespace: None is "default".
            uid: a precondition.
            resource_version: a precondition.

        Returns:
            Its last state.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: a precondition fails.
        """
        resource, namespace = self._resource(api_version, plural, namespace)
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: JSONObject = {"preconditions": preconditions}
        # Only garbage collection empties a namespace and removes its finalizer.
        at_once = resource.qualified_name != "namespaces" or self._storage.on_write is None
        with _typed(f"delete {plural}"):
            return self._carry_out(
                lambda terms: self._writes.delete(
                    resource,
                    namespace,
                    name,
                    options,
                    at_once=at_once,
                    reviewer=terms.reviewer,
                )[0].to_dict()
            )

    def list(
        self,
        api_version: str,
        plural: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[JSONObject]:
        """Return the selected objects in key order; namespace None is all namespaces.

        Raises:
            BadRequestError: a selector cannot be parsed.
        """
        resource, _ = self._resource(api_version, plural, None)
        with _typed(f"list {plural}"):
            selection = Selection(
                resource,
                namespace=namespace or "",
                label_selector=label_selector or "",
                field_selector=field_selector or "",
            )
        records, _ = self._storage.state(resource)
        return [record.to_dict() for record in records if selection.matches(record)]

    def use_hooks(self, app: Operator) -> None:
        """Ask an operator's hooks about what clients write, in this process.

            apiserver.use_hooks(app)
            with pytest.raises(InvalidObjectError, match="cannot be changed"):
                await cluster.patch(database, edited)

        Defaults, refusals, warnings and the conditions in `when` are as on a real server, and what
        the operator itself writes is asked about, too. Conversions are not asked for. The
        operator need not run. If its hooks read caches, call this in the loop where it does.

        Args:
            app: the operator, with all of its hooks.

        Raises:
            InvalidArgumentError: it has no hooks.
            InvalidTypeError: it is not an operator.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        self._use_hooks(app, loop)

    def _use_hooks(self, app: Operator, loop: asyncio.AbstractEventLoop | None) -> None:
        # Late: a test without hooks loads no operator.
        from pyinformer.testing.apiserver.admission.in_process import InProcessHooks

        self._admission.add(InProcessHooks(app, loop))

    def _carry_out(self, write: Callable[[WriteParameters], _T]) -> _T:
        """Carry out a write of the test itself, which is not reviewed."""
        return write(_WHOLE)

    def emit(
        self,
        api_version: str,
        plural: str,
        event_type: str,
        obj: JSONObject,
        namespace: str | None = None,
    ) -> int:
        """Send any event, valid or not, to the open watches of a resource.

        Args:
            api_version: `v1` or `apps/v1`.
            plural: `pods`.
            event_type: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR, or any text.
            obj: the object of the event; nothing is stored.
            namespace: only watches of this namespace and of all namespaces; None is every watch.

        Returns:
            The number of watches that will send it.
        """
        line = msgspec.json.encode({"type": event_type, "object": obj}) + b"\n"
        return self.emit_raw(api_version, plural, line, namespace=namespace)

    def emit_raw(
        self, api_version: str, plural: str, line: bytes, *, namespace: str | None = None
    ) -> int:
        """Send any bytes to the open watches of a resource; otherwise as `emit`."""
        resource, _ = self._resource(api_version, plural, None)
        return self._storage.inject(resource, line, namespace=namespace or "")

    def write_log(
        self, name: str, text: str, namespace: str | None = None, *, container: str | None = None
    ) -> None:
        """Append to the log of a container, as its program does.

        Servers show the logs of pods that have a `spec.nodeName`.

        Args:
            name: the pod.
            text: what to append; a line ends with a line feed.
            namespace: None is "default".
            container: the container; None is the first one of the pod.

        Raises:
            NotFoundError: the pod does not exist.
        """
        uid, container = self._container(name, namespace, container)
        self._writes.logs.of(uid, container).write(text.encode(), _wall_clock.timestamp())

    def restart_container(
        self, name: str, namespace: str | None = None, *, container: str | None = None
    ) -> None:
        """End the log of a container, which becomes the previous one; requests that follow it end.

        Raises:
            NotFoundError: the pod does not exist.
        """
        self._writes.logs.restart(*self._container(name, namespace, container))

    def on_exec(self, function: OnExec | None) -> None:
        """Let a function run the commands that clients run in containers, from now on.

            world.on_exec(lambda call: f"{call.command[0]} is running")

        The pod must have a `spec.nodeName`, as on a server.

        Args:
            function: gets an ExecCall, and returns an ExecResult, or the standard output of a
                command whose exit code is 0. It may be asynchronous, and runs in the loop of the
                server, so a plain one must return soon. What it raises is a command that was not
                started: an APIStatusError with its status, anything else with 500. None refuses all
                commands with 500, as at first.
        """
        if function is not None:
            check_callable(function, "function(call)", 1)
        self._writes.commands.function = function

    def _container(
        self, name: str, namespace: str | None, container: str | None
    ) -> tuple[str, str]:
        """Return the uid of a pod and the name of one of its containers."""
        pod = self.get("v1", "pods", name, namespace)
        first = ((pod.get("spec") or {}).get("containers") or [{}])[0]
        return str(pod["metadata"]["uid"]), container or str(first.get("name", ""))

    def collect_garbage(self) -> int:
        """Do all work of a cluster's garbage collector and namespace controller now.

        Objects whose owners are all gone are deleted, and so are their dependents. An object that
        is deleted with `propagationPolicy` Foreground is removed after the dependents that block
        it; one that is deleted with Orphan is removed from the references of its dependents
        first. Owners are found by kind, namespace, name and uid. A dependent stays if the kind of
        its owner is not served, or if it is cluster-scoped and its owner is not. Deleted
        namespaces are emptied and removed.

        Returns:
            The number of objects that were deleted, or marked for deletion.
        """
        return GarbageCollector(self._storage, self._registry, self._writes).collect()

    def expire_events(self) -> int:
        """Expire all Events now, in one resource version per lease.

        Returns:
            The number of deleted Events.
        """
        return self._writes.expire(everything=True)

    def advance_resource_version(self, by: int = 1) -> None:
        """Advance the resource version without a change, as writes to other objects would."""
        self._storage.advance(by)

    def compact(self) -> None:
        """Forget all history: older positions and continue tokens get 410."""
        with self._storage.lock:
            self._storage.forget(history=True)
            for follower in self._storage.followers:
                follower.forget()

    def send_bookmarks(self) -> None:
        """Send a bookmark to every open watch now, whether it requested bookmarks or not."""
        with self._storage.lock:
            for subscription in self._storage.subscriptions():
                self._storage.bookmark(subscription)

    def end_watches(self) -> None:
        """End every open watch normally, as at its timeout."""
        with self._storage.lock:
            for subscription in self._storage.subscriptions():
                subscription.end()

    def _resource(
        self, api_version: str, plural: str, namespace: str | None
    ) -> tuple[ResourceType, str]:
        resource = self._registry.find_plural(api_version, plural)
        if resource is None:
            reason = f"{plural!r} of {api_version!r} is not served: call register() first"
            raise InvalidArgumentError("plural", reason)
        return resource, (namespace or "default") if resource.namespaced else ""

    def _placed(
        self, obj: JSONObject, namespace: str | None
    ) -> tuple[ResourceType, str, JSONObject]:
        api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
        resource = self._registry.find_kind(api_version, kind)
        if resource is None:
            reason = f"{kind!r} of {api_version!r} is not served: call register() first"
            raise InvalidArgumentError("obj", reason)
        body = {**obj, "metadata": dict(obj.get("metadata") or {})}
        if not resource.namespaced:
            return resource, "", body
        return resource, body["metadata"].get("namespace") or namespace or "default", body


@contextlib.contextmanager
def _typed(request: str) -> Iterator[None]:
    try:
        yield
    except Failure as failure:
        raise failure.typed(request) from None
    except RecursionError:
        raise failures.nested_too_deeply().typed(request) from None
