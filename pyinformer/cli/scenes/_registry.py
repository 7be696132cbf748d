"""The scenes, in the order in which the command line lists and plays them."""

from __future__ import annotations

from pyinformer.cli.scenes._avalanche import SCENE as AVALANCHE
from pyinformer.cli.scenes._backward_position import SCENE as BACKWARD_POSITION
from pyinformer.cli.scenes._etcd_restore import SCENE as ETCD_RESTORE
from pyinformer.cli.scenes._lock_during_connect import SCENE as HELD_LOCK
from pyinformer.cli.scenes._mutated_cache import SCENE as MUTATED_CACHE
from pyinformer.cli.scenes._resync_storm import SCENE as RESYNC_STORM
from pyinformer.cli.scenes._scene import Scene

SCENES: tuple[Scene, ...] = (
    MUTATED_CACHE,
    BACKWARD_POSITION,
    AVALANCHE,
    HELD_LOCK,
    RESYNC_STORM,
    ETCD_RESTORE,
)
