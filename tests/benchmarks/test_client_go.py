"""client-go as a peer: built from the module beside the benchmarks, measured as every peer is.

The real program follows the real replay server, with tiny sizes; times are not checked. The tests
need an installed Go, and are skipped without one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from benchmarks.harness.go import client_go, go_program, installed_go
from benchmarks.harness.measure import ServerOptions, measure, running_server
from benchmarks.harness.phases import Measurement
from pyinformer.errors import KubeAPIServerError

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]  # the first build takes minutes

_MODULE = Path(__file__).parents[2] / "benchmarks" / "peers" / "client_go"
_OBJECTS, _UPDATES = 30, 90


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    """Build the program, or find the one that was built before."""
    try:
        installed_go()
    except KubeAPIServerError as error:
        pytest.skip(error.reason)
    built = client_go()
    assert isinstance(built, Path), built
    return built


def followed(
    peer: str = "client-go-json",
    changes: Mapping[str, str | int] | None = None,
    *,
    kind: str = "pods",
    updates: int = _UPDATES,
    updates_per_second: float = 0.0,
) -> Measurement:
    """Run a peer against a server of its own."""
    options = ServerOptions(
        objects=_OBJECTS, updates=updates, kind=kind, updates_per_second=updates_per_second
    )
    with running_server(options) as server:
        workload = msgspec.structs.replace(server.workload, **(changes or {}))
        return measure(peer, workload, cpu=None)


def test_every_figure_of_a_sync_and_its_updates_is_there() -> None:
    found = followed()
    assert found.error is None
    assert found.peer == "client-go-json"
    assert (found.objects, found.updates, found.updates_seen) == (_OBJECTS, _UPDATES, _UPDATES)
    seconds = (
        found.sync_wall_seconds,
        found.sync_cpu_seconds,
        found.update_wall_seconds,
        found.update_cpu_seconds,
    )
    assert all(value is not None and 0 < value < 60 for value in seconds)
    assert found.longest_gc_pause_seconds is not None
    sizes = (found.rss_before_bytes, found.rss_after_bytes, found.peak_rss_bytes)
    assert all(value is not None and value > 1_000_000 for value in sizes)


@pytest.mark.parametrize("handler", ["metadata", "object", "queue"])
@pytest.mark.parametrize("peer", ["client-go-json", "client-go-metadata", "client-go-dynamic"])
def test_every_client_follows_with_every_handler(peer: str, handler: str) -> None:
    found = followed(peer, {"handler": handler, "handlers": 2, "indexes": 2})
    assert (found.error, found.updates_seen) == (None, _UPDATES)


@pytest.mark.parametrize("load", ["list", "watch-list"])
@pytest.mark.parametrize("kind", ["configmaps", "leases"])
def test_other_kinds_are_typed_too(kind: str, load: str) -> None:
    found = followed(changes={"load": load}, kind=kind)
    assert (found.error, found.objects, found.updates_seen) == (None, _OBJECTS, _UPDATES)


def test_custom_resources_are_followed_by_the_dynamic_client_alone() -> None:
    assert followed("client-go-dynamic", kind="widgets").updates_seen == _UPDATES
    assert "no typed client" in str(followed(kind="widgets").error)


def test_paced_updates_have_latencies() -> None:
    extra = followed(updates_per_second=2_000.0).extra
    assert extra["latency_counted"] == _UPDATES
    assert 0 < extra["latency_p50_us"] <= extra["latency_p90_us"] <= extra["latency_p99_us"]
    assert extra["latency_p99_us"] <= extra["latency_max_us"]


def test_a_relist_is_measured_from_the_expiry_on() -> None:
    found = followed(changes={"work": "relist"}, updates=0)
    assert found.error is None
    assert 0 < found.extra["relist_waited_seconds"] < found.extra["relist_wall_seconds"]
    assert found.extra["relist_cpu_seconds"] > 0
    # client-go delivers every object to every handler again, changed or not
    assert found.extra["relist_handler_calls"] == _OBJECTS


def test_reads_of_the_lister_are_timed() -> None:
    extra = followed(changes={"work": "reads", "indexes": 2}, updates=0).extra
    times = {name for name in extra if name.endswith("_us")}
    assert times == {
        "read_index_us",
        "read_key_us",
        "select_few_us",
        "select_quarter_us",
        "two_fields_typed_us",
    }
    assert all(extra[name] > 0 for name in times)
    assert extra["select_few_results"] >= 1


def test_starts_of_one_and_many_are_timed() -> None:
    extra = followed(changes={"work": "starts"}, updates=0).extra
    for count in (1, 10, 50):
        assert extra[f"start_{count}_cpu_ms"] > 0
        assert extra[f"start_{count}_wall_ms"] > 0


def test_a_workload_that_asks_for_nothing_known_is_an_error_in_the_measurement() -> None:
    assert "no such load" in str(followed(changes={"load": "guess"}).error)
    assert "no such handler" in str(followed(changes={"handler": "guess"}).error)


def test_the_queues_are_timed(program: Path) -> None:
    command = [str(program), "queue", "--keys=100", "--repeats=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = msgspec.json.decode(done.stdout, type=dict[str, float])
    assert set(figures) == {"delayed_us", "duplicate_us", "item_us", "passing_us", "waiting_us"}


def test_a_value_that_is_not_an_object_cannot_be_rendered(program: Path) -> None:
    done = subprocess.run(
        [str(program), "render"],
        input='{"kind":"Nothing","apiVersion":"v1"}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Nothing" in done.stderr


def test_a_program_is_built_once_for_its_sources(tmp_path: Path) -> None:
    module = tmp_path / "hello"
    module.mkdir()
    (module / "go.mod").write_text("module hello\n\ngo 1.26\n")
    source = module / "main.go"
    source.write_text("package main\n\nfunc main() {}\n")

    def build() -> Path:
        with go_program(module, wanted=True, cache_folder=tmp_path / "cache") as built:
            assert isinstance(built, Path), built
            return built

    first = build()
    made = first.stat().st_mtime_ns
    assert (build(), first.stat().st_mtime_ns) == (first, made)
    source.write_text("package main\n\nfunc main() { println() }\n")
    assert build() != first
    source.write_text("no Go")
    with go_program(module, wanted=True, cache_folder=tmp_path / "cache") as reason:
        assert "main.go" in str(reason)


def test_the_sources_are_in_shape() -> None:
    go = installed_go()
    unformatted = subprocess.run(
        [str(go.with_name("gofmt")), "-l", "."],
        cwd=_MODULE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert unformatted.stdout == ""
    vetted = subprocess.run(
        [str(go), "vet", "./..."], cwd=_MODULE, capture_output=True, text=True, check=False
    )
    assert vetted.returncode == 0, vetted.stderr
