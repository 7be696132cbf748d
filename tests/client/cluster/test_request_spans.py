"""How the spans of requests are named, and what of a request they show."""

from __future__ import annotations

import pytest

from pyinformer.errors import ConfigurationError
from tests.client.cluster.answering import Answering
from tests.telemetry.tracing import Traces, attributes

_PODS = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("method", "path", "name", "verb"),
    [
        pytest.param("GET", _PODS, "GET pods.v1", "list", id="list"),
        pytest.param("GET", f"{_PODS}/x", "GET pods.v1", "get", id="get"),
        pytest.param("POST", _PODS, "POST pods.v1", "create", id="create"),
        pytest.param("PUT", f"{_PODS}/x/status", "PUT pods.v1/status", "update", id="status"),
        pytest.param("PATCH", f"{_PODS}/x", "PATCH pods.v1", "patch", id="patch"),
        pytest.param("DELETE", f"{_PODS}/x", "DELETE pods.v1", "delete", id="delete"),
        pytest.param("DELETE", _PODS, "DELETE pods.v1", "deletecollection", id="collection"),
        pytest.param(
            "GET",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "GET clusterroles.v1.rbac.authorization.k8s.io",
            "get",
            id="cluster-scoped",
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            "PUT namespaces.v1/finalize",
            "update",
            id="namespace",
        ),
        pytest.param("GET", "/version", "GET", None, id="no-resource"),
        pytest.param("GET", "/apis/apps/v1", "GET", None, id="discovery"),
    ],
)
async def test_a_span_is_named_by_method_and_resource_alone(
    method: str, path: str, name: str, verb: str | None
) -> None:
    found = await _span_of(method, path)
    assert found["name"] == name
    assert found.get("pyinformer.request.verb") == verb
    assert found["url.full"] == f"http://h:80{path}"


async def test_a_name_of_an_object_is_shown_unquoted() -> None:
    found = await _span_of("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode")
    assert found["pyinformer.request.name"] == "system:node"
    assert "k8s.namespace.name" not in found


async def test_the_servers_url_has_no_login() -> None:
    with pytest.raises(ConfigurationError, match="a name or a password") as caught:
        Answering("https://u:hunter2@h")
    assert "hunter2" not in str(caught.value)


async def test_the_servers_url_is_shown_with_its_port_and_path() -> None:
    found = await _span_of("GET", "/version", "https://[::1]:6443/base/")
    assert found["url.full"] == "https://[::1]:6443/base/version"
    assert (found["server.address"], found["server.port"]) == ("::1", 6443)


async def _span_of(method: str, path: str, server: str = "http://h") -> dict[str, object]:
    """Return the attributes of a request's span, and its name."""
    traces = Traces()
    cluster = Answering(server).cluster(tracing=traces.tracing)
    with traces.user.start_as_current_span("part"):
        await cluster.request(method, path)
    request, _ = traces.ended
    return {"name": request.name, **attributes(request)}
