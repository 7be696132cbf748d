"""A record becomes pages and plots, which keep hand-written text and name what failed.

Nothing is measured here: the record is made by the test.
"""

from __future__ import annotations

import contextlib
import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.harness.phases import Measurement
from benchmarks.report import goals
from benchmarks.report.goals import GOALS, OVERVIEW, Goal, judged
from benchmarks.report.markdown import index_page, runs_page
from benchmarks.report.plots import overview_plot, section_plot
from benchmarks.report.progress import Estimate, Lines
from benchmarks.report.publish import WRITTEN_BY_HAND, publish
from benchmarks.report.record import (
    OPENING,
    Record,
    Section,
    make_record,
    merged,
    read_json,
    write_json,
)
from benchmarks.report.rows import Spec, make_rows
from benchmarks.report.subjects import SUBJECTS, anchor_of, by_subject, subject_of
from benchmarks.runs import RUNS, find_run
from benchmarks.runs.run import Bench, Known, Run, Setting, Size, is_foreign
from benchmarks.runs.turns import carry_out, make_plan

_ROOT = Path(__file__).parents[2]
_UPDATES = "updates-metadata"


@pytest.fixture
def record() -> Record:
    """Make a record of one run: one goal met, one missed, and a peer that failed."""
    rounds = [
        {
            "bare": _updated("bare", 13e-6 * factor),
            "client-go-json": _updated("client-go-json", 335e-6 * factor),
            "client-go-protobuf": _updated("client-go-protobuf", 30e-6 * factor),
            "kopf-index": Measurement("kopf-index", error="OSError: no | such file"),
            "pyinformer": _updated("pyinformer", 12e-6 * factor),
        }
        for factor in (1.0, 1.1, 0.9)
    ]
    run = find_run(_UPDATES)
    rows = make_rows(run.specs({}), list(rounds[0]), rounds)
    section = Section(run.title, {"objects": 5_000}, rows, rounds, run.name, run.says, {"bare": 2})
    whole = make_record(size="full")
    whole.put(section)
    return whole


def test_the_table_shows_goals_that_were_met_missed_and_not_measured(record: Record) -> None:
    lines = [line for line in index_page(record).splitlines() if "metadata or projection" in line]
    told = {line.split(" | ")[1].rpartition(" ")[2]: line for line in lines}
    assert told["client-go-json"].endswith("| 0.0358 (0.0358 to 0.0358) | <= 1/27 | met |")
    assert told["client-go-protobuf"].endswith("| [missed](misses.md#metadata-handler) |")
    assert "not measured" in told["kubernetes"]


def test_a_figure_of_fewer_objects_than_its_goal_is_marked(record: Record) -> None:
    spec = Spec("figure", "s", lambda found: found.update_cpu_seconds, {})
    record.sections[0].rows = make_rows([spec], ["bare"], record.sections[0].rounds)
    goal = Goal("work", "slug", _UPDATES, "figure", "bare", 1.0, objects=100_000)
    (verdict,) = judged(record, [goal])
    assert (verdict.is_met, verdict.is_of_another_size) == (True, True)


def test_a_peer_that_failed_is_reported_in_its_row(record: Record) -> None:
    page = runs_page(subject_of(_UPDATES), record.sections)
    assert "| kopf-index | failed | failed |" in page
    assert r"- kopf-index failed: OSError: no \| such file" in page


def test_every_run_has_one_page_and_a_link_to_its_figures(record: Record) -> None:
    record.sections = [Section(run.title, {}, [], [], run.name) for run in RUNS]
    pages = {
        subject.name: runs_page(subject, shown)
        for subject, shown in by_subject(record.sections).items()
    }

    assert len(pages) == len(SUBJECTS)
    for run in RUNS:
        anchor = f'<a id="{anchor_of(run.name)}"></a>'
        assert [name for name, page in pages.items() if anchor in page] == [
            subject_of(run.name).name
        ]
        assert f"(runs/{subject_of(run.name).name}.md#{anchor_of(run.name)})" in index_page(record)


def test_plots_are_the_same_bytes_for_the_same_record(record: Record) -> None:
    first = overview_plot(record), section_plot(record.sections[0])
    again = overview_plot(record), section_plot(record.sections[0])
    assert first == again
    assert not any("<dc:date>" in text for text in first)


def test_plots_are_svg_with_every_peer_as_text(record: Record) -> None:
    text = section_plot(record.sections[0])
    assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314  (written by ourselves)
    for said in (*record.sections[0].rounds[0], "failed", "log scale"):
        assert said in text


