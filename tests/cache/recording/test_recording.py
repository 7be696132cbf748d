"""A recording keeps everything, stays within its limits, and never disturbs the informer."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer.cache.informer import core_of
from pyinformer.cache.recording import Mask, RecordingWriter, read_recording
from pyinformer.cache.recording._writer import Contents, Note
from pyinformer.errors import InvalidArgumentError, LifecycleError, RecordingFileError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault, replay
from tests.cache.recording.incidents import Calls, config_map, contents, open_file, replayed
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.objects import JSONObject

_MIB = 1 << 20


@asynccontextmanager
async def _following(
    server: APIServer, plural: str = "configmaps", **options: Any
) -> AsyncIterator[pyinformer.SharedInformer]:
    async with (
        pyinformer.connect(server=server.url) as cluster,
        pyinformer.SharedInformer(
            cluster, "v1", plural, namespaces=options.pop("namespaces", "default"), **options
        ) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        yield informer


async def _has(informer: pyinformer.SharedInformer, name: str) -> None:
    key = f"default/{name}"
    await informer.wait_for(key, lambda one: one is not None, timeout_seconds=100)


def _large(name: str, kib: int = 64) -> JSONObject:
    return config_map(name, "x" * (kib << 10))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _texts(folder: Path, pattern: str) -> list[str]:
    return [one.read_text() for one in folder.glob(pattern)]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


async def test_a_recording_has_requests_responses_times_and_the_end(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        server.create(config_map("a"))
        async with pyinformer.connect(server=server.url) as cluster:
            maps = pyinformer.SharedInformer(cluster, "v1", "configmaps", namespaces="default")
            async with maps.record(path) as recording, maps:
                await _has(maps, "a")
                server.create(config_map("b"))
                await _has(maps, "b")
    header, request, *rest = _lines(path)

    assert header["pyinformer_recording"] == 1
    assert (header["api_version"], header["plural"]) == ("v1", "configmaps")
    assert header["namespaces"] == ["default"]
    assert any("Secret" in one for one in header["redacted"])
    assert request["path"] == "/api/v1/namespaces/default/configmaps"
    assert ["sendInitialEvents", "true"] in request["query"]
    lines = [one["line"] for one in rest if "line" in one]
    types = [one["type"] for one in lines]
    assert types[:1] == ["ADDED"]
    assert "BOOKMARK" in types
    assert lines[-1]["object"]["metadata"]["name"] == "b"
    assert [one["t"] for one in (request, *rest)] == sorted(one["t"] for one in (request, *rest))
    assert [one["end"] for one in rest if "end" in one] == ["closed"]
    assert rest[-1]["stop"] is True
    assert recording.status().lines == len(lines)
    assert recording.status().error == ""


async def test_a_recording_can_be_read_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        async with _following(server) as maps, maps.record(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_informer_without_a_recording_has_its_own_reader_and_connection(
    tmp_path: Path,
) -> None:
    with APIServer() as server:
        async with _following(server) as maps:
            reflector = core_of(maps).caches.all[0].reflector
            watch_loop = reflector._watch_loop
            assert watch_loop._stream is not None
            _, splitter, applier = watch_loop._stream
            before = reflector.list_watch.connection

            def has_its_own_reader() -> bool:
                return bool(splitter._on_line == applier.on_line)

            async with maps.record(tmp_path / "incident.jsonl"):
                assert not has_its_own_reader()
                assert reflector.list_watch.connection is not before

            assert has_its_own_reader()
            assert reflector.list_watch.connection is before
            server.create(config_map("a"))
            await _has(maps, "a")


async def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    with APIServer() as server:
        server.create({**secret, "stringData": {"password": "hunter2hunter2"}})
        async with _following(server, "secrets") as secrets:
            async with secrets.record(path):
                server.create(
                    {**secret, "metadata": {"name": "b"}, "stringData": {"p": "correct horse"}}
                )
                await _has(secrets, "b")
            cached = contents(secrets)
    values = [next(iter(_data(body).values())) for body in cached.values()]
    written = path.read_bytes()
    outcome, _ = replayed(path)

    assert len(values) == 2
    assert not any(value.encode() in written for value in values)
    assert outcome.cache.keys() == cached.keys()
    assert {key: len(body) for key, body in outcome.cache.items()} == {
        key: len(body) for key, body in cached.items()
    }


@pytest.mark.parametrize(
    "end", [pytest.param(b"\n", id="line-end"), pytest.param(b"", id="no-line-end")]
)
async def test_a_message_about_a_redacted_kind_does_not_reach_the_file(
    tmp_path: Path, end: bytes
) -> None:
    path = tmp_path / "incident.jsonl"
    status = {"kind": "Status", "code": 500, "message": "cannot decode hunter2hunter2"}
    event = msgspec.json.encode({"type": "ERROR", "object": status}) + end
    with APIServer() as server:
        async with _following(server) as maps, maps.record(path, redact=["ConfigMap"]):
            server.faults.add(Fault(verb="watch", body=event, times=1))
            server.end_watches()
            await until(lambda: server.faults.struck)
            server.create(config_map("a"))
            await _has(maps, "a")
    errors = [one["error"] for one in _lines(path) if "error" in one]

    assert [one["status"]["code"] for one in errors] == [500]
    assert b"hunter2" not in path.read_bytes()


async def test_only_lines_with_a_secret_are_changed(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    name = "kubectl.kubernetes.io/last-applied-configuration"
    with APIServer() as server:
        async with _following(server) as maps:
            async with maps.record(path) as recording:
                for number in range(9):
                    one = config_map(f"map-{number}", "\\u0041 < &")
                    metadata: JSONObject = {"name": f"map-{number}"}
                    if number % 3 == 1:
                        metadata["annotations"] = {name: "hunter2hunter2"}
                    server.create({**one, "metadata": metadata})
                await _has(maps, "map-8")
            cached = contents(maps)
    found = {
        one["line"]["object"]["metadata"]["name"]: one["line"]["object"]
        for one in _lines(path)
        if "line" in one
    }
    hidden = {key for key, one in found.items() if "annotations" in one["metadata"]}

    assert recording.status().lines == len(found) == 9
    assert b"hunter2hunter2" not in path.read_bytes()
    assert hidden == {"map-1", "map-4", "map-7"}
    for key in found.keys() - hidden:
        del found[key]["metadata"]["managedFields"]
        assert found[key] == msgspec.json.decode(cached[f"default/{key}"])


def _data(body: bytes) -> dict[str, str]:
    found: dict[str, str] = msgspec.json.decode(body)["data"]
    return found


@pytest.mark.parametrize("trouble", ["exists", "older-exists", "directory-missing"])
async def test_a_file_that_cannot_be_created_is_an_error_that_changes_nothing(
    tmp_path: Path, trouble: str
) -> None:
    path = tmp_path / "incident.jsonl"
    match trouble:
        case "exists":
            path.write_text("mine")
        case "older-exists":
            (tmp_path / "incident.1.jsonl").write_text("mine")
        case _:
            path = tmp_path / "missing" / "incident.jsonl"
    with APIServer() as server:
        async with _following(server) as maps:
            with pytest.raises(RecordingFileError) as caught:
                await maps.record(path).__aenter__()
            assert caught.value.path in {str(path), str(tmp_path / "incident.1.jsonl")}

            async with maps.record(tmp_path / "other.jsonl"):
                server.create(config_map("a"))
                await _has(maps, "a")
    assert all(text == "mine" for text in _texts(tmp_path, "incident*"))


async def test_a_full_disk_ends_the_recording_and_not_the_informer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        async with _following(server) as maps, maps.record(path) as recording:
            full = os.open("/dev/full", os.O_WRONLY)
            try:
                os.dup2(full, open_file(path))
            finally:
                os.close(full)
            server.create(config_map("a"))
            await until(lambda: recording.status().error)
            server.create(config_map("b"))
            await _has(maps, "b")
            assert "No space left" in recording.status().error
    errors = [one for one in caplog.records if "the recording" in one.getMessage()]
    assert len(errors) == 1


async def test_one_informer_has_one_recording_at_a_time(tmp_path: Path) -> None:
    with APIServer() as server:
        async with _following(server) as maps:
            async with maps.record(tmp_path / "a.jsonl") as recording:
                with pytest.raises(LifecycleError, match="recorded already"):
                    await maps.record(tmp_path / "b.jsonl").__aenter__()
            with pytest.raises(LifecycleError, match="once"):
                await recording.__aenter__()
            async with maps.record(tmp_path / "b.jsonl"):
                pass
    assert not replay(tmp_path / "b.jsonl").problems


@pytest.mark.parametrize(
    "arguments",
    [{"max_bytes": 1000}, {"redact": ["v1/configmaps"]}, {"redact": "configmaps"}],
    ids=["small", "no-kind", "plural"],
)
async def test_arguments_that_cannot_work_are_refused(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    with APIServer() as server:
        async with _following(server) as maps:
            with pytest.raises(InvalidArgumentError):
                maps.record(tmp_path / "incident.jsonl", **arguments)


@pytest.mark.parametrize("name", ["", ".", "a\0b"], ids=["empty", "folder", "null"])
async def test_a_path_that_names_no_file_is_refused(name: str) -> None:
    with APIServer() as server:
        async with _following(server) as maps:
            with pytest.raises(InvalidArgumentError, match="must name a file"):
                maps.record(name)


async def test_a_name_that_is_too_long_is_an_error_of_the_file(tmp_path: Path) -> None:
    with APIServer() as server:
        async with _following(server) as maps:
            with pytest.raises(RecordingFileError, match="too long"):
                await maps.record(tmp_path / ("a" * 300)).__aenter__()


async def test_a_writer_that_ends_unexpectedly_says_why(tmp_path: Path) -> None:
    mask = Mask(GroupVersionResource.of("v1", "pods"))
    writer = RecordingWriter(tmp_path / "incident.jsonl", mask, max_bytes=_MIB)
    writer.create(b"{}\n")
    writer.start(lambda _: None, on_full=lambda: None, on_room=lambda: None)

    writer.put(0.0, 1, Contents(map(int, ["no item"]), {}))  # type: ignore[arg-type]  # what is tested
    await until(lambda: writer.statistics().error)

    writer.begin_close()
    writer.join(100)
    assert "ValueError" in writer.statistics().error


def test_after_a_line_that_does_not_fit_none_is_kept_until_the_end(tmp_path: Path) -> None:
    mask = Mask(GroupVersionResource.of("v1", "pods"))
    writer = RecordingWriter(tmp_path / "incident.jsonl", mask, max_bytes=64 << 10)
    writer.create(b"{}\n")
    for number, size in ((1, 30_000), (2, 9_000), (3, 10)):
        text = b'{"x":"%b"}' % (b"a" * size)
        writer.put_line(1.0, number, text, 0, len(text))
        writer.put(1.0, number, Note({"note": number}))  # lines before it are a batch of their own
    writer.put(1.0, 0, Note({"stop": True}))
    writer.start(lambda _: None, on_full=lambda: None, on_room=lambda: None)
    writer.begin_close()
    writer.join(100)

    _, *kept, gap, stop = _lines(tmp_path / "incident.jsonl")
    assert [line.get("of", line.get("note")) for line in kept] == [1, 1]
    assert gap["gap"] == writer.statistics().dropped_bytes > 9_000
    assert stop["stop"] is True


async def test_an_oversized_line_that_is_not_an_object_is_recorded_as_unreadable(
    tmp_path: Path,
) -> None:
    path = tmp_path / "incident.jsonl"
    options = pyinformer.cache.ReflectorOptions(max_object_bytes=4_096)
    with APIServer() as server:
        async with _following(server, options=options) as maps, maps.record(path):
            server.emit_raw("v1", "configmaps", b"[%b]\n" % (b"1," * 3_000), namespace="default")
            server.create(config_map("a"))  # the informer has listed again, or follows the watch
            await _has(maps, "a")

    assert [line["unreadable"] for line in _lines(path) if "unreadable" in line] == [6_002]
    outcome, _ = replayed(path)
    assert outcome.cache.keys() == {"default/a"}


async def test_a_cancelled_start_records_nothing(tmp_path: Path) -> None:
    with APIServer() as server:
        async with _following(server) as maps:
            beginning = asyncio.ensure_future(maps.record(tmp_path / "a.jsonl").__aenter__())
            await asyncio.sleep(0)
            beginning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await beginning

            async with maps.record(tmp_path / "b.jsonl"):
                server.create(config_map("a"))
                await _has(maps, "a")
    assert not replay(tmp_path / "b.jsonl").problems


async def test_a_cancelled_end_has_written_what_arrived(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        async with _following(server) as maps:
            recording = await maps.record(path).__aenter__()
            server.create(config_map("a"))
            await _has(maps, "a")
            ending = asyncio.ensure_future(recording.__aexit__(None, None, None))
            await asyncio.sleep(0)
            ending.cancel()
            await asyncio.wait([ending])
    assert _lines(path)[-1]["stop"] is True


async def test_each_file_of_a_rotated_recording_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    handler = Calls()
    with APIServer() as server:
        async with _following(server) as maps:
            maps.add_event_handler(handler, mailbox_size=100_000)
            async with maps.record(path, max_bytes=2 * _MIB) as recording:
                for number in range(60):
                    server.create(_large(f"map-{number}"))
                    await _has(maps, f"map-{number}")
                    server.delete("v1", "configmaps", f"map-{number}")
                server.create(config_map("last"))
                await _has(maps, "last")
            cached = contents(maps)
    files = _files(tmp_path)
    outcome, _ = replayed(path)

    assert [one.name for one in files] == ["incident.1.jsonl", "incident.jsonl"]
    assert sum(one.stat().st_size for one in files) <= 2 * _MIB
    assert recording.status().files > 2
    assert recording.status().error == ""
    assert outcome.cache == cached
    changes = outcome.calls[1:]  # after at most one object of the snapshot
    assert changes == handler.calls[len(handler.calls) - len(changes) :]
    with pytest.warns(UserWarning, match="not ended"):
        earlier, _ = replayed(files[0])
    found = [one for one in earlier.calls if one.event == "Deleted"]
    assert found
    assert set(found) <= set(handler.calls)
    assert read_recording(files[0]).header.file_number == recording.status().files - 1


async def test_a_recording_continues_when_the_program_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with APIServer() as server:
        async with (
            _following(server) as maps,
            maps.record("incident.jsonl", max_bytes=2 * _MIB) as recording,
        ):
            monkeypatch.chdir("/")
            for number in range(30):
                server.create(_large(f"map-{number}"))
                await _has(maps, f"map-{number}")
                server.delete("v1", "configmaps", f"map-{number}")
            await until(lambda: recording.status().files > 1, what=recording.status())
    assert recording.status().error == ""
    assert [one.name for one in _files(tmp_path)] == ["incident.1.jsonl", "incident.jsonl"]


async def test_a_cache_larger_than_the_limit_ends_the_recording_with_the_reason(
    tmp_path: Path,
) -> None:
    with APIServer() as server:
        for number in range(12):
            server.create(_large(f"map-{number}"))
        async with (
            _following(server) as maps,
            maps.record(tmp_path / "incident.jsonl", max_bytes=_MIB) as recording,
        ):
            await until(lambda: recording.status().error)
            assert "max_bytes must be larger" in recording.status().error


async def test_after_a_gap_a_recording_continues_with_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "incident.jsonl"
    monkeypatch.setattr("pyinformer.cache.recording._writer._MOST_WAITING_BYTES", 200 << 10)
    with APIServer() as server:
        server.create(config_map("first"))
        async with _following(server) as maps:
            async with maps.record(path) as recording:
                for number in range(20):
                    server.create(_large(f"map-{number}"))
                await _has(maps, "map-19")
                await until(lambda: recording.status().gaps)
                server.create(config_map("last"))
                await _has(maps, "last")
            cached = contents(maps)
    with pytest.warns(UserWarning, match="gap"):
        outcome, _ = replayed(path)

    assert recording.status().dropped_bytes > 0
    assert outcome.cache == cached


async def test_namespaces_that_are_followed_later_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        for namespace in ("one", "two", "three"):
            server.ensure_namespace(namespace)
            server.create(config_map(f"map-{namespace}"), namespace=namespace)
        async with _following(server, namespaces=["one", "two"]) as maps:
            async with maps.record(path):
                await maps.set_namespaces(["two", "three"])
                await maps.wait_for_cache_sync(timeout_seconds=100)
                server.create(config_map("last"), namespace="three")
                await maps.wait_for("three/last", lambda one: one is not None, timeout_seconds=100)
            cached = contents(maps)
    outcome, _ = replayed(path)

    assert outcome.cache == cached
    assert {call.key for call in outcome.calls} >= {"one/map-one", "three/last"}


async def test_a_namespace_that_is_not_followed_any_more_is_not_in_the_next_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        for namespace in ("one", "two"):
            server.ensure_namespace(namespace)
            server.create(config_map(f"map-{namespace}"), namespace=namespace)
        async with _following(server, namespaces=["one", "two"]) as maps:
            async with maps.record(path, max_bytes=_MIB) as recording:
                await maps.set_namespaces(["two"])
                number = 0
                while recording.status().files < 2:
                    number += 1
                    server.create(_large(f"map-{number}"), namespace="two")
                    await maps.wait_for(
                        f"two/map-{number}", lambda one: one is not None, timeout_seconds=100
                    )
                    server.delete("v1", "configmaps", f"map-{number}", namespace="two")
                server.create(config_map("last"), namespace="two")
                await maps.wait_for("two/last", lambda one: one is not None, timeout_seconds=100)
            cached = contents(maps)
    assert "namespaces/one/" not in path.read_text()
    outcome, _ = replayed(path)
    assert outcome.cache == cached


@pytest.mark.parametrize("memory", ["raw", "metadata"])
async def test_a_recording_of_each_memory_mode_is_replayed_in_it(
    tmp_path: Path, memory: Any
) -> None:
    path = tmp_path / "incident.jsonl"
    with APIServer() as server:
        server.create(config_map("a"))
        async with _following(server, memory=memory) as maps:
            async with maps.record(path):
                server.create(config_map("b"))
                await _has(maps, "b")
            cached = contents(maps)
    outcome, _ = replayed(path)

    assert outcome.cache == cached


def test_a_program_without_a_loop_records(tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    with (
        APIServer() as server,
        pyinformer.run_in_thread() as runner,
        runner.connect(server=server.url) as cluster,
        cluster.informer_factory() as factory,
    ):
        maps = factory.informer("v1", "configmaps", namespaces="default")
        factory.start()
        maps.wait_for_cache_sync(timeout_seconds=100)
        with maps.record(path) as recording:
            server.create(config_map("a"))
            maps.wait_for("default/a", lambda one: one is not None, timeout_seconds=100)
        assert recording.status().lines == 1
    assert replayed(path)[0].cache.keys() == {"default/a"}
