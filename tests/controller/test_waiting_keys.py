"""For how long an object has waited, as the status shows it."""

from __future__ import annotations

from pyinformer import Controller, KubeObject, Request, Result, TerminalError
from pyinformer.testing import World
from tests.cache.informer.clusters import pod


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
