"""The scenario file: its types, loading and validation.

``load`` returns a ``Scenario`` or raises ``ScenarioError``, with file, line and field. ``schema`` and ``actions``
define the format; ``json_schema`` publishes it for editors.
"""

from pilothouse.simulate.scenario.loading import Scenario, ScenarioError, load
from pilothouse.simulate.scenario.schema import ScenarioFile

__all__ = ["Scenario", "ScenarioError", "ScenarioFile", "load"]
