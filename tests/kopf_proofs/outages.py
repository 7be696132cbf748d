"""Outages of the embedded server, and what a kopf operator makes of each.

An outage is a function of the time that it may wait. It returns an outcome, of which the facts say
what should have happened. `table.py` plays each with plain kopf and with the line;
`test_outages.py` asserts that the outcome with the line is right.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import kopf
from pyinformer.testing import APIServer, Fault, Token
from pyinformer.testing._polling import poll
from tests.kopf_proofs.operators import Operator
from tests.kopf_proofs.outcomes import Fact, Outcome, observe

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Stage:
    """Where an outage is played.

    Attributes:
        with_line: whether `pyinformer.kopf` is installed in this process.
        wait_seconds: after how long an outcome is what it is.
    """

    with_line: bool
    wait_seconds: float

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds, and return whether it does."""
        return poll(condition, timeout_seconds=self.wait_seconds)


Outage = Callable[[Stage], Outcome]

MAPS = ("v1", "configmaps")
KEX = ("kopf.dev", "v1", "kopfexamples")
_SHORT_BACKOFFS = (0.05, 0.05)  # kopf gives a request up after the last one
_FAILURES = 3  # more than the backoffs
PEERINGS = ("kopf.dev/v1", "clusterkopfpeerings")
_RIVAL = "a-rival"
_LIVELY_SECONDS = 3.0
_MANY_REQUESTS = 40  # in those seconds; one after each tenth of a second would be 30


def server_killed(stage: Stage) -> Outcome:
    """The server is killed, and starts again without its watch history."""
    with APIServer() as api:
        make_maps(api, names("kept", 30), names("doomed", 20), names("twin", 5))
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 55)
            with unreachable(api):
                _delete(api, names("doomed", 20), names("twin", 5))
                make_maps(api, names("twin", 5), names("new", 5))
                api.restart(keep_history=False)
            return observe((operator,), lambda: _index_facts(api, operator, 25), stage.wait)


def history_expired(stage: Stage) -> Outcome:
    """A watch ends, and its position has expired (410) when it is resumed; objects were deleted."""
    with APIServer() as api:
        make_maps(api, names("kept", 5), names("doomed", 10))
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 15)
            with unreachable(api):
                _delete(api, names("doomed", 10))
                api.compact()
            return observe((operator,), lambda: _index_facts(api, operator, 10), stage.wait)


def filtered_handler(stage: Stage) -> Outcome:
    """As before, for an `on.event` handler that selects objects by a label."""
    with APIServer() as api:
        make_maps(api, names("doomed", 10), labels={"team": "shop"})
        make_maps(api, names("other", 10), labels={"team": "bank"})
        operator = Operator(api)
        operator.record_events(*MAPS, labels={"team": "shop"})
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 10)
            with unreachable(api):
                _delete(api, names("doomed", 10), names("other", 10))
                api.compact()

            def facts() -> tuple[Fact, ...]:
                told = operator.told("DELETED")
                doomed = set(names("doomed", 10))
                return (
                    Fact("deletions reported", len(told & doomed), 10),
                    Fact("other deletions reported", len(told - doomed), 0),
                )

            return observe((operator,), facts, stage.wait)


def cut_at_any_byte(stage: Stage) -> Outcome:
    """The connection of the watch is reset, again and again, each time after some more bytes."""
    with APIServer() as api:
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: _watches(api, "configmaps") > 0)
            cuts = range(1, 900, 45)
            for number, size in enumerate(cuts):
                api.faults.add(
                    Fault(verb="watch", resource="configmaps", cut_after_bytes=size, times=1)
                )
                api.drop_connections()
                struck = api.faults.struck
                stage.wait(partial(_was_struck, api, operator, struck))
                make_maps(api, [f"new-{number}"])
            created = {f"new-{number}" for number in range(len(cuts))}

            def facts() -> tuple[Fact, ...]:
                found = created & {call.name for call in list(operator.calls)}
                return (
                    Fact("creations reported", len(found), len(created)),
                    Fact("wrong index entries", _wrong_entries(api, operator), 0),
                )

            return observe((operator,), facts, stage.wait)


