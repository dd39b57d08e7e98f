"""Builds a program when the first object appears that it has to process.

A plane that exists for one test does not need most controllers; their modules, caches and watches would be a large part
of its start. Descriptors declare which objects a controller processes (``Watch.predicate``). ``OnDemand`` watches for
such an object and then builds the controller, for which this is like a start of its process: it lists the existing
objects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer
from pilothouse.runtime.watches import Watch


class Runnable(Protocol):
    """A controller, or another program of the same kind."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


class OnDemand:
    """Runs the result of ``build`` as soon as there is an object that matches the ``predicate`` of one of ``watches``.

    Create it before the informers are started, without an await in between.
    """

    def __init__(
        self,
        name: str,
        watches: Iterable[Watch],
        informers: InformerFactory,
        build: Callable[[], Awaitable[Runnable]],
    ) -> None:
        self.name = name
        self._build = build
        self._needed = asyncio.Event()
        self._built = asyncio.Event()
        self._informers: list[SharedInformer[Any]] = []
        self._handlers: list[Registration[Any]] = []
        for watch in watches:
            if watch.predicate is not None:
                informer = watch.informer(informers)
                self._informers.append(informer)
                self._handlers.append(self._listen(informer, watch.predicate))

    def _listen(self, informer: SharedInformer[Any], predicate: Callable[[Any], bool]) -> Registration[Any]:
        def seen(obj: Any) -> None:
            if not self._needed.is_set() and predicate(obj):
                self._needed.set()

        return informer.add_handler(lambda obj, _initial: seen(obj), lambda _old, obj: seen(obj), resync_seconds=0.0)

    async def run(self) -> None:
        """Wait until there is something to do, then do it until cancelled."""
        await self._needed.wait()
        for handler in self._handlers:
            handler.remove()
        program = await self._build()
        self._built.set()
        await program.run()

    async def wait_built(self) -> None:
        """Return after the initial lists were processed, and the program was built if it has something to do."""
        for informer in self._informers:
            await informer.wait_synced()
        if self._needed.is_set():
            await self._built.wait()


def supports_on_demand(watches: Iterable[Watch]) -> bool:
    """Whether a controller with these watches may have nothing to do."""
    return any(watch.predicate is not None for watch in watches)


def keep_raw_for(watches: Iterable[Watch], informers: InformerFactory) -> None:
    """Make informers keep the raw objects that the controller will need: a running informer cannot start to."""
    for watch in watches:
        if watch.keep_raw:
            informers.keep_raw(
                watch.kind,
                namespace=watch.namespace,
                label_selector=watch.label_selector,
                field_selector=watch.field_selector,
            )
