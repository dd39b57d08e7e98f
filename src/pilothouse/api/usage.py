"""What containers and nodes use of cpu and memory, as an API server asks the simulated nodes for it.

Nodes are programs of their own and none of the server's business. ``nodes.usage`` knows what simulated containers use,
``apiserver.controllers.resource_metrics`` serves it as metrics.k8s.io, and ``plane`` hands the one to the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """``cpu`` in thousandths, ``memory`` in bytes."""

    cpu: int
    memory: int


class ContainerUsage(msgspec.Struct, frozen=True):
    """What one container uses."""

    name: str
    usage: Usage


class Metering(Protocol):
    """A program that runs nodes."""

    def containers(self, pod: Mapping[str, Any], share: Mapping[str, int]) -> Sequence[ContainerUsage] | None:
        """What the running containers of a pod use; None for a pod that cannot be measured.

        ``share`` is the pod's part of a load that was put on its workload, in the units of ``Usage``.
        """
        ...

    def node(self, name: str) -> Usage | None:
        """What a node uses besides its pods; None for one that cannot be measured."""
        ...
