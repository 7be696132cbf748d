"""What the demo shows: a table that fits the terminal, or lines without a control code.

Changes are put in words: what matters is said, what does not is left out.
"""

from __future__ import annotations

import io
import re

import pytest

from pyinformer.cli.demo import _manifests
from pyinformer.cli.demo._demo_messages import (
    DeploymentView,
    EventLog,
    NodeView,
    PodView,
    deployment_message,
    node_message,
    pod_message,
)
from pyinformer.cli.demo._metrics import Frame, ResourceRow, format_size, rss_bytes
from pyinformer.cli.demo._output_modes import PlainScreen, screen_for
from pyinformer.cli.output import takes_control_codes
from pyinformer.objects import Added, Deleted, Event, JSONObject, KubeObject, Updated
from tests.cli.cluster_objects import pod, view

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UP_AND_ERASE = "\x1b[1A\x1b[2K"  # what every line of the frame before is taken back by
_SUMMARY_LINES = 9  # with the prompt below it
_RESOURCES = ("pods", "nodes", "deployments", "replicasets")


class _Terminal(io.StringIO):
    """Takes control codes."""

    def isatty(self) -> bool:
        """Say that it is a terminal."""
        return True


def _frame(state: str = "watching") -> Frame:
    event_log = EventLog()
    event_log.record("nodes", "node-3", "node-3 is being drained: 14 pods to move")
    for number in range(60):
        event_log.record(
            "deployments", f"d{number}", f"deployment d{number}: 3 of 5 replicas on image v7"
        )
        event_log.record("pods", f"p{number}", f"p{number} is new " + "x" * 200)
    rows = tuple(
        ResourceRow(
            resource=resource,
            objects=1234,
            events=56789,
            events_per_second=99.4,
            position="1234567",
            state=state,
            queued=7,
            body_bytes=2_345_678,
        )
        for resource in _RESOURCES
    )
    return Frame(
        elapsed_seconds=12.3,
        total_seconds=20.0,
        server="http://127.0.0.1:40000",
        rss_bytes=81_000_000,
        rows=rows,
        event_log=event_log,
    )


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (80, 10)])
def test_the_table_and_its_summary_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, lines: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    output = _Terminal()
    screen = screen_for(output, {"TERM": "xterm-256color"})

    screen.show(_frame())
    first = _ESCAPES.sub("", output.getvalue()).splitlines()
    before = len(output.getvalue())
    screen.close(_frame())
    redrawn = output.getvalue()[before:].rpartition(_UP_AND_ERASE)[2]
    last = _ESCAPES.sub("", redrawn).splitlines()

    assert len(first) <= lines
    assert max(map(len, first + last)) <= columns
    if lines >= 24:
        assert "\n".join(last).startswith("pyinformer demo")
        assert len(last) + _SUMMARY_LINES <= lines
        assert all(any(resource in line for line in first) for resource in _RESOURCES)
        assert any("node-3 is being drained" in line for line in first)
        assert any("p59 is new" in line for line in first)
    assert ("waiting" in "".join(first)) is (columns >= 100)


def test_the_cursor_is_restored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    output = _Terminal()
    screen = screen_for(output, {"TERM": "xterm-256color"})

    screen.close()
    screen.show(_frame())
    screen.close()
    screen.close()

    assert output.getvalue().count("\x1b[?25l") == 1
    assert output.getvalue().count("\x1b[?25h") == 1


def test_plain_lines_show_only_what_is_new() -> None:
    output, frame = io.StringIO(), _frame("waiting")
    screen = PlainScreen(output)

    screen.show(frame)
    told = len(output.getvalue())
    screen.show(frame)
    screen.close()

    first, second = output.getvalue()[:told], output.getvalue()[told:]
    assert "\x1b" not in first
    assert "1234 pods (99/s, waiting)" in first
    assert "node-3 is being drained: 14 pods to move" in first
    assert second.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "taken"),
    [
        pytest.param({"TERM": "xterm"}, True, id="terminal"),
        pytest.param({"TERM": "dumb"}, False, id="dumb"),
        pytest.param({}, False, id="no-term"),
        pytest.param({"TERM": "xterm", "NO_COLOR": "1"}, False, id="no-color"),
        pytest.param({"TERM": "xterm", "CI": "true"}, False, id="ci"),
    ],
)
def test_control_codes_are_written_only_to_terminals(environ: dict[str, str], taken: bool) -> None:
    assert takes_control_codes(_Terminal(), environ) is taken
    assert takes_control_codes(io.StringIO(), environ) is False


