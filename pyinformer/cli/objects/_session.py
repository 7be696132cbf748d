"""The steps that `watch` and `get` share: connect, find the resource, and sync the cache.

A server that cannot be reached is retried, with the reason on stderr.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._printable import printable
from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory, core_of
from pyinformer.cache.reflector import ReflectorState
from pyinformer.cli.objects._progress_reporter import (
    ProgressReporter,
    is_permanent_failure,
    is_refused,
    reason_for,
)
from pyinformer.cli.output import Output
from pyinformer.client.cluster import Cluster, connect
from pyinformer.client.transport import ClusterConfig
from pyinformer.errors import (
    InvalidArgumentError,
    ServerError,
    TLSVerificationError,
    TooManyRequestsError,
    TransportError,
    UnknownResourceError,
)
from pyinformer.objects import GroupVersionResource, is_built_in_cluster_scoped

if TYPE_CHECKING:
    from pyinformer.client.cluster import APIResource

_POLL_SECONDS: Final = 0.05
# For the write in progress; the documentation promises one second in total.
_GRACE_SECONDS: Final = 0.2
_FIRST_LINE_SECONDS: Final = 2.0
_FIRST_DELAY_SECONDS, _LONGEST_DELAY_SECONDS = 1.0, 8.0
_VERSION: Final = re.compile(r"(?:[^/]+/)?v\d+(?:(?:alpha|beta)\d+)?")
_ONE_AT_A_TIME: Final = "run the command once for each resource, such as pods"


class CommandError(Exception):
    """A command failed; its user sees the text."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """The options of the connection; None for the default of kubectl."""

    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    user: str | None = None
    groups: tuple[str, ...] = ()

    def connected(self) -> AbstractAsyncContextManager[Cluster]:
        """Return a connection to the server, to be entered.

        Raises:
            ConfigurationError: the server is not a URL; names the option.
        """
        config = None
        if self.server is not None:
            config = ClusterConfig(server=self.server, source="--server")
        return connect(
            self.kubeconfig,
            context=self.context,
            config=config,
            impersonate_user=self.user,
            impersonate_groups=self.groups,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTarget:
    """The objects to follow: a resource, namespaces and selectors."""

    resource: str
    namespaces: tuple[str, ...] = ()
    """Empty for the default namespace of the context."""
    all_namespaces: bool = False
    label_selector: str | None = None
    field_selector: str | None = None
    metadata_only: bool = False


@final
@dataclass(slots=True)
class SyncState:
    """Whether a command has synced, and what is missing, for the end of its timeout."""

    has_synced: bool = False
    pending: str = ""
    """What has not synced, and why."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The informer of a command, and its progress reports on stderr."""

    informer: SharedInformer[Any]
    resource: GroupVersionResource
    namespaces: tuple[str, ...] | None
    """None for all namespaces, or for a resource without namespaces."""
    is_namespaced: bool
    errors: Output
    progress: ProgressReporter
    sync_state: SyncState
    is_selection: bool
    """Whether selectors leave objects out."""

    @property
    def what(self) -> str:
        """The resource, as errors name it: `pods.v1`."""
        return str(self.resource)

    @property
    def where(self) -> str:
        """The resource and its namespaces: `pods.v1 in default`."""
        return self.what if self.namespaces is None else f"{self.what} in {self._names}"

    @property
    def selected(self) -> str:
        """The objects that are followed: `pods.v1 in default that match`."""
        return f"{self.where} that match" if self.is_selection else self.where

    @property
    def _names(self) -> str:
        return ", ".join(self.namespaces or ())

    @property
    def shows_namespaces(self) -> bool:
        """Whether objects of several namespaces may be printed."""
        return self.is_namespaced and (self.namespaces is None or len(self.namespaces) > 1)

    async def sync(self, *, gives_up: bool) -> None:
        """Wait until every namespace has synced that the server allows, and report delays.

        Args:
            gives_up: whether to return if every namespace is refused. Otherwise the command waits
                for the missing rights.

        Raises:
            CommandError: the server does not serve the resource.

        Cancellation:
            Safe.
        """
        began_at = loop_time()
        while True:
            namespaces = self.informer.status().namespaces
            pending = [one for one in namespaces if not one.has_synced]
            self.sync_state.pending = "; ".join(
                f"{one.follows}: {reason_for(one)}" for one in pending
            )
            has_any = len(pending) < len(namespaces)
            is_over = all(map(is_refused, pending)) and (has_any or gives_up)
            if has_any or not is_over:  # otherwise the error of the command is the report
                self.report_progress(loop_time() - began_at)
            self._check()
            if is_over:
                self.sync_state.has_synced = has_any
                return
            await anyio.sleep(_POLL_SECONDS)

    def _check(self) -> None:
        """Raise if the cache can never sync."""
        informer = self.informer
        if informer.crash is not None:
            raise informer.crash
        for namespace in informer.status().namespaces:
            if is_permanent_failure(namespace):
                raise CommandError(namespace.last_error)
        if core_of(informer).is_settled and not informer.has_synced:
            status = informer.status()
            is_absent = status.state is ReflectorState.ABSENT
            raise CommandError(
                f"the server does not serve {self.what}" if is_absent else str(status)
            )

    def report_progress(self, elapsed_seconds: float) -> None:
        """Print what has changed in the status of the informer."""
        for line in self.progress.lines(self.informer.status(), elapsed_seconds):
            self.errors.line(line)


