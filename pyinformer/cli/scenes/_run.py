"""Playing scenes: the server is started, the scenes run one after the other, the report is written.

In go names and the choice of the server; out comes the exit status: 0 only if every claim of every
scene holds, those about the plain program included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pyinformer._clock import monotonic
from pyinformer.apimachinery import InformerError
from pyinformer.cli.scenes._environment import Environment
from pyinformer.cli.scenes._registry import SCENES
from pyinformer.cli.scenes._report import SceneReport
from pyinformer.cli.scenes._scene import Scene, SceneResult

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer


def list_scenes(output: TextIO) -> None:
    """Write which scenes there are."""
    SceneReport(output).list(SCENES)


def find(names: Sequence[str]) -> list[Scene]:
    """Return the scenes of these names, in the order of the list.

    Raises:
        KeyError: there is none of a name; the first such name.
    """
    known = {scene.name for scene in SCENES}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return [scene for scene in SCENES if scene.name in names]


def play(scenes: Sequence[Scene], *, real: bool, output: TextIO) -> int:
    """Play scenes and report them.

    Args:
        scenes: what to play.
        real: on a real kube-apiserver with etcd, else on the embedded server.
        output: takes the report.

    Returns:
        The exit status: 0 if all passed, 1 if a claim does not hold or nothing could be played.
    """
    report = SceneReport(output)
    failure: BaseExceptionGroup[InformerError | OSError] | None = None
    passed = False
    try:
        passed = _play(scenes, report, real=real)
    except* (InformerError, OSError) as group:
        failure = group
    if failure is not None:
        report.fail(f"cannot be played: {_first_error(failure)}")
    return 0 if passed else 1


def _play(scenes: Sequence[Scene], report: SceneReport, *, real: bool) -> bool:
    from pyinformer.testing import APIServer, KubeAPIServer

    if real:
        with KubeAPIServer() as one_for_all:  # its start takes longer than most scenes
            passed = True
            for scene in scenes:
                passed &= play_one(scene, one_for_all, report, "a real kube-apiserver")
            return passed
    passed = True
    for scene in scenes:
        with APIServer() as server:
            passed &= play_one(scene, server, report, "the embedded server")
    return passed


def play_one(
    scene: Scene, server: APIServer | KubeAPIServer, report: SceneReport, name: str
) -> bool:
    """Play one scene on a running server, report it, and return whether it passed."""
    report.open(scene, name)
    began = monotonic()
    result = asyncio.run(_perform(scene, Environment(server)))
    report.report(scene, result, monotonic() - began)
    return not result.failed


async def _perform(scene: Scene, environment: Environment) -> SceneResult[Any]:
    return await scene.perform(environment)


def _first_error(error: BaseException) -> BaseException:
    """Return the first of the errors that task groups have wrapped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
