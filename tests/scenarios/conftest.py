"""Coroutine tests that run inside of a simulation: ``async def test_…(simulation: Simulation)``.

``pytest.mark.simulation`` says what is simulated; a test's mark adds to its module's:

* ``options``, ``invariants``, ``seed``: those of ``simulate``; a test's ``seed`` or ``past_seed`` argument comes first,
  and options and invariants may be functions of the test's arguments;
* ``patches``: attributes that are replaced before the simulation starts;
* ``fails``: how the run must fail.

``broken_without`` (``tests.scenarios.variants``) runs a test twice, as it is and with patches or other options.
"""

import contextlib
import functools
import inspect
from typing import Any

import pytest
from tests.scenarios.variants import WITHOUT

from pilothouse.sim import Simulation, SimulationFailed, simulate


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> str:
    """Which of two variants a test of ``broken_without`` is."""
    return getattr(request, "param", "")


@pytest.fixture
def simulation(variant: str) -> None:
    """The simulation that the test runs in: see ``pytest_pyfunc_call``."""
    del variant


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a test with a ``simulation`` argument inside of one; leave others to the next hook."""
    names = pyfuncitem._fixtureinfo.argnames
    if "simulation" not in names or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    settings: dict[str, Any] = {}
    for mark in pyfuncitem.iter_markers("simulation"):
        settings = {**mark.kwargs, **settings}
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name != "simulation"}
    fails, patches, instead = (settings.pop(key, None) for key in ("fails", "patches", "instead"))
    variant = pyfuncitem.funcargs["variant"]
    broken = variant == WITHOUT or (not variant and fails)
    if broken and instead is not None:
        settings["options"] = instead
    for name in ("options", "invariants"):
        setting = settings.get(name)
        if callable(setting):
            wanted = inspect.signature(setting).parameters
            settings[name] = functools.partial(setting, **{each: pyfuncitem.funcargs[each] for each in wanted})
    if callable(settings.get("options")):
        settings["options"] = settings["options"]()
    for name in ("seed", "past_seed"):
        settings["seed"] = pyfuncitem.funcargs.get(name, settings.get("seed", 0))

    async def scenario(simulation: Simulation) -> None:
        await pyfuncitem.obj(simulation=simulation, **arguments)

    with pytest.MonkeyPatch.context() as monkeypatch:
        for target, name, replacement in (patches or ()) if broken else ():
            monkeypatch.setattr(target, name, replacement)
        with pytest.raises(SimulationFailed, match=fails) if broken else contextlib.nullcontext():
            simulate(scenario, **settings)
    return True
