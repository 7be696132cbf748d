"""The findings about programs: each from the page that shows it, and none from a healthy one."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer import Controller
from pyinformer.leaderelection import LeaderElectionStatus
from pyinformer.operator import Health, HealthOptions
from pyinformer.operator.diagnosis import (
    THRESHOLDS,
    DiagnosisFinding,
    PageFields,
    Severity,
    diagnose_replicas,
    diagnose_status,
    grade,
    is_status_page,
    span,
)
from pyinformer.sharding import SharingStatus
from pyinformer.testing import World
from tests.cache.informer.clusters import pod
from tests.hostile import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Sequence

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
_LEASE = LeaderElectionStatus(
    lease="ops/app",
    identity="app-1",
    is_leading=True,
    holder="app-1",
    transitions=3,
    terms=1,
    renewed_seconds=1.0,
    is_overdue=False,
    is_watching=True,
    last_error="",
)


_SHARE = SharingStatus(
    table="ops/app",
    member="app-a",
    by="key",
    buckets=128,
    members=3,
    open=42,
    catching_up=0,
    draining=0,
    without_owner=0,
    without_owner_seconds=0.0,
    is_member=True,
    is_overdue=False,
    last_error="",
)


class _Member:
    """A replica that shares keys."""

    def status(self) -> SharingStatus:
        """Return its state."""
        return _SHARE


class _Elector:
    """Has the status of an elector."""

    def status(self) -> LeaderElectionStatus:
        return _LEASE


async def _reconcile(_request: object, _obj: object) -> None:
    """Do nothing."""


@pytest.fixture(scope="module")
def healthy() -> dict[str, Any]:
    """Return the page of a program with a cache, a handler, a controller and a Lease."""
    with World([pod("a")]) as world:
        informer = world.factory.informer("v1", "pods")
        informer.add_event_handler(lambda _: None)
        controller = Controller("pods", _reconcile, informer)
        world.reconcile(controller, "default/a")
        page = Health(world.factory, controller, _Elector(), _Member()).pages()["/status"]({})
        assert not isinstance(page, str | dict)
        found: dict[str, Any] = json.loads(b"".join(page.pieces))
    for verdict in ("live", "ready"):
        found[verdict] = {"is_ok": True, "reasons": [], "notes": []}
    found["controllers"][0] |= {"is_running": True, "has_synced": True}
    found["informers"][0] |= {"state": "watching", "has_synced": True, "age_seconds": 3.0}
    return found


def _with(page: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy of a page with another value at a path, such as `informers.0.state`."""
    changed = copy.deepcopy(page)
    place: Any = changed
    *steps, last = [int(one) if one.isdigit() else one for one in path.split(".")]
    for step in steps:
        place = place[step]
    if isinstance(last, int):
        place[last] = value
    elif value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


def _findings(found: Sequence[DiagnosisFinding]) -> list[tuple[str, str]]:
    return [(one.code, one.severity.value) for one in found if one.severity is not Severity.OK]


def test_a_healthy_program_has_no_findings_and_its_page_has_every_field(
    healthy: dict[str, Any],
) -> None:
    assert is_status_page(healthy)
    found = diagnose_status(healthy)
    assert _findings(found) == []
    assert {one.code for one in found} == {
        *("program", "not_live", "not_ready", "caches", "controllers", "lease", "share"),
    } | ({"loop_blocked"} if healthy["watchdog"] else set())


_DAEMONS: dict[str, Any] = {
    "running": 5,
    "stopping": 0,
    "waiting": 0,
    "limit": 5,
    "ignoring_total": 0,
    "ignoring": [],
}
_WAIT = {"request": "default/a", "waiting_for": "Pod/web", "seconds": 1.0, "is_given_up": False}
_POOLED = {"state_seconds": 9.0, "failed_attempts": 2, "last_error": "refused", "reason": ""}
_CACHE = "informers.0."
_HANDLER = "informers.0.handlers.0."
_CONTROLLER = "controllers.0."


