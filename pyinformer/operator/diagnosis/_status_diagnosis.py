"""What is wrong with running programs, as far as their status pages show it.

The pages are read without trust: each may be older than this library, or of another program.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from pyinformer.cache.informer import counted as _counted
from pyinformer.operator._status_pages import SCHEMA
from pyinformer.operator.diagnosis._diagnosis_finding import (
    DiagnosisFinding,
    good,
    grade,
    span,
    trouble,
    warn,
    worst_first,
)
from pyinformer.operator.diagnosis._page_fields import PageFields
from pyinformer.operator.diagnosis._thresholds import THRESHOLDS as LIMITS

Found: TypeAlias = Iterator[DiagnosisFinding]

_HOUR_SECONDS: Final = 3600.0
_NAMED: Final = 3  # keys in one finding
_SHOWN_FIELDS: Final = 4
_JOURNAL: Final = "read /status?informer={}&format=text, which has its journal"


def is_status_page(document: object) -> bool:
    """Return whether a JSON document is the status page of a program with this library."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("informers"), list)
        and all(isinstance(document.get(name), Mapping) for name in ("live", "ready"))
    )


def diagnose_status(document: object) -> list[DiagnosisFinding]:
    """Return the findings about one program, the worst first.

    Args:
        document: the JSON of its page `/status`. Fields that it lacks are reported, not guessed.
    """
    page = PageFields(document)
    found = [
        *_versions(page),
        *_verdicts(page),
        *_clusters(page.records("clusters")),
        *_informers(page.records("informers")),
        *_controllers(page.records("controllers")),
        *_elections(page.records("leader_election")),
        *_shares(page.records("sharing")),
        *_loop(page.record("watchdog")),
        *_abandoned(page.texts("abandoned_handlers")),
    ]
    if page.missing:
        found.append(_old(page.missing))
    return worst_first(found)


def diagnose_replicas(documents: Mapping[str, object]) -> list[DiagnosisFinding]:
    """Return the findings that only several pages together show: who leads.

    Args:
        documents: the pages of the replicas of one program, by their URLs.
    """
    candidates: defaultdict[str, list[_Candidate]] = defaultdict(list)
    ambiguous: set[str] = set()
    for url, document in documents.items():
        elections = PageFields(document).records("leader_election")
        leases = [election.text("lease") for election in elections]
        for lease, election in zip(leases, elections, strict=True):
            candidates[lease].append(_Candidate(url, election))
            if leases.count(lease) > 1:  # of several clusters: the page names none of them
                ambiguous.add(lease)
    clear = {lease: those for lease, those in candidates.items() if lease not in ambiguous}
    found = [one for lease, those in clear.items() for one in _leaders(lease, those)]
    return worst_first([*found, *_differing(documents), *_uncoordinated(documents)])


def _uncoordinated(documents: Mapping[str, object]) -> Found:
    """Yield a finding if replicas reconcile the same objects, and neither lead nor share them."""
    pages = [PageFields(document) for document in documents.values()]
    alone = [
        page for page in pages if not (page.records("leader_election") or page.records("sharing"))
    ]
    found = Counter(one for page in alone for one in _reconciled(page))
    if twice := sorted({name for (name, _), number in found.items() if number > 1}):
        evidence = f"controllers that {len(alone)} of them have: {_few(twice)}"
        cure = "give the Operator leader_election=, or sharding=Buckets(), if it has replicas"
        fact = "reconcile the same objects, each of them all"
        yield warn("replicas_uncoordinated", "the replicas", fact, evidence, cure)


def _reconciled(page: PageFields) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """Return each controller of a page once, with what the program follows, and where."""
    followed = {(one.text("cluster"), one.text("informer")) for one in page.records("informers")}
    return {(one.text("name"), frozenset(followed)) for one in page.records("controllers")}


def _differing(documents: Mapping[str, object]) -> Found:
    programs = [PageFields(document).record("program") for document in documents.values()]
    versions = sorted({one.text("pyinformer") for one in programs if one is not None})
    if len(versions) > 1:
        cure = "wait for the end of a rolling update; otherwise deploy one version"
        evidence = ", ".join(versions)
        yield warn("versions_differ", "the replicas", "have different pyinformers", evidence, cure)


