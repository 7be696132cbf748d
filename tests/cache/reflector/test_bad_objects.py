"""Objects that cannot be read, or are too long to be kept, over real HTTP: one bad key each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import json

from pyinformer import View
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.errors import InvalidArgumentError, InvalidObjectError
from pyinformer.objects import METADATA_BYTES
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import (
    Running,
    is_load,
    listed,
    options,
    put,
    reflecting,
    remove,
    verbs,
)
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject

LIMIT = 20_000


class _Spec(View):
    priority: int = 0


class PodView(View):
    """What is read of a pod."""

    spec: _Spec = _Spec()


def pod(name: str, **spec: Any) -> JSONObject:
    """Return a pod."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def huge(name: str) -> JSONObject:
    """Return a pod over the limit."""
    return pod(name, nodeName="x" * 2 * LIMIT)


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a", "b")
        yield running


@pytest.fixture(params=["list", "watch-list"])
def small(request: pytest.FixtureRequest) -> ReflectorOptions:
    """Options with a low limit, for both ways to load."""
    return options(max_object_bytes=LIMIT, use_watch_list=request.param == "watch-list")


async def until_held(running: Running, name: str) -> None:
    """Wait until the sink has the newest state of a pod."""
    key = f"default/{name}"
    await until(
        lambda: running.sink.versions().get(key) == listed(running.server).get(key), what=key
    )


