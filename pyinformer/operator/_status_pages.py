"""The status pages of a program: its state, and why a cache holds what it holds for a key.

The pages are JSON of frozen records, or text. They show keys and versions, not objects' content.
They are made in pieces, so that the state of a thousand informers does not block the event loop.
"""

from __future__ import annotations

import heapq
import json
import os
import platform
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast, final

import msgspec

from pyinformer._printable import printable
from pyinformer._runtime.clock import monotonic, wall_time
from pyinformer._version import __version__
from pyinformer.cache.informer import (
    FactoryStatus,
    InformerStatus,
    NamespaceStatus,
    SharedInformer,
    SharedInformerFactory,
    status_in_steps,
)
from pyinformer.cache.reflector import ReflectorState
from pyinformer.controller import ControllerGroup, ControllerGroupStatus
from pyinformer.errors import InvalidArgumentError
from pyinformer.fleet import FleetStatus
from pyinformer.leaderelection import LeaderElectionStatus
from pyinformer.objects import JSONObject, JSONValue
from pyinformer.operator._debug_page import debug_pages
from pyinformer.operator._health_server import JSON, TEXT, Document
from pyinformer.operator._health_verdicts import (
    HasStatus,
    HealthVerdict,
    Status,
    controllers_of,
    engaged_controllers_of,
    informers_of,
    sharing_of,
    watchdog_of,
)

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster, PooledClusterStatus
    from pyinformer.controller import (
        ControllerStatus,
        EngagedClusterStatus,
        FailingKeyStatus,
        WaitingKeyStatus,
    )
    from pyinformer.fleet import FleetClusterStatus
    from pyinformer.operator._health_server import Page

SCHEMA: Final = 1
"""The version of the JSON of `/status`. A reader ignores names that it does not know, and does
without those that are missing; the number grows if a name gets another meaning, or goes."""

_DIGITS: Final = 3  # of a second: a millisecond is what people and dashboards can use
_MAX_NAMESPACES: Final = 100  # of an informer, and
_MAX_ENTRIES: Final = 1_000  # the newest of its journal; each namespace has its own, and
_MAX_HOT: Final = 100  # slowed keys of a controller, and
_MAX_PRIORITIES: Final = 100  # of its waiting keys: tenants may cause any number
_ONLY_CACHES: Final = (SharedInformerFactory, SharedInformer)
_WAITS: Final = b""  # lets the event loop run

_Record = TypeVar("_Record")
_OfKey = TypeVar("_OfKey", "FailingKeyStatus", "WaitingKeyStatus")
Judge: TypeAlias = Callable[[Sequence[Status]], HealthVerdict]
"""Decides one question, such as whether the program is ready, from the statuses of everything."""


