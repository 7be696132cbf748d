"""The objects of a World: what there is, and what somebody else does to it.

What enters are the objects and the calls of a test; what leaves is the storage behind a door, and
changes that are over when the caches have heard of them.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from pyinformer._clock import monotonic
from pyinformer.apimachinery import InvalidArgumentError, JSONObject
from pyinformer.testing import _clock
from pyinformer.testing._access import Access
from pyinformer.testing._control import ObjectControl
from pyinformer.testing._door import Backend
from pyinformer.testing._faults import FaultScript
from pyinformer.testing._journal import Journal
from pyinformer.testing._leases import Leases
from pyinformer.testing._resources import Registry
from pyinformer.testing._storage import Storage
from pyinformer.testing._watching import WatchSettings
from pyinformer.testing._writes import Writes

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_HISTORY: Final = 10_000
_DAY_SECONDS: Final = 86_400.0


class WorldObjects(ObjectControl):
    """Reads and writes objects directly; `World` inherits it.

    Args:
        objects: what exists.
        seed: of uids and generated names.

    Raises:
        InvalidArgumentError: that is no list of objects.
    """

    def __init__(self, objects: Iterable[JSONObject], *, seed: int) -> None:
        self._storage = Storage(window_size=_HISTORY, history_size=_HISTORY)
        self._registry = Registry()
        self._faults = FaultScript(seed)
        self._writes = Writes(
            self._storage,
            Leases(None),
            self._registry,
            rng=random.Random(seed),
            monotonic=monotonic,
            timestamp=_clock.timestamp,
            strict_namespaces=False,
        )
        for namespace in _NAMESPACES:
            super().create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        for obj in (objects,) if isinstance(objects, str | dict) else objects:
            if not isinstance(obj, dict) or obj is objects:
                reason = f"is a list of objects: World([{{...}}]), not of {type(obj).__name__}"
                raise InvalidArgumentError("objects", reason)
            self._register_kind_of(obj)
            super().create(obj)

    @abstractmethod
    def _settled(self, change: Callable[[], JSONObject]) -> JSONObject:
        """Change something, and wait until all that follows has come to rest."""

    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object, as somebody else would; an unknown kind is registered.

        Args:
            obj: with apiVersion, kind, and a name or generateName.
            namespace: if the object names none; None is "default".

        Returns:
            What is stored.

        Raises:
            APIStatusError: as a client would get it; ConflictError if it exists.
        """
        self._register_kind_of(obj)
        return self._settled(partial(super().create, obj, namespace=namespace))

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object, status included, as somebody else would.

        Args:
            obj: the new object; a resourceVersion or uid in it is a precondition.

        Returns:
            What is stored.

        Raises:
            APIStatusError: as a client would get it; ConflictError if a precondition fails.
        """
        return self._settled(partial(super().update, obj))

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch to an object, status included, as somebody else would.

        Returns:
            What is stored.

        Raises:
            APIStatusError: as a client would get it.
        """
        patch = partial(super().patch, api_version, plural, name, changes, namespace)
        return self._settled(patch)

    def delete(
        self,
        api_version: str,
        plural: str,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> JSONObject:
        """Delete an object, as somebody else would; with finalizers it is only marked.

        Args:
            api_version: `v1` or `apps/v1`.
            plural: `pods`.
            name: its name.
            namespace: None is "default".
            uid: a precondition.
            resource_version: a precondition.

        Returns:
            Its last state.

        Raises:
            NotFoundError: there is none.
            ConflictError: a precondition fails.
        """
        delete = partial(super().delete, api_version, plural, name, namespace)
        return self._settled(partial(delete, uid=uid, resource_version=resource_version))

    def collect_garbage(self) -> int:
        """Do what a cluster's garbage collector does; the caches hear of it before this returns.

        Returns:
            How many objects were deleted, or told to go.
        """
        return int(
            self._settled(lambda: {"deleted": super(WorldObjects, self).collect_garbage()})[
                "deleted"
            ]
        )

    def _register_kind_of(self, obj: JSONObject) -> None:
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        if api_version and kind and self._registry.find_kind(api_version, kind) is None:
            self.register(api_version, kind, _plural_of(kind), has_status=True)

    @property
    def _backend(self) -> Backend:
        return Backend(
            storage=self._storage,
            registry=self._registry,
            writes=self._writes,
            access=Access((), now=monotonic()),
            journal=Journal(),
            faults=self._faults,
            settings=WatchSettings(
                bookmark_interval_seconds=60.0,
                final_bookmark_lead_seconds=2.0,
                default_timeout_seconds=_DAY_SECONDS,
                expired_watch="event",
                patience_seconds=0.25,
            ),
            token_lifetime_seconds=300.0,
            watch_list=lambda: True,
            now=monotonic,
        )


def _plural_of(kind: str) -> str:
    """Guess the plural of an English word."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"
