"""For how long an object has waited, as the status shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pyinformer import Controller, KubeObject, Request, Result, TerminalError
from pyinformer.testing import World
from tests.cache.informer.clusters import pod
from tests.waiting import pause

if TYPE_CHECKING:
    from types import FrameType

    from _typeshed import TraceFunction


def test_a_wait_of_an_object_that_was_given_up_begins_at_zero() -> None:
    """Else the doctor reports at once that an object waits for long, which was just corrected."""
    ends = ["give up", "wait", "wait"]

    async def reconcile(request: Request, obj: KubeObject | None) -> Result:
        if ends.pop(0) == "give up":
            raise TerminalError("no such host")
        return Result(waiting_for="Deployment/web")

    with World([pod("a")], virtual_time=True) as world:
        controller = Controller("pods", reconcile, world.factory.informer("v1", "pods"))

        world.run(controller.start)
        found: list[tuple[bool, float, int]] = []
        for number in range(3):
            if number:
                labels = {"turn": str(number)}
                world.patch(
                    "v1", "pods", "a", {"metadata": {"labels": labels}}, namespace="default"
                )
            world.elapse(60.0)
            shown = controller.status()
            (waits,) = shown.waiting_keys
            found.append((waits.is_given_up, round(waits.seconds, 1), shown.given_up))
        world.run(controller.aclose)

    assert found == [(True, 60.0, 1), (False, 60.0, 0), (False, 120.0, 0)]


def test_what_a_controller_without_a_primary_gave_up_is_shown() -> None:
    """Its requests name no objects that could be gone."""
    ends: list[Exception | None] = [TerminalError("no such team"), None]

    async def reconcile(request: Request, obj: object) -> None:
        end = ends.pop(0)
        if end is not None:
            raise end

    with World([pod("a")], virtual_time=True) as world:
        controller: Controller[None] = Controller("teams", reconcile)
        controller.watches(world.factory.informer("v1", "pods"), lambda _: "team-a")
        world.run(controller.start)
        world.elapse(60.0)
        shown = controller.status()
        change = {"metadata": {"labels": {"app": "web"}}}
        world.patch("v1", "pods", "a", change, namespace="default")
        world.elapse(60.0)
        rest = controller.status()
        world.run(controller.aclose)

    (lost,) = shown.waiting_keys
    assert (lost.request, lost.is_given_up, shown.given_up) == ("team-a", True, 1)
    assert (rest.waiting, rest.given_up) == (0, 0)


@pytest.mark.parametrize("line", range(5))
def test_another_thread_may_read_the_status_at_each_line_of_the_record(line: int) -> None:
    """The status forgets what is gone, while the end of a reconcile of it is recorded."""
    seen: list[Request] = []
    lines = 0

    async def reconcile(request: Request, obj: KubeObject | None) -> None:
        seen.append(request)
        if len(seen) == 1:
            raise TerminalError("no such host")
        if obj is not None:
            await world.cluster.delete(obj, grace_period_seconds=0)
            while informer.lister.get(request.key) is not None:
                await pause(0.1)
            sys.settrace(trace)  # of the thread of the loop

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        """Read the status where the interpreter may switch to another thread."""
        nonlocal lines
        code = frame.f_code
        if not (code.co_name == "record" and code.co_filename.endswith("_waiting_keys.py")):
            return None
        if event == "line":
            if lines == line:
                controller.status()
            lines += 1
        elif event == "return":
            sys.settrace(None)
        return trace

    with World([pod("a")], virtual_time=True) as world:
        informer = world.factory.informer("v1", "pods")
        controller = Controller("pods", reconcile, informer)
        world.run(controller.start)
        world.elapse(1.0)
        change = {"metadata": {"labels": {"app": "web"}}}
        world.patch("v1", "pods", "a", change, namespace="default")
        world.elapse(60.0)
        outcomes, waiting = controller.status().outcomes, controller.status().waiting
        world.run(controller.aclose)

    assert lines, "the place that is traced has another name by now"
    assert (waiting, outcomes["terminal"], outcomes["success"]) == (0, 1, len(seen) - 1)
