"""The patches that have changed nothing in the present version of an object: none is sent again.

A server sets defaults in what an edit leaves out, so that the same edit is new each time. After
five minutes it is tried again: a definition may have gained a field that was dropped.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, final

import msgspec

from pyinformer._runtime.tasks import loop_time
from pyinformer.objects import JSONObject, KubeObject

if TYPE_CHECKING:
    from pyinformer.client.cluster._targets import Target
    from pyinformer.client.transport import Query

_MAX_REMEMBERED: Final = 16_384  # about 3 MB; the least recently used are dropped first

_KEPT_SECONDS: Final = 300.0

_canonical: Final = msgspec.json.Encoder(order="deterministic").encode


@final
class NoopPatches:
    """Digests of patches whose response was the object in the version that it had before."""

    def __init__(self) -> None:
        self._known: dict[bytes, float] = {}  # until when, in the order of their last use

    def record(
        self,
        target: Target,
        before: KubeObject[object],
        patch: JSONObject,
        query: Query,
        found: KubeObject,
    ) -> None:
        """Record a patch that the server has carried out, if it changed nothing.

        Args:
            target: what was written.
            before: the object as it was.
            patch: the patch of its caller, without preconditions.
            query: that of the request; a dry run is not recorded.
            found: the object in the response.
        """
        meta, version = found.metadata, before.metadata.resource_version
        # The write that removes the last finalizer of a deleted object has its old version.
        if not version or meta.resource_version != version or meta.deletion_timestamp:
            return
        if not patch or "dryRun" in dict(query):
            return
        while len(self._known) >= _MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        until = loop_time() + _KEPT_SECONDS
        self._known[_digest(target, before, patch, query)] = until

    def has(
        self, target: Target, before: KubeObject[object], patch: JSONObject, query: Query
    ) -> bool:
        """Return whether the same patch lately changed nothing in this version of the object."""
        if not (patch and self._known):
            return False
        digest = _digest(target, before, patch, query)
        until = self._known.pop(digest, None)
        if until is None or loop_time() >= until:
            return False
        self._known[digest] = until
        return True


def _digest(target: Target, before: KubeObject[object], patch: JSONObject, query: Query) -> bytes:
    meta = before.metadata
    about = (target.path, meta.uid, meta.resource_version, query, patch)
    return hashlib.blake2b(_canonical(about), digest_size=16).digest()