def _old(missing: Sequence[str]) -> DiagnosisFinding:
    shown = ", ".join(missing[:_SHOWN_FIELDS])
    more = f" and {len(missing) - _SHOWN_FIELDS} more" if len(missing) > _SHOWN_FIELDS else ""
    return warn(
        "page_incomplete",
        "the status page",
        "lacks fields, so that not everything was checked",
        f"missing or not readable: {shown}{more}",
        "use the pyinformer command of the version that the program has",
    )


def _versions(page: PageFields) -> Found:
    program = page.record("program")
    if program is not None:
        fact = f"has run for {span(program.seconds('uptime_seconds'))}"
        versions = f"pyinformer {program.text('pyinformer')}, Python {program.text('python')}"
        yield good("program", "the program", fact, versions)
    if (schema := page.number("schema")) is not None and schema > SCHEMA:
        evidence = f"schema {schema:.0f}; this command reads {SCHEMA}"
        fact, cure = "is newer than this command", "use the pyinformer command of that version"
        yield warn("page_newer", "the status page", fact, evidence, cure)


def _clusters(clusters: Sequence[PageFields]) -> Found:
    for one in clusters:
        pooled = one.record("pool")
        if pooled is None or (state := pooled.text("state")) not in {"failed", "gone"}:
            continue
        evidence = f"{state} for {span(pooled.seconds('state_seconds'))}"
        evidence += f", {_counted(pooled.count('failed_attempts'), 'failed attempt')}"
        evidence += f": {pooled.text('last_error') or pooled.text('reason')}"
        cure = "run `pyinformer doctor` with the kubeconfig of this cluster"
        yield warn("cluster_down", f"cluster {one.text('name')}", "is not open", evidence, cure)


def _verdicts(page: PageFields) -> Found:
    for name, fact, cure in (
        ("live", "is not alive: the kubelet restarts it", "remove the causes that are listed here"),
        ("ready", "is not ready", "remove the causes that are listed here"),
    ):
        verdict = page.record(name)
        is_ok = None if verdict is None else verdict.flag("is_ok")
        if verdict is not None and is_ok is False:
            reasons = "; ".join(verdict.texts("reasons"))
            yield trouble(f"not_{name}", "the program", fact, reasons, cure)
        elif is_ok:
            yield good(f"not_{name}", "the program", "is alive" if name == "live" else "is ready")


def _informers(informers: Sequence[PageFields]) -> Found:
    well = list[PageFields]()
    for one in informers:
        found = list(diagnose_informer(one))
        yield from found
        if not found and one.text("state") != "stopped":
            well.append(one)
    if well:
        oldest = span(max(one.seconds("age_seconds") for one in well))
        evidence = f"{len(well)} of {len(informers)}, the oldest was confirmed {oldest} ago"
        yield good("caches", "caches", "are current", evidence)
    elif not informers:
        yield warn(
            "no_informers",
            "the program",
            "has no informers",
            "the status page lists none",
            "pass its factories to Health(...), or wait until it has started",
        )


def diagnose_informer(one: PageFields) -> Found:
    """Yield the findings about an informer and its handlers; none if all is well."""
    name, state = one.text("informer"), one.text("state")
    subject = f"the cache of {name}"
    if crash := one.text("crash"):
        cure = "restart the program, and report this text: it is a bug of pyinformer"
        yield trouble("cache_crashed", subject, "has crashed", crash, cure)
    elif state != "stopped":
        yield from _cache_state(one, subject, name, state)
        yield from _relists(one, subject, name)
        yield from _history(one, subject)
    for handler in one.records("handlers"):
        yield from _handler(handler, name)


