"""``pilothouse generate models``: typed views of the CustomResourceDefinitions of others, as Python source.

The inverse of ``schema``: the views are as operator authors write them, and ``CustomResource`` creates from them a
definition that equals the given one, except for what a comment in the source lists as not expressed.
"""

from pilothouse.operator.models.definitions import InvalidDefinition
from pilothouse.operator.models.module import models

__all__ = ["InvalidDefinition", "models"]
