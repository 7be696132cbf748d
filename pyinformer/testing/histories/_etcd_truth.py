"""`EtcdTruth`: every revision of etcd, written to a history. It shares nothing with informers.

It is a thread that reads etcd's JSON gateway by the standard library's HTTP client. The time of a
record is that of its arrival, which is not before the revision was committed.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Final, Self, final
from urllib.parse import urlsplit

import msgspec

from pyinformer.errors import KubeAPIServerError, LifecycleError
from pyinformer.objects import JSONObject, check_seconds, decoder_of
from pyinformer.testing.histories._etcd_log import EtcdLog, KeyValue, WatchEvent
from pyinformer.testing.histories._history import History
from pyinformer.testing.histories._records import RestoredRecord

_EVERYTHING: Final = "AA=="  # base64 of one zero byte: as key and as end it means all keys
_THREAD: Final = "etcd-truth"
_RETRY_SECONDS: Final = 0.05
_RANGE_SECONDS: Final = 60.0  # how long a stopped etcd may let a question wait


class _Header(msgspec.Struct, frozen=True):
    revision: str = "0"


class _Watched(msgspec.Struct, frozen=True):
    header: _Header = _Header()
    events: list[WatchEvent] = []
    canceled: bool = False


class _Line(msgspec.Struct, frozen=True):
    result: _Watched = _Watched()


class _Ranged(msgspec.Struct, frozen=True):
    header: _Header = _Header()
    kvs: list[KeyValue] = []


_decode_line = decoder_of(_Line)
_decode_range = decoder_of(_Ranged)


class _RewrittenError(Exception):
    """etcd does not continue the history that was followed; its text says why."""


@final
class EtcdTruth:
    """Follows etcd from its first revision: `with EtcdTruth(history, server.etcd_url) as truth`.

    It connects again after every failure. If etcd then has another history, as after a restore, or
    has compacted what was not read yet, it writes a RestoredRecord and everything that lives.
    Objects in JSON are read whole, those in protobuf if the embedded server knows their kind; of
    others the record has neither uid nor labels, so start kube-apiserver with
    `--storage-media-type=application/json` for such kinds.

    Args:
        history: where records go.
        url: the address of etcd's JSON gateway, `http://127.0.0.1:2379`.
        resources: which resources to record, `configmaps` or `deployments.apps`; None is all.
        fields: the paths of the fields by which followers select, such as `spec.nodeName`.
    """

    def __init__(
        self,
        history: History,
        url: str,
        *,
        resources: Collection[str] | None = None,
        fields: Collection[str] = (),
    ) -> None:
        parts = urlsplit(url)
        self._history = history
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 2379
        self._log = EtcdLog(resources=resources, fields=fields)
        self._recorded = 0  # `_log` is ahead of it while a batch of events is being recorded
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def start(self) -> None:
        """Start the thread, which continues where it was stopped.

        Raises:
            LifecycleError: it runs.
        """
        if self._thread is not None:
            raise LifecycleError("this EtcdTruth runs: call stop() before start()")
        self._stopped.clear()
        self._error = None
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for it; idempotent."""
        self._stopped.set()
        open_socket = self._socket
        if open_socket is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def revision(self) -> int:
        """The newest revision of which everything is in the history."""
        return self._recorded

    def catch_up(self, *, timeout_seconds: float = 60.0) -> int:
        """Block until everything is in the history that is in etcd now; return its revision.

        Raises:
            KubeAPIServerError: etcd did not answer in time, or the thread has ended.
            InvalidArgumentError: the timeout is not a duration.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        try:
            newest = int(self._range(limit=1, timeout_seconds=timeout_seconds).header.revision)
        except (OSError, http.client.HTTPException) as error:
            raise KubeAPIServerError("etcd does not answer", str(error)) from error
        with self._changed:
            self._changed.wait_for(
                lambda: self._recorded >= newest or self._error is not None, timeout_seconds
            )
        if self._error is not None:
            raise KubeAPIServerError("the truth has ended", str(self._error)) from self._error
        if self._recorded < newest:
            reason = f"it is at {self._recorded}, and etcd at {newest}"
            raise KubeAPIServerError("the truth does not catch up", reason)
        return newest

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    self._follow()
                except _RewrittenError as rewritten:
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        self._begin_again(str(rewritten))
                except (OSError, http.client.HTTPException):
                    pass
                self._stopped.wait(_RETRY_SECONDS)
        except Exception as error:  # noqa: BLE001 - catch_up raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _follow(self) -> None:
        """Read events until the connection ends."""
        if self._log.revision:
            found = self._range()
            revision = int(found.header.revision)
            if not self._log.begin_proof(found.kvs, revision):
                raise _RewrittenError(f"etcd has another history, at revision {revision}")
        for watched in self._watched(self._log.revision + 1):
            for event in watched.events:
                record = self._log.apply(event)
                if record is not None:
                    self._history.add(record)
            self._publish()
            if watched.canceled:
                raise _RewrittenError("etcd has compacted revisions that were not read")
            if not self._log.is_proven():
                raise _RewrittenError("etcd has other keys than its events leave")

    def _begin_again(self, reason: str) -> None:
        found = self._range()
        revision = int(found.header.revision)
        records = self._log.replace(found.kvs, revision)
        self._history.add(RestoredRecord(revision=revision, puts=len(records), reason=reason))
        for record in records:
            self._history.add(record)
        self._publish()

    def _publish(self) -> None:
        with self._changed:
            self._recorded = self._log.revision
            self._changed.notify_all()

    def _watched(self, start_revision: int) -> Iterator[_Watched]:
        body: JSONObject = {
            "create_request": {
                "key": _EVERYTHING,
                "range_end": _EVERYTHING,
                "start_revision": str(start_revision),
            }
        }
        with self._answer("watch", body, None) as answer:
            while line := answer.readline():
                yield _decode_line(line).result

    def _range(self, *, limit: int = 0, timeout_seconds: float = _RANGE_SECONDS) -> _Ranged:
        body: JSONObject = {
            "key": _EVERYTHING,
            "range_end": _EVERYTHING,
            "limit": str(limit),
        }
        with self._answer("kv/range", body, timeout_seconds) as answer:
            return _decode_range(answer.read())

    @contextlib.contextmanager
    def _answer(
        self, method: str, body: JSONObject, timeout_seconds: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_seconds)
        is_ours = threading.current_thread().name == _THREAD
        try:
            connection.connect()
            if is_ours:
                self._socket = connection.sock
                if self._stopped.is_set():
                    raise ConnectionAbortedError("this EtcdTruth was stopped")
            connection.request("POST", f"/v3/{method}", msgspec.json.encode(body))
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise http.client.HTTPException(answer.read().decode(errors="replace"))
            with answer:
                yield answer
        finally:
            if is_ours:
                self._socket = None
            connection.close()
