"""Bodies in protobuf, which client-go sends by default for built-in resources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.testing.apiserver.requests import PROTOBUF, json_of
from pyinformer.testing.apiserver.requests.failures import Failure
from tests.testing.wire import PODS, Wire

if TYPE_CHECKING:
    from pyinformer.testing import APIServer


def number(field: int, value: int) -> bytes:
    """Encode a number."""
    encoded = varint(value % (1 << 64))
    return varint(field << 3) + encoded


def text(field: int, value: str | bytes) -> bytes:
    """Encode a length-delimited field."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    """Encode a number of any size."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + bytes((value,))


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """Wrap an object as client-go does."""
    head = text(1, api_version) + text(2, kind)
    return b"k8s\x00" + text(1, head) + text(2, body) + text(3, "") + text(4, "")


def decoded(api_version: str, kind: str, body: bytes) -> Any:
    """Wrap and read an object."""
    return json.loads(json_of(envelope(api_version, kind, body)))


# Go writes what is empty, too, unless a pointer would lead to it.
METADATA = text(1, "a") + text(2, "") + number(7, 0) + text(8, b"")


def test_a_config_map_becomes_the_json_that_go_writes() -> None:
    label = text(11, text(1, "app") + text(2, "web"))
    stamp = text(9, number(1, 1_767_323_045) + number(2, 0))
    empty = text(2, text(1, "none") + text(2, ""))
    binary = text(3, text(1, "b") + text(2, b"\xff"))
    body = text(1, METADATA + label + stamp) + empty + binary + number(4, 0)
    assert decoded("v1", "ConfigMap", body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "labels": {"app": "web"},
            "deletionTimestamp": "2026-01-02T03:04:05Z",
        },
        "data": {"none": ""},
        "binaryData": {"b": "/w=="},
        "immutable": False,
    }


def test_numbers_and_names_of_ports_are_distinguished() -> None:
    by_number = text(1, number(3, 80) + text(4, number(1, 0) + number(2, 8080) + text(3, "")))
    by_name = text(1, number(3, 81) + text(4, number(1, 1) + number(2, 0) + text(3, "http")))
    service = decoded("v1", "Service", text(2, by_number + by_name))
    assert service["spec"]["ports"] == [
        {"port": 80, "targetPort": 8080},
        {"port": 81, "targetPort": "http"},
    ]


def test_quantities_inlined_structs_and_negative_numbers() -> None:
    limits = text(1, text(1, "cpu") + text(2, text(1, "100m")))
    container = text(1, "c") + text(8, limits)
    secret = text(1, "v") + text(2, text(6, text(1, "s")))
    toleration = text(22, text(1, "k") + number(5, -1))
    pod = decoded("v1", "Pod", text(2, text(1, secret) + text(2, container) + toleration))
    assert pod["spec"]["containers"] == [{"name": "c", "resources": {"limits": {"cpu": "100m"}}}]
    assert pod["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]
    assert pod["spec"]["tolerations"] == [{"key": "k", "tolerationSeconds": -1}]


def test_times_to_the_microsecond_and_managed_fields() -> None:
    stamp = number(1, 1_767_323_045) + number(2, 7_000)
    lease = decoded("coordination.k8s.io/v1", "Lease", text(2, text(4, stamp)))
    assert lease["spec"] == {"renewTime": "2026-01-02T03:04:05.000007Z"}
    entries = text(17, text(1, "m") + text(7, text(1, '{"f:a":{}}')))
    metadata = decoded("v1", "ConfigMap", text(1, entries + text(17, text(7, ""))))["metadata"]
    assert metadata["managedFields"] == [
        {"manager": "m", "fieldsV1": {"f:a": {}}},
        {"fieldsV1": None},
    ]


def test_lists_of_strings_that_are_messages() -> None:
    extra = text(5, text(1, "scopes") + text(2, text(1, "a") + text(1, "b")))
    review = decoded("authorization.k8s.io/v1", "SubjectAccessReview", text(2, extra))
    assert review["spec"] == {"extra": {"scopes": ["a", "b"]}}


def test_an_empty_body_stays_empty() -> None:
    assert json_of(b"") == b""


def test_a_field_of_a_newer_client_is_passed_over() -> None:
    newer = number(900, 7) + text(901, "x") + varint(902 << 3 | 1) + b"8bytes.." + b""
    assert decoded("v1", "Namespace", newer + text(1, METADATA))["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"{}", 400, id="json"),
        pytest.param(b"k8s\x00\x0a\xff", 400, id="cut"),
        pytest.param(b"k8s\x00\x0b", 400, id="no-such-wire-type"),
        pytest.param(b"k8s\x00" + b"\xff" * 11, 400, id="endless-number"),
        pytest.param(envelope("v1", "Pod", number(1, 5)), 400, id="number-for-message"),
        pytest.param(envelope("example.com/v1", "Widget", b""), 415, id="custom-resource"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(Failure) as caught:
        json_of(body)
    assert caught.value.code == code


def test_a_client_that_speaks_protobuf_creates_and_deletes(apiserver: APIServer) -> None:
    pod = text(1, METADATA) + text(2, text(2, text(1, "c") + text(2, "i")))
    with Wire(apiserver.url) as wire:
        body = envelope("v1", "Pod", pod)
        created = wire.request("POST", PODS, body, content_type=PROTOBUF)
        assert (created.status, created.json["spec"]["containers"][0]["name"]) == (201, "c")
        body = envelope("v1", "DeleteOptions", number(1, 0) + text(4, "Background"))
        gone = wire.request("DELETE", f"{PODS}/a", body, content_type=PROTOBUF)
        assert gone.status == 200
        assert wire.get(f"{PODS}/a").status == 404
        assert wire.request("POST", PODS, b"nonsense", content_type=PROTOBUF).status == 400
