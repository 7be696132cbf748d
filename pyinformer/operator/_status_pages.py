"""The status pages of a program: its state, and why a cache holds what it holds for a key.

The pages are JSON of frozen records, or text. They show keys and versions, not objects' content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgspec

from pyinformer.apimachinery import JSONObject
from pyinformer.errors import InvalidArgumentError
from pyinformer.informer import FactoryStatus, InformerStatus, SharedInformer, SharedInformerFactory
from pyinformer.leaderelection import LeaderElectionStatus
from pyinformer.operator._health_checks import (
    HasStatus,
    HealthVerdict,
    Status,
    controllers_of,
    informers_of,
    watchdog_of,
)

if TYPE_CHECKING:
    from pyinformer.operator._health_server import Page

_DIGITS: Final = 3  # of a second: a millisecond is what people and dashboards can use


@final
class StatusPages:
    """The pages `/status` and `/explain` of a program.

    Args:
        watched: returns the factories, informers, controllers and groups.
        verdicts: returns whether the program is alive and ready.
    """

    def __init__(
        self,
        watched: Callable[[], Sequence[HasStatus]],
        verdicts: Callable[[], Mapping[str, HealthVerdict]],
    ) -> None:
        self._watched = watched
        self._verdicts = verdicts

    def pages(self) -> dict[str, Page]:
        """Return the pages by their paths, for a HealthServer."""
        return {"/status": self.status, "/explain": self.explain}

    def status(self, query: Mapping[str, str]) -> str | JSONObject:
        """Show the state of everything, or one informer with its journal.

        Args:
            query: `format=text` for people; `informer=pods.v1` for one informer by its name.

        Raises:
            InvalidArgumentError: there is no such informer, or no such format.
        """
        shown = _format_of(query, "json")
        if "informer" in query:
            found = [one.status(with_journal=True) for one in self._informers(query["informer"])]
            return _text_of(found) if shown == "text" else {"informers": _plain(found)}
        statuses = [one.status() for one in self._watched()]
        return overview(statuses, self._verdicts()) if shown == "text" else self._records(statuses)

    def explain(self, query: Mapping[str, str]) -> str | JSONObject:
        """Explain what the caches hold for a key.

        Args:
            query: `key=namespace/name`; `informer=pods.v1` for one of several; `format=json`
                for programs.

        Raises:
            InvalidArgumentError: there is no key, no such informer, or no such format.
        """
        shown, key = _format_of(query, "text"), query.get("key", "")
        if not key:
            names = ", ".join(str(one.scope) for one in self._known()) or "nothing is followed"
            reason = "is missing, as in /explain?informer=pods.v1&key=default/web-1"
            raise InvalidArgumentError("key", f"{reason}; there are: {names}")
        found = [one.explain(key) for one in self._informers(query.get("informer", ""))]
        return "\n\n".join(map(str, found)) if shown == "text" else {"explanations": _plain(found)}

    def _known(self) -> list[SharedInformer[Any]]:
        return list(dict.fromkeys(_informers_of(self._watched())))

    def _informers(self, wanted: str) -> list[SharedInformer[Any]]:
        known = self._known()
        exact = [one for one in known if str(one.scope) == wanted]
        found = exact or [one for one in known if wanted in _names_of(one)]
        if not found:
            names = ", ".join(str(one.scope) for one in known) or "nothing is followed"
            reason = f"none is called {wanted[:80]!r}; there are: {names}"
            raise InvalidArgumentError("informer", reason)
        return found

    def _records(self, statuses: Iterable[Status]) -> JSONObject:
        known = list(statuses)
        watchdogs = [one for one in map(watchdog_of, known) if one is not None]
        return {
            **{name: _plain(verdict) for name, verdict in self._verdicts().items()},
            "informers": [
                _without_journal(_plain(one)) for each in known for one in informers_of(each)
            ],
            "controllers": _plain([one for each in known for one in controllers_of(each)]),
            "leader_election": _plain(
                [one for one in known if isinstance(one, LeaderElectionStatus)]
            ),
            "watchdog": _plain(max(watchdogs, key=lambda one: one.blocked, default=None)),
            "abandoned_handlers": [
                name
                for one in known
                if isinstance(one, FactoryStatus)
                for name in one.abandoned_handlers
            ],
        }


def overview(statuses: Iterable[Status], verdicts: Mapping[str, HealthVerdict]) -> str:
    """Return the state in a line for each informer and controller, then the verdicts.

    Args:
        statuses: the records.
        verdicts: the answers to each question; a note of several is shown once.
    """
    lines: list[str] = []
    for status in statuses:
        if isinstance(status, FactoryStatus):
            lines.append(str(status))
        lines += [one.line() for one in informers_of(status) if status is one]
        lines += [one.line() for one in controllers_of(status)]
        if isinstance(status, LeaderElectionStatus):
            lines.append(f"leader election: {status}")
    if not lines:
        return "nothing is watched"
    for question, answer in verdicts.items():
        no = f"no: {'; '.join(answer.reasons)}"
        lines.append(f"{question}: {'yes' if answer.is_ok else no}")
    notes = dict.fromkeys(note for answer in verdicts.values() for note in answer.notes)
    return "\n".join((*lines, *(f"note: {note}" for note in notes)))


def _format_of(query: Mapping[str, str], usual: str) -> str:
    shown = query.get("format", usual)
    if shown not in {"json", "text"}:
        raise InvalidArgumentError("format", f"must be json or text, got {shown[:80]!r}")
    return shown


def _text_of(informers: Iterable[InformerStatus]) -> str:
    return "\n".join(
        line for one in informers for line in (one.line(), *(f"  {entry}" for entry in one.journal))
    )


def _informers_of(watched: Iterable[HasStatus]) -> Iterable[SharedInformer[Any]]:
    for one in watched:
        if isinstance(one, SharedInformerFactory):
            yield from one.informers
        elif isinstance(one, SharedInformer):
            yield one


def _names_of(informer: SharedInformer[Any]) -> tuple[str, ...]:
    resource = informer.scope.resource
    return ("", resource.resource, str(resource))


def _plain(record: object) -> JSONObject:
    return cast("JSONObject", _rounded(_builtins(record)))


def _builtins(record: object) -> object:
    return msgspec.to_builtins(record, str_keys=True, enc_hook=_dict_of)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value


def _without_journal(record: JSONObject) -> JSONObject:
    """Leave out the journal: an empty one would mean that nothing happened."""
    return {name: value for name, value in record.items() if name != "journal"}


def _dict_of(value: object) -> object:
    if isinstance(value, Mapping):  # an immutable one
        return dict(value)
    raise NotImplementedError(f"a record holds a {type(value).__name__}")
