"""The database outside of the cluster: a service on loopback that shows which users really exist.

Each replica of an operator has a URL of its own, so that the last writer is known.
"""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import unquote


class User(NamedTuple):
    """A user of the database."""

    password: str
    database: str


class Database:
    """A context manager with the service.

    `PUT /WRITER/users/ID` with a password and a database creates or changes a user, and `DELETE`
    deletes it; both may be repeated. `GET /WRITER/users` returns all.
    """

    def __init__(self) -> None:
        self.is_down = False
        """Whether each request is refused with 503."""
        self.last_writer = ""
        """Which replica has written last."""
        self._users: dict[str, User] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def url(self, writer: str) -> str:
        """Return the DATABASE_URL of a replica."""
        return f"http://127.0.0.1:{self._server.server_port}/{writer}"

    def users(self) -> dict[str, User]:
        """Return all users by their ids."""
        with self._lock:
            return dict(self._users)

    def answer(self, method: str, path: str, body: bytes) -> tuple[HTTPStatus, object]:
        """Carry out one request; return the status and the body."""
        _, writer, resource, *rest = (*path.split("/"), "", "")
        user = unquote(rest[0])
        if self.is_down:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the database is down"}
        if resource != "users" or (method != "GET" and not user):
            return HTTPStatus.NOT_FOUND, {"error": path}
        if method == "GET":
            return HTTPStatus.OK, {name: one._asdict() for name, one in self.users().items()}
        with self._lock:
            self.last_writer = writer
            if method == "PUT":
                self._users[user] = User(**json.loads(body))
            else:
                self._users.pop(user, None)
        return HTTPStatus.OK, {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(database: Database) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers requests for one database."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = database.answer(self.command, self.path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Print nothing."""

    return Handler
