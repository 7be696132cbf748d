"""A reconcile of an owner with ten unchanged children, measured in this process.

Once with `children`, once as a loop of `apply_if_changed` with the cluster. There is no server: a
World answers in memory, and nothing is to be written.
"""

from __future__ import annotations

import argparse
import gc
from typing import TYPE_CHECKING

import msgspec

import pyinformer
from benchmarks.harness.processes import cpu_seconds, pin_to_cpu
from pyinformer.children import Children, Status
from pyinformer.controller import set_controller_reference
from pyinformer.testing import World

if TYPE_CHECKING:
    from pyinformer import Cluster, Request, Result
    from pyinformer.objects import JSONObject

_CHILDREN = 10
_MILLI = 1e3
_KEY = "default/a"
_OWNER: JSONObject = {
    "apiVersion": "acme.io/v1",
    "kind": "Database",
    "metadata": {"namespace": "default", "name": "a"},
    "spec": {"image": "example.com/db:1"},
}


class _Spec(msgspec.Struct):
    image: str


class _Status(Status, frozen=True):
    ready: int = 0


class _Database(msgspec.Struct):
    spec: _Spec
    status: _Status = _Status()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.own_children")
    parser.add_argument("--kind", choices=("children", "loop"), required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--cpu", type=int, default=None)
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    print(msgspec.json.encode(_measured(options.kind, options.calls)).decode())


class _Program:
    """The two functions, with one body of a child that can change."""

    def __init__(self) -> None:
        self.app = pyinformer.Operator("bench-operator")
        self.color = "red"

    def register(self, kind: str) -> None:
        """Register one of them."""
        function = self.with_children if kind == "children" else self.in_a_loop
        self.app.reconcile("acme.io/v1", "databases", model=_Database, owns=[("v1", "configmaps")])(
            function
        )

    def bodies(self) -> list[JSONObject]:
        """Return the children; only the first has the color."""
        colors = (self.color, *("red",) * (_CHILDREN - 1))
        return [_config_map(number, color) for number, color in enumerate(colors)]

    async def with_children(self, _: Request, __: _Database, children: Children) -> Result:
        """Have the children and the status written."""
        await children.apply(self.bodies())
        return children.status(_Status(ready=1))

    async def in_a_loop(self, _: Request, database: _Database | None, cluster: Cluster) -> None:
        """Do the same with single applies."""
        owner, parts = self.app.object_of(database), self.app.lister("v1", "configmaps")
        for body in self.bodies():
            child = set_controller_reference(owner, body)
            current = parts.get(f"default/{body['metadata']['name']}")
            await cluster.apply_if_changed(child, current, force=True)
        await cluster.status(owner, _Status(ready=1))


def _config_map(number: int, color: str) -> JSONObject:
    data = {f"key-{place}": "value " * 8 for place in range(10)} | {"color": color}
    metadata = {"name": f"part-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _measured(kind: str, calls: int) -> dict[str, float]:
    program = _Program()
    program.register(kind)
    with World([_OWNER]) as world:
        (controller,) = program.app.controllers(world.cluster, world.factory)

        async def call(times: int) -> float:
            gc.collect()
            before = cpu_seconds()
            for _ in range(times):
                outcome = await controller.reconcile_once(pyinformer.Request(_KEY))
                if outcome.error is not None:
                    raise outcome.error
            return (cpu_seconds() - before) / times * _MILLI

        for _ in range(3):
            world.reconcile(controller, _KEY)
        world.clear_writes()
        milliseconds = world.run(lambda: call(calls))
        unchanged = len(world.writes)
        program.color = "blue"
        world.run(lambda: call(1))
        changed = sum(one.plural == "configmaps" for one in world.writes)
    return {"reconcile_ms": milliseconds, "unchanged_writes": unchanged, "changed_writes": changed}


if __name__ == "__main__":
    main()