def test_a_plot_of_a_record_without_its_run_is_empty_and_no_error() -> None:
    assert "<svg" in overview_plot(make_record())


def test_publishing_keeps_written_text_and_removes_old_figures(
    record: Record, tmp_path: Path
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "gone.md").write_text("of an earlier record")
    (tmp_path / "misses.md").write_text("by hand")
    publish(record, tmp_path)
    publish(record, tmp_path)
    assert (tmp_path / "misses.md").read_text() == "by hand"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["updates.md"]
    assert [path.name for path in (tmp_path / "plots").iterdir()] == [f"{_UPDATES}.svg"]
    assert read_json(tmp_path / "results.json") == record


def test_publishing_names_the_misses_without_an_explanation(record: Record, tmp_path: Path) -> None:
    (tmp_path / "misses.md").write_text("")
    (told,) = publish(record, tmp_path)
    assert 'id="metadata-handler"' in told
    (tmp_path / "misses.md").write_text('<a id="metadata-handler"></a>\nIt goes to the decoder.')
    assert publish(record, tmp_path) == []


def test_written_pages_are_kept_beside_published_ones(record: Record, tmp_path: Path) -> None:
    publish(record, tmp_path)
    for name in WRITTEN_BY_HAND:
        written = _ROOT / "docs" / "benchmarks" / name
        assert (tmp_path / name).read_text() == written.read_text()


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.slug}: {goal.peer}")
def test_a_goal_is_a_row_of_a_run(goal: Goal) -> None:
    run = find_run(goal.run)
    rows = make_rows(run.specs({"object bytes, mean": 1.0}), run.peers[Size.FULL], [])
    assert (goal.measures, goal.peer) in {(row.measures, row.peer) for row in rows}


def test_the_overview_draws_peers_that_take_part() -> None:
    for panel in OVERVIEW:
        for run, peer in panel.peers:
            assert peer in find_run(run).peers[Size.FULL]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_measures_all_that_it_plots(run: Run) -> None:
    specs = run.specs({"object bytes, mean": 1.0})
    assert set(run.plots) <= {spec.measures for spec in specs}


def test_every_peer_in_the_smoke_needs_neither_network_nor_go() -> None:
    smoke = {peer for run in RUNS for peer in run.peers.get(Size.SMOKE, ())}
    assert {peer for peer in smoke if is_foreign(peer)} <= {"kubernetes-asyncio"}


def test_of_two_records_the_later_section_is_kept(record: Record) -> None:
    earlier = make_record(size="full")
    other = Section("other", {}, [], [], name="other")
    earlier.sections = [Section("old", {}, [], [], name=_UPDATES), other]
    found = merged([earlier, record])
    assert [section.title for section in found.sections] == [record.sections[0].title, "other"]


def test_a_run_of_another_machine_names_it(record: Record) -> None:
    other = make_record(size="full")
    other.machine = {"cpu": "another", "cpus": 64}
    other.sections = [Section("elsewhere", {}, [], [], name="other", says="It runs elsewhere.")]
    found = merged([record, other])
    assert found.machine == record.machine
    page = index_page(found)
    assert "On another machine, `other`: another, 64 CPUs." in page
    assert page.count("another, 64 CPUs") == 1
    again = merged([found, record])
    assert [one.machine for one in again.sections if one.name == "other"] == [other.machine]


def test_saved_records_are_published_without_measuring(record: Record, tmp_path: Path) -> None:
    write_json(record, tmp_path / "saved.json")
    folder = tmp_path / "published"
    assert main(["--from", str(tmp_path / "saved.json"), "--publish", str(folder)]) == 0
    assert {"index.md", "overview.svg", "results.json"} <= {path.name for path in folder.iterdir()}


@dataclass
class _Bench:
    known: Known
    interrupted_at: int | None = None
    turns: int = 0

    def measure(self, peer: str) -> Measurement:
        self.turns += 1
        if self.turns == self.interrupted_at:
            raise KeyboardInterrupt
        if peer == "kopf-index":
            raise OSError("cannot be started")
        return _updated(peer, 1e-6)


def _run(bench: _Bench | None, peers: tuple[str, ...] = ("bare", "kopf-index")) -> Run:
    @contextlib.contextmanager
    def start(_: Setting) -> Iterator[Bench]:
        if bench is None:
            raise OSError("no server")
        yield bench

    specs = (Spec("CPU", "us", lambda found: found.update_cpu_seconds, {}),)
    return Run(
        name="mine",
        title="Mine",
        says="",
        peers={Size.BENCH: peers},
        rounds={Size.BENCH: 2},
        open=start,
        specs=lambda _: specs,
        fewer_rounds={"kopf-index": 1},
    )


