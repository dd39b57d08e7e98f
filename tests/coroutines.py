"""Coroutine tests and fixtures: ``async def test_…(env: Env)`` runs on its own virtual loop.

``env`` is the environment of the test. It depends on the test's ``seed`` and starts at its ``start``, if it has
arguments of these names. Marked ``real_loop``, a test runs on the real loop in real time, with its ``timeout``, and
``env`` is the real one.

Fixtures may be coroutines or asynchronous generators. They are set up and torn down on the loop and in the task of the
test, so a generator may keep a ``TaskGroup`` open around the test, and a failure in the group fails the test.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from tests import stores

from pilothouse.env import Env, loops, virtual

_ENV: ContextVar[Env] = ContextVar("env of the running test")


class _Pending:
    """An asynchronous fixture that is set up when the loop of its test runs."""

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self._function = function
        self._arguments = arguments
        self._entered = False
        self._value: Any = None

    async def enter(self, stack: AsyncExitStack) -> Any:
        """The fixture's value. It is set up once, after the fixtures it depends on."""
        if not self._entered:
            arguments = {name: await _entered(value, stack) for name, value in self._arguments.items()}
            if inspect.isasyncgenfunction(self._function):
                self._value = await stack.enter_async_context(asynccontextmanager(self._function)(**arguments))
            else:
                self._value = await self._function(**arguments)
            self._entered = True
        return self._value


async def _entered(value: Any, stack: AsyncExitStack) -> Any:
    return await value.enter(stack) if isinstance(value, _Pending) else value


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> object | None:
    """Postpone an asynchronous fixture until the test's loop runs; leave others to pytest."""
    name = fixturedef.argname
    asynchronous = inspect.iscoroutinefunction(fixturedef.func) or inspect.isasyncgenfunction(fixturedef.func)
    if asynchronous and fixturedef.scope != "function":
        pytest.fail(f"asynchronous fixture {name!r} must be of scope function", pytrace=False)
    if asynchronous and not inspect.iscoroutinefunction(request.function):
        pytest.fail(f"only an asynchronous test can use the asynchronous fixture {name!r}", pytrace=False)
    arguments = {argument: request.getfixturevalue(argument) for argument in fixturedef.argnames}
    if not asynchronous:
        late = [argument for argument, value in arguments.items() if isinstance(value, _Pending)]
        if late:
            pytest.fail(f"fixture {name!r} must be asynchronous, as {late[0]!r} is", pytrace=False)
        return None
    pending = _Pending(fixturedef.func, arguments)
    fixturedef.cached_result = (pending, fixturedef.cache_key(request), None)  # type: ignore[arg-type]
    return pending


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a coroutine test on its loop; leave others to pytest."""
    test: Callable[..., Awaitable[None]] = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None

    real = pyfuncitem.get_closest_marker("real_loop")

    async def main(env: Env) -> None:
        _ENV.set(env)
        async with asyncio.timeout(real and real.kwargs.get("timeout")), AsyncExitStack() as stack:
            values = {name: await _entered(value, stack) for name, value in pyfuncitem.funcargs.items()}
            stack.push_async_callback(stores.close_all)
            await test(**{name: values[name] for name in pyfuncitem._fixtureinfo.argnames})

    if real is not None:
        loops.run(main(Env()))
    else:
        arguments: dict[str, Any] = {
            key: pyfuncitem.funcargs[key] for key in ("seed", "start") if key in pyfuncitem.funcargs
        }
        virtual.run(main, **arguments)
    return True


@pytest.fixture
async def env() -> Env:
    """The environment of the test: clock, random streams and identities."""
    return _ENV.get()
