"""The calls of the official Python client or kubernetes_asyncio: the same as those of client-go.

Its arguments are the package's name, a kubeconfig and a namespace. It prints a line of JSON for
each call, which the tests check. It runs in the client's own environment, without the modules of
the tests. One package returns values and the other awaitables: `settled` takes both.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from typing import Any

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_GROUP = ("suite.example.com", "v1")
_JSON_PATCH = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_NAMES = [f"c{number}" for number in range(5)]


def answer(step: str, value: Any) -> None:
    """Print one answer."""
    print(json.dumps({"step": step, "value": value}), flush=True)  # noqa: T201 - its output


async def settled(result: Any) -> Any:
    """Return what a call returned, or what it let us await."""
    return await result if inspect.isawaitable(result) else result


async def first_events(stream: Any, is_last: Any) -> list[Any]:
    """Read a stream of either kind up to the event that is the last one wanted."""
    seen = []
    if hasattr(stream, "__aiter__"):
        async for event in stream:
            seen.append(event)
            if is_last(seen):
                break
        return seen
    for event in stream:
        seen.append(event)
        if is_last(seen):
            break
    return seen


def config_map(name: str, data: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a config map whose label says whether its number is even."""
    app = "db" if ord(name[-1]) % 2 else "web"
    metadata = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def deployment(name: str) -> dict[str, Any]:
    """Return a small deployment."""
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "nginx:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


