"""Install the hooks in kopf and remove them, after a check that this kopf has what they need.

All hooks are installed or none. Every use of the internals of kopf is checked in this place.
"""

from __future__ import annotations

import inspect
import os
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, NamedTuple

from kopf._cogs.aiokits.aiotoggles import ToggleSet
from kopf._cogs.clients import auth, errors, fetching, scanning, watching
from kopf._core.engines import peering
from kopf._core.reactor import orchestration

from pyinformer._runtime.call_site import call_site
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.errors import ConfigurationError, LifecycleError
from pyinformer.kopf import _ordered_toggles
from pyinformer.kopf._operator_supervision import (
    PROBES,
    is_noteworthy,
    orchestrator_hook,
    take_back,
)
from pyinformer.kopf._operators import current_operator
from pyinformer.kopf._options import Options, is_plain, why_off
from pyinformer.kopf._repeated_requests import fetch_hook, keepalive_hook, list_hook, scan_hook
from pyinformer.kopf._watching import watch_hook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.kopf._ordered_toggles import Method

_log = get_logger(__name__)

_OLDEST: Final = (1, 37)
_ORCHESTRATOR: Final = "orchestrator" if hasattr(orchestration, "orchestrator") else "ochestrator"
"""Its name before kopf 1.39 lacked a letter."""
_IS_CHUNKED: Final = hasattr(fetching, "fetch_objs")
"""Whether kopf lists page by page; before 1.45 it lists at once."""


class _Used(NamedTuple):
    """A function of kopf's that is replaced or called."""

    owner: object
    name: str
    parameters: frozenset[str]


def _used(owner: object, name: str, parameters: str = "") -> _Used:
    return _Used(owner, name, frozenset(parameters.split()))


_REPLACED: Final = (
    _used(watching, "infinite_watch", "settings resource namespace operator_paused _iterations"),
    _used(ToggleSet, "make_toggle", "self name"),
    _used(ToggleSet, "drop_toggle", "self toggle"),
    _used(ToggleSet, "drop_toggles", "self toggles"),
    _used(orchestration, _ORCHESTRATOR, "processor settings identity insights operator_paused"),
    _used(peering, "keepalive", "namespace resource identity settings"),
    _used(scanning, "scan_resources", "settings logger groups"),
    _used(
        fetching,
        "fetch_objs" if _IS_CHUNKED else "list_objs",
        "settings resource namespace logger",
    ),
)
_CALLED: Final = (
    _used(watching, "streaming_block", "resource namespace operator_paused"),
    _used(peering, "touch", "identity settings resource namespace lifetime"),
    _used(auth, "authenticated", "fn"),
    _used(errors.APIForbiddenError, "__init__", "payload status"),
)

_lock: Final = threading.Lock()
_originals: Final[dict[tuple[object, str], object]] = {}
_installed_at: Final[list[str]] = []


def put_in(options: Options, *, strict: bool) -> None:
    """Put the hooks into kopf; see `install`."""
    with _lock:
        _check_lifecycle()
        if problem := _problem_of_kopf():
            if strict:
                raise ConfigurationError("kopf", problem)
            _log.warning("kopf runs unchanged, without pyinformer: %s", problem)
            return
        _replace(_replacements(options, strict=strict))
        PROBES.addFilter(is_noteworthy)
        _installed_at.append(call_site())
    if reason := why_off(os.environ):
        _log.info("kopf runs unchanged, without pyinformer: %s", reason)
    else:
        _log.info("the watch streams of kopf %s run on pyinformer", version("kopf"))


def take_out() -> None:
    """Restore kopf; see `uninstall`."""
    with _lock:
        for (owner, name), original in _originals.items():
            setattr(owner, name, original)
        _originals.clear()
        was_installed = bool(_installed_at)
        _installed_at.clear()
        PROBES.removeFilter(is_noteworthy)
        take_back()
    if was_installed:
        _log.info("kopf is restored: streams that begin from now on are plain kopf")


def _check_lifecycle() -> None:
    if _installed_at:
        reason = f"pyinformer.kopf is installed already, by {_installed_at[0]}"
        raise LifecycleError(f"{reason}: remove one of the calls, or call uninstall() first")
    if auth.vault_var.get(None) is not None:
        reason = "install() was called in the task of an operator, whose streams may have begun"
        raise LifecycleError(f"{reason}: call it at the top of the module, before kopf starts")


def _problem_of_kopf() -> str:
    """Return why the hooks cannot be put into this kopf; empty if they can."""
    try:
        found = version("kopf")
    except PackageNotFoundError:
        return "its version is unknown: install the package kopf"
    try:
        parts = tuple(int(part) for part in found.split(".")[:2])
    except ValueError:
        return f"version {found} is unknown: install kopf 1.37.0 or newer"
    if parts < _OLDEST:
        return f"version {found} is too old: install kopf 1.37.0 or newer"
    missing = list(_missing())
    if not missing:
        return ""
    return f"version {found} has changed {', '.join(missing)}: install a newer pyinformer"


def _missing() -> Iterator[str]:
    """Yield what this kopf lacks."""
    for one in (*_REPLACED, *_CALLED):
        function = getattr(one.owner, one.name, None)
        found = set(inspect.signature(function).parameters) if callable(function) else set()
        if not callable(function) or not one.parameters <= found:
            yield f"{getattr(one.owner, '__name__', one.owner)}.{one.name}"
    toggles = ToggleSet(all)
    if not all(hasattr(toggles, name) for name in ("_condition", "_fn", "_toggles")):
        yield "ToggleSet"
    for owner, name in ((auth, "vault_var"), (watching.Bookmark, "LISTED")):
        if not hasattr(owner, name):
            yield name


def _replacements(options: Options, *, strict: bool) -> tuple[object, ...]:
    """Return what replaces each of `_REPLACED`, in that order."""
    return (
        watch_hook(watching.infinite_watch, options),
        _unless_off(ToggleSet.make_toggle, _ordered_toggles.make_toggle, options),
        _unless_off(ToggleSet.drop_toggle, _ordered_toggles.drop_toggle, options),
        _unless_off(ToggleSet.drop_toggles, _ordered_toggles.drop_toggles, options),
        orchestrator_hook(getattr(orchestration, _ORCHESTRATOR), options, strict=strict),
        keepalive_hook(peering.keepalive, options),
        scan_hook(scanning.scan_resources, options),
        fetch_hook(fetching.fetch_objs, options)
        if _IS_CHUNKED
        else list_hook(getattr(fetching, "list_objs"), options),  # noqa: B009 - of an older kopf
    )


def _unless_off(original: Method, ours: Method, options: Options) -> Method:
    """Return a method that is kopf's own while pyinformer is switched off."""

    async def method(*arguments: object, **named: object) -> object:
        """Change the toggles; see kopf's method."""
        operator = current_operator()
        is_off = is_plain(options, None if operator is None else operator.settings)
        return await (original if is_off else ours)(*arguments, **named)

    return method


def _replace(replacements: tuple[object, ...]) -> None:
    for one, replacement in zip(_REPLACED, replacements, strict=True):
        _originals[one.owner, one.name] = getattr(one.owner, one.name)
        setattr(one.owner, one.name, replacement)
