"""The three requests outside of streams whose failure ends a plain operator.

At the start they fail as in kopf, so that an operator without rights or without a server reports
it. Once they have worked they are repeated until they work again.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Self, TypeVar, final

from kopf._cogs.clients import errors
from kopf._core.engines import peering

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.transport import network_errors
from pyinformer.kopf._operators import current_operator
from pyinformer.kopf._options import is_plain
from pyinformer.kopf._settings import patience_seconds
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
    from typing import Any

    from kopf._cogs.configs.configuration import OperatorSettings
    from kopf._cogs.helpers.typedefs import Logger
    from kopf._cogs.structs.bodies import RawBody
    from kopf._cogs.structs.references import Namespace, Resource

    from pyinformer.kopf._operators import KopfOperator
    from pyinformer.kopf._options import Options

    KeepAlive = Callable[..., Coroutine[Any, Any, NoReturn]]
    Scan = Callable[..., Awaitable[Collection[Resource]]]
    Fetch = Callable[..., AsyncIterator[tuple[Collection[RawBody], str]]]
    ListObjects = Callable[..., Awaitable[tuple[Collection[RawBody], str]]]

_T = TypeVar("_T")
_TOO_MANY: Final = 429  # kopf has a class for it from 1.42 on
_KEEP_ALIVE: Final = "the keep-alive for the peers"

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
        operator = current_operator()
        if operator is None or is_plain(options, settings, resource):
            await original(
                namespace=namespace, resource=resource, identity=identity, settings=settings
            )
        touch = partial(
            peering.touch,
            identity=identity,
            settings=settings,
            resource=resource,
            namespace=namespace,
        )
        await _keep_alive(operator, touch)

    return keepalive


async def _keep_alive(operator: KopfOperator, touch: Callable[..., Awaitable[None]]) -> NoReturn:
    """Report that an operator is alive, until cancelled.

    Args:
        operator: the operator.
        touch: reports once; a `lifetime` of 0 seconds removes the operator.
    """
    try:
        if operator.has_touched:
            await _until_it_works(operator, _KEEP_ALIVE, touch)
        else:
            await touch()
            operator.has_touched = True
        while True:
            await asyncio.sleep(_period_seconds(operator.settings.peering.lifetime))
            await _until_it_works(operator, _KEEP_ALIVE, touch)
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

        async def scan_again(operator: KopfOperator) -> Collection[Resource]:
            """Scan until it works, and later again for what is defined and was not found."""
            found = await _until_it_works(operator, "the scan for resources", scan)
            operator.rescans.on_scan(groups, found)
            return found

        operator = current_operator()
        if operator is None or is_plain(options, settings):
            return await scan()
        if operator.has_scanned:
            return await operator.scans.scan(groups, lambda: scan_again(operator))
        found = await scan()
        operator.has_scanned = True
        operator.initial_scan.on_scan(groups, found)
        return found

    return scan_resources


def fetch_hook(original: Fetch, options: Options) -> Fetch:
    """Return a list of objects that is repeated until it works, but for missing rights."""

    async def fetch_objs(
        *, settings: OperatorSettings, resource: Resource, namespace: Namespace, logger: Logger
    ) -> AsyncIterator[tuple[Collection[RawBody], str]]:
        """Yield the objects page by page; see kopf's function."""

        def fetch() -> AsyncIterator[tuple[Collection[RawBody], str]]:
            """Fetch once."""
            return original(
                settings=settings, resource=resource, namespace=namespace, logger=logger
            )

        operator = current_operator()
        if operator is None or IN_STREAM.get() or is_plain(options, settings, resource):
            async for chunk in fetch():
                yield chunk
            return
        with _Repeated(operator, f"the list of {resource}") as request:
            while True:
                try:
                    async for chunk in fetch():
                        operator.initial_scan.on_fetch(resource, chunk[0])
                        yield chunk
                except _transient() as error:
                    if not operator.has_fetched or isinstance(error, errors.APIForbiddenError):
                        raise
                    await request.pause(error)
                else:
                    operator.has_fetched = True
                    return

    return fetch_objs


def list_hook(original: ListObjects, options: Options) -> ListObjects:
    """Return a list of objects, of kopf before 1.45, that is repeated as that of `fetch_hook`."""

    async def fetch(
        *, settings: OperatorSettings, resource: Resource, namespace: Namespace, logger: Logger
    ) -> AsyncIterator[tuple[Collection[RawBody], str]]:
        """Yield the list as one page, as the function of later versions does."""
        yield await original(
            settings=settings, resource=resource, namespace=namespace, logger=logger
        )

    repeated = fetch_hook(fetch, options)

    async def list_objs(
        *, settings: OperatorSettings, resource: Resource, namespace: Namespace, logger: Logger
    ) -> tuple[Collection[RawBody], str]:
        """Return the objects; see kopf's function."""
        async for listed in repeated(
            settings=settings, resource=resource, namespace=namespace, logger=logger
        ):
            found = listed
        return found

    return list_objs


async def _until_it_works(
    operator: KopfOperator, what: str, send: Callable[[], Awaitable[_T]]
) -> _T:
    with _Repeated(operator, what) as request:
        while True:
            try:
                return await send()
            except _transient() as error:
                await request.pause(error)


@final
class _Repeated:
    """A request that is repeated until it works or is not wanted any more.

    A 4xx other than 429 turns the liveness endpoint red after the time for which kopf repeats a
    request. A 403 does so at once, since kopf has repeated it for that time already.

    Args:
        operator: the operator that sends it.
        what: the request, for people.
    """

    def __init__(self, operator: KopfOperator, what: str) -> None:
        self._operator = operator
        self._what = what
        self._backoff = ExponentialBackoff()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.refused.remove(self)

    async def pause(self, error: Exception) -> None:
        """Wait before the next attempt."""
        now = asyncio.get_running_loop().time()
        self._record(error, now)
        seconds = self._backoff.next(now)
        _log.warning("%s has failed and is repeated in %.1f s: %s", self._what, seconds, error)
        await asyncio.sleep(seconds)

    def _record(self, error: Exception, now: float) -> None:
        refused = self._operator.refused
        is_busy = isinstance(error, errors.APIError) and error.status == _TOO_MANY
        if is_busy or not isinstance(error, errors.APIClientError):
            refused.remove(self)
            return
        has_lasted = isinstance(error, errors.APIForbiddenError)
        patience = patience_seconds(self._operator.settings.networking)
        text = f"{self._what}: {error.status} {error.message or ''}".rstrip()
        refused.add(self, text, now if has_lasted else now + patience)


def _transient() -> tuple[type[Exception], ...]:
    """Return the errors after which a request is repeated: all but the loss of all credentials."""
    return (errors.APIError, *network_errors())
