"""`Recorder`: attaches to a program's informers and controllers, and writes what they do."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, final

import anyio
from anyio import to_thread

from pyinformer._runtime.tasks import Host, Startable, is_asynchronous, loop_time
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_seconds, object_key
from pyinformer.testing.histories._digests import status_digests
from pyinformer.testing.histories._etcd_log import resource_name
from pyinformer.testing.histories._follower import Claim, Follower, version_of
from pyinformer.testing.histories._history import History
from pyinformer.testing.histories._process_resources import held_now
from pyinformer.testing.histories._records import (
    FollowedRecord,
    ReconciledRecord,
    ReconcilingRecord,
    RestoredRecord,
    TruthRecord,
    Version,
    WaitedRecord,
    WaitingRecord,
    WroteRecord,
)
from pyinformer.testing.histories._truth import ScopedTruth, Truth

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from pyinformer.cache.informer import SharedInformer
    from pyinformer.cache.store import IndexFunction
    from pyinformer.controller import Reconcile
    from pyinformer.controller.sources import Request
    from pyinformer.objects import JSONObject, KubeObject

_INTERVAL_SECONDS: Final = 0.25
_AGAIN_SECONDS: Final = 1.0  # after an audit that was inconclusive
_LOOK_SECONDS: Final = 0.05
_DONE: Final = "done"


class CatchesUp(Protocol):
    """The truth of a run: an EtcdTruth, or a ServerTruth."""

    def catch_up(self) -> int:
        """Block until everything that was written is in the history."""
        ...


@final
class Recorder(Startable):
    """Writes what the informers, controllers and waits of a program do to a history.

        async with Recorder(history) as recorder, SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods")
            recorder.follow(pods)
            controller = Controller("pods", recorder.reconciling("pods", reconcile, pods), pods)
            ...
            await recorder.rest(truth)

    It uses public names only. Entered before the program's parts, it records what the process holds
    before they start and after they have ended.

    Args:
        history: where the records go.
        interval_seconds: how often each cache is sampled.
        counts_resources: whether to record tasks, sockets and memory; False if other parts of the
            process open connections meanwhile, such as servers.

    Raises:
        InvalidArgumentError: the interval is not a duration.
    """

    def __init__(
        self,
        history: History,
        *,
        interval_seconds: float = _INTERVAL_SECONDS,
        counts_resources: bool = True,
    ) -> None:
        check_seconds("interval_seconds", interval_seconds)
        self.history = history
        self._interval_seconds = interval_seconds
        self._counts_resources = counts_resources
        self._host = Host("the recorder", self._run)
        self._followers: dict[int, Follower] = {}
        self._readers: set[str] = set()
        self._numbers = itertools.count(1)
        self._reconciling: set[int] = set()
        self._reconciled: dict[tuple[str, str], Version] = {}
        self._complete: dict[str, Follower] = {}

    async def start(self) -> None:
        """Record the baseline, and begin to sample.

        Cancellation:
            What was started is stopped.
        """
        if self._counts_resources:
            self.history.add(held_now("baseline"))
        await self._host.start()

    async def aclose(self) -> None:
        """Stop sampling, and record what the process holds.

        Cancellation:
            Takes effect when the sampling has ended.
        """
        await self._host.aclose()
        if self._counts_resources:
            self.history.add(held_now("rest"))

    async def _run(self, _group: TaskGroup, ready: Callable[[], None]) -> None:
        ready()
        while True:
            self.sample_nowait()
            await anyio.sleep(self._interval_seconds)

    def sample_nowait(self) -> None:
        """Sample every cache, and all that it claims, in one step of the event loop."""
        for follower in self._followers.values():
            follower.sample()

    def follow(
        self,
        informer: SharedInformer[Any],
        *,
        name: str | None = None,
        indexes: Mapping[str, str | IndexFunction] | None = None,
        claims: Mapping[str, Claim] | None = None,
    ) -> None:
        """Record an informer: add a handler, and sample its cache from now on.

        Args:
            informer: it may run already; its namespaces must not change.
            name: its name in the history; None takes its own.
            indexes: the indexes to check at rest, each with the path or the function by which it
                was added.
            claims: what else promises an age of this cache, such as a readiness probe.

        Raises:
            InvalidArgumentError: the name is taken, or a selector chooses the namespaces.
        """
        who = name or informer.name
        if informer.scope.namespace_selector is not None:
            raise InvalidArgumentError("informer", "must follow namespaces that do not change")
        if id(informer) in self._followers or who in self._readers:
            raise InvalidArgumentError("name", f"must be unique in the history, got {who!r} again")
        self._readers.add(who)
        follower = Follower(
            self.history, informer, who=who, indexes=indexes or {}, claims=claims or {}
        )
        self._followers[id(informer)] = follower
        informer.add_event_handler(follower, name=follower.handler)

    def _follower(self, informer: SharedInformer[Any]) -> Follower:
        follower = self._followers.get(id(informer))
        if follower is None:
            raise InvalidArgumentError("informer", f"{informer!r} must be followed first")
        return follower

    def read(
        self,
        informer: SharedInformer[Any],
        key: str,
        *,
        who: str = "reader",
        max_age_seconds: float | None = None,
    ) -> KubeObject[Any] | None:
        """Read an object by the informer's lister, and record what it shows.

        Args:
            informer: one that is followed.
            key: `namespace/name`, or `name`.
            who: the name of the reader.
            max_age_seconds: read by `lister.fresh`.

        Raises:
            InvalidArgumentError: the informer is not followed.
            InformerError: what the lister raises.
        """
        follower = self._follower(informer)
        name = f"{follower.who}/{who}"
        if name not in self._readers:
            self._readers.add(name)
            follower.introduce(name, "reader")
        return follower.read(key, who=name, max_age_seconds=max_age_seconds)

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Record a wait: `with recorder.waiting("sync"): await pods.wait_for_cache_sync()`."""
        number = next(self._numbers)
        self.history.add(WaitingRecord(number=number, name=name))
        how = _DONE
        try:
            yield
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            self.history.add(WaitedRecord(number=number, how=how))

    def reconciling(
        self,
        name: str,
        reconcile: Reconcile[Any],
        primary: SharedInformer[Any],
        *,
        is_complete: bool = True,
    ) -> Reconcile[Any]:
        """Return a reconcile function that records each of its calls.

        Args:
            name: the name of the controller.
            reconcile: the function, asynchronous or plain.
            primary: the informer of the reconciled objects; it is followed.
            is_complete: whether the controller has to reconcile the last state of every object;
                False if a predicate drops some.

        Raises:
            InvalidArgumentError: the informer is not followed, or the name is taken.
        """
        follower = self._follower(primary)
        who = f"{follower.who}/{name}"
        if who in self._readers:
            raise InvalidArgumentError("name", f"must be unique in the history, got {who!r} again")
        self._readers.add(who)
        follower.introduce(who, "controller", is_complete=is_complete)
        if is_complete:
            self._complete[who] = follower

        @wraps(reconcile, updated=())
        def plain(request: Request, obj: KubeObject[Any] | None) -> Any:  # noqa: ANN401 - as the function returns
            with ExitStack() as recording:
                recording.enter_context(self._reconcile(who, request, obj))
                returned = reconcile(request, obj)
                if not isinstance(returned, Awaitable):
                    return returned
                return _awaited(returned, recording.pop_all())

        if not is_asynchronous(reconcile):
            return cast("Reconcile[Any]", plain)

        @wraps(reconcile, updated=())
        async def waits(request: Request, obj: KubeObject[Any] | None) -> Any:  # noqa: ANN401 - as the function returns
            """Reconcile on the event loop, as the function does."""
            return await plain(request, obj)

        return waits

    @contextmanager
    def _reconcile(self, who: str, request: Request, obj: KubeObject[Any] | None) -> Iterator[None]:
        key, number = str(request.key), next(self._numbers)
        version = Version("", "") if obj is None else version_of(obj)
        self._reconciling.add(number)
        self.history.add(
            ReconcilingRecord(
                who=who,
                number=number,
                key=key,
                uid=version.uid,
                resource_version=version.resource_version,
            )
        )
        self._reconciled.pop((who, key), None)
        how = _DONE
        try:
            yield
            self._reconciled[who, key] = version
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            self._reconciling.discard(number)
            self.history.add(ReconciledRecord(number=number, how=how))

    def wrote_status(
        self,
        answer: KubeObject[Any],
        status: JSONObject,
        *,
        plural: str,
        based_on: KubeObject[Any] | None = None,
        who: str = "writer",
    ) -> None:
        """Record what the server answered to a write of a status.

        Args:
            answer: the object that the write returned.
            status: the fields that the writer wanted to set.
            plural: the resource's plural name.
            based_on: the object that the writer had read.
            who: the name of the writer.
        """
        meta = answer.metadata
        self.history.add(
            WroteRecord(
                who=who,
                resource=resource_name(answer.gvk.group, plural),
                key=object_key(meta.namespace, meta.name),
                uid=meta.uid,
                resource_version=meta.resource_version,
                based_on="" if based_on is None else based_on.metadata.resource_version,
                status=status_digests(status),
            )
        )

    async def audit(self, *, timeout_seconds: float = 60.0) -> None:
        """Audit every informer, as a program does that suspects its server.

        An audit that is inconclusive, for example since its connection broke, is repeated: after a
        lie only one that finds the cache consistent, or has it repaired, proves anything.

        Args:
            timeout_seconds: how long each informer's audits may take.

        Raises:
            LifecycleError: one of them does not run.

        Cancellation:
            Safe.
        """
        for follower in tuple(self._followers.values()):
            deadline = loop_time() + timeout_seconds
            while (left := deadline - loop_time()) > 0:
                report = await follower.informer.audit(timeout_seconds=left)
                follower.sample()
                if report.verdict != "inconclusive" or report.repair == "demanded":
                    break
                await anyio.sleep(_AGAIN_SECONDS)

    async def rest(self, truth: CatchesUp | None = None, *, timeout_seconds: float = 100.0) -> None:
        """Wait until everything shows the truth, and record every view, however they are then.

        Nothing may write any more. Views that do not become right in time are recorded as they are,
        and the checker reports them.

        Args:
            truth: is caught up with first; None if the truth is in the history already.
            timeout_seconds: how long to wait for the views.

        Raises:
            KubeAPIServerError: etcd does not answer.

        Cancellation:
            Safe; nothing is recorded.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        if truth is not None:
            await to_thread.run_sync(truth.catch_up)
        wanted = await to_thread.run_sync(self._wanted)
        with anyio.move_on_after(timeout_seconds):
            while not self._is_at_rest(wanted):  # noqa: ASYNC110 - nothing announces it
                await anyio.sleep(_LOOK_SECONDS)
        for follower in self._followers.values():
            follower.rest()

    def _wanted(self) -> dict[str, tuple[dict[str, Version], int]]:
        """Return what each cache has to show, and its least position, by its name."""
        truth, followed = Truth(), list[FollowedRecord]()
        for record in self.history:
            match record:
                case TruthRecord():
                    truth.add(record)
                case RestoredRecord():
                    truth.restore(record)
                case FollowedRecord(role="cache"):
                    followed.append(record)
        return {one.who: ScopedTruth(truth, one).latest() for one in followed}

    def _is_at_rest(self, wanted: Mapping[str, tuple[dict[str, Version], int]]) -> bool:
        if self._reconciling:
            return False
        for follower in self._followers.values():
            if not follower.informer.is_running or not follower.informer.has_synced:
                return False
            if not follower.is_at_rest(*wanted[follower.who]):
                return False
        return all(
            self._reconciled.get((who, key)) == version
            for who, follower in self._complete.items()
            for key, version in wanted[follower.who][0].items()
        )


async def _awaited(returned: Awaitable[object], recording: ExitStack) -> object:
    """Await what a reconcile function returned, and end its record then."""
    with recording:
        return await returned
