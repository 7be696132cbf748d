"""What a command in a container has written, and how it has ended, from the messages of its server.

Source:
    apimachinery pkg/util/remotecommand constants.go; client-go tools/remotecommand v4.go, v5.go.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import msgspec

from pyinformer.client.transport import status_error_from_object
from pyinformer.errors import OutputLimitError, ProtocolError
from pyinformer.objects import JSONObject, decoder_of

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The protocols of a command; with the second, its standard input cannot be ended."""

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_CHUNK_BYTES: Final = 32 << 10  # as servers send their output
_MAX_STATUS_BYTES: Final = 64 << 10
_EXIT_CODE: Final = "ExitCode"
_NON_ZERO: Final = "NonZeroExitCode"
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode_status = decoder_of(JSONObject)


@final
@dataclass(frozen=True, slots=True)
class ExecResult:
    """A command that has ended: `result = await cluster.exec("shop/web-0", ["date"])`."""

    exit_code: int
    """What the command has returned; 0 for success."""

    stdout_bytes: bytes = b""
    """Its standard output."""

    stderr_bytes: bytes = b""
    """Its standard error."""

    @property
    def stdout(self) -> str:
        """Its standard output as a text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Its standard error as a text; bytes that are not UTF-8 become U+FFFD."""
        return self.stderr_bytes.decode("utf-8", "replace")

    def __repr__(self) -> str:  # the output may be a secret
        sizes = f"{len(self.stdout_bytes)} and {len(self.stderr_bytes)} bytes"
        return f"<ExecResult exit code {self.exit_code}, {sizes}>"


@final
class ExecOutput:
    """Collects the messages of one command.

    Args:
        what: the command's place, for errors: `exec in shop/web-0`.
        max_bytes: how long its output may be, that on standard error included.
    """

    def __init__(self, what: str, max_bytes: int) -> None:
        self._what = what
        self._max_bytes = max_bytes
        self._parts = {_STDOUT: bytearray(), _STDERR: bytearray(), _ERROR: bytearray()}
        self._status: JSONObject | None = None

    @property
    def received_bytes(self) -> int:
        """How many bytes of output have arrived."""
        return len(self._parts[_STDOUT]) + len(self._parts[_STDERR])

    @property
    def has_status(self) -> bool:
        """Whether the end of the command has arrived."""
        return self._status is not None

    def feed(self, message: bytes) -> None:
        """Take a message of the server; those of unknown channels are ignored.

        Raises:
            OutputLimitError: the output is too long.
            ProtocolError: the report of the command's end is too long.
        """
        found = self._parts.get(message[0]) if message else None
        if found is None:
            return
        found += memoryview(message)[1:]
        if self.received_bytes > self._max_bytes:
            raise OutputLimitError(self._what, self._max_bytes)
        if message[0] == _ERROR and len(message) > 1:
            if len(found) > _MAX_STATUS_BYTES:
                raise ProtocolError(self._what, "the report of the command's end is too long")
            self._status = _read_status(bytes(found))

    def result(self, path: str) -> ExecResult:
        """Return the result of the command, whose end has arrived.

        Args:
            path: of the request.

        Raises:
            APIStatusError: the command was not started, or the server lost it.
            ProtocolError: the report of its end says neither.
        """
        stdout, stderr = bytes(self._parts[_STDOUT]), bytes(self._parts[_STDERR])
        return ExecResult(self._exit_code(self._status or {}, path), stdout, stderr)

    def _exit_code(self, status: JSONObject, path: str) -> int:
        if status.get("status") == "Success":
            return 0
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        if status.get("reason") == _NON_ZERO and isinstance(causes, list):
            for cause in causes:
                text = cause.get("message") if isinstance(cause, dict) else None
                if isinstance(text, str) and cause.get("reason") == _EXIT_CODE and _is_code(text):
                    return int(text)
        if status.get("status") != "Failure" or status.get("reason") == _NON_ZERO:
            raise ProtocolError(self._what, "the report of the command's end has no exit code")
        raise status_error_from_object(status, request=self._what, path=path)


def input_messages(stdin: bytes) -> list[bytes]:
    """Return the messages of a standard input and of its end."""
    places = range(0, len(stdin), _CHUNK_BYTES)
    chunks = [bytes((_STDIN,)) + stdin[place : place + _CHUNK_BYTES] for place in places]
    return [*chunks, bytes((_CLOSE, _STDIN))]


def _read_status(text: bytes) -> JSONObject | None:
    """Return a Status; None if more of it has to arrive."""
    try:
        return _decode_status(text)
    except _UNREADABLE:
        return None


def _is_code(text: str) -> bool:
    digits = text.removeprefix("-")
    # A report of a failure is not one of success, whatever its code.
    return digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) != 0  # noqa: PLR2004
