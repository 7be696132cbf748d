"""The elector: it competes for a Lease, and runs the leader's work while it holds it.

The Election decides; the elector sends its requests, one at a time, and starts and ends the work.
The loop that follows the work never waits for the network: a request is a task of its own.
The order of an end: the work drains while the Lease is renewed, is cancelled, and has ended; then
the Lease is released.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio
import msgspec
from anyio import TASK_STATUS_IGNORED

from pyinformer._printable import printable, shortened
from pyinformer._runtime.clock import lease_time, wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import (
    Host,
    LoopOwner,
    UserTask,
    UserTasks,
    check_callable,
    ends_task,
    error_text,
    run_shielded,
)
from pyinformer.cache.reflector import Reflector, ReflectorState
from pyinformer.client.cluster import check_cluster
from pyinformer.client.transport import CURRENT_GUARD, NetworkConnection
from pyinformer.errors import (
    APIStatusError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InformerError,
    InvalidTypeError,
    LifecycleError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from pyinformer.leaderelection._announcements import Announcements
from pyinformer.leaderelection._deadline_thread import MARGIN_SECONDS, DeadlineThread
from pyinformer.leaderelection._election import Election, Finished, Read, Tenure, Wait, Write
from pyinformer.leaderelection._lease import MAX_TRANSITIONS, TABLE_HOLDER, LeaseRecord
from pyinformer.leaderelection._lease_requests import LeaseRequests
from pyinformer.leaderelection._lease_watch import LeaseGroup, LeaseSink
from pyinformer.leaderelection._options import (
    LeaderElectionOptions,
    check_identity,
    check_lease_name,
    check_time_to_end,
    unique_identity,
)
from pyinformer.leaderelection._rbac import rbac_yaml
from pyinformer.leaderelection._term import Term
from pyinformer.objects import check_type
from pyinformer.telemetry.metrics import Metrics, Sample, fenced, qualified

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.client.cluster import Cluster
    from pyinformer.controller.conventions import EventRecorder

Lead: TypeAlias = Callable[[Term], Awaitable[None]]
"""The work of a leader: called for each term; it runs until it is cancelled, at the term's end."""

_log = get_logger(__name__)

_VERBS: Final = (
    "get, create and update on leases.coordination.k8s.io (list and watch spare requests)"
)
_GROUP_VERBS: Final = "create, get, list, update and watch on leases.coordination.k8s.io"
_MAX_HOLDER_CHARACTERS: Final = 253  # of a name; any client may write more
_LOOK_SECONDS: Final = 1.0  # at a group in which this replica may not share yet
_EXPIRY_SECONDS: Final = 0.1  # how late the end of a term may be noticed after a suspend


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionStatus:
    """The state of an elector."""

    lease: str
    """The Lease, `namespace/name`."""
    identity: str
    """The name of this replica."""
    is_leading: bool
    """Whether its term is valid and the leader's work runs."""
    holder: str
    """Who holds the Lease, as far as it is known here; empty if it is free."""
    transitions: int
    """leaseTransitions, as seen here."""
    terms: int
    """How many terms of this replica have begun."""
    renewed_seconds: float | None
    """How long ago the last good renewal of its term was sent; None while no work runs."""
    is_overdue: bool
    """The leader's work runs, and the Lease was not renewed for its whole duration."""
    is_watching: bool
    """Whether the Lease is watched; otherwise it is read periodically."""
    last_error: str
    """Why the last request failed, or why it may not compete; empty if all is well."""
    watch_refusal: str = ""
    """Why the server refuses to let it list or watch the Lease, with the missing right; empty if
    the server does not refuse that. A replica that may not watch reads the Lease periodically."""
    shares: str = ""
    """The operator whose work several replicas share, each by a Lease of its own; empty if one
    replica leads."""
    is_competing: bool = True
    """Whether it reads and writes the Lease; False before it runs, and after its end. The elector
    of an Operator runs from the first sync of the caches on."""

    @property
    def title(self) -> str:
        """What the Lease is for."""
        return f"share of {self.shares}" if self.shares else "leader election"

    def __str__(self) -> str:
        if self.is_leading:
            does = "works" if self.shares else "leads"
            text = f"{does} by {self.lease}, term {self.transitions}"
            if self.renewed_seconds is not None:
                text += f", renewed {self.renewed_seconds:.1f} s ago"
        elif self.renewed_seconds is not None:
            text = f"its term of {self.lease} has ended, its work has not"
        elif not self.is_competing:
            text = f"does not compete for {self.lease} now"
        else:
            holder = printable(shortened(self.holder, _MAX_HOLDER_CHARACTERS))
            if holder == TABLE_HOLDER:
                holder = "replicas that share keys"
            text = f"waits for {self.lease}, held by {holder or 'no replica'}"
        if self.watch_refusal:
            text += f"; may not watch the Lease: {self.watch_refusal}"
        return f"{text}; last error: {self.last_error}" if self.last_error else text


