"""What every request of ours looks like, and that none is sent a second time behind our back."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyinformer.transport._failures import words_of

if TYPE_CHECKING:
    import aiohttp


async def once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep the library from sending a write a second time.

    It repeats a PUT or a DELETE by itself if its connection is lost, whether or not the server has
    carried it out: a replace would then meet its own version, a delete the object's successor.

    Raises:
        aiohttp.ClientError: what the request ran into, as one that is not repeated.

    Cancellation:
        Whether the server carried out a change is not known.
    """
    import aiohttp

    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:  # nothing was sent
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(words_of(error)) from error


def common_headers() -> dict[str, str]:
    """Return the headers that every request has."""
    # Compressed watches lose events in many clients, and gzip costs more than decoding.
    return {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": _user_agent(),  # browsers and curl get indented answers
    }


@cache  # it is read from the disk, which costs a third of the start of an informer
def _user_agent() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"pyinformer/{version('pyinformer')}"
    except PackageNotFoundError:  # run from a checkout
        return "pyinformer/0"
