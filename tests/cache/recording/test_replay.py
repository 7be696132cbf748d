"""A replay is what a regression test of an incident needs: real, exact, and over at once."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyinformer
from pyinformer.cache.informer import informer_in_range
from pyinformer.cache.recording import RecordedShard
from pyinformer.cache.reflector import MassDeletePolicy, ReflectorOptions, ReflectorState
from pyinformer.errors import (
    InvalidArgumentError,
    LifecycleError,
    RecordingFileError,
    RecordingFormatError,
    RecordingVersionError,
    ReplayDivergedError,
)
from pyinformer.objects import UidRange
from pyinformer.testing import APIServer, IncompleteRecordingWarning, replay
from tests.cache.recording.incidents import Calls, config_map, contents, replayed
from tests.soak import examples
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# Written by version 0.1.0 in format version 1. Every later version has to read it: never change it.
VERSION_1 = Path(__file__).parent / "version_1.jsonl"


class _View(pyinformer.View):
    """The phase of a pod."""

    class Status(pyinformer.View):
        """Of a pod."""

        phase: str = ""

    status: Status = Status()


def test_a_recording_of_format_version_1_is_read_by_this_version() -> None:
    handler = Calls()
    with replay(VERSION_1) as played:
        pods = played.informer(model=_View)
        pods.add_event_handler(handler)
        played.run()
        phases = {str(pod.key): pod.view.status.phase for pod in pods.lister.list()}

    assert played.header.pyinformer_recording == 1
    assert phases == {"default/api": "Running", "default/job": "Succeeded"}
    assert [(call.event, call.key) for call in handler.calls] == [
        ("Added", "default/api"),
        ("Added", "default/web"),
        ("Added", "default/job"),
        ("Updated", "default/job"),
        ("Deleted", "default/web"),
    ]


def test_handlers_are_called_at_the_recorded_distances_of_time() -> None:
    _, times = replayed(VERSION_1)

    assert [round(at - times[0], 1) for at in times] == [0.0, 0.0, 40.0, 90.0, 150.0]


def test_a_replay_stops_where_it_is_asked_to_and_continues() -> None:
    handler = Calls()
    with replay(VERSION_1) as played:
        pods = played.informer()
        pods.add_event_handler(handler)
        played.run(until_seconds=70.0)
        assert "default/web" in contents(pods)
        assert len(handler.calls) == 3
        assert pods.state is ReflectorState.WATCHING

        played.run()
        assert "default/web" not in contents(pods)
        assert played.duration_seconds > 150

    assert contents(pods).keys() == {"default/api", "default/job"}  # readable after the end


@pytest.mark.parametrize(
    "options",
    [ReflectorOptions(mass_delete=None), ReflectorOptions(mass_delete=MassDeletePolicy(share=0.1))],
    ids=["unconfirmed", "confirmed-by-other-rules"],
)
async def test_a_replay_confirms_lists_as_the_recorded_informer_did(
    tmp_path: Path, apiserver: APIServer, options: ReflectorOptions
) -> None:
    def lose_all() -> None:
        """Delete everything while the watch is down, and forget that it was there."""
        apiserver.stop_accepting()
        apiserver.drop_connections()
        for name in names:
            apiserver.delete("v1", "configmaps", name, "default")
        apiserver.restart(keep_history=False)
        apiserver.accept_again()

    names = [f"c{number}" for number in range(12)]
    for name in names:
        apiserver.create(_config_map(name))
    async with _followed(apiserver, options) as maps, maps.record(tmp_path / "all.jsonl"):
        await asyncio.to_thread(lose_all)
        await until(lambda: not maps.lister.list())
    with replay(tmp_path / "all.jsonl") as played:
        replayed_maps = played.informer()
        played.run()
        assert contents(replayed_maps) == {}


def _config_map(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@asynccontextmanager
async def _followed(
    server: APIServer, options: ReflectorOptions
) -> AsyncIterator[pyinformer.SharedInformer[Any]]:
    async with (
        pyinformer.connect(server=server.url) as cluster,
        pyinformer.SharedInformerFactory(cluster, options=options) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=30)
        yield informer


async def test_a_replay_has_the_share_of_the_recorded_informer(tmp_path: Path) -> None:
    """The requests ask for it, and a server may send what is outside of it."""
    path = tmp_path / "incident.jsonl"
    with APIServer() as api:
        for number in range(12):
            api.create(config_map(f"m{number}"), namespace="default")
        async with (
            pyinformer.connect(server=api.url) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            maps = informer_in_range(factory, "v1", "configmaps", uid_range=UidRange(1, 3))
            async with maps.record(path):
                await factory.start()
                await factory.wait_for_cache_sync()
            expected = contents(maps)
    with replay(path) as played:
        again = played.informer()
        played.run()
    assert played.header.shard == RecordedShard(index=1, total=3)
    assert contents(again) == expected
    assert 0 < len(expected) < 12


async def test_a_replay_works_inside_of_an_event_loop() -> None:
    outcome, _ = await asyncio.to_thread(replayed, VERSION_1)

    assert replayed(VERSION_1)[0] == outcome


def test_an_asynchronous_handler_waits_in_virtual_time() -> None:
    seen: list[str] = []

    async def handler(event: pyinformer.Event) -> None:
        """Take an hour for each event."""
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(3600, passed.set)
        await passed.wait()
        seen.append(type(event).__name__)

    with replay(VERSION_1) as played:
        played.informer().add_event_handler(handler)
        played.run()

    assert seen == ["Added", "Added", "Added", "Updated", "Deleted"]


def test_what_a_handler_raises_is_logged_as_in_production(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handler(event: pyinformer.Event) -> None:
        """Have the bug of the incident."""
        raise KeyError(type(event).__name__)

    with replay(VERSION_1) as played:
        pods = played.informer()
        pods.add_event_handler(handler)
        played.run()
        (status,) = pods.status().handlers

    assert status.failed == 5
    assert "KeyError" in caplog.text


def test_a_replay_takes_no_writes() -> None:
    errors: list[Exception] = []

    with replay(VERSION_1) as played:
        cluster = played.cluster

        async def handler(event: pyinformer.Event) -> None:
            """Delete what appears."""
            if isinstance(event, pyinformer.Added):
                try:
                    await cluster.delete("v1", "pods", str(event.object.key))
                except LifecycleError as error:
                    errors.append(error)

        played.informer().add_event_handler(handler)
        played.run()

    assert len(errors) == 3
    assert "no server" in str(errors[0])


def test_calls_in_the_wrong_order_are_refused() -> None:
    with replay(VERSION_1) as played:
        with pytest.raises(LifecycleError, match="informer"):
            played.run()
        played.informer()
        with pytest.raises(LifecycleError, match="one informer"):
            played.informer()
    played.close()
    with pytest.raises(LifecycleError, match="closed"):
        played.run()


def test_a_foreign_file_is_not_a_recording(tmp_path: Path) -> None:
    for number, text in enumerate(("", "{}\n", "hello\n", '{"kind":"Pod"}\n', "\x00\xff\n", "{")):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(text, encoding="latin-1")
        with pytest.raises(RecordingFormatError, match="not a recording") as caught:
            replay(path)
        assert (caught.value.path, caught.value.line) == (str(path), 1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match=r"missing\.jsonl"):
        replay(tmp_path / "missing.jsonl")


def test_a_later_format_is_refused_and_both_versions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "later.jsonl"
    path.write_text('{"pyinformer_recording":7,"pyinformer":"9.1","all":"different"}\n')

    with pytest.raises(RecordingVersionError, match=r"version 7.*9\.1.*up to 1") as caught:
        replay(path)
    assert (caught.value.found, caught.value.supported) == (7, 1)


def test_a_header_with_fields_of_a_later_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "more.jsonl"
    header, *rest = VERSION_1.read_text().splitlines(keepends=True)
    more = {**msgspec.json.decode(header), "added_later": True}
    path.write_text("".join([msgspec.json.encode(more).decode() + "\n", *rest]))

    assert replayed(path) == replayed(VERSION_1)


_STRANGE = (
    '{"t":1.0,"request":90,"path":"/pods","query":[["watch","true"],["timeoutSeconds","²"]]}\n'
)


def test_a_number_that_is_not_ascii_is_not_a_timeout(tmp_path: Path) -> None:
    path = tmp_path / "strange.jsonl"
    path.write_text(VERSION_1.read_text() + _STRANGE)

    with pytest.warns(UserWarning, match="not ended"), replay(path) as played:
        assert played.header.plural == "pods"


@pytest.mark.parametrize("damage", ["garbage", '{"t":1.0,"of":1,"list":[]}', '{"t":"1"}'])
def test_damage_before_the_end_is_named_with_its_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "damaged.jsonl"
    lines = VERSION_1.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], f"{damage}\n", *lines[4:]]))

    with pytest.raises(RecordingFormatError) as caught:
        replay(path)
    assert caught.value.line == 4


def test_namespaces_that_cannot_be_followed_end_the_replay(tmp_path: Path) -> None:
    *entries, stop = VERSION_1.read_bytes().splitlines(keepends=True)
    path = tmp_path / "incident.jsonl"
    path.write_bytes(b"".join([*entries, b'{"t":150.0,"namespaces":["Not A Name"]}\n', stop]))
    with replay(path) as played:
        played.informer()
        with pytest.raises(InvalidArgumentError, match="Not A Name"):
            played.run()


def test_a_request_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "diverged.jsonl"
    header, *rest = VERSION_1.read_bytes().splitlines()
    entries: Iterator[dict[str, Any]] = (msgspec.json.decode(line) for line in rest)
    other = [_elsewhere(entry) for entry in entries]
    path.write_bytes(b"\n".join([header, *map(msgspec.json.encode, other), b""]))

    with replay(path) as played:
        played.informer()
        with pytest.raises(ReplayDivergedError, match="namespaces/other") as caught:
            played.run()
    assert "pods" in caught.value.request


@pytest.mark.parametrize("seconds", [1e7, 1e8, 1e9, 1e10])
def test_a_replay_ends_whatever_time_the_recording_has(tmp_path: Path, seconds: float) -> None:
    """The rounding of such times must not keep a timer from being called."""
    handler = Calls()
    with replay(_ending_at(tmp_path, seconds)) as played:
        played.informer().add_event_handler(handler)
        played.run()
        assert played.duration_seconds == pytest.approx(seconds)
    assert [call.key for call in handler.calls[:2]] == ["default/api", "default/web"]


@pytest.mark.parametrize("seconds", [-1.0, 1e11, 1e300])
def test_a_time_that_no_recording_has_is_refused_with_its_line(
    tmp_path: Path, seconds: float
) -> None:
    path = _ending_at(tmp_path, seconds)
    with pytest.raises(RecordingFormatError, match=r"t must be 0 to 1e\+10 s, got") as caught:
        replay(path)
    assert caught.value.line == len(path.read_bytes().splitlines())


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        pytest.param(1, 160.0, id="first-is-later-than-the-others"),
        pytest.param(-1, 0.0, id="last-is-earlier"),
        pytest.param(-2, 0.0, id="end-of-the-watch-is-earlier"),
    ],
)
def test_times_that_go_back_do_not_shorten_a_replay(
    tmp_path: Path, number: int, seconds: float
) -> None:
    """A clock that was set, or a file that was put together."""
    lines = VERSION_1.read_bytes().splitlines()
    lines[number] = msgspec.json.encode({**msgspec.json.decode(lines[number]), "t": seconds})
    path = tmp_path / "back.jsonl"
    path.write_bytes(b"\n".join([*lines, b""]))
    handler = Calls()
    with replay(path) as played:
        played.informer().add_event_handler(handler)
        played.run()
        assert played.duration_seconds == pytest.approx(150, abs=11)
    assert len(handler.calls) == 5


def test_the_end_of_a_cut_recording_is_its_latest_time(tmp_path: Path) -> None:
    *lines, _stop = VERSION_1.read_bytes().splitlines()
    lines[-1] = msgspec.json.encode({**msgspec.json.decode(lines[-1]), "t": 0.0})
    path = tmp_path / "back.jsonl"
    path.write_bytes(b"\n".join([*lines, b""]))
    with pytest.warns(IncompleteRecordingWarning, match=r"read up to 150\.\d+ s"):
        replay(path)


def _ending_at(folder: Path, seconds: float) -> Path:
    *lines, last = VERSION_1.read_bytes().splitlines()
    end = msgspec.json.encode({**msgspec.json.decode(last), "t": seconds})
    path = folder / "long.jsonl"
    path.write_bytes(b"\n".join([*lines, end, b""]))
    return path


def _elsewhere(entry: dict[str, Any]) -> dict[str, Any]:
    path = "/api/v1/namespaces/other/pods"
    return {**entry, "path": path} if "path" in entry else entry


_SIZE = VERSION_1.stat().st_size if VERSION_1.exists() else 0
_HEADER = len(VERSION_1.read_bytes().split(b"\n")[0]) + 1 if VERSION_1.exists() else 0


@given(st.integers(0, _SIZE - 1))
@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
def test_a_recording_that_is_cut_anywhere_is_played_up_to_there(
    tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    path.write_bytes(VERSION_1.read_bytes()[:size])
    whole, _ = replayed(VERSION_1)
    if size < _HEADER:
        with pytest.raises(RecordingFormatError, match="not a recording"):
            replay(path)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome, _ = replayed(path)

    said = [str(one.message) for one in caught if one.category is IncompleteRecordingWarning]
    assert any("read up to" in one for one in said)
    assert outcome.calls == whole.calls[: len(outcome.calls)]
