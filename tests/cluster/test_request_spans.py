"""How the spans of requests are named, and what of a request they show."""

from __future__ import annotations

import pytest

from pyinformer.cluster._request_spans import RequestSpans
from tests.adapters.tracing import Traces, attributes

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
def test_a_span_is_named_by_method_and_resource_alone(
    method: str, path: str, name: str, verb: str | None
) -> None:
    found = _span_of(method, path)
    assert found["name"] == name
    assert found.get("pyinformer.request.verb") == verb
    assert found["url.full"] == f"http://h:80{path}"


def test_a_name_of_an_object_is_shown_unquoted() -> None:
    found = _span_of("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode")
    assert found["pyinformer.request.name"] == "system:node"
    assert "k8s.namespace.name" not in found


@pytest.mark.parametrize(
    ("server", "shown", "address", "port"),
    [
        pytest.param("https://u:hunter2@h", "https://h:443", "h", 443, id="login"),
        pytest.param("https://[::1]:6443/base/", "https://[::1]:6443/base", "::1", 6443, id="v6"),
    ],
)
def test_the_servers_url_is_shown_without_a_login(
    server: str, shown: str, address: str, port: int
) -> None:
    found = _span_of("GET", "/version", server)
    assert found["url.full"] == f"{shown}/version"
    assert (found["server.address"], found["server.port"]) == (address, port)


def _span_of(method: str, path: str, server: str = "http://h") -> dict[str, object]:
    """Return the attributes of a request's span, and its name."""
    traces = Traces()
    spans = RequestSpans("", server, traces.tracing)
    with traces.user.start_as_current_span("part"), spans.of(method, path) as span:
        assert span is not None
    request, _ = traces.ended
    return {"name": request.name, **attributes(request)}
