"""The bucket of each request of a replica, where it is remembered; it never guesses one.

A function of the user's may fail for a key. That key then has no bucket here, whatever another
replica makes of it: one that was guessed could be another replica's, and both would handle the key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import error_text, refuse_awaitable
from pyinformer.controller.sources import Request
from pyinformer.errors import InvalidTypeError
from pyinformer.sharding._hashing import bucket_of, bucket_of_text
from pyinformer.sharding._options import by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.controller.sources import RequestId
    from pyinformer.sharding._options import Buckets

_log = get_logger(__name__)

NO_BUCKET: Final = -1
_REMEMBERED: Final = 100_000  # keys whose bucket is known without a hash of it: 13 MB
_MOST_FAILING: Final = 100_000  # of them the oldest are forgotten, until their objects change


@final
class KeyBuckets:
    """Returns the bucket of requests.

    Args:
        buckets: how the keys are shared.
    """

    def __init__(self, buckets: Buckets) -> None:
        self._count, self._by = buckets.count, buckets.by
        self._known = lru_cache(_REMEMBERED)(self._find)
        self._failing: dict[RequestId, None] = {}
        self._logged: set[type[Exception]] = set()  # each kind once, until all have a bucket
        self.last_error: str = ""
        """Why a key has no bucket; empty if all have one."""

    @property
    def may_fail(self) -> bool:
        """Whether a function of the user's is called."""
        return callable(self._by)

    def of(self, request_id: RequestId) -> int:
        """Return the bucket of a request; NO_BUCKET if the function fails. From any thread."""
        try:
            return self._known(request_id)
        except Exception as error:  # noqa: BLE001 - of the user's function
            self._record(request_id, error)
            return NO_BUCKET

    def of_timer(self, request_id: RequestId) -> int:
        """Return the bucket of a timer, which is that of its name."""
        return bucket_of(*request_id, buckets=self._count)

    def try_again(self, found: set[RequestId]) -> Iterator[None]:
        """Add the requests to `found` that had no bucket and have one now, in short steps."""
        for request_id in list(self._failing):
            if self.of(request_id) != NO_BUCKET:
                self._failing.pop(request_id, None)
                found.add(request_id)
            yield
        if found and not self._failing:
            _log.warning("%s returns a bucket for all keys again", by_name(self._by))
            self.last_error = ""
            self._logged.clear()

    def _find(self, request_id: RequestId) -> int:
        key, cluster = request_id
        by = self._by
        if not callable(by):
            return bucket_of(key, cluster, buckets=self._count, by=by)
        text: object = by(Request(key, cluster))
        refuse_awaitable(text, "by")
        if not isinstance(text, str):
            raise InvalidTypeError("by", f"must return text, got a {type(text).__name__}")
        return bucket_of_text(text, buckets=self._count)

    def _record(self, request_id: RequestId, error: Exception) -> None:
        self._failing[request_id] = None
        while len(self._failing) > _MOST_FAILING:
            self._failing.pop(next(iter(self._failing)), None)
        if type(error) in self._logged:
            return
        self._logged.add(type(error))
        name, key, why = by_name(self._by), request_id[0], error_text(error)
        self.last_error = f"{name} fails for {key}: {why}"
        _log.error(
            "%s fails for %s, and maybe for other keys: they are not reconciled until it returns"
            " their text, and are tried again every few seconds: %s",
            name,
            key,
            why,
        )
