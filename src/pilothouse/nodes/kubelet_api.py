"""``KubeletApi``: what an API server requests from the kubelets of simulated nodes: container logs and usage.

It is computed from the stored pod and the time, so it needs nothing from the simulation but the faults of the nodes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pilothouse.api.logs import ContainerLog
from pilothouse.api.usage import ContainerUsage, Usage
from pilothouse.env import Env
from pilothouse.nodes.logs import container_log
from pilothouse.nodes.usage import IDLE, container_usages


class KubeletApi:
    """The kubelets of the nodes ``names`` (``api.usage.Metering``, ``apiserver.core.PodLogs``)."""

    def __init__(
        self, env: Env, names: Collection[str], *, commands: bool, is_down: Callable[[str], bool] = lambda _node: False
    ) -> None:
        """``commands``: whether the commands of containers are interpreted, as in the profile of the nodes."""
        self._env = env
        self._names = names
        self._commands = commands
        self._is_down = is_down

    def log(self, pod: Mapping[str, Any], container: str, previous: bool) -> ContainerLog | None:
        """The log of a container on one of these nodes, None for other nodes; an error if the node is down."""
        node = (pod.get("spec") or {}).get("nodeName") or ""
        if node not in self._names:
            return None
        if self._is_down(node):
            return ContainerLog(error=f'node "{node}" does not answer')
        return container_log(pod, container, previous, self._env.now(), commands=self._commands)

    def containers(self, pod: Mapping[str, Any], share: Mapping[str, int]) -> Sequence[ContainerUsage] | None:
        """The usage of the containers of a pod on one of these nodes; None for other nodes, and for one that is
        down."""
        node = (pod.get("spec") or {}).get("nodeName") or ""
        return container_usages(pod, share) if self._answers(node) else None

    def node(self, name: str) -> Usage | None:
        """The usage of one of these nodes without its pods; None for other nodes, and for one that is down."""
        return IDLE if self._answers(name) else None

    def _answers(self, node: str) -> bool:
        return node in self._names and not self._is_down(node)
