"""Work queues: keys that wait for work, each processed by one worker at a time.

A `Queue` is fair, can delay keys, and delays failed keys longer with each failure; a
`PriorityQueue` takes urgent keys first. They do not depend on informers.
"""

from pyinformer.workqueue._limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
    default_item_based_rate_limiter,
)
from pyinformer.workqueue._ordering import Ordering
from pyinformer.workqueue._priority import LOW_PRIORITY, PriorityQueue
from pyinformer.workqueue._queue import Lease, Queue, WorkQueueStatistics

__all__ = [
    "LOW_PRIORITY",
    "BucketRateLimiter",
    "ItemExponentialFailureRateLimiter",
    "ItemFastSlowRateLimiter",
    "Lease",
    "MaxOfRateLimiter",
    "Ordering",
    "PriorityQueue",
    "Queue",
    "RateLimiter",
    "WithMaxWaitRateLimiter",
    "WorkQueueStatistics",
    "default_controller_rate_limiter",
    "default_item_based_rate_limiter",
]
