"""The texts and classes of refusals, without a server."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest

from pyinformer.client.transport import status_error, status_error_from_object
from pyinformer.errors import (
    APIStatusError,
    ApplyConflictError,
    ResourceExpiredError,
    ResourceVersionTooLargeError,
    ServerError,
    TooManyRequestsError,
)
from pyinformer.objects import JSONObject

DATE = "Sat, 21 Nov 2026 08:00:00 GMT"


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        pytest.param(None, None, None, id="none"),
        pytest.param("5", None, 5.0, id="seconds"),
        pytest.param(" 0 ", None, 0.0, id="zero"),
        pytest.param("Sat, 21 Nov 2026 08:01:30 GMT", DATE, 90.0, id="date-against-date"),
        pytest.param("Sat, 21 Nov 2026 07:00:00 GMT", DATE, 0.0, id="past"),
        pytest.param("-5", None, None, id="negative"),
        pytest.param("1e3", None, None, id="exponent"),
        pytest.param("٣", None, None, id="other-digits"),
        pytest.param("9" * 400, None, None, id="endless"),
        pytest.param("soon", None, None, id="words"),
        pytest.param("Sat, 99 Nov 2026 07:00:00 GMT", DATE, None, id="no-such-day"),
        pytest.param(f"Sat, 21 Nov 2026 07:00:00 +{'9' * 14}", DATE, None, id="no-such-zone"),
        pytest.param(f"21 Nov 2026 {'9' * 20}:00:00", DATE, None, id="no-such-hour"),
    ],
)
def test_retry_after_is_seconds_or_a_date(
    value: str | None, date: str | None, seconds: float | None
) -> None:
    assert _retry_after(value, date) == seconds


@pytest.mark.parametrize("date", [None, "junk"])
def test_a_date_is_measured_from_the_clock_if_the_response_has_none(date: str | None) -> None:
    value = format_datetime(datetime.now(UTC) + timedelta(seconds=110), usegmt=True)
    seconds = _retry_after(value, date)
    assert seconds is not None
    assert 10.0 < seconds <= 110.0


def _retry_after(value: str | None, date: str | None) -> float | None:
    """Return the seconds of an error whose response has these headers."""
    given = {"Retry-After": value, "Date": date}
    headers = {name: text for name, text in given.items() if text is not None}
    return status_error(503, headers, b"").retry_after_seconds


def test_retry_after_in_the_status_counts_without_a_header() -> None:
    error = status_error(429, {}, b'{"details":{"retryAfterSeconds":3}}')

    assert type(error) is TooManyRequestsError
    assert error.retry_after_seconds == 3.0


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param({"Retry-After": "86400"}, b"", id="header"),
        pytest.param(
            {"Retry-After": "Sat, 21 Nov 2099 07:00:00 GMT", "Date": DATE}, b"", id="date"
        ),
        pytest.param({}, b'{"details":{"retryAfterSeconds":86400}}', id="status"),
    ],
)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_no_server_stops_its_clients_for_more_than_two_minutes(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    assert status_error(status, headers, body).retry_after_seconds == 120.0


@pytest.mark.parametrize("value", [b"1" + b"0" * 400, b"1e300", b"-1", b"0", b"true", b'"3"'])
def test_an_invalid_retry_after_counts_as_absent(value: bytes) -> None:
    body = b'{"code":429,"details":{"retryAfterSeconds":%s}}' % value

    assert status_error(429, {}, body).retry_after_seconds is None
    assert status_error_from_object(msgspec.json.decode(body)).retry_after_seconds is None


@pytest.mark.covers("client-go rest: TestTransformResponse")
def test_the_http_status_decides_whatever_the_body_says() -> None:
    assert type(status_error(410, {}, b'{"code":500}')) is ResourceExpiredError


@pytest.mark.parametrize(
    ("value", "expected", "status"),
    [
        pytest.param({"code": 410, "reason": "Expired"}, ResourceExpiredError, 410, id="410"),
        pytest.param({"code": 410, "reason": "Gone"}, ResourceExpiredError, 410, id="410-gone"),
        pytest.param({"code": 429}, TooManyRequestsError, 429, id="429"),
        pytest.param(
            {"code": 504, "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}},
            ResourceVersionTooLargeError,
            504,
            id="too-large",
        ),
        pytest.param({"message": "no code"}, ServerError, 500, id="no-code"),
        pytest.param({"code": "410"}, ServerError, 500, id="code-of-text"),
        pytest.param({"code": True}, ServerError, 500, id="code-of-truth"),
        pytest.param({"code": 10**400}, ServerError, 500, id="code-out-of-range"),
        pytest.param({"details": [1], "code": 503}, ServerError, 503, id="odd-details"),
        pytest.param({"details": {"causes": [1, {}]}}, ServerError, 500, id="odd-causes"),
        pytest.param(None, ServerError, 500, id="null"),
        pytest.param([1], ServerError, 500, id="array"),
    ],
)
def test_an_error_event_is_typed_by_its_code(
    value: Any, expected: type[APIStatusError], status: int
) -> None:
    error = status_error_from_object(value, request="watch pods.v1")

    assert type(error) is expected
    assert error.status == status
    assert str(error).startswith(f"watch pods.v1: {status}")


@pytest.mark.covers("client-go rest: TestTruncateBody", "client-go rest: TestTransformResponse")
def test_messages_of_the_server_are_truncated() -> None:
    assert len(status_error_from_object({"message": "x" * 9_999}).message) == 500
    assert len(status_error(500, {}, b'{"message":"' + b"x" * 9_999 + b'"}').message) == 500


@pytest.mark.parametrize(
    ("status", "words", "shown"),
    [
        pytest.param(403, "u cannot list secrets", "u cannot list secrets", id="refusal"),
        pytest.param(410, 'gone: {"password": "hunter2"}', "gone: (redacted)", id="quoted-json"),
        pytest.param(410, "gone: map[password:hunter2]", "gone: map(redacted)", id="quoted-go"),
        pytest.param(500, "cannot convert hunter2", "(redacted)", id="failure"),
        pytest.param(
            422,
            'Secret "a" is invalid: data[password]: Invalid value: "hunter2": too short',
            'Secret "a" is invalid: (redacted)',
            id="invalid",
        ),
        pytest.param(
            422,
            'Secret "a" is invalid: type: Invalid value: "hunter2": unknown',
            'Secret "a" is invalid: type: Invalid value: (redacted)',
            id="invalid-value",
        ),
        pytest.param(
            400,
            "Secret.Data: illegal base64, error found in #10 byte of ...|hunter2|...",
            "Secret.Data: illegal base64, error found in #10 byte of (redacted)",
            id="piece",
        ),
        pytest.param(
            403,
            'admission webhook "w.io" denied the request: hunter2 is too short',
            'admission webhook "w.io" denied the request: (redacted)',
            id="webhook",
        ),
        pytest.param(
            422,
            "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied"
            " request: hunter2 is too short",
            "secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied"
            " request: (redacted)",
            id="policy",
        ),
        pytest.param(
            403,
            'secrets "a" is forbidden: hunter2 is in use',
            'secrets "a" is forbidden: (redacted)',
            id="plug-in",
        ),
        pytest.param(
            403,
            'secrets "a" is forbidden: User "u" cannot create resource "secrets"',
            'secrets "a" is forbidden: User "u" cannot create resource "secrets"',
            id="rights",
        ),
        pytest.param(
            403,
            'secrets "a" is forbidden: exceeded quota: q, requested: secrets=1',
            'secrets "a" is forbidden: exceeded quota: q, requested: secrets=1',
            id="quota",
        ),
        pytest.param(500, "", "", id="nothing"),
    ],
)
def test_secrets_quoted_by_a_server_are_removed(status: int, words: str, shown: str) -> None:
    frame: JSONObject = {"kind": "Status", "code": status, "message": words}
    body = msgspec.json.encode(frame)

    for request in (
        "list secrets.v1",
        "watch-list secrets.v1",
        "POST /api/v1/namespaces/default/secrets",
        "PATCH /api/v1/namespaces/default/secrets/a",
    ):
        error = status_error(status, {}, body, request=request)
        assert error.message == shown
        assert "hunter2" not in str(error)
        assert "hunter2" not in repr(error)
    other = status_error(status, {}, body, request="PATCH /api/v1/namespaces/secrets/pods/a")
    assert other.message == words
    assert status_error_from_object(frame, request="watch secrets.v1").message == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ('cannot convert {"spec":{"password":"hunter2"}}: bad', "cannot convert (redacted)"),
        (
            "conversion webhook for acme.io/v1, Kind=Database failed: spec.password hunter2",
            "conversion webhook for acme.io/v1, Kind=Database failed: (redacted)",
        ),
        ("etcdserver: request timed out", "etcdserver: request timed out"),
    ],
)
@pytest.mark.parametrize("request_", ["list databases.v1.acme.io", "watch databases.v1.acme.io"])
def test_a_failed_read_quotes_no_object_of_any_kind(words: str, shown: str, request_: str) -> None:
    body = {"message": words, "code": 500}
    assert status_error_from_object(body, request=request_).message == shown
    assert status_error(500, {}, msgspec.json.encode(body), request=request_).message == shown


def test_last_applied_annotations_are_removed_for_every_kind() -> None:
    words = "bad: kubectl.kubernetes.io/last-applied-configuration: hunter2"
    body = msgspec.json.encode({"message": words})

    error = status_error(500, {}, body, request="list configmaps.v1")
    assert error.message == "bad: kubectl.kubernetes.io/(redacted)"


def test_a_cause_with_unbalanced_quotes_is_read_in_linear_time() -> None:
    cause = {"reason": "FieldManagerConflict", "message": '\\"' * 15_500}
    body = msgspec.json.encode({"details": {"causes": [cause]}})
    began = time.process_time()
    error = status_error(409, {}, body)

    assert isinstance(error, ApplyConflictError)
    assert [one.manager for one in error.conflicts] == [""]
    assert time.process_time() - began < 1.0, "every quote began a search of all the others"


@pytest.mark.parametrize(
    "words",
    [
        'databases.example.com "original-db" is invalid: spec.size: Required value',
        "failed to convert (shop/original-db; example.com/v1, Kind=Database): .spec.typo: unknown",
        "the object shop/applied-2 is being deleted",
        'configmaps "last-applied-by-bob" not found',
        "cannot convert shop/last-applied-db",
        "cannot convert shop/original.example.com",
    ],
)
def test_a_name_that_looks_like_an_annotation_is_shown(words: str) -> None:
    error = status_error(422, {}, msgspec.json.encode({"message": words}), request="PATCH /x")
    assert error.message == words


@pytest.mark.parametrize(
    "key",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "kopf.zalando.org/last-handled-configuration",
        "example.com/last-applied-by-a-tool",
        "x/last-applied",
        "last-applied-config",
        "kapp.k14s.io/original",
        "kapp/original",
        "kapp.k14s.io~1original",
        "objectset.rio.cattle.io/applied",
    ],
)
@pytest.mark.parametrize(
    "quoted",
    [
        'bad: map[{}:{{"data": "hunter2"}}]',
        'bad: {{"{}":"hunter2"}}',
        'bad: {{\\"{}\\":\\"hunter2\\"}}',
        'bad: metadata.annotations[{}]: Invalid value: "hunter2"',
        "bad: {}=hunter2",
        "bad: {}. It was hunter2",
        "bad: {} hunter2",
    ],
)
def test_an_annotation_with_a_copy_is_hidden_however_it_is_quoted(key: str, quoted: str) -> None:
    words = quoted.format(key)
    error = status_error(500, {}, msgspec.json.encode({"message": words}), request="PATCH /x")
    assert error.message.startswith("bad: ")
    assert error.message.endswith("(redacted)")
    assert "hunter2" not in str(error)


def test_the_namespace_of_a_refused_list_of_secrets_is_shown() -> None:
    words = (
        'secrets is forbidden: User "a" cannot list resource "secrets" in the namespace "data-b"'
    )
    body = msgspec.json.encode({"message": words, "reason": "Forbidden"})
    assert status_error(403, {}, body, request="list secrets.v1").message == words


_PATH = "/apis/acme.io/v1/namespaces/shop/users/ann"
_OURS = {"group": "acme.io", "kind": "users", "name": "ann"}
_CORE = "/api/v1/namespaces/shop/configmaps/m1"


@pytest.mark.parametrize(
    ("path", "details", "is_named"),
    [
        pytest.param(_PATH, _OURS, True, id="object"),
        pytest.param(_PATH, {**_OURS, "kind": "user"}, True, id="kind-of-an-extension-server"),
        pytest.param(_PATH, {"kind": "users", "name": "ann"}, True, id="without-group"),
        pytest.param(_PATH, {"name": "ann"}, True, id="name-alone"),
        pytest.param(_PATH, {"kind": "pods", "name": "ann"}, False, id="core-object"),
        pytest.param(f"{_PATH}/status", _OURS, True, id="subresource"),
        pytest.param(_PATH, {}, False, id="nothing"),
        pytest.param(_PATH, {**_OURS, "name": "bob"}, False, id="another-name"),
        pytest.param(_PATH, {**_OURS, "group": "other.io"}, False, id="another-group"),
        pytest.param(_PATH, {"kind": "namespaces", "name": "shop"}, False, id="its-namespace"),
        pytest.param(_CORE, {"kind": "configmaps", "name": "m1"}, True, id="core"),
        pytest.param(_CORE, {"kind": "services", "name": "m1"}, False, id="another-core-kind"),
        pytest.param(
            "/api/v1/namespaces/shop/pods/a/ephemeralcontainers",
            {"kind": "pods/ephemeralcontainers", "name": "a"},
            True,
            id="kind-of-a-subresource",
        ),
        pytest.param(
            _CORE,
            {"group": "cluster.karmada.io", "kind": "clusters", "name": "m1"},
            False,
            id="cluster-of-a-proxy",
        ),
        pytest.param(
            "/api/v1/namespaces/shop/configmaps",
            {"kind": "namespaces", "name": "shop"},
            True,
            id="namespace-of-a-create",
        ),
        pytest.param(
            "/api/v1/namespaces/shop/finalize",
            {"kind": "namespaces", "name": "shop"},
            True,
            id="namespace",
        ),
        pytest.param(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            {
                "group": "rbac.authorization.k8s.io",
                "kind": "clusterroles",
                "name": "system:node",
            },
            True,
            id="quoted-name",
        ),
        pytest.param("/api/v1/nodes", {"kind": "nodes", "name": "a"}, False, id="collection"),
        pytest.param("/version", {"kind": "version", "name": "version"}, False, id="no-resource"),
        pytest.param("", _OURS, False, id="no-path"),
    ],
)
def test_a_status_names_the_object_of_the_request_and_no_other(
    path: str, details: dict[str, str], is_named: bool
) -> None:
    body = msgspec.json.encode({"kind": "Status", "reason": "NotFound", "details": details})
    assert status_error(404, {}, body, path=path).names_object is is_named
