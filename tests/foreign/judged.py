"""client-go's informer in its own process, recorded in a history as pyinformer's are.

The checker judges both by the same rules, less those that client-go is known to break.
"""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyinformer.testing.histories import (
    FollowedRecord,
    HandledRecord,
    History,
    RestedRecord,
    Version,
)
from tests.programs import running
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyinformer.testing import FaultProxy

PROGRAM = "client-go"
_EVENTS = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete", "MISSED": "delete"}


class Judged:
    """An informer of config maps that is recorded.

    Attributes:
        mirror: what its handler knows.
    """

    def __init__(self, history: History, program: subprocess.Popen[str], namespace: str) -> None:
        self.mirror: dict[str, Version] = {}
        self._history = history
        self._program = program
        self._changed = threading.Condition()
        self._caches: list[dict[str, Version]] = []
        self._has_synced = False
        for who, role in ((PROGRAM, "cache"), (f"{PROGRAM}/handler", "handler")):
            history.add(
                FollowedRecord(
                    who=who,
                    resource="configmaps",
                    namespaces=[namespace],
                    program=PROGRAM,
                    role=role,  # type: ignore[arg-type]  # two of the roles
                    cache="" if role == "cache" else PROGRAM,
                )
            )

    def read(self) -> None:
        """Read what the program prints, to its end, in a thread."""
        assert self._program.stdout is not None
        for line in self._program.stdout:
            found = json.loads(line)
            with self._changed:
                if "event" in found:
                    self._handled(found)
                elif "cache" in found:
                    self._caches.append(
                        {key: Version(*one) for key, one in found["objects"].items()}
                    )
                self._has_synced |= "synced" in found
                self._changed.notify_all()

    def _handled(self, line: dict[str, Any]) -> None:
        event, key = _EVENTS[line["event"]], line["key"]
        if event == "delete":
            self.mirror.pop(key, None)
        else:
            self.mirror[key] = Version(line["uid"], line["version"])
        self._history.add(
            HandledRecord(
                who=f"{PROGRAM}/handler",
                event=event,  # type: ignore[arg-type]  # one of the three
                key=key,
                uid=line["uid"],
                resource_version=line["version"],
                old_uid=line.get("old_uid", ""),
                old_version=line.get("old", ""),
            )
        )

    def wait_for_sync(self) -> None:
        """Block until its cache has been filled once."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._has_synced, 100)

    def cache(self) -> dict[str, Version]:
        """Ask for its cache."""
        assert self._program.stdin is not None
        before = len(self._caches)
        self._program.stdin.write("cache\n")
        self._program.stdin.flush()
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._caches) > before, 100)
            return self._caches[-1]

    def rest(self, wanted: Mapping[str, Version], *, timeout_seconds: float = 100.0) -> bool:
        """Block until it shows what is wanted, and record what it shows, however that is then.

        Returns:
            Whether it shows it.
        """
        is_right = poll(
            lambda: self.cache() == wanted == self.mirror, timeout_seconds=timeout_seconds
        )
        with self._changed:
            mirror = dict(self.mirror)
        shown = {PROGRAM: ("cache", self.cache()), f"{PROGRAM}/handler": ("mirror", mirror)}
        for who, (what, objects) in shown.items():
            self._history.add(RestedRecord(who=who, what=what, objects=objects))
        return is_right


@contextmanager
def judged(
    history: History, client_go: Path, kubeconfig: Path, namespace: str, *, client: str = "typed"
) -> Iterator[Judged]:
    """Run an informer and record it; it ends with the block."""
    command = [str(client_go), "informer", client, str(kubeconfig), namespace]
    with running(command, errors=subprocess.DEVNULL) as program:
        found = Judged(history, program, namespace)
        reader = threading.Thread(target=found.read)
        reader.start()
        try:
            yield found
        finally:
            assert program.stdin is not None
            program.stdin.close()
            program.kill()
            reader.join()


def in_a_storm(
    client_go: Path, kubeconfig: Path
) -> Callable[[History, FaultProxy, str], AbstractContextManager[Judged]]:
    """Return what starts an informer beside those of a storm.

    Args:
        client_go: the compiled program.
        kubeconfig: where to write how it reaches the storm's proxy.
    """

    @contextmanager
    def start(history: History, proxy: FaultProxy, namespace: str) -> Iterator[Judged]:
        written = proxy.write_kubeconfig(kubeconfig)
        with judged(history, client_go, written, namespace) as informer:
            informer.wait_for_sync()
            yield informer

    return start