@pytest.mark.parametrize(
    ("followed", "options"),
    [
        ({None: "forbidden"}, " -A"),
        ({"shop": "forbidden"}, " -n shop"),
        ({**dict.fromkeys("abd", "watching"), "c": "forbidden"}, " -n c,a,b"),
    ],
)
def test_the_cure_checks_the_namespaces_that_the_cache_follows(
    healthy: dict[str, Any], followed: dict[str | None, str], options: str
) -> None:
    namespaces = [{"namespace": name, "state": state} for name, state in followed.items()]
    page = _with(healthy, f"{_CACHE}namespaces", namespaces)
    finding = diagnose_status(_with(page, f"{_CACHE}state", "forbidden"))[0]
    assert f"`pyinformer doctor pods.v1{options}`, and grant" in finding.cure


@pytest.mark.parametrize(
    ("path", "value", "code", "severity"),
    [
        ("live", {"is_ok": False, "reasons": ["x"], "notes": []}, "not_live", "trouble"),
        ("ready", {"is_ok": False, "reasons": ["x"], "notes": []}, "not_ready", "trouble"),
        ("informers", [], "no_informers", "warn"),
        (f"{_CACHE}crash", "KeyError", "cache_crashed", "trouble"),
        (f"{_CACHE}state", "failed", "cache_failed", "trouble"),
        (f"{_CACHE}state", "forbidden", "cache_forbidden", "trouble"),
        (f"{_CACHE}state", "absent", "cache_absent", "warn"),
        (f"{_CACHE}age_seconds", 300.0, "cache_stale", "trouble"),
        (f"{_CACHE}age_seconds", 250.0, "cache_silent", "warn"),
        (f"{_CACHE}reflector.breaks_order", True, "order_broken", "warn"),
        (f"{_HANDLER}oldest_seconds", 11.0, "handler_late", "warn"),
        (f"{_HANDLER}in_flight_seconds", 61.0, "handler_late", "trouble"),
        (f"{_HANDLER}failed", 2, "handler_failing", "warn"),
        (f"{_CONTROLLER}is_running", False, "controller_idle", "trouble"),
        (f"{_CONTROLLER}has_synced", False, "controller_idle", "trouble"),
        (f"{_CONTROLLER}stuck", ["default/a"], "reconcile_stuck", "trouble"),
        (f"{_CONTROLLER}daemons", {**_DAEMONS, "waiting": 2}, "daemons_waiting", "warn"),
        (
            f"{_CONTROLLER}daemons",
            {**_DAEMONS, "ignoring": ["default/a"], "ignoring_total": 1},
            "daemon_stuck",
            "trouble",
        ),
        (f"{_CONTROLLER}queue.oldest_seconds", 60.0, "queue_late", "warn"),
        (f"{_CONTROLLER}queue.oldest_seconds", 300.0, "queue_late", "trouble"),
        (f"{_CONTROLLER}noop_writes.is_storm", True, "write_storm", "trouble"),
        (f"{_CONTROLLER}noop_writes.breaker", "open", "breaker_open", "warn"),
        (f"{_CONTROLLER}noop_writes.held", 7, "breaker_open", "warn"),
        (f"{_CONTROLLER}hot", ["default/a"], "hot_loop", "warn"),
        (f"{_CONTROLLER}failing", 3, "reconcile_failing", "warn"),
        (
            f"{_CONTROLLER}waiting_keys",
            [{**_WAIT, "seconds": 600.0}],
            "key_waiting",
            "warn",
        ),
        (f"{_CONTROLLER}given_up", 1, "reconcile_terminal", "warn"),
        (f"{_CONTROLLER}sources.0.failures", 1, "source_failing", "warn"),
        ("leader_election.0.is_overdue", True, "lease_overdue", "trouble"),
        ("leader_election.0.last_error", "403", "lease_failing", "warn"),
        ("leader_election.0.watch_refusal", "403", "lease_unwatched", "warn"),
        ("sharing.0.is_overdue", True, "share_overdue", "trouble"),
        ("sharing.0.last_error", "403", "share_failing", "warn"),
        ("sharing.0.without_owner_seconds", 61.0, "buckets_unowned", "warn"),
        ("schema", 2, "page_newer", "warn"),
        (
            "clusters",
            [{"name": "a", "pool": {**_POOLED, "state": "failed"}}],
            "cluster_down",
            "warn",
        ),
        ("abandoned_handlers", ["h"], "handlers_abandoned", "trouble"),
        ("watchdog", ..., "page_incomplete", "warn"),
        (f"{_CACHE}age_seconds", "soon", "page_incomplete", "warn"),
        (f"{_CACHE}age_seconds", 10**400, "page_incomplete", "warn"),
    ],
)
def test_each_fault_is_found_with_its_evidence_and_a_cure(
    healthy: dict[str, Any], path: str, value: object, code: str, severity: str
) -> None:
    found = diagnose_status(_with(healthy, path, value))

    assert _findings(found) == [(code, severity)]
    (finding,) = (one for one in found if one.severity is not Severity.OK)
    assert finding.evidence
    assert finding.cure