def _cache_state(one: PageFields, subject: str, name: str, state: str) -> Found:
    """Return whether a cache has synced and is current; at most one finding."""
    age, running = one.number("age_seconds"), one.seconds("running_seconds")
    resource = name.partition(" ")[0]
    evidence = _state_evidence(one, state, age)
    if state == "failed":
        cure = f"remove the cause, then restart the program; {_JOURNAL.format(resource)}"
        yield trouble("cache_failed", subject, "has given up and retries rarely", evidence, cure)
    elif state == "forbidden":
        cure = f"{_measure(one, resource)}, and grant the Role that it prints"
        yield trouble("cache_forbidden", subject, "is refused by the server", evidence, cure)
    elif state == "polling":
        cure = f"{_measure(one, resource)}; it checks the right to watch, and watches"
        yield warn("cache_polling", subject, "lists again, as watches are refused", evidence, cure)
    elif state == "absent":
        cure = "install its CustomResourceDefinition, or do not follow it"
        yield warn("cache_absent", subject, "follows what the server lacks", evidence, cure)
    elif one.flag("has_synced") is False:
        severity = grade(running, warn_seconds=0, trouble_seconds=LIMITS.unsynced_seconds)
        fact = f"has not synced for {span(running)}"
        cure = _measure(one, resource)
        yield DiagnosisFinding(severity, "cache_unsynced", subject, fact, evidence, cure)
    elif age is not None and age >= LIMITS.stale_seconds:
        fact = f"is stale, limit {span(LIMITS.stale_seconds)}"
        yield trouble("cache_stale", subject, fact, evidence, _measure(one, resource))
    elif state == "waiting" and _attempts(one) >= LIMITS.failed_attempts:
        cure = _measure(one, resource)
        yield warn("cache_retrying", subject, "cannot reach the server", evidence, cure)
    elif age is not None and age >= LIMITS.silent_seconds:
        limit = f"limit {span(LIMITS.silent_seconds)}"
        if state == "watching":
            cure = _measure(one, f"--idle-seconds {LIMITS.stale_seconds:.0f} {resource}")
            yield warn("cache_silent", subject, f"receives nothing, {limit}", evidence, cure)
        else:
            fact, cure = f"has not recovered its watch, {limit}", _measure(one, resource)
            yield warn("cache_recovering", subject, fact, evidence, cure)


def _measure(one: PageFields, arguments: str) -> str:
    """Return the cure by which the server is checked for the namespaces that a cache follows.

    Of many the first are named, beginning with those that are not watched.
    """
    command = f"pyinformer doctor {arguments}"
    followed = one.records("namespaces") if one.has("namespaces") else []
    followed.sort(key=lambda each: each.text("state") == "watching")
    names = [each.text("namespace") for each in followed]
    if names:
        command += f" -n {','.join(names[:_NAMED])}" if all(names) else " -A"
    return f"with the program's kubeconfig, run `{command}`"


def _state_evidence(one: PageFields, state: str, age: float | None) -> str:
    reflector = one.record("reflector")
    parts = [
        "never confirmed as current" if age is None else f"last confirmed {span(age)} ago",
        f"state {state or 'unknown'}",
        _counted(one.count("objects"), "object"),
    ]
    if reflector is not None:
        if attempts := reflector.count("attempts"):
            parts.append(_counted(attempts, "failed attempt"))
        cause = reflector.text("last_error") or reflector.text("reason")
        parts += [cause] if cause else []
    return ", ".join(parts)


def _attempts(one: PageFields) -> int:
    reflector = one.record("reflector")
    return 0 if reflector is None else reflector.count("attempts")


def _relists(one: PageFields, subject: str, name: str) -> Found:
    reflector = one.record("reflector")
    if reflector is None:
        return
    loads, running = _unplanned_loads(reflector), one.seconds("running_seconds")
    per_hour = loads / (running / _HOUR_SECONDS) if running > 0 else 0.0
    if loads >= LIMITS.least_relists and per_hour >= LIMITS.relists_per_hour:
        evidence = f"{loads} complete lists in {span(running)}, {per_hour:.0f} per hour"
        cure = _JOURNAL.format(name.partition(" ")[0])
        yield warn("relist_loop", subject, "is listed again and again", evidence, cure)
    if reflector.flag("breaks_order"):
        cure = "set ReflectorOptions(order='per_object') for this resource"
        fact = "comes from a server that breaks the order of resource versions"
        yield warn("order_broken", subject, fact, f"{loads} complete lists", cure)


def _unplanned_loads(reflector: PageFields) -> int:
    """Return the complete lists without the first and those of a resource that is polled."""
    outcomes = reflector.record("outcomes")
    planned = ("loads:initial", "loads:poll")
    known = 0 if outcomes is None else sum(map(outcomes.count, filter(outcomes.has, planned)))
    return reflector.count("loads") - known


def _history(one: PageFields, subject: str) -> Found:
    lineage = one.record("lineage")
    if lineage is not None and lineage.flag("is_flapping"):
        evidence = f"{lineage.count('resets')} histories; {lineage.text('last_reason')}"
        fact = "follows a server whose history changes again and again"
        cure = "let the address lead to one cluster only: check the load balancer and its servers"
        yield trouble("history_flapping", subject, fact, evidence, cure)