async def test_an_object_that_is_bad_at_a_thousand_good_ones_is_one_bad_key(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(999):
        server.create(pod(f"p{number}", priority=number))
    server.create(pod("bad", priority="high"))
    async with reflecting(server, view=PodView) as running:
        await running.until_equal()
        bad = running.sink.objects["default/bad"]
        assert bad.problem
        assert bad.at("spec.priority") == "high"
        with pytest.raises(InvalidObjectError):
            _ = bad.view
        assert sum(bool(obj.problem) for obj in running.sink.objects.values()) == 1
        assert running.counts() == {"undecodable:kept": 1}
        assert running.reflector.quarantined() == ("default/bad",)
    assert [one.__dict__["key"] for one in caplog.records if "key" in one.__dict__] == [
        "default/bad"
    ]


async def test_the_last_good_state_stays_reachable_and_is_marked_stale(server: APIServer) -> None:
    server.create(pod("web", priority=1))
    async with reflecting(server, view=PodView) as running:
        await running.until_watching()
        good = listed(server)["default/web"]
        assert running.reflector.last_good("default/web") is None
        for value in ("high", "higher"):
            server.update(pod("web", priority=value))
        await until_held(running, "web")
        stale = running.reflector.last_good("default/web")
        assert stale is not None
        assert stale.object.metadata.resource_version == good
        assert stale.object.at("spec.priority") == 1
        assert stale.newest_resource_version == listed(server)["default/web"]
        server.update(pod("web", priority=5))
        await until_held(running, "web")
        assert running.reflector.last_good("default/web") is None
        assert running.reflector.quarantined() == ()
        assert verbs(server).count("list") == 1


async def test_a_relist_keeps_the_last_good_state(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.create(pod("web", priority=1))
    async with reflecting(server, view=PodView) as running:
        await running.until_watching()
        server.update(pod("web", priority="high"))
        await until_held(running, "web")
        for loads in (2, 3):
            server.faults.add(Fault(verb="watch", status=410))
            server.end_watches()
            await running.until_watching(loads=loads)
        stale = running.reflector.last_good("default/web")
        assert stale is not None
        assert stale.object.at("spec.priority") == 1
    assert len([one for one in caplog.records if "with a problem" in one.message]) == 1


async def test_a_transform_that_fails_on_one_object_leaves_its_last_good_state_reachable(
    server: APIServer,
) -> None:
    def shorten(obj: JSONObject) -> JSONObject:
        obj["spec"] = {"priority": obj["spec"]["priority"] + 1}
        return obj

    server.create(pod("web", priority=1))
    async with reflecting(server, transform=shorten) as running:
        await running.until_watching()
        server.update(pod("web", priority="high"))
        await until_held(running, "web")
        assert "transform failed: TypeError" in running.sink.objects["default/web"].problem
        stale = running.reflector.last_good("default/web")
        assert stale is not None
        assert stale.object.to_dict()["spec"] == {"priority": 2}


async def test_an_object_over_the_limit_is_known_by_its_metadata(
    server: APIServer, small: ReflectorOptions
) -> None:
    """It is there before the load, arrives by a watch, grows, and goes: the others never notice."""
    server.create(huge("huge"))
    async with reflecting(server, with_options=small) as running:
        await running.until_equal()
        bad = running.sink.objects["default/huge"]
        assert "over the limit: only its metadata is kept" in bad.problem
        assert set(bad.to_dict()) == {"kind", "apiVersion", "metadata"}
        await until(lambda: server.open_watches)
        server.create(huge("later"))
        server.update(huge("a"))
        put(server, "c")
        await running.until_equal()
        stale = running.reflector.last_good("default/a")
        assert stale is not None
        assert "nodeName" in stale.object.to_dict()["spec"]
        remove(server, "huge", "later")
        server.update(pod("a"))
        await running.until_equal()
        assert running.reflector.quarantined() == ()
        assert running.reflector.status().loads == 1
        assert verbs(server).count("watch") == (0 if small.use_watch_list else 1)


async def test_an_object_over_the_limit_survives_a_relist_as_one_record(
    server: APIServer, small: ReflectorOptions
) -> None:
    server.create(huge("huge"))
    async with reflecting(server, with_options=small) as running:
        await running.until_watching()
        first = running.sink.objects["default/huge"]
        server.faults.add(Fault(verb="watch", status=410))
        server.end_watches()
        await running.until_watching(loads=2)
        assert running.sink.objects["default/huge"] is first
        assert {len(history) for history in running.sink.history.values()} == {1}


async def test_metadata_that_follows_a_huge_body_is_found(server: APIServer) -> None:
    low = options(max_object_bytes=LIMIT)
    async with reflecting(server, with_options=low) as running:
        await running.until_watching()
        metadata = {"name": "who", "uid": "u", "resourceVersion": server.resource_version}
        item = {"spec": "x" * 2 * METADATA_BYTES, "metadata": metadata}
        body = json.encode(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": server.resource_version},
                "items": [item],
            }
        )
        server.faults.add(Fault(verb="watch", status=410), Fault(match=is_load, body=body))
        server.end_watches()
        await running.until_watching(loads=2)
        assert sorted(running.sink.objects) == ["who"]
        assert "undecodable:skipped" not in running.counts()


async def test_objects_that_cannot_be_identified_cost_no_list_and_one_comparison(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """However often they come, and each another: the others' events arrive, in one stream."""
    suspected: list[str] = []
    low = options(max_object_bytes=LIMIT)
    async with reflecting(server, with_options=low, on_suspicion=suspected.append) as running:
        await running.until_watching()
        for number in range(20):
            size = 2 * LIMIT * (number % 2)
            server.emit("v1", "pods", "MODIFIED", {"spec": "x" * size, "number": number})
            put(server, f"c{number}")
        await running.until_equal()
        assert running.counts()["undecodable:skipped"] == 20
        assert verbs(server) == ["list", "watch"]
    assert suspected == ["an object cannot be identified"]
    assert len([one for one in caplog.records if "cannot be identified" in one.message]) == 1


@pytest.mark.parametrize("kind", ["BOOKMARK", "ERROR", "BROKEN"])
async def test_a_huge_line_without_an_object_is_unreadable(server: APIServer, kind: str) -> None:
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "x": "x" * 2 * LIMIT}
    low = options(max_object_bytes=LIMIT)
    async with reflecting(server, with_options=low) as running:
        await running.until_watching()
        server.emit("v1", "pods", kind, body)
        await until(lambda: running.counts().get("unknown_events") == 1)
        put(server, "c")
        await running.until_equal()
        assert running.reflector.status().loads == 1


@pytest.mark.parametrize("limit", [0, -1, 4095])
def test_a_limit_that_fits_no_object_is_refused(limit: int) -> None:
    with pytest.raises(InvalidArgumentError, match="must be an integer >= 4096, got"):
        ReflectorOptions(max_object_bytes=limit)


async def test_an_object_whose_metadata_is_over_the_limit_is_known_by_it(
    server: APIServer, small: ReflectorOptions
) -> None:
    """What kubectl has applied stands in an annotation: an object is mostly its metadata then.

    Each change of such an object would else stop the watch, and after the first for ten minutes.
    """
    weighty = huge("weighty")
    weighty["metadata"]["annotations"] = {"applied": "x" * 2 * LIMIT}
    server.create(weighty)
    async with reflecting(server, with_options=small) as running:
        await running.until_equal()
        assert running.sink.objects["default/weighty"].problem
        await until(lambda: server.open_watches)
        for number in range(3):
            weighty["metadata"]["annotations"]["number"] = f"{number}"
            server.update(weighty)
        put(server, "c")
        await running.until_equal()
        assert running.reflector.status().loads == 1
        assert "unknown_events" not in running.counts()


def deep(server: APIServer, name: str, *, levels: int = 9_994) -> bytes:
    """Return a pod of the next version that is nested so deeply, in its managedFields too."""
    server.advance_resource_version()
    version = server.resource_version
    value = '{"f:a":' * levels + "1" + "}" * levels
    meta = f'"managedFields":[{{"fieldsV1":{value}}}],"name":"{name}","namespace":"default",'
    meta += f'"labels":{{"team":"red"}},"resourceVersion":"{version}","uid":"{name}"'
    text = f'{{"apiVersion":"v1","kind":"Pod","metadata":{{{meta}}},"spec":{{"x":{value}}}}}'
    return text.encode()


async def test_an_object_that_is_nested_deeply_costs_no_other_an_event(server: APIServer) -> None:
    """Patched again and again, it neither ends the watch nor hides a deletion."""
    put(server, "gone")
    async with reflecting(server) as running:
        await running.until_watching()
        for number in range(20):
            line = b'{"type":"MODIFIED","object":%s}\n' % deep(server, "deep")
            server.emit_raw("v1", "pods", line)
            put(server, "a", value=f"n{number}")
        remove(server, "gone")
        good = listed(server)
        await until(lambda: running.sink.versions().items() >= good.items())
        await until(lambda: "default/gone" not in running.sink.objects)
        found = running.sink.objects["default/deep"]
        assert found.metadata.labels["team"] == "red"
        if sys.version_info < (3, 12):  # the interpreter's own limit is lower
            assert "nested too deeply" in found.problem
            assert running.reflector.quarantined() == ("default/deep",)
        assert verbs(server) == ["list", "watch"]
        assert "unknown_events" not in running.counts()


async def test_a_list_with_an_object_that_is_nested_deeply_deletes_others(
    server: APIServer,
) -> None:
    put(server, "gone")
    async with reflecting(server) as running:
        await running.until_watching()
        remove(server, "gone")
        items = [json.encode(one) for one in server.list("v1", "pods")]
        items = [deep(server, "first"), *items, deep(server, "last")]
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%s"},"items":['
        body = head % server.resource_version.encode() + b",".join(items) + b"]}"
        server.faults.add(Fault(verb="watch", status=410), Fault(match=is_load, body=body))
        server.end_watches()
        await running.until_watching(loads=2)
        names = ["default/a", "default/b", "default/first", "default/last"]
        assert sorted(running.sink.objects) == names
        assert "undecodable:skipped" not in running.counts()
        put(server, "a", value="later")
        good = listed(server)
        await until(lambda: running.sink.versions().items() >= good.items())


async def test_a_null_in_a_list_is_an_object_without_a_name(server: APIServer) -> None:
    """Encoders of other languages send one; Go's decoders make an object without fields of it."""
    put(server, "gone")
    async with reflecting(server) as running:
        await running.until_watching()
        remove(server, "gone")
        items = [b"null", *(json.encode(one) for one in server.list("v1", "pods")), b"null"]
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%s"},"items":['
        body = head % server.resource_version.encode() + b",".join(items) + b"]}"
        server.faults.add(Fault(verb="watch", status=410), Fault(match=is_load, body=body))
        server.end_watches()
        await running.until_watching(loads=2)
        assert running.sink.objects.keys() >= {"default/a", "default/b"}
        assert running.counts()["undecodable:skipped"] == 2
        put(server, "a", value="later")
        good = listed(server)
        await until(lambda: running.sink.versions().items() >= good.items())


def wide(server: APIServer, *, is_named_first: bool) -> bytes:
    """Return a pod of the next version with many fields, and one that is nested deeply."""
    nested = deep(server, "wide")
    many = ",".join(f'"k{number}":1' for number in range(12_000)).encode()
    parts = (nested[1:-1], many) if is_named_first else (many, nested[1:-1])
    return b"{%s}" % b",".join(parts)


@pytest.mark.parametrize("limit", [LIMIT, 64 << 20])
@pytest.mark.parametrize("is_named_first", [True, False])
async def test_an_object_with_endless_fields_costs_no_other_an_event(
    server: APIServer, limit: int, *, is_named_first: bool
) -> None:
    """It is not read to its end, which would hold up the event loop for seconds."""
    put(server, "gone")
    async with reflecting(server, with_options=options(max_object_bytes=limit)) as running:
        await running.until_watching()
        for number in range(5):
            text = wide(server, is_named_first=is_named_first)
            server.emit_raw("v1", "pods", b'{"type":"MODIFIED","object":%s}\n' % text)
            put(server, "a", value=f"n{number}")
        remove(server, "gone")
        good = listed(server)
        await until(lambda: running.sink.versions().items() >= good.items())
        await until(lambda: "default/gone" not in running.sink.objects)
        assert verbs(server) == ["list", "watch"]
        assert "unknown_events" not in running.counts()


@pytest.mark.parametrize("limit", [LIMIT, 64 << 20])
@pytest.mark.parametrize("is_named_first", [True, False])
async def test_a_list_with_an_object_of_endless_fields_is_taken(
    server: APIServer, limit: int, *, is_named_first: bool
) -> None:
    async with reflecting(server, with_options=options(max_object_bytes=limit)) as running:
        await running.until_watching()
        items = [json.encode(one) for one in server.list("v1", "pods")]
        bad = wide(server, is_named_first=is_named_first)
        items = [bad, *items, bad]
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%s"},"items":['
        body = head % server.resource_version.encode() + b",".join(items) + b"]}"
        server.faults.add(Fault(verb="watch", status=410), Fault(match=is_load, body=body))
        server.end_watches()
        await running.until_watching(loads=2)
        assert running.sink.objects.keys() >= {"default/a", "default/b"}
        put(server, "a", value="later")
        good = listed(server)
        await until(lambda: running.sink.versions().items() >= good.items())
