"""World: a whole cluster in the process of the test, without a server and without sockets."""

from pyinformer.testing.world._virtual_loop import VirtualLoop
from pyinformer.testing.world._world import World
from pyinformer.testing.world._world_thread import busy_handlers
from pyinformer.testing.world._write_log import WriteRecord

__all__ = [
    "VirtualLoop",
    "World",
    "WriteRecord",
    "busy_handlers",
]
