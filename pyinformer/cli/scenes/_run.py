"""Plays scenes one after the other, and reports them.

The exit status is 0 only if every claim of every scene holds, including those about the plain
program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pyinformer._runtime.clock import monotonic
from pyinformer.cli.scenes._registry import SCENES
from pyinformer.cli.scenes._report import SceneReport
from pyinformer.cli.scenes._scene import Scene, SceneResult
from pyinformer.cli.scenes._server import SceneServer
from pyinformer.errors import InformerError

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer


def list_scenes(output: TextIO) -> None:
    """Print the list of scenes."""
    SceneReport(output).list(SCENES)


def find(names: Sequence[str]) -> list[Scene]:
    """Return the scenes with these names, in the order of the list.

    Raises:
        KeyError: the first name that is unknown.
    """
    known = {scene.name for scene in SCENES}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return [scene for scene in SCENES if scene.name in names]


def play(scenes: Sequence[Scene], *, real: bool, output: TextIO) -> int:
    """Play scenes and report them.

    Args:
        scenes: the scenes to play.
        real: whether to use a real kube-apiserver with etcd, instead of the embedded server.
        output: receives the report.

    Returns:
        The exit status: 0 if all passed, 1 if a claim does not hold or a scene cannot be played.
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
    result = asyncio.run(_perform(scene, SceneServer(server)))
    report.report(scene, result, monotonic() - began)
    return not result.failed


async def _perform(scene: Scene, server: SceneServer) -> SceneResult[Any]:
    return await scene.perform(server)


def _first_error(error: BaseException) -> BaseException:
    """Return the first of the errors that task groups have wrapped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
