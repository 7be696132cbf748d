"""The guard: what an event may do to the store and to the position, without I/O and a clock."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.cache.reflector.guard._counts import Counts, GuardStatistics
from pyinformer.cache.reflector.guard._guard import Guard, Suspicion
from pyinformer.cache.reflector.guard._order_policy import OrderPolicy
from pyinformer.cache.reflector.guard._version_order_rules import Decision, Order

__all__ = ["Counts", "Decision", "Guard", "GuardStatistics", "Order", "OrderPolicy", "Suspicion"]
