"""A program that is built with the first object that gives it something to do.

A plane that lives for one test has no use for most controllers: their modules, caches and watches are a good part of
what its start costs. Descriptors say what gives a controller something to do (``Watch.predicate``). Until there is such
an object ``OnDemand`` stands in for it. What comes then is to the controller as if its process had just been started:
it reads what is there.
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
    """Runs what ``build`` makes, once there is an object that the ``predicate`` of one of ``watches`` accepts.

    To be made before the informers start, without an await in between.
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

    async def settled(self) -> None:
        """Return once what there is has been seen, and the program is built if that gives it something to do."""
        for informer in self._informers:
            await informer.wait_synced()
        if self._needed.is_set():
            await self._built.wait()


def can_wait(watches: Iterable[Watch]) -> bool:
    """Whether a controller with these watches may have nothing to do."""
    return any(watch.predicate is not None for watch in watches)


def keep_raw_for(watches: Iterable[Watch], informers: InformerFactory) -> None:
    """Have informers keep the raw objects that a controller needs later: a running informer can't begin to."""
    for watch in watches:
        if watch.keep_raw:
            informers.keep_raw(
                watch.kind,
                namespace=watch.namespace,
                label_selector=watch.label_selector,
                field_selector=watch.field_selector,
            )
