"""One watch stream of kopf, fed by a reflector.

The reflector runs in a task of its own, so no cancel scope and no timeout is held while kopf has
the generator suspended. That task ends with the generator, and with the task that reads it.
"""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, final

from kopf._cogs.clients import errors, watching

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Host, error_text
from pyinformer.cache.reflector import Reflector, ReflectorState
from pyinformer.client.transport import ListWatch
from pyinformer.errors import ConnectionEndedError
from pyinformer.kopf._kopf_errors import new_error
from pyinformer.kopf._reflector_sink import ReflectorSink
from pyinformer.kopf._refused_requests import Refusal
from pyinformer.kopf._settings import patience_seconds, reflector_options, selectors_of
from pyinformer.kopf._stream_cache import CachedKeys, CachedObjects
from pyinformer.objects import GroupVersionKind, GroupVersionResource, has_compressor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from anyio.abc import TaskGroup
    from kopf._cogs.aiokits.aiotoggles import ToggleSet
    from kopf._cogs.configs.configuration import OperatorSettings
    from kopf._cogs.structs.bodies import RawEvent
    from kopf._cogs.structs.references import Namespace, Resource

    from pyinformer.cache.reflector import ReflectorOptions
    from pyinformer.errors import InformerError
    from pyinformer.kopf._operators import KopfOperator
    from pyinformer.kopf._stream_cache import Known
    from pyinformer.objects import KubeObject

_log = get_logger(__name__)
_FORBIDDEN: Final = 403


