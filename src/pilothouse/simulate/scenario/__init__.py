"""The file of a scenario: its types, and how it is read.

``load`` gives a ``Scenario`` or raises ``ScenarioError``, whose text names file, line and field. ``schema`` and
``actions`` are what may be written; ``json_schema`` publishes that for editors.
"""

from pilothouse.simulate.scenario.loading import Scenario, ScenarioError, load
from pilothouse.simulate.scenario.schema import ScenarioFile

__all__ = ["Scenario", "ScenarioError", "ScenarioFile", "load"]