@asynccontextmanager
async def session(
    access: ServerAccess,
    target: WatchTarget,
    errors: Output,
    prepare: Callable[[SharedInformer[Any]], AbstractAsyncContextManager[object] | None],
    sync_state: SyncState,
) -> AsyncIterator[Session]:
    """Begin to follow what is target.

    Args:
        access: how the cluster is reached.
        target: what.
        errors: receives progress reports.
        prepare: is called with the informer before it starts; what it returns is entered until
            the end.
        sync_state: is updated while the cache syncs.

    Raises:
        InformerError: the connection, the resource or the selectors are invalid.

    Cancellation:
        Stops the informer and closes the connection.
    """
    async with (
        access.connected() as cluster,
        SharedInformerFactory(cluster, grace_seconds=_GRACE_SECONDS) as factory,
    ):
        resource, is_namespaced = await _resource(cluster, target.resource, errors)
        namespaces = _namespaces(target, cluster.config.namespace) if is_namespaced else None
        informer = factory.informer(
            resource.api_version,
            resource.resource,
            namespaces=namespaces,
            label_selector=target.label_selector,
            field_selector=target.field_selector,
            memory="metadata" if target.metadata_only else "strip_managed_fields",
            absent="require",
        )
        async with prepare(informer) or nullcontext():
            await factory.start()
            yield Session(
                informer=informer,
                resource=resource,
                namespaces=namespaces,
                is_namespaced=is_namespaced,
                errors=errors,
                progress=ProgressReporter(),
                sync_state=sync_state,
                is_selection=bool(target.label_selector or target.field_selector),
            )


def _namespaces(target: WatchTarget, default: str) -> tuple[str, ...] | None:
    if target.all_namespaces:
        return None
    return tuple(dict.fromkeys(target.namespaces)) or (default,)


async def _resource(
    cluster: Cluster, name: str, errors: Output
) -> tuple[GroupVersionResource, bool]:
    """Return the resource of a name, and whether it is namespaced."""
    if "," in name:
        raise CommandError(f"{name!r} names several resources; {_ONE_AT_A_TIME}")
    if "/" in name:  # a full name: it works without the right to read discovery
        api_version, _, plural = name.rpartition("/")
        if not _VERSION.fullmatch(api_version):
            raise CommandError(
                "the full name of a resource must look like v1/pods or apps/v1/deployments, got"
                f" {name!r}; names of objects are separate arguments"
            )
        try:
            resource = GroupVersionResource.of(api_version, plural)
        except InvalidArgumentError as error:
            raise CommandError(f"RESOURCE: {error.reason}") from error
        return resource, not is_built_in_cluster_scoped(resource)
    try:
        found, *others = await _retrying(lambda: cluster.discovery.find(name), cluster, errors)
    except UnknownResourceError as error:
        if name == "all":
            raise CommandError(f"'all' is not a resource; {_ONE_AT_A_TIME}") from error
        raise
    if others:
        also = ", ".join(one.qualified_name for one in others)
        taken = f"{found.resource.api_version}/{found.resource.resource}"
        errors.line(printable(f"{name} is taken as {taken}; there is also {also}"))
    return found.resource, found.namespaced


async def _retrying(
    ask: Callable[[], Awaitable[Sequence[APIResource]]], cluster: Cluster, errors: Output
) -> Sequence[APIResource]:
    """Repeat a request until the server answers; a refusal is an answer."""
    attempt, delay = 0, _FIRST_DELAY_SECONDS
    while True:
        loop = asyncio.get_running_loop()
        word = loop.call_later(_FIRST_LINE_SECONDS, _report_waiting, cluster, errors)
        try:
            return await ask()
        except TLSVerificationError:
            raise  # a retry cannot succeed
        except (TransportError, ServerError, TooManyRequestsError) as error:
            attempt += 1
            again = f"attempt {attempt}, again in {delay:g} s"
            errors.line(printable(f"waiting for the server: {error}, {again}"))
        finally:
            word.cancel()
        await anyio.sleep(delay)
        delay = min(2 * delay, _LONGEST_DELAY_SECONDS)


def _report_waiting(cluster: Cluster, errors: Output) -> None:
    seconds = f"{_FIRST_LINE_SECONDS:g} s"
    errors.line(printable(f"waiting for {cluster.config.server}: no answer after {seconds}"))
