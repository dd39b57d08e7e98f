"""Faults that start with a change of an object instead of a time, which a level-triggered program must tolerate.

They apply two of Sieve's patterns (Sun et al., "Automatic Reliability Testing for Cluster Management Controllers", OSDI
2022) to single changes: a program acts on a stale state, or never observes a state. The third one, a crash in an
intermediate state, is ``faults.Crash``.
"""

import asyncio
import contextlib
from typing import Any, Protocol, assert_never

from pilothouse.sim import faults
from pilothouse.sim.replica import Replica
from pilothouse.sim.triggers import ChangeTriggers

MISSED_SECONDS = 60.0
"""Maximum time for which a resource is not watched, if the awaited change does not happen."""
_DOWN_SECONDS = 0.5

AtChange = faults.StaleCache | faults.StaleRestart | faults.MissedChange | faults.DownDuringChange


class Simulated(Protocol):
    """The operations of a simulation that a fault may use."""

    triggers: ChangeTriggers

    @property
    def replica(self) -> Replica:
        """The second API server."""

    def kill(self, *, down: float = 0.0, stale: bool = False) -> None:
        """Kill the program."""

    def end_watches(self, resource: str = "", failure: str = "ended") -> None:
        """End its watches."""

    def held_watches(self, resource: str = "") -> Any:
        """Hold its watch events during the block."""


async def inject(simulation: Simulated, fault: AtChange) -> None:
    """Wait for the change and execute the fault. Returns when the fault has ended."""
    triggers = simulation.triggers
    match fault:
        case faults.StaleCache(key=key, nth=nth, seconds=seconds):
            with contextlib.ExitStack() as stack:
                await triggers.at(key, nth, lambda: _hold(simulation, stack, fault.resource))
                await asyncio.sleep(seconds)
        case faults.StaleRestart(key=key, nth=nth, seconds=seconds):
            # Called before the second server gets the change: it stops at the previous state.
            await triggers.at(key, nth, lambda: simulation.replica.set_lag(None))
            await asyncio.sleep(seconds)
            simulation.kill(down=_DOWN_SECONDS, stale=True)
        case faults.MissedChange(key=key, nth=nth, until=until):
            with contextlib.ExitStack() as stack:
                last = triggers.at(key, until)
                await triggers.at(key, nth, lambda: _hold(simulation, stack, fault.resource))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(last, MISSED_SECONDS)
                # Held events are dropped, and the watches cannot be resumed.
                simulation.end_watches(fault.resource, "gone")
        case faults.DownDuringChange(key=key, nth=nth, down=down):
            await triggers.at(key, nth, lambda: simulation.kill(down=down))
        case _:
            assert_never(fault)


def _hold(simulation: Simulated, stack: contextlib.ExitStack, resource: str) -> None:
    stack.enter_context(simulation.held_watches(resource))
