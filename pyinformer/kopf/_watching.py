"""kopf's `infinite_watch` on pyinformer, with plain kopf behind it.

A fault of ours never ends an operator: its stream continues on plain kopf.
"""

from __future__ import annotations

import os
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from kopf._cogs.clients import errors
from kopf._cogs.structs import credentials

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import error_text, trace_text
from pyinformer.kopf._operators import current_operator, is_refused, operator_of
from pyinformer.kopf._options import why_plain
from pyinformer.kopf._repeated_requests import IN_STREAM
from pyinformer.kopf._settings import reflector_options, warn_of_replaced
from pyinformer.kopf._stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from kopf._cogs.aiokits.aiotoggles import ToggleSet
    from kopf._cogs.clients.watching import Bookmark
    from kopf._cogs.configs.configuration import OperatorSettings
    from kopf._cogs.structs.bodies import RawEvent
    from kopf._cogs.structs.references import Namespace, Resource

    from pyinformer.kopf._operators import KopfOperator
    from pyinformer.kopf._options import Options

    Watch = Callable[..., AsyncIterator[Bookmark | RawEvent]]

_log = get_logger(__name__)


def watch_hook(original: Watch, options: Options) -> Watch:
    """Return kopf's watch stream on pyinformer.

    Args:
        original: kopf's.
        options: which streams it is for.
    """

    async def infinite_watch(
        *,
        settings: OperatorSettings,
        resource: Resource,
        namespace: Namespace,
        operator_paused: ToggleSet | None = None,
        _iterations: int | None = None,
    ) -> AsyncIterator[Bookmark | RawEvent]:
        """Yield the events of a resource; see kopf's function."""
        if _iterations is None:
            async with aclosing(
                _ours(options, settings, resource, namespace, operator_paused)
            ) as events:
                async for event in events:
                    yield event
        IN_STREAM.set(True)
        with _counted_as_plain():
            async for event in original(
                settings=settings,
                resource=resource,
                namespace=namespace,
                operator_paused=operator_paused,
                _iterations=_iterations,
            ):
                yield event

    return infinite_watch


@contextmanager
def _counted_as_plain() -> Iterator[None]:
    operator = current_operator()
    if operator is None:
        yield
        return
    operator.plain += 1
    try:
        yield
    finally:
        operator.plain -= 1


async def _ours(
    options: Options,
    settings: OperatorSettings,
    resource: Resource,
    namespace: Namespace,
    paused: ToggleSet | None,
) -> AsyncGenerator[Bookmark | RawEvent, None]:
    """Yield the events of a stream, until it has to continue on plain kopf."""
    if is_refused():
        _leave_to_kopf(resource, "pyinformer could not be put into the operator; see its log")
        return
    try:
        operator = operator_of(settings)
        stream = _new_stream(operator, options, settings, resource, namespace, paused=paused)
    except Exception as error:  # noqa: BLE001 - a fault of ours must not end the operator
        _log.error("the stream of %s runs on plain kopf: %s", resource, error_text(error))
        _leave_to_kopf(resource, f"it has failed: {error_text(error)}")
        return
    if stream is None:
        return
    operator.begin(stream)
    try:
        async with aclosing(stream.events()) as events:
            async for event in events:
                yield event
    except (errors.APIError, credentials.LoginError):
        raise
    except Exception as error:  # noqa: BLE001 - as above
        _log.error("the stream of %s continues on plain kopf: %s", stream.name, error_text(error))
        _log.debug("the stream of %s failed:\n%s", stream.name, trace_text(error))
        _leave_to_kopf(resource, f"it has failed: {error_text(error)}")
        for event in stream.missed_deletions():
            yield event
    finally:
        operator.end(stream)


def _leave_to_kopf(resource: Resource, why: str) -> None:
    operator = current_operator()
    if operator is not None:
        operator.caches.leave_to_kopf(resource, why)


def _new_stream(
    operator: KopfOperator,
    options: Options,
    settings: OperatorSettings,
    resource: Resource,
    namespace: Namespace,
    *,
    paused: ToggleSet | None,
) -> Stream | None:
    """Return a stream, or None if it has to be plain kopf.

    Raises:
        InvalidArgumentError: a setting cannot work.
    """
    if reason := why_plain(options, resource, os.environ, settings):
        where = namespace or "all namespaces"
        _log.info("the stream of %s in %s is plain kopf: %s", resource, where, reason)
        operator.caches.leave_to_kopf(resource, reason)
        return None
    reflector_options(settings, operator.rng)  # raises before the stream has begun
    warn_of_replaced(settings, operator.warned)
    # A stream that is never paused observes CRDs, whose bodies kopf needs, or namespaces and
    # peerings, of which there are few.
    wanted = operator.needs_bodies(resource) if options.bodies is None else options.bodies
    return Stream(
        operator,
        settings=settings,
        resource=resource,
        namespace=namespace,
        paused=paused,
        keeps_bodies=paused is None or wanted,
        stays_warm=options.warm_while_paused,
    )
