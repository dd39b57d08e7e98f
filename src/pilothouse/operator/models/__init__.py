"""``pilothouse generate models``: typed views of the CustomResourceDefinitions of others, as Python source.

The inverse of ``schema``: the views are as operator authors write them, and the definition that ``CustomResource``
makes of them equals the given one, apart from what the source names as not expressed.
"""

from pilothouse.operator.models.definitions import InvalidDefinition
from pilothouse.operator.models.module import models

__all__ = ["InvalidDefinition", "models"]
