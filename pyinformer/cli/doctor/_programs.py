"""`pyinformer doctor URL...`: what is wrong with running programs, by their status pages."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from pyinformer.cli.doctor._report import Report, ReportPart
from pyinformer.cli.doctor._status_page import fetch_status
from pyinformer.errors import InformerError
from pyinformer.operator.diagnosis import diagnose_replicas, diagnose_status


async def examine_programs(urls: Sequence[str], *, timeout_seconds: float) -> Report:
    """Read the status pages of programs, and return what is wrong with them.

    Args:
        urls: of their health endpoints; several are replicas of one program.
        timeout_seconds: how long each may take.

    Cancellation:
        Safe; connections are closed.
    """
    pages: dict[str, object] = {}
    errors: dict[str, str] = {}

    async def fetch(url: str) -> None:
        """Read one page, or record why it could not be read."""
        try:
            pages[url] = await fetch_status(url, timeout_seconds=timeout_seconds)
        except InformerError as error:
            errors[url] = str(error)

    async with anyio.create_task_group() as group:
        for url in urls:
            group.start_soon(fetch, url)
    return report_of([(url, errors.get(url, ""), pages.get(url)) for url in urls])


def report_of(answers: Sequence[tuple[str, str, object]]) -> Report:
    """Return the report about programs.

    Args:
        answers: for each its URL, why it did not answer (empty if it did), and its page.
    """
    parts = [
        ReportPart(source=url, error=error, findings=() if error else diagnose_status(page))
        for url, error, page in answers
    ]
    pages = {url: page for url, error, page in answers if not error}
    if len(pages) > 1 and (found := diagnose_replicas(pages)):
        parts.append(ReportPart(source="the replicas together", findings=found))
    return Report(parts)
