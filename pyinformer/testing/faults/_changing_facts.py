"""Rights and definitions that go away and come back while a program runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar, final

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import ConflictError, InformerError, KubeAPIServerError, NotFoundError
from pyinformer.objects import JSONObject, check_iterable
from pyinformer.testing._polling import poll

_R = TypeVar("_R")

_RBAC: Final = ("rbac.authorization.k8s.io/v1", "clusterrolebindings")
_DEFINITIONS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_OTHER_VERSION: Final = "v9"
_SETTLED_SECONDS: Final = 300.0  # other faults may strike the server meanwhile
_PATIENCE_SECONDS: Final = 10.0  # with finalizers, which a program under other faults may not end
_INTERVAL_SECONDS: Final = 0.1
_TOUCH_SECONDS: Final = 5.0
_TOUCHED: Final = "pyinformer.example.com/touched"


class Objects(Protocol):
    """Reads and writes objects past every fault: an `APIServer` or a `KubeAPIServer`."""

    def get(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Return one object."""
        ...

    def list(self, api_version: str, plural: str) -> list[JSONObject]:
        """Return all objects."""
        ...

    def create(self, obj: JSONObject) -> JSONObject:
        """Create an object."""
        ...

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object."""
        ...

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch."""
        ...

    def delete(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Delete an object."""
        ...


@final
class ChangingFacts:
    """What a program may do and which resources there are, in the hands of a fault lab.

        facts = ChangingFacts(server, bindings=["backups"], definitions=["backups.example.com"])
        facts.withdraw_rights()
        ...
        facts.restore()

    Its methods block, and repeat what the server does not answer, since other faults strike it at
    the same time.

    Args:
        objects: reads and writes past the faults, with all rights: the server itself.
        bindings: the names of the ClusterRoleBindings that give the program its rights.
        definitions: the names of CustomResourceDefinitions; their objects are lost with them.
    """

    def __init__(
        self, objects: Objects, *, bindings: Sequence[str] = (), definitions: Sequence[str] = ()
    ) -> None:
        check_iterable("bindings", bindings, shown="a sequence of names", items=str)
        check_iterable("definitions", definitions, shown="a sequence of names", items=str)
        self.bindings: tuple[str, ...] = tuple(bindings)
        self.definitions: tuple[str, ...] = tuple(definitions)
        self._objects = objects
        self._lock = threading.Lock()
        self._before: dict[tuple[str, str, str], JSONObject] = {}

    def withdraw_rights(self) -> None:
        """Delete the bindings. Watches that are open continue, as on every API server.

        Raises:
            KubeAPIServerError: the server did not do it in time.
        """
        for name in self.bindings:
            self._remember(*_RBAC, name)
            self._remove(*_RBAC, name)

    def delete_definitions(self, *, other_scope: bool = False) -> None:
        """Delete the definitions, and with them their objects once their finalizers are gone.

        Who waits for that, here or in `restore`, removes the finalizers that are left after ten
        seconds, as an administrator does in the end.

        Args:
            other_scope: define the resources at once again, but cluster-scoped instead of
                namespaced, or the reverse.

        Raises:
            KubeAPIServerError: the server did not do it in time.
        """
        for name in self.definitions:
            before = self._remember(*_DEFINITIONS, name)
            self._remove(*_DEFINITIONS, name)
            if other_scope:
                spec = before["spec"]
                scope = "Cluster" if spec["scope"] == "Namespaced" else "Namespaced"
                self._define({**before, "spec": {**spec, "scope": scope}})

    def take_status(self) -> None:
        """Remove the status subresource from the definitions: a status is a field like others then.

        Raises:
            KubeAPIServerError: the server did not do it in time.
        """
        self._change(lambda version: {**version, "subresources": {}})

    def take_versions(self) -> None:
        """Serve another version than those of the definitions, which get 404.

        Raises:
            KubeAPIServerError: the server did not do it in time.
        """
        self._change(lambda version: {**version, "served": False}, adds=_OTHER_VERSION)

    def restore(self) -> None:
        """Put back everything as it was, and wait until the resources are served again.

        Raises:
            KubeAPIServerError: the server did not do it in time.
        """
        with self._lock:
            before, self._before = self._before, {}
        for (api_version, plural, name), obj in before.items():
            if (api_version, plural) == _RBAC:
                self._until(f"{plural} {name} exists", partial(self._create, obj))
            else:
                self._define(obj)

    def _remember(self, api_version: str, plural: str, name: str) -> JSONObject:
        with self._lock:
            known = self._before.get((api_version, plural, name))
        if known is not None:
            return known
        read = partial(self._objects.get, api_version, plural, name)
        kept = _without_server_fields(self._until(f"{plural} {name} is read", read))
        with self._lock:
            self._before[api_version, plural, name] = kept
        return kept

    def _remove(self, api_version: str, plural: str, name: str) -> None:
        def remove() -> None:
            with contextlib.suppress(NotFoundError):
                self._objects.delete(api_version, plural, name)

        self._until(f"{plural} {name} is deleted", remove)

    def _change(
        self, change: Callable[[JSONObject], JSONObject], *, adds: str | None = None
    ) -> None:
        for name in self.definitions:
            spec = self._remember(*_DEFINITIONS, name)["spec"]
            versions = [change(one) for one in spec["versions"]]
            if adds is not None:
                versions.append({**spec["versions"][0], "name": adds, "storage": False})
            self._until(
                f"definition {name} is changed",
                partial(self._write_versions, name, versions),
            )

    def _write_versions(self, name: str, versions: list[Any]) -> None:
        now = self._objects.get(*_DEFINITIONS, name)
        self._objects.update({**now, "spec": {**now["spec"], "versions": versions}})

    def _define(self, wanted: JSONObject) -> None:
        """Make a definition be as wanted, and wait until it is served."""
        name, began_at = wanted["metadata"]["name"], monotonic()

        def define() -> None:
            waits = monotonic() - began_at < _PATIENCE_SECONDS
            if missing := self._missing(name, wanted, releases=not waits):
                raise KubeAPIServerError(f"definition {name}", missing)

        self._until(f"definition {name} is served", define)

    def _missing(self, name: str, wanted: JSONObject, *, releases: bool) -> str:
        """Take one step towards a definition; return what is missing yet, empty for nothing."""
        try:
            now = self._objects.get(*_DEFINITIONS, name)
        except NotFoundError:
            self._objects.create(wanted)
            return "it was just created"
        if "deletionTimestamp" in now["metadata"]:
            if releases:
                self._touch(name)
                self._release(now["spec"])
            return f"it is being deleted: {now.get('status', {}).get('conditions')}"
        if now["spec"]["scope"] != wanted["spec"]["scope"]:  # it cannot be changed
            self._objects.delete(*_DEFINITIONS, name)
            return "it has another scope"
        if now["spec"]["versions"] != wanted["spec"]["versions"]:
            self._objects.update({**now, "spec": wanted["spec"]})
            return "it has other versions"
        conditions = now.get("status", {}).get("conditions") or ()  # null at first
        if "Established" not in {one["type"] for one in conditions if one["status"] == "True"}:
            return f"it is not established: {conditions}"
        self._objects.list(*_place_of(wanted["spec"]))  # or it is not served yet, and this raises
        return ""

    def _touch(self, name: str) -> None:
        """Change a definition now and then: its server looks at once whether it can go.

        What failed under other faults it would try again only after up to 1,000 s.
        """
        change: JSONObject = {_TOUCHED: f"{monotonic() // _TOUCH_SECONDS:.0f}"}
        with contextlib.suppress(NotFoundError):  # it has gone just now
            self._objects.patch(*_DEFINITIONS, name, {"metadata": {"annotations": change}})

    def _release(self, spec: JSONObject) -> None:
        """Remove the finalizers of all objects of a definition, and those that it would wait for.

        An API server that lags accepts objects for a moment after the deletion has begun; no
        server deletes these.
        """
        place = _place_of(spec)
        for one in self._objects.list(*place):
            meta = one["metadata"]
            name, namespace = meta["name"], meta.get("namespace")
            if meta.get("finalizers"):
                none: JSONObject = {"metadata": {"finalizers": None}}
                self._objects.patch(*place, name, none, namespace)
            if "deletionTimestamp" not in meta:
                self._objects.delete(*place, name, namespace)

    def _create(self, obj: JSONObject) -> None:
        with contextlib.suppress(ConflictError):
            self._objects.create(obj)

    def _until(self, what: str, step: Callable[[], _R]) -> _R:
        """Repeat a step until it does not fail, and return what it returns.

        Raises:
            KubeAPIServerError: it was not done in time.
        """
        done: list[_R] = []
        last: list[Exception] = []

        def attempt() -> bool:
            try:
                done.append(step())
            except (InformerError, OSError) as error:
                last[:] = [error]
            return bool(done)

        if not poll(attempt, timeout_seconds=_SETTLED_SECONDS, interval_seconds=_INTERVAL_SECONDS):
            reason = f"not after {_SETTLED_SECONDS:.0f} s"
            raise KubeAPIServerError(
                f"the fault waits until {what}", f"{reason}: {last[0]}" if last else reason
            )
        return done[0]


def _place_of(spec: JSONObject) -> tuple[str, str]:
    """Return the group with the first served version of a definition, and its plural name."""
    version = next(one["name"] for one in spec["versions"] if one["served"])
    return f"{spec['group']}/{version}", spec["names"]["plural"]


def _without_server_fields(obj: JSONObject) -> JSONObject:
    """Return what the writer of an object wrote: no status, and of the metadata what names it."""
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name in ("name", "labels", "annotations")
    }
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": metadata}
