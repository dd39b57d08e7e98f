"""What a whole pod asks for: requests and limits of its containers, summed up. Pure, over JSON.

After component-helpers' ``resource/helpers.go`` (v0.36), as LimitRanger and ResourceQuota use it. Overhead counts for
quota and not for limit ranges, so it is the caller's choice.
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.quantities import Quantity, parse_quantity

Amounts = dict[str, Quantity]

_ZERO = Quantity(0)


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList, parsed. What is no quantity was refused before, or will be."""
    return {name: parse_quantity(str(text)) for name, text in (listed or {}).items()}


def is_pod_level(name: str) -> bool:
    """Whether a pod may ask for it as a whole, besides its containers."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def pod_amounts(spec: Object, field: str, *, overhead: bool = False) -> Amounts:
    """What the pod needs at once at most. ``field`` is ``requests`` or ``limits``.

    Containers run together and add up. Init containers run one after the other, each beside the sidecars that started
    before it, so the largest of them is the least that the pod needs. With sidecar s (1), init i (5) and containers
    a (1) and b (1): max(1 + 1 + 1, 1 + 5) = 6.
    """
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, amounts((container.get("resources") or {}).get(field)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = amounts((container.get("resources") or {}).get(field))
        if container.get("restartPolicy") == "Always":
            add(total, own)
            add(sidecars, own)
            own = sidecars
        else:
            add(own, sidecars)
        _raise(peak, own)
    _raise(total, peak)
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


def add(total: Amounts, more: Amounts) -> None:
    """Add ``more`` to ``total``, in place."""
    for name, amount in more.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount


def _raise(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        known = total.get(name)
        if known is None or amount > known:
            total[name] = amount
