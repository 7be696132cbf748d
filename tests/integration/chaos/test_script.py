"""A replay repeats the whole storm that a history is of, not only its faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.testing.histories import FaultRecord, History
from tests.integration.chaos.flavours import Flavour, flavour_of
from tests.integration.chaos.script import Script

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(Script(seed=3, seconds=5.0, objects=60), id="a scene"),
        pytest.param(Script.drawn(7, seconds=60.0, lies=False), id="legal"),
        pytest.param(Script.drawn(8, seconds=60.0, lies=True), id="lies"),
        pytest.param(
            Script(seed=1, seconds=1.0, flavour=Flavour(2, False, True, False)), id="a flavour"
        ),
        pytest.param(
            Script(seed=1, seconds=1.0, starts_without_descriptors=True), id="no descriptors"
        ),
    ],
)
def test_a_history_has_all_that_its_replay_needs(tmp_path: Path, script: Script) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.add(script.record(path))
        history.add(FaultRecord(name="cut", at_seconds=4.0, arguments={"reset": "no"}))
    found = Script.of_history(path)

    assert (found.seed, found.flavour) == (script.seed, script.flavour)
    assert (found.lies, found.objects) == (script.lies, script.objects)
    assert found.starts_without_descriptors == script.starts_without_descriptors
    assert [one.name for one in found.schedule or ()] == ["cut"]


def test_the_command_of_a_history_needs_its_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"

    assert Script(seed=5, seconds=1.0).record(path).command == f"make chaos REPLAY={path}"


def test_a_seed_draws_its_server() -> None:
    assert Script.drawn(5, seconds=1.0, lies=True).flavour == flavour_of(5)
