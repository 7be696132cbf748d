"""Answers to requests for the log of a container, with the checks and options of a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyinformer.objects import JSONObject
from pyinformer.testing import _wall_clock
from pyinformer.testing.apiserver.requests import Failure, ResponseWriter, failures

if TYPE_CHECKING:
    from pyinformer.testing.apiserver.storage import ContainerLog, LogLine, PodLogs

_TEXT: Final = "text/plain"
_TRUE: Final = ("true", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of a request for a log."""

    follow: bool
    timestamps: bool
    since: str
    """The earliest time; empty for all."""
    tail_lines: int | None
    limit_bytes: int | None

    def selected(self, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines of a log that exist when the request begins."""
        found = [one for one in lines if one.timestamp >= self.since]
        if self.tail_lines is None:
            return found
        begins = [place for place, one in enumerate(found) if one.begins]
        if self.tail_lines >= len(begins):
            return found
        return found[begins[-self.tail_lines] :] if self.tail_lines else []

    def shown(self, lines: list[LogLine]) -> bytes:
        """Return lines as text."""
        if not self.timestamps:
            return b"".join(one.text for one in lines)
        return b"".join(
            one.timestamp.encode() + b" " + one.text if one.begins else one.text for one in lines
        )


def parse_log_options(query: Mapping[str, str], pod: str) -> LogOptions:
    """Parse the options of a request for a log.

    Raises:
        Failure: 422 with the field and the reason.
    """
    causes: list[tuple[str, str, str]] = []

    def number(field: str, least: int) -> int | None:
        """Return an option that is a number, and record what is wrong with it."""
        text = query.get(field)
        if text is None:
            return None
        value = int(text)
        if value < least:
            bound = "greater than or equal to 0" if least == 0 else "greater than 0"
            sentence = f"Invalid value: {value}: must be {bound}"
            causes.append(("FieldValueInvalid", field, sentence))
        return value

    tail_lines, limit_bytes = number("tailLines", 0), number("limitBytes", 1)
    seconds, since = number("sinceSeconds", 1), query.get("sinceTime", "")
    if seconds is not None and since:
        sentence = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(("FieldValueForbidden", "[]", sentence))
    if causes:
        raise failures.invalid("PodLogOptions", "", pod, causes)
    return LogOptions(
        follow=query.get("follow") in _TRUE,
        timestamps=query.get("timestamps") in _TRUE,
        since=since if seconds is None else _wall_clock.timestamp(-float(seconds)),
        tail_lines=tail_lines,
        limit_bytes=limit_bytes,
    )


def log_of(pod: JSONObject, query: Mapping[str, str], logs: PodLogs) -> ContainerLog | None:
    """Return the log that a request reads; None if the pod has no node yet.

    Raises:
        Failure: 400: the container is not one of the pod, or must be named, or has not run before.
    """
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [str(one["name"]) for kind in kinds for one in spec.get(kind) or ()]
    container = query.get("container", "")
    if not container:
        plain = [str(one["name"]) for one in spec.get("containers") or ()]
        if len(known) != 1:
            choice = f"choose one of: [{' '.join(plain)}]"
            raise Failure(400, f"a container name must be specified for pod {name}, {choice}")
        container = plain[0]
    if container not in known:
        raise Failure(400, f"container {container} is not valid for pod {name}")
    if not spec.get("nodeName"):
        return None
    uid = pod["metadata"]["uid"]
    if query.get("previous") not in _TRUE:
        return logs.of(uid, container)
    previous = logs.previous(uid, container)
    if previous is None:
        message = f'previous terminated container "{container}" in pod "{name}" not found'
        raise Failure(400, message)
    return previous


async def serve_log(log: ContainerLog | None, options: LogOptions, reply: ResponseWriter) -> None:
    """Send a log, and what is written to it later if it is followed.

    Cancellation:
        Safe; the client is gone then.
    """
    if log is None:
        await reply.send(204, [], content_type=_TEXT)
        return
    changed, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        """Wake this request, from any thread."""
        loop.call_soon_threadsafe(changed.set)

    stop = log.follow(wake)
    try:
        is_over, lines = log.is_over, log.lines()  # before the client knows that it has begun
        await reply.start(200, content_type=_TEXT)
        left = await _send(options.shown(options.selected(lines)), options.limit_bytes, reply)
        position = len(lines)
        while options.follow and not is_over and left != 0:
            await changed.wait()
            changed.clear()
            is_over, lines = log.is_over, log.lines(position)
            left = await _send(options.shown(lines), left, reply)
            position += len(lines)
        await reply.finish()
    finally:
        stop()


async def _send(data: bytes, left: int | None, reply: ResponseWriter) -> int | None:
    """Send a part of a log within its limit; return what is left of the limit."""
    data = data if left is None else data[:left]
    await reply.write(data)
    return None if left is None else left - len(data)
