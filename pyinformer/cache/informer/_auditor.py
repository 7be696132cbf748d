"""Audits: comparing a cache with what the server had at the cache's own resource version.

While the watch runs, the cache and its position are read in one step. Then the server lists the
identities of exactly that version, in pages. Differences are named, counted and repaired by one
complete list. An audit without an answer has no verdict and repairs nothing. A repair that did not
help is not repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import spread, start_from_anywhere
from pyinformer.cache.audit import AuditReport, Comparison, Difference, Mismatches
from pyinformer.cache.informer._listed_identities import IdentityList
from pyinformer.cache.reflector import Counts, ReflectorOptions, ReflectorState
from pyinformer.errors import InformerError, ResourceExpiredError, ResourceVersionTooLargeError
from pyinformer.objects import ExponentialBackoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from anyio.abc import TaskGroup

    from pyinformer.cache.reflector import ListingSlot, Reflector, RequestBudget
    from pyinformer.cache.store import Indexer
    from pyinformer.client.transport import ListWatch
    from pyinformer.objects import DiagnosticJournal, KubeObject

_log = get_logger(__name__)

_PAGE_SIZE: Final = 500  # if loads have no pages (`page_size=0`): audits always have
_SLICE: Final = 512  # objects in each step of a copy
_LONGEST_SECONDS: Final = 600.0  # of a periodic audit: two lifetimes of a page's token
_SETTLE_SECONDS: Final = 1.0  # objects can share a version: the rest of a batch arrives within that
_CONFIRM_SECONDS: Final = 20.0  # two short watches and two lists take half of it
_POLL_SECONDS: Final = 0.05  # between two checks whether the position has moved
_CALM_SECONDS: Final = (1.0, 3.0)  # after a suspicion: a new watch first brings missed events
_SPACING_SECONDS: Final = 30.0  # between audits that are forced
_ATTEMPTS: Final = 5  # of a forced audit that is inconclusive
_ASKED_FOR: Final = "asked for"  # by the program, which decides how often
_REPAIRS: Final = 3  # of audits that no program asked for
_REPAIRS_WINDOW_SECONDS: Final = 600.0
_HOPELESS: Final = frozenset(  # states that do not end while a caller waits
    {ReflectorState.ABSENT, ReflectorState.FORBIDDEN, ReflectorState.FAILED}
)
_FORGET_AT: Final = 1000  # differences that no list cured
_KEPT_KEYS: Final = 100  # of each kind, as in the report of one namespace
_VERDICTS_WORST_FIRST: Final = ("inconsistent", "inconclusive", "consistent")
_REPAIRS_WORST_FIRST: Final = ("demanded", "withheld", "none")


@final
class Auditor:
    """Compares one cache with its server.

    Args:
        informer: names it in reports and logs.
        list_watch: what it follows.
        indexer: its cache.
        reflector: fills the cache.
        request_budget: the cluster's budget for lists.
        options: have the page size and the random numbers.
        journal: records every audit that is not consistent.
        period_seconds: the mean time between periodic audits; 0 for none.
    """

    def __init__(
        self,
        informer: str,
        list_watch: ListWatch,
        indexer: Indexer[Any],
        *,
        reflector: Reflector[Any],
        request_budget: RequestBudget,
        options: ReflectorOptions | None = None,
        journal: DiagnosticJournal | None = None,
        period_seconds: float = 0.0,
    ) -> None:
        options = options or ReflectorOptions()
        self.last_report: AuditReport | None = None
        """The newest report, of any audit."""
        self.counts: Counts = Counts()
        """How many audits had which verdict, and the differences of each kind."""
        self._informer = informer
        self._list_watch = list_watch
        self._indexer = indexer
        self._reflector = reflector
        self._request_budget = request_budget
        self._page_size = options.page_size or _PAGE_SIZE
        self._rng = options.rng
        self._journal = journal
        self._period = period_seconds
        self._group: TaskGroup | None = None
        self._is_running = False
        self._changed = asyncio.Event()
        self._suspected = asyncio.Event()
        self._suspicion = ""
        self._repairs: deque[float] = deque(maxlen=_REPAIRS)
        self._uncured: set[Difference] = set()
        self._was_inconclusive = False

    def on_state_change(self) -> None:
        """Record that the reflector's state has changed."""
        self._changed.set()

    def suspect_nowait(self, reason: str) -> None:
        """Audit the cache once, soon, because of an anomaly."""
        self._suspicion = reason
        self._suspected.set()
        self._start_nowait()

    def begin_nowait(self, group: TaskGroup) -> None:
        """Audit in a task of this group when it is due, and after suspicions."""
        self._group = group
        if self._period or self._suspected.is_set():
            self._start_nowait()

    def _start_nowait(self) -> None:
        """Start the task, unless it runs; most caches are never suspected."""
        group = self._group
        if group is not None and not (self._is_running or group.cancel_scope.cancel_called):
            self._is_running = True
            start_from_anywhere(group, self._run)

    async def _run(self) -> None:
        while True:
            cause = await self._wait_due()
            if cause:
                await self._retry_audit(cause)
                await anyio.sleep(_SPACING_SECONDS)
            else:
                await self._audit_in_background("due")

    async def _wait_due(self) -> str:
        """Wait until an audit is due; return the suspicion, empty if the period is over."""
        if self._period:
            with anyio.move_on_after(self._period * self._rng.uniform(0.5, 1.5)) as due:
                await self._suspected.wait()
            if due.cancelled_caught:
                return ""
        else:
            await self._suspected.wait()
        await anyio.sleep(self._rng.uniform(*_CALM_SECONDS))
        self._suspected = asyncio.Event()
        return self._suspicion

    async def _retry_audit(self, cause: str) -> None:
        backoff = ExponentialBackoff(rng=self._rng)
        now = asyncio.get_running_loop().time
        for _ in range(_ATTEMPTS):
            report = await self._audit_in_background(cause)
            if report.verdict != "inconclusive" or report.repair != "none":
                return
            await anyio.sleep(backoff.next(now()))

    async def _audit_in_background(self, cause: str) -> AuditReport:
        report = await self.audit(cause, timeout_seconds=_LONGEST_SECONDS, is_patient=True)
        is_inconclusive = report.verdict == "inconclusive"
        if is_inconclusive and not self._was_inconclusive:
            _log.warning("%s", report, extra={"informer": self._informer})
        self._was_inconclusive = is_inconclusive
        return report

    async def audit(
        self, cause: str = _ASKED_FOR, *, timeout_seconds: float, is_patient: bool = False
    ) -> AuditReport:
        """Compare the cache with the server now, or as soon as the watch runs.

        Args:
            cause: why.
            timeout_seconds: how long it may take.
            is_patient: wait for the watch even in a state that only a change on the server ends.

        Returns:
            What was found; inconclusive if there was no answer in time.

        Cancellation:
            Safe; the request is dropped, and nothing is repaired.
        """
        started = asyncio.get_running_loop().time()
        report: AuditReport | None = None
        with anyio.move_on_after(timeout_seconds):
            report = await self._audit(cause, is_patient=is_patient)
        if report is None:
            state = self._reflector.state.value
            reason = f"not within {timeout_seconds:g} s; the informer is {state}"
            report = self._inconclusive(cause, reason)
        seconds = asyncio.get_running_loop().time() - started
        return self._keep(replace(report, seconds=seconds))

    async def _audit(self, cause: str, *, is_patient: bool) -> AuditReport:
        if hopeless := await self._wait_watching(is_patient=is_patient):
            return self._inconclusive(cause, hopeless)
        # One step: the position, and the objects that it says are in the cache. A list is copied in
        # a fraction of the time of a dict, and objects never change.
        position, loads = self._reflector.position, self._reflector.status().loads
        records = self._indexer.list()
        comparison = Comparison(await self._by_key(records), position)
        failed = await self._list_identities(comparison, cause, position)
        if failed is not None:
            return failed
        if comparison.found_any:
            await self._settle(comparison, position)
        if comparison.named and self._reflector.status().loads != loads:
            return self._inconclusive(cause, "everything was listed again meanwhile", position)
        report = self._report(comparison, cause, position)
        if report.is_consistent:
            self._uncured.clear()
            return await self._confirmed(report)
        for kind, count in comparison.counts.items():
            self.counts.add("audit_mismatches", kind, amount=count)
        return self._judge(report, comparison)

    async def read_identities(
        self, take: Callable[[str, str, str], None], set_in_line: Callable[[bool], None]
    ) -> str:
        """List the identities of everything that the server has now.

        Args:
            take: called with key, uid and resource version of each object.
            set_in_line: called with whether a page waits for its turn among the lists that run.

        Returns:
            The resource version of the list.

        Raises:
            InformerError: the server refused, or could not be reached.

        Cancellation:
            Safe; the request is dropped.
        """

        @asynccontextmanager
        async def listing(resource: str) -> AsyncIterator[ListingSlot]:
            """Wait for a place among the lists that run."""
            set_in_line(True)
            async with self._request_budget.listing(resource) as slot:
                set_in_line(False)
                yield slot

        page_size = self._page_size
        return await IdentityList(self._list_watch, take, listing, page_size=page_size).read()

    async def _wait_watching(self, *, is_patient: bool) -> str:
        """Wait until the watch runs, or return why it cannot, unless the caller is patient."""
        while self._reflector.state is not ReflectorState.WATCHING:
            if self._reflector.state in _HOPELESS and not is_patient:
                status = self._reflector.status()
                reason = f": {status.reason}" if status.reason else ""
                return f"the informer is {status.state.value}{reason}"
            self._changed = asyncio.Event()
            await self._changed.wait()
        return ""

    async def _list_identities(
        self, comparison: Comparison, cause: str, position: str
    ) -> AuditReport | None:
        """Compare everything that the server had at a position; return a report if that fails."""
        identities = IdentityList(
            self._list_watch,
            comparison.take,
            self._request_budget.listing,
            page_size=self._page_size,
        )
        try:
            await identities.read(position)
        except ResourceExpiredError as error:
            return self._repaired(self._inconclusive(cause, str(error), position), "expired")
        except InformerError as error:
            if isinstance(error, ResourceVersionTooLargeError):
                # The server is behind the cache: it lags, or its history has changed.
                self._reflector.request_proof(
                    f"the server cannot list the audited version: {error}"
                )
            return self._inconclusive(cause, str(error), position)
        return None

    def _report(self, comparison: Comparison, cause: str, position: str) -> AuditReport:
        return AuditReport(
            informer=self._informer,
            cause=cause,
            verdict="inconsistent" if comparison.named else "consistent",
            position=position,
            checked=comparison.checked,
            missing=comparison.mismatches("missing"),
            phantom=comparison.mismatches("phantom"),
            stale=comparison.mismatches("stale"),
        )

    async def _confirmed(self, report: AuditReport) -> AuditReport:
        """Return a report, inconclusive if the watch stands still: it was so, and is it now?"""
        if await self._reflector.confirm(_CONFIRM_SECONDS) is not False:
            return report
        reason = "watches do not follow what lists show; everything is listed again"
        inconclusive = self._inconclusive(report.cause, reason, report.position)
        return replace(inconclusive, repair="demanded")

    async def _by_key(self, records: list[KubeObject[Any]]) -> dict[str, KubeObject[Any]]:
        held: dict[str, KubeObject[Any]] = {}

        def steps() -> Iterator[None]:
            """Take a slice in each step."""
            while records:
                held.update((obj._key, obj) for obj in records[-_SLICE:])
                del records[-_SLICE:]
                yield

        await spread(steps())
        return held

    async def _settle(self, comparison: Comparison, position: str) -> None:
        """Wait for the rest of a batch of one version, then confirm what still differs."""
        with anyio.move_on_after(_SETTLE_SECONDS):
            # A notification would cost every event a call.
            while self._reflector.position == position:  # noqa: ASYNC110
                await anyio.sleep(_POLL_SECONDS)
        await spread(comparison.settle(self._indexer.get))

    def _judge(self, report: AuditReport, comparison: Comparison) -> AuditReport:
        """Log the differences, and repair them unless an earlier repair did not help."""
        found = set(comparison.named)
        if comparison.names_all and found <= self._uncured:
            reason = "a complete list has not cured these before"
            report = replace(report, repair="withheld", reason=reason)
        else:
            report = self._repaired(report, f"{report.mismatches} differences")
            if report.repair == "demanded":
                self._remember(found)
        extra = {"informer": self._informer, "position": report.position, "cause": report.cause}
        _log.error("the cache differs from its server: %s", report, extra=extra)
        return report

    def _remember(self, found: set[Difference]) -> None:
        if len(self._uncured) > _FORGET_AT:
            self._uncured.clear()
        self._uncured |= found

    def _repaired(self, report: AuditReport, why: str) -> AuditReport:
        """Request a complete list, unless nothing asks for it and that happens too often."""
        if report.cause != _ASKED_FOR:
            now = asyncio.get_running_loop().time()
            is_full = len(self._repairs) == _REPAIRS
            if is_full and now - self._repairs[0] < _REPAIRS_WINDOW_SECONDS:
                minutes = _REPAIRS_WINDOW_SECONDS / 60
                often = f"{_REPAIRS} repairs within {minutes:g} minutes"
                reason = f"{often}; {report.reason}".rstrip("; ")
                return replace(report, repair="withheld", reason=reason)
            self._repairs.append(now)
        self._reflector.request_relist(
            f"the audit at {report.position} found: {why}", cause="audit"
        )
        return replace(report, repair="demanded")

    def _inconclusive(self, cause: str, reason: str, position: str = "") -> AuditReport:
        return AuditReport(
            informer=self._informer,
            cause=cause,
            verdict="inconclusive",
            position=position,
            checked=0,
            reason=reason,
        )

    def _keep(self, report: AuditReport) -> AuditReport:
        self.counts.add("audits", report.verdict)
        if self._journal is not None and not report.is_consistent:
            self._journal.note(f"audit: {report}")
        self.last_report = report
        return report


