"""What webhooks answer, and what they are asked: both servers take it alike.

The webhook is a plain HTTPS server, so that it can answer what no hook of ours does.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
import trustme

from tests.integration.objects import unique
from tests.integration.test_server_writes import config_map
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject
    from tests.integration.places import Place
    from tests.integration.servers import Server

_GROUP: Final = "admissionregistration.k8s.io/v1"
_VERSION: Final = "answered.example.com/v1"
_SPEC: JSONObject = {
    "type": "object",
    "properties": {"known": {"type": "integer"}, "filled": {"type": "integer", "default": 3}},
}
_SCHEMA: JSONObject = {"type": "object", "properties": {"spec": _SPEC}}


def _patch(*operations: JSONObject) -> JSONObject:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


class _Webhook:
    """Answers reviews of what has the label `asked`, and keeps them."""

    def __init__(self, server: Server, place: Place, url: str, authority: str) -> None:
        self.asked: list[JSONObject] = []
        self.answer: JSONObject = {"allowed": True}
        self.answers: Callable[[JSONObject], JSONObject] = lambda _: self.answer
        self._server, self._place = server, place
        self._url, self._authority = url, authority
        self.made: list[tuple[str, str]] = []

    def handle(self, request: JSONObject) -> JSONObject:
        if request.get("name") == "probe":
            return {"allowed": False, "status": {"code": 418}}
        self.asked.append(request)
        return self.answers(request)

    def configure(self, kind: str, **more: Any) -> None:
        """Have the server ask it, and wait until it does."""
        name = unique("answered")
        rule = {
            "apiGroups": ["", "answered.example.com"],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["configmaps", "services", "answereds"],
        }
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": self._place.namespace}}
        webhook = {
            "name": "answered.example.com",
            "clientConfig": {"url": self._url, "caBundle": self._authority},
            "rules": [rule],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "namespaceSelector": chosen,
            **more,
        }
        body = {"apiVersion": _GROUP, "kind": f"{kind}WebhookConfiguration"}
        self._server.api.create({**body, "metadata": {"name": name}, "webhooks": [webhook]})
        self.made.append((f"{kind.lower()}webhookconfigurations", name))
        path = self._place.path("configmaps")

        def is_asked() -> bool:
            probe = config_map({}, "probe")
            return self._place.send("POST", path, probe, dryRun="All").status == 418

        assert poll(is_asked, timeout_seconds=100)


@pytest.fixture
def webhook(server: Server, place: Place) -> Iterator[_Webhook]:
    """A webhook on loopback; its configurations are deleted again."""
    hook: list[_Webhook] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            answer = {**hook[0].handle(request), "uid": request["uid"]}
            review = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
            body = json.dumps({**review, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.socket = context.wrap_socket(served.socket, server_side=True)
        url = f"https://127.0.0.1:{served.server_address[1]}/"
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        hook.append(_Webhook(server, place, url, bundle))
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield hook[0]
        finally:
            for plural, name in hook[0].made:
                server.api.delete(_GROUP, plural, name)
            served.shutdown()
            thread.join()


_BAD: Final[list[tuple[str, JSONObject]]] = [
    ("Mutating", _patch({"op": "remove", "path": "/data/missing"})),
    ("Mutating", _patch({"op": "replace", "path": "/apiVersion", "value": "v2"})),
    ("Mutating", {**_patch(), "patch": base64.b64encode(b"{}").decode()}),
    ("Mutating", {**_patch({"op": "remove", "path": "/data/a"}), "patchType": "Merge"}),
    ("Mutating", {"allowed": True, "patchType": "JSONPatch"}),
    ("Mutating", {"allowed": True, "patch": _patch()["patch"]}),
    ("Validating", _patch()),
]


@pytest.mark.parametrize(
    ("kind", "answer"),
    _BAD,
    ids=["no-path", "type", "no-list", "merge", "no-patch", "no-patch-type", "validating"],
)
def test_a_patch_that_cannot_be_applied_refuses_the_write(
    place: Place, webhook: _Webhook, kind: str, answer: JSONObject
) -> None:
    webhook.configure(kind)
    webhook.answer = answer
    refused = place.send("POST", place.path("configmaps"), config_map({"a": "1"}, "x"))
    assert refused.status == 500
    assert refused.json["reason"] == "InternalError"
    assert place.send("GET", f"{place.path('configmaps')}/x").status == 404


def test_a_patch_that_does_not_fit_refuses_though_failures_are_ignored(
    place: Place, webhook: _Webhook
) -> None:
    webhook.configure("Mutating", failurePolicy="Ignore")
    webhook.answer = _patch({"op": "test", "path": "/data/a", "value": "2"})
    assert place.send("POST", place.path("configmaps"), config_map({"a": "1"}, "x")).status == 500


def test_a_refusal_comes_with_warnings_and_details(place: Place, webhook: _Webhook) -> None:
    webhook.configure("Validating")
    causes = [{"field": "data.a", "message": "no", "reason": "FieldValueInvalid"}]
    webhook.answer = {
        "allowed": False,
        "warnings": ["be careful"],
        "status": {"code": 403, "message": "denied", "details": {"causes": causes}},
    }
    refused = place.send("POST", place.path("configmaps"), config_map({"a": "1"}, "x"))
    assert refused.status == 403
    assert "be careful" in "".join(refused.headers.values())
    assert refused.json["details"]["causes"] == causes
    assert "reason" not in refused.json


def test_a_webhook_that_mutates_may_refuse_a_deletion(place: Place, webhook: _Webhook) -> None:
    path = place.path("configmaps")
    place.created(path, config_map({"a": "1"}, "x"))
    webhook.configure("Mutating")
    webhook.answer = {"allowed": False, "status": {"message": "kept"}}
    refused = place.send("DELETE", f"{path}/x")
    assert refused.status == 400
    assert "kept" in refused.json["message"]
    assert place.get(f"{path}/x")["data"] == {"a": "1"}


def test_a_webhook_that_mutates_sees_the_defaults_of_the_definition(
    server: Server, place: Place, webhook: _Webhook
) -> None:
    server.api.register(_VERSION, "Answered", "answereds", schema=_SCHEMA)
    path = place.path("answereds", api_version=_VERSION)
    webhook.configure("Mutating")
    body = {"apiVersion": _VERSION, "kind": "Answered", "metadata": {"name": "x"}}
    place.created(path, {**body, "spec": {"known": 1, "unknown": 2}})
    place.patched(f"{path}/x", {"spec": {"known": 2, "filled": None}})
    specs = [one["object"]["spec"] for one in webhook.asked]
    assert specs == [{"known": 1, "filled": 3}, {"known": 2, "filled": 3}]


def test_a_webhook_that_mutates_sees_the_defaults_of_the_server(
    place: Place, webhook: _Webhook
) -> None:
    webhook.configure("Mutating")
    webhook.answer = _patch({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}})
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    made = place.created(place.path("services"), {**body, "spec": {"ports": [{"port": 80}]}})
    (request,) = webhook.asked
    assert request["object"]["spec"]["type"] == "ClusterIP"
    assert request["object"]["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert made["metadata"]["labels"] == {"a": "b"}


def test_a_condition_that_fails_forbids_the_write(place: Place, webhook: _Webhook) -> None:
    expressions = ["object.data.no == '1'", "object.data.one == '1'"]
    conditions = [
        {"name": f"c{number}", "expression": f"object.metadata.name != 'x' || {one}"}
        for number, one in enumerate(expressions)
    ]
    webhook.configure("Validating", matchConditions=conditions)
    refused = place.send("POST", place.path("configmaps"), config_map({"a": "1"}, "x"))
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    said = "expression 'object.metadata.name != 'x' || object.data.no == '1'' resulted in error:"
    assert refused.json["message"].startswith(f'configmaps "x" is forbidden: [{said} ')


def test_webhooks_that_always_change_are_asked_twice(place: Place, webhook: _Webhook) -> None:
    for _ in range(3):
        webhook.configure("Mutating", reinvocationPolicy="IfNeeded")
    webhook.answers = lambda request: _patch(
        {"op": "add", "path": "/data/n", "value": request["object"]["data"].get("n", "") + "1"}
    )
    made = place.created(place.path("configmaps"), config_map({"a": "1"}, "x"))
    assert made["data"]["n"] == 6 * "1"


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_webhook_cannot_make_another_object_of_one(
    place: Place, webhook: _Webhook, field: str
) -> None:
    path = place.path("configmaps")
    place.created(path, config_map({"a": "1"}, "x"))
    webhook.configure("Mutating")
    webhook.answer = _patch({"op": "add", "path": f"/metadata/{field}", "value": "1"})
    assert place.patch(f"{path}/x", {"data": {"b": "2"}}).status in (409, 422)
    assert place.get(f"{path}/x")["data"] == {"a": "1"}


def test_the_deletion_of_a_collection_names_no_object(place: Place, webhook: _Webhook) -> None:
    path = place.path("configmaps")
    for name in ("x", "y"):
        place.created(path, config_map({"a": "1"}, name))
    webhook.configure("Validating")
    assert place.send("DELETE", path).status == 200
    assert {one["oldObject"]["metadata"]["name"] for one in webhook.asked} >= {"x", "y"}
    assert not any(one.get("name") for one in webhook.asked)
