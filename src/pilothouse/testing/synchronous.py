"""``plane``: a plane for synchronous tests, in its own thread, and ``Cluster``, its interface for tests.

The test uses it through the methods here, which run in that thread, or over HTTP with any client: ``url`` and
``kubeconfig`` have the address.
"""

import asyncio
import concurrent.futures
import contextlib
import datetime
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pilothouse.client import Client
from pilothouse.env import Env, loops
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.memory import collecting_rarely, creating_permanent_objects
from pilothouse.env.movable import MovableClock, MovableLoop
from pilothouse.nodes import Profile
from pilothouse.testing.asynchronous import (
    QUICK,
    AsyncCluster,
    Condition,
    Object,
    Objects,
    async_plane,
    expected,
    is_expected,
)
from pilothouse.testing.running import Program, ProgramUnderTest

if TYPE_CHECKING:
    from pilothouse.client.interceptor import Rule
    from pilothouse.operator import App, Settings
    from pilothouse.testing.manifests import Definitions, Manifests, OneObject

with lazy_imports():
    from pilothouse.testing import mistakes

T = TypeVar("T")
__tracebackhide__ = is_expected


class PlaneEnded(RuntimeError):
    """The plane has ended: stopped, or failed with the exception that caused this one."""


class Cluster:
    """A running plane, with a default namespace, as the administrator. For any thread but the plane's own.

    Objects are addressed as in a manifest, by apiVersion, kind and name, and are plain dictionaries. Errors of the API
    server are raised as ``pilothouse.client.errors.ApiError``.
    """

    def __init__(self, cluster: AsyncCluster, thread: "PlaneThread") -> None:
        self._cluster = cluster
        self._thread = thread

    @property
    def namespace(self) -> str:
        """The namespace of objects that have none."""
        return self._cluster.namespace

    @property
    def url(self) -> str:
        """Where the API server is."""
        return self._cluster.url

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file of the administrator in this namespace; deleted with the plane."""
        return self._cluster.kubeconfig

    def in_namespace(self, name: str) -> "Cluster":
        """The same plane, with another default namespace."""
        return Cluster(self._cluster.in_namespace(name), self._thread)

    def new_namespace(self, prefix: str = "test-") -> "Cluster":
        """Create a namespace for one test."""
        return Cluster(self._thread.call(self._cluster.new_namespace(prefix)), self._thread)

    def lag(self, seconds: float) -> None:
        """From now on the API server serves watches, and lists from its cache, with a state of that age in seconds.
        Infinity stops its updates; 0 ends the delay. Affects the whole plane: use a separate one."""

        async def on_loop() -> None:
            self._cluster.lag(seconds)

        self._thread.call(on_loop())

    def compact(self) -> None:
        """Make the API server drop its history: an older resource version or ``continue`` token gets 410, with reason
        Expired. Open watches continue."""

        async def on_loop() -> None:
            self._cluster.compact()

        self._thread.call(on_loop())

    def now(self) -> datetime.datetime:
        """The plane's wall time, in UTC."""
        return self._cluster.plane.env.now()

    def advance(self, seconds: float) -> None:
        """Advance the clock: everything that is due in that time happens, in its order. Returns when it has.

        For planes with ``movable_clock=True``, others raise ``RuntimeError``. A thousand seconds take about one.
        """
        self._thread.advance(seconds)

    @contextlib.contextmanager
    def restoring_definitions(self) -> Iterator[None]:
        """At the end of the block restore the CustomResourceDefinitions of its start: new ones are deleted with all
        their objects, regardless of finalizers; changed and deleted ones are restored.

        Raises ``Timeout`` with the objects that could not be deleted.
        """
        restoring = self._cluster.restoring_definitions()
        self._thread.call(restoring.__aenter__())
        try:
            yield
        finally:
            self._thread.call(restoring.__aexit__(None, None, None))

    def reset(self) -> None:
        """Restore the state in which the plane was ready: objects created since are deleted, changed ones are restored.
        Affects the whole plane: use a separate one. Raises ``Timeout``."""
        self._thread.call(self._cluster.reset())

    def create(self, manifest: "OneObject") -> Object:
        """Create an object, in its own namespace if it has one. Returns the stored object. Unknown fields are an error,
        as with kubectl. ``manifest`` may be YAML text of one object, or a model of the ``kubernetes`` package."""
        return self._thread.call(self._cluster.create(manifest))

    def apply(self, manifest: "Manifests") -> Objects:
        """Server-side apply with force, in the given order; returns the stored objects.

        ``manifest`` is the path of a file or directory, YAML text, a mapping, or a list of them. When this returns,
        CustomResourceDefinitions are established. Unknown fields are an error.
        """
        return self._thread.call(self._cluster.apply(manifest))

    def get(self, api_version: str, kind: str, name: str) -> Object:
        """One object. Raises ``NotFound``."""
        return self._thread.call(self._cluster.get(api_version, kind, name))

    def list(self, api_version: str, kind: str, *, label_selector: str = "") -> Objects:
        """The objects of a kind, by name."""
        return self._thread.call(self._cluster.list(api_version, kind, label_selector=label_selector))

    def patch(
        self, api_version: str, kind: str, name: str, changes: Mapping[str, Any], *, subresource: str = ""
    ) -> Object:
        """Change an object by a JSON merge patch: fields are replaced, ``None`` removes one."""
        return self._thread.call(self._cluster.patch(api_version, kind, name, changes, subresource=subresource))

    def delete(self, api_version: str, kind: str, name: str, *, propagation_policy: str = "Background") -> None:
        """Request an object's deletion. Returns immediately: ``wait_for`` waits until it is gone."""
        self._thread.call(self._cluster.delete(api_version, kind, name, propagation_policy=propagation_policy))

    def wait_for(
        self, api_version: str, kind: str, name: str, condition: Condition, *, seconds: float = 10.0
    ) -> Object | None:
        """Wait until the condition is true for the object, ``None`` if it does not exist; returns it.

        The condition is called in the plane's thread, after every change; a ``LookupError`` or ``TypeError`` of it
        means that it is not true yet, as for a field that is not set. Raises ``Timeout`` (an ``AssertionError``) with
        the last state of the object and the reasons: its conditions, events of it and its dependents, and missing
        permissions of programs under test; for an ``App`` the backoff of the object and the error of its last sync.
        """
        return self._thread.call(self._cluster.wait_for(api_version, kind, name, condition, seconds=seconds))

    def run(self, program: Callable[[Client], Awaitable[T]]) -> T:
        """Run a coroutine function on the plane's loop, with an administrator's client, and return its result."""

        async def on_loop() -> T:
            return await program(self._cluster.client)

        return self._thread.call(on_loop())

    @contextlib.contextmanager
    def running(
        self,
        program: "Program | App",
        *,
        as_: str = "",
        settings: "Settings | None" = None,
        faults: "Sequence[Rule]" = (),
    ) -> Iterator[None]:
        """Run your own program in the plane's loop during the block: an ``App`` (with these ``settings``), or a
        coroutine function ``program(client, env)``, cancelled at its end. The definitions of an app are applied unless
        they exist.

        It is an administrator, or the user ``as_``. A service account (``system:serviceaccount:NAMESPACE:NAME``) gets
        the roles that are generated for the app, for the block; the plane needs ``authorization="RBAC"``. ``faults``
        happen to its requests only.

        If it has failed by the end of the block, that error is raised then. Raises ``MissingRight`` at the end if it
        sent a request that it is not allowed to.
        """

        async def begin() -> tuple[ProgramUnderTest, asyncio.Task[object]]:
            started = await self._cluster.start_program(program, as_=as_, settings=settings, faults=faults)
            return started, asyncio.get_running_loop().create_task(started.run(), name="program")

        async def end(started: ProgramUnderTest, running: asyncio.Task[object]) -> None:
            running.cancel()
            (ended,) = await asyncio.gather(running, return_exceptions=True)
            await self._cluster.end_program(started)
            if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                raise ended
            started.check_rights()

        started, running = self._thread.call(begin())
        try:
            yield
        finally:
            self._thread.call(end(started, running))