def _handler(one: PageFields, informer: str) -> Found:
    if one.flag("is_removed"):
        return
    subject = f"handler {one.text('name')} of {informer}"
    oldest, busy = one.seconds("oldest_seconds"), one.seconds("in_flight_seconds")
    worst = max(oldest, busy)
    if worst >= LIMITS.late_handler_seconds:
        severity = grade(
            worst,
            warn_seconds=LIMITS.late_handler_seconds,
            trouble_seconds=LIMITS.stuck_handler_seconds,
        )
        key = one.text("in_flight_key")
        evidence = f"{_counted(one.count('depth'), 'event')} behind, the oldest for {span(oldest)}"
        if key:
            evidence += f"; busy with {key} for {span(busy)}"
        cure = "let the handler only enqueue keys, and do the work in a Controller"
        yield DiagnosisFinding(severity, "handler_late", subject, "is late", evidence, cure)
    if failed := one.count("failed"):
        evidence = f"{failed} of {failed + one.count('delivered')} calls raised, last: "
        evidence += one.text("last_error")
        cure = "correct the handler: an event whose call raised is not delivered again"
        yield warn("handler_failing", subject, "raises", evidence, cure)


def _controllers(controllers: Sequence[PageFields]) -> Found:
    working = 0
    for one in controllers:
        found = list(diagnose_controller(one))
        yield from found
        working += not found
    if working:
        yield good("controllers", "controllers", "work", f"{working} of {len(controllers)}")


def diagnose_controller(one: PageFields) -> Found:
    """Yield the findings about a controller; none if all is well."""
    subject = f"controller {one.text('name')}"
    if one.flag("is_running") is False or one.flag("has_synced") is False:
        silent = [
            each.text("name") for each in one.records("sources") if not each.flag("has_synced")
        ]
        evidence = f"sources that have not synced: {_few(silent)}" if silent else "workers are off"
        cure = "see the findings about its caches; a controller starts when its sources have synced"
        yield trouble("controller_idle", subject, "does not work", evidence, cure)
    yield from _workers(one, subject)
    yield from _queue(one, subject)
    yield from _writes(one, subject)
    yield from _keys(one, subject)
    for source in one.records("sources"):
        if failures := source.count("failures"):
            evidence = f"{_counted(failures, 'call')} raised, last: {source.text('last_failure')}"
            cure = "correct the mapping or the predicate: what it dropped is not reconciled"
            name = f"source {source.text('name')} of {subject}"
            yield warn("source_failing", name, "raises", evidence, cure)


def _workers(one: PageFields, subject: str) -> Found:
    if stuck := one.texts("stuck"):
        evidence = f"{len(stuck)} of {len(one.records('workers'))} workers: {_few(stuck)}"
        cure = "do not catch CancelledError in reconcile, and move blocking calls into threads"
        fact = "has reconciles that ignore their cancellation"
        yield trouble("reconcile_stuck", subject, fact, evidence, cure)
    yield from _daemons(one, subject)
    slow = [
        f"{worker.text('request')} for {span(worker.seconds('seconds'))}"
        for worker in one.records("workers")
        if worker.text("request")
        and worker.flag("is_stuck") is False
        and worker.seconds("seconds") >= LIMITS.slow_reconcile_seconds
    ]
    if slow:
        cure = "set ControllerOptions(reconcile_timeout_seconds=...), or do less in one reconcile"
        yield warn("reconcile_slow", subject, "has slow reconciles", _few(slow), cure)


def _daemons(one: PageFields, subject: str) -> Found:
    daemons = one.record("daemons")
    if daemons is None:
        return
    running = _counted(daemons.count("running"), "daemon")
    if stuck := daemons.texts("ignoring"):
        evidence = f"{daemons.count('ignoring_total')} beside {running}: {_few(stuck)}"
        cure = "do not catch CancelledError in the daemon, and bound its clean-up"
        fact = "has daemons that ignore their cancellation"
        yield trouble("daemon_stuck", subject, fact, evidence, cure)
    if waiting := daemons.count("waiting"):
        evidence = (
            f"{_counted(waiting, 'object')} without one; {running} of {daemons.count('limit')}"
        )
        cure = "raise limit= of the daemon, or share the objects among replicas: Buckets()"
        yield warn("daemons_waiting", subject, "runs as many daemons as it may", evidence, cure)


