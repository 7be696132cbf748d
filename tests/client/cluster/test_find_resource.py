"""Finding a resource by the names people type: `deploy`, `Deployment`, `deployments.apps`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
import pytest

import pyinformer
from pyinformer.client.cluster import APIResource, Discovery
from pyinformer.errors import (
    ForbiddenError,
    NotFoundError,
    ProtocolError,
    ServerError,
    UnknownResourceError,
)
from pyinformer.objects import JSONObject
from tests.waiting import now, pause

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer


def _listed(plural: str, kind: str, *short: str, namespaced: bool = True) -> JSONObject:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": namespaced,
        "shortNames": list(short) or None,
        "verbs": ["list", "watch"],
    }


def _resources(*entries: JSONObject) -> JSONObject:
    return {"kind": "APIResourceList", "resources": list(entries)}


def _groups(**versions: Sequence[str]) -> JSONObject:
    groups = [
        {
            "name": name.replace("_", "."),
            "versions": [{"version": one} for one in sorted(listed)],
            "preferredVersion": {"version": listed[0]},
        }
        for name, listed in versions.items()
    ]
    return {"kind": "APIGroupList", "groups": groups}


_PLAIN: dict[str, JSONObject] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": _groups(
        apps=["v1"],
        events_example_com=["v1"],
        autoscaling=["v2", "v1"],
        metrics_example_com=["v1beta1"],
    ),
    "/api/v1": _resources(
        _listed("pods", "Pod", "po"),
        {"name": "pods/status", "kind": "Pod", "namespaced": True},
        _listed("events", "Event", "ev"),
        _listed("nodes", "Node", "no", namespaced=False),
    ),
    "/apis/apps/v1": _resources(_listed("deployments", "Deployment", "deploy")),
    "/apis/events.example.com/v1": _resources(
        _listed("events", "Event", "ev"), _listed("notes", "Note", "no")
    ),
    "/apis/autoscaling/v1": _resources(_listed("scalers", "Scaler")),
    "/apis/autoscaling/v2": _resources(_listed("scalers", "Scaler")),
}


class _Server:
    """Answers what it has, and notes what it is asked."""

    def __init__(self, documents: dict[str, JSONObject]) -> None:
        self.documents = dict(documents)
        self.asked: list[str] = []
        self.refusal: Exception = ServerError(status=503, message="no endpoints available")

    async def read(self, path: str, accept: str) -> bytes:
        """Answer."""
        del accept
        self.asked.append(path)
        await anyio.lowlevel.checkpoint()
        if path not in self.documents:
            raise self.refusal
        return msgspec.json.encode(self.documents[path])


@pytest.fixture
def server() -> _Server:
    """Return a server that aggregates nothing, and of which one group is down."""
    return _Server(_PLAIN)


def _named(found: Sequence[APIResource]) -> list[str]:
    return [f"{one.resource.api_version}/{one.resource.resource}" for one in found]


@pytest.mark.covers(
    "kube-client src: resolve_typemeta_finds_resource",
    "apimachinery pkg/api/meta: TestRESTMapperVersionAndKindForResource",
)
@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("pods", ["v1/pods"], id="plural"),
        pytest.param("pod", ["v1/pods"], id="singular"),
        pytest.param("po", ["v1/pods"], id="short"),
        pytest.param("Pod", ["v1/pods"], id="kind"),
        pytest.param("PODS", ["v1/pods"], id="any-case"),
        pytest.param("deploy", ["apps/v1/deployments"], id="group"),
        pytest.param("deployments.apps", ["apps/v1/deployments"], id="resource.group"),
        pytest.param("deploy.v1.apps", ["apps/v1/deployments"], id="resource.version.group"),
        pytest.param("pods.v1", ["v1/pods"], id="resource.version-of-the-core"),
        pytest.param("pods.v1.", ["v1/pods"], id="as-kubectl-prints-it"),
        pytest.param("scalers", ["autoscaling/v2/scalers"], id="preferred-version"),
        pytest.param("scalers.v1.autoscaling", ["autoscaling/v1/scalers"], id="other-version"),
        pytest.param("apps/v1/deployments", ["apps/v1/deployments"], id="in-full"),
        pytest.param("ev", ["v1/events", "events.example.com/v1/events"], id="core-first"),
        pytest.param("event.events.example.com", ["events.example.com/v1/events"], id="dots"),
        pytest.param("no", ["v1/nodes", "events.example.com/v1/notes"], id="one-short-name-of-two"),
    ],
)
async def test_a_name_resolves_as_in_kubectl(server: _Server, name: str, found: list[str]) -> None:
    assert _named(await Discovery(server.read).find(name)) == found


@pytest.mark.covers("apimachinery pkg/api/meta: TestRESTMapperVersionAndKindForResource")
async def test_a_full_name_requests_only_its_own_version(server: _Server) -> None:
    await Discovery(server.read).find("apps/v1/deployments")

    assert server.asked == ["/apis/apps/v1"]


@pytest.mark.covers("apimachinery pkg/api/meta: TestRESTMapperVersionAndKindForResource")
async def test_discovery_is_cached_until_a_name_is_unknown(server: _Server) -> None:
    discovery = Discovery(server.read)
    await discovery.find("pods")
    asked = len(server.asked)

    await discovery.find("deploy")
    assert len(server.asked) == asked

    server.documents["/apis/apps/v1"] = _resources(_listed("widgets", "Widget"))
    assert _named(await discovery.find("widget")) == ["apps/v1/widgets"]


async def test_concurrent_lookups_share_the_requests(server: _Server) -> None:
    discovery = Discovery(server.read)
    async with anyio.create_task_group() as group:
        for name in ("pods", "deploy", "ev"):
            group.start_soon(discovery.find, name)

    assert server.asked.count("/api") == 1


# As on OpenShift: the first one processes a template, answers 201 with it, and stores nothing.
_TEMPLATES = {
    "processedtemplates": ["create"],
    "templates": ["create", "delete", "get", "list", "patch", "update", "watch"],
}
_TEMPLATES_VERSION = "template.example.com/v1"


def _templates_one_by_one() -> dict[str, JSONObject]:
    entries = [
        _listed(plural, "Template", "tpl") | {"singularName": "template", "verbs": verbs}
        for plural, verbs in _TEMPLATES.items()
    ]
    return {
        "/api": {"kind": "APIVersions", "versions": []},
        "/apis": _groups(template_example_com=["v1"]),
        f"/apis/{_TEMPLATES_VERSION}": _resources(*entries),
    }


def _templates_aggregated() -> dict[str, JSONObject]:
    entries: list[JSONObject] = [
        {
            "resource": plural,
            "responseKind": {"kind": "Template"},
            "scope": "Namespaced",
            "singularResource": "template",
            "shortNames": ["tpl"],
            "verbs": verbs,
        }
        for plural, verbs in _TEMPLATES.items()
    ]
    group: JSONObject = {
        "metadata": {"name": "template.example.com"},
        "versions": [{"version": "v1", "freshness": "Current", "resources": entries}],
    }
    root: JSONObject = {"kind": "APIGroupDiscoveryList"}
    return {"/api": {**root, "items": []}, "/apis": {**root, "items": [group]}}


@pytest.mark.covers("apimachinery pkg/api/meta: TestRESTMapperVersionAndKindForResource")
@pytest.mark.parametrize(
    "documents",
    [
        pytest.param(_templates_one_by_one(), id="one-by-one"),
        pytest.param(_templates_aggregated(), id="aggregated"),
    ],
)
async def test_of_two_resources_with_one_kind_the_one_that_can_be_read_is_found(
    documents: dict[str, JSONObject],
) -> None:
    discovery = Discovery(_Server(documents).read)
    for name in ("template", "Template", "tpl", "template.template.example.com"):
        assert _named(await discovery.find(name)) == [f"{_TEMPLATES_VERSION}/templates"]
    found = await discovery.kind(_TEMPLATES_VERSION, "Template")
    assert found.resource.resource == "templates"

    (other,) = await discovery.find("processedtemplates")
    assert other.verbs == {"create"}


async def test_of_two_resources_with_one_kind_the_one_that_can_be_read_is_suggested() -> None:
    discovery = Discovery(_Server(_templates_one_by_one()).read)
    with pytest.raises(NotFoundError, match=r"did you mean template\.example\.com/v1/templates\?"):
        await discovery.find(f"{_TEMPLATES_VERSION}/template")


async def test_of_two_resources_with_one_kind_and_no_verbs_the_first_is_found() -> None:
    documents = _templates_one_by_one()
    entries = [_listed(plural, "Template") | {"verbs": None} for plural in _TEMPLATES]
    documents[f"/apis/{_TEMPLATES_VERSION}"] = _resources(*entries)
    found = await Discovery(_Server(documents).read).kind(_TEMPLATES_VERSION, "Template")
    assert found.resource.resource == "processedtemplates"


@pytest.mark.virtual_time
@pytest.mark.parametrize("silent", [1, 60], ids=["one", "many"])
async def test_a_silent_group_delays_the_names_of_others_by_kubectls_limit(silent: int) -> None:
    """And it is named where a name is not found: it may have it."""
    groups = {f"silent{number}": ["v1"] for number in range(silent)}
    server = _Server({**_PLAIN, "/apis": _groups(**groups, apps=["v1"])})

    async def read(path: str, accept: str) -> bytes:
        if path.startswith("/apis/silent"):
            await pause(65)
        return await server.read(path, accept)

    discovery = Discovery(read)
    assert _named(await discovery.find("deploy")) == ["apps/v1/deployments"]
    assert now() == pytest.approx(32)
    with pytest.raises(UnknownResourceError) as raised:
        await discovery.find("gadgets")
    assert raised.value.unavailable == tuple(sorted(f"{one}/v1" for one in groups))
    assert now() == pytest.approx(64)


@pytest.mark.covers("kube-client src: resolve_typemeta_finds_resource")
async def test_an_unknown_name_has_similar_names_and_unavailable_groups_in_its_error(
    server: _Server,
) -> None:
    with pytest.raises(UnknownResourceError) as raised:
        await Discovery(server.read).find("deploymnt")

    assert raised.value.near == ("deployments.apps",)
    assert raised.value.unavailable == ("metrics.example.com/v1beta1",)


async def test_forbidden_discovery_names_the_alternative(server: _Server) -> None:
    server.documents.clear()
    server.refusal = ForbiddenError(status=403, reason="Forbidden", message="cannot get path")

    with pytest.raises(ForbiddenError, match="cannot get path; name the resource in full, such as"):
        await Discovery(server.read).find("pods")


@pytest.mark.parametrize(("absent", "name"), [("/api", "deploy"), ("/apis", "pods")])
async def test_a_server_with_one_half_of_the_groups_is_understood(
    server: _Server, absent: str, name: str
) -> None:
    del server.documents[absent]
    server.refusal = NotFoundError(status=404, message="404 page not found")

    (found,) = await Discovery(server.read).find(name)
    assert found.resource.resource in {"deployments", "pods"}
    server.documents.clear()
    with pytest.raises(NotFoundError):
        await Discovery(server.read).find(name)


async def test_an_invalid_discovery_document_is_reported(server: _Server) -> None:
    server.documents["/api"] = {"kind": 7}

    with pytest.raises(ProtocolError, match="not a document of discovery"):
        await Discovery(server.read).find("pods")


async def test_a_stale_aggregated_group_is_named() -> None:
    def version(name: str, freshness: str, *resources: JSONObject) -> JSONObject:
        return {"version": name, "freshness": freshness, "resources": list(resources)}

    pods = {
        "resource": "pods",
        "responseKind": {"kind": "Pod"},
        "scope": "Namespaced",
        "subresources": [{"subresource": "status"}],
    }
    root = {"kind": "APIGroupDiscoveryList"}
    metrics = {"metadata": {"name": "metrics"}, "versions": [version("v1", "Stale")]}
    documents = {
        "/api": {**root, "items": [{"versions": [version("v1", "Current", pods)]}]},
        "/apis": {**root, "items": [metrics]},
    }
    server = _Server(documents)
    discovery = Discovery(server.read)

    (found,) = await discovery.find("pod")
    with pytest.raises(UnknownResourceError) as raised:
        await discovery.find("nodemetrics")

    assert (found.kind, found.namespaced, found.has_status) == ("Pod", True, True)
    assert raised.value.unavailable == ("metrics/v1",)
    assert server.asked == ["/api", "/apis"] * 2  # nothing is asked group by group


async def test_the_embedded_server_is_understood(apiserver: APIServer) -> None:
    apiserver.register("acme.io/v1", "Widget", "widgets")
    async with pyinformer.connect(server=apiserver.url) as cluster:
        assert (await cluster.find_resource("Widget")).resource.group == "acme.io"
        assert (await cluster.find_resource("deployments")).namespaced
        assert not (await cluster.find_resource("node")).namespaced


@pytest.mark.real
async def test_the_real_server_is_understood(kube_apiserver: KubeAPIServer, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kube_apiserver.write_kubeconfig(kubeconfig)
    async with pyinformer.connect(kubeconfig) as cluster:
        assert _named(await cluster.discovery.find("deploy")) == ["apps/v1/deployments"]
        assert _named(await cluster.discovery.find("ev")) == [
            "v1/events",
            "events.k8s.io/v1/events",
        ]
        assert (await cluster.find_resource("crd")).kind == "CustomResourceDefinition"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        pytest.param({"/apis/e.io/v1": b" " * (2 << 20) + b"{}"}, "limit is 2097152", id="bytes"),
        pytest.param(
            {"/apis/e.io/v1": b'{"resources":[' + b'{"name":"a"},' * 20_000 + b'{"name":"b"}]}'},
            "at most 20000 are read",
            id="resources",
        ),
        pytest.param({"/apis/e.io/v1": b'{"resources":[{"name":"\xff"}]}'}, "utf-8", id="no-text"),
        pytest.param({"/apis/e.io/v1": b"{}"}, "without a kind", id="nothing"),
        pytest.param({"/apis/e.io/v1": b'{"kind":"Status"}'}, "it is Status", id="a-status"),
        pytest.param(
            {"/apis/e.io/v1": b'{"kind":"APIResourceList","groupVersion":"f.io/v1"}'},
            "of f.io/v1, not",
            id="another-version",
        ),
    ],
)
async def test_an_answer_that_is_not_the_list_of_resources_is_refused(
    answers: dict[str, bytes], reason: str
) -> None:
    async def read(path: str, _: str) -> bytes:
        return answers[path]

    with pytest.raises(ProtocolError, match=reason):
        await Discovery(read).find("e.io/v1/things")


async def test_the_number_of_all_resources_is_bounded() -> None:
    groups = _groups(**{f"g{number}": ["v1"] for number in range(2_001)})
    asked: list[str] = []

    async def read(path: str, _: str) -> bytes:
        asked.append(path)
        return msgspec.json.encode(groups if path == "/apis" else {"versions": []})

    with pytest.raises(ProtocolError, match="at most 2000 are requested"):
        await Discovery(read).find("things")
    assert asked == ["/api", "/apis"]
