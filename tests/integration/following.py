"""An informer whose handler calls are recorded, and the comparison with the server.

Once everything has settled, its cache, the mirror of its handler and the server's list are equal.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyinformer.errors import TooManyRequestsError
from tests.integration.history import History, check_same, content, contents, positions
from tests.waiting import poll, until

if TYPE_CHECKING:
    from pyinformer import SharedInformer, SharedInformerFactory
    from pyinformer.cache import Registration
    from pyinformer.objects import JSONObject
    from tests.integration.history import Versions
    from tests.integration.servers import Server


@dataclass
class Followed:
    """An informer, what its handler received, and where to read the truth."""

    informer: SharedInformer[Any]
    history: History
    registration: Registration[Any]
    api_version: str
    plural: str
    namespace: str | None
    label_selector: str | None
    field_selector: str | None

    @property
    def loads(self) -> int:
        """How many complete lists it took."""
        return self.informer.status().reflector.loads

    def names(self) -> list[str]:
        """Return the names in the cache, in order."""
        return sorted(obj.metadata.name for obj in self.informer.lister.list())

    def truth(self, server: Server) -> dict[str, JSONObject]:
        """Ask the server, which refuses custom resources (429) for a while after a restart."""
        selectors = (self.label_selector, self.field_selector)
        answers: list[list[JSONObject]] = []

        def is_answered() -> bool:
            try:
                listed = server.api.list(self.api_version, self.plural, self.namespace, *selectors)
            except TooManyRequestsError:
                return False
            answers.append(listed)
            return True

        assert poll(is_answered, timeout_seconds=100), f"{self.plural} are not served"
        return contents(answers[0])

    async def knows(self, count: int, *, timeout_seconds: float = 100.0) -> None:
        """Wait until the handler knows so many objects."""
        await self.informer.wait_for_cache_sync(timeout_seconds=100)
        await until(
            lambda: len(self.history.mirror) == count,
            timeout_seconds=timeout_seconds,
            what=self.history.events,
        )

    async def settle(
        self,
        server: Server,
        *,
        versions: Versions | None = None,
        timeout_seconds: float = 100.0,
    ) -> dict[str, JSONObject]:
        """Wait until cache and mirror are what the server lists, then compare content and lives.

        No writer may run meanwhile.

        Returns:
            What the server lists, by key.
        """
        truth = await asyncio.to_thread(self.truth, server)
        wanted = {
            key: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
            for key, obj in truth.items()
        }

        def is_there() -> bool:
            """Compare who is there, and in which version."""
            # Sizes first: comparing thousands of objects at every look would slow what it awaits.
            return (
                len(self.history.mirror) == len(wanted)
                and positions(self.informer.lister.list()) == wanted
                and self.history.positions() == wanted
            )

        await until(is_there, timeout_seconds=timeout_seconds, what=_Difference(self, wanted))
        cached = {str(obj.key): content(obj.to_dict()) for obj in self.informer.lister.list()}
        check_same(cached, truth)
        self.history.check(versions)
        return truth


@dataclass
class _Difference:
    followed: Followed
    wanted: dict[str, tuple[str, str]]

    def __str__(self) -> str:
        cached = positions(self.followed.informer.lister.list(allow_unsynced=True))
        mirrored = self.followed.history.positions()
        parts = [str(self.followed.informer.status())]
        for name, found in (("cache", cached), ("mirror", mirrored)):
            missing, phantoms = self.wanted.keys() - found.keys(), found.keys() - self.wanted.keys()
            stale = [k for k in found.keys() & self.wanted.keys() if found[k] != self.wanted[k]]
            parts.append(
                f"{name}: {len(missing)} missing, {len(phantoms)} phantoms, {len(stale)} stale"
                f" {sorted([*missing, *phantoms, *stale])[:3]}"
            )
        return "; ".join(parts)


def follow(
    factory: SharedInformerFactory,
    api_version: str,
    plural: str,
    *,
    namespaces: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    mailbox_size: int = 1024,
    **options: Any,
) -> Followed:
    """Create an informer, and record what its handler receives."""
    informer: SharedInformer[Any] = factory.informer(
        api_version,
        plural,
        namespaces=namespaces,
        label_selector=label_selector,
        field_selector=field_selector,
        **options,
    )
    history = History(selective=bool(label_selector or field_selector))
    registration = informer.add_event_handler(history, mailbox_size=mailbox_size)
    return Followed(
        informer,
        history,
        registration,
        api_version,
        plural,
        namespaces,
        label_selector,
        field_selector,
    )