def _queue(one: PageFields, subject: str) -> Found:
    queue = one.record("queue")
    if queue is None:
        return
    oldest = queue.seconds("oldest_seconds")
    if oldest < LIMITS.late_queue_seconds:
        return
    severity = grade(
        oldest, warn_seconds=LIMITS.late_queue_seconds, trouble_seconds=LIMITS.stuck_queue_seconds
    )
    workers = one.records("workers")
    busy = sum(bool(worker.text("request")) for worker in workers)
    evidence = f"{_counted(queue.count('depth'), 'key')} behind, the oldest for {span(oldest)};"
    evidence += f" {busy} of {len(workers)} workers are busy"
    cure = "raise workers= of this controller, or make its reconcile faster"
    yield DiagnosisFinding(severity, "queue_late", subject, "is behind", evidence, cure)


def _writes(one: PageFields, subject: str) -> Found:
    noops = one.record("noop_writes")
    if noops is None:
        return
    ratio, held, breaker = noops.seconds("noop_ratio"), noops.count("held"), noops.text("breaker")
    evidence = f"{ratio:.0%} of the newest writes changed nothing;"
    evidence += f" {noops.count('noops')} of {noops.count('writes')} in all"
    if noops.flag("is_storm"):
        cure = "write with cluster.apply_if_changed(...), which sends nothing if nothing differs"
        yield trouble("write_storm", subject, "writes what changes nothing", evidence, cure)
    if held or breaker in {"open", "half-open"}:
        evidence = f"{_counted(held, 'request')} held, the breaker is {breaker}; {evidence}"
        cure = "end the storm of writes: three probes without no-op writes release all of them"
        yield warn("breaker_open", subject, "holds requests back", evidence, cure)


def _keys(one: PageFields, subject: str) -> Found:
    if hot := one.texts("hot"):
        loops = one.records("hot_loops")
        text = f"{_counted(len(hot), 'object')}: {_few(hot)}"
        if loops:
            first = loops[0]
            text += f"; {first.text('request')} ran {first.count('reconciles')} times for"
            text += f" {first.count('inputs')} changes: {_few(first.texts('reasons'))}"
        cure = "do not write or requeue in each reconcile of an object that did not change"
        yield warn("hot_loop", subject, "reconciles objects in a loop", text, cure)
    if failing := one.count("failing"):
        evidence = f"{_counted(failing, 'object')} retried, last: {one.text('last_error')}"
        worst = [
            f"{key.text('request')} ({_counted(key.count('failures'), 'failure')} in a row)"
            for key in one.records("failing_keys")
        ]
        evidence += f"; worst: {_few(worst)}" if worst else ""
        cure = "read the program's log of the failed reconciles, and correct the cause"
        if " is missing; needs: " in evidence:
            cure = (
                "grant the program's account the rights that are missing; `pyinformer rbac` prints"
                " those that an Operator declares"
            )
        yield warn("reconcile_failing", subject, "fails", evidence, cure)
    if waiting := [
        f"{key.text('request')} for {span(key.seconds('seconds'))}: {key.text('waiting_for')}"
        for key in one.records("waiting_keys")
        if key.seconds("seconds") >= LIMITS.long_wait_seconds and not key.flag("is_given_up")
    ]:
        cure = "look why what it waits for does not come: `kubectl describe` shows it for a child"
        yield warn("key_waiting", subject, "has waited for long", _few(waiting), cure)
    if given_up := one.count("given_up"):
        lost = [
            f"{key.text('request')} ({key.text('waiting_for')})"
            for key in one.records("waiting_keys")
            if key.flag("is_given_up")
        ]
        evidence = f"{_counted(given_up, 'object')}{f': {_few(lost)}' if lost else ''}"
        cure = "correct these objects: they are reconciled again when they change"
        yield warn("reconcile_terminal", subject, "has given objects up", evidence, cure)


def _elections(elections: Sequence[PageFields]) -> Found:
    for one in elections:
        subject = f"Lease {one.text('lease')}"
        who = one.text("identity")
        if one.flag("is_overdue"):
            ago = span(one.seconds("renewed_seconds"))
            evidence = f"{who} renewed it {ago} ago, and its work still runs"
            cure = "restart this replica: another one may lead meanwhile"
            yield trouble("lease_overdue", subject, "was not renewed in time", evidence, cure)
        elif error := one.text("last_error"):
            cure = "check the server, and the rights on leases.coordination.k8s.io"
            yield warn("lease_failing", subject, "cannot be read or renewed", error, cure)
        elif one.flag("is_leading"):
            yield good("lease", subject, f"is held by this replica, {who}")
        elif holder := one.text("holder"):
            yield good("lease", subject, f"is held by {holder}; this replica waits")
        elif one.flag("is_competing") is False:
            fact = "is not read or written yet by this replica: its caches have not synced"
            yield good("lease", subject, fact, who)
        else:
            cure = "wait for the duration of the Lease; then read the logs of the replicas"
            yield warn("no_leader", subject, "has no holder", f"{who} waits", cure)
        if refusal := one.text("watch_refusal"):
            cure = "grant list and watch on leases.coordination.k8s.io"
            yield warn("lease_unwatched", subject, "may not be watched", refusal, cure)