async def audit_all(
    informer: str,
    members: Sequence[tuple[Auditor, asyncio.Event]],
    *,
    timeout_seconds: float,
    unknown: str = "",
) -> AuditReport:
    """Audit all namespaces at the same time, as far as the cluster's budget for lists allows.

    Args:
        informer: names it in the report.
        members: one auditor per namespace, with the event that its cache sets when it ends; one
            that ends meanwhile is left out of the report.
        timeout_seconds: how long each may take.
        unknown: why the namespaces are not known; empty if they are.

    Cancellation:
        Safe; nothing is repaired after that.
    """
    found: list[AuditReport] = []

    async def audit(auditor: Auditor, ended: asyncio.Event) -> None:
        """Audit one namespace, and keep the report."""
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_at_end, ended, group.cancel_scope)
            found.append(await auditor.audit(timeout_seconds=timeout_seconds))
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for auditor, ended in members:
            group.start_soon(audit, auditor, ended)
    why = unknown or ("none of its namespaces is followed any more" if members else "")
    return joint_report(informer, found) or AuditReport(
        informer=informer,
        cause=_ASKED_FOR,
        verdict="inconclusive" if why else "consistent",
        position="",
        checked=0,
        reason=why,
    )


async def _cancel_at_end(ended: asyncio.Event, scope: anyio.CancelScope) -> None:
    await ended.wait()
    scope.cancel()


def joint_report(informer: str, reports: Sequence[AuditReport]) -> AuditReport | None:
    """Return several reports as one, as bad as the worst; None if there are none.

    Args:
        informer: names it in the report.
        reports: at most one per namespace.
    """
    if len(reports) <= 1:
        return reports[0] if reports else None
    reasons = [f"{one.informer}: {one.reason}" for one in reports if one.reason]
    return replace(
        reports[0],
        informer=informer,
        verdict=min((one.verdict for one in reports), key=_VERDICTS_WORST_FIRST.index),
        position="",
        checked=sum(one.checked for one in reports),
        missing=_summed([one.missing for one in reports]),
        phantom=_summed([one.phantom for one in reports]),
        stale=_summed([one.stale for one in reports]),
        repair=min((one.repair for one in reports), key=_REPAIRS_WORST_FIRST.index),
        reason="; ".join(reasons),
        seconds=max(one.seconds for one in reports),
    )


def _summed(mismatches: Sequence[Mismatches]) -> Mismatches:
    keys = chain.from_iterable(one.keys for one in mismatches)
    return Mismatches(sum(one.count for one in mismatches), tuple(keys)[:_KEPT_KEYS])
