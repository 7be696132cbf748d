"""Three controllers of the usual kinds: one owns objects, one maps many to one, one writes status.

They rely only on what the library promises: no resync, no requeue, no direct read of the server.
`differences` returns where the actual state is not the desired one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pyinformer import Controller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyinformer import Cluster, KubeObject, Request, SharedInformerFactory
    from pyinformer.objects import JSONObject
    from tests.integration.chaos.recording import Record

GROUPS = 40
WIDGETS = "chaos.example.com/v1"
INDEXES = {"group": "data.group"}
FINALIZER = "chaos.example.com/cleanup"


def config_map(namespace: str, name: str, role: str, data: JSONObject) -> JSONObject:
    """Return a config map that plays a role here."""
    metadata: JSONObject = {"namespace": namespace, "name": name, "labels": {"role": role}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def digest(members: Mapping[str, object]) -> str:
    """Return what a group says of its members: one value that every change changes."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(members.items()))
    return hashlib.sha256(text.encode()).hexdigest()


class Copies:
    """Keeps a copy of every source, owned by it."""

    def __init__(
        self, cluster: Cluster, factory: SharedInformerFactory, namespace: str, record: Record
    ) -> None:
        self._cluster = cluster
        self._record = record
        sources = factory.informer(
            "v1", "configmaps", namespaces=namespace, label_selector="role=source"
        )
        self._copies = factory.informer(
            "v1", "configmaps", namespaces=namespace, label_selector="role=copy"
        )
        reconcile = record.recorded("copies", self.reconcile, sources, indexes=INDEXES)
        self.controller = Controller("copies", reconcile, sources, workers=4)
        self.controller.owns(self._copies)

    async def reconcile(self, request: Request, source: KubeObject[None] | None) -> None:
        """Make the copy as the source is, or remove it."""
        with self._record.reconciling("copies", request):
            key = f"{request.key.namespace}/copy-of-{request.key.name}"
            copy = self._copies.lister.get(key)
            self._record.read("copy", key, copy)
            if source is None:
                await self._remove(copy)
            elif copy is None:
                self._wrote(await self._cluster.create(_copy_of(source)))
            else:
                edited = copy.to_dict() | {"data": source.to_dict().get("data")}
                edited["metadata"]["ownerReferences"] = [_reference_to(source)]
                self._wrote(await self._cluster.patch(copy, edited))

    def _wrote(self, answer: KubeObject[None]) -> None:
        self._record.wrote("copy", answer, self._copies.lister)

    async def _remove(self, copy: KubeObject[None] | None) -> None:
        if copy is not None and await self._cluster.delete(copy) is None:
            self._record.deleted("copy", copy, self._copies.lister)


def _copy_of(source: KubeObject[None]) -> JSONObject:
    meta = source.metadata
    copy = config_map(meta.namespace, f"copy-of-{meta.name}", "copy", source.to_dict()["data"])
    copy["metadata"]["ownerReferences"] = [_reference_to(source)]
    return copy


def _reference_to(source: KubeObject[None]) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": source.metadata.name,
        "uid": source.metadata.uid,
        "controller": True,
    }


class Groups:
    """Keeps one config map for each group of sources, with a digest of its members."""

    def __init__(
        self, cluster: Cluster, factory: SharedInformerFactory, namespace: str, record: Record
    ) -> None:
        self._cluster = cluster
        self._record = record
        self._namespace = namespace
        self._sources = factory.informer(
            "v1", "configmaps", namespaces=namespace, label_selector="role=source"
        )
        self._sources.add_index("group", INDEXES["group"])
        self._groups = factory.informer(
            "v1", "configmaps", namespaces=namespace, label_selector="role=group"
        )
        reconcile = record.recorded("groups", self.reconcile, self._groups)
        self.controller = Controller("groups", reconcile, self._groups, workers=2)
        self.controller.watches(self._sources, self._group_of)

    def _group_of(self, source: KubeObject[None]) -> str:
        return f"{self._namespace}/{source.at('data.group', str)}"

    async def reconcile(self, request: Request, group: KubeObject[None] | None) -> None:
        """Write the digest of the members, and the group itself if it was removed."""
        with self._record.reconciling("groups", request):
            self._record.read("group", request.key, group)
            members = {
                source.metadata.name: source.at("data.value", str)
                for source in self._sources.lister.by_index("group", request.key.name)
            }
            data = {"members": digest(members)}
            if group is None:
                wanted = config_map(self._namespace, request.key.name, "group", data)
                answer = await self._cluster.create(wanted)
            else:
                edited = group.to_dict() | {"data": data}
                answer = await self._cluster.patch(group, edited)
            self._record.wrote("group", answer, self._groups.lister)


