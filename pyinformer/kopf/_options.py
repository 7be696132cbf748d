"""The arguments of `install`, the streams that they select, and the switch to plain kopf."""

# Pure: it knows no event loop.

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.tasks import means_off
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kopf._cogs.structs.references import Resource

SWITCH: Final = "PYINFORMER_KOPF"
"""The environment variable that keeps everything on plain kopf."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of `install`, which documents them."""

    only: frozenset[str]
    exclude: frozenset[str]
    bodies: bool | None
    warm_while_paused: bool

    def __post_init__(self) -> None:
        """Raise InvalidArgumentError for values that contradict each other."""
        if both := self.only & self.exclude:
            reason = f"must not name what only= names, got {min(both)!r} in both"
            raise InvalidArgumentError("exclude", reason)
        check_flag("warm_while_paused", self.warm_while_paused)
        if self.bodies is not None:
            check_flag("bodies", self.bodies)
        if self.warm_while_paused and self.bodies is False:
            reason = "needs bodies: leave out bodies=False, or warm_while_paused=True"
            raise InvalidArgumentError("warm_while_paused", reason)


def resource_names(argument: str, given: Collection[str]) -> frozenset[str]:
    """Return names of resources, each `plural` or `plural.group`, such as `deployments.apps`.

    Raises:
        InvalidArgumentError: they are something else.
    """
    if isinstance(given, str) or not isinstance(given, Collection):
        reason = f"must be a list of resources such as ['pods', 'deployments.apps'], got {given!r}"
        raise InvalidArgumentError(argument, reason)
    for name in given:
        if not isinstance(name, str) or not name or "/" in name:
            reason = f"must have names such as 'pods' or 'deployments.apps', got {name!r}"
            raise InvalidArgumentError(argument, reason)
    return frozenset(given)


def why_plain(
    options: Options, resource: Resource, environ: Mapping[str, str], settings: object
) -> str:
    """Return why a stream that starts now has to be plain kopf; empty if it need not.

    Args:
        options: the arguments of `install`.
        resource: what the stream watches.
        environ: the environment of the process.
        settings: the operator's; its attribute `pyinformer` may be False.

    Raises:
        InvalidArgumentError: `settings.pyinformer` is not a bool.
    """
    if reason := why_off(environ, settings):
        return reason
    names = {resource.plural, f"{resource.plural}.{resource.group}".rstrip(".")}
    if options.only and not names & options.only:
        return "install(only=...) does not name it"
    return "install(exclude=...) names it" if names & options.exclude else ""


def is_plain(options: Options, settings: object, resource: Resource | None = None) -> bool:
    """Return whether what begins now, and is not a stream, has to be kopf's own.

    Args:
        options: the arguments of `install`.
        settings: the operator's; None if there is no operator.
        resource: the resource that it is about; None if it is about the whole operator.
    """
    try:
        if resource is None:
            return why_off(os.environ, settings) != ""
        return why_plain(options, resource, os.environ, settings) != ""
    except InvalidArgumentError:  # each stream logs it and is plain kopf
        return True


def why_off(environ: Mapping[str, str], settings: object = None) -> str:
    """Return why all that begins now has to be kopf's own; empty if it need not.

    Raises:
        InvalidArgumentError: `settings.pyinformer` is not a bool.
    """
    if means_off(environ.get(SWITCH, "")):
        return f"the environment has {SWITCH}={environ[SWITCH]}"
    wanted = getattr(settings, "pyinformer", True)
    check_flag("settings.pyinformer", wanted)
    return "" if wanted else "settings.pyinformer is False"