def test_a_cache_that_has_not_synced_is_in_trouble_only_after_a_while(
    healthy: dict[str, Any],
) -> None:
    fresh = _with(_with(healthy, f"{_CACHE}has_synced", False), f"{_CACHE}running_seconds", 3.0)
    late = _with(fresh, f"{_CACHE}running_seconds", THRESHOLDS.unsynced_seconds)
    assert _findings(diagnose_status(fresh)) == [("cache_unsynced", "warn")]
    assert _findings(diagnose_status(late)) == [("cache_unsynced", "trouble")]


def test_many_lists_are_a_loop_only_if_they_are_frequent(healthy: dict[str, Any]) -> None:
    often = _with(_with(healthy, f"{_CACHE}reflector.loads", 20), f"{_CACHE}running_seconds", 60.0)
    rare = _with(often, f"{_CACHE}running_seconds", 7 * 86400.0)
    assert _findings(diagnose_status(often)) == [("relist_loop", "warn")]
    assert _findings(diagnose_status(rare)) == []


def test_a_resource_that_is_polled_is_not_in_a_loop(healthy: dict[str, Any]) -> None:
    polled = _with(healthy, f"{_CACHE}reflector.loads", 120)
    polled = _with(polled, f"{_CACHE}running_seconds", 3600.0)
    ends = {"loads:initial": 1, "loads:poll": 119}
    assert _findings(diagnose_status(_with(polled, f"{_CACHE}reflector.outcomes", ends))) == []
    ends = {"loads:initial": 1, "loads:poll": 100, "loads:expired": 19}
    found = diagnose_status(_with(polled, f"{_CACHE}reflector.outcomes", ends))
    assert _findings(found) == [("relist_loop", "warn")]


def test_a_server_that_cannot_be_reached_is_found_before_the_cache_is_stale(
    healthy: dict[str, Any],
) -> None:
    waiting = _with(_with(healthy, f"{_CACHE}state", "waiting"), f"{_CACHE}reflector.attempts", 3)
    assert _findings(diagnose_status(waiting)) == [("cache_retrying", "warn")]


def test_a_cache_that_is_listed_again_since_its_watches_are_refused_is_found(
    healthy: dict[str, Any],
) -> None:
    polling = _with(healthy, f"{_CACHE}state", "polling")
    assert _findings(diagnose_status(polling)) == [("cache_polling", "warn")]


@pytest.mark.parametrize("state", ["proving", "loading", "waiting"])
def test_a_cache_that_does_not_recover_its_watch_is_found_before_it_is_stale(
    healthy: dict[str, Any], state: str
) -> None:
    recovering = _with(healthy, f"{_CACHE}state", state)
    late = _with(recovering, f"{_CACHE}age_seconds", THRESHOLDS.silent_seconds)
    assert _findings(diagnose_status(recovering)) == []
    assert _findings(diagnose_status(late)) == [("cache_recovering", "warn")]


def test_a_slow_reconcile_is_found_with_its_object(healthy: dict[str, Any]) -> None:
    worker = {"name": "w", "request": "default/a", "seconds": 120.0, "is_stuck": False}
    (found, *_) = diagnose_status(_with(healthy, f"{_CONTROLLER}workers", [worker]))
    assert (found.code, found.evidence) == ("reconcile_slow", "default/a for 120 s")


