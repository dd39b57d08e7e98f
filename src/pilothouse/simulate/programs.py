"""Loads operators and controllers under test. Faults apply to them instead of the manager."""

import functools

from pilothouse.operator.app_file import AppFileError, load_app
from pilothouse.sim.process import Program
from pilothouse.simulate.scenario import ScenarioError
from pilothouse.testing.simulated_program import simulated_program


@functools.cache
def load(reference: str) -> Program:
    """Load the operator in ``FILE`` or ``FILE:NAME``. Raises ``ScenarioError``; exceptions of the file itself are not
    caught."""
    try:
        return simulated_program(load_app(reference))
    except AppFileError as error:
        raise ScenarioError(f"spec.programs: {error}") from error
