"""Bodies that are nested deeply: what can be read can be written, and nothing deeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from pyinformer.client.cluster import create_or_update
from pyinformer.errors import InvalidArgumentError
from tests.integration.definitions import is_created, served
from tests.integration.objects import unique
from tests.integration.servers import RealServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer import Cluster
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_MOST: Final = 512
_MOST_EMBEDDED: Final = 200  # its own functions read them one level in another
_OPEN: Final[JSONObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class _Model(msgspec.Struct):
    """An object whose parts may be anything."""

    apiVersion: str  # noqa: N815 - of Kubernetes
    kind: str
    metadata: dict[str, Any]
    spec: Any = None
    status: Any = None


def _nested(levels: int, leaf: str, *, lists: bool) -> Any:
    value: Any = leaf
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return value


async def _edit(cluster: Cluster, body: JSONObject) -> object:
    found = await cluster.get(body["apiVersion"], f"{body['kind'].lower()}s", _key(body))
    return await cluster.patch(found, {**found.to_dict(), "spec": body["spec"]})


async def _edit_model(cluster: Cluster, body: JSONObject) -> object:
    found = await cluster.get(body["apiVersion"], f"{body['kind'].lower()}s", _key(body))
    model = found.as_type(_Model)
    model.spec = body["spec"]
    return await cluster.patch(found, model)


async def _status(cluster: Cluster, body: JSONObject) -> object:
    found = await cluster.get(body["apiVersion"], f"{body['kind'].lower()}s", _key(body))
    return await cluster.status(found, body["spec"])


async def _upsert(cluster: Cluster, body: JSONObject) -> object:
    named = {name: body[name] for name in ("apiVersion", "kind", "metadata")}
    return await create_or_update(cluster, named, lambda found: found.update(spec=body["spec"]))


async def _replace(cluster: Cluster, body: JSONObject) -> object:
    found = await cluster.get(body["apiVersion"], f"{body['kind'].lower()}s", _key(body))
    return await cluster.replace({**found.to_dict(), "spec": body["spec"]})


def _key(body: JSONObject) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


_WRITES: Final[dict[str, Callable[[Cluster, JSONObject], Awaitable[object]]]] = {
    "replace": _replace,
    "patch": _edit,
    "patch-model": _edit_model,
    "status": _status,
    "apply": lambda cluster, body: cluster.apply(body, field_manager="m", force=True),
    "upsert": _upsert,
}


@pytest.mark.parametrize("lists", [False, True])
async def test_what_can_be_read_can_be_written(server: Server, *, lists: bool) -> None:
    kind = f"K{unique('x').partition('-')[2]}"
    plural, group = f"{kind.lower()}s", f"{kind.lower()}.example.com"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": _OPEN, "status": _OPEN}}
        },
        "subresources": {"status": {}},
    }
    definition: JSONObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    metadata = {"name": "a", "namespace": server.namespace()}
    named = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata}

    def body(levels: int, leaf: str) -> JSONObject:
        return {**named, "spec": {"x": _nested(levels - 2, leaf, lists=lists)}}

    async with served(server, definition), server.connect() as cluster:
        await until(lambda: is_created(server, named), timeout_seconds=100)
        most = _MOST if isinstance(server, RealServer) else _MOST_EMBEDDED
        for name, write in _WRITES.items():
            await write(cluster, body(most, name))
            found = await cluster.get(f"{group}/v1", plural, _key(named))
            part = "status" if name == "status" else "spec"
            assert found.to_dict()[part] == body(most, name)["spec"], name
            for levels in (_MOST + 1, 5_000, 50_000):
                with pytest.raises(InvalidArgumentError, match="more than 512 levels"):
                    await write(cluster, body(levels, name))
        with pytest.raises(InvalidArgumentError, match="more than 512 levels"):
            await cluster.create(body(_MOST + 1, "create"))