class PlaneThread:
    """Runs one plane in its own loop from ``start`` to ``stop``."""

    _started = False
    """Whether this process has started one."""

    def __init__(self, settings: Mapping[str, Any], *, movable_clock: bool = False) -> None:
        self._settings = settings
        self._clock = MovableClock() if movable_clock else None
        self._ready: concurrent.futures.Future[AsyncCluster] = concurrent.futures.Future()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finish: asyncio.Event | None = None
        # The thread must not prevent the exit of a crashed test run.
        self._thread = threading.Thread(target=self._main, name="pilothouse plane", daemon=True)

    def start(self) -> AsyncCluster:
        """Start, and return when the plane is ready. Raises the error that prevented that."""
        with self._in_starting():
            self._thread.start()
            try:
                return self._ready.result()
            except expected() as error:
                raise error.with_traceback(None)  # noqa: B904 - as in ``call``

    @classmethod
    def _in_starting(cls) -> AbstractContextManager[None]:
        """A start mostly creates modules, classes and caches, which have no cycles to collect."""
        if cls._started:
            return collecting_rarely()
        cls._started = True
        return creating_permanent_objects()

    def stop(self) -> None:
        """End the plane and its thread. Raises the failure that ended it before, if one did."""
        if self._loop is not None and self._finish is not None:
            # The loop is closed already if the plane has failed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join()
        if self._failure is not None:
            raise PlaneEnded("the plane failed") from self._failure

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the plane's loop; its result or exception. Raises ``PlaneEnded``."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise mistakes.InCallback
        loop = self._loop
        if loop is None or loop.is_closed():
            coroutine.close()
            raise PlaneEnded("the plane has ended") from self._failure
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except expected() as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error, without the way it has come
        except concurrent.futures.CancelledError:
            self._thread.join()
            raise PlaneEnded("the plane has ended") from self._failure
        except BaseException:
            # Ctrl-C, or a test's time limit: calls that are no longer awaited must not continue.
            future.cancel()
            raise

    def advance(self, seconds: float) -> None:
        """Move the plane's clock ahead."""
        if self._clock is None:
            raise mistakes.NoMovableClock
        self.call(self._clock.advance(seconds))

    def _main(self) -> None:
        try:
            if self._clock is None:
                loops.run(self._run())
                return
            clock = self._clock
            with asyncio.Runner(loop_factory=lambda: MovableLoop(clock)) as runner:
                runner.run(self._run())
        except BaseException as error:  # noqa: BLE001  # it belongs to the thread that waits: start, call or stop raise it
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._finish = asyncio.Event()
        env = Env() if self._clock is None else Env(clock=self._clock)
        async with async_plane(**self._settings, env=env) as cluster:
            self._ready.set_result(cluster)
            await self._finish.wait()


