"""The webhooks of one run of an operator: their certificate, its authorities, and their server.

They are served before the caches, since the server may have to convert what those list; a hook that
reads caches waits for them. They are closed last, and some seconds later than the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Startable, run_shielded
from pyinformer.admission import Answer, HookSet, Webhooks, WebhookServer, refused
from pyinformer.admission.certificates import (
    CABundles,
    FolderCertificate,
    SelfSignedCertificate,
    ServingCertificate,
    Target,
)
from pyinformer.admission.conversion import CONVERSION_BYTES, CONVERSION_PATH
from pyinformer.errors import LifecycleError
from pyinformer.operator._webhook_rights import secret_of

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import GroupVersionResource
    from pyinformer.telemetry.metrics import Metrics

_log = get_logger(__name__)

_Conversion: TypeAlias = Callable[[bytes], Answer]

_LARGE_BYTES: Final = 256 << 10  # some hundred objects, which take some 10 ms
_SHARE_OF_TIME: Final = 0.8  # of the API server's timeout, to wait for the caches
_LONGEST_WAIT_SECONDS: Final = 5.0
_MOST_WAITING: Final = 20  # others are refused at once
# Until the nodes know that the pod ends, which takes a second or two, its Service sends requests.
_LINGER_SECONDS: Final = 5.0
_DRAIN_SECONDS: Final = 1.0  # for the connections that are in use; idle ones are closed


@final
class ServedHooks(Startable):
    """Serves the hooks of an operator. Use it as `async with`, and once.

    Args:
        cluster: where the Secret and the configurations are.
        operator: its name; the owner of the fields that are written.
        webhooks: how they are reached.
        hooks: the hooks.
        is_leader: whether this replica writes the certificate and the authorities. Asked often.
        targets: the configurations and definitions that need the authorities.
        convert: answers conversions; None if there are none.
        lingers: whether the end waits until the nodes know of it.
        metrics: where figures go.
    """

    def __init__(
        self,
        cluster: Cluster,
        operator: str,
        webhooks: Webhooks,
        hooks: HookSet,
        is_leader: Callable[[], bool],
        *,
        targets: Sequence[Target],
        convert: _Conversion | None,
        lingers: bool,
        metrics: Metrics,
    ) -> None:
        self._lingers = lingers
        self.resources: tuple[GroupVersionResource, ...] = tuple(one.resource for one in hooks)
        """What the hooks are about."""
        self.models: tuple[tuple[GroupVersionResource, type], ...] = tuple(
            (one.resource, one.model) for one in hooks if one.model and not one.subresource
        )
        """The models of whole objects, with what they are about."""
        self._can_answer = anyio.Event()
        self._waiting = 0
        self._certificate = _certificate(cluster, operator, webhooks, is_leader)
        self._bundles = CABundles(
            cluster,
            targets,
            self._certificate,
            is_leader=is_leader,
            field_manager=f"{operator}-webhooks",
        )
        routes: dict[str, Callable[[bytes, float | None], Awaitable[Answer]]] = {
            path: partial(self._when_synced, reviews.answer)
            for path, reviews in hooks.reviews().items()
        }
        if convert is not None:
            routes[CONVERSION_PATH] = partial(_converted, convert)
        self._server = WebhookServer(
            routes,
            context=self._certificate.context,
            host=webhooks.host,
            port=webhooks.listening_port,
            limits={CONVERSION_PATH: CONVERSION_BYTES},
            metrics=metrics,
        )
        self._was_started = self._is_listening = False
        self._open = AsyncExitStack()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._server.port

    @property
    def problems(self) -> Sequence[str]:
        """Why the API server cannot call the hooks, a line for each; for readiness."""
        if not (self._is_listening and self._server.is_accepting):
            return ("webhooks: not served", *self._certificate.problems)
        return self._certificate.problems

    def answer_reviews(self) -> None:
        """Answer reviews from now on: the caches have synced."""
        self._can_answer.set()

    async def start(self) -> None:
        """Wait for a certificate, and listen.

        Raises:
            ConfigurationError: there is no certificate, or the port is in use.
            LifecycleError: it was started before.

        Cancellation:
            What was started is stopped.
        """
        if self._was_started:
            raise LifecycleError("webhooks were started before: get a new run from the operator")
        self._was_started = True
        try:
            await self._open.enter_async_context(self._certificate)
            await self._open.enter_async_context(self._bundles)
            await self._open.enter_async_context(self._server)
        except BaseException:
            await run_shielded("the end of webhooks", self._open.aclose())
            raise
        self._is_listening = True
        _log.info("webhooks: served on port %d", self._server.port)

    async def leave(self) -> None:
        """Become unready, and answer what still comes: before the caches are closed.

        Cancellation:
            Not safe; shield it. It takes five seconds in a pod, and elsewhere one at most.
        """
        if not self._is_listening:
            return
        self._is_listening = False
        if self._lingers:
            await self._server.drain(_LINGER_SECONDS, is_until_idle=False)
        await self._server.drain(_DRAIN_SECONDS, is_until_idle=True)

    async def aclose(self) -> None:
        """Close everything; a second call only waits.

        Cancellation:
            Takes effect when everything has ended.
        """
        self._is_listening = False
        await self._open.aclose()

    async def _when_synced(
        self,
        answer: Callable[..., Awaitable[Answer]],
        body: bytes,
        timeout_seconds: float | None,
    ) -> Answer:
        if not self._can_answer.is_set() and self._waiting < _MOST_WAITING:
            limit = timeout_seconds or _LONGEST_WAIT_SECONDS
            self._waiting += 1
            try:
                with anyio.move_on_after(_SHARE_OF_TIME * limit):
                    await self._can_answer.wait()
            finally:
                self._waiting -= 1
        if not self._can_answer.is_set():
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, "the caches have not synced yet")
        answering = answer(body, timeout_seconds=timeout_seconds)
        del body  # it is dropped when it is decoded
        return await answering


async def _converted(convert: _Conversion, body: bytes, _: float | None) -> Answer:
    if len(body) < _LARGE_BYTES:
        return convert(body)
    return await anyio.to_thread.run_sync(convert, body)  # it would block the loop


def _certificate(
    cluster: Cluster, operator: str, webhooks: Webhooks, is_leader: Callable[[], bool]
) -> ServingCertificate:
    if webhooks.folder is not None:
        return FolderCertificate(webhooks.folder, webhooks.names, client_ca=webhooks.client_ca)
    namespace, name = secret_of(webhooks, operator, cluster.config.namespace)
    return SelfSignedCertificate(
        cluster,
        namespace,
        name,
        webhooks.names,
        is_leader=is_leader,
        client_ca=webhooks.client_ca,
    )