def _shares(shares: Sequence[PageFields]) -> Found:
    for one in shares:
        subject, member = f"table {one.text('table')}", one.text("member")
        share = f"{one.count('open')} of {one.count('buckets')} buckets are open"
        if one.flag("is_overdue"):
            cure = "restart the process: its event loop, or the way to the server, is blocked"
            yield trouble("share_overdue", subject, "is worked on without a Lease", member, cure)
        if error := one.text("last_error"):
            cure = "check the server, and the rights on leases.coordination.k8s.io"
            yield warn("share_failing", subject, "cannot be read or written", error, cure)
        elif one.flag("is_member"):
            among = _counted(one.count("members"), "replica")
            yield good("share", subject, f"is shared by {among}", f"{share} in {member}")
        unowned = one.seconds("without_owner_seconds") or 0.0
        if unowned >= LIMITS.buckets_without_owner_seconds:
            evidence = f"{one.count('without_owner')} for {span(unowned)}"
            cure = "read the logs of all replicas; a replica takes them when it can write the table"
            yield warn("buckets_unowned", subject, "has buckets without an owner", evidence, cure)


def _loop(watchdog: PageFields | None) -> Found:
    if watchdog is None:
        return
    subject = "the event loop"
    now, times = watchdog.seconds("blocked_seconds"), watchdog.count("blocked")
    longest, culprit = watchdog.seconds("longest_seconds"), watchdog.text("last_culprit")
    cure = (
        "make the reconcile a plain function, which runs in a thread, and wrap a handler in"
        " pyinformer.in_thread"
    )
    if now >= LIMITS.blocked_seconds:
        evidence = f"for {span(now)} now, {_counted(times, 'time')} so far, by {culprit}"
        yield trouble("loop_blocked", subject, "is blocked", evidence, cure)
    elif times:
        evidence = f"{_counted(times, 'time')}, {span(longest)} at most, last by {culprit}"
        yield warn("loop_blocked", subject, "was blocked", evidence, cure)
    else:
        yield good("loop_blocked", subject, "was never blocked")


def _abandoned(names: Sequence[str]) -> Found:
    if names:
        cure = "do not catch CancelledError in these handlers; a restart of the program ends them"
        evidence = f"{len(names)}: {_few(names)}"
        fact = "still run after they were cancelled"
        yield trouble("handlers_abandoned", "handlers", fact, evidence, cure)


@final
@dataclass(frozen=True, slots=True)
class _Candidate:
    """A replica in a leader election, as its status page shows it."""

    url: str
    election: PageFields
    identity: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", self.election.text("identity"))


def _leaders(lease: str, candidates: Sequence[_Candidate]) -> Found:
    subject = f"Lease {lease}"
    names = [one.identity for one in candidates]
    if len({*names}) < len(names):
        cure = "give each replica an identity of its own: set POD_NAME from metadata.name"
        yield trouble("identity_shared", subject, "has replicas of one name", _few(names), cure)
    leading = [one for one in candidates if one.election.flag("is_leading")]
    waiting = [one for one in candidates if one.election.flag("is_competing") is not False]
    role = "holder" if any(one.election.text("shares") for one in candidates) else "leader"
    if len(leading) > 1:
        who = "; ".join(f"{one.identity} at {one.url}" for one in leading)
        terms = ", ".join(str(one.election.count("transitions")) for one in leading)
        cure = "restart all but the newest; `pyinformer fence` makes the server refuse the others"
        evidence = f"{who}; leaseTransitions {terms}"
        yield trouble("two_leaders", subject, f"has {len(leading)} {role}s", evidence, cure)
    elif leading:
        fact = f"has one {role} of {len(candidates)} replicas"
        yield good("two_leaders", subject, fact, leading[0].identity)
    elif len(waiting) > 1:
        held = sorted({one.election.text("holder") or "none" for one in waiting})
        evidence = f"{len(waiting)} replicas wait; they see as its holder: {_few(held)}"
        cure = "ask all replicas; if all were asked, wait for the duration of the Lease"
        yield warn("no_leader", subject, "is held by none of these replicas", evidence, cure)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
