"""Work queues: keys that wait for work, each processed by one worker at a time.

`Queue` is fair, `DelayingQueue` can wait, `RateLimitingQueue` waits longer with each failure, and
`PriorityQueue` takes the urgent first. They know nothing of informers.
"""

from pyinformer.workqueue._delaying import DelayingQueue
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
from pyinformer.workqueue._queue import Lease, Queue
from pyinformer.workqueue._rate_limiting import RateLimitingQueue
from pyinformer.workqueue._statistics import WorkQueueStatistics

__all__ = [
    "LOW_PRIORITY",
    "BucketRateLimiter",
    "DelayingQueue",
    "ItemExponentialFailureRateLimiter",
    "ItemFastSlowRateLimiter",
    "Lease",
    "MaxOfRateLimiter",
    "Ordering",
    "PriorityQueue",
    "Queue",
    "RateLimiter",
    "RateLimitingQueue",
    "WithMaxWaitRateLimiter",
    "WorkQueueStatistics",
    "default_controller_rate_limiter",
    "default_item_based_rate_limiter",
]
