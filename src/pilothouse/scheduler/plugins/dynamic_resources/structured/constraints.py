"""The constraints of a claim on the attributes of its devices (``constraint.go``, ``allocator_incubating.go``)."""

from collections.abc import Callable
from typing import Protocol

from pilothouse.api.resource import Device, DeviceAttribute, DeviceConstraint


class Constraint(Protocol):
    """Monotonic: once a device cannot be added, it cannot be added after more devices either."""

    def add(self, request: str, subrequest: str, device: Device, driver: str) -> bool:
        """Add a device that is about to be allocated. Returns whether the constraint allows it; if not, it is not
        added."""
        ...

    def remove(self, request: str, subrequest: str) -> None:
        """Remove what was added for the request; once for every device that was added."""
        ...


def new_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """None if a newer API has constraints of another type."""
    applies = _applies_to(frozenset(constraint.requests))
    if constraint.match_attribute is not None:
        return MatchAttribute(applies, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(applies, constraint.distinct_attribute)
    return None


def _applies_to(names: frozenset[str]) -> Callable[[str, str], bool]:
    def applies(request: str, subrequest: str) -> bool:
        return not names or request in names or (bool(subrequest) and f"{request}/{subrequest}" in names)

    return applies


class MatchAttribute:
    """All devices have the attribute, with the same value."""

    def __init__(self, applies: Callable[[str, str], bool], attribute: str) -> None:
        self._applies = applies
        self._name = attribute
        self._attribute: DeviceAttribute | None = None
        self._count = 0

    def add(self, request: str, subrequest: str, device: Device, driver: str) -> bool:
        if not self._applies(request, subrequest):
            return True
        attribute = lookup_attribute(device, driver, self._name)
        if attribute is None:
            return False
        if self._count == 0:
            self._attribute = attribute
        elif not _has_value(attribute) or attribute != self._attribute:
            return False
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._applies(request, subrequest):
            self._count -= 1


class DistinctAttribute:
    """All devices have the attribute, with different values.

    As upstream, only the value of the last device of each request is remembered: three devices of one request may have
    the values 1, 2 and 1.
    """

    def __init__(self, applies: Callable[[str, str], bool], attribute: str) -> None:
        self._applies = applies
        self._name = attribute
        self._attributes: dict[str, DeviceAttribute] = {}
        self._count = 0

    def add(self, request: str, subrequest: str, device: Device, driver: str) -> bool:
        if not self._applies(request, subrequest):
            return True
        attribute = lookup_attribute(device, driver, self._name)
        if attribute is None:
            return False
        if self._count and any(not _has_value(attribute) or attribute == other for other in self._attributes.values()):
            return False
        self._attributes[request] = attribute
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._applies(request, subrequest):
            self._attributes.pop(request, None)
            self._count -= 1


def _has_value(attribute: DeviceAttribute) -> bool:
    """Whether the type of the value is known."""
    return attribute != DeviceAttribute()


def lookup_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """The attribute by its fully qualified name; the driver is the domain of names without one."""
    attribute = device.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, identifier = name.partition("/")
    return device.attributes.get(identifier) if slash and domain == driver else None
