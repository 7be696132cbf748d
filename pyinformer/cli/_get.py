"""`pyinformer get`: what exists, once, read from a cache that has synced.

What enters are an informer and a choice, by name or by an index; what leaves is a table, JSON or
names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import anyio
import msgspec

from pyinformer._clock import wall_time
from pyinformer._printable import printable, printable_json
from pyinformer.apimachinery import KubeObject
from pyinformer.cli._command import Showing
from pyinformer.cli._ending import Ending
from pyinformer.cli._event_json import json_line, shown
from pyinformer.cli._exit_status import FAILED, OK
from pyinformer.cli._paper import Paper
from pyinformer.cli._rows import table_of
from pyinformer.cli._session import Session
from pyinformer.cli._telling import in_portions
from pyinformer.informer import SharedInformer
from pyinformer.tasks import WorkerThreads

Object: TypeAlias = KubeObject[Any]

_INDEX = "asked for"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of the cached objects are shown: all, those of some names, or those of an index."""

    names: tuple[str, ...] = ()
    index: tuple[str, str] | None = None
    """A path, and the value there."""

    def of(self, found: Session) -> list[Object]:
        """Read the cache; a namespace that the server refuses is missing, and was said."""
        lister = found.informer.lister
        if self.index is not None:
            chosen = lister.by_index(_INDEX, self.index[1], allow_unsynced=True)
        else:
            chosen = lister.list(allow_unsynced=True)
        if self.names:
            wanted = frozenset(self.names)
            chosen = [obj for obj in chosen if obj.metadata.name in wanted]
        return sorted(chosen, key=lambda obj: str(obj.key))


@final
class Get:
    """Shows what exists.

    Args:
        choice: what of it.
        showing: how objects are shown.
        ending: is told when nobody reads it any more.
        paper: takes the lines.
    """

    def __init__(self, choice: Choice, showing: Showing, ending: Ending, paper: Paper) -> None:
        self._choice = choice
        self._showing = showing
        self._ending = ending
        self._paper = paper
        self._threads = WorkerThreads("output")

    def prepare(self, informer: SharedInformer[Any]) -> None:
        """Index what is to be found by a value."""
        if self._choice.index is not None:
            informer.add_index(_INDEX, self._choice.index[0])

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Wait for the cache, and show what it holds.

        Cancellation:
            What is being written is waited for.
        """
        await found.sync(gives_up=True)
        deadline.deadline = math.inf  # it is for the cluster, not for whoever reads
        if not found.standing.has_synced:
            found.errors.line(printable(f"pyinformer get: {found.standing.pending}"))
            return FAILED
        objects = self._choice.of(found)
        await self._threads.run(lambda: self._write(self._text(objects, found)))
        return FAILED if found.standing.pending or self._say_missing(objects, found) else OK

    def _say_missing(self, objects: Sequence[Object], found: Session) -> bool:
        """Say what was asked for by name and does not exist."""
        missing = sorted({*self._choice.names} - {obj.metadata.name for obj in objects})
        for name in missing:
            found.errors.line(printable(f"pyinformer get: there is no {name!r} in {found.where}"))
        if not (objects or missing or found.standing.pending):
            found.errors.line(printable(f"there are no {found.where}"))
        return bool(missing)

    def _text(self, objects: Sequence[Object], found: Session) -> Iterator[str]:
        if self._showing.form == "json":
            return self._json(objects)
        if self._showing.form == "name":
            return (f"{name_of(obj)}\n" for obj in objects)
        layout = replace(self._showing.layout(found), now=wall_time())
        return table_of(objects, layout, heading=lambda line: self._paper.styled(line, "bold"))

    def _json(self, objects: Sequence[Object]) -> Iterator[str]:
        """Write one object by itself, and any other number as a List, as kubectl does."""
        shows_secrets = self._showing.shows_secrets
        if len(self._choice.names) == 1:
            yield from (json_line(shown(obj, shows_secrets)) for obj in objects)
            return
        yield '{"apiVersion":"v1","kind":"List","items":['
        for number, obj in enumerate(objects):
            item = msgspec.json.encode(shown(obj, shows_secrets)).decode()
            yield f"{',' if number else ''}\n{printable_json(item)}"
        yield "\n]}\n"

    def _write(self, texts: Iterator[str]) -> None:
        try:
            for text in in_portions(texts):
                self._paper.write(text)
        except OSError as error:
            self._ending.end_unwritten(error)


def name_of(obj: Object) -> str:
    """Return what an object is and how it is called: `pod/web-1`, `deployment.apps/web`."""
    group = obj.gvk.group
    kind = obj.gvk.kind.lower()
    return printable(f"{f'{kind}.{group}' if group else kind}/{obj.metadata.name}")
