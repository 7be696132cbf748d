"""Which clusters a fleet is to have, and what the connection to each depends on."""

# Pure: it knows no event loop.

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

from pyinformer._runtime.tasks import error_text
from pyinformer.errors import (
    CacheNotSyncedError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    NotCachedError,
)
from pyinformer.objects import check_iterable, plain_text

if TYPE_CHECKING:
    from pyinformer.cache.informer import SharedInformer
    from pyinformer.objects import KubeObject

Address: TypeAlias = "Callable[[KubeObject[Any]], object]"
"""Returns what the connection to an object's cluster depends on, to be compared with `==`; None if
the cluster is not to be used at present."""


class _Known(NamedTuple):
    """What was computed of one object."""

    version: str
    """Of the object."""
    address: object
    number: int
    """Another one for each address: to compare those runs code of the user."""


def content_of(obj: KubeObject[Any]) -> object:
    """Return what is compared by default: the uid, and all but the metadata and the status."""
    content = {
        name: value for name, value in obj.to_dict().items() if name not in {"metadata", "status"}
    }
    # A digest: it may be a Secret with credentials, and there may be many.
    return obj.metadata.uid, blake2b(json.dumps(content, sort_keys=True).encode()).digest()


def checked_name_list(names: Iterable[str]) -> tuple[str, ...]:
    """Return names, each once, in their order.

    Raises:
        InvalidTypeError: one of them is not a text, or they are a single text.
        InvalidArgumentError: one is empty.
    """
    if isinstance(names, str):
        raise InvalidTypeError("names", f"must be several names, not the text {names!r}")
    check_iterable("names", names, shown="names, or an informer")
    given = tuple(names)
    for name in given:
        if not isinstance(name, str):
            raise InvalidTypeError("names", f"must be texts, got {type(name).__name__}")
        if not name:
            raise InvalidArgumentError("names", "must not be empty")
    return tuple(dict.fromkeys(given))


@final
class FollowedNames:
    """The clusters that the objects of an informer stand for, by the objects' keys.

    Args:
        informer: of the objects.
        address: what the connection to the cluster of one depends on.
    """

    def __init__(self, informer: SharedInformer[Any], address: Address) -> None:
        self.informer: SharedInformer[Any] = informer
        self._address = address
        self._numbers = count()
        self._known: dict[str, _Known] = {}
        self.failures: dict[str, str] = {}
        """Why the address of a key is not known."""

    def read(self) -> dict[str, object]:
        """Return what stands for the addresses, by name, of clusters that are to be used.

        It is another one after each change. An object whose address cannot be computed keeps its
        last one, and so does one that cannot be read at present: only what is gone is left out.

        Raises:
            LifecycleError: the informer is closed, or has crashed.
        """
        if not self.informer.is_running:
            raise LifecycleError(f"{self.informer!r} is not running any more")
        known: dict[str, _Known] = {}
        failures: dict[str, str] = {}
        for obj in self.informer.lister.list(allow_unsynced=True):
            key = plain_text(obj.key)
            found, failure = self._look(obj, self._known.get(key))
            if failure:
                failures[key] = failure
            if found is not None:
                known[key] = found
        for key, before in self._known.items():
            if key not in known and self._may_exist(key):
                known[key] = before
        self._known, self.failures = known, failures
        return {key: one.number for key, one in known.items() if one.address is not None}

    def _look(self, obj: KubeObject[Any], before: _Known | None) -> tuple[_Known | None, str]:
        version = f"{obj.metadata.uid} {obj.metadata.resource_version}"
        if before is not None and before.version == version:
            return before, ""
        try:
            address = self._address(obj)
            is_same = before is not None and bool(before.address == address)
        except Exception as error:  # noqa: BLE001 - the user's; it concerns this cluster alone
            return before, f"address(): {error_text(error)}"
        number = before.number if before is not None and is_same else next(self._numbers)
        return _Known(version, address, number), ""

    def _may_exist(self, key: str) -> bool:
        """Return whether an object that is not cached may exist: its namespace is not read."""
        try:
            return self.informer.lister.get(key) is not None
        except CacheNotSyncedError:
            return True
        except NotCachedError:  # its namespace is not followed any more
            return False


def changes(
    wanted: dict[str, object], kept: dict[str, object]
) -> tuple[Collection[str], Collection[str]]:
    """Return the names to begin with, and those to end with: gone, or at another address."""
    ends = {name for name, address in kept.items() if wanted.get(name, kept) != address}
    return [name for name in wanted if name not in kept], ends
