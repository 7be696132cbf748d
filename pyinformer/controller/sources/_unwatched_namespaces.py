"""Requests for objects whose namespace is not followed any more.

Such an object may still exist, so its reconcile must not be called with None: it would clean up.
When the namespace is followed again, or is known to be gone, the missing keys are requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyinformer.controller.sources._request import Request

_log = get_logger(__name__)

# Of all namespaces together; 60 MB where keys have 317 characters, as most kinds allow.
MAX_LEFT_KEYS: Final = 100_000


@final
class LeftKeys:
    """Keeps requests by namespace, for a limited number of keys.

    Beyond the limit, the namespace that was left first is forgotten.

    Args:
        source: the name of the source, for the log.
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
        """Keep the requests of a key, in place of earlier ones."""
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
            "%s: more than %d keys are in namespaces that are not followed any more; the %d keys of"
            " %s are forgotten, so deletions of their objects will not be reconciled",
            self._source,
            self._limit,
            len(self.take(namespace)),
            namespace,
        )