def _sections(run: Run) -> list[Section]:
    plan = make_plan(run, Size.BENCH)
    assert plan is not None
    with contextlib.redirect_stderr(io.StringIO()):
        return list(carry_out(plan, Setting(Size.BENCH), Lines([plan], Estimate([plan]))))


def test_each_round_begins_with_another_peer_and_slow_ones_leave_early() -> None:
    plan = make_plan(_run(_Bench({"objects": 1})), Size.BENCH)
    assert plan is not None
    assert plan.turns() == [(0, "bare"), (0, "kopf-index"), (1, "bare")]
    three = make_plan(_run(None, ("a", "b", "c")), Size.BENCH, peers=("a", "c"))
    assert three is not None
    assert three.turns() == [(0, "a"), (0, "c"), (1, "c"), (1, "a")]


def test_a_turn_that_fails_ends_no_other() -> None:
    section = _sections(_run(_Bench({"objects": 1})))[-1]
    notes = {row.peer: (row.median, row.note) for row in section.rows}
    assert notes["bare"] == (1e-6, "")
    assert notes["kopf-index"] == (None, "kopf-index failed: OSError: cannot be started")
    assert set(section.seconds) == {OPENING, "bare", "kopf-index"}


def test_a_run_that_cannot_be_opened_is_a_row_for_each_peer() -> None:
    (section,) = _sections(_run(None))
    reason = "failed: did not begin: OSError: no server"
    assert [row.note for row in section.rows] == [f"bare {reason}", f"kopf-index {reason}"]


def test_an_interrupt_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(_Bench({"objects": 1}, interrupted_at=3))
    monkeypatch.setattr("benchmarks.__main__.RUNS", (run,))
    path = tmp_path / "record.json"
    assert main(["mine", "--json", str(path), "--publish", str(tmp_path / "pages")]) == 130
    (section,) = read_json(path).sections
    assert [list(done) for done in section.rounds] == [["bare", "kopf-index"]]
    assert not (tmp_path / "pages").exists()
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bench", "status"),
    [
        pytest.param(_Bench({"objects": 1}), 0, id="a foreign peer"),
        pytest.param(None, 1, id="our own"),
    ],
)
def test_only_a_failure_of_our_own_is_an_exit_status(
    bench: _Bench | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.__main__.RUNS", (_run(bench),))
    assert main(["mine", "--json", str(tmp_path / "record.json")]) == status


def test_a_row_of_the_smoke_without_a_figure_is_an_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also that of a foreign peer, since none in the smoke needs a network."""
    bench = _Bench({"objects": 1})
    run = replace(_run(bench), peers={Size.SMOKE: ("bare", "kopf-index")})
    monkeypatch.setattr("benchmarks.__main__.RUNS", (run,))
    assert main(["mine", "--smoke", "--json", str(tmp_path / "record.json")]) == 1
    assert "kopf-index failed: OSError: cannot be started" in capsys.readouterr().err


def test_the_remaining_time_is_estimated_from_records_and_finished_turns(
    record: Record,
) -> None:
    run = find_run(_UPDATES)
    plan = make_plan(run, Size.BENCH, peers=("bare", "pyinformer"), rounds=3)
    assert plan is not None
    estimate = Estimate([plan], record)
    assert estimate.left_seconds() == 7 * 2.0  # of the others nothing is known but that of bare
    estimate.ended(run.name, "pyinformer", 4.0)
    assert estimate.left_seconds() == pytest.approx(2 * 4.0 + 3 * 2.0 + 3.0)
    estimate.finished(run.name)
    assert estimate.left_seconds() == 0


def _updated(peer: str, seconds: float) -> Measurement:
    return Measurement(
        peer,
        objects=10,
        rss_before_bytes=0,
        rss_after_bytes=10 * round(seconds * 1e9),
        updates=1,
        updates_seen=1,
        update_cpu_seconds=seconds,
        update_wall_seconds=seconds,
    )


def test_a_slug_selects_one_workload_or_all_of_a_kind() -> None:
    assert {goal.slug for goal in goals.GOALS} == {goal.slug.lower() for goal in goals.GOALS}
    assert all(" " not in goal.slug for goal in goals.GOALS)
