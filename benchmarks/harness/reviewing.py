"""The client of webhooks: a process that asks several of them by turns, at a steady rate.

What it prints is the round trip, and the CPU time that the server's process has used meanwhile; or
by how much that process grows when many large reviews are there at once.
"""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks.harness.latencies import percentile
from benchmarks.harness.measure import ROOT
from benchmarks.harness.pace import evenly
from benchmarks.harness.processes import peak_rss_bytes, reset_peak, thread_use

_TIMEOUT_SECONDS = 60.0
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class Webhook(msgspec.Struct, frozen=True):
    """One webhook that is asked."""

    peer: str
    name: str
    """`default` or `validate`: what its figures begin with."""
    url: str
    pid: int
    body: str


class Asked(msgspec.Struct, frozen=True):
    """What the client does."""

    webhooks: list[Webhook]
    ca_file: str
    reviews: int = 0
    """For each webhook, by turns."""
    turns: int = 1
    per_second: float = 200.0
    at_once: int = 0
    """In place of these, so many at once, whose last bytes are sent when all others are."""


Figures = dict[str, dict[str, float]]
"""By peer, figures by name."""


def reviewed(asked: Asked) -> Figures:
    """Run the client in a process of its own.

    Raises:
        CalledProcessError: a webhook did not answer.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.harness.reviewing"],
        cwd=ROOT,
        input=msgspec.json.encode(asked),
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Figures)


class _Client:
    """Asks one webhook on a connection that is kept."""

    def __init__(self, webhook: Webhook, context: ssl.SSLContext) -> None:
        self.webhook = webhook
        self.body = webhook.body.encode()
        self.seconds: list[float] = []
        self.cpu_seconds = 0.0
        target = urlsplit(webhook.url)
        self._path = target.path
        self.connection = http.client.HTTPSConnection(
            target.netloc, context=context, timeout=_TIMEOUT_SECONDS
        )

    def ask_steadily(self, count: int, per_second: float) -> None:
        """Ask at a steady rate."""
        process = Path(f"/proc/{self.webhook.pid}")
        before = thread_use(process)
        for _ in evenly(count, per_second):
            began = time.perf_counter()
            self.connection.request("POST", self._path, self.body, _HEADERS)
            self.read_answer()
            self.seconds.append(time.perf_counter() - began)
        after = thread_use(process)
        if before is not None and after is not None:
            self.cpu_seconds += after.since(before).cpu_seconds

    def send_all_but_the_last_byte(self) -> None:
        """Send a review that the webhook cannot answer yet."""
        self.connection.putrequest("POST", self._path)
        for name, value in (*_HEADERS.items(), ("Content-Length", str(len(self.body)))):
            self.connection.putheader(name, value)
        self.connection.endheaders(self.body[:-1])

    def read_answer(self) -> None:
        """Read an answer, which must allow the write, and change it if it is asked for defaults."""
        answer = self.connection.getresponse()
        text = answer.read()
        is_allowed = b'"allowed":true' in text.replace(b" ", b"")
        has_patch = b'"patch"' in text
        expected = (HTTPStatus.OK, True, self.webhook.name == "default")
        if (answer.status, is_allowed, has_patch) != expected:
            raise RuntimeError(f"{self.webhook.peer}: {answer.status} {text[:200]!r}")

    def figures(self) -> dict[str, float]:
        ascending = sorted(self.seconds)
        name = self.webhook.name
        return {
            f"{name}_p50_ms": percentile(ascending, 50) * 1e3,
            f"{name}_p99_ms": percentile(ascending, 99) * 1e3,
            f"{name}_cpu_us": self.cpu_seconds / len(ascending) * 1e6,
        }


def _ask_by_turns(asked: Asked, context: ssl.SSLContext) -> Figures:
    clients = [_Client(webhook, context) for webhook in asked.webhooks]
    for _ in range(asked.turns):
        for client in clients:
            client.ask_steadily(asked.reviews // asked.turns, asked.per_second)
    found: Figures = {}
    for client in clients:
        found.setdefault(client.webhook.peer, {}).update(client.figures())
    return found


def _ask_at_once(webhook: Webhook, count: int, context: ssl.SSLContext) -> dict[str, float]:
    """Return how many are answered, and if all are, the server's growth for each over its body."""
    process = Path(f"/proc/{webhook.pid}")
    clients = [_Client(webhook, context) for _ in range(count)]
    can_measure = reset_peak(process)
    before = peak_rss_bytes(process) or 0
    sent = threading.Barrier(count)

    def ask(client: _Client) -> str:
        try:
            client.send_all_but_the_last_byte()
            sent.wait(_TIMEOUT_SECONDS)
            client.connection.send(client.body[-1:])
            client.read_answer()
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(count) as threads:
        failures = [failure for failure in threads.map(ask, clients) if failure]
    found = {f"{webhook.name}_answered": float(count - len(failures))}
    if failures:
        print(f"{webhook.peer}, {webhook.name}: {failures[0]}", file=sys.stderr)
    elif can_measure:
        growth = (peak_rss_bytes(process) or 0) - before
        found[f"{webhook.name}_bodies"] = growth / count / len(clients[0].body)
    return found


def _ask(asked: Asked) -> Figures:
    context = ssl.create_default_context(cafile=asked.ca_file)
    if not asked.at_once:
        return _ask_by_turns(asked, context)
    return {each.peer: _ask_at_once(each, asked.at_once, context) for each in asked.webhooks}


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    sys.stdout.buffer.write(msgspec.json.encode(_ask(asked)))
