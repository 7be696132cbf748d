"""Everybody an informer tells: handlers and streams, from their registration to their end.

What enters are the user's handlers and requests for streams; what leaves are listeners attached to
the distribution and started with the informer. Whoever is removed hears nothing more from that
moment, and nothing of what was started here outlives `aclose` by more than the grace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import anyio

from pyinformer.apimachinery import InformerError, LifecycleError, V, View
from pyinformer.informer._event_stream import EventStream
from pyinformer.informer._listener import HandlerHistory, HandlerStatus, Listener
from pyinformer.informer._registration import Registration
from pyinformer.tasks import LogExceptions, UserTasks

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from pyinformer.apimachinery import KubeObject
    from pyinformer.informer._handlers import Handler
    from pyinformer.informer._store_sink import Receiver
    from pyinformer.informer._stream_buffers import Delivery


_A = TypeVar("_A", bound=View | None, covariant=True)


class Teller(Protocol[_A]):
    """Whoever tells of changes: the cache of one namespace, or of several."""

    @property
    def has_told(self) -> bool:
        """Whether anything has been told to anybody."""
        ...

    async def wait_told(self) -> None:
        """Wait until the receivers know what the cache holds.

        Cancellation:
            Safe.
        """
        ...

    def attach(self, receiver: Receiver[_A], *, preload: bool = True) -> None:
        """Tell somebody from now on; what is cached already comes first if that is wanted."""
        ...

    def detach(self, receiver: Receiver[_A]) -> None:
        """Tell somebody nothing any more."""
        ...


@final
class SharedProcessor(Generic[V]):
    """The handlers and streams of one informer.

    Args:
        informer: names the informer in errors and in the names of tasks.
        distribution: tells them.
        objects: returns what is cached, for reminders.
        on_crash: is told if a handler's task ends by an error, which would be one of ours.
        check_loop: refuses callers outside of the informer's event loop.
    """

    def __init__(
        self,
        informer: str,
        distribution: Teller[V],
        objects: Callable[[], list[KubeObject[V]]],
        *,
        on_crash: Callable[[BaseException], None],
        check_loop: Callable[[], None] = lambda: None,
    ) -> None:
        self._informer = informer
        self._check_loop = check_loop
        self._distribution = distribution
        self._objects = objects
        self._tasks = UserTasks(on_crash=on_crash)
        self._listeners: list[Listener[V]] = []
        self._leaving: list[Listener[V]] = []  # removed from inside of their own calls
        self._streams: list[EventStream[V]] = []
        self._reminders: dict[Listener[V], anyio.CancelScope] = {}
        self._group: TaskGroup | None = None
        self._counts_bytes = False
        self._is_closed = False

    @property
    def abandoned(self) -> tuple[str, ...]:
        """The handlers that were told to end, did not, and still run."""
        return self._tasks.abandoned

    @property
    def handler_names(self) -> tuple[str, ...]:
        """The names of the handlers that are told now; from any thread."""
        return tuple(listener.name for listener in tuple(self._listeners))

    def count_bytes_nowait(self) -> None:
        """Bound what waits for handlers by bytes, too: an object with a large body has arrived."""
        if self._counts_bytes:
            return
        self._counts_bytes = True
        for listener in self._listeners:
            listener.count_bytes_nowait()

    def add(
        self,
        handler: Handler[V],
        *,
        mailbox_size: int,
        resync_period_seconds: float,
        log_exceptions: LogExceptions = "classes",
    ) -> Registration[V]:
        """Tell a handler of what exists, and of every change from now on.

        Raises:
            LifecycleError: the informer is closed.
        """
        self._refuse_if_closed()
        listener = Listener(
            handler,
            tasks=self._tasks,
            informer=self._informer,
            mailbox_size=mailbox_size,
            resync_period_seconds=resync_period_seconds,
            log_exceptions=log_exceptions,
        )
        if self._counts_bytes:
            listener.count_bytes_nowait()
        self._listeners.append(listener)
        self._distribution.attach(listener)
        if self._group is not None:
            self._start(listener, self._group)
        return Registration(
            listener, self._detach_listener, owner=self, check_loop=self._check_loop
        )

    def stream(
        self,
        *,
        initial: bool = True,
        delivery: Delivery = "every_event",
        max_events: int = 1024,
        check: Callable[[], None] | None = None,
    ) -> EventStream[V]:
        """Return a stream that is told from the moment it is entered.

        Args:
            initial: whether it begins with what exists.
            delivery: each event, or of each key what has become of it.
            max_events: how many events may wait.
            check: is called at each step, and raises what the consumer is to hear.

        Raises:
            InvalidArgumentError: max_events is less than 1, or there is no such delivery.
            InvalidTypeError: max_events is no whole number, or initial no bool.
        """
        return EventStream(
            self._informer,
            initial=initial,
            delivery=delivery,
            max_events=max_events,
            attach=self._attach_stream,
            detach=self._detach_stream,
            check=check,
            check_loop=self._check_loop,
        )

    def start_nowait(self, group: TaskGroup) -> None:
        """Start telling, on the running loop; whoever is added later is started at once.

        Args:
            group: where the reminders run.
        """
        self._group = group
        for listener in self._listeners:
            self._start(listener, group)

    async def step_out(self) -> None:
        """Let go of the handler that this is called from: nobody may wait for its call.

        Cancellation:
            It never waits.
        """
        for listener in (*self._listeners, *self._leaving):
            if listener.is_inside:
                await listener.aclose()

    async def aclose(self, grace_seconds: float) -> None:
        """Tell nobody anything more; cancel every call in flight once, and wait for its end.

        A second call does nothing. The streams are left to `end_streams_nowait`.

        Cancellation:
            Takes effect when the wait is over, which the grace bounds.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._group = None
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for listener in self._listeners:
                    closing.start_soon(listener.aclose, grace_seconds)
                closing.start_soon(self._tasks.stop, grace_seconds)  # of handlers removed before

    def end_streams_nowait(self, error: InformerError | None = None) -> None:
        """End every stream after what is buffered.

        Args:
            error: is raised there instead.
        """
        for stream in self._streams:
            stream.end_nowait(error)

    def status(self, now: float) -> tuple[HandlerStatus, ...]:
        """Return how each handler is doing; from any thread.

        Args:
            now: the loop's time.
        """
        return tuple(listener.status(now) for listener in tuple(self._listeners))

    def stories(self, key: str, now: float) -> tuple[HandlerHistory, ...]:
        """Return what each handler has to do with one key.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            now: the loop's time.
        """
        return tuple(listener.story(key, now) for listener in tuple(self._listeners))

    def _start(self, listener: Listener[V], group: TaskGroup) -> None:
        listener.start_nowait()
        if listener.resync_period_seconds > 0:
            self._reminders[listener] = scope = anyio.CancelScope()
            group.start_soon(self._remind, listener, scope)

    async def _remind(self, listener: Listener[V], scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                await anyio.sleep(listener.resync_period_seconds)
                if self._distribution.has_told:
                    # A list is handed over in steps, and a reminder must not overtake one: an
                    # update would come before its addition.
                    await self._distribution.wait_told()
                    listener.resync_nowait(self._objects())

    def _detach_listener(self, listener: Listener[V]) -> None:
        self._distribution.detach(listener)
        if listener in self._listeners:
            self._listeners.remove(listener)
        scope = self._reminders.pop(listener, None)
        if scope is not None:
            scope.cancel()
        self._leaving = [known for known in self._leaving if _is_busy(known)]
        if listener.is_inside and listener not in self._leaving:
            self._leaving.append(listener)

    def _attach_stream(self, stream: EventStream[V]) -> None:
        self._check_loop()
        self._refuse_if_closed()
        self._streams.append(stream)
        self._distribution.attach(stream, preload=stream.wants_initial)

    def _detach_stream(self, stream: EventStream[V]) -> None:
        self._distribution.detach(stream)
        if stream in self._streams:
            self._streams.remove(stream)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise LifecycleError(f"the informer of {self._informer} is closed: make a new one")


def _is_busy(listener: Listener[V]) -> bool:
    return listener.status(0.0).in_flight_key is not None
