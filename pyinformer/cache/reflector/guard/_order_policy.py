"""Which orders of resource versions a guard may fall back to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from pyinformer._runtime.escaping_loggers import get_logger

if TYPE_CHECKING:
    from pyinformer.cache.reflector.guard._guard import Guard
    from pyinformer.objects import DiagnosticJournal, GroupVersionResource

_log = get_logger(__name__)


@final
class OrderPolicy:
    """Relaxes the order of one guard where a server proves to have a weaker one.

    Args:
        guard: uses the order.
        resource: its name in logs.
        journal: where each change is written.
        may_relax: whether the resource may belong to an aggregated API, and no order was chosen.
    """

    def __init__(
        self,
        guard: Guard,
        resource: GroupVersionResource,
        journal: DiagnosticJournal,
        *,
        may_relax: bool,
    ) -> None:
        self._guard = guard
        self._resource = resource
        self._journal = journal
        self._may_relax = may_relax

    def relax(self, order: Literal["per_object", "opaque"]) -> bool:
        """Compare versions less strictly from now on, if that is allowed; return whether it is."""
        guard = self._guard
        allowed = self._may_relax
        if order == "per_object":
            allowed = allowed and guard.sees_no_order()
        if allowed:
            self._journal.note(f"resource versions are compared by the order {order} from now on")
            guard.use_order(order)
        elif order == "per_object" and not guard.ignores_old_bookmarks:
            guard.ignores_old_bookmarks = True
            self._journal.note("the server breaks the order of resource versions")
            _log.error(
                "%s: the server breaks the order of resource versions, even after a complete list."
                " What is cached is still served and is compared with the server now and then;"
                " changes may come late. Is an aggregated API server or a proxy at fault? If its"
                " versions are not ordered, set ReflectorOptions(order=...)",
                self._resource,
            )
        return allowed
