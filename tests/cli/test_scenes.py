"""The founding failures: each scene's facts, for the plain program as for ours, on both servers.

A scene proves something only if the plain program really fails, so that is asserted as well. The
facts are measured on the running server; what the command line makes of them is tested below.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pyinformer.cli.scenes import _avalanche, _backward_position, _mutated_cache
from pyinformer.cli.scenes._stage import Stage
from pyinformer.testing import APIServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.testing import KubeAPIServer

_COMMAND = (sys.executable, "-m", "pyinformer", "scenes")


@pytest.fixture(
    params=[
        pytest.param("embedded", id="embedded"),
        pytest.param("real", id="real", marks=[pytest.mark.real, pytest.mark.timeout(300)]),
    ]
)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage on a server that the scene may kill."""
    if request.param == "embedded":
        with APIServer() as server:
            yield Stage(server)
    else:
        real: KubeAPIServer = request.getfixturevalue("kube_apiserver")
        yield Stage(real)


async def test_an_edit_of_the_cache_hides_a_write_from_a_plain_worker_and_not_from_ours(
    stage: Stage,
) -> None:
    result = await _mutated_cache.perform(stage)

    assert result.plain == _mutated_cache.Working(
        edits_refused_with=(), reader_saw_it_before=True, writes_sent=0, server_has_it=False
    )
    assert result.ours == _mutated_cache.Working(
        edits_refused_with=("FrozenObjectError", "TypeError"),
        reader_saw_it_before=False,
        writes_sent=1,
        server_has_it=True,
    )
    assert result.failed == ()


async def test_an_old_version_in_a_deletion_replays_the_past_to_a_plain_informer_and_not_to_ours(
    stage: Stage,
) -> None:
    result = await _backward_position.perform(stage)

    plain, ours = result.plain, result.ours
    assert plain.live_service_deleted == 3  # once for each clean close
    assert max(plain.watched_again_from) < plain.newest_seen
    assert ours.live_service_deleted == 0
    assert ours.watched_again_from == (ours.newest_seen,) * 3
    assert (ours.lists, ours.deletion_told, ours.equals_server) == (0, 1, True)
    assert not [line for line in result.logged if line.startswith("ERROR")]
    assert result.failed == ()


@pytest.mark.slow
async def test_a_returning_server_is_stormed_by_plain_informers_and_not_by_ours(
    stage: Stage,
) -> None:
    result = await _avalanche.perform(stage)

    plain, ours = result.plain, result.ours
    assert (plain.lists, plain.lists_without_history) == (plain.informers, plain.informers)
    assert plain.lists_at_once > plain.informers / 2
    assert (ours.lists, ours.up_to_date) == (0, ours.informers)
    assert 1 <= ours.lists_at_once_without_history <= 4
    assert ours.up_to_date_without_history == ours.informers
    assert result.failed == ()
