"""A plain HTTP client for tests of the servers, independent of our library.

It uses one kept-alive http.client connection. Answers have their status, headers and exact bytes;
watches are streams that are read line by line.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    import ssl

PODS = "/api/v1/namespaces/default/pods"
ALL_PODS = "/api/v1/pods"
WATCH_LIST = {
    "watch": "1",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def pod(name: str = "a", **metadata: Any) -> dict[str, Any]:
    """Return a small pod."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def names(self) -> list[str]:
        """The names of a list's items."""
        return [item["metadata"]["name"] for item in self.json["items"]]


class Stream:
    """An open watch."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._response.close()
        self.connection.close()

    def read(self, count: int) -> bytes:
        """Read a number of bytes."""
        return self._response.read(count)

    def line(self) -> bytes:
        """Read one line; empty at the end of the stream."""
        return self._response.readline()

    def event(self) -> tuple[str, Any]:
        """Read one event: its type and its object."""
        decoded = json.loads(self.line())
        return decoded["type"], decoded["object"]

    def named(self, count: int) -> list[tuple[str, str]]:
        """Read a number of events: their types and the names in them."""
        events = [self.event() for _ in range(count)]
        return [(kind, obj["metadata"].get("name", "")) for kind, obj in events]

    def rest(self) -> bytes:
        """Read to the end of the stream."""
        return self._response.read()


class Wire:
    """One client of one server."""

    def __init__(
        self, url: str, *, token: str | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self._address = urlsplit(url)
        self._context = context
        self._headers = {"User-Agent": "wire/1"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: object,
    ) -> Answer:
        """Send a request and read the whole answer."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**self._headers, "Content-Type": content_type, **(headers or {})}
        self._connection.request(method, target, data, sent)
        response = self._connection.getresponse()
        raw = response.read()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, raw)

    def get(self, path: str, **query: Any) -> Answer:
        """GET a path."""
        return self.request("GET", path, **query)

    def watch(self, path: str, **query: object) -> Stream:
        """Open a watch on a separate connection."""
        connection = self._connect()
        connection.request(
            "GET", f"{path}?{urlencode({'watch': '1', **query})}", headers=self._headers
        )
        return Stream(connection)

    def pages(self, path: str, **query: Any) -> Iterator[Answer]:
        """GET a list page by page."""
        token = ""
        while True:
            going_on = {"continue": token} if token else {}
            page = self.get(path, **query, **going_on)
            yield page
            token = page.json["metadata"].get("continue", "")
            if not token:
                return

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._context is not None:
            return http.client.HTTPSConnection(host, port, context=self._context, timeout=100)
        return http.client.HTTPConnection(host, port, timeout=100)
