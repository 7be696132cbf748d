"""What happened to an object, as handlers and sinks hear it.

Per key these form a life: one Added, any number of Updated, one Deleted, in order. An object that
was recreated under the same name is a Deleted and an Added. All are frozen and match by position:
`case Added(pod)`, `case Updated(old, new)`, `case Deleted(last_known)`.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, final

from msgspec import Struct

from pyinformer.apimachinery._object import KubeObject, V


@final
class Added(Struct, Generic[V], frozen=True, gc=False):
    """An object appeared."""

    object: KubeObject[V]
    is_in_initial_list: bool = False
    """It was there before this handler began to listen, or its namespace to be followed."""

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
    """Nothing changed: the handler asked to be told again from time to time."""
    may_go_back: bool = False
    """The server's history is not the one that was followed, as after a restore from a backup: the
    new state may be an older one, whatever its resource version says."""

    @property
    def key(self) -> str:
        """The object's key."""
        return self.new._key


@final
class Deleted(Struct, Generic[V], frozen=True, gc=False):
    """An object disappeared."""

    last_known: KubeObject[V]
    """The newest state that was seen; the last one that existed, unless the next field says no."""
    final_state_unknown: bool = False
    """The deletion itself was missed and found out by a list: the state may be older."""
    may_still_exist: bool = False
    """The informer has a selector: the object may exist and no longer match."""

    @property
    def key(self) -> str:
        """The object's key."""
        return self.last_known._key


Event: TypeAlias = Added[V] | Updated[V] | Deleted[V]
"""Any of the three; a match over them is exhaustive."""
