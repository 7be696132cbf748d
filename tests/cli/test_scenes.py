"""The founding failures: each scene's facts, for the plain program as for ours, on both servers.

A scene proves something only if the plain program really fails, so that is asserted as well. The
facts are measured on the running server; what the command line makes of them is tested below.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from pyinformer.cli.scenes import (
    _avalanche,
    _backward_position,
    _etcd_restore,
    _lock_during_connect,
    _mutated_cache,
    _resync_storm,
)
from pyinformer.cli.scenes._registry import SCENES
from pyinformer.cli.scenes._report import SceneReport
from pyinformer.cli.scenes._run import play, play_one
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, fact
from pyinformer.cli.scenes._server import SceneServer
from pyinformer.testing import APIServer
from tests.cli.command_line import here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.testing import KubeAPIServer

FactsT = TypeVar("FactsT")
_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "founding-failures.md"


@pytest.fixture(
    params=[
        pytest.param("embedded", id="embedded"),
        pytest.param("real", id="real", marks=[pytest.mark.real, pytest.mark.timeout(300)]),
    ]
)
def server(request: pytest.FixtureRequest) -> Iterator[SceneServer]:
    """A server on a server that the scene may kill."""
    if request.param == "embedded":
        with APIServer() as server:
            yield SceneServer(server)
    else:
        real: KubeAPIServer = request.getfixturevalue("kube_apiserver")
        yield SceneServer(real)


# A busy machine breaks claims about seconds; the breaker counts writes per second.
_OF_SPEED = re.compile(r"\bwithin [\d.]+ s\b|it named the controller|it stopped the useless writes")


def not_true(result: SceneResult[FactsT]) -> list[str]:
    """Return the claims that do not hold, but for those that only a busy machine breaks."""
    return [claim.text for claim in result.failed if not _OF_SPEED.search(claim.text)]


async def test_an_edit_of_the_cache_hides_a_write_from_a_plain_worker_and_not_from_ours(
    server: SceneServer,
) -> None:
    result = await _mutated_cache.perform(server)

    plain, ours = result.plain, result.ours
    assert (plain.edits_refused_with, plain.reader_saw_it_before) == ((), True)
    assert (plain.writes_sent, plain.server_has_it, plain.edit_undone) == (0, False, False)
    assert ours.edits_refused_with == ("FrozenObjectError", "TypeError")
    assert (ours.reader_saw_it_before, ours.writes_sent, ours.server_has_it) == (False, 1, True)
    assert "managed-by']: absent became str" in ours.edit_found
    assert ours.edit_undone
    assert not_true(result) == []


async def test_an_old_version_in_a_deletion_replays_the_past_to_a_plain_informer_and_not_to_ours(
    server: SceneServer,
) -> None:
    result = await _backward_position.perform(server)

    plain, ours = result.plain, result.ours
    assert plain.live_service_deleted == 3  # once for each clean close
    assert max(plain.watched_again_from) < plain.newest_seen
    assert ours.live_service_deleted == 0
    assert ours.watched_again_from == (ours.newest_seen,) * 3
    assert (ours.lists, ours.deletions_reported, ours.equals_server) == (0, 1, True)
    assert not [line for line in result.logged if line.startswith("ERROR")]
    assert not_true(result) == []


@pytest.mark.slow
async def test_a_returning_server_is_stormed_by_plain_informers_and_not_by_ours(
    server: SceneServer,
) -> None:
    result = await _avalanche.perform(server)

    plain, ours = result.plain, result.ours
    assert (plain.lists, plain.lists_without_history) == (plain.informers, plain.informers)
    assert plain.lists_at_once > 8  # all of them, on a calm machine
    assert (ours.lists, ours.up_to_date) == (0, ours.informers)
    assert 1 <= ours.lists_at_once_without_history <= 4
    assert ours.up_to_date_without_history == ours.informers
    assert not_true(result) == []


async def test_a_paused_cluster_stops_all_others_of_a_plain_client_manager_and_none_of_ours(
    server: SceneServer,
) -> None:
    result = await _lock_during_connect.perform(server)

    plain, ours = result.plain, result.ours
    assert (plain.answered, plain.paused_error) == (0, "nothing: TimeoutError")
    assert (ours.answered, ours.paused_requests) == (ours.callers, 1)
    assert "cluster 'paused' is unavailable" in ours.paused_error
    assert "waiting for an answer for" in ours.paused_error
    assert not_true(result) == []


@pytest.mark.slow
async def test_a_real_change_waits_behind_a_plain_resync_storm_and_passes_ours(
    server: SceneServer,
) -> None:
    result = await _resync_storm.perform(server)

    plain, ours = result.plain, result.ours
    assert plain.in_vain == plain.unchanged
    assert ours.median_behind < plain.median_behind / 3
    assert not_true(result) == []


@pytest.mark.slow
async def test_a_restore_of_etcd_blinds_a_plain_informer_and_is_healed_by_ours(
    server: SceneServer,
) -> None:
    result = await _etcd_restore.perform(server)

    plain, ours = result.plain, result.ours
    assert (plain.phantoms, plain.missing, plain.deletions_reported) == (60, 10, 0)
    assert plain.phantoms_later == 60
    assert plain.missing_later >= 10
    assert (ours.phantoms, ours.missing, ours.deletions_reported) == (0, 0, 60)
    assert (ours.phantoms_later, ours.missing_later) == (0, 0)
    assert not_true(result) == []


@dataclass(frozen=True)
class _Facts:
    """Something that was measured."""

    number: int = fact("numbers")


def _scene(*, passes: bool) -> Scene:
    async def perform(server: SceneServer) -> SceneResult[_Facts]:
        """Measure something on the server."""
        found = len(server.api.list("v1", "namespaces"))
        return SceneResult(
            plain=_Facts(1_000),
            ours=_Facts(found),
            outage=(Claim("there are namespaces", found > 0),),
            prevented=(Claim("the moon is round", passes),),
            logged={"WARNING it is full": 2},
        )

    return Scene(
        name="moon",
        number="9.9",
        title="a moon",
        references="astronomy#1",
        story="It rose.",
        plain="looks up",
        ours="looks up, too",
        verdict="it shines",
        perform=perform,
    )


@pytest.mark.parametrize("passes", [True, False])
def test_a_report_shows_facts_side_by_side_and_ends_with_the_verdict(passes: bool) -> None:
    output = io.StringIO()
    with APIServer() as server:
        passed = play_one(_scene(passes=passes), server, SceneReport(output), "a server")

    lines = output.getvalue().splitlines()
    assert passed is passes
    assert "\x1b" not in output.getvalue()
    assert [line.split() for line in lines if "numbers" in line] == [["numbers", "1,000", "4"]]
    assert "  WARNING it is full (2 times)" in [line.rstrip() for line in lines]
    assert f"  {'yes' if passes else 'NO '}  the moon is round" in lines
    verdict = "PASSED in 0.0 s: it shines" if passes else "FAILED in 0.0 s, not true: the moon"
    assert lines[-1].startswith(re.sub(r"0\.0", lines[-1].split()[2], verdict))


def test_one_failed_claim_sets_the_exit_status() -> None:
    output = io.StringIO()

    assert play([_scene(passes=True), _scene(passes=False)], real=False, output=output) == 1
    assert play([_scene(passes=True)], real=False, output=output) == 0


def test_a_server_that_cannot_be_started_is_reported_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_server: APIServer) -> None:
        raise OSError("address already in use")

    monkeypatch.setattr(APIServer, "start", refuse)
    output = io.StringIO()

    assert play([_scene(passes=True)], real=False, output=output) == 1
    assert output.getvalue().endswith("cannot be played: address already in use\n")


def test_without_a_name_the_scenes_are_listed() -> None:
    done = here("scenes")

    assert (done.exit_code, done.stderr) == (0, "")
    listed = [line.split()[0] for line in done.stdout.splitlines()[: len(SCENES)]]
    assert listed == [scene.name for scene in SCENES]


def test_the_command_plays_a_scene_and_succeeds() -> None:
    done = here("scenes", "mutated-cache")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("PASSED in ")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["nope"], id="unknown"),
        pytest.param(["avalanche", "--all"], id="one-and-all"),
        pytest.param(["--real"], id="no-name"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str]) -> None:
    done = here("scenes", *arguments)

    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("scene", [pytest.param(one, id=one.name) for one in SCENES])
def test_each_scene_has_a_section_with_a_drawing_its_command_and_its_test(scene: Scene) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    contents, *sections = re.split(r'^<a id="([\w-]+)"></a>$', page, flags=re.MULTILINE)
    section = dict(zip(sections[::2], sections[1::2], strict=True))[scene.name]
    tests = set(re.findall(r"`(test_\w+)`", section))
    module = scene.perform.__module__.rpartition(".")[2]

    assert "```mermaid" in section
    assert f"pyinformer scenes {scene.name}" in section
    assert f"(#{scene.name})" in contents
    own = {name for name, test in globals().items() if _plays(test, module)}
    assert own <= tests
    assert len(own) == 1


def test_the_page_names_only_tests_that_exist() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    sources = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))

    unknown = {one for one in re.findall(r"`(test_\w+)`", text) if f"def {one}(" not in sources}
    assert unknown == set()


def _plays(test: object, module: str) -> bool:
    code = getattr(test, "__code__", None)
    return code is not None and module in code.co_names
