"""Whether the requests of a reflector name its share of the objects.

A server that knows the parameter may refuse it. Then all objects are requested, and those of other
shares are left out here, as where the server ignores it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.errors import APIStatusError

if TYPE_CHECKING:
    from pyinformer.client.transport import ListWatch
    from pyinformer.errors import InformerError

_log = get_logger(__name__)

_REFUSALS: Final = frozenset({400, 500})  # of a server that cannot parse it
_AGAIN_SECONDS: Final = 600.0  # another fault may have been the cause


@final
class ShardParameter:
    """Leaves the parameter out after a refusal, and tries it again later.

    Args:
        list_watch: the requests.
    """

    def __init__(self, list_watch: ListWatch) -> None:
        self._list_watch = list_watch
        self._refused_at: float | None = None
        self._is_logged = False

    def begin_load(self, now: float) -> None:
        """Try the parameter again if the refusal is long ago."""
        if self._refused_at is not None and now - self._refused_at > _AGAIN_SECONDS:
            self._list_watch.sends_shard, self._refused_at = True, None

    def failed(self, error: InformerError, now: float) -> None:
        """Record that a load or a watch was refused: the next one is sent in the other way."""
        if self._list_watch.uid_range is None or not isinstance(error, APIStatusError):
            return
        if error.status in _REFUSALS:
            self._list_watch.sends_shard = not self._list_watch.sends_shard
            self._refused_at = now

    def loaded(self) -> None:
        """Record that a load was answered; log once that it was without the parameter."""
        if self._list_watch.sends_shard or self._is_logged:
            return
        self._is_logged = True
        _log.warning(
            "%s: the server refuses the parameter shardSelector, so it sends all objects, and those"
            " of other shards are left out here",
            self._list_watch.shown,
        )
