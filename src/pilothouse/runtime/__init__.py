"""The controller runtime: informers and caches, work queues, expectations, claims, events, leader election.

For authors of controllers, built-in and external (the guide is docs/runtime.md). The names below are public. Importing
this package loads nothing; each name is loaded at its first use.
"""

from pilothouse.env.lazy import lazy_exports

with lazy_exports():
    from pilothouse.machinery.metrics import Registry
    from pilothouse.machinery.names import object_key, split_key
    from pilothouse.machinery.owners import (
        controller_of,
        is_controlled_by,
        new_controller_reference,
        object_reference,
    )
    from pilothouse.runtime.backoff import Backoff
    from pilothouse.runtime.batches import run_all, slow_start
    from pilothouse.runtime.cache import Cache, Cached
    from pilothouse.runtime.claims import ClaimError, Claims, classify, controller_index_key, index_by_controller
    from pilothouse.runtime.consistency import ConsistencyStore, StaleCache, read_versions
    from pilothouse.runtime.context import ControllerContext
    from pilothouse.runtime.controller import Controller, ManagedController, Requeue, WorkerPool
    from pilothouse.runtime.descriptor import Descriptor, FlagSpec, RunnableController
    from pilothouse.runtime.election import Fence, LeaderElector, LeadershipLost
    from pilothouse.runtime.errors import LostLease, RetryLater, TerminalError
    from pilothouse.runtime.events import EventRecorder
    from pilothouse.runtime.expectations import Expectations, UidTrackingExpectations
    from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer
    from pilothouse.runtime.pod_control import PodControl, pod_body
    from pilothouse.runtime.rate_limiters import (
        BucketLimiter,
        ExponentialFailureLimiter,
        FastSlowLimiter,
        MaxOfLimiter,
        MaxWaitLimiter,
        RateLimiter,
        default_controller_limiter,
        default_item_limiter,
    )
    from pilothouse.runtime.watches import UndeclaredWatch, Watch
    from pilothouse.runtime.workqueue import QueueClosed, WorkQueue

__all__ = [
    "Backoff",
    "BucketLimiter",
    "Cache",
    "Cached",
    "ClaimError",
    "Claims",
    "ConsistencyStore",
    "Controller",
    "ControllerContext",
    "Descriptor",
    "EventRecorder",
    "Expectations",
    "ExponentialFailureLimiter",
    "FastSlowLimiter",
    "Fence",
    "FlagSpec",
    "InformerFactory",
    "LeaderElector",
    "LeadershipLost",
    "LostLease",
    "ManagedController",
    "MaxOfLimiter",
    "MaxWaitLimiter",
    "PodControl",
    "QueueClosed",
    "RateLimiter",
    "Registration",
    "Registry",
    "Requeue",
    "RetryLater",
    "RunnableController",
    "SharedInformer",
    "StaleCache",
    "TerminalError",
    "UidTrackingExpectations",
    "UndeclaredWatch",
    "Watch",
    "WorkQueue",
    "WorkerPool",
    "classify",
    "controller_index_key",
    "controller_of",
    "default_controller_limiter",
    "default_item_limiter",
    "index_by_controller",
    "is_controlled_by",
    "new_controller_reference",
    "object_key",
    "object_reference",
    "pod_body",
    "read_versions",
    "run_all",
    "slow_start",
    "split_key",
]
