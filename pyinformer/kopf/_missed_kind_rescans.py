"""Have kopf scan the server again for a kind that is defined and that a scan did not show.

kopf scans when a definition changes. An API server that lags behind, one of several for example,
may not serve the kind yet, and no later event would make kopf look again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from kopf._cogs.structs.references import CRDS

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.kopf._initial_scan import established_definition, served_kinds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kopf._cogs.structs.references import Resource

    from pyinformer.kopf._initial_scan import InitialScan
    from pyinformer.kopf._stream import Stream

_log = get_logger(__name__)

_LONGEST_SECONDS: Final = 60.0
_MOST_DOUBLINGS: Final = 6


@final
class MissedKindRescans:
    """The definitions of one operator that are looked for again, after 1, 2, 4, ... 60 seconds.

    Args:
        streams: the operator's; that of definitions is among them.
        initial_scan: knows the API groups of its handlers.
    """

    def __init__(self, streams: Sequence[Stream], initial_scan: InitialScan) -> None:
        self._streams = streams
        self._initial_scan = initial_scan
        self._attempts: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def on_scan(self, groups: Collection[str] | None, found: Collection[Resource]) -> None:
        """Look again later for each group of which a defined kind was not found.

        Args:
            groups: the API groups that were scanned; None for all.
            found: the resources that the server serves.
        """
        served = served_kinds(found)
        lacking: dict[str, tuple[Stream, str, str]] = {}
        for stream, key, group, names in self._definitions(groups):
            missing = [name for name in names if name not in served]
            if missing and self._initial_scan.concerns(group):
                lacking[group] = (stream, key, "{2}.{1}.{0}".format(*missing[0]))
        scanned = set(self._attempts) if groups is None else set(groups)
        for group in scanned - lacking.keys():
            self._attempts.pop(group, None)
            if timer := self._timers.pop(group, None):
                timer.cancel()
        for group, (stream, key, name) in lacking.items():
            self._scan_later(group, stream, key, name)

    def close(self) -> None:
        """Look for nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _definitions(
        self, groups: Collection[str] | None
    ) -> Iterator[tuple[Stream, str, str, tuple[tuple[str, str, str], ...]]]:
        for stream in self._streams:
            if not CRDS.check(stream.resource):
                continue
            for key in stream.known.keys():  # noqa: SIM118 - it cannot be iterated itself
                obj = stream.known.get(key)
                names = () if obj is None else established_definition(obj)
                if names and (groups is None or names[0][0] in groups):
                    yield stream, key, names[0][0], names

    def _scan_later(self, group: str, stream: Stream, key: str, name: str) -> None:
        if group in self._timers:
            return
        attempts = self._attempts[group] = self._attempts.get(group, -1) + 1
        seconds = min(2.0 ** min(attempts, _MOST_DOUBLINGS), _LONGEST_SECONDS)

        def report() -> None:
            """Report the definition as modified: kopf scans its group then."""
            del self._timers[group]
            if stream in self._streams:
                stream.report_again(key)

        self._timers[group] = asyncio.get_running_loop().call_later(seconds, report)
        log = _log.warning if attempts == 0 else _log.info
        log(
            "%s is defined, and the server does not serve it yet: scanned again in %g s",
            name,
            seconds,
        )