@final
class StatusPages:
    """The pages `/status` and `/explain` of a program, and `/debug`, which reads them.

    Args:
        watched: returns the factories, informers, controllers and groups.
        judges: by the question, which is `live` or `ready`.
        pooled: returns the clusters of pools.
    """

    def __init__(
        self,
        watched: Callable[[], Sequence[HasStatus]],
        judges: Mapping[str, Judge],
        pooled: Callable[[], Sequence[PooledClusterStatus]],
    ) -> None:
        self._watched = watched
        self._judges = judges
        self._pooled = pooled
        self._made_at = monotonic()

    def pages(self) -> dict[str, Page]:
        """Return the pages by their paths, for a HealthServer."""
        return {"/status": self.status, "/explain": self.explain, **debug_pages()}

    def status(self, query: Mapping[str, str]) -> str | JSONObject | Document:
        """Show the state of everything, or one informer with its journal.

        Args:
            query: `format=text` for people; `informer=pods.v1` for one informer by its name.

        Raises:
            InvalidArgumentError: there is no such informer, or no such format.
        """
        shown = _format_of(query, "json")
        if "informer" in query:
            found = [one.status(with_journal=True) for one in self._informers(query["informer"])]
            return _text_of(found) if shown == "text" else _with_journals(found)
        if shown == "text":
            return Document(TEXT, self._text())
        return Document(JSON, self._json())

    def explain(self, query: Mapping[str, str]) -> str | JSONObject:
        """Explain what the caches hold for a key, and why its reconciles fail or wait.

        Args:
            query: `key=namespace/name`; `informer=pods.v1` for one of several; `format=json`
                for programs.

        Raises:
            InvalidArgumentError: there is no key, no such informer, or no such format.
        """
        shown, key = _format_of(query, "text"), query.get("key", "")
        if not key:
            names = ", ".join(map(_name_of, self._known())) or "nothing is followed"
            reason = "is missing, as in /explain?informer=pods.v1&key=default/web-1"
            raise InvalidArgumentError("key", f"{reason}; there are: {names}")
        found = [one.explain(key) for one in self._informers(query.get("informer", ""))]
        # Of factories and informers a status takes long, and has no reconciles.
        reconciling = (one for one in self._watched() if not isinstance(one, _ONLY_CACHES))
        controllers = list(_controllers_in(one.status() for one in reconciling))
        failures = list(_of_key(key, controllers, lambda one: one.failing_keys))
        waits = list(_of_key(key, controllers, lambda one: one.waiting_keys))
        if shown != "text":
            return {
                "explanations": _plain(found),
                "failures": [{"controller": name, **_plain(one)} for name, one in failures],
                "waits": [{"controller": name, **_plain(one)} for name, one in waits],
            }
        lines = [
            f"{name} fails with {one.error}; retry in {one.retry_seconds:.0f} s"
            for name, one in failures
        ]
        lines += [f"{name} waits for {one.seconds:.0f} s: {one.waiting_for}" for name, one in waits]
        return "\n\n".join((*map(str, found), *map(printable, lines)))

    def _known(self) -> list[SharedInformer[Any]]:
        return list(dict.fromkeys(_informers_of(self._watched())))

    def _informers(self, wanted: str) -> list[SharedInformer[Any]]:
        known = self._known()
        exact = [one for one in known if wanted in {_name_of(one), str(one.scope)}]
        found = exact or [one for one in known if wanted in _names_of(one)]
        if not found:
            names = ", ".join(map(_name_of, known)) or "nothing is followed"
            reason = f"none is called {wanted[:80]!r}; there are: {names}"
            raise InvalidArgumentError("informer", reason)
        return found

    def _collected(self) -> Generator[bytes, None, list[Status]]:
        """Read the status of everything; the statuses are those of this second, not moment."""
        found: list[Status] = []
        for one in self._watched():
            if isinstance(one, SharedInformerFactory):
                found.append((yield from _waiting(status_in_steps(one))))
            else:
                found.append(one.status())
                yield _WAITS
        return found

    def _text(self) -> Iterator[bytes]:
        statuses = yield from self._collected()
        verdicts: dict[str, HealthVerdict] = {}
        for question, judge in self._judges.items():
            verdicts[question] = judge(statuses)
            yield _WAITS
        for line in overview_lines(statuses, verdicts):
            yield f"{printable(line)}\n".encode()

    def _json(self) -> Iterator[bytes]:
        """Return an object with a line for each record."""
        statuses = yield from self._collected()
        watchdogs = [one for one in map(watchdog_of, statuses) if one is not None]
        yield b'{\n"schema": %d' % SCHEMA
        yield _member("program", self._program())
        for question, judge in self._judges.items():
            yield _member(question, _plain(judge(statuses)))
        yield from _members("informers", map(_informer, _each(informers_of, statuses)))
        yield from _members("controllers", map(_controller, _each(controllers_of, statuses)))
        yield from _members("fleet", map(_plain, _each(_fleet_of, statuses)))
        yield from _members("engaged", map(_plain, _each(_engaged_of, statuses)))
        leases = [one for one in statuses if isinstance(one, LeaderElectionStatus)]
        yield from _members("leader_election", map(_plain, leases))
        shares = [one for one in map(sharing_of, statuses) if one is not None]
        yield from _members("sharing", map(_plain, shares))
        yield _member("watchdog", _plain(max(watchdogs, key=lambda one: one.blocked, default=None)))
        yield _member("abandoned_handlers", list(_abandoned(statuses)))
        yield from _members("clusters", self._clusters())
        yield b"\n}\n"

    def _program(self) -> JSONObject:
        return {
            "pyinformer": __version__,
            "python": platform.python_version(),
            "pid": os.getpid(),
            "uptime_seconds": round(monotonic() - self._made_at, _DIGITS),
            "time": round(wall_time(), _DIGITS),
        }

    def _clusters(self) -> Iterator[JSONObject]:
        """Yield the clusters of the informers, and those of pools, each once."""
        pooled = {one.name: one for one in self._pooled()}
        for cluster in dict.fromkeys(one.cluster for one in self._known()):
            yield _cluster(cluster.name, cluster, pooled.pop(cluster.name, None))
        for name, status in pooled.items():
            yield _cluster(name, None, status)


