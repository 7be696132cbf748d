"""The start of an operator, what its liveness endpoint shows of the streams, and when it fails."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol, cast
from weakref import WeakKeyDictionary, WeakSet

import kopf

from pyinformer._runtime.escaping_loggers import get_logger, logger_named
from pyinformer._runtime.tasks import error_text
from pyinformer.errors import ConfigurationError
from pyinformer.kopf._index_gate import PERIOD_SECONDS, Gate
from pyinformer.kopf._listers import Informers
from pyinformer.kopf._operators import current_operator, refuse, register
from pyinformer.kopf._options import is_plain
from pyinformer.kopf._settings import patience_seconds

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from typing import Any

    from kopf._cogs.aiokits.aiotoggles import ToggleSet
    from kopf._cogs.configs.configuration import OperatorSettings
    from kopf._core.intents.registries import OperatorRegistry

    from pyinformer.kopf._operators import KopfOperator
    from pyinformer.kopf._options import Options

    class _Processor(Protocol):
        """kopf's processor of events: a partial function with its arguments."""

        @property
        def keywords(self) -> Mapping[str, object]:
            """The arguments."""
            ...


_log = get_logger(__name__)
PROBES: Final[logging.Logger] = logger_named("kopf.activities.probe")
"""Where kopf logs each probe."""
_ID: Final = "pyinformer"
_registries: Final[WeakSet[OperatorRegistry]] = WeakSet()  # those with the probe
_memos: Final[WeakKeyDictionary[Informers, weakref.ref[object]]] = WeakKeyDictionary()


def orchestrator_hook(
    original: Callable[..., Coroutine[Any, Any, None]], options: Options, *, strict: bool
) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return kopf's orchestrator, which records its operator before any stream begins.

    It is called in the context of the operator, before the tasks of the operator run.

    Args:
        original: kopf's.
        options: the arguments of `install`.
        strict: end an operator that cannot be recorded; otherwise it runs on plain kopf.
    """

    def orchestrator(
        *,
        processor: _Processor,
        settings: OperatorSettings,
        operator_paused: ToggleSet,
        **others: object,
    ) -> Coroutine[Any, Any, None]:
        arguments = {"settings": settings, "operator_paused": operator_paused, **others}
        arguments["processor"] = processor
        try:
            operator = _record(processor.keywords, settings, operator_paused)
        except Exception as error:  # noqa: BLE001 - the operator runs on plain kopf
            refuse()
            if strict and not is_plain(options, settings):
                return _fail(error)
            _log.error("the operator runs on plain kopf: %s", error_text(error))
            return original(**arguments)
        return _orchestrate(original, operator, arguments, options)

    return orchestrator


def _record(
    known: Mapping[str, object], settings: OperatorSettings, paused: ToggleSet
) -> KopfOperator:
    registry = cast("OperatorRegistry", known["registry"])
    operator = register(settings, registry)
    operator.gate.paused = paused
    memo = known["memobase"]
    if isinstance(getattr(memo, "informers", operator.informers), Informers):
        with suppress(AttributeError, TypeError):  # a memo of the user's may refuse attributes
            memo.informers = operator.informers  # type: ignore[attr-defined]  # any object
            _memos[operator.informers] = weakref.ref(memo)
    return operator


def take_back() -> None:
    """Remove what operators were given: the probe, and the listers of their memos."""
    for registry in list(_registries):
        handlers = registry._activities._handlers  # noqa: SLF001 - kopf's
        handlers[:] = [each for each in handlers if each.fn is not _probe]
    _registries.clear()
    for informers, reference in list(_memos.items()):
        memo = reference()
        if getattr(memo, "informers", None) is informers:
            del memo.informers  # type: ignore[attr-defined]  # it has the attribute
    _memos.clear()


async def _orchestrate(
    original: Callable[..., Coroutine[Any, Any, None]],
    operator: KopfOperator,
    arguments: dict[str, object],
    options: Options,
) -> None:
    """Run the operator, whose startup handlers have run: they may have switched pyinformer off."""
    if is_plain(options, operator.settings):
        await original(**arguments)
        return
    if operator.registry is not None:
        _add_probe(operator.registry)
    with _checked(operator.gate):
        await original(**arguments)


@contextmanager
def _checked(gate: Gate) -> Iterator[None]:
    """Check a gate in each period.

    A timer does it: an operator of kopf that ends cancels other tasks of its loop.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal timer
        timer = loop.call_later(PERIOD_SECONDS, check)
        gate.check()

    timer = loop.call_later(PERIOD_SECONDS, check)
    try:
        yield
    finally:
        timer.cancel()


async def _fail(error: Exception) -> None:
    """End the operator: kopf stops its other tasks in order."""
    raise ConfigurationError("kopf", "pyinformer cannot be put into this operator") from error


def _add_probe(registry: OperatorRegistry) -> None:
    handlers = registry._activities.get_all_handlers()  # noqa: SLF001 - kopf's
    if all(handler.fn is not _probe for handler in handlers):
        kopf.on.probe(id=_ID, registry=registry)(_probe)
        _registries.add(registry)


def is_noteworthy(record: logging.LogRecord) -> bool:
    """Return whether a log record of kopf's probes is to be shown.

    kopf logs the success of each probe; an operator without probes of its own had no such lines.
    """
    return not record.getMessage().startswith(f"Activity {_ID!r} succeeded")


async def _probe(**_: object) -> dict[str, int]:
    """Return counts of the operator's streams.

    Raises:
        PermanentError: kopf's: a stream or another request is refused, or handlers are blocked.

    Cancellation:
        Safe.
    """
    operator = current_operator()
    if operator is None:
        return {}
    if problems := _problems(operator, asyncio.get_running_loop().time()):
        raise kopf.PermanentError("; ".join(problems))
    return {
        "streams": len(operator.streams),
        "synced": sum(stream.has_listed for stream in operator.streams),
        "plain": operator.plain,
    }


def _problems(operator: KopfOperator, now: float) -> list[str]:
    patience = patience_seconds(operator.settings.networking)
    problems = [
        f"{stream.name}: {stream.last_error}"
        for stream in operator.streams
        if stream.refusal.lasts(patience, now)
    ]
    problems += operator.refused.lasting(now)
    if operator.gate.stuck:
        problems.append(f"the handlers wait for {', '.join(operator.gate.stuck)}")
    return problems
