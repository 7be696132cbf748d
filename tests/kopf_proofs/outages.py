"""Outages, and what a kopf operator makes of each.

An outage is a function of the stage that it is played on. It returns an outcome, of which the facts
say what should have happened. `table.py` plays each with plain kopf and with the line;
`test_outages.py` asserts that the outcome with the line is right.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import kopf
from pyinformer.errors import APIStatusError, ConflictError, InvalidArgumentError
from pyinformer.testing import APIServer, Fault
from tests.kopf_proofs.operators import Operator
from tests.kopf_proofs.outcomes import Fact, Outcome, observe
from tests.kopf_proofs.stages import Stage, unreachable
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kopf_proofs.stages import AnyAPI, Site

Outage = Callable[[Stage], Outcome]

MAPS = ("v1", "configmaps")
KEX = ("kopf.dev", "v1", "kopfexamples")
_SHORT_BACKOFFS = (0.05, 0.05)  # kopf gives a request up after the last one
_SERVED_SECONDS = 100.0
_FAILURES = 3  # more than the backoffs
PEERINGS = ("kopf.dev/v1", "clusterkopfpeerings")
_RIVAL = "a-rival"
_LIVELY_SECONDS = 3.0
_MANY_REQUESTS = 40  # in those seconds; one after each tenth of a second would be 30


def server_killed(stage: Stage) -> Outcome:
    """The server is killed, and starts again without its watch history."""
    with stage.site() as site:
        _make(site, names("kept", 30), names("doomed", 20), names("twin", 5))
        operator = _watching_maps_at(site)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 55)
            with site.unreachable():
                _delete(site, names("doomed", 20), names("twin", 5))
                _make(site, names("twin", 5), names("new", 5))
                site.server.restart()
            return observe((operator,), lambda: _index_facts(site, operator, 25), stage.wait)


def history_expired(stage: Stage) -> Outcome:
    """A watch ends, and its position has expired (410) when it is resumed; objects were deleted."""
    with stage.site() as site:
        _make(site, names("kept", 5), names("doomed", 10))
        operator = _watching_maps_at(site)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 15)
            with site.unreachable():
                _delete(site, names("doomed", 10))
                site.forget()
            return observe((operator,), lambda: _index_facts(site, operator, 10), stage.wait)


def filtered_handler(stage: Stage) -> Outcome:
    """As before, for an `on.event` handler that selects objects by a label."""
    with stage.site() as site:
        _make(site, names("doomed", 10), labels={"team": "shop"})
        _make(site, names("other", 10), labels={"team": "bank"})
        operator = site.operator()
        operator.record_events(*MAPS, labels={"team": "shop"})
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 10)
            with site.unreachable():
                _delete(site, names("doomed", 10), names("other", 10))
                site.forget()

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
    with stage.site() as site:
        serve_peering(site.api, site.namespace)
        _make(site, names("kept", 5), names("doomed", 5), names("twin", 3))
        operator = site.operator(standalone=False, peering_name="default", priority=0)
        _watch_maps(operator)
        with operator.running():
            stage.wait(
                lambda: operator.count("LISTED") == 13 and site.open_watches("configmaps") > 0
            )
            pause(site.api, site.namespace)
            stage.wait(lambda: not site.open_watches("configmaps"))
            _delete(site, names("doomed", 5), names("twin", 3))
            _make(site, names("twin", 3), names("new", 2))
            resume(site.api, site.namespace)
            return observe((operator,), lambda: _index_facts(site, operator, 8), stage.wait)


def expired_credentials(stage: Stage) -> Outcome:
    """The token expires (401); the login handler returns a new one."""
    with stage.site() as site:
        users = [site.server.user(site.namespace, MAPS[1], ("list", "watch", "get"))]
        _make(site, names("kept", 3))
        operator = site.operator(token=lambda: users[-1])
        _watch_maps(operator)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3)
            users.append(site.server.user(site.namespace, MAPS[1], ("list", "watch", "get")))
            site.server.end(users[0])
            with site.unreachable():
                _make(site, names("new", 3))

            def facts() -> tuple[Fact, ...]:
                again = Fact("logins", operator.logins, 2)
                return (*_creation_facts(operator), again)

            return observe((operator,), facts, stage.wait)


def definition_recreated(stage: Stage) -> Outcome:
    """A CustomResourceDefinition is deleted with its objects, and created again."""
    with stage.site() as site, _defined(site):
        make_examples(site.api, names("before", 3), site.namespace)
        operator = _watching_examples(site)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3)
            _undefine(site)
            stage.wait(lambda: len(operator.told("DELETED")) == 3)
            _define(site)
            make_examples(site.api, names("after", 3), site.namespace)
            return observe((operator,), lambda: _example_facts(operator), stage.wait)


def definition_recreated_before_its_operator_patches(stage: Stage) -> Outcome:
    """As before; kopf ends a stream that it needs for patches as soon as they are refused."""
    with stage.site() as site, _defined(site):
        make_examples(site.api, names("before", 3), site.namespace)
        operator = _watching_examples(site)
        operator.record_changes(*KEX, reasons=("create",))  # without kopf's finalizers
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3 and operator.count("create") == 3)
            _undefine(site)
            _define(site)
            make_examples(site.api, names("after", 3), site.namespace)
            return observe((operator,), lambda: _example_facts(operator), stage.wait)


def definition_deleted_unseen(stage: Stage) -> Outcome:
    """As before, while the server cannot be reached."""
    with stage.site() as site, _defined(site):
        make_examples(site.api, names("before", 3), site.namespace)
        operator = _watching_examples(site)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 3)
            with site.unreachable():
                _undefine(site)
                _define(site)
                make_examples(site.api, names("after", 3), site.namespace)
                site.forget()
            return observe((operator,), lambda: _example_facts(operator), stage.wait)


def namespace_in_a_gap(stage: Stage) -> Outcome:
    """A namespace that the operator serves by a pattern is created while its watch is broken."""
    with stage.site() as site:
        _make(site, names("old", 2))
        operator = site.operator(namespaces=[f"{site.namespace}*"])
        operator.record_events(*MAPS)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 2 and _is_open(site, "namespaces"))
            with site.unreachable():
                later = f"{site.namespace}-later"
                site.api.ensure_namespace(later)
                make_maps(site.api, names("new", 2), namespace=later)
                site.forget()

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
    with stage.site() as site:
        _make(site, names("kept", 10))
        restore = site.server.save()
        operator = _watching_maps_at(site)
        with operator.running():
            stage.wait(lambda: operator.count("LISTED") == 10)
            _make(site, names("undone", 20))
            stage.wait(lambda: len(operator.told("ADDED")) == 20)
            with site.unreachable():
                restore(0)
                _make(site, names("later", 40))

            def facts() -> tuple[Fact, ...]:
                indexed, real = set(operator.indexed()), set(_real_uids(site.api, site.namespace))
                return (
                    Fact("phantoms in the index", len(indexed - real), 0),
                    Fact("objects missing in the index", len(real - indexed), 0),
                )

            return observe((operator,), facts, stage.wait)


def two_clusters(stage: Stage) -> Outcome:
    """Two operators share one settings object and serve two clusters; both lose their history."""
    with stage.site() as one, stage.site() as other:
        settings = kopf.OperatorSettings()
        sites = (one, other)
        for number, site in enumerate(sites):
            _make(site, names(f"kept-{number}", 3), names("doomed", 3))
        operators = tuple(site.operator(settings=settings) for site in sites)
        for operator in operators:
            _watch_maps(operator)
        with operators[0].running(), operators[1].running():
            stage.wait(lambda: all(operator.count("LISTED") == 6 for operator in operators))
            with one.unreachable(), other.unreachable():
                for site in sites:
                    _delete(site, names("doomed", 3))
                    site.forget()

            def facts() -> tuple[Fact, ...]:
                told = sum(len(operator.told("DELETED")) for operator in operators)
                wrong = sum(map(_wrong_entries_at, sites, operators))
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


ON_EITHER_SERVER: dict[str, Outage] = {
    "server killed, 20 deleted, 5 recreated": server_killed,
    "position expired (410), 10 deleted": history_expired,
    "the same, `on.event` with a label filter": filtered_handler,
    "paused by peering; 5 deleted, 3 recreated": paused_by_peering,
    "credentials expired": expired_credentials,
    "CRD deleted and created again": definition_recreated,
    "the same, while the server was away": definition_deleted_unseen,
    "namespace created while the watch was broken": namespace_in_a_gap,
    "etcd restored from a backup": restored_etcd,
    "two operators, two clusters, one settings object": two_clusters,
}
"""The rows of the table that a real kube-apiserver has as well, by their titles."""

ON_THE_EMBEDDED_SERVER: dict[str, Outage] = {
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
    "silent watch": silent_stream,
    "every watch ends at once": watches_end_at_once,
    "HTTP 500 to the peering's keep-alive, 3 times": keepalive_fails,
    "HTTP 500 to discovery after a CRD, 3 times": rescan_fails,
}
"""Those that only the embedded server can be made to have; `stages.py` names the reason."""

OUTAGES: dict[str, Outage] = ON_EITHER_SERVER | ON_THE_EMBEDDED_SERVER
"""All of them."""


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
_CLUSTER_PEERING = _definition("ClusterKopfPeering", "clusterkopfpeerings", "Cluster")
_PEERING = _definition("KopfPeering", "kopfpeerings", "Namespaced")


def _watching_maps(api: APIServer) -> Operator:
    operator = Operator(api)
    _watch_maps(operator)
    return operator


def _watching_maps_at(site: Site) -> Operator:
    operator = site.operator()
    _watch_maps(operator)
    return operator


def _watching_examples(site: Site) -> Operator:
    operator = site.operator()
    operator.record_events(*KEX)
    operator.index_names(*KEX)
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
    api: AnyAPI,
    *names: list[str],
    labels: dict[str, str] | None = None,
    namespace: str = "default",
) -> None:
    """Create ConfigMaps."""
    for name in itertools.chain(*names):
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def make_examples(api: AnyAPI, names: list[str], namespace: str = "default") -> None:
    """Create KopfExamples."""
    for name in names:
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": metadata}
        _until_accepted(partial(api.create, body))


def _make(site: Site, *names: list[str], labels: dict[str, str] | None = None) -> None:
    make_maps(site.api, *names, labels=labels, namespace=site.namespace)


def _delete(site: Site, *names: list[str]) -> None:
    for name in itertools.chain(*names):
        site.api.delete(*MAPS, name, site.namespace)


@contextmanager
def _defined(site: Site) -> Iterator[None]:
    """Define KopfExamples, and delete the definition at the end: others use the real server."""
    _define(site)
    try:
        yield
    finally:
        _undefine(site)


def _define(site: Site) -> None:
    site.api.create(DEFINITION)


def _undefine(site: Site) -> None:
    """Delete the definition, and wait until the server has deleted the objects and itself."""
    name = DEFINITION["metadata"]["name"]
    site.api.delete(*_DEFINITIONS, name)
    assert poll(
        lambda: all(one["metadata"]["name"] != name for one in site.api.list(*_DEFINITIONS)),
        timeout_seconds=_SERVED_SECONDS,
    )


def _until_accepted(write: Callable[[], object]) -> None:
    """Repeat a write until the server serves the resource: it does so a moment after the CRD."""

    def is_accepted() -> bool:
        try:
            write()
        except ConflictError:
            return True
        except (APIStatusError, InvalidArgumentError):
            return False
        return True

    assert poll(is_accepted, timeout_seconds=_SERVED_SECONDS)


def _is_open(site: Site, resource: str) -> bool:
    """Return whether a watch is open; only the embedded server shows those of all namespaces."""
    return not isinstance(site.api, APIServer) or site.open_watches(resource) > 0


def _watches(api: APIServer, resource: str) -> int:
    return sum(one.verb == "watch" and one.resource == resource for one in api.requests)


def _patches(api: APIServer, resource: str) -> int:
    return sum(one.verb == "patch" and one.resource == resource for one in api.requests)


def _elapse(seconds: float) -> None:
    """Let some time pass, in which their requests are counted."""
    threading.Event().wait(seconds)


def _real_uids(api: AnyAPI, namespace: str) -> dict[str, list[str]]:
    found = [one["metadata"] for one in api.list(*MAPS, namespace)]
    return {metadata["name"]: [metadata["uid"]] for metadata in found}


def _wrong_entries(api: AnyAPI, operator: Operator, namespace: str = "default") -> int:
    real, indexed = _real_uids(api, namespace), operator.indexed()
    return sum(real.get(name) != indexed.get(name) for name in real.keys() | indexed.keys())


def _wrong_entries_at(site: Site, operator: Operator) -> int:
    return _wrong_entries(site.api, operator, site.namespace)


def _index_facts(site: Site, operator: Operator, deleted: int) -> tuple[Fact, ...]:
    return (
        Fact("deletions reported", len(operator.told("DELETED")), deleted),
        Fact("wrong index entries", _wrong_entries_at(site, operator), 0),
    )


def _example_facts(operator: Operator) -> tuple[Fact, ...]:
    found = {call.name for call in list(operator.calls)} & set(names("after", 3))
    return (
        Fact("deletions reported", len(operator.told("DELETED")), 3),
        Fact("new objects reported", len(found), 3),
        Fact("index entries", len(operator.indexed()), 3),
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


def serve_peering(api: AnyAPI, namespace: str | None = None) -> None:
    """Serve peerings, and create the one called "default".

    Args:
        api: the server.
        namespace: of the peering; None for one of the whole cluster.
    """
    definition = _PEERING if namespace else _CLUSTER_PEERING
    with suppress(ConflictError):  # another outage has defined it
        api.create(definition)
    metadata = {"name": "default"} | ({"namespace": namespace} if namespace else {})
    kind = definition["spec"]["names"]["kind"]
    body = {"apiVersion": PEERINGS[0], "kind": kind, "metadata": metadata}
    _until_accepted(partial(api.create, body))


def pause(api: AnyAPI, namespace: str | None = None) -> None:
    """Record an operator of a higher priority in the peering."""
    record = {"priority": 100, "lifetime": 600, "lastseen": datetime.now(UTC).isoformat()}
    _record_rival(api, record, namespace)


def resume(api: AnyAPI, namespace: str | None = None) -> None:
    """Remove that operator."""
    _record_rival(api, None, namespace)


def _record_rival(api: AnyAPI, record: dict[str, Any] | None, namespace: str | None) -> None:
    plural = "kopfpeerings" if namespace else PEERINGS[1]
    api.patch(PEERINGS[0], plural, "default", {"status": {_RIVAL: record}}, namespace)