def overview_lines(
    statuses: Sequence[Status], verdicts: Mapping[str, HealthVerdict]
) -> Iterator[str]:
    """Yield the state in a line for each informer and controller, then the verdicts.

    Args:
        statuses: the records.
        verdicts: the answers to each question; a note of several is shown once.
    """
    is_watched = False
    for line in _status_lines(statuses):
        is_watched = True
        yield line
    if not is_watched:
        yield "nothing is watched"
        return
    for question, answer in verdicts.items():
        no = f"no: {'; '.join(answer.reasons)}"
        yield f"{question}: {'yes' if answer.is_ok else no}"
    notes = dict.fromkeys(note for answer in verdicts.values() for note in answer.notes)
    yield from (f"note: {note}" for note in notes)


def _status_lines(statuses: Sequence[Status]) -> Iterator[str]:
    of_fleets: dict[str, list[EngagedClusterStatus]]
    of_fleets = {one.name: [] for one in _each(_fleet_of, statuses)}
    for status in statuses:
        yield from (one.line() for one in informers_of(status))
        if isinstance(status, FactoryStatus):
            yield from status.lines_on_all()
        yield from (one.line() for one in controllers_of(status))
        for engaged in _engaged_of(status):
            if engaged.name in of_fleets:
                of_fleets[engaged.name].append(engaged)
            else:
                yield from _engaged_lines(engaged, engaged.line())
        if isinstance(status, LeaderElectionStatus):
            yield f"{status.title}: {status}"
        sharing = sharing_of(status)
        if sharing is not None:
            yield f"sharing: {sharing}"
    for status in statuses:
        if isinstance(status, FleetStatus):
            yield f"fleet: {status}"
            yield from _fleet_lines(status, of_fleets)


def _fleet_lines(
    status: FleetStatus, engaged: dict[str, list[EngagedClusterStatus]]
) -> Iterator[str]:
    """Yield its clusters, each with its controllers; two fleets may have a cluster of one name."""
    for cluster in status.clusters:
        yield cluster.line()
        for one in engaged.pop(cluster.name, ()):
            is_said = one.reason in cluster.reason
            yield from _engaged_lines(one, "" if is_said else f"  {one.line()}")


def _engaged_lines(status: EngagedClusterStatus, line: str) -> Iterator[str]:
    if line:
        yield line
    yield from (f"  {one.line()}" for one in status.controllers)


def _waiting(steps: Generator[None, None, FactoryStatus]) -> Generator[bytes, None, FactoryStatus]:
    """Return the status of a factory; let the event loop run between its informers."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("FactoryStatus", end.value)
        yield _WAITS


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
        elif isinstance(one, ControllerGroup):
            yield from one.engaged_informers
        elif isinstance(one, SharedInformer):
            yield one


def _name_of(informer: SharedInformer[Any]) -> str:
    """Return the name in the informer's status, `eu: pods.v1 in shop`."""
    return informer.scope.named_in(informer.cluster)


def _names_of(informer: SharedInformer[Any]) -> tuple[str, ...]:
    """Return the names that several informers may have: empty for any, `pods`, `pods.v1`."""
    resource = informer.scope.resource
    return ("", resource.resource, str(resource))


