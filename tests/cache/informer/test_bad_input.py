"""What a server should never send: each is named, healed if it can be, and loses nothing cached."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.cache.informer import InformerSettings, SharedInformer, SharedInformerFactory
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import BytesTransform
from pyinformer.testing import Fault
from tests.cache.informer.clusters import HURRIED, Notes, cluster_of, informer_of, listed, pod
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer


def event(body: bytes, kind: bytes = b"MODIFIED") -> bytes:
    """Return a line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (kind, body)


def wire_pod(extra: bytes, version: bytes = b"900") -> bytes:
    """Return the pod `default/a` with something in it."""
    return (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u",'
        b'"resourceVersion":"' + version + b'"},"spec":{' + extra + b"}}"
    )


DEPTH = 10_000

LINES = [
    pytest.param(b"\x00\x01\x02\n", id="binary"),
    pytest.param(b"not json\n", id="text"),
    pytest.param(b"{}\n", id="empty-object"),
    pytest.param(b"[]\n", id="array"),
    pytest.param(b"null\n", id="null"),
    pytest.param(event(b"7"), id="number-as-object"),
    pytest.param(event(b"{}"), id="no-metadata"),
    pytest.param(event(wire_pod(b""), b"RENAMED"), id="unknown-type"),
    pytest.param(event(wire_pod(b'"a":"\xff\xfe"')), id="invalid-utf-8"),
    pytest.param(event(wire_pod(b'"a":1e999')), id="number-out-of-range"),
    pytest.param(event(wire_pod(b'"a":' + b"9" * 5000)), id="long-number"),
    pytest.param(event(wire_pod(b'"a":' + b"[" * DEPTH + b"]" * DEPTH)), id="deep"),
    pytest.param(event(wire_pod(b'"a":1,"a":2')), id="duplicate-keys"),
    pytest.param(event(wire_pod(b"", version=b"abc")), id="malformed-version"),
    pytest.param(event(wire_pod(b"", version=b"")), id="no-version"),
    pytest.param(event(b'{"kind":"Status","code":410}', b"ERROR"), id="gone"),
    pytest.param(event(b'"text"', b"ERROR"), id="error-of-text"),
    pytest.param(event(b"{}", b"BOOKMARK"), id="bookmark-without-version"),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("mutation_detector", "debug", id="a-mode-for-a-detector"),
        pytest.param("options", {"page_size": 5}, id="a-dict-for-options"),
    ],
)
async def test_an_invalid_mass_delete_policy_is_refused_at_once(
    apiserver: APIServer, name: str, value: Any
) -> None:
    async with cluster_of(apiserver) as cluster:
        for make in (
            partial(SharedInformerFactory, cluster),
            partial(SharedInformer, cluster, "v1", "pods"),
        ):
            with pytest.raises(InvalidTypeError, match=f"^{name}: "):
                make(**{name: value})


def test_a_transform_that_cannot_be_called_is_refused_at_once() -> None:
    with pytest.raises(InvalidTypeError, match=r"^transform: "):
        InformerSettings(transform=5)  # type: ignore[arg-type] # refused


async def _waits(obj: Any) -> Any:
    return obj


class _Waits:
    async def __call__(self, obj: Any) -> Any:
        return obj


@pytest.mark.parametrize("function", [_waits, partial(_waits), _Waits()])
async def test_an_asynchronous_function_is_refused_where_none_waits_for_its_result(
    apiserver: APIServer, function: Any
) -> None:
    refused = pytest.raises(InvalidTypeError, match=r"_[wW]aits.*must not be asynchronous")
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods") as pods,
    ):
        for transform in (function, BytesTransform(function)):
            with refused:
                SharedInformer(cluster, "v1", "pods", transform=transform)
        with refused:
            pods.add_index("node", function)
        with refused:
            pods.on_state_change(function)
        with refused:
            await pods.wait_for("default/a", function)


@pytest.mark.parametrize("line", LINES)
async def test_a_bad_line_loses_nothing_that_is_cached(apiserver: APIServer, line: bytes) -> None:
    """The cache stays readable throughout, and is right again once the server is."""
    notes = Notes()
    for name in ("a", "b"):
        apiserver.create(pod(name))
    async with informer_of(apiserver) as informer:
        informer.add_event_handler(notes)
        assert apiserver.emit_raw("v1", "pods", line) == 1
        apiserver.create(pod("c"))
        await until(lambda: informer.lister.get("default/c"))
        assert len(informer.lister.list()) == 3
        apiserver.patch("v1", "pods", "b", {"metadata": {"labels": {"a": "b"}}})
        await until(lambda: notes.mirror.keys() == listed(apiserver).keys())
        await until(lambda: notes.mirror["default/b"] == listed(apiserver)["default/b"])

        assert informer.crash is None
        assert informer.lister["default/b"].metadata.labels == {"a": "b"}
    assert notes.faults == []


LISTS = [
    pytest.param(b"", "list pods.v1", id="empty"),
    pytest.param(b"<html>proxy</html>", "list pods.v1", id="html"),
    pytest.param(b'{"kind":"PodList"', "list pods.v1", id="cut"),
    pytest.param(b'{"kind":"Table","items":[]}', "list", id="no-list"),
    pytest.param(
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[7]}',
        "",
        id="number-as-item",
    ),
    pytest.param(
        b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}', "", id="no-version"
    ),
]


@pytest.mark.parametrize(("body", "words"), LISTS)
async def test_a_bad_list_is_reported_and_requested_again(
    apiserver: APIServer, body: bytes, words: str
) -> None:
    apiserver.create(pod("a"))
    apiserver.watch_list = False
    apiserver.faults.add(Fault(resource="pods", verb="list", body=body))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", options=HURRIED) as informer,
    ):
        await until(lambda: informer.status().reflector.last_error or informer.has_synced)
        error = informer.status().reflector.last_error
        await informer.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: informer.lister.get("default/a"))

    assert error is not None
    assert words in error


async def test_managed_fields_elsewhere_in_an_object_are_kept(apiserver: APIServer) -> None:
    body = pod("a")
    body["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    body["spec"]["managedFields"] = [{"mine": True}]
    apiserver.create(body)
    async with informer_of(apiserver) as informer:
        found = informer.lister["default/a"].to_dict()

    assert "managedFields" not in found["metadata"]
    assert found["spec"]["managedFields"] == [{"mine": True}]
