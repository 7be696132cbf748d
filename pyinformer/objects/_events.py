"""What happened to an object: the events that handlers and sinks receive.

The events of a key alternate: one Added, any number of Updated, one Deleted. An object that was
recreated under the same name is a Deleted and an Added. All are frozen and match by position:
`case Added(pod)`, `case Updated(old, new)`, `case Deleted(last_known)`.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, final

from msgspec import Struct

from pyinformer.objects._object import KubeObject, V


@final
class Added(Struct, Generic[V], frozen=True, gc=False):
    """An object appeared."""

    object: KubeObject[V]
    is_in_initial_list: bool = False
    """It existed before this handler was added, or before its namespace was followed."""

    @property
    def key(self) -> str:
        """The object's key."""
        return self.object._key


@final
class Updated(Struct, Generic[V], frozen=True, gc=False):
    """An object changed."""

    old: KubeObject[V]
    new: KubeObject[V]
    is_resync: bool = False
    """Nothing changed: the handler was registered with a resync period."""
    may_go_back: bool = False
    """The resource versions do not say which state is newer: the server's history was replaced, as
    after a restore from a backup; or the server shows another content at the same version, as after
    a change of a definition."""

    @property
    def key(self) -> str:
        """The object's key."""
        return self.new._key


@final
class Deleted(Struct, Generic[V], frozen=True, gc=False):
    """An object disappeared."""

    last_known: KubeObject[V]
    """The newest known state; the last one that existed, unless `final_state_unknown`."""
    final_state_unknown: bool = False
    """The deletion event was missed and found by a list: the state may be older."""
    may_still_exist: bool = False
    """The informer has a selector: the object may exist and no longer match."""

    @property
    def key(self) -> str:
        """The object's key."""
        return self.last_known._key


Event: TypeAlias = Added[V] | Updated[V] | Deleted[V]
"""Any of the three; a match over them is exhaustive."""
