"""Threads that write at random, whether the server runs or not.

They create, update, delete and move objects, and damage what the controllers maintain. A failed
write is not repeated: as with any other client, its outcome is unknown.
"""

from __future__ import annotations

import contextlib
import random
import threading
from typing import TYPE_CHECKING, final

from pyinformer import APIStatusError, InformerError
from pyinformer.errors import NotFoundError
from tests.integration.chaos.controllers import GROUPS, WIDGETS, config_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, KubeAPIServer


@final
class Definitions:
    """A server past the faults, for the lab; while a definition is away, nothing creates objects.

    kube-apiserver accepts an object for some milliseconds after it has begun to delete the
    definition, and may never delete it: it comes back with the next definition, with its old uid.
    Then no client knows whether it existed meanwhile.
    """

    def __init__(self, api: KubeAPIServer) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._is_away = False

    @contextlib.contextmanager
    def creating(self) -> Iterator[bool]:
        """Hold back the deletion of a definition; whether objects may be created."""
        with self._lock:
            yield not self._is_away

    def get(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Return one object."""
        return self._api.get(api_version, plural, name, namespace)

    def list(self, api_version: str, plural: str) -> list[JSONObject]:
        """Return all objects."""
        return self._api.list(api_version, plural)

    def create(self, obj: JSONObject) -> JSONObject:
        """Create an object."""
        created = self._api.create(obj)
        if obj["kind"] == "CustomResourceDefinition":
            self._is_away = False
        return created

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object."""
        return self._api.update(obj)

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch."""
        return self._api.patch(api_version, plural, name, changes, namespace)

    def delete(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Delete an object."""
        if plural == "customresourcedefinitions":
            with self._lock:
                self._is_away = True
        return self._api.delete(api_version, plural, name, namespace)


class Writer:
    """Writes to the objects whose number leaves its remainder; one thread runs it.

    Args:
        api: the server.
        namespace: where the objects are.
        names: their numbers.
        seed: of what it draws.
        is_up: is set while the server runs.
        definitions: what deletes the definition of widgets; None if nothing does.
    """

    def __init__(
        self,
        api: APIServer | KubeAPIServer,
        namespace: str,
        names: range,
        *,
        seed: int,
        is_up: threading.Event,
        definitions: Definitions | None = None,
    ) -> None:
        self._api = api
        self._definitions = definitions
        self._namespace = namespace
        self._names = names
        self._rng = random.Random(seed)
        self._is_up = is_up
        self.writes = 0
        self.failures = 0

    def fill(self) -> None:
        """Create all of its objects."""
        for number in self._names:
            self._api.create(self._source(number))
            self._create_widget(self._widget(number))

    def run(self, stop: threading.Event, pause_seconds: float) -> None:
        """Write until `stop` is set."""
        steps = (
            self._change_source,
            self._change_widget,
            self._check_widget,
            self._delete_source,
            self._delete_widget,
            self._vandalise_copy,
            self._vandalise_group,
        )
        weights = (6, 6, 3, 2, 2, 2, 1)
        while not stop.wait(pause_seconds):
            (step,) = self._rng.choices(steps, weights)
            try:
                step(self._rng.choice(self._names))
                self.writes += 1
            except (InformerError, OSError):  # refused, gone, or no server
                self.failures += 1
                self._is_up.wait(5.0)

    def _source(self, number: int) -> JSONObject:
        data: JSONObject = {
            "group": f"group-{self._rng.randrange(GROUPS)}",
            "value": str(self._rng.random()),
        }
        return config_map(self._namespace, f"source-{number}", "source", data)

    def _widget(self, number: int) -> JSONObject:
        metadata: JSONObject = {"namespace": self._namespace, "name": f"widget-{number}"}
        spec: JSONObject = {"value": str(self._rng.random())}
        return {"apiVersion": WIDGETS, "kind": "Widget", "metadata": metadata, "spec": spec}

    def _change_source(self, number: int) -> None:
        new = self._source(number)
        try:
            self._patch("v1", "configmaps", f"source-{number}", {"data": new["data"]})
        except InformerError:
            self._api.create(new)

    def _change_widget(self, number: int) -> None:
        new = self._widget(number)
        try:
            self._patch(WIDGETS, "widgets", f"widget-{number}", {"spec": new["spec"]})
        except InformerError:
            self._create_widget(new)

    def _create_widget(self, widget: JSONObject) -> None:
        creating = (
            contextlib.nullcontext(True)
            if self._definitions is None
            else self._definitions.creating()
        )
        with creating as may_create:
            if may_create:
                self._api.create(widget)

    def _check_widget(self, number: int) -> None:
        """Change it, and at once a field of its status that no controller writes.

        The controller that the first write wakes is to keep what the second has stored.
        """
        status: JSONObject = {"checked": str(self._rng.random())}
        changes = {"spec": self._widget(number)["spec"], "status": status}
        self._patch(WIDGETS, "widgets", f"widget-{number}", changes)

    def _delete_source(self, number: int) -> None:
        self._api.delete("v1", "configmaps", f"source-{number}", self._namespace)
        if self._rng.random() < 0.5:  # at once, under the same name
            self._api.create(self._source(number))

    def _delete_widget(self, number: int) -> None:
        self._api.delete(WIDGETS, "widgets", f"widget-{number}", self._namespace)

    def _vandalise_copy(self, number: int) -> None:
        name = f"copy-of-source-{number}"
        if self._rng.random() < 0.5:
            self._api.delete("v1", "configmaps", name, self._namespace)
        else:
            self._patch("v1", "configmaps", name, {"data": {"value": "vandalised"}})

    def _vandalise_group(self, number: int) -> None:
        name = f"group-{number % GROUPS}"
        if self._rng.random() < 0.5:
            self._api.delete("v1", "configmaps", name, self._namespace)
        else:
            self._patch("v1", "configmaps", name, {"data": {"members": "vandalised"}})

    def _patch(self, api_version: str, plural: str, name: str, changes: JSONObject) -> None:
        self._api.patch(api_version, plural, name, changes, self._namespace)


def collect_garbage(api: KubeAPIServer, namespace: str) -> None:
    """Delete copies whose source is gone, as the garbage collector of a whole cluster does.

    `owns` relies on it: a selector hides from a controller whether an owner is gone or unselected,
    so what appears after its owner's end is left to the server. Copies of a source that was made
    again are not touched: they are the controller's.
    """
    config_maps = api.list("v1", "configmaps", namespace)
    names = {one["metadata"]["name"] for one in config_maps}
    for one in config_maps:
        for owner in one["metadata"].get("ownerReferences", ()):
            if owner["name"] not in names:
                with contextlib.suppress(APIStatusError):  # the controller was faster
                    api.delete("v1", "configmaps", one["metadata"]["name"], namespace)


def remove_widgets(api: KubeAPIServer, namespace: str) -> None:
    """Remove what has a finalizer, or the definition could not be deleted by the next storm."""
    for one in api.list(WIDGETS, "widgets", namespace):
        name, released = one["metadata"]["name"], {"metadata": {"finalizers": None}}
        api.patch(WIDGETS, "widgets", name, released, namespace)
        with contextlib.suppress(NotFoundError):  # it was being deleted
            api.delete(WIDGETS, "widgets", name, namespace)


def all_written(
    api: APIServer | KubeAPIServer, namespace: str
) -> tuple[list[JSONObject], list[JSONObject]]:
    """Read everything back; config maps, then widgets."""
    with contextlib.suppress(ConnectionError):
        return (
            api.list("v1", "configmaps", namespace),
            api.list(WIDGETS, "widgets", namespace),
        )
    raise AssertionError("the server is down at the end")
