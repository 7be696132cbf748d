"""The elector: it competes for a Lease, and runs the leader's work while it holds it.

The Election decides; the elector sends its requests, one at a time, and starts and ends the work.
The order of an end: the work drains while the Lease is renewed, is cancelled, and has ended; then
the Lease is released.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio
import msgspec
from anyio import TASK_STATUS_IGNORED

from pyinformer._clock import lease_time, wall_time
from pyinformer._logging import get_logger
from pyinformer.apimachinery import FieldSelector, GroupVersionResource
from pyinformer.errors import (
    APIStatusError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InformerError,
    InvalidTypeError,
    LifecycleError,
    NotFoundError,
)
from pyinformer.leaderelection._deadline_thread import MARGIN_SECONDS, DeadlineThread
from pyinformer.leaderelection._election import Election, Finished, Read, Tenure, Wait, Write
from pyinformer.leaderelection._lease import LeaseRecord, read_lease
from pyinformer.leaderelection._lease_watch import LeaseSink
from pyinformer.leaderelection._options import (
    LeaderElectionOptions,
    check_identity,
    check_lease_name,
)
from pyinformer.leaderelection._rbac import rbac_yaml
from pyinformer.leaderelection._term import Term
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector import Reflector, ReflectorState
from pyinformer.tasks import Host, LoopOwner, UserTask, UserTasks, check_callable, error_text
from pyinformer.transport import (
    CURRENT_GUARD,
    Connection,
    ConnectionOptions,
    ConnectionProtocol,
    ListWatch,
    NetworkConnection,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from pyinformer.cluster import Cluster
    from pyinformer.controllerutil import EventRecorder

Lead: TypeAlias = Callable[[Term], Awaitable[None]]
"""The work of a leader: called for each term; it runs until it is cancelled, at the term's end."""

_log = get_logger(__name__)

_LEASES: Final = GroupVersionResource.of("coordination.k8s.io/v1", "leases")
_VERBS: Final = (
    "get, create and update on leases.coordination.k8s.io (list and watch spare requests)"
)
_CLOSE_SECONDS: Final = 5.0


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
    """Why the last request failed; empty if it did not."""

    def __str__(self) -> str:
        if self.is_leading:
            text = f"leads by {self.lease}, term {self.transitions}"
            if self.renewed_seconds is not None:
                text += f", renewed {self.renewed_seconds:.1f} s ago"
        elif self.renewed_seconds is not None:
            text = f"its term of {self.lease} has ended, its work has not"
        else:
            text = f"waits for {self.lease}, held by {self.holder or 'no replica'}"
        return f"{text}; last error: {self.last_error}" if self.last_error else text


