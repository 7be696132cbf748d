"""Writers: each has its own kind, namespace, thread and seed.

A writer creates, updates, deletes, recreates objects under the same name and changes labels, and
records each answer of the server.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from pyinformer.errors import TooManyRequestsError
from tests.integration.objects import changed
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyinformer.objects import JSONObject
    from tests.integration.history import Versions
    from tests.integration.objects import Kind
    from tests.integration.servers import Server

SELECTED = "tier=in"


class Writer:
    """Writes one kind of object; not to be run by two threads at once."""

    def __init__(
        self, server: Server, kind: Kind, namespace: str, versions: Versions, *, seed: int = 0
    ) -> None:
        self._api = server.api
        self._kind = kind
        self._namespace = namespace
        self._versions = versions
        self._rng = random.Random(f"{seed} {kind.plural}")
        self.created = 0
        self._writes = 0
        self.live: dict[str, JSONObject] = {}

    def fill(self, count: int) -> None:
        """Create so many objects."""
        for _ in range(count):
            self._create_new()

    def remove(self, count: int) -> None:
        """Delete so many objects."""
        for _ in range(count):
            self._delete()

    def churn(self, *, creates: int, others: int) -> None:
        """Create so many more, and between them do as many other things at random."""
        steps: list[Callable[[], None]] = [self._create_new] * creates
        moves = (self._update, self._flip, self._recreate, self._delete)
        steps += self._rng.choices(moves, weights=(5, 3, 2, 1), k=others)
        self._rng.shuffle(steps)
        for step in steps:
            step()

    def go_back(self, created: int) -> None:
        """Start again from what the restored server has, and from names that it has lost.

        Args:
            created: what `created` was when the server was saved.
        """
        there: list[JSONObject] = []
        assert poll(lambda: self._take_over(there), timeout_seconds=100)
        # What the server makes by itself (kube-root-ca.crt) has no tier.
        ours = [obj for obj in there if "tier" in obj["metadata"].get("labels", {})]
        self.live = {obj["metadata"]["name"]: obj for obj in ours}
        self.created = created

    def _take_over(self, there: list[JSONObject]) -> bool:
        kind = self._kind
        try:
            there[:] = self._api.list(kind.api_version, kind.plural, self._namespace)
        except TooManyRequestsError:
            return False  # a real server says that it is ready before its custom resources are
        return True

    def _create_new(self) -> None:
        self.created += 1
        self._create(f"{self._kind.plural}-{self.created}")

    def _create(self, name: str) -> None:
        labels = {"tier": self._rng.choice(("in", "out"))}
        obj = self._kind.make(name, self._namespace, labels=labels)
        self.live[name] = self._versions.note(self._api.create(obj))

    def _any(self) -> str | None:
        return self._rng.choice(tuple(self.live)) if self.live else None

    def _change(self, name: str, **labels: str) -> None:
        self._writes += 1
        new = changed(self.live[name], self._writes, **labels)
        self.live[name] = self._versions.note(self._api.update(new))

    def _update(self) -> None:
        if name := self._any():
            self._change(name)

    def _flip(self) -> None:
        if name := self._any():
            now = self.live[name]["metadata"]["labels"]["tier"]
            self._change(name, tier="out" if now == "in" else "in")

    def _delete(self) -> None:
        if name := self._any():
            self._remove(name)

    def _recreate(self) -> None:
        if name := self._any():
            self._remove(name)
            self._create(name)

    def _remove(self, name: str) -> None:
        del self.live[name]
        self._api.delete(self._kind.api_version, self._kind.plural, name, self._namespace)


async def together(calls: Iterable[Callable[[], None]]) -> None:
    """Run blocking calls at the same time, each in a thread, beside the loop."""
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(asyncio.to_thread(call))