class PlaneContext:
    """The result of ``plane``: a context manager and a decorator."""

    _started = False
    """Whether this process has started one."""

    def __init__(self, settings: Mapping[str, Any], *, movable_clock: bool) -> None:
        self._settings = settings
        self._movable_clock = movable_clock
        self._threads: list[PlaneThread] = []

    def __enter__(self) -> Cluster:
        thread = PlaneThread(self._settings, movable_clock=self._movable_clock)
        cluster = Cluster(thread.start(), thread)
        self._threads.append(thread)
        return cluster

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._threads.pop().stop()

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        """Run the function with its own plane, passed as ``cluster`` if it has that argument."""
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__name__} is asynchronous: use async_plane inside it")
        signature = inspect.signature(function)
        takes_it = "cluster" in signature.parameters

        @functools.wraps(function)
        def with_plane(*arguments: Any, **keywords: Any) -> T:
            with self as cluster:
                return function(*arguments, **keywords, **({"cluster": cluster} if takes_it else {}))

        # pytest reads the signature, and would search a fixture of that name.
        left = [parameter for name, parameter in signature.parameters.items() if name != "cluster"]
        with_plane.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return with_plane


def plane(
    *,
    nodes: int = 3,
    scheduler: bool = True,
    controllers: Sequence[str] = ("*",),
    profile: Profile = QUICK,
    serve: bool = True,
    secure: bool = False,
    crds: "Definitions" = (),
    authorization: str = "AlwaysAllow",
    movable_clock: bool = False,
) -> PlaneContext:
    """A ready plane on its own thread, stopped at the end. The arguments are those of ``async_plane``.

    ``with plane() as cluster``, or ``@plane()`` over a function, which gets the cluster if it has an argument
    ``cluster``. With ``movable_clock`` a test can let time pass by ``cluster.advance``. Raises ``PlaneEnded`` at the
    end if a program of the plane has failed in the meantime.
    """
    settings = {
        "nodes": nodes,
        "scheduler": scheduler,
        "controllers": controllers,
        "profile": profile,
        "serve": serve,
        "secure": secure,
        "crds": crds,
        "authorization": authorization,
    }
    return PlaneContext(settings, movable_clock=movable_clock)