@final
class LeaderElector:
    """Competes for a Lease: of all replicas that do, one leads.

        elector = pyinformer.LeaderElector(cluster, "db-operator", namespace="ops")
        await elector.run(lead)  # async def lead(term): called for each term

    Writes of `lead` through any Cluster, in its own and in later tasks and threads, leave only
    while the term is valid; `term.check()` asks the same for other effects.

    Args:
        cluster: where the Lease is; it must be open as long as the elector runs.
        name: the name of the Lease; the same in all replicas.
        namespace: its namespace.
        identity: the name of this replica, unlike all others; None for `<host name>_<uuid>`.
        options: the durations.
        ends_process: end the process if work still runs, or blocks the event loop, one second
            before another replica may lead. Otherwise that is only logged.
        on_new_leader: called with the holder's identity whenever another one is seen, also with
            that of this replica.
        recorder: where the events `<identity> became leader` and `stopped leading` are recorded.
        metrics: where client-go's metrics of leader election go.
        clock: monotonic seconds that suspends do not stop; None for the system's.
        wall_clock: Unix time in seconds.
        rng: spreads the requests of replicas that cannot watch.

    Raises:
        InvalidArgumentError: a name or the identity is invalid.

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
        metrics: Metrics = NO_METRICS,
        clock: Callable[[], float] | None = None,
        wall_clock: Callable[[], float] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        check_lease_name("name", name)
        check_lease_name("namespace", namespace)
        if identity is None:
            identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        check_identity(identity)
        self.lease: str = f"{namespace}/{name}"
        """The Lease, `namespace/name`."""
        self.identity: str = identity
        """The name of this replica."""
        self.options: LeaderElectionOptions = options or LeaderElectionOptions()
        """The durations."""
        self._cluster = cluster
        self._name, self._namespace = name, namespace
        self._ends_process = ends_process
        self._on_new_leader = on_new_leader
        self._recorder = recorder
        self._metrics = metrics
        self._labels = {"name": name}
        is_networked = isinstance(cluster.connection, NetworkConnection)
        self._is_virtual = not is_networked and clock is None
        # Without a network, time is that of the loop, from the first run on.
        self._clock: Callable[[], float] = clock or (lease_time if is_networked else float)
        self._wall: Callable[[], float] = wall_clock or wall_time
        self._keeps_wall_clock = wall_clock is not None
        self._loop = LoopOwner(f"the elector of {self.lease}")
        self._election = Election(
            name,
            namespace,
            identity=identity,
            options=self.options,
            rng=rng or random.Random(),
        )
        self._tasks = UserTasks()
        self._lead: Lead
        self._work: _Work | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._deadline: DeadlineThread | None = None
        self._connection: ConnectionProtocol
        self._reflector: Reflector | None = None
        self._wake = anyio.Event()
        self._ended = anyio.Event()
        self._is_running = self._is_stopping = self._is_aborted = False
        self._failure: BaseException | None = None
        self._known_holder: str | None = None
        self._terms = 0
        self._last_error = ""
        self._forbidden_at: float | None = None

    @property
    def is_leading(self) -> bool:
        """Whether its term is valid and the leader's work runs."""
        return self._work is not None and not self._work.term.has_ended

    def status(self) -> LeaderElectionStatus:
        """Return its state; from any thread."""
        lease, work = self._election.lease, self._work
        ago = None if work is None else max(0.0, self._clock() - work.tenure.renewed_at)
        return LeaderElectionStatus(
            lease=self.lease,
            identity=self.identity,
            is_leading=self.is_leading,
            holder="" if lease is None else lease.holder,
            transitions=0 if lease is None else lease.transitions,
            terms=self._terms,
            renewed_seconds=ago,
            is_overdue=ago is not None and ago > self.options.lease_duration_seconds,
            is_watching=not self._election.is_polling,
            last_error=self._last_error,
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

        Nothing of that work may leave any more.
        """
        self._is_aborted = True
        self._wake.set()

    async def run(self, lead: Lead, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Compete for the Lease, and call a function for each term, until cancelled.

        Args:
            lead: called with the Term. At the end of the term it is cancelled once and awaited. It
                must not return before: an elector whose work is done is of no use. It may raise the
                FencedError of a refusal: the replica is a standby again.
            task_status: notified when the elector runs.

        Raises:
            LifecycleError: `lead` returned, or did not end in time after it was cancelled; or the
                elector runs already.
            ForbiddenError: the right to read or to write the Lease is missing; names the verbs.
            InvalidArgumentError: another living replica has the same identity.
            InvalidTypeError: `lead` is not a coroutine function.
            Exception: what else `lead` raised. The Lease is released before.

        Cancellation:
            Cancels `lead`, awaits its end while the Lease is renewed, releases the Lease, and then
            takes effect. A second cancellation does not wait.
        """
        check_callable(lead, "lead(term)", 1)
        if self._is_running:
            raise LifecycleError(f"the elector of {self.lease} runs already")
        self._loop.claim()
        self._is_running, self._lead = True, lead
        self._open()
        host = Host(f"the elector of {self.lease}", self._main)
        try:
            await host.start()
            task_status.started()
            await self._wait_ended()
        finally:
            with anyio.CancelScope(shield=True):
                await self._close(host)
        if self._failure is not None:
            raise self._failure

    def on_watched(self, lease: LeaseRecord) -> None:
        """Take a version of the Lease that the watch shows; called by the watch."""
        try:
            self._election.on_watched(lease, self._clock())
        except InformerError as error:
            self._fail(error)
        self._changed()

    def on_watched_deletion(self, uid: str) -> None:
        """Take the deletion of a Lease that the watch shows; called by the watch."""
        self._election.on_watched_deletion(uid, self._clock())
        self._changed()

    def _open(self) -> None:
        cluster = self._cluster
        if self._is_virtual:
            self._clock = asyncio.get_running_loop().time
            if not self._keeps_wall_clock:
                self._wall = self._clock
        self._connection = cluster.connection
        if isinstance(cluster.connection, Connection):
            # Of its own: no other request may delay a renewal, or wait for a connection before it.
            options = ConnectionOptions(
                connect_timeout_seconds=self.options.request_timeout_seconds
            )
            self._connection = Connection(cluster.config, options=options)
        self._election.is_polling = True
        self._metrics.set("leader_election_master_status", 0.0, self._labels)
        if not self._is_virtual:
            self._deadline = DeadlineThread(
                self.lease, self._clock, ends_process=self._ends_process
            )
            self._deadline.start()

    async def _close(self, host: Host) -> None:
        try:
            await host.aclose()
        finally:
            self._is_running = False
            if self._expiry is not None:
                self._expiry.cancel()
            if self._deadline is not None:
                self._deadline.stop()
            if self._connection is not self._cluster.connection:
                with anyio.move_on_after(_CLOSE_SECONDS):
                    await self._connection.aclose()

    async def _wait_ended(self) -> None:
        try:
            await self._ended.wait()
        except asyncio.CancelledError:
            self._is_stopping = True
            self._wake.set()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()
            raise

    async def _main(self, group: TaskGroup, ready: Callable[[], None]) -> None:
        try:
            group.start_soon(self._watch)
            ready()
            await self._elect()
        except (APIStatusError, InformerError) as error:
            self._failure = error
        finally:
            await self._abandon()
            self._ended.set()

    async def _watch(self) -> None:
        list_watch = ListWatch(
            self._connection,
            _LEASES,
            namespace=self._namespace,
            field_selector=FieldSelector.parse(f"metadata.name={self._name}"),
        )
        self._reflector = Reflector(
            list_watch, LeaseSink(self), on_change=self._watch_changed, metrics=NO_METRICS
        )
        await self._reflector.run()

    def _watch_changed(self) -> None:
        reflector = self._reflector
        watches = reflector is not None and reflector.state is ReflectorState.WATCHING
        if self._election.is_polling is watches:
            self._election.is_polling = not watches
            self._wake.set()

    async def _elect(self) -> None:
        """Do what the election says, until the Lease is released."""
        while True:
            self._wake = anyio.Event()
            if self._is_aborted:
                return
            # Work that has ended may have met the end of its term before this loop.
            self._election.check_expiry(self._clock())
            self._follow_term()
            self._follow_work()
            step = self._election.next_step(self._clock(), self._wall())
            self._follow_term()
            match step:
                case Finished():
                    return
                case Wait(until):
                    await self._wait(until)
                case request:
                    await self._send(request)
            self._changed()

    async def _wait(self, until: float) -> None:
        give_up_at = math.inf if self._work is None else self._work.give_up_at
        seconds = max(0.0, min(until, give_up_at) - self._clock())
        with anyio.move_on_after(seconds):
            await self._wake.wait()

    async def _send(self, request: Read | Write) -> None:
        """Send one request for the Lease, and report how it ended."""
        election = self._election
        slow_before = election.slow_renewals
        try:
            raw = await self._request(request)
            lease = read_lease(msgspec.json.decode(raw, type=dict))
        except ConflictError:
            election.on_conflict(self._clock())
        except NotFoundError as error:
            if isinstance(request, Write) and request.creates:
                self._failed(error)
            else:
                election.on_absent(self._clock())
        except (InformerError, TimeoutError, msgspec.DecodeError) as error:
            self._failed(error)
        else:
            self._last_error, self._forbidden_at = "", None
            try:
                election.on_lease(lease, self._clock())
            except InformerError as error:
                self._fail(error)
        for _ in range(election.slow_renewals - slow_before):
            self._metrics.increment("leader_election_slowpath_total", self._labels)

    async def _request(self, request: Read | Write) -> bytes:
        collection = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        path, method, body = f"{collection}/{self._name}", "GET", None
        if isinstance(request, Write):
            method, body = "PUT", msgspec.json.encode(request.body)
            if request.creates:
                path, method = collection, "POST"
        seconds = self.options.request_timeout_seconds
        async with asyncio.timeout(seconds):  # also where a connection has no deadlines
            return await self._connection.request(method, path, body=body, timeout_seconds=seconds)

    def _failed(self, error: Exception) -> None:
        """Record a request that failed; give up if the right to send it is missing for long."""
        now = self._clock()
        self._election.on_failure(now)
        text = str(error) if isinstance(error, InformerError) else error_text(error)
        if text != self._last_error:
            self._last_error = text
            _log.warning("the Lease %s: %s", self.lease, text)
        if not isinstance(error, ForbiddenError):
            self._forbidden_at = None
            return
        if self._forbidden_at is None:
            self._forbidden_at = now  # a server that starts refuses what it grants a bit later
        elif now - self._forbidden_at >= self.options.renew_deadline_seconds:
            self._fail(error.with_hint(f"leader election needs {_VERBS}"))

    def _fail(self, error: BaseException) -> None:
        """End with an error, after the work has ended and the Lease is released."""
        self._failure = self._failure or error
        self._is_stopping = True
        self._wake.set()

    def _changed(self) -> None:
        """Follow a change of the Lease or of the term, also while a request is under way."""
        self._follow_term()
        self._wake.set()
        lease = self._election.lease
        holder = "" if lease is None else lease.holder
        if holder and holder != self._known_holder:
            self._known_holder = holder
            _log.info("the Lease %s: the leader is %s", self.lease, holder)
            if self._on_new_leader is not None:
                self._on_new_leader(holder)

    def _follow_term(self) -> None:
        """Begin the work of a new term; end that of a term that is over."""
        tenure, work = self._election.tenure, self._work
        if work is not None and work.tenure.ended and not work.is_over:
            self._end_term(work)
        if tenure is None:
            return
        if work is None:
            self._begin_term(tenure)
        if self._expiry is not None:
            self._expiry.cancel()
        loop = asyncio.get_running_loop()
        left_seconds = max(0.0, tenure.valid_until - self._clock())
        self._expiry = loop.call_later(left_seconds, self._check_expiry)
        if self._deadline is not None:
            duration = self.options.lease_duration_seconds
            self._deadline.set_deadline(tenure.renewed_at + duration - MARGIN_SECONDS)

    def _check_expiry(self) -> None:
        self._expiry = None
        self._election.check_expiry(self._clock())
        self._changed()

    def _begin_term(self, tenure: Tenure) -> None:
        term = Term(self.lease, tenure, clock=self._clock, wall_clock=self._wall)
        self._work = work = _Work(term, tenure)
        self._terms += 1
        self._election.is_candidate = False
        self._metrics.set("leader_election_master_status", 1.0, self._labels)
        _log.info("%s leads: it holds the Lease %s", self.identity, self.lease)
        self._record_event("became leader", "BecomeLeader")
        name = f"leader of {self.lease}, term {term.transitions}"
        work.task = self._tasks.spawn(name, self._call(work))

    def _end_term(self, work: _Work) -> None:
        """End the work of a term that is over: nothing of it may leave any more."""
        work.is_over = True
        reason = work.tenure.ended
        _log.warning("%s leads no more: %s (Lease %s)", self.identity, reason, self.lease)
        self._metrics.set("leader_election_master_status", 0.0, self._labels)
        work.term.cut_off_writes()
        self._cancel(work)

    def _cancel(self, work: _Work) -> None:
        if not work.is_cancelled:
            work.is_cancelled = True
            work.give_up_at = self._clock() + self.options.end_timeout_seconds
            work.task.cancel_once()

    async def _call(self, work: _Work) -> None:
        """Call the user's function with the term as the guard of its writes."""
        CURRENT_GUARD.set(work.term)
        try:
            result = self._lead(work.term)
            if not inspect.isawaitable(result):
                reason = f"must return an awaitable, got {type(result).__name__}: use async def"
                raise InvalidTypeError("lead", reason)
            await result
        except asyncio.CancelledError:
            pass  # by the elector, or by the function itself, which counts as a return
        except Exception as error:  # noqa: BLE001 - the fence of user code; raised by run()
            work.error = error
        finally:
            self._wake.set()

    def _follow_work(self) -> None:
        """Follow a request to stop, and the end of the work."""
        work = self._work
        if work is None:
            if self._is_stopping and not self._election.is_releasing:
                self._election.is_candidate = False
                self._election.release(self._clock(), None)
        elif work.task.done:
            self._work_ended(work)
        elif self._clock() >= work.give_up_at:
            seconds = self.options.end_timeout_seconds
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
            self._election.end_term("its work gave up when it was refused")
            self._follow_term()
        self._work = None
        if self._deadline is not None:
            self._deadline.set_deadline(None)
        self._record_event("stopped leading", "StopLeading")
        if work.error is not None:
            self._fail(work.error)
        elif not work.is_cancelled:
            reason = "lead() returned before its term has ended: it must run until it is cancelled"
            self._fail(LifecycleError(f"the leader of {self.lease}: {reason}"))
        if not self._is_stopping:
            self._election.is_candidate = True
            return
        self._metrics.set("leader_election_master_status", 0.0, self._labels)
        self._election.release(self._clock(), work.term.written())
        work.term.cut_off_writes()  # of tasks that the work has left behind

    async def _abandon(self) -> None:
        """Leave work behind that does not end; nothing of it may leave any more."""
        work, self._work = self._work, None
        if work is not None:
            work.tenure.ended = work.tenure.ended or "the elector was stopped"
            work.term.cut_off_writes()
            await work.task.stop(0.0)

    def _record_event(self, text: str, action: str) -> None:
        lease = self._election.lease
        if self._recorder is None:
            return
        metadata = {"name": self._name, "namespace": self._namespace}
        if lease is not None and lease.uid:
            metadata["uid"] = lease.uid
        body = {"apiVersion": _LEASES.api_version, "kind": "Lease", "metadata": metadata}
        note = f"{self.identity} {text}"
        self._recorder.event(body, "LeaderElection", note, action=action)


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
