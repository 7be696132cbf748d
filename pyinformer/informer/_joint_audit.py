"""Audits of several namespaces, told as one.

The members of an informer, one for each namespace, enter; one report leaves. It is as bad as the
worst of them: what differs anywhere differs, and what could not be found out somewhere is not
proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import anyio

from pyinformer.audit import AuditReport
from pyinformer.audit._consistency import Mismatches

if TYPE_CHECKING:
    from pyinformer.informer._namespace_cache import NamespaceCache

_KEPT: Final = 100  # keys of each kind, as in the report of one
_WORST_FIRST: Final = ("inconsistent", "inconclusive", "consistent")
_REPAIRS: Final = ("demanded", "withheld", "none")


async def audit_all(
    informer: str,
    members: Sequence[NamespaceCache[Any]],
    *,
    timeout_seconds: float,
    unknown: str = "",
) -> AuditReport:
    """Audit all namespaces at the same time; the cluster's budget spreads their lists.

    Args:
        informer: names it in the report.
        members: one for each namespace; one that ends meanwhile has no part in the report.
        timeout_seconds: how long each may take.
        unknown: why it is not known which namespaces to follow; nothing if it is.

    Cancellation:
        Safe; nothing is repaired after that.
    """
    found: list[AuditReport] = []

    async def audit(member: NamespaceCache[Any]) -> None:
        """Audit one namespace, and keep what is found."""
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_at_end, member, group.cancel_scope)
            found.append(await member.auditor.audit(timeout_seconds=timeout_seconds))
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for member in members:
            group.start_soon(audit, member)
    why = unknown or ("none of its namespaces is followed any more" if members else "")
    return joint_report(informer, found) or AuditReport(
        informer=informer,
        cause="asked for",
        verdict="inconclusive" if why else "consistent",
        position="",
        checked=0,
        reason=why,
    )


async def _cancel_at_end(member: NamespaceCache[Any], scope: anyio.CancelScope) -> None:
    await member.ended.wait()
    scope.cancel()


def joint_report(informer: str, reports: Sequence[AuditReport]) -> AuditReport | None:
    """Return what several audits have found, as one; None if there was none.

    Args:
        informer: names it in the report.
        reports: one for each namespace, or fewer.
    """
    if len(reports) <= 1:
        return reports[0] if reports else None
    reasons = [f"{one.informer}: {one.reason}" for one in reports if one.reason]
    return replace(
        reports[0],
        informer=informer,
        verdict=min((one.verdict for one in reports), key=_WORST_FIRST.index),
        position="",
        checked=sum(one.checked for one in reports),
        missing=_together([one.missing for one in reports]),
        phantom=_together([one.phantom for one in reports]),
        stale=_together([one.stale for one in reports]),
        repair=min((one.repair for one in reports), key=_REPAIRS.index),
        reason="; ".join(reasons),
        seconds=max(one.seconds for one in reports),
    )


def _together(mismatches: Sequence[Mismatches]) -> Mismatches:
    keys = chain.from_iterable(one.keys for one in mismatches)
    return Mismatches(sum(one.count for one in mismatches), tuple(keys)[:_KEPT])
