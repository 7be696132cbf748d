"""Answers to requests that run a command in a container, with the checks of a real server.

What the command does is the result of a function of the test. As over a real kubelet, all output
precedes the report of the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from pyinformer.errors import APIStatusError
from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.requests import Failure, ResponseWriter, ServerChannels
from pyinformer.testing.apiserver.storage import ExecCall, OnExec

if TYPE_CHECKING:
    from pyinformer.client.cluster import ExecResult

_V5: Final = "v5.channel.k8s.io"
_PROTOCOLS: Final = (_V5, "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = (bytes((one,)) for one in (0, 1, 2, 3, 255))
_CHUNK_BYTES: Final = 32 << 10
_TRUE: Final = ("true", "1")
_NO_FUNCTION: Final = "this server has no kubelet: on_exec() takes a function that runs commands"


async def serve_command(
    pod: JSONObject,
    query: Mapping[str, str],
    command: tuple[str, ...],
    function: OnExec | None,
    reply: ResponseWriter,
) -> None:
    """Run a command, and send what it has written and how it has ended.

    Raises:
        Failure: 400: the container is not one of the pod, or must be named, or the pod has no node;
            500: no function runs commands.

    Cancellation:
        Safe; the client is gone then.
    """
    container = _container_of(pod, query.get("container", ""))
    if not (pod.get("spec") or {}).get("nodeName"):
        raise Failure(400, f"pod {pod['metadata']['name']} does not have a host assigned")
    if function is None:
        raise Failure(500, _NO_FUNCTION)
    channels = await reply.upgrade(_PROTOCOLS)
    try:
        await channels.send(_STDOUT)  # an empty message: the conversation has begun
        metadata = pod["metadata"]
        reads = query.get("stdin", "").lower() in _TRUE and channels.protocol == _V5
        call = ExecCall(
            pod=f"{metadata['namespace']}/{metadata['name']}",
            container=container,
            command=command,
            stdin=await _read_input(channels) if reads else b"",
        )
        for message in await _outcome(call, function):
            await channels.send(message)
    finally:
        await channels.end()


def _container_of(pod: JSONObject, container: str) -> str:
    """Return the container of a command.

    Raises:
        Failure: 400.

    Source:
        kubernetes pkg/registry/core/pod strategy.go, validateContainer.
    """
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    plain = [str(one["name"]) for one in spec.get("containers") or ()]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [str(one["name"]) for kind in kinds for one in spec.get(kind) or ()]
    if not container:
        if len(plain) != 1:
            choice = f", choose one of: [{' '.join(known)}]" if plain else ""
            raise Failure(400, f"a container name must be specified for pod {name}{choice}")
        return plain[0]
    if container not in known:
        raise Failure(400, f"container {container} is not valid for pod {name}")
    return container


async def _read_input(channels: ServerChannels) -> bytes:
    found = bytearray()
    while (message := await channels.receive()) is not None and message != _CLOSE + _STDIN:
        if message[:1] == _STDIN:
            found += message[1:]
    return bytes(found)


async def _outcome(call: ExecCall, function: OnExec) -> list[bytes]:
    """Return the messages for what a command does."""
    try:
        found = function(call)
        if inspect.isawaitable(found):
            found = await found
        messages = list(_messages(found))
    except Failure as failure:
        return [_ERROR + msgspec.json.encode(failure.status())]
    except APIStatusError as error:
        refusal = Failure(error.status, error.message, reason=error.reason)
        return [_ERROR + msgspec.json.encode(refusal.status())]
    except Exception as error:  # noqa: BLE001 - a function of the test
        text = f"the function of on_exec() raised {type(error).__name__}: {error}"
        return [_ERROR + msgspec.json.encode(Failure(500, text).status())]
    return messages


def _messages(found: ExecResult | str) -> Iterator[bytes]:
    if isinstance(found, str):
        yield from _chunks(_STDOUT, found.encode())
        yield _ERROR + msgspec.json.encode(_report(0))
        return
    yield from _chunks(_STDOUT, found.stdout_bytes)
    yield from _chunks(_STDERR, found.stderr_bytes)
    yield _ERROR + msgspec.json.encode(_report(found.exit_code))


def _chunks(channel: bytes, output: bytes) -> Iterator[bytes]:
    for place in range(0, len(output), _CHUNK_BYTES):
        yield channel + output[place : place + _CHUNK_BYTES]


def _report(exit_code: int) -> JSONObject:
    if not exit_code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }
