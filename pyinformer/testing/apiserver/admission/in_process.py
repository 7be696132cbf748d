"""Asks the hooks of an operator in this process, in the event loop where its caches are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

from pyinformer.admission import Webhooks
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.operator import Operator, hooks_of

if TYPE_CHECKING:
    from pyinformer.admission import Reviews
    from pyinformer.objects import JSONObject

_HERE: Final = Webhooks(url="https://localhost")  # never connected to


@final
class InProcessHooks:
    """The hooks of an operator, as the server asks them.

    Args:
        app: the operator.
        loop: where they are called; None for that of the server.

    Raises:
        InvalidArgumentError: it has no hooks.
        InvalidTypeError: it is not an operator.
    """

    def __init__(self, app: Operator, loop: asyncio.AbstractEventLoop | None) -> None:
        if not isinstance(app, Operator):
            raise InvalidTypeError("app", f"must be an Operator, got {type(app).__name__}")
        hooks = hooks_of(app).hooks
        if not hooks:
            raise InvalidArgumentError("app", "must have a hook: @app.validate or default")
        self._loop = loop
        self._reviews: Mapping[str, Reviews] = hooks.reviews()
        self._configurations = hooks.configurations(_HERE, service_account=None)

    def configurations(self) -> Sequence[JSONObject]:
        """See HookSource."""
        return self._configurations

    async def answer(self, path: str, review: bytes, timeout_seconds: float) -> tuple[int, bytes]:
        """See HookSource.

        Cancellation:
            Reaches the hook's function.
        """
        reviews, loop = self._reviews.get(path), self._loop
        if reviews is None:
            message = f"no hook of this process answers {path}"
            raise ConnectionRefusedError(message)
        if loop is not None and loop.is_closed():
            raise ConnectionRefusedError("the event loop of the hooks is closed")
        answering = reviews.answer(review, timeout_seconds=timeout_seconds)
        if loop is None or loop is asyncio.get_running_loop():
            found = await answering
        else:
            found = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answering, loop))
        return int(found.status), found.body
