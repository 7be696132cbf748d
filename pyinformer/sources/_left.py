"""Requests for objects whose namespace is not followed any more.

Such an object may exist, so its controller must not be called: it would clean up. When the
namespace is followed again, or is known to be gone, the keys that are missing are requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyinformer.sources._request import Request

_log = get_logger("pyinformer.controller")

MAX_LEFT_KEYS: Final = (
    100_000  # of all namespaces together; 60 MB where keys have 317 characters, as most kinds allow
)


@final
class LeftKeys:
    """Keeps requests by namespace, of so many keys; the namespaces left first are dropped first.

    Args:
        source: names the source in the log.
        limit: how many keys are kept.
    """

    def __init__(self, source: str, *, limit: int = MAX_LEFT_KEYS) -> None:
        self._source = source
        self._limit = limit
        self._size = 0
        self._by_namespace: dict[str, dict[str, Collection[Request]]] = {}

    def __len__(self) -> int:
        return self._size

    def keep(self, key: str, requests: Collection[Request]) -> None:
        """Keep the requests of a key, which the newest ones replace."""
        if not requests:
            return
        namespace = ObjectKey(key).namespace
        of_namespace = self._by_namespace.setdefault(namespace, {})
        self._size += key not in of_namespace
        of_namespace[key] = requests
        if self._size > self._limit:
            self._drop_oldest()

    def take(self, namespace: str) -> dict[str, Collection[Request]]:
        """Return the requests of a namespace by key, and forget them."""
        found = self._by_namespace.pop(namespace, {})
        self._size -= len(found)
        return found

    def _drop_oldest(self) -> None:
        namespace = next(iter(self._by_namespace))
        _log.warning(
            "%s: more than %d keys are in namespaces that are not followed any more; the %d of %s"
            " are forgotten, so none that is deleted meanwhile will be reconciled",
            self._source,
            self._limit,
            len(self.take(namespace)),
            namespace,
        )
