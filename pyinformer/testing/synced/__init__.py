"""An informer that has synced, without a server and without an event loop."""

from pyinformer.testing.synced._synced_informer import SyncedInformer, synced_informer

__all__ = [
    "SyncedInformer",
    "synced_informer",
]