def _each(
    read: Callable[[Status], Iterable[_Record]], statuses: Iterable[Status]
) -> Iterator[_Record]:
    for status in statuses:
        yield from read(status)


def _engaged_of(status: Status) -> tuple[EngagedClusterStatus, ...]:
    return status.engaged if isinstance(status, ControllerGroupStatus) else ()


def _fleet_of(status: Status) -> tuple[FleetClusterStatus, ...]:
    return status.clusters if isinstance(status, FleetStatus) else ()


def _controllers_in(statuses: Iterable[Status]) -> Iterator[ControllerStatus]:
    for status in statuses:
        yield from controllers_of(status)
        yield from engaged_controllers_of(status)


def _of_key(
    key: str,
    controllers: Iterable[ControllerStatus],
    read: Callable[[ControllerStatus], Iterable[_OfKey]],
) -> Iterator[tuple[str, _OfKey]]:
    """Yield the records of the objects of a key, with the controllers; of any cluster."""
    for controller in controllers:
        for one in read(controller):
            if key in {one.request, one.request.partition(":")[2]}:
                yield controller.name, one


def _abandoned(statuses: Iterable[Status]) -> Iterator[str]:
    for status in statuses:
        if isinstance(status, FactoryStatus):
            yield from status.abandoned_handlers


def _with_journals(found: Iterable[InformerStatus]) -> JSONObject:
    records = [{**_informer(one), "journal": _plain(one.journal[-_MAX_ENTRIES:])} for one in found]
    return {"schema": SCHEMA, "informers": records}


def _informer(status: InformerStatus) -> JSONObject:
    """Return the record without its journal: an empty one would mean that nothing happened.

    If it has very many namespaces, those that are not followed come first, and some are left out.
    """
    total = len(status.namespaces)
    if total > _MAX_NAMESPACES:
        worst = heapq.nsmallest(_MAX_NAMESPACES, status.namespaces, key=_is_followed)
        status = replace(status, namespaces=tuple(worst))
    record = _plain(status)
    del record["journal"]
    return {**record, "namespaces_total": total}


def _is_followed(namespace: NamespaceStatus) -> bool:
    return namespace.has_synced and namespace.state is ReflectorState.WATCHING


def _controller(status: ControllerStatus) -> JSONObject:
    """Return the record, with not more slowed keys and priorities than people read."""
    total = len(status.hot)
    priorities = status.queue.depth_by_priority[:_MAX_PRIORITIES]
    status = replace(
        status,
        hot=status.hot[:_MAX_HOT],
        hot_loops=status.hot_loops[:_MAX_HOT],
        queue=msgspec.structs.replace(status.queue, depth_by_priority=priorities),
    )
    return {**_plain(status), "hot_total": total}


def _cluster(name: str, cluster: Cluster | None, pooled: PooledClusterStatus | None) -> JSONObject:
    return {
        "name": name,
        "server": None if cluster is None else cluster.config.server,
        "source": None if cluster is None else cluster.config.source,
        "pool": _plain(pooled),
    }


def _member(name: str, value: JSONValue) -> bytes:
    """Return a member of the page's object; `schema`, the first one, stands before it."""
    return f',\n"{name}": {json.dumps(value)}'.encode()


def _members(name: str, records: Iterable[JSONObject]) -> Iterator[bytes]:
    """Yield a member that is a list, in a piece for each record."""
    yield f',\n"{name}": ['.encode()
    between = b"\n"
    for record in records:
        yield between + json.dumps(record).encode()
        between = b",\n"
    yield b"]"


def _plain(record: object) -> JSONObject:
    """Return a record as JSON values, its seconds rounded."""
    values = msgspec.to_builtins(record, str_keys=True, enc_hook=_dict_of)
    return cast("JSONObject", _rounded(values))


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value


def _dict_of(value: object) -> object:
    if isinstance(value, Mapping):  # an immutable one
        return dict(value)
    raise NotImplementedError(f"a record holds a {type(value).__name__}")
