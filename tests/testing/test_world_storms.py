"""Random operations in virtual time, judged by the checker: the whole way from storage to handler.

Reflector, guard, store, indexes, queue of events, work queue and controllers take part; the storage
of the World is the truth. Watches end by their timeout, are refused, expire and lag; the storage is
restored. No second of it is waited for.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.testing import Fault, World
from pyinformer.testing.histories import (
    History,
    Recorder,
    ServerTruth,
    Verdict,
    check_history,
)
from tests.soak import in_soak

if TYPE_CHECKING:
    from pyinformer import KubeObject, Request
    from pyinformer.objects import JSONObject
    from pyinformer.testing.apiserver.storage import SavedState

OPERATIONS = in_soak(1_000_000, otherwise=300)
OF_ONE_WORLD = in_soak(5_000, otherwise=300)  # 16 s of CPU time; the checker's memory grows with it
NAMES = 40


class Storm:
    """One World under random operations."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._world = world = World(virtual_time=True)
        self._storage, self._faults = world._storage, world._faults
        self._history = History(clock=lambda: self._world.now_seconds)
        self._recorder = Recorder(self._history, interval_seconds=30.0, counts_resources=False)
        self._saved: SavedState | None = None
        self._live: set[str] = set()
        self._failed = 0

    def run(self, operations: int) -> Verdict:
        """Carry them out, come to rest, and judge."""
        world, recorder = self._world, self._recorder
        with world, ServerTruth(self._history, self._storage) as truth:
            everything = world.factory.informer("v1", "configmaps")
            everything.add_index("tier", "data.tier")
            selected = world.factory.informer("v1", "configmaps", label_selector="tier=in")
            recorder.follow(everything, indexes={"tier": "data.tier"})
            recorder.follow(selected, name="selected")
            controllers = [
                pyinformer.Controller(
                    name, recorder.reconciling(name, self._reconcile, primary), primary
                )
                for name, primary in (("all", everything), ("some", selected))
            ]
            world.run(recorder.start)
            for controller in controllers:
                world.run(controller.start)
            for _ in range(operations):
                self._step()
            self._faults.clear()
            world.elapse(600.0)

            async def rest() -> None:
                await recorder.rest(truth)

            world.run(rest)
            for controller in controllers:
                world.run(controller.aclose)
            world.run(recorder.aclose)
        return check_history(self._history)

    async def _reconcile(self, request: Request, obj: KubeObject[None] | None) -> None:
        self._failed += 1
        if self._failed % 7 == 0:
            raise OSError("every seventh reconcile fails")

    def _step(self) -> None:
        steps = (self._put, self._delete, self._lag, self._wait, self._refuse, self._restore)
        (step,) = self._rng.choices(steps, weights=(60, 20, 8, 8, 3, 1))
        step()

    def _put(self) -> None:
        name = f"m{self._rng.randrange(NAMES)}"
        tier = self._rng.choice(("in", "out"))
        metadata = {"name": name, "namespace": "default", "labels": {"tier": tier}}
        data = {"tier": tier, "n": str(self._rng.random())}
        body: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap"}
        body |= {"metadata": metadata, "data": data}
        if name in self._live:
            self._world.update(body)
        else:
            self._world.create(body)
            self._live.add(name)

    def _delete(self) -> None:
        if self._live:
            name = self._rng.choice(sorted(self._live))
            self._live.remove(name)
            self._world.delete("v1", "configmaps", name, "default")

    def _lag(self) -> None:
        """Hold every watch back during some changes."""
        with self._world.stale_caches():
            for _ in range(self._rng.randrange(1, 5)):
                self._rng.choice((self._put, self._delete))()

    def _wait(self) -> None:
        """Wait until watches have ended, perhaps beyond what the storage remembers."""
        if self._rng.random() < 0.3:
            self._storage.forget(history=True)
        self._world.elapse(self._rng.choice((1.0, 30.0, 300.0, 1000.0)))

    def _refuse(self) -> None:
        """Refuse requests of informers for a while; a World is used once they have recovered."""
        verb = self._rng.choice(("watch", "list"))
        status = self._rng.choice((410, 429, 500, 503, 504))
        times = self._rng.randrange(1, 6)
        self._faults.add(Fault(verb=verb, resource="configmaps", status=status, times=times))
        self._world.elapse(1000.0)
        self._faults.clear()
        self._world.elapse(200.0)

    def _restore(self) -> None:
        """Go back to an earlier state, at a moment at which every watch begins again."""
        if self._saved is None or self._rng.random() < 0.5:
            self._saved = self._storage.save()
            return
        self._world.elapse(1.0)  # the checker distinguishes histories by time
        self._storage.restore(self._saved)
        listed = self._world.list("v1", "configmaps", "default")
        self._live = {str(one["metadata"]["name"]) for one in listed}
        self._world.elapse(600.0)


@pytest.mark.soak
@pytest.mark.timeout(in_soak(600, otherwise=300))
@pytest.mark.parametrize("seed", range(OPERATIONS // OF_ONE_WORLD))
def test_random_operations_in_virtual_time_violate_nothing(seed: int) -> None:
    verdict = Storm(seed).run(OF_ONE_WORLD)

    assert verdict.holds, str(verdict)
    assert verdict.records["truth"] > OF_ONE_WORLD // 2
