"""Which clusters a fleet is to have, and what the connection to each depends on."""

# Pure: it knows no event loop.

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, final

from pyinformer._runtime.tasks import error_text
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import check_iterable

if TYPE_CHECKING:
    from pyinformer.cache.informer import SharedInformer
    from pyinformer.objects import KubeObject

Address: TypeAlias = "Callable[[KubeObject[Any]], object]"
"""Returns what the connection to an object's cluster depends on, to be compared with `==`; None if
the cluster is not to be used at present."""


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
        self._known: dict[str, tuple[str, object]] = {}
        self.failures: dict[str, str] = {}
        """Why the address of a key is not known."""

    def read(self) -> dict[str, object]:
        """Return the addresses by name, of objects whose clusters are to be used.

        An object whose address cannot be computed keeps its last one.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed.
        """
        found: dict[str, object] = {}
        failures: dict[str, str] = {}
        known: dict[str, tuple[str, object]] = {}
        for obj in self.informer.lister.list():
            key, version = obj.key, f"{obj.metadata.uid} {obj.metadata.resource_version}"
            before = self._known.get(key)
            if before is not None and before[0] == version:
                address = before[1]
            else:
                try:
                    address = self._address(obj)
                except Exception as error:  # noqa: BLE001 - the user's; it concerns this cluster alone
                    failures[key] = f"address(): {error_text(error)}"
                    if before is None:
                        continue
                    version, address = before
            known[key] = (version, address)
            if address is not None:
                found[key] = address
        self._known, self.failures = known, failures
        return found


def changes(
    wanted: dict[str, object], kept: dict[str, object]
) -> tuple[Collection[str], Collection[str]]:
    """Return the names to begin with, and those to end with: gone, or at another address."""
    ends = {name for name, address in kept.items() if wanted.get(name, kept) != address}
    return [name for name in wanted if name not in kept], ends
