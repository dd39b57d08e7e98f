"""Watches of one resource that are held back on all connections of the simulated processes."""

import contextlib

from pilothouse.client.interceptor import Interceptor


class HeldWatches:
    """Events are held from ``add`` on until ``release``, which delivers them."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._stack = contextlib.ExitStack()

    def add(self, interceptor: Interceptor) -> None:
        """Hold those of another connection, too."""
        self._stack.enter_context(interceptor.hold(resource=self._resource))

    def release(self) -> None:
        """Deliver the events."""
        self._stack.close()
