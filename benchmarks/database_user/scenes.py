"""What happens to an operator, and how soon the cluster and the database agree again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.database_user.database import Database
from benchmarks.database_user.replicas import COUNT, Replicas
from benchmarks.database_user.state import (
    API_VERSION,
    KIND,
    NAMESPACE,
    PLURAL,
    SCHEMA,
    Problems,
    find_problems,
)
from pyinformer import InformerError, NotFoundError
from pyinformer.testing import KubeAPIServer

MANY: Final = 20
_OUTAGE_SECONDS: Final = 8.0
_CALM_SECONDS: Final = 3.0  # for as long it must stay right
_POLL_SECONDS: Final = 0.2
_DEFINITIONS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scene has shown."""

    seconds: float | None
    """Until all was right, and stayed so; None if it was not at the bound."""
    problems: Problems
    """What was wrong at the bound."""
    errors: int
    """Lines of the logs with errors."""
    exits: int
    """How often a process ended by itself."""
    alive: int
    """How many processes ran at the end, without the one that the scene has killed."""


class Stage:
    """One operator on its server, with what was created so far.

    Args:
        api: the server.
        database: the database.
        replicas: the operator.
        bound_seconds: how long a scene may take.
    """

    def __init__(
        self, api: KubeAPIServer, database: Database, replicas: Replicas, *, bound_seconds: float
    ) -> None:
        self.api, self.database, self.replicas = api, database, replicas
        self.bound_seconds = bound_seconds
        self._created = 0

    def create(self, count: int) -> list[str]:
        """Create DatabaseUsers; return their names."""
        names = [f"user-{self._created + number}" for number in range(count)]
        self._created += count
        for name in names:
            metadata = {"name": name, "namespace": NAMESPACE}
            spec = {"database": f"of-{name}"}
            self.api.create(
                {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
            )
        return names

    def delete(self, names: Sequence[str]) -> None:
        """Delete DatabaseUsers."""
        for name in names:
            self.api.delete(API_VERSION, PLURAL, name, NAMESPACE)

    def delete_secrets(self, names: Sequence[str]) -> None:
        """Delete the Secrets of DatabaseUsers."""
        for name in names:
            self.api.delete("v1", "secrets", f"{name}-credentials", NAMESPACE)

    def names(self) -> list[str]:
        """Return the names of all DatabaseUsers."""
        return [one["metadata"]["name"] for one in self.api.list(API_VERSION, PLURAL, NAMESPACE)]

    def until(self, condition: Callable[[], bool]) -> bool:
        """Wait until something is true, at most for the bound; return whether it is."""
        deadline = time.monotonic() + self.bound_seconds
        while not (found := condition()) and time.monotonic() < deadline:
            self.replicas.wait(_POLL_SECONDS)
        return found

    def define(self) -> None:
        """Create the definition, and wait until it is served."""
        self.api.register(API_VERSION, KIND, PLURAL, has_status=True, schema=SCHEMA)

    def is_defined(self) -> bool:
        """Return whether the definition exists."""
        try:
            self.api.get(*_DEFINITIONS, f"{PLURAL}.{API_VERSION.partition('/')[0]}")
        except NotFoundError:
            return False
        return True

    def until_right(self, began: float) -> tuple[float | None, Problems]:
        """Wait until all is right, and stays so; return after how long, and what is wrong."""
        right_since: float | None = None
        found: Problems = {"the state is unknown": []}
        while True:
            with contextlib.suppress(InformerError):
                found = find_problems(self.api, self.database)
            now = time.monotonic()
            if found:
                right_since = None
            elif right_since is None:
                right_since = now
            if right_since is not None and now >= right_since + _CALM_SECONDS:
                return right_since - began, {}
            if right_since is None and now >= began + self.bound_seconds:
                return None, found
            self.replicas.wait(_POLL_SECONDS)


Scene = Callable[[Stage], float]
"""Does something, and returns since when the time counts."""


def started(stage: Stage) -> float:
    """Start the operator; there is one object."""
    stage.create(1)
    stage.replicas.start()
    return time.monotonic()


def created(stage: Stage) -> float:
    """Create objects."""
    stage.create(MANY)
    return time.monotonic()


def secrets(stage: Stage) -> float:
    """Delete some Secrets; change the password in some, and the user in some."""
    names = stage.names()
    stage.delete_secrets(names[:3])
    for name in names[3:6]:
        changed = {"stringData": {"password": "changed"}}
        stage.api.patch("v1", "secrets", f"{name}-credentials", changed, NAMESPACE)
    for name in names[6:9]:
        changed = {"stringData": {"user": "changed"}}
        stage.api.patch("v1", "secrets", f"{name}-credentials", changed, NAMESPACE)
    return time.monotonic()


def server_killed(stage: Stage) -> float:
    """Kill the API server for 8 s; before and after that, create objects and delete Secrets."""
    names = stage.names()
    stage.create(MANY // 2)
    stage.delete_secrets(names[:3])
    stage.api.kill()
    stage.replicas.wait(_OUTAGE_SECONDS)
    stage.api.restart()
    began = time.monotonic()
    stage.delete_secrets(names[3:6])
    stage.create(MANY // 2)
    return began


def leader_killed(stage: Stage) -> float:
    """Kill the leader while it creates users."""
    known = len(stage.database.users())
    stage.create(MANY // 2)
    stage.until(lambda: len(stage.database.users()) > known + 2)
    stage.replicas.kill_leader()
    began = time.monotonic()
    stage.create(MANY // 2)
    return began


def deleted(stage: Stage) -> float:
    """Delete half of the objects, and kill the leader meanwhile."""
    names = stage.names()[::2]
    part = len(names) // 3
    stage.database.last_writer = ""
    stage.delete(names[:part])
    stage.until(lambda: stage.database.last_writer != "")
    stage.replicas.kill_leader()
    began = time.monotonic()
    stage.delete(names[part:])
    return began


def redefined(stage: Stage) -> float:
    """Delete the definition with all objects; then create it again, and new objects."""
    stage.api.delete(*_DEFINITIONS, f"{PLURAL}.{API_VERSION.partition('/')[0]}")
    if not stage.until(lambda: not stage.is_defined()):
        raise TimeoutError("the definition was not released: its objects still have finalizers")
    stage.define()
    stage.create(MANY)
    return time.monotonic()


SCENES: Final[dict[str, Scene]] = {
    "started, with one object": started,
    "20 objects created": created,
    "Secrets deleted and changed": secrets,
    "API server killed for 8 s": server_killed,
    "leader killed amid 20 more": leader_killed,
    "half deleted, leader killed": deleted,
    "definition deleted and created": redefined,
}


def play(stage: Stage, scene: Scene) -> Outcome:
    """Play a scene, and wait until all is right; then both replicas run again."""
    exits = stage.replicas.exits()
    stage.replicas.new_errors()
    try:
        seconds, found = stage.until_right(scene(stage))
    except TimeoutError as error:
        seconds, found = None, {str(error): stage.names()}
    alive = stage.replicas.alive()
    stage.replicas.start()
    stage.until(lambda: stage.replicas.alive() == COUNT)
    stage.replicas.wait(_CALM_SECONDS)
    return Outcome(
        seconds=seconds,
        problems=found,
        errors=stage.replicas.new_errors(),
        exits=stage.replicas.exits() - exits,
        alive=alive,
    )
