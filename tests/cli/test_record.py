"""`pyinformer record`: what it writes can be replayed, and it says what goes wrong."""

from __future__ import annotations

import io
import os
import signal
from typing import TYPE_CHECKING

import pytest

from pyinformer import SharedInformer, connect
from pyinformer.cli.objects import CommandError, RecordCommand
from pyinformer.cli.output import Output
from pyinformer.testing import replay
from tests.cache.recording.incidents import open_file
from tests.cli.cluster_objects import pod
from tests.cli.command_line import here, program

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import APIServer


def _replayed(path: Path) -> list[str]:
    with replay(path) as played:
        pods = played.informer()
        played.run()
        assert not played.problems
        return sorted(str(one.key) for one in pods.lister.list())


def test_what_was_recorded_until_ctrl_c_can_be_replayed(
    apiserver: APIServer, tmp_path: Path
) -> None:
    path = tmp_path / "incident.jsonl"
    apiserver.create(pod("web", node="node-1"))
    at = ("--server", apiserver.url)
    with program("record", "pods", *at, "-n", "default", "-o", str(path)) as recording:
        recording.line_with("recording pods.v1 in default")
        apiserver.create(pod("api", node="node-1"))
        apiserver.wait_for_watches(1)
        status, _, complaints = recording.end(signal.SIGINT)
        summary = recording.line_with("recorded")

    assert status == 128 + signal.SIGINT
    assert not complaints
    assert "lines" in summary
    assert "default/web" in _replayed(path)


def test_a_recording_ends_after_its_time(apiserver: APIServer, tmp_path: Path) -> None:
    path = tmp_path / "incident.jsonl"
    at = ("--server", apiserver.url, "-A")
    done = here("record", "v1/pods", *at, "-o", str(path), "--for-seconds", "1.5")

    assert done.exit_code == 0
    assert _replayed(path) == []


@pytest.mark.parametrize("more", [("--redact", "v1/x"), ()], ids=["no-kind", "file-exists"])
def test_what_cannot_be_recorded_is_one_line(
    apiserver: APIServer, tmp_path: Path, more: tuple[str, ...]
) -> None:
    path = tmp_path / "incident.jsonl"
    path.write_text("mine")
    done = here("record", "v1/pods", "--server", apiserver.url, "-o", str(path), *more)

    assert done.exit_code == 1
    assert done.stderr.startswith("pyinformer record: ")
    assert done.stderr.count("\n") == 1
    assert path.read_text() == "mine"


async def test_a_disk_that_is_full_at_the_end_is_an_error(
    apiserver: APIServer, tmp_path: Path
) -> None:
    path, words = tmp_path / "incident.jsonl", io.StringIO()
    output = Output(words, {})
    command = RecordCommand(path, max_bytes=1 << 20, redact=(), output=output)
    async with connect(server=apiserver.url) as cluster:
        pods = SharedInformer(cluster, "v1", "pods", namespaces="default")
        with pytest.raises(CommandError, match="No space left"):
            async with command.prepare(pods):
                full = os.open("/dev/full", os.O_WRONLY)
                os.dup2(full, open_file(path))
                os.close(full)

    assert words.getvalue().startswith("recorded 0 lines")