@final
class Stream:
    """The events of one resource in one namespace, or in all.

    Args:
        operator: whose stream it is.
        settings: the operator's.
        resource: what is watched.
        namespace: None for all namespaces.
        paused: is on while the operator is paused; None for streams that are never paused.
        keeps_bodies: keep the objects, not only their identities.
        stays_warm: keep following the server while the operator is paused.
    """

    def __init__(
        self,
        operator: KopfOperator,
        *,
        settings: OperatorSettings,
        resource: Resource,
        namespace: Namespace,
        paused: ToggleSet | None,
        keeps_bodies: bool,
        stays_warm: bool,
    ) -> None:
        self.resource: Resource = resource
        """What is watched."""
        self.namespace: Namespace = namespace
        """Where; None for all namespaces."""
        self.refusal: Refusal = Refusal()
        """Whether and for how long the server has refused it for missing rights."""
        self._operator = operator
        self._settings = settings
        self._paused = paused
        self._stays_warm = stays_warm and keeps_bodies
        kind = GroupVersionKind(resource.group, resource.version, resource.kind or "")
        self.known: CachedKeys | CachedObjects = (
            CachedObjects() if keeps_bodies else CachedKeys(kind)
        )
        """The objects that were reported."""
        self._delivery = ReflectorSink(
            self.known,
            self,
            is_observer=paused is None,
            inherited=operator.left.take(resource, namespace),
        )
        self._has_failed = False
        self._all_taken = asyncio.Event()
        self._reflector: Reflector[None] | None = None
        self._host: Host | None = None
        self._failure: BaseException | None = None
        self._selectors = ("", "", "")
        self._is_outdated = False
        self._pause: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakeup = asyncio.Event()
        self._now: Callable[[], float] = asyncio.get_running_loop().time

    @property
    def name(self) -> str:
        """The resource and the namespace, for people."""
        where = "all namespaces" if self.namespace is None else f"namespace {self.namespace}"
        return f"{self.resource} in {where}"

    @property
    def has_listed(self) -> bool:
        """Whether a list was complete since the stream began."""
        return self._delivery.has_listed

    @property
    def state(self) -> str:
        """What its reflector does; empty while it has none."""
        return "" if self._reflector is None else self._reflector.state.value

    @property
    def last_error(self) -> str:
        """The error of the latest failed attempt; empty since a watch was accepted after it."""
        error = self._error()
        return "" if error is None else str(error)

    def _error(self) -> InformerError | None:
        """Return the error of an outage that lasts.

        The reflector keeps its error until a watch delivers something, which takes up to a minute
        on an idle resource.
        """
        reflector = self._reflector
        if reflector is None or reflector.state is ReflectorState.WATCHING:
            return None
        return reflector.last_error

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is applied now is of another history; for the delivery."""
        return self._reflector is not None and self._reflector.is_resetting

    def is_in_initial_scan(self, obj: KubeObject[None]) -> bool:
        """Return whether kopf had seen an object before it watched; for the delivery."""
        return self._operator.initial_scan.includes(self.resource, obj)

    def wake(self) -> None:
        """Wake the reader: there is an event, a new state, a pause or an end."""
        self._wakeup.set()

    def deletion_timestamp(self) -> str:
        """Return the present time, for the delivery."""
        return datetime.fromtimestamp(wall_time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def events(self) -> AsyncGenerator[watching.Bookmark | RawEvent, None]:
        """Yield events until the reader ends; while the operator is paused, none.

        Raises:
            APIForbiddenError: kopf's: an observer's stream was refused before its first list.
            LoginError: kopf's: no credentials are left.
            BaseException: what the reflector has raised.

        Cancellation:
            Safe; the reflector is stopped, and its connection closed.
        """
        reader = asyncio.current_task()
        if reader is not None:  # a suspended generator may be closed long after its task
            reader.add_done_callback(self._abandon)
        try:
            while True:
                async with watching.streaming_block(
                    resource=self.resource, namespace=self.namespace, operator_paused=self._paused
                ) as pause:
                    self._pause = pause
                    pause.add_done_callback(lambda _: self.wake())
                    await self._begin()
                    while not pause.done():
                        event = self._delivery.take()
                        if event == "LISTED":
                            yield watching.Bookmark.LISTED
                        elif event is not None:
                            if self._paused is None and event["type"] == "DELETED":
                                await self._operator.report_contents(self.resource, event["object"])
                            yield event
                        elif self._needs_another_reflector():
                            break
                        else:
                            self._all_taken.set()
                            await self._wait()
                    await self._interrupt()
        finally:
            if reader is not None:
                reader.remove_done_callback(self._abandon)
            if self._timer is not None:
                self._timer.cancel()
            self._all_taken.set()
            await self._stop()

    def left(self) -> Sequence[Known]:
        """Return what kopf still takes to exist; nothing if plain kopf continues the stream."""
        return () if self._has_failed else self._delivery.left()

    def report_gone(self, resource_version: str) -> None:
        """Report as deleted what is known in an older version: a server has deleted all of it."""
        self._all_taken.clear()
        self._delivery.report_gone(resource_version)
        self.wake()

    async def wait_taken(self) -> None:
        """Wait until kopf has taken everything, or the stream has ended or is paused.

        Cancellation:
            Safe.
        """
        if self._pause is not None and not self._pause.done():
            await self._all_taken.wait()

    def report_again(self, key: str) -> None:
        """Report an object as modified, if it is known."""
        self._delivery.report_again(key)

    def missed_deletions(self) -> Iterator[RawEvent]:
        """Yield the deletions that kopf has not received yet, for a stream that has failed."""
        self._has_failed = True
        self._delivery.pause()
        while (event := self._delivery.take()) is not None and event != "LISTED":
            yield event

    async def _wait(self) -> None:
        """Wait for a call of `wake`; one since the last wait counts."""
        await self._wakeup.wait()
        self._wakeup.clear()

    async def _begin(self) -> None:
        """Begin to report, from what a running reflector knows, or with a new reflector."""
        if self._is_following and not self._is_outdated and self._delivery.can_replay:
            self._delivery.replay()
            return
        await self._stop()
        self._is_outdated = False
        self._delivery.resume()
        self._reflector = reflector = self._new_reflector()
        self._host = Host(f"the stream of {self.name}", partial(self._run, reflector))
        await self._host.start()
        reflector.journal.note(f"kopf's stream of {self.name}")

    async def _interrupt(self) -> None:
        """Stop reporting for a pause, or stop a reflector that needs a successor."""
        self.refusal.observe(None, self._now())  # nothing is requested, so nothing is refused
        if self._pause is not None and self._pause.done():
            self._delivery.pause()
        if self._is_outdated or not self._stays_warm:
            await self._stop()

    async def _stop(self) -> None:
        """Stop the reflector; a failure that the reader has not received is only logged."""
        host, self._host = self._host, None
        if host is not None:
            await host.aclose()
        failure, self._failure = self._failure, None
        if failure is not None and not isinstance(failure, ConnectionEndedError):
            _log.warning("the stream of %s failed as it ended: %s", self.name, error_text(failure))

    def _abandon(self, _: object) -> None:
        """Stop everything: the reader's task has ended."""
        self._all_taken.set()
        if self._pause is not None:
            self._pause.cancel()
        self._operator.end(self)
        if self._host is not None and self._host.is_running:
            self._host.task_group.cancel_scope.cancel()

    @property
    def _is_following(self) -> bool:
        """Whether the reflector runs; other code may cancel its task.

        An operator of kopf that ends cancels all younger tasks of its loop, not only its own.
        """
        reflector = self._reflector
        return reflector is not None and reflector.state is not ReflectorState.STOPPED

    async def _run(
        self, reflector: Reflector[None], _: TaskGroup, ready: Callable[[], None]
    ) -> None:
        ready()
        try:
            await reflector.run()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the reader raises it, or uses plain kopf
            self._failure = error
            self.wake()

    def _new_reflector(self) -> Reflector[None]:
        self._selectors = labels, fields, shard = selectors_of(self._settings, self.resource)
        operator, resource = self._operator, self.resource
        list_watch = ListWatch(
            operator.connection,
            GroupVersionResource(resource.group, resource.version, resource.plural),
            namespace=self.namespace,
            label_selector=labels,
            field_selector=fields,
            shard_selector=shard,
        )
        return Reflector(
            list_watch,
            self._delivery,
            strip_managed_fields=False,
            compact=self.known.has_bodies and has_compressor(),
            share_labels=self.known.has_bodies,
            options=self._options,
            server=operator.server,
            on_change=self.wake,
        )

    def _options(self) -> ReflectorOptions:
        """Read the settings again; other selectors need another reflector."""
        if selectors_of(self._settings, self.resource) != self._selectors:
            self._is_outdated = True
            self.wake()
        return reflector_options(self._settings, self._operator.rng)

    def _needs_another_reflector(self) -> bool:
        """Return whether its reflector has ended or its selectors have changed.

        Raises:
            BaseException: what kopf has to receive as an error.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            if isinstance(failure, ConnectionEndedError) and failure.__cause__:
                raise failure.__cause__
            raise failure
        if not self._is_following:
            _log.warning("%s: its task was cancelled by other code; it lists again", self.name)
            return True
        self._check_rights()
        return self._is_outdated

    def _check_rights(self) -> None:
        error = self._error()
        now, patience = self._now(), patience_seconds(self._settings.networking)
        if self.refusal.observe(error, now) and patience < math.inf:
            self._timer = asyncio.get_running_loop().call_later(patience, self.wake)
        if not self.refusal.lasts(patience, now):
            return
        if self._paused is None and not self.has_listed:
            raise new_error(errors.APIForbiddenError, str(error), _FORBIDDEN)
        if self.refusal.warns(patience, now):
            _log.warning(
                "%s: forbidden for %.0f s: %s; it is tried again every minute, and the liveness"
                " probe fails meanwhile",
                self.name,
                self.refusal.seconds(now),
                error,
            )
