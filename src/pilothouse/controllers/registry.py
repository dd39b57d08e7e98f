"""Every controller there is, by its descriptor. Importing this imports no controller's code."""

from pilothouse.controllers.cleanup.garbage_collector import DESCRIPTOR as GARBAGE_COLLECTOR
from pilothouse.controllers.cleanup.namespace import DESCRIPTOR as NAMESPACE
from pilothouse.controllers.workloads.replicaset import DESCRIPTOR as REPLICASET
from pilothouse.runtime.descriptor import Descriptor

DESCRIPTORS: tuple[Descriptor, ...] = (REPLICASET, GARBAGE_COLLECTOR, NAMESPACE)
"""In the order in which they are started."""
