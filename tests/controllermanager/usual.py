"""The controllers that a manager runs by default."""

from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllermanager.manager import BUILT_FIRST
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.runtime import Descriptor

SERVED: tuple[Descriptor, ...] = tuple(
    descriptor
    for descriptor in DESCRIPTORS
    if descriptor.name != BUILT_FIRST and all(map(FeatureGates().enabled, descriptor.gates))
)
"""Controllers that have their own account and no disabled gate. ``BUILT_FIRST`` signs tokens as the manager itself,
and only with a key."""
USUAL: tuple[Descriptor, ...] = tuple(item for item in SERVED if item.default_on)
"""Controllers that are enabled by default."""
