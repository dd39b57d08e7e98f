"""A control plane inside your tests: API server, controllers, scheduler and simulated nodes in the test's own process.

``plane`` is for synchronous tests (it owns the thread that serves), ``async_plane`` for asynchronous ones, also in
virtual time. The pytest plugin (``pilothouse.testing.plugin``) makes fixtures of both. Nothing is imported before it
is used: pytest loads this package at every start, also for runs that never touch a cluster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilothouse.testing.asynchronous import AsyncCluster, async_plane
    from pilothouse.testing.synchronous import Cluster, plane

__all__ = ["AsyncCluster", "Cluster", "async_plane", "plane"]

_HOMES = {
    "AsyncCluster": "asynchronous",
    "async_plane": "asynchronous",
    "Cluster": "synchronous",
    "plane": "synchronous",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from pilothouse.env.memory import seldom_collecting

    with seldom_collecting():
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