def error_in_stream(code: int, stage: Stage) -> Outcome:
    """The server sends an ERROR event in an open watch."""
    with APIServer() as api:
        make_maps(api, names("kept", 3))
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3 and _watches(api, "configmaps") > 0)
            stage.wait(lambda: api.emit(*MAPS, "ERROR", _status(code)) > 0)
            make_maps(api, names("new", 3))
            return observe((operator,), lambda: _creation_facts(operator), stage.wait)


def status_of_watch(code: int, stage: Stage) -> Outcome:
    """Requests to watch are refused with an HTTP status, three times."""
    with APIServer() as api:
        make_maps(api, names("kept", 3))
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3 and _watches(api, "configmaps") > 0)
            api.faults.add(Fault(verb="watch", resource="configmaps", status=code, times=_FAILURES))
            api.drop_connections()
            make_maps(api, names("new", 3))
            return observe((operator,), lambda: _creation_facts(operator), stage.wait)


def status_of_list(code: int, stage: Stage) -> Outcome:
    """The list after a 410 is refused with an HTTP status, three times."""
    with APIServer() as api:
        make_maps(api, names("kept", 3))
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3 and _watches(api, "configmaps") > 0)
            with unreachable(api):
                make_maps(api, names("new", 3))
                api.compact()
            api.faults.add(Fault(verb="list", resource="configmaps", status=code, times=_FAILURES))
            return observe((operator,), lambda: _creation_facts(operator), stage.wait)


def expired_continue(stage: Stage) -> Outcome:
    """A list in chunks takes too long: its continue token has expired (HTTP 410)."""
    with APIServer() as api:
        make_maps(api, names("kept", 9))
        operator = _watching_maps(api)
        operator.settings.watching.chunk_size = 3
        gone = Fault(verb="list", resource="configmaps", status=410, match=_is_continued)
        api.faults.add(gone)
        with operator.running():

            def facts() -> tuple[Fact, ...]:
                return (Fact("objects reported", len(operator.told("LISTED")), 9),)

            return observe((operator,), facts, stage.wait)


def paused_by_peering(stage: Stage) -> Outcome:
    """Another operator of higher priority pauses this one; objects change, go and are recreated."""
    with APIServer() as api:
        serve_peering(api)
        make_maps(api, names("kept", 5), names("doomed", 5), names("twin", 3))
        operator = Operator(api, standalone=False, peering_name="default", priority=0)
        _watch_maps(operator)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 13 and _watches(api, "configmaps") > 0)
            pause(api)
            stage.wait(lambda: not open_watches(api, "configmaps"))
            _delete(api, names("doomed", 5), names("twin", 3))
            make_maps(api, names("twin", 3), names("new", 2))
            resume(api)
            return observe((operator,), lambda: _index_facts(api, operator, 8), stage.wait)


def expired_credentials(stage: Stage) -> Outcome:
    """The token expires (401); the login handler returns a new one."""
    with APIServer(tls=True, tokens=[Token(value="first")]) as api:
        tokens = iter(("first", "second"))
        make_maps(api, names("kept", 3))
        operator = Operator(api, token=lambda: next(tokens, "second"))
        _watch_maps(operator)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3)
            api.add_token(Token(value="second"))
            api.expire_token("first")
            api.drop_connections()
            make_maps(api, names("new", 3))

            def facts() -> tuple[Fact, ...]:
                again = Fact("logins", operator.logins, 2)
                return (*_creation_facts(operator), again)

            return observe((operator,), facts, stage.wait)


def definition_recreated(stage: Stage) -> Outcome:
    """A CustomResourceDefinition is deleted with its objects, and created again."""
    with APIServer() as api:
        api.create(DEFINITION)
        make_examples(api, names("before", 3))
        operator = Operator(api)
        operator.record_events(*KEX)
        operator.index_names(*KEX)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3)
            api.delete(*_DEFINITIONS, "kopfexamples.kopf.dev")
            stage.wait(lambda: len(operator.told("DELETED")) == 3)
            api.create(DEFINITION)
            make_examples(api, names("after", 3))

            def facts() -> tuple[Fact, ...]:
                found = {call.name for call in list(operator.calls)} & set(names("after", 3))
                return (
                    Fact("deletions reported", len(operator.told("DELETED")), 3),
                    Fact("new objects reported", len(found), 3),
                    Fact("index entries", len(operator.indexed()), 3),
                )

            return observe((operator,), facts, stage.wait)


