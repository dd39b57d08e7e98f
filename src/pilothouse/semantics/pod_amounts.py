"""The requests and limits of a whole pod. Pure, on JSON.

After component-helpers' ``resource/helpers.go`` (v0.36). Limit ranges only use the spec; quota also counts overhead,
and allocated resources during a resize.
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.semantics.pods import is_pod_level

Amounts = dict[str, Quantity]
Json = dict[str, Any]

_ZERO = Quantity(0)


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """A parsed ResourceList. Raises ``QuantityError`` for an invalid quantity."""
    return {name: parse_quantity(str(text)) for name, text in (listed or {}).items()}


def has_pod_level_resources(spec: Json) -> bool:
    """Whether the pod has pod-level requests or limits."""
    whole = spec.get("resources") or {}
    return any(is_pod_level(name) for field in ("requests", "limits") for name in whole.get(field) or ())


def pod_amounts(
    spec: Json, field: str, *, status: Json | None = None, overhead: bool = False, pod_level: bool = True
) -> Amounts:
    """The maximum that the pod needs at once. ``field`` is ``requests`` or ``limits``; with ``status``, allocated
    resources count if they exceed the requests; with ``pod_level``, pod-level resources take precedence.

    Containers run together and add up. Init containers run one after the other, each with the sidecars that started
    before it, so the largest of them is the least that the pod needs. With sidecar s (1), init i (5) and containers
    a (1) and b (1): max(1 + 1 + 1, 1 + 5) = 6.
    """
    allocations = _allocations_of(status, field)
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, _of_container(container, field, allocations))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            own = _of_container(container, field, allocations)
            add(total, own)
            add(sidecars, own)
            own = sidecars
        else:
            own = amounts((container.get("resources") or {}).get(field))
            add(own, sidecars)
        raise_to(peak, own)
    raise_to(total, peak)
    if pod_level:
        for name, amount in amounts((spec.get("resources") or {}).get(field)).items():
            if is_pod_level(name):
                total[name] = amount
    if overhead:
        more = amounts(spec.get("overhead"))
        if field == "limits":
            # A pod without a limit stays without one.
            more = {name: amount for name, amount in more.items() if total.get(name, _ZERO)}
        add(total, more)
    return total


class _Allocations:
    """The resources in the status of containers, by name."""

    def __init__(self, amounts_by_name: dict[str, Amounts], *, infeasible: bool) -> None:
        self.by_name = amounts_by_name
        self.infeasible = infeasible
        """The request in the spec will never be granted, so it does not count."""


def _allocations_of(status: Json | None, field: str) -> _Allocations | None:
    if status is None:
        return None
    by_name: dict[str, Amounts] = {}
    for listed in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(listed) or ():
            resources = one.get("resources")
            if resources is None:
                continue
            own = amounts(resources.get(field))
            if field == "requests":
                raise_to(own, amounts(one.get("allocatedResources")))
            by_name[one.get("name", "")] = own
    if not by_name:
        return None
    infeasible = any(
        (condition.get("type"), condition.get("reason")) == ("PodResizePending", "Infeasible")
        for condition in status.get("conditions") or ()
    )
    return _Allocations(by_name, infeasible=infeasible)


def _of_container(container: Json, field: str, allocations: _Allocations | None) -> Amounts:
    requested = amounts((container.get("resources") or {}).get(field))
    if allocations is None:
        return requested
    allocated = allocations.by_name.get(container.get("name", ""))
    if allocated is None:
        return requested
    if allocations.infeasible:
        return dict(allocated)
    raise_to(requested, allocated)
    return requested


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        current = total.get(name)
        total[name] = amount if current is None else current + amount


def raise_to(total: Amounts, floor: Mapping[str, Quantity]) -> None:
    """Raise every amount in ``total`` to at least that of ``floor``, in place."""
    for name, amount in floor.items():
        current = total.get(name)
        if current is None or amount > current:
            total[name] = amount