@pytest.mark.parametrize(("now", "severity"), [(0.0, "warn"), (2.0, "trouble")])
def test_a_blocked_loop_is_trouble_while_it_is_blocked(
    healthy: dict[str, Any], now: float, severity: str
) -> None:
    block = {"blocked": 2, "longest_seconds": 4.0, "last_culprit": "t", "blocked_seconds": now}
    found = diagnose_status(_with(healthy, "watchdog", block))
    assert _findings(found) == [("loop_blocked", severity)]
    (cure,) = (one.cure for one in found if one.code == "loop_blocked")
    assert "make the reconcile a plain function" in cure
    assert (
        "asyncio.to_thread" not in cure
    )  # the key of a cancelled one does not wait for its thread


def test_an_informer_that_was_closed_is_not_a_finding(healthy: dict[str, Any]) -> None:
    stopped = copy.deepcopy(healthy)
    stopped["informers"].append({**healthy["informers"][0], "state": "stopped", "age_seconds": 9e5})
    assert _findings(diagnose_status(stopped)) == []


def _replica(page: dict[str, Any], **changed: object) -> dict[str, Any]:
    return {**page, "leader_election": [{**page["leader_election"][0], **changed}]}


def test_two_leaders_are_seen_in_the_pages_of_both(healthy: dict[str, Any]) -> None:
    other = _replica(healthy, identity="app-2", holder="app-2", transitions=4)
    (found,) = diagnose_replicas({"http://a": healthy, "http://b": other})

    assert (found.code, found.severity) == ("two_leaders", Severity.TROUBLE)
    assert found.evidence == "app-1 at http://a; app-2 at http://b; leaseTransitions 3, 4"


def test_one_leader_of_two_replicas_is_well_and_none_is_not(healthy: dict[str, Any]) -> None:
    standby = _replica(healthy, identity="app-2", is_leading=False)
    idle = _replica(healthy, is_leading=False)
    assert _findings(diagnose_replicas({"http://a": healthy, "http://b": standby})) == []
    found = diagnose_replicas({"http://a": idle, "http://b": standby})
    assert _findings(found) == [("no_leader", "warn")]


def test_a_replica_that_has_not_read_the_lease_does_not_report_that_it_is_free(
    healthy: dict[str, Any],
) -> None:
    starts = _replica(healthy, is_leading=False, holder="", is_competing=False)
    assert _findings(diagnose_status(starts)) == []
    free = _replica(healthy, is_leading=False, holder="")
    assert _findings(diagnose_status(free)) == [("no_leader", "warn")]
    other = _replica(starts, identity="app-2")
    assert _findings(diagnose_replicas({"http://a": starts, "http://b": other})) == []


def test_two_holders_of_a_share_are_no_leaders(healthy: dict[str, Any]) -> None:
    first = _replica(healthy, shares="app")
    second = _replica(healthy, shares="app", identity="app-2", holder="app-2", transitions=4)
    (found,) = diagnose_replicas({"http://a": first, "http://b": second})
    assert found.fact == "has 2 holders"


def test_replicas_that_neither_lead_nor_share_are_found(healthy: dict[str, Any]) -> None:
    alone = {**healthy, "leader_election": [], "sharing": []}
    (found,) = diagnose_replicas({"http://a": alone, "http://b": alone})
    assert (found.code, found.severity) == ("replicas_uncoordinated", Severity.WARN)
    assert found.evidence.startswith("controllers that 2 of them have: ")
    assert diagnose_replicas({"http://a": alone, "http://b": {**alone, "controllers": []}}) == []


def test_replicas_of_different_objects_need_no_leader(healthy: dict[str, Any]) -> None:
    """Each of its own namespace, or one of them of two clusters, in controllers of one name."""
    alone = {**healthy, "leader_election": [], "sharing": []}
    (informer,) = healthy["informers"]
    pages = [{**alone, "informers": [{**informer, "informer": f"pods.v1 in {ns}"}]} for ns in "ab"]
    assert diagnose_replicas({"http://a": pages[0], "http://b": pages[1]}) == []
    fleet = {**alone, "controllers": healthy["controllers"] * 2}
    assert diagnose_replicas({"http://a": fleet, "http://b": {**alone, "controllers": []}}) == []


