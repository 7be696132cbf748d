"""The requests that the embedded server has received, for tests to inspect.

A request is recorded when its head has been read, and completed when its answer ends. Any thread
may read the records or wait for one. Beyond a bound, the oldest records are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

_MOST_REQUESTS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request.

    Attributes:
        method: the HTTP method.
        path: the decoded path.
        query: the query's parameters; the last value of a repeated one.
        verb: list, watch, get, create, update, patch, delete, deletecollection; the lower-case
            method outside the resource API.
        resource: `pods` or `deployments.apps`; "" outside the resource API.
        namespace: "" across namespaces and for cluster-scoped resources.
        name: "" for collections.
        headers: the headers by lower-case name, without credentials.
        status: the HTTP status of the answer; None if no answer has begun.
        arrived_at: monotonic seconds.
        is_finished: whether the answer has ended; a watch is open until then.
    """

    method: str
    path: str
    query: Mapping[str, str]
    verb: str
    resource: str
    namespace: str
    name: str
    headers: Mapping[str, str]
    arrived_at: float
    status: int | None = None
    is_finished: bool = False

    @property
    def user_agent(self) -> str:
        """The User-Agent header, or ""."""
        return self.headers.get("user-agent", "")

    @property
    def accept(self) -> str:
        """The Accept header, or ""."""
        return self.headers.get("accept", "")

    @property
    def accept_encoding(self) -> str:
        """The Accept-Encoding header, or ""."""
        return self.headers.get("accept-encoding", "")


RequestPredicate: TypeAlias = Callable[[RequestRecord], bool]


class RequestLog:
    """The requests of one server, oldest first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next = 0
        self._records: dict[int, RequestRecord] = {}

    def open(self, record: RequestRecord) -> int:
        """Add a request that has arrived, and return its number."""
        with self._changed:
            number = self._next
            self._next += 1
            self._records[number] = record
            if len(self._records) > _MOST_REQUESTS:
                del self._records[next(iter(self._records))]
            self._changed.notify_all()
            return number

    def answer(self, number: int, status: int) -> None:
        """Record the status that was sent."""
        self._replace(number, status=status)

    def finish(self, number: int) -> None:
        """Record that the answer has ended, normally or not."""
        self._replace(number, is_finished=True)

    def records(self) -> tuple[RequestRecord, ...]:
        """Return all requests."""
        with self._changed:
            return tuple(self._records.values())

    def clear(self) -> None:
        """Forget all requests."""
        with self._changed:
            self._records.clear()

    def wait_for(self, predicate: RequestPredicate, timeout_seconds: float) -> RequestRecord:
        """Block until a request satisfies the predicate, now or later.

        Raises:
            TimeoutError: no request satisfied it in time.
        """
        with self._changed:
            found = self._changed.wait_for(lambda: self._find(predicate), timeout_seconds)
            if found is None:
                seen = ", ".join(f"{r.verb} {r.path}" for r in self._records.values()) or "none"
                message = f"no such request within {timeout_seconds} s; there were: {seen}"
                raise TimeoutError(message)
            return found

    def _find(self, predicate: RequestPredicate) -> RequestRecord | None:
        return next((record for record in self._records.values() if predicate(record)), None)

    def _replace(
        self, number: int, *, status: int | None = None, is_finished: bool = False
    ) -> None:
        with self._changed:
            record = self._records.get(number)
            if record is not None:
                status = record.status if status is None else status
                self._records[number] = replace(record, status=status, is_finished=is_finished)
                self._changed.notify_all()
