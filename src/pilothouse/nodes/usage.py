"""Cpu and memory usage of simulated containers: by annotations, else derived from their requests.

Usage is computed from the stored pod: it changes with the annotations, and nothing is stored. For a pod:
``simulated.pilothouse.dev/cpu-usage`` and ``memory-usage``, for one container with the suffix ``.CONTAINER``. A load of
a whole workload (``cpu-load``, ``memory-load`` on a Deployment, …) is passed as each pod's share. The table is in
docs/nodes.md.
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.api.usage import ContainerUsage, Usage
from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.nodes.behaviour import PREFIX

IDLE = Usage(cpu=10, memory=64 << 20)
"""The usage of a node without its pods."""
DEFAULT_USAGE = Usage(cpu=1, memory=32 << 20)
"""The usage of a container without requests."""
CPU_SHARE, MEMORY_SHARE = 10, 50
"""The usage of a container in percent of its requests: an idle program needs little CPU, but has allocated its memory.
So nothing is scaled up without a load."""


def container_usages(pod: Mapping[str, Any], share: Mapping[str, int]) -> list[ContainerUsage]:
    """The usage of the running containers of a pod. A share takes precedence over the usage of the pod, and that of a
    container over both."""
    running = [name for name in _running(pod) if name]
    requests = {
        container["name"]: (container.get("resources") or {}).get("requests") or {}
        for field in ("containers", "initContainers")
        for container in (pod.get("spec") or {}).get(field) or ()
    }
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    usages = []
    for number, name in enumerate(running):

        def amount(resource: str, number: int = number, name: str = name) -> int:
            own = _read(annotations, f"{resource}-usage.{name}", resource)
            if own is not None:
                return own
            whole = share.get(resource)
            if whole is None:
                whole = _read(annotations, f"{resource}-usage", resource)
            if whole is None:
                return _usual(requests.get(name) or {}, resource)
            # In equal parts; the remainder is added to the first.
            part, left = divmod(whole, len(running))
            return part + (left if number == 0 else 0)

        usages.append(ContainerUsage(name, Usage(cpu=amount("cpu"), memory=amount("memory"))))
    return usages


def _running(pod: Mapping[str, Any]) -> list[str]:
    status = pod.get("status") or {}
    return [
        container.get("name") or ""
        for field in ("containerStatuses", "initContainerStatuses")
        for container in status.get(field) or ()
        if (container.get("state") or {}).get("running") is not None
    ]


def _read(annotations: Mapping[str, str], key: str, resource: str) -> int | None:
    """An invalid value counts as absent; the node reports it in an event."""
    text = annotations.get(PREFIX + key)
    if text is None:
        return None
    try:
        return max(_in_units(text, resource), 0)
    except QuantityError:
        return None


def _in_units(text: str, resource: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value if resource == "cpu" else quantity.value


def _usual(requests: Mapping[str, Any], resource: str) -> int:
    text = requests.get(resource)
    if text is None:
        return DEFAULT_USAGE.cpu if resource == "cpu" else DEFAULT_USAGE.memory
    return _in_units(str(text), resource) * (CPU_SHARE if resource == "cpu" else MEMORY_SHARE) // 100
