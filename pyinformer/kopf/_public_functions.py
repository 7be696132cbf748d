"""The public functions of this package, which can be imported with any version of kopf.

Modules that import the internals of kopf are imported when a function is called: an operator must
start on plain kopf if the hooks do not fit.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.errors import ConfigurationError
from pyinformer.kopf._listers import NO_INDEXES
from pyinformer.kopf._options import Options, resource_names

if TYPE_CHECKING:
    from pyinformer.cache.store import IndexFunction, Lister

_log = get_logger(__name__)


def install(
    *,
    only: Collection[str] = (),
    exclude: Collection[str] = (),
    bodies: bool | None = None,
    warm_while_paused: bool = False,
    strict: bool = False,
) -> None:
    """Run the watch streams of every kopf operator of this process on pyinformer.

    Call it once, before the operator starts: at the top of the file of handlers, or before
    `kopf.run()`. If this version of kopf is unknown, it logs a warning and changes nothing.

    The environment variable `PYINFORMER_KOPF=off`, or `settings.pyinformer = False` in a startup
    handler, keeps everything that begins afterwards on plain kopf.

    Args:
        only: the resources for pyinformer, such as `["pods", "deployments.apps"]`; empty for all.
        exclude: the resources whose streams, keep-alive and fetches stay plain kopf.
        bodies: keep the objects of every stream of handlers, or of none. None: of the resources
            with handlers for events, daemons and timers, and of those with listers. A missed
            deletion of an object that is not kept is reported with its identity alone.
        warm_while_paused: keep following the server while peers pause the operator, so that
            listers stay current; for streams that keep bodies.
        strict: raise instead of running on plain kopf, if the hooks cannot be put in.

    Raises:
        InvalidArgumentError: the arguments contradict each other.
        LifecycleError: it was called before, or an operator is running already.
        ConfigurationError: this version of kopf is unknown, and `strict` is set.
    """
    options = Options(
        only=resource_names("only", only),
        exclude=resource_names("exclude", exclude),
        bodies=bodies,
        warm_while_paused=warm_while_paused,
    )
    try:
        from pyinformer.kopf._installation import put_in
    except (ImportError, AttributeError) as error:  # another kopf, or none
        problem = f"its internal modules have changed ({error}): install a newer pyinformer"
        if strict:
            raise ConfigurationError("kopf", problem) from error
        _log.warning("kopf runs unchanged, without pyinformer: %s", problem)
        return
    put_in(options, strict=strict)


def uninstall() -> None:
    """Restore kopf as it was; streams that run stay as they are until they end.

    The probe and `memo.informers` are removed at once, so call it when no operator runs.

    A call without an earlier `install` does nothing.
    """
    if "pyinformer.kopf._installation" in sys.modules:
        from pyinformer.kopf._installation import take_out

        take_out()


def lister(
    api_version: str,
    resource: str,
    *,
    indexes: Mapping[str, str | IndexFunction] = NO_INDEXES,
) -> Lister[None]:
    """Return the lister of a resource that the current operator watches; see `Informers.lister`.

    Raises:
        LifecycleError: it is called outside of an operator, or install() was not called.
    """
    from pyinformer.kopf._operators import operator_for_handlers

    return operator_for_handlers().informers.lister(api_version, resource, indexes=indexes)
