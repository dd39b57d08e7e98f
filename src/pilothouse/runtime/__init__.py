"""What controllers run on: informers and their caches, work queues, expectations, claims, events, leader election.

For authors of controllers, ours and others' (docs/runtime.md is the guide). The names below are public; importing this
package loads nothing until one of them is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilothouse.runtime.backoff import Backoff
    from pilothouse.runtime.batches import run_all, slow_start
    from pilothouse.runtime.cache import Cache, Cached, object_key, split_key
    from pilothouse.runtime.claims import ClaimError, Claims, classify, controller_index_key, index_by_controller
    from pilothouse.runtime.consistency import ConsistencyGuard, StaleCache, heard_by
    from pilothouse.runtime.context import ControllerContext
    from pilothouse.runtime.controller import Controller, Requeue, WorkerPool
    from pilothouse.runtime.descriptor import Descriptor, FlagSpec, RunnableController, Watch
    from pilothouse.runtime.election import Fence, LeaderElector, LeadershipLost
    from pilothouse.runtime.events import EventRecorder, object_reference
    from pilothouse.runtime.expectations import Expectations, UidTrackingExpectations
    from pilothouse.runtime.guards import LostLease, RetryLater, TerminalError
    from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer
    from pilothouse.runtime.metrics import Registry
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
    from pilothouse.runtime.workqueue import QueueClosed, WorkQueue

_MODULES = {
    "backoff": ("Backoff",),
    "batches": ("run_all", "slow_start"),
    "cache": ("Cache", "Cached", "object_key", "split_key"),
    "claims": ("ClaimError", "Claims", "classify", "controller_index_key", "index_by_controller"),
    "consistency": ("ConsistencyGuard", "StaleCache", "heard_by"),
    "context": ("ControllerContext",),
    "controller": ("Controller", "Requeue", "WorkerPool"),
    "descriptor": ("Descriptor", "FlagSpec", "RunnableController", "Watch"),
    "election": ("Fence", "LeaderElector", "LeadershipLost"),
    "events": ("EventRecorder", "object_reference"),
    "expectations": ("Expectations", "UidTrackingExpectations"),
    "guards": ("LostLease", "RetryLater", "TerminalError"),
    "informer": ("InformerFactory", "Registration", "SharedInformer"),
    "metrics": ("Registry",),
    "pod_control": ("PodControl", "pod_body"),
    "rate_limiters": (
        "BucketLimiter",
        "ExponentialFailureLimiter",
        "FastSlowLimiter",
        "MaxOfLimiter",
        "MaxWaitLimiter",
        "RateLimiter",
        "default_controller_limiter",
        "default_item_limiter",
    ),
    "workqueue": ("QueueClosed", "WorkQueue"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Backoff",
    "BucketLimiter",
    "Cache",
    "Cached",
    "ClaimError",
    "Claims",
    "ConsistencyGuard",
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
    "Watch",
    "WorkQueue",
    "WorkerPool",
    "classify",
    "controller_index_key",
    "default_controller_limiter",
    "default_item_limiter",
    "heard_by",
    "index_by_controller",
    "object_key",
    "object_reference",
    "pod_body",
    "run_all",
    "slow_start",
    "split_key",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found
