"""Events as text for people: a table of the existing objects, then each event.

An update is printed as its changed paths, with the old and the new values. A redacted value is only
reported as changed. The text is printable. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, final

from pyinformer._printable import printable, shortened
from pyinformer._runtime.clock import wall_time
from pyinformer.cli.output._output_stream import Style
from pyinformer.cli.output._table import Layout, facts_of, table_of
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    ABSENT,
    REDACTED,
    Added,
    Change,
    Deleted,
    Event,
    KubeObject,
    Updated,
    diff,
    redacted_change,
)

_INDENT: Final = " " * 10
_MOST_PATHS, _MOST_PATHS_WIDE = 20, 1000
_VALUE_LENGTH, _VALUE_LENGTH_WIDE = 60, 300
_PATH_LENGTH: Final = 1024
_HIDDEN_WORDS: Final = "not shown; --show-secrets shows it"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TextRendering:
    """Turns objects and events into text for people."""

    layout: Layout
    what: str
    """The name of the resource, for a table without rows."""
    shows_secrets: bool
    styled: Callable[[str, Style], str]
    now: Callable[[], float] = wall_time

    def initial(self, objects: Sequence[KubeObject[Any]]) -> Iterator[str]:
        """Yield the table of the existing objects."""
        layout = replace(self.layout, now=self.now())
        yield from table_of(objects, layout, heading=lambda line: self.styled(line, "bold"))
        if not objects:
            yield f"there are no {printable(self.what)}\n"

    def event(self, event: Event[Any]) -> str:
        """Return the lines of an event."""
        match event:
            case Added(obj):
                return self._line("ADDED", "green", obj, facts_of(obj, self.layout))
            case Updated(old, new):
                lines = self._changes(old, new)
                if event.may_go_back:
                    lines = ["the server's history was replaced: this state may be older", *lines]
                body = "".join(f"{_INDENT}{line}\n" for line in lines)
                return f"{self._line('MODIFIED', 'yellow', new, '')}{body}"
            case Deleted(obj):
                return self._line("DELETED", "red", obj, _on_deletion(event))

    def _line(self, word: str, style: Style, obj: KubeObject[Any], facts: str) -> str:
        clock = datetime.fromtimestamp(self.now(), UTC).astimezone().strftime("%H:%M:%S")
        padded = f"{word:<8}"
        line = f"{clock}  {self.styled(padded, style)}  {printable(str(obj.key))}"
        return f"{line}  {facts}".rstrip() + "\n"

    def _changes(self, old: KubeObject[Any], new: KubeObject[Any]) -> list[str]:
        is_wide = self.layout.is_wide
        most, length = (
            (_MOST_PATHS_WIDE, _VALUE_LENGTH_WIDE) if is_wide else (_MOST_PATHS, _VALUE_LENGTH)
        )
        try:
            changes = diff(old, new)
        except InvalidObjectError as error:
            return [printable(f"the change cannot be shown: {error}")]
        if not changes:
            return ["only metadata.resourceVersion or metadata.managedFields"]
        lines = [self._change(one, new.gvk.kind, length) for one in changes[:most]]
        if len(changes) > most:
            lines.append(f"and {len(changes) - most} more")
        return lines

    def _change(self, change: Change, kind: str, length: int) -> str:
        path = shortened(str(change), _PATH_LENGTH)
        shown = change if self.shows_secrets else redacted_change(change, kind=kind)
        if REDACTED in (shown.old, shown.new):
            return f"{path}: {_verb(change)} ({_HIDDEN_WORDS})"
        if shown.old is ABSENT:
            return f"{path}: added {_text(shown.new, length)}"
        if shown.new is ABSENT:
            return f"{path}: removed {_text(shown.old, length)}"
        return f"{path}: {_text(shown.old, length)} -> {_text(shown.new, length)}"


def _verb(change: Change) -> str:
    if change.old is ABSENT:
        return "added"
    return "removed" if change.new is ABSENT else "changed"


def _text(value: Any, length: int) -> str:  # noqa: ANN401 - JSON
    return shortened(printable(json.dumps(value, ensure_ascii=False)), length)


def _on_deletion(event: Deleted[Any]) -> str:
    notes = []
    if event.final_state_unknown:
        notes.append("found gone by a list")
    if event.may_still_exist:
        notes.append("or it does not match any more")
    return f"({'; '.join(notes)})" if notes else ""