def test_leases_of_one_name_in_two_clusters_are_not_two_leaders(healthy: dict[str, Any]) -> None:
    both = {**healthy, "leader_election": healthy["leader_election"] * 2}
    assert _findings(diagnose_replicas({"http://a": both, "http://b": both})) == []


def test_a_hot_loop_is_shown_with_its_causes(healthy: dict[str, Any]) -> None:
    loop = {"request": "default/a", "reconciles": 201, "inputs": 1, "reasons": ["requeue (x200)"]}
    page = _with(
        _with(healthy, f"{_CONTROLLER}hot", ["default/a"]), f"{_CONTROLLER}hot_loops", [loop]
    )
    (found, *_) = diagnose_status(page)
    assert found.evidence.endswith("default/a ran 201 times for 1 changes: requeue (x200)")


def test_who_waits_for_long_is_shown_with_what_it_waits_for(healthy: dict[str, Any]) -> None:
    waits = [
        {**_WAIT, "waiting_for": "Deployment/web: 0 of 1", "seconds": 7200.0},
        {**_WAIT, "request": "default/b", "seconds": 599.0},
    ]
    (found, *_) = diagnose_status(_with(healthy, f"{_CONTROLLER}waiting_keys", waits))
    assert (found.code, found.evidence) == (
        "key_waiting",
        "default/a for 120 min: Deployment/web: 0 of 1",
    )


def test_only_objects_that_are_given_up_now_are_shown_with_the_reason(
    healthy: dict[str, Any],
) -> None:
    reason = "a change; it was given up: spec.size is negative"
    waits = [
        {**_WAIT, "waiting_for": reason, "seconds": 7200.0, "is_given_up": True},
        {**_WAIT, "request": "default/b"},
    ]
    page = _with(_with(healthy, f"{_CONTROLLER}waiting_keys", waits), f"{_CONTROLLER}given_up", 1)
    (found,) = (one for one in diagnose_status(page) if one.severity is not Severity.OK)
    assert (found.code, found.evidence) == (
        "reconcile_terminal",
        f"1 object: default/a ({reason})",
    )

    corrected = _with(healthy, f"{_CONTROLLER}outcomes.terminal", 1)  # counted since the start
    assert _findings(diagnose_status(corrected)) == []


def test_a_right_that_a_reconcile_lacks_is_to_be_granted(healthy: dict[str, Any]) -> None:
    page = _with(healthy, f"{_CONTROLLER}failing", 1)
    error = 'ForbiddenError ("patch" is missing; needs: resources: ["secrets"]) at app.py:1 in make'
    (lacks,) = (
        one.cure
        for one in diagnose_status(_with(page, f"{_CONTROLLER}last_error", error))
        if one.code == "reconcile_failing"
    )
    assert lacks.startswith("grant the program's account the rights that are missing")


def test_a_late_handler_is_shown_with_the_object_that_it_handles(healthy: dict[str, Any]) -> None:
    page = _with(healthy, f"{_HANDLER}in_flight_key", "default/a")
    (found, *_) = diagnose_status(_with(page, f"{_HANDLER}in_flight_seconds", 12.0))
    assert found.evidence == "0 events behind, the oldest for 0.0 s; busy with default/a for 12 s"


def test_a_removed_handler_is_not_late(healthy: dict[str, Any]) -> None:
    page = _with(healthy, f"{_HANDLER}oldest_seconds", 900.0)
    assert _findings(diagnose_status(_with(page, f"{_HANDLER}is_removed", True))) == []


