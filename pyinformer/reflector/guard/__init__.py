"""The guard: what an event may do to the store and to the position, without I/O and a clock."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.reflector.guard._counts import Counts, GuardStatistics
from pyinformer.reflector.guard._guard import Guard, Suspicion
from pyinformer.reflector.guard._order_policy import OrderPolicy
from pyinformer.reflector.guard._rules import Decision, Order

__all__ = ["Counts", "Decision", "Guard", "GuardStatistics", "Order", "OrderPolicy", "Suspicion"]
