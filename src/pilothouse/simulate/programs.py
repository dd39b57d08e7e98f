"""Operators and controllers under test in a scenario. They meet the faults in the manager's place."""

import functools

from pilothouse.operator.app_file import AppFileError, load_app
from pilothouse.sim.process import Program
from pilothouse.simulate.scenario import ScenarioError
from pilothouse.testing.simulated_program import simulated_program


@functools.cache
def load(reference: str) -> Program:
    """The operator in ``FILE`` or ``FILE:NAME``. Raises ``ScenarioError``; what the file itself raises is its author's
    to see."""
    try:
        return simulated_program(load_app(reference))
    except AppFileError as error:
        raise ScenarioError(f"spec.programs: {error}") from error