def definition_deleted_unseen(stage: Stage) -> Outcome:
    """As before, while the server cannot be reached."""
    with APIServer() as api:
        api.create(DEFINITION)
        make_examples(api, names("before", 3))
        operator = Operator(api)
        operator.record_events(*KEX)
        operator.index_names(*KEX)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3)
            with unreachable(api):
                api.delete(*_DEFINITIONS, "kopfexamples.kopf.dev")
                api.create(DEFINITION)
                make_examples(api, names("after", 3))
                api.compact()

            def facts() -> tuple[Fact, ...]:
                found = {call.name for call in list(operator.calls)} & set(names("after", 3))
                return (
                    Fact("deletions reported", len(operator.told("DELETED")), 3),
                    Fact("new objects reported", len(found), 3),
                    Fact("index entries", len(operator.indexed()), 3),
                )

            return observe((operator,), facts, stage.wait)


def namespace_in_a_gap(stage: Stage) -> Outcome:
    """A namespace that the operator serves by a pattern is created while its watch is broken."""
    with APIServer(strict_namespaces=True) as api:
        api.ensure_namespace("team-a")
        make_maps(api, names("old", 2), namespace="team-a")
        operator = Operator(api, clusterwide=False, namespaces=["team-*"])
        operator.record_events(*MAPS)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 2 and _watches(api, "namespaces") > 0)
            with unreachable(api):
                api.ensure_namespace("team-b")
                make_maps(api, names("new", 2), namespace="team-b")
                api.compact()

            def facts() -> tuple[Fact, ...]:
                found = {call.name for call in list(operator.calls)} & set(names("new", 2))
                return (Fact("objects of the new namespace reported", len(found), 2),)

            return observe((operator,), facts, stage.wait)


def silent_stream(stage: Stage) -> Outcome:
    """A watch stays open and sends nothing, for longer than `watching.inactivity_timeout`."""
    with APIServer() as api:
        operator = _watching_maps(api)
        operator.settings.watching.inactivity_timeout = 1.0
        with operator.running():
            stage.wait(lambda: _watches(api, "configmaps") > 0)
            api.faults.add(Fault(verb="watch", resource="configmaps", stall_after_bytes=0))
            api.drop_connections()
            stage.wait(lambda: api.faults.held > 0)
            make_maps(api, names("new", 3))
            outcome = observe((operator,), lambda: _creation_facts(operator), stage.wait)
            api.faults.release()
            return outcome


def restored_etcd(stage: Stage) -> Outcome:
    """Etcd is restored from a backup: later writes are undone, and other objects are created."""
    with APIServer() as api:
        make_maps(api, names("kept", 10))
        saved = api.save()
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 10)
            make_maps(api, names("undone", 20))
            stage.wait(lambda: len(operator.told("ADDED")) == 20)
            with unreachable(api):
                api.restore(saved)
                make_maps(api, names("later", 40))

            def facts() -> tuple[Fact, ...]:
                indexed, real = set(operator.indexed()), _real_names(api)
                return (
                    Fact("phantoms in the index", len(indexed - real), 0),
                    Fact("objects missing in the index", len(real - indexed), 0),
                )

            return observe((operator,), facts, stage.wait)


def two_clusters(stage: Stage) -> Outcome:
    """Two operators share one settings object and serve two clusters; both lose their history."""
    with APIServer() as one, APIServer() as other:
        settings = kopf.OperatorSettings()
        apis = (one, other)
        for number, api in enumerate(apis):
            make_maps(api, names(f"kept-{number}", 3), names("doomed", 3))
        operators = tuple(Operator(api, settings=settings) for api in apis)
        for operator in operators:
            _watch_maps(operator)
        with operators[0].running(), operators[1].running():
            stage.wait(lambda: all(operator.count("LISTED") == 6 for operator in operators))
            with unreachable(one), unreachable(other):
                for api in apis:
                    _delete(api, names("doomed", 3))
                    api.compact()

            def facts() -> tuple[Fact, ...]:
                pairs = tuple(zip(apis, operators, strict=True))
                told = sum(len(operator.told("DELETED")) for operator in operators)
                wrong = sum(_wrong_entries(api, operator) for api, operator in pairs)
                return (
                    Fact("deletions reported", told, 6),
                    Fact("wrong index entries", wrong, 0),
                )

            return observe(operators, facts, stage.wait)