class Session:
    """The questions, in order."""

    def __init__(self, package: str, api_client: Any, namespace: str) -> None:
        self.client = importlib.import_module(f"{package}.client")
        self.watch = importlib.import_module(f"{package}.watch")
        self.core = self.client.CoreV1Api(api_client)
        self.apps = self.client.AppsV1Api(api_client)
        self.custom = self.client.CustomObjectsApi(api_client)
        self.namespace = namespace

    async def refused(self, step: str, result: Any) -> None:
        """Say how the server put its refusal; what is given is called late, to catch its error."""
        try:
            await settled(result())
        except self.client.ApiException as error:
            said = json.loads(error.body)
            value: dict[str, Any] = {"code": error.status, "reason": said.get("reason")}
            causes = (said.get("details") or {}).get("causes") or []
            fields = [one["field"] for one in causes if one["reason"] == "FieldManagerConflict"]
            if fields:
                value["fields"] = fields
            answer(step, value)
        else:
            answer(step, "not refused")

    async def listed(self, **query: Any) -> Any:
        """List config maps."""
        return await settled(self.core.list_namespaced_config_map(self.namespace, **query))

    async def names(self, **query: Any) -> list[str]:
        """List the names of config maps."""
        return [item.metadata.name for item in (await self.listed(**query)).items]

    async def patch(self, name: str, body: Any, content_type: str, **query: Any) -> Any:
        """Patch a config map."""
        call = self.core.patch_namespaced_config_map
        query["_content_type"] = content_type
        return await settled(call(name, self.namespace, body, **query))

    async def reads(self) -> None:
        """Create, get, list, pages."""
        create = self.core.create_namespaced_config_map
        made = [
            await settled(create(self.namespace, config_map(name, {"a": "1"}))) for name in _NAMES
        ]
        answer("create", [one.metadata.name for one in made])
        await self.refused("create-again", lambda: create(self.namespace, config_map("c0")))
        await self.refused(
            "get-absent", lambda: self.core.read_namespaced_config_map("absent", self.namespace)
        )
        answer("list", await self.names())
        answer("list-label", await self.names(label_selector="app in (web), app"))
        answer("list-field", await self.names(field_selector="metadata.name=c3"))
        await self.refused("list-unknown-field", lambda: self.listed(field_selector="data.a=1"))
        pages: list[Any] = []
        versions = set()
        going_on: dict[str, Any] = {}
        while True:
            page = await self.listed(limit=2, **going_on)
            names = [item.metadata.name for item in page.items]
            pages.append([names, page.metadata.remaining_item_count or 0])
            versions.add(page.metadata.resource_version)
            going_on = {"_continue": page.metadata._continue}
            if not going_on["_continue"]:
                break
        answer("pages", pages)
        answer("versions-of-pages", len(versions))
        await self.refused("malformed-continue", lambda: self.listed(limit=2, _continue="nonsense"))

    async def patches(self) -> None:
        """Merge, JSON and strategic patches, a status, updates."""
        answer("merge-patch", (await self.patch("c0", {"data": {"b": "2"}}, _MERGE)).data)
        remove = [{"op": "remove", "path": "/data/a"}]
        answer("json-patch", (await self.patch("c0", remove, _JSON_PATCH)).data)
        test = [{"op": "test", "path": "/data/b", "value": "9"}]
        await self.refused("json-patch-fails", lambda: self.patch("c0", test, _JSON_PATCH))
        apps, where = self.apps, self.namespace
        await settled(apps.create_namespaced_deployment(where, deployment("web")))
        containers = {"containers": [{"name": "d", "image": "e:1"}]}
        body: dict[str, Any] = {"spec": {"template": {"spec": containers}}}
        patched = await settled(
            apps.patch_namespaced_deployment("web", where, body, _content_type=_STRATEGIC)
        )
        images = [container.image for container in patched.spec.template.spec.containers]
        answer("strategic-patch", sorted(images))
        body = {"status": {"replicas": 3}}
        patched = await settled(
            apps.patch_namespaced_deployment_status("web", where, body, _content_type=_MERGE)
        )
        answer("status", [patched.status.replicas, patched.metadata.generation])
        replace = self.core.replace_namespaced_config_map
        old = await settled(self.core.read_namespaced_config_map("c0", where))
        version, old.data = old.metadata.resource_version, {"z": "26"}
        answer("update", (await settled(replace("c0", where, old))).data)
        old.metadata.resource_version, old.data = version, {}
        await self.refused("update-conflict", lambda: replace("c0", where, old))

    async def applies(self) -> None:
        """Two managers apply the same field."""

        def apply(manager: str, value: str, **query: Any) -> Any:
            metadata = {"name": "applied"}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            body["data"] = {"a": value}
            return self.patch("applied", body, _APPLY, field_manager=manager, **query)

        answer("apply", (await apply("first", "1")).data)
        await self.refused("apply-conflict", lambda: apply("second", "2"))
        forced = await apply("second", "2", force=True)
        answer("apply-force", forced.data)
        entries = forced.metadata.managed_fields
        answer("managers", [f"{one.manager} {one.operation}" for one in entries])

    async def deletions(self) -> None:
        """Preconditions, dependents, collections."""
        core, apps, where = self.core, self.apps, self.namespace
        other = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
        await self.refused(
            "delete-other-uid",
            lambda: core.delete_namespaced_config_map("c0", where, body=other),
        )
        await settled(
            apps.delete_namespaced_deployment("web", where, propagation_policy="Foreground")
        )
        held = (await settled(apps.read_namespaced_deployment("web", where))).metadata
        answer("delete-foreground", [held.finalizers, held.deletion_timestamp is not None])
        body: dict[str, Any] = {"metadata": {"finalizers": None}}
        await settled(apps.patch_namespaced_deployment("web", where, body, _content_type=_MERGE))
        await self.refused("finalized", lambda: apps.read_namespaced_deployment("web", where))
        await settled(core.delete_collection_namespaced_config_map(where, label_selector="app=web"))
        answer("delete-collection", await self.names(label_selector="app"))

    async def watches(self) -> None:
        """Watch from a version, from one that is forgotten, and by watch-list."""
        listed, where = self.core.list_namespaced_config_map, self.namespace
        version = (await self.listed()).metadata.resource_version
        await settled(self.core.create_namespaced_config_map(where, config_map("w0")))
        await self.patch("w0", {"data": {"b": "2"}}, _MERGE)
        await settled(self.core.delete_namespaced_config_map("w0", where))
        seen = await self.stream(
            lambda events: len(events) == 3,
            listed,
            where,
            resource_version=version,
            field_selector="metadata.name=w0",
        )
        answer("watch", [[one["type"], one["object"].metadata.name] for one in seen])
        try:
            seen = await self.stream(lambda _: True, listed, where, resource_version="1")
            answer("watch-expired", seen[0]["type"])
        except self.client.ApiException as error:
            answer("watch-expired", {"code": error.status, "reason": error.reason.split(":")[0]})
        seen = await self.stream(
            lambda events: events[-1]["type"] == "BOOKMARK",
            listed,
            where,
            send_initial_events=True,
            allow_watch_bookmarks=True,
            resource_version_match="NotOlderThan",
            label_selector="app=db",
        )
        raw = seen.pop()["raw_object"]["metadata"]
        names = sorted(one["object"].metadata.name for one in seen)
        answer("watch-list", [names, raw["annotations"].get(_INITIAL_EVENTS_END)])

    async def stream(self, is_last: Any, call: Any, *arguments: Any, **query: Any) -> list[Any]:
        """Read events with the package's Watch, and close it."""
        watch = self.watch.Watch()
        try:
            return await first_events(
                watch.stream(call, *arguments, timeout_seconds=20, **query), is_last
            )
        finally:
            await settled(watch.close() if hasattr(watch, "close") else watch.stop())

    async def custom_resources(self) -> None:
        """Create, patch, apply and list objects of a type that the client does not know."""
        custom, where = self.custom, (*_GROUP, self.namespace, "widgets")
        body: dict[str, Any] = {"apiVersion": "/".join(_GROUP), "kind": "Widget"}
        body |= {"metadata": {"name": "w"}, "spec": {"size": 1}}
        await settled(custom.create_namespaced_custom_object(*where, body))
        patch = custom.patch_namespaced_custom_object
        patched = await settled(patch(*where, "w", {"spec": {"size": 2}}, _content_type=_MERGE))
        answer("custom-patch", [patched["spec"]["size"], patched["metadata"]["generation"]])
        await self.refused(
            "custom-strategic-patch", lambda: patch(*where, "w", {}, _content_type=_STRATEGIC)
        )
        body |= {"metadata": {"name": "v"}, "spec": {}}
        await settled(patch(*where, "v", body, _content_type=_APPLY, field_manager="first"))
        listed = await settled(custom.list_namespaced_custom_object(*where))
        answer("custom-list", [item["metadata"]["name"] for item in listed["items"]])


async def main(package: str, kubeconfig: str, namespace: str) -> None:
    """Ask all questions.

    Cancellation:
        Ends the program.
    """
    config = importlib.import_module(f"{package}.config")
    client = importlib.import_module(f"{package}.client")
    configuration = client.Configuration()
    await settled(config.load_kube_config(kubeconfig, client_configuration=configuration))
    api_client = client.ApiClient(configuration)
    session = Session(package, api_client, namespace)
    try:
        await session.reads()
        await session.patches()
        await session.applies()
        await session.deletions()
        await session.watches()
        await session.custom_resources()
    finally:
        await settled(api_client.close())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
