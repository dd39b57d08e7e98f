"""Resource usage of containers and nodes, as an API server requests it from the simulated nodes.

API server and nodes do not import each other. ``nodes.usage`` computes what simulated containers use,
``apiserver.controllers.resource_metrics`` serves it as metrics.k8s.io, and ``plane`` connects the two.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """``cpu`` in thousandths, ``memory`` in bytes."""

    cpu: int
    memory: int


class ContainerUsage(msgspec.Struct, frozen=True):
    """The usage of one container."""

    name: str
    usage: Usage


class Metering(Protocol):
    """A program that runs nodes."""

    def containers(self, pod: Mapping[str, Any], share: Mapping[str, int]) -> Sequence[ContainerUsage] | None:
        """The usage of the running containers of a pod; None for a pod that cannot be measured. ``share`` is the pod's
        share of a load on its workload, in the units of ``Usage``."""
        ...

    def node(self, name: str) -> Usage | None:
        """The usage of a node apart from its pods; None for a node that cannot be measured."""
        ...
