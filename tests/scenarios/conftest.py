"""Coroutine tests inside a simulation: ``async def test_…(simulation: Simulation)``.

``pytest.mark.simulation`` configures the simulation; a test's mark adds to its module's:

* ``options``, ``invariants``, ``seed``: those of ``simulate``; a test's ``seed`` or ``past_seed`` argument comes first;
* ``patches``: attributes that are replaced before the simulation starts;
* ``fails``: how the run must fail.

All but the seed may be functions of the test's fixtures and parameters.

``broken_without`` (``tests.scenarios.variants``) runs a test twice, as it is and with patches or other options.
"""

import contextlib
import functools
import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from tests.scenarios.variants import WITHOUT

from pilothouse.sim import Simulation, SimulationFailed, simulate


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> str:
    """The variant of a ``broken_without`` test."""
    return getattr(request, "param", "")


@pytest.fixture
def simulation(variant: str) -> None:
    """The simulation that the test runs in: see ``pytest_pyfunc_call``."""
    del variant


def _resolved(values: Mapping[str, Any], setting: Any) -> Any:
    """A setting, or the result of a function called with the values that its parameters name."""
    if not callable(setting):
        return setting
    return setting(**{name: values[name] for name in inspect.signature(setting).parameters})


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a test with a ``simulation`` argument inside a simulation; leave others to the next hook."""
    names = pyfuncitem._fixtureinfo.argnames
    if "simulation" not in names or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    settings: dict[str, Any] = {}
    for mark in pyfuncitem.iter_markers("simulation"):
        settings = {**mark.kwargs, **settings}
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name != "simulation"}
    wrapped = functools.partial(_resolved, pyfuncitem.funcargs)
    fails, instead = wrapped(settings.pop("fails", None)), settings.pop("instead", None)
    patches = [
        patch
        for subschema in settings.pop("patches", None) or ()
        for patch in (wrapped(subschema) if callable(subschema) else [subschema])
    ]
    variant = pyfuncitem.funcargs["variant"]
    broken = variant == WITHOUT or (not variant and fails)
    if broken and instead is not None:
        settings["options"] = instead
    settings["options"] = wrapped(settings.get("options"))
    if "invariants" in settings:
        settings["invariants"] = functools.partial(wrapped, settings["invariants"])
    for name in ("seed", "past_seed"):
        settings["seed"] = pyfuncitem.funcargs.get(name, settings.get("seed", 0))

    async def scenario(simulation: Simulation) -> None:
        await pyfuncitem.obj(simulation=simulation, **arguments)

    with pytest.MonkeyPatch.context() as monkeypatch:
        for target, name, replacement in patches if broken else ():
            monkeypatch.setattr(target, name, replacement)
        with pytest.raises(SimulationFailed, match=fails) if broken else contextlib.nullcontext():
            simulate(scenario, **settings)
    return True
