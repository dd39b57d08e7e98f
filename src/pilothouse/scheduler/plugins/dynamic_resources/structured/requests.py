"""The requests of claims, and what is known of them before devices are chosen."""

from collections.abc import Sequence

import msgspec

from pilothouse.api.resource import (
    Device,
    DeviceClass,
    DeviceSelector,
    ExactDeviceRequest,
    RequestedDevices,
    ResourceClaim,
    ResourceSlice,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.consumable_capacity import ConsumedCapacity
from pilothouse.scheduler.plugins.dynamic_resources.structured.pools import Pool
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import DeviceID

ALL, EXACT_COUNT = "All", "ExactCount"
RequestKey = tuple[int, int, int]
"""The positions of the claim, of the request in it, and of the alternative in that."""


class Candidate(msgspec.Struct, frozen=True):
    """A device in a slice of a pool."""

    device: Device
    slice: ResourceSlice
    pool: Pool

    @property
    def id(self) -> DeviceID:
        return self.pool.driver, self.pool.name, self.device.name


class Request(msgspec.Struct):
    """An exact request, or one alternative of a request (``requestData``)."""

    name: str
    """Of the request in the claim."""
    alternative: str
    """Its name; empty for an exact request."""
    spec: RequestedDevices
    device_class: DeviceClass
    count: int
    class_expressions: Sequence[str]
    expressions: Sequence[str]
    """Of the selectors."""
    all_devices: Sequence[Candidate] = ()
    """What the mode ``All`` selects."""

    @property
    def full_name(self) -> str:
        """As in results and constraints."""
        return f"{self.name}/{self.alternative}" if self.alternative else self.name

    @property
    def own_name(self) -> str:
        """As in errors."""
        return self.alternative or self.name

    @property
    def admin_access(self) -> bool:
        return isinstance(self.spec, ExactDeviceRequest) and self.spec.admin_access

    @property
    def takes_all(self) -> bool:
        return self.spec.allocation_mode == ALL


class Chosen(msgspec.Struct, frozen=True):
    """A device that was allocated for a request of a claim."""

    request: Request
    candidate: Candidate
    consumed: ConsumedCapacity | None
    """For devices with consumable capacity, which may be allocated several times."""


def expressions_of(selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    return tuple(one.cel.expression if one.cel is not None else "" for one in selectors)


def claim_name(claim: ResourceClaim) -> str:
    """As in errors."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