@final
class LeaderElector:
    """Competes for a Lease: of all replicas that do, one leads.

        elector = pyinformer.LeaderElector(cluster, "db-operator", namespace="ops")
        await elector.run(lead)  # async def lead(term): called for each term

    Writes of `lead` through any Cluster, also in tasks that it creates and in functions that it
    calls by `asyncio.to_thread`, are sent only while the term is valid; `term.check()` checks that
    for other effects. A `threading.Thread` and `loop.run_in_executor` do not inherit the term: give
    them `contextvars.copy_context().run` and the function.

    Args:
        cluster: where the Lease is; it must be open as long as the elector runs.
        name: the name of the Lease; the same in all replicas.
        namespace: its namespace.
        identity: the name of this replica, unlike all others; None for `<pod>_<uuid>`, where the
            pod's name is that in the environment variable `POD_NAME`, or else the host name.
        options: the durations.
        ends_process: end the process if work still runs, or blocks the event loop, one second
            before another replica may lead. Otherwise that is only logged.
        on_new_leader: called with the identity of each new holder, which may be this replica.
        recorder: where the events `<identity> became leader` and `stopped leading` are recorded,
            or, with `group`, that it joined and left.
        metrics: where the metrics of leader election go, under client-go's names, while it runs;
            None for the cluster's metrics. Their label `name` is the name of the Lease, after that
            of the cluster if it has one.
        clock: monotonic seconds that suspends do not stop; None for the system's.
        wall_clock: Unix time in seconds.
        rng: spreads the requests of replicas that cannot watch, and those of refused replicas.
        group: the Leases with a label, which are watched together; for `Operator(sharding=...)`.

    Raises:
        InvalidArgumentError: a name or the identity is invalid, or the Lease lasts less than two
            seconds longer than a term and `ends_process` is set.

    Source:
        client-go tools/leaderelection/leaderelection.go.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        namespace: str,
        identity: str | None = None,
        options: LeaderElectionOptions | None = None,
        ends_process: bool = False,
        on_new_leader: Callable[[str], None] | None = None,
        recorder: EventRecorder | None = None,
        metrics: Metrics | None = None,
        clock: Callable[[], float] | None = None,
        wall_clock: Callable[[], float] | None = None,
        rng: random.Random | None = None,
        group: LeaseGroup | None = None,
    ) -> None:
        check_cluster(cluster)
        check_lease_name("name", name)
        check_lease_name("namespace", namespace)
        if identity is None:
            identity = unique_identity()
        check_identity(identity)
        self.lease: str = f"{namespace}/{name}"
        """The Lease, `namespace/name`."""
        self.identity: str = identity
        """The name of this replica."""
        self.options: LeaderElectionOptions = options or LeaderElectionOptions()
        """The durations."""
        if ends_process:
            check_time_to_end(self.options)
        self._cluster = cluster
        self._name, self._namespace = name, namespace
        self._ends_process = ends_process
        self._given_clock, self._given_wall_clock = clock, wall_clock
        self._rng = rng or random.Random()
        if group is not None:
            check_type("group", group, LeaseGroup)
        self._group = group
        self._announcements = Announcements(
            name,
            namespace,
            identity=identity,
            on_new_leader=on_new_leader,
            recorder=recorder,
            is_member=group is not None,
        )
        self._metrics = fenced(cluster.metrics if metrics is None else metrics)
        self._labels = {"name": qualified(name, cluster.name)}
        self._loop = LoopOwner(f"the elector of {self.lease}")
        self._run: _Run | None = None
        self._earlier_terms = self._earlier_slow_renewals = 0

    @property
    def is_leading(self) -> bool:
        """Whether its term is valid and the leader's work runs."""
        return self._run is not None and self._run.is_leading

    def status(self) -> LeaderElectionStatus:
        """Return its state; from any thread."""
        run = self._run
        lease = None if run is None else run.election.lease
        ago = None if run is None else run.renewed_seconds
        return LeaderElectionStatus(
            lease=self.lease,
            identity=self.identity,
            is_leading=self.is_leading,
            holder="" if lease is None else lease.holder,
            transitions=0 if lease is None else lease.transitions,
            terms=self._earlier_terms + (0 if run is None else run.terms),
            renewed_seconds=ago,
            is_overdue=ago is not None and ago > self.options.lease_duration_seconds,
            is_watching=run is not None and not run.election.is_polling,
            last_error="" if run is None else run.last_error or run.waits_for,
            watch_refusal="" if run is None else run.watch_refusal,
            shares="" if self._group is None else self._group.name,
            is_competing=run is not None and not run.has_ended,
        )

    def required_rbac(self, *, name: str = "pyinformer", service_account: str | None = None) -> str:
        """Return the least rights that leader election needs, as YAML for `kubectl apply`.

        Args:
            name: the name of the Role and the RoleBinding, to which `-leader-election` is added.
            service_account: gets the rights, as `namespace/name`; None for a role without binding.

        Returns:
            YAML documents with `---` in between.

        Raises:
            InvalidArgumentError: Kubernetes does not accept a name.
        """
        return rbac_yaml(self._name, self._namespace, name=name, service_account=service_account)

    def abort(self) -> None:
        """End `run()` at once: work that still runs is left behind, and the Lease is not released.

        None of its writes is sent any more.
        """
        if self._run is not None:
            self._run.abort()

    async def run(self, lead: Lead, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Compete for the Lease, and call a function for each term, until cancelled.

        Args:
            lead: called with the Term. At the end of the term it is cancelled once and awaited. It
                must not return earlier, which would be an error. It may raise the
                FencedError of a refusal: the replica is a standby again.
            task_status: notified when the elector runs.

        Raises:
            LifecycleError: `lead` returned, or did not end in time after it was cancelled; or the
                elector runs already.
            InvalidArgumentError: another living replica has the same identity.
            InvalidTypeError: `lead` is not a coroutine function.
            Exception: what else `lead` raised. The Lease is released before.

        Cancellation:
            Cancels `lead`, awaits its end while the Lease is renewed, releases the Lease, and then
            takes effect. A second cancellation does not wait.
        """
        check_callable(lead, "lead(term)", 1)
        if self._run is not None and not self._run.has_ended:
            raise LifecycleError(f"the elector of {self.lease} runs already")
        self._loop.claim()
        with closing(self._metrics.scope()) as scope:
            refused = scope.counter("leader_election_fenced_writes_total", self._labels)
            run = self._new_run(lead, refused.inc)
            if self._run is not None:
                self._earlier_terms += self._run.terms
                self._earlier_slow_renewals += self._run.election.slow_renewals
            self._run = run
            scope.add_source(self._samples)
            await run.run(task_status)

    def _samples(self) -> Iterable[Sample]:
        """Return the figures that are state; on any thread."""
        run, status = self._run, self.status()
        slow = self._earlier_slow_renewals + (0 if run is None else run.election.slow_renewals)
        figures = {
            "leader_election_master_status": float(status.is_leading),
            "leader_election_slowpath_total": slow,
            "leader_election_terms_total": status.terms,
            "leader_election_lease_transitions": status.transitions,
            "leader_election_renewal_age_seconds": status.renewed_seconds or 0.0,
        }
        return [Sample(name, self._labels, value) for name, value in figures.items()]

    def _new_run(self, lead: Lead, on_refusal: Callable[[], None]) -> _Run:
        """Return a run without the state of earlier ones, whose work may still be ending."""
        name, namespace, options = self._name, self._namespace, self.options
        is_networked = isinstance(self._cluster.connection, NetworkConnection)
        system_clock, system_wall_clock = system_clocks(self._cluster)
        clock = self._given_clock or system_clock
        deadline = DeadlineThread(self.lease, clock, ends_process=self._ends_process)
        return _Run(
            self.lease,
            lead,
            election=Election(
                name,
                namespace,
                identity=self.identity,
                options=options,
                rng=self._rng,
                labels={} if self._group is None else {self._group.label: self._group.name},
            ),
            requests=LeaseRequests(
                self._cluster, namespace, timeout_seconds=options.request_timeout_seconds
            ),
            group=self._group,
            announcements=self._announcements,
            options=options,
            clock=clock,
            wall_clock=self._given_wall_clock or (system_wall_clock if is_networked else clock),
            on_refusal=on_refusal,
            deadline=deadline if is_networked else None,
        )


@final
class _Run:
    """One call of `LeaderElector.run`: it sends requests, runs the work, and follows the watch.

    Args:
        lease: the Lease, `namespace/name`.
        lead: the leader's work.
        election: decides what to send, and whether the term is valid.
        requests: sends what the election decides.
        group: the Leases that are watched with it; None for none.
        announcements: logs and reports changes.
        options: the durations.
        clock: the lease clock.
        wall_clock: Unix time in seconds.
        on_refusal: called for each write that a term refuses.
        deadline: watches the work, unless time is virtual.
    """

    def __init__(
        self,
        lease: str,
        lead: Lead,
        *,
        election: Election,
        requests: LeaseRequests,
        group: LeaseGroup | None,
        announcements: Announcements,
        options: LeaderElectionOptions,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        on_refusal: Callable[[], None],
        deadline: DeadlineThread | None,
    ) -> None:
        self.lease = lease
        self.election = election
        self.terms = 0
        self.last_error = ""
        self.watch_refusal = self.waits_for = ""
        self.has_ended = False
        self._lead = lead
        self._requests = requests
        self._name = lease.rpartition("/")[2]
        if group is not None:
            check_type("group", group, LeaseGroup)
        self._group = group
        self._is_blind = False
        """The work of a group gave up, since no watch shows the Lease."""
        self._announcements = announcements
        self._options = options
        self._clock, self._wall = clock, wall_clock
        self._on_refusal = on_refusal
        self._outer = CURRENT_GUARD.get()
        self._deadline = deadline
        self._tasks = UserTasks()
        self._work: _Work | None = None
        self._left_behind: UserTask | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._reflector: Reflector | None = None
        self._started = anyio.Event()
        self._wake = anyio.Event()
        self._ended = anyio.Event()
        self._abort_scope = anyio.CancelScope()
        self._is_requesting = False
        self._is_stopping = False
        self._failure: BaseException | None = None
        self._forbidden_at: float | None = None
        """When the server began to refuse the requests for the Lease; infinite once logged."""

    @property
    def is_leading(self) -> bool:
        """Whether its term is valid and the leader's work runs."""
        work = self._work
        return work is not None and not work.term.has_ended

    @property
    def renewed_seconds(self) -> float | None:
        """How long ago the last good renewal of its term was sent; None while no work runs."""
        work = self._work
        return None if work is None else max(0.0, self._clock() - work.tenure.renewed_at)

    def abort(self) -> None:
        """End at once; see LeaderElector.abort."""
        self._abort_scope.cancel()

    async def run(self, task_status: TaskStatus[None]) -> None:
        """Run until cancelled; see LeaderElector.run.

        Cancellation:
            As that of LeaderElector.run.
        """
        host = Host(f"the elector of {self.lease}", self._main)
        try:
            self._open()
            await host.start()
            self._started.set()
            task_status.started()
            await self._wait_ended()
        finally:
            await run_shielded(f"the close of the elector of {self.lease}", self._close(host))
        if self._failure is not None:
            raise self._failure

    def on_watched(self, lease: LeaseRecord) -> None:
        """Take a version of a Lease that the watch shows."""
        group = self._group
        if group is not None and lease.labels.get(group.label) == group.name:
            group.follower.on_watched(lease)
        if lease.name != self._name:
            return
        if self._is_blind:
            self._is_blind = False
            self._follow_candidacy()
        try:
            self.election.on_watched(lease, self._clock())
        except InformerError as error:
            self._fail(error)
        self._changed()

    def on_watched_deletion(self, name: str, uid: str) -> None:
        """Take the deletion of a Lease that the watch shows."""
        if self._group is not None:
            self._group.follower.on_watched_deletion(name, uid)
        if name != self._name:
            return
        self._is_blind = False
        self._follow_candidacy()
        self.election.on_watched_deletion(uid, self._clock())
        self._changed()

    def _open(self) -> None:
        self.election.is_polling = True
        self._follow_candidacy()
        if self._deadline is not None:
            self._deadline.start()

    async def _close(self, host: Host) -> None:
        try:
            await host.aclose()
        finally:
            self.has_ended = True
            if self._expiry is not None:
                self._expiry.cancel()
            self._leave_deadline()
            await self._requests.aclose()

    def _leave_deadline(self) -> None:
        """Stop the thread, unless work was left behind that may outlive the Lease."""
        deadline, left = self._deadline, self._left_behind
        if deadline is None:
            return
        if left is None or left.done:
            deadline.stop()
        else:
            deadline.leave(lambda: left.done)

    async def _wait_ended(self) -> None:
        try:
            await self._ended.wait()
        except asyncio.CancelledError:
            self._is_stopping = True
            self._wake.set()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()
            if self._failure is not None:  # the cancellation has precedence
                text = error_text(self._failure)
                _log.error("the elector of %s was stopped, and has failed: %s", self.lease, text)
            raise

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            ready()
            await self._started.wait()  # a start that is cancelled has sent nothing
            group.start_soon(self._watch)
            with self._abort_scope:
                await self._elect()
        except (APIStatusError, InformerError) as error:
            self._failure = error
        finally:
            await self._abandon()
            self._ended.set()

    async def _watch(self) -> None:
        group, requests = self._group, self._requests
        self._reflector = Reflector(
            requests.list_watch(name=self._name)
            if group is None
            else requests.list_watch(label_selector=f"{group.label}={group.name}"),
            LeaseSink(self, self.lease, is_group=group is not None),
            on_change=self._watch_changed,
        )
        await self._reflector.run()

    def _watch_changed(self) -> None:
        reflector = self._reflector
        if reflector is None:
            return
        watches = reflector.state is ReflectorState.WATCHING
        self._follow_refusal(reflector)
        if self.election.is_polling is watches:
            self.election.is_polling = not watches
            self._is_blind = self._is_blind and not watches  # it has just begun
            self._follow_candidacy()
            self._wake.set()

    def _follow_candidacy(self) -> None:
        """Compete while no work runs; in a group only if the watch shows the others."""
        group, is_blind = self._group, self.election.is_polling or self._is_blind
        self.waits_for = "" if group is None or self._work else group.follower.waits_for
        may_compete = group is None or not (is_blind or self.waits_for)
        self.election.is_candidate = self._work is None and not self._is_stopping and may_compete

    def _follow_refusal(self, reflector: Reflector) -> None:
        """Announce once that the right to watch is missing, and once that it is there again."""
        state, error = reflector.state, reflector.last_error
        if state is ReflectorState.WATCHING:
            if self.watch_refusal:
                self._announcements.on_watched_again()
            self.watch_refusal = ""
        # Of another state the error may be an old one: it is kept until a watch delivers something.
        elif state is ReflectorState.FORBIDDEN and error is not None:
            if not self.watch_refusal:
                self._announcements.on_watch_refused(error)
            self.watch_refusal = str(error)

    async def _elect(self) -> None:
        """Do what the election says, until the Lease is released.

        Raises:
            InformerError: the work did not end in time, for example.
        """
        failure: InformerError | None = None
        async with anyio.create_task_group() as requests:
            try:
                await self._follow(requests)
            except InformerError as error:  # not in a group
                failure = error
            requests.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _follow(self, requests: TaskGroup) -> None:
        """Follow the term and the work, and send what the election says, in a task of its own.

        The end of the work is noticed while a request hangs, too.
        """
        while True:
            self._wake = anyio.Event()
            # The work may have noticed the end of its term before this loop does.
            self.election.check_expiry(self._clock())
            self._follow_term()
            self._follow_work()
            if self._is_requesting:
                await self._wait(math.inf)
                continue
            step = self.election.next_step(self._clock(), self._wall())
            self._follow_term()
            match step:
                case Finished():
                    return
                case Wait(until):
                    await self._wait(until)
                    self._changed()
                case request:
                    self._is_requesting = True
                    requests.start_soon(self._send, request)

    async def _wait(self, until: float) -> None:
        if self._group is not None and self._work is None:  # no event says that it may compete
            self._follow_candidacy()
            until = min(until, self._clock() + _LOOK_SECONDS)
        give_up_at = math.inf if self._work is None else self._work.give_up_at
        seconds = max(0.0, min(until, give_up_at) - self._clock())
        with anyio.move_on_after(seconds):
            await self._wake.wait()

    async def _send(self, request: Read | Write) -> None:
        """Send one request for the Lease, and report how it ended."""
        await self._send_one(request)
        self._is_requesting = False
        self._changed()

    async def _send_one(self, request: Read | Write) -> None:
        election = self.election
        try:
            lease = await self._requests.send(self._name, request)
        except ConflictError as error:
            election.on_conflict(self._clock())
            if election.is_refused:
                self._record_error(str(error))
        except NotFoundError as error:
            # A 404 of a proxy ends no term: the Lease may exist, and be renewed in time.
            is_absent = error.names_object and not (isinstance(request, Write) and request.creates)
            if is_absent:
                election.on_absent(self._clock())
            else:
                self._request_failed(error)
        except (InformerError, msgspec.DecodeError) as error:
            self._request_failed(error)
        else:
            try:
                election.on_lease(lease, self._clock())
            except InformerError as error:
                self._fail(error)
            self._request_succeeded()

    def _request_succeeded(self) -> None:
        """Record a request that succeeded; that it can be read shows nothing of refused writes."""
        if self.election.is_refused:
            return
        if self.last_error:
            _log.info("the Lease %s can be read and written again", self.lease)
        self.last_error, self._forbidden_at = "", None

    def _request_failed(self, error: Exception) -> None:
        """Record a request that failed; a replica without the right to send it waits for it."""
        now = self._clock()
        self.election.on_failure(now, retry_after_seconds=_requested_seconds(error))
        is_forbidden = isinstance(error, ForbiddenError) and not error.is_terminating
        if isinstance(error, ForbiddenError) and is_forbidden:
            what = "leader election needs" if self._group is None else "replicas that share need"
            verbs = _VERBS if self._group is None else _GROUP_VERBS
            error = error.with_hint(f"{what} {verbs}")
        text = str(error) if isinstance(error, InformerError) else error_text(error)
        self._record_error(text)
        if not is_forbidden:
            self._forbidden_at = None
            return
        if self._forbidden_at is None:
            self._forbidden_at = now  # a server that starts refuses what it grants a bit later
        elif now - self._forbidden_at >= self._options.renew_deadline_seconds:
            self._forbidden_at = math.inf
            self._announcements.on_forbidden(text)

    def _record_error(self, text: str) -> None:
        if text != self.last_error:
            self.last_error = text
            _log.warning("could not read or write the Lease %s, retrying: %s", self.lease, text)

    def _fail(self, error: BaseException) -> None:
        """End with an error, after the work has ended and the Lease is released."""
        self._failure = self._failure or error
        self._is_stopping = True
        self._wake.set()

    def _changed(self) -> None:
        """Follow a change of the Lease or of the term, also while a request is under way."""
        self._follow_term()
        self._wake.set()
        lease = self.election.lease
        self._announcements.on_holder("" if lease is None else lease.holder)

    def _follow_term(self) -> None:
        """Begin the work of a new term; end that of a term that is over."""
        tenure, work = self.election.tenure, self._work
        if work is not None and work.tenure.ended and not work.is_over:
            self._end_term(work)
        if tenure is None:
            return
        if work is None:
            self._begin_term(tenure)
        self._watch_expiry(tenure)
        if self._deadline is not None:
            duration = self._options.lease_duration_seconds
            self._deadline.set_deadline(tenure.renewed_at + duration - MARGIN_SECONDS)

    def _watch_expiry(self, tenure: Tenure) -> None:
        """Check the lease clock at the end of the term: often, as timers stop in a suspend."""
        if self._expiry is not None:
            self._expiry.cancel()
        left_seconds = max(0.0, tenure.valid_until - self._clock())
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(min(left_seconds, _EXPIRY_SECONDS), self._check_expiry)

    def _check_expiry(self) -> None:
        self._expiry = None
        self.election.check_expiry(self._clock())
        tenure = self.election.tenure
        if tenure is None:
            self._changed()
        else:
            self._watch_expiry(tenure)

    def _begin_term(self, tenure: Tenure) -> None:
        term = Term(
            self.lease,
            tenure,
            clock=self._clock,
            wall_clock=self._wall,
            uid=self._uid(),
            on_refusal=self._on_refusal,
            outer=self._outer,
        )
        self._work = work = _Work(term, tenure)
        self.terms += 1
        self.election.is_candidate = False
        self._announcements.on_started_leading(self._uid())
        if tenure.transitions >= MAX_TRANSITIONS:
            self._announcements.on_last_number()
        name = f"leader of {self.lease}, term {term.transitions}"
        work.task = self._tasks.spawn(name, self._call(work))

    def _end_term(self, work: _Work) -> None:
        """End the work of a term that is over; none of its writes is sent any more."""
        work.is_over = True
        self._announcements.on_lost_term(work.tenure.ended)
        work.term.cut_off_writes()
        self._cancel(work)

    def _cancel(self, work: _Work) -> None:
        if not work.is_cancelled:
            work.is_cancelled = True
            work.give_up_at = self._clock() + self._options.end_timeout_seconds
            work.task.cancel_once()

    async def _call(self, work: _Work) -> None:
        """Call the user's function with the term as the guard of its writes."""
        CURRENT_GUARD.set(work.term)
        task = asyncio.current_task()
        try:
            result = self._lead(work.term)
            if not inspect.isawaitable(result):
                reason = f"must return an awaitable, got {type(result).__name__}: use async def"
                raise InvalidTypeError("lead", reason)
            await result
        except asyncio.CancelledError:
            pass  # by the elector, or by the function itself, which counts as a return
        except BaseException as error:  # the fence of user code; raised by run()
            work.error = error
            if ends_task(error, task):
                raise
        finally:
            self._wake.set()

    def _follow_work(self) -> None:
        """Follow a request to stop, and the end of the work."""
        work = self._work
        if work is None:
            if self._is_stopping and not self.election.is_releasing:
                self.election.is_candidate = False
                self.election.release(self._clock(), None)
        elif work.task.done:
            self._work_ended(work)
        elif self._clock() >= work.give_up_at:
            seconds = self._options.end_timeout_seconds
            reason = f"did not end within {seconds:g} s after it was cancelled, and still runs"
            raise LifecycleError(
                f"the work of the leader of {self.lease} {reason}: it must not suppress"
                " CancelledError; end the process"
            )
        elif self._is_stopping:
            self._cancel(work)

    def _work_ended(self, work: _Work) -> None:
        """Become a standby again, or release the Lease if this is the end."""
        if work.error is not None and _is_refusal(work.error, self.lease):
            work.error = None
            self._is_blind = True
            self.election.end_term("its work gave up when it was refused")
            self._follow_term()
        self._work = None
        if self._deadline is not None:
            self._deadline.set_deadline(None)
        self._announcements.on_stopped_leading(self._uid())
        if work.error is not None:
            self._fail(work.error)
        elif not work.is_cancelled:
            reason = "lead() returned before its term has ended: it must run until it is cancelled"
            self._fail(LifecycleError(f"the leader of {self.lease}: {reason}"))
        if not self._is_stopping:
            self._follow_candidacy()
            return
        self.election.release(self._clock(), work.term.written())
        work.term.cut_off_writes()  # of tasks that the work has left behind

    async def _abandon(self) -> None:
        """Abandon work that does not end; none of its writes is sent any more."""
        work, self._work = self._work, None
        if work is not None:
            work.tenure.ended = work.tenure.ended or "the elector was stopped"
            work.term.cut_off_writes()
            await work.task.stop(0.0)
            self._left_behind = work.task

    def _uid(self) -> str:
        lease = self.election.lease
        return "" if lease is None else lease.uid


def system_clocks(cluster: Cluster) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return the clock of Leases, which suspends do not stop, and the clock of Unix time.

    Without a network, both are the running loop's time.
    """
    if isinstance(cluster.connection, NetworkConnection):
        return lease_time, wall_time
    clock = asyncio.get_running_loop().time
    return clock, clock


def _requested_seconds(error: Exception) -> float | None:
    """Return after how long an overloaded server asks for the next attempt; None if it does not."""
    if isinstance(error, TooManyRequestsError | ServerError):
        return error.retry_after_seconds
    return None


def _is_refusal(error: BaseException, lease: str) -> bool:
    """Return whether an error says only that a term of this Lease does not allow something."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_refusal(one, lease) for one in error.exceptions)
    return isinstance(error, FencedError) and error.lease == lease


class _Work:
    """The work of one term, until it has ended."""

    def __init__(self, term: Term, tenure: Tenure) -> None:
        self.term = term
        self.tenure = tenure
        self.task: UserTask
        self.error: BaseException | None = None
        """What the user's function raised."""
        self.is_over = False
        """The term is over, and the work was cancelled."""
        self.is_cancelled = False
        self.give_up_at = math.inf
