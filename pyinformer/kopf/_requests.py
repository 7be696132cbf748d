"""The three requests outside of streams whose failure ends a plain operator.

At the start they fail as in kopf, so that an operator without rights or without a server reports
it. Once they have worked they are repeated until they work again.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from kopf._cogs.clients import errors
from kopf._core.engines import peering

from pyinformer._logging import get_logger
from pyinformer.apimachinery import ExponentialBackoff
from pyinformer.kopf._operators import current_operator
from pyinformer.kopf._options import is_plain
from pyinformer.transport import network_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
    from typing import Any

    from kopf._cogs.configs.configuration import OperatorSettings
    from kopf._cogs.helpers.typedefs import Logger
    from kopf._cogs.structs.bodies import RawBody
    from kopf._cogs.structs.references import Namespace, Resource

    from pyinformer.kopf._options import Options

    KeepAlive = Callable[..., Coroutine[Any, Any, NoReturn]]
    Scan = Callable[..., Awaitable[Collection[Resource]]]
    Fetch = Callable[..., AsyncIterator[tuple[Collection[RawBody], str]]]

_T = TypeVar("_T")

_log = get_logger(__name__)

IN_STREAM: Final[ContextVar[bool]] = ContextVar("IN_STREAM", default=False)
"""Whether the task reads a stream of plain kopf, which has retries of its own."""


def keepalive_hook(original: KeepAlive, options: Options) -> KeepAlive:
    """Return a keep-alive for peers that is repeated until it works."""

    async def keepalive(
        *,
        namespace: Namespace,
        resource: Resource,
        identity: peering.Identity,
        settings: OperatorSettings,
    ) -> NoReturn:
        """Report that this operator is alive, until cancelled; see kopf's function."""
        send = original if is_plain(options, settings, resource) else _keepalive
        await send(namespace=namespace, resource=resource, identity=identity, settings=settings)

    return keepalive


async def _keepalive(
    *,
    namespace: Namespace,
    resource: Resource,
    identity: peering.Identity,
    settings: OperatorSettings,
) -> NoReturn:
    """Report to the peers that this operator is alive, until cancelled.

    Raises:
        APIError: kopf's: the first report has failed.

    Cancellation:
        The only way to end it afterwards; the peers are notified that the operator has ended.
    """

    async def touch(lifetime: int | None = None) -> None:
        """Report once; a lifetime of 0 seconds removes this operator."""
        await peering.touch(
            identity=identity,
            settings=settings,
            resource=resource,
            namespace=namespace,
            lifetime=lifetime,
        )

    try:
        await touch()
        while True:
            await asyncio.sleep(_period_seconds(settings.peering.lifetime))
            await _until_it_works("the keep-alive for the peers", touch)
    finally:
        await _leave(touch(lifetime=0))


def _period_seconds(lifetime_seconds: float) -> float:
    """Return when the next keep-alive is due: some seconds before the last one expires."""
    return max(1.0, lifetime_seconds - random.randint(5, 10))


async def _leave(farewell: Awaitable[None]) -> None:
    try:
        await asyncio.shield(farewell)
    except asyncio.CancelledError:
        pass
    except Exception as error:  # noqa: BLE001 - the operator ends in any case
        _log.warning("the peers could not be notified of the end of this operator: %s", error)


def scan_hook(original: Scan, options: Options) -> Scan:
    """Return a scan of the server's resources that is repeated until it works."""

    async def scan_resources(
        *, settings: OperatorSettings, logger: Logger, groups: Collection[str] | None = None
    ) -> Collection[Resource]:
        """Return the resources of these groups; see kopf's function."""

        def scan() -> Awaitable[Collection[Resource]]:
            """Scan once."""
            return original(settings=settings, logger=logger, groups=groups)

        operator = current_operator()
        if operator is None or is_plain(options, settings):
            return await scan()
        if operator.has_scanned:
            return await operator.scans.scan(
                groups, lambda: _until_it_works("the scan for resources", scan)
            )
        found = await scan()
        operator.has_scanned = True
        operator.noted.scanned(groups, found)
        return found

    return scan_resources


def fetch_hook(original: Fetch, options: Options) -> Fetch:
    """Return a list of objects that is repeated until it works, but for missing rights."""

    async def fetch_objs(
        *, settings: OperatorSettings, resource: Resource, namespace: Namespace, logger: Logger
    ) -> AsyncIterator[tuple[Collection[RawBody], str]]:
        """Yield the objects page by page; see kopf's function."""
        operator = None if is_plain(options, settings, resource) else current_operator()
        repeats = operator is not None and operator.has_scanned and not IN_STREAM.get()
        backoff = ExponentialBackoff()
        while True:
            try:
                async for chunk in original(
                    settings=settings, resource=resource, namespace=namespace, logger=logger
                ):
                    if operator is not None:
                        operator.noted.fetched(resource, chunk[0])
                    yield chunk
            except _transient() as error:
                if not repeats or isinstance(error, errors.APIForbiddenError):
                    raise
                await _pause(f"the list of {resource}", error, backoff)
            else:
                return

    return fetch_objs


async def _until_it_works(what: str, send: Callable[[], Awaitable[_T]]) -> _T:
    backoff = ExponentialBackoff()
    while True:
        try:
            return await send()
        except _transient() as error:
            await _pause(what, error, backoff)


async def _pause(what: str, error: Exception, backoff: ExponentialBackoff) -> None:
    seconds = backoff.next(asyncio.get_running_loop().time())
    _log.warning("%s has failed and is repeated in %.1f s: %s", what, seconds, error)
    await asyncio.sleep(seconds)


def _transient() -> tuple[type[Exception], ...]:
    """Return what may be over at the next attempt; the loss of all credentials is not among it."""
    return (errors.APIError, *network_errors())