class Statuses:
    """Copies every widget's spec to one field of its status, and holds it by a finalizer."""

    def __init__(
        self, cluster: Cluster, factory: SharedInformerFactory, namespace: str, record: Record
    ) -> None:
        self._cluster = cluster
        self._record = record
        self._widgets = factory.informer(WIDGETS, "widgets", namespaces=namespace)
        reconcile = record.recorded("statuses", self.reconcile, self._widgets)
        self.controller = Controller("statuses", reconcile, self._widgets, workers=4)

    async def reconcile(self, request: Request, widget: KubeObject[None] | None) -> None:
        """Hold the widget by a finalizer, report its spec, and release it when it is deleted."""
        with self._record.reconciling("statuses", request):
            self._record.read("widget", request.key, widget)
            if widget is None:
                return
            held = FINALIZER in widget.metadata.finalizers
            if widget.metadata.deletion_timestamp:
                if held:
                    await self._hold(widget, [])
                return
            if not held:
                widget = await self._hold(widget, [FINALIZER])
            wanted: JSONObject = {"observed": widget.at("spec.value", str)}
            status = {**(widget.to_dict().get("status") or {}), **wanted}  # others write to it, too
            answer = await self._cluster.status(widget, status)
            self._record.wrote_status(answer, wanted, based_on=widget)
            self._record.wrote("widget", answer, self._widgets.lister)

    async def _hold(self, widget: KubeObject[None], finalizers: Sequence[str]) -> KubeObject[None]:
        edited = widget.to_dict()
        edited["metadata"]["finalizers"] = list(finalizers)
        answer = await self._cluster.patch(widget, edited)
        if finalizers:
            self._record.wrote("widget", answer, self._widgets.lister)
        else:
            self._record.deleted("widget", answer, self._widgets.lister)
        return answer


def differences(
    config_maps: Sequence[JSONObject], widgets: Sequence[JSONObject], namespace: str
) -> list[str]:
    """Name everything that is not as the controllers are to make it."""
    by_role: dict[str, dict[str, JSONObject]] = {"source": {}, "copy": {}, "group": {}}
    for one in config_maps:
        role = one["metadata"].get("labels", {}).get("role")
        if role in by_role:
            by_role[role][one["metadata"]["name"]] = one
    return [
        *_wrong_copies(by_role["source"], by_role["copy"]),
        *_wrong_groups(by_role["source"], by_role["group"]),
        *(f"widget {one['metadata']['name']}" for one in widgets if not _is_settled(one)),
    ]


def _wrong_copies(sources: Mapping[str, JSONObject], copies: Mapping[str, JSONObject]) -> list[str]:
    wanted = {
        f"copy-of-{name}": (source["data"], source["metadata"]["uid"])
        for name, source in sources.items()
    }
    actual = {
        name: (copy.get("data"), copy["metadata"]["ownerReferences"][0]["uid"])
        for name, copy in copies.items()
    }
    names = wanted.keys() | actual.keys()
    return [f"copy {name}" for name in sorted(names) if wanted.get(name) != actual.get(name)]


def _wrong_groups(sources: Mapping[str, JSONObject], groups: Mapping[str, JSONObject]) -> list[str]:
    members: dict[str, dict[str, object]] = {name: {} for name in groups}
    for name, source in sources.items():
        members.setdefault(source["data"]["group"], {})[name] = source["data"]["value"]
    return [
        f"group {name}"
        for name, inside in sorted(members.items())
        if name not in groups or groups[name].get("data", {}).get("members") != digest(inside)
    ]


def _is_settled(widget: JSONObject) -> bool:
    metadata = widget["metadata"]
    is_held = FINALIZER in metadata.get("finalizers", [])
    says = widget.get("status", {}).get("observed")
    return "deletionTimestamp" not in metadata and is_held and says == widget["spec"]["value"]