def test_a_history_that_changes_again_and_again_is_found(healthy: dict[str, Any]) -> None:
    lineage = {"is_flapping": True, "resets": 3, "last_reason": "an older version"}
    found = diagnose_status(_with(healthy, f"{_CACHE}lineage", lineage))
    assert _findings(found) == [("history_flapping", "trouble")]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"is_leading": False, "holder": "b"}, []),
        ({"is_leading": False, "holder": ""}, ["no_leader"]),
    ],
)
def test_a_replica_that_waits_is_well_if_another_one_leads(
    healthy: dict[str, Any], changed: dict[str, Any], expected: list[str]
) -> None:
    found = _findings(diagnose_status(_replica(healthy, **changed)))
    assert [code for code, _ in found] == expected


def test_a_page_that_lacks_many_fields_names_some_and_counts_the_others() -> None:
    found = diagnose_status({"informers": [{}], "live": {}, "ready": {}})
    (old,) = (one for one in found if one.code == "page_incomplete")
    assert " more" in old.evidence


def test_replicas_of_different_versions_are_found(healthy: dict[str, Any]) -> None:
    other = _with(_replica(healthy, identity="b", is_leading=False), "program.pyinformer", "9.9")
    found = diagnose_replicas({"http://a": healthy, "http://b": other})
    assert _findings(found) == [("versions_differ", "warn")]


def test_replicas_of_one_identity_are_found(healthy: dict[str, Any]) -> None:
    both = {"http://a": healthy, "http://b": _replica(healthy, is_leading=False)}
    assert _findings(diagnose_replicas(both)) == [("identity_shared", "trouble")]


@given(_JSON)
def test_no_json_makes_the_rules_fail(document: object) -> None:
    _assert_shown(diagnose_status(document))
    _assert_shown(diagnose_replicas({"http://a": document, "http://b": document}))


@given(st.data())
def test_no_value_in_a_page_makes_the_rules_fail(
    healthy: dict[str, Any], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(_paths(healthy)))
    _assert_shown(diagnose_status(_with(healthy, path, data.draw(_JSON))))


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_a_page_are_made_printable(healthy: dict[str, Any], text: str) -> None:
    page = _with(_with(healthy, f"{_CACHE}crash", text), f"{_CACHE}informer", text)
    _assert_shown(diagnose_status(page))


def _assert_shown(found: Sequence[DiagnosisFinding]) -> None:
    for one in found:
        assert all(map(str.isprintable, (one.subject, one.fact, one.evidence, one.cure)))
        assert max(map(len, (one.subject, one.fact, one.evidence, one.cure))) <= 500
        assert (one.severity is Severity.OK) == (not one.cure)


def _paths(value: object, prefix: str = "") -> list[str]:
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return []
    found = []
    for name, inner in items:
        found += [f"{prefix}{name}", *_paths(inner, f"{prefix}{name}.")]
    return [one for one in found if "://" not in one]


@pytest.mark.parametrize(
    "document",
    [None, [], "text", {}, {"informers": {}, "live": {}, "ready": {}}, {"informers": []}],
)
def test_other_json_is_not_a_status_page(document: object) -> None:
    assert not is_status_page(document)


def test_a_missing_field_is_named_with_its_place() -> None:
    fields = PageFields({"a": [{"b": 1}]})
    (inner,) = fields.records("a")
    assert inner.number("b") == 1.0
    assert inner.number("c") is None
    assert fields.text("d") == ""
    assert not fields.has("d")
    assert fields.missing == ("a[].c", "d")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2 s"),
        (-42.0, "-42 s"),
        (599.0, "599 s"),
        (1800.0, "30 min"),
        (5 * 3600.0, "5 h"),
        (30 * 86400.0, "30 days"),
    ],
)
def test_spans_are_in_the_unit_that_people_use(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_grade_has_two_limits() -> None:
    grades = [grade(value, warn_seconds=1, trouble_seconds=2) for value in (0.9, 1, 2)]
    assert grades == [Severity.OK, Severity.WARN, Severity.TROUBLE]


def test_a_program_is_stale_for_the_doctor_when_it_is_not_ready() -> None:
    assert THRESHOLDS.stale_seconds == HealthOptions().stale_seconds
    assert THRESHOLDS.silent_seconds < THRESHOLDS.stale_seconds
