"""Run a command in a container, over the WebSocket that kubectl exec uses.

A command is refused, or cut off, when the term of leader election ends in which it was started.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer._runtime.tasks import UserTasks
from pyinformer.client.cluster._exec_output import (
    PROTOCOLS,
    ExecOutput,
    ExecResult,
    input_messages,
)
from pyinformer.client.cluster._targets import object_path
from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    InvalidTypeError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.objects import (
    GroupVersionResource,
    KubeObject,
    check_encodable,
    check_integer,
    check_seconds,
)

if TYPE_CHECKING:
    from pyinformer.client.cluster._rate_limited_requests import RateLimitedRequests
    from pyinformer.client.transport import Channels, Query

_PODS: Final = GroupVersionResource("", "v1", "pods")
_LAST_SECONDS: Final = 2.0  # servers close at once; output after the exit code is read until then
_GRACE_SECONDS: Final = 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command in a container, whose arguments are checked."""

    path: str
    query: Query
    what: str
    """As errors name it."""
    stdin: bytes | None
    timeout_seconds: float | None
    max_bytes: int

    @classmethod
    def checked(
        cls,
        pod: KubeObject[object] | str,
        command: Iterable[str],
        *,
        container: str | None,
        stdin: bytes | str | None,
        timeout_seconds: float | None,
        max_bytes: int,
    ) -> Command:
        """Return a command.

        Raises:
            InvalidArgumentError: an argument is malformed.
            InvalidTypeError: an argument is of another type.
        """
        key = _key_of(pod)
        words = _words(command)
        if container is not None:
            check_encodable("container", container)
        if timeout_seconds is not None:
            check_seconds("timeout_seconds", timeout_seconds, is_positive=True)
        check_integer("max_bytes", max_bytes)
        if isinstance(stdin, str):
            check_encodable("stdin", stdin)
            stdin = stdin.encode()
        elif not (isinstance(stdin, bytes) or stdin is None):
            raise InvalidTypeError("stdin", f"must be bytes or text, got {type(stdin).__name__}")
        chosen = (("container", container),) if container else ()
        given = (("stdin", "true"),) if stdin is not None else ()
        return cls(
            path=object_path(_PODS, key, "exec"),
            query=(
                *(("command", word) for word in words),
                *chosen,
                *given,
                ("stdout", "true"),
                ("stderr", "true"),
            ),
            what=f"exec in {key}",
            stdin=stdin,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
        )


async def run_command(requests: RateLimitedRequests, command: Command) -> ExecResult:
    """Run a command, and return its output and its exit code.

    Raises:
        APIStatusError: the server refused it, or could not start it.
        OutputLimitError: its output is too long.
        TransportError: its end did not arrive.
        ProtocolError: the server does not follow the protocol.
        FencedError: it belongs to a term of leader election that is over.

    Cancellation:
        The connection is closed; the command may have run, or still run.
    """
    output = ExecOutput(command.what, command.max_bytes)
    url = f"{requests.server}{command.path}"
    # With the older protocol a command would wait for the end of its input forever.
    protocols = PROTOCOLS if command.stdin is None else PROTOCOLS[:1]
    seconds = command.timeout_seconds
    try:
        with anyio.fail_after(seconds), requests.spans.of("GET", command.path):
            opening = requests.channels(command.path, command.query, protocols=protocols)
            async with opening as channels:
                await _converse(channels, output, command)
                if not output.has_status:
                    reason = "the server ended the connection before it reported the exit code"
                    raise TransportError(url, _uncertain(reason, output))
    except TimeoutError as error:
        if isinstance(error, InformerError):
            raise
        if not output.has_status:  # else only the end of the conversation was late
            waited = seconds or 0.0
            reason = _uncertain(f"the command did not end within {waited:g} s", output)
            raise RequestTimeoutError(url, reason, waited_seconds=waited) from error
    return output.result(command.path)


async def _converse(channels: Channels, output: ExecOutput, command: Command) -> None:
    """Send the input and collect the output, until the server ends the conversation."""
    tasks = UserTasks()
    if command.stdin is not None:
        tasks.spawn(f"the input of {command.what}", _send_input(channels, command.stdin))
    try:
        while not output.has_status:
            message = await _receive(channels, output)
            if message is None:
                return
            output.feed(message)
        with anyio.move_on_after(_LAST_SECONDS):
            while (message := await _receive(channels, output)) is not None:
                output.feed(message)
    finally:
        await tasks.stop(_GRACE_SECONDS)


async def _receive(channels: Channels, output: ExecOutput) -> bytes | None:
    try:
        return await channels.receive()
    except TransportError as error:
        if output.has_status:
            return None
        reason = _uncertain(error.reason, output)
        if isinstance(error, RequestTimeoutError):
            waited = error.waited_seconds
            raise RequestTimeoutError(error.url, reason, waited_seconds=waited) from error
        raise TransportError(error.url, reason) from error


async def _send_input(channels: Channels, stdin: bytes) -> None:
    try:
        for message in input_messages(stdin):
            await channels.send(message)
    except TransportError:
        pass  # the command may end before it has read its input; its output shows what is wrong


def _uncertain(reason: str, output: ExecOutput) -> str:
    return (
        f"{reason}; {output.received_bytes} bytes of its output were received before, and it may"
        " still run in the container"
    )


def _key_of(pod: KubeObject[object] | str) -> str:
    if isinstance(pod, KubeObject):
        if pod.gvk.kind != "Pod" or pod.gvk.group:
            raise InvalidArgumentError("pod", f"must be a Pod, got a {pod.gvk.kind}")
        return pod.key
    if not isinstance(pod, str):
        raise InvalidTypeError(
            "pod", f"must be a Pod or 'namespace/name', got {type(pod).__name__}"
        )
    if "/" not in pod:
        raise InvalidArgumentError("pod", f"must be 'namespace/name', got {pod!r}")
    return pod


def _words(command: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command.

    Raises:
        InvalidTypeError: it is a text, or a word is not one.
        InvalidArgumentError: it is empty, or a word has a null character.
    """
    is_text = isinstance(command, str | bytes)
    if is_text or not isinstance(command, Iterable) or isinstance(command, type):
        given = "a text" if is_text else type(command).__name__
        reason = (
            f"must be a list of words, such as ['pg_ctl', 'status'], got {given}; for the syntax"
            " of a shell write ['sh', '-c', 'the line']"
        )
        raise InvalidTypeError("command", reason)
    words = tuple(command)
    for word in words:
        check_encodable("command", word)
        if "\0" in word:
            raise InvalidArgumentError("command", f"{word!r} has a null character")
    if not (words and words[0]):
        raise InvalidArgumentError("command", "must begin with the name of a program")
    return words