def watches_end_at_once(stage: Stage) -> Outcome:
    """The server accepts every watch and ends it at once, for three seconds."""
    with APIServer() as api:
        operator = _watching_maps(api)
        with operator.running():
            stage.wait(lambda: _watches(api, "configmaps") > 0)
            api.faults.add(Fault(verb="watch", resource="configmaps", body=b"", times=None))
            before = _watches(api, "configmaps")
            api.drop_connections()
            _elapse(_LIVELY_SECONDS)
            requests = _watches(api, "configmaps") - before
            api.faults.clear()
            make_maps(api, names("new", 3))

            def facts() -> tuple[Fact, ...]:
                often = Fact("requests to watch in 3 s", requests, _MANY_REQUESTS, is_limit=True)
                return (*_creation_facts(operator), often)

            return observe((operator,), facts, stage.wait)


def keepalive_fails(stage: Stage) -> Outcome:
    """The server answers 500 when the operator renews its own record in the peering."""
    with APIServer() as api:
        serve_peering(api)
        operator = Operator(api, standalone=False, peering_name="default")
        operator.settings.peering.lifetime = 2
        _watch_maps(operator)
        with operator.running():
            stage.wait(lambda: _watches(api, "configmaps") > 0)
            resource = f"{PEERINGS[1]}.kopf.dev"
            api.faults.add(Fault(verb="patch", resource=resource, status=500, times=_FAILURES))
            enough = _FAILURES + 3  # at the start, and twice after the failures
            stage.wait(lambda: _patches(api, resource) >= enough or not operator.is_running)
            make_maps(api, names("new", 3))
            return observe((operator,), lambda: _creation_facts(operator), stage.wait)


def rescan_fails(stage: Stage) -> Outcome:
    """A CustomResourceDefinition is created, and discovery answers 500 when kopf reads it again."""
    with APIServer() as api:
        operator = _watching_maps(api)
        operator.record_events(*KEX)
        with operator.running():
            stage.wait(lambda: _watches(api, "customresourcedefinitions.apiextensions.k8s.io") > 0)
            struck = api.faults.struck
            api.faults.add(Fault(match=_is_discovery, status=500, times=_FAILURES))
            api.create(DEFINITION)
            stage.wait(lambda: api.faults.struck >= struck + _FAILURES or not operator.is_running)
            make_maps(api, names("new", 3))
            return observe((operator,), lambda: _creation_facts(operator), stage.wait)


OUTAGES: dict[str, Outage] = {
    "server killed, 20 deleted, 5 recreated": server_killed,
    "position expired (410), 10 deleted": history_expired,
    "the same, `on.event` with a label filter": filtered_handler,
    "connection reset at any byte, 20 times": cut_at_any_byte,
    "ERROR 500 in a watch": partial(error_in_stream, 500),
    "ERROR 403 in a watch": partial(error_in_stream, 403),
    "ERROR 410 in a watch": partial(error_in_stream, 410),
    "HTTP 500 to a watch, 3 times": partial(status_of_watch, 500),
    "HTTP 403 to a watch, 3 times": partial(status_of_watch, 403),
    "HTTP 410 to a watch": partial(status_of_watch, 410),
    "HTTP 500 to a relist, 3 times": partial(status_of_list, 500),
    "HTTP 403 to a relist, 3 times": partial(status_of_list, 403),
    "HTTP 410 to a continued list": expired_continue,
    "paused by peering; 5 deleted, 3 recreated": paused_by_peering,
    "credentials expired": expired_credentials,
    "CRD deleted and created again": definition_recreated,
    "the same, while the server was away": definition_deleted_unseen,
    "namespace created while the watch was broken": namespace_in_a_gap,
    "silent watch": silent_stream,
    "etcd restored from a backup": restored_etcd,
    "two operators, two clusters, one settings object": two_clusters,
    "every watch ends at once": watches_end_at_once,
    "HTTP 500 to the peering's keep-alive, 3 times": keepalive_fails,
    "HTTP 500 to discovery after a CRD, 3 times": rescan_fails,
}
"""The rows of the table, by their titles."""


_DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(kind: str, plural: str, scope: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": _FREE, "status": _FREE}}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": _DEFINITIONS[0],
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kopf.dev"},
        "spec": {
            "group": "kopf.dev",
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


DEFINITION = _definition("KopfExample", "kopfexamples", "Namespaced")
_PEERING = _definition("ClusterKopfPeering", "clusterkopfpeerings", "Cluster")


def _watching_maps(api: APIServer) -> Operator:
    operator = Operator(api)
    _watch_maps(operator)
    return operator


def _watch_maps(operator: Operator) -> None:
    operator.settings.networking.error_backoffs = _SHORT_BACKOFFS
    operator.record_events(*MAPS)
    operator.index_names(*MAPS)


def _was_struck(api: APIServer, operator: Operator, before: int) -> bool:
    return api.faults.struck > before or not operator.is_running


def names(prefix: str, count: int) -> list[str]:
    """Return numbered names."""
    return [f"{prefix}-{number}" for number in range(count)]


def make_maps(
    api: APIServer,
    *names: list[str],
    labels: dict[str, str] | None = None,
    namespace: str = "default",
) -> None:
    """Create ConfigMaps."""
    for name in itertools.chain(*names):
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def make_examples(api: APIServer, names: list[str]) -> None:
    """Create KopfExamples."""
    for name in names:
        metadata = {"name": name, "namespace": "default"}
        api.create({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata})


def _delete(api: APIServer, *names: list[str]) -> None:
    for name in itertools.chain(*names):
        api.delete(*MAPS, name)


@contextmanager
def unreachable(api: APIServer) -> Iterator[None]:
    """Break every connection, and refuse new ones until the end of the block."""
    api.faults.add(Fault(refuse=True, times=None))
    api.drop_connections()
    yield
    api.faults.clear()


def _watches(api: APIServer, resource: str) -> int:
    return sum(one.verb == "watch" and one.resource == resource for one in api.requests)


def _patches(api: APIServer, resource: str) -> int:
    return sum(one.verb == "patch" and one.resource == resource for one in api.requests)


def open_watches(api: APIServer, resource: str) -> int:
    """Return how many watches of a resource are open."""
    of_it = [one for one in api.requests if one.verb == "watch" and one.resource == resource]
    return sum(not one.is_finished for one in of_it)


def _elapse(seconds: float) -> None:
    """Let some time pass, in which their requests are counted."""
    threading.Event().wait(seconds)


def _real_names(api: APIServer) -> set[str]:
    return {one["metadata"]["name"] for one in api.list(*MAPS)}


def _wrong_entries(api: APIServer, operator: Operator) -> int:
    real = {one["metadata"]["name"]: [one["metadata"]["uid"]] for one in api.list(*MAPS)}
    indexed = operator.indexed()
    return sum(real.get(name) != indexed.get(name) for name in real.keys() | indexed.keys())


def _index_facts(api: APIServer, operator: Operator, deleted: int) -> tuple[Fact, ...]:
    return (
        Fact("deletions reported", len(operator.told("DELETED")), deleted),
        Fact("wrong index entries", _wrong_entries(api, operator), 0),
    )


def _creation_facts(operator: Operator) -> tuple[Fact, ...]:
    found = {call.name for call in list(operator.calls)} & set(names("new", 3))
    return (Fact("creations reported", len(found), 3),)


def _status(code: int) -> dict[str, Any]:
    reason = {403: "Forbidden", 410: "Expired", 500: "InternalError"}[code]
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "message": f"etcdserver: {reason}",
        "code": code,
    }


def _is_continued(request: Any) -> bool:
    return "continue" in request.query


def _is_discovery(request: Any) -> bool:
    return bool(request.path == "/apis/kopf.dev/v1")


def serve_peering(api: APIServer) -> None:
    """Serve cluster-wide peerings, and create the one called "default"."""
    api.create(_PEERING)
    api.create(
        {"apiVersion": PEERINGS[0], "kind": "ClusterKopfPeering", "metadata": {"name": "default"}}
    )


def pause(api: APIServer) -> None:
    """Record an operator of a higher priority in the peering."""
    record = {"priority": 100, "lifetime": 600, "lastseen": datetime.now(UTC).isoformat()}
    api.patch(*PEERINGS, "default", {"status": {_RIVAL: record}})


def resume(api: APIServer) -> None:
    """Remove that operator."""
    api.patch(*PEERINGS, "default", {"status": {_RIVAL: None}})