def test_sizes_read_well() -> None:
    assert [format_size(size) for size in (512, 9_440, 420_000, 81_000_000)] == [
        "0.5 kB",
        "9.4 kB",
        "0.42 MB",
        "81.0 MB",
    ]
    assert rss_bytes() > 1_000_000


def _pod(phase: str = "Pending", node: str = "") -> KubeObject[PodView]:
    return view(pod("web-1", phase=phase, node=node), "pods", PodView)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        pytest.param(Added(_pod()), "web-1 is new", id="new"),
        pytest.param(Added(_pod(), is_in_initial_list=True), None, id="was-there"),
        pytest.param(Updated(_pod(), _pod(node="n2")), "web-1 goes to n2", id="scheduled"),
        pytest.param(
            Updated(_pod(node="n2"), _pod("Running", "n2")),
            "web-1 on n2: Pending -> Running",
            id="running",
        ),
        pytest.param(Updated(_pod(), _pod()), None, id="nothing-to-say"),
        pytest.param(Deleted(_pod("Running", "n2")), "web-1 on n2 is gone", id="gone"),
        pytest.param(Deleted(_pod()), "web-1 on no node is gone", id="never-scheduled"),
    ],
)
def test_changes_of_a_pod_are_described(event: Event[PodView], words: str | None) -> None:
    assert pod_message(event) == words


def _node(*, unschedulable: bool) -> KubeObject[NodeView]:
    body = _manifests.node("node-3", "zone-1")
    body["spec"]["unschedulable"] = unschedulable
    return view(body, "nodes", NodeView)


def test_the_start_of_a_drain_is_described_with_the_pods_to_move() -> None:
    event = Updated(_node(unschedulable=False), _node(unschedulable=True))

    words = node_message(event, {"node-3": 14}.__getitem__)

    assert words == "node-3 is being drained: 14 pods to move"


def test_the_end_of_a_drain_is_described_and_heartbeats_are_not() -> None:
    out, back = _node(unschedulable=True), _node(unschedulable=False)

    assert node_message(Updated(out, back), len) == "node-3 accepts pods again"
    assert node_message(Updated(back, back), len) is None
    assert node_message(Added(back), len) is None


def _deployment(version: int, **status: int) -> KubeObject[DeploymentView]:
    body: JSONObject = _manifests.deployment("web", "shop", 5, version)
    body["status"].update(status)
    return view(body, "deployments", DeploymentView)


def test_a_rollout_is_followed_from_image_to_the_last_replica() -> None:
    before, begun = _deployment(6), _deployment(7)
    on_the_way = _deployment(7, replicas=6, updatedReplicas=3)

    assert deployment_message(Updated(before, begun)) == "deployment web: from image v6 to v7"
    assert (
        deployment_message(Updated(begun, on_the_way))
        == "deployment web: 3 of 5 replicas on image v7"
    )
    assert (
        deployment_message(Updated(on_the_way, begun))
        == "deployment web: all 5 replicas on image v7"
    )
    assert deployment_message(Updated(begun, begun)) is None
    assert deployment_message(Added(begun)) is None


def test_a_diary_keeps_the_last_sentence_about_each_object() -> None:
    event_log = EventLog()
    event_log.record("pods", "a", "a is new")
    event_log.record("pods", "b", "b is new")
    event_log.record("nodes", "n", "n is drained")
    event_log.record("pods", "a", "a goes to n")
    event_log.record("pods", "c", None)

    assert [entry.text for entry in event_log.last("pods", 5)] == ["b is new", "a goes to n"]
    assert [entry.text for entry in event_log.last("pods", 1)] == ["a goes to n"]
    assert event_log.last("pods", -1) == []
    assert [entry.text for entry in event_log.last_of_each(after=2)] == [
        "n is drained",
        "a goes to n",
    ]
    assert [entry.text for entry in event_log.last_of_each(after=3)] == ["a goes to n"]


def test_a_diary_is_bounded() -> None:
    event_log = EventLog()
    for number in range(1000):
        event_log.record("pods", str(number), "is new")

    assert event_log.count == 1000
    assert 20 <= len(event_log.last("pods", 1000)) < 100
