"""`pyinformer get`: print the existing objects once, from a synced cache.

The output is a table, JSON, YAML or names, of all cached objects or of those that a filter selects.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import anyio
import msgspec

from pyinformer._printable import printable, printable_json
from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.tasks import WorkerThreads
from pyinformer.cache.informer import SharedInformer
from pyinformer.cli._exit_status import FAILED, OK
from pyinformer.cli._shutdown import Shutdown
from pyinformer.cli.objects._command import DisplayOptions
from pyinformer.cli.objects._event_printer import in_chunks
from pyinformer.cli.objects._session import Session
from pyinformer.cli.output import Output, json_line, shown, table_of, yaml_document, yaml_item
from pyinformer.objects import KubeObject

Object: TypeAlias = KubeObject[Any]

_INDEX = "--index"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFilter:
    """Selects cached objects: all, those with some names, or those with a value of an index."""

    names: tuple[str, ...] = ()
    index: tuple[str, str] | None = None
    """A path, and the value at this path."""

    def of(self, found: Session) -> list[Object]:
        """Return the selected objects; a namespace that the server refuses was reported before."""
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
    """Prints the existing objects.

    Args:
        object_filter: selects the objects.
        display: how objects are printed.
        shutdown: ends the command if the output cannot be written.
        output: receives the text.
    """

    def __init__(
        self,
        object_filter: ObjectFilter,
        display: DisplayOptions,
        shutdown: Shutdown,
        output: Output,
    ) -> None:
        self._filter = object_filter
        self._display = display
        self._shutdown = shutdown
        self._output = output
        self._threads = WorkerThreads("output")

    def prepare(self, informer: SharedInformer[Any]) -> None:
        """Add the index of the filter."""
        if self._filter.index is not None:
            informer.add_index(_INDEX, self._filter.index[0])

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Wait for the sync, and print the selected objects.

        Cancellation:
            Waits for the write in progress.
        """
        await found.sync(gives_up=True)
        deadline.deadline = math.inf  # the timeout bounds the sync, not the reader of the output
        if not found.sync_state.has_synced:
            found.errors.line(printable(f"pyinformer get: {found.sync_state.pending}"))
            return FAILED
        objects = self._filter.of(found)
        await self._threads.run(lambda: self._write(self._text(objects, found)))
        return FAILED if found.sync_state.pending or self._report_missing(objects, found) else OK

    def _report_missing(self, objects: Sequence[Object], found: Session) -> bool:
        """Print which names do not exist, and return whether there are any."""
        missing = sorted({*self._filter.names} - {obj.metadata.name for obj in objects})
        for name in missing:
            found.errors.line(printable(f"pyinformer get: there is no {name!r} in {found.where}"))
        if not (objects or missing or found.sync_state.pending):
            what = f"{found.where} that match" if self._filter.index else found.selected
            found.errors.line(printable(f"there are no {what}"))
        return bool(missing)

    def _text(self, objects: Sequence[Object], found: Session) -> Iterator[str]:
        if self._display.form == "json":
            return self._json(objects)
        if self._display.form == "yaml":
            return self._yaml(objects)
        if self._display.form == "name":
            return (f"{name_of(obj)}\n" for obj in objects)
        layout = replace(self._display.layout(found), now=wall_time())
        return table_of(objects, layout, heading=lambda line: self._output.styled(line, "bold"))

    def _json(self, objects: Sequence[Object]) -> Iterator[str]:
        """Yield a single object if one name was given, otherwise a List, as kubectl does."""
        shows_secrets = self._display.shows_secrets
        if len(self._filter.names) == 1:
            yield from (json_line(shown(obj, shows_secrets)) for obj in objects)
            return
        yield '{"apiVersion":"v1","kind":"List","items":['
        for number, obj in enumerate(objects):
            item = msgspec.json.encode(shown(obj, shows_secrets)).decode()
            yield f"{',' if number else ''}\n{printable_json(item)}"
        yield "\n]}\n"

    def _yaml(self, objects: Sequence[Object]) -> Iterator[str]:
        """Yield the same as YAML."""
        bodies = (shown(obj, self._display.shows_secrets) for obj in objects)
        if len(self._filter.names) == 1:
            yield from map(yaml_document, bodies)
            return
        yield "apiVersion: v1\nkind: List\nitems:" + ("\n" if objects else " []\n")
        yield from map(yaml_item, bodies)

    def _write(self, texts: Iterator[str]) -> None:
        try:
            for text in in_chunks(texts):
                self._output.write(text)
        except OSError as error:
            self._shutdown.on_write_error(error)


def name_of(obj: Object) -> str:
    """Return the kind and the name of an object: `pod/web-1`, `deployment.apps/web`."""
    group = obj.gvk.group
    kind = obj.gvk.kind.lower()
    return printable(f"{f'{kind}.{group}' if group else kind}/{obj.metadata.name}")
