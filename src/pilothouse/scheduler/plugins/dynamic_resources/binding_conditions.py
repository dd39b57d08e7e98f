"""Binding conditions: what drivers must report about allocated devices before the pod is bound."""

import datetime

from pilothouse.api.resource import AllocatedDevice, AllocatedDeviceStatus, ResourceClaim
from pilothouse.machinery.conditions import find_condition

BINDING_SECONDS = 600.0
"""How long a pod waits for its devices (``bindingTimeout`` of the plugin's arguments)."""


class DeviceBindingFailed(Exception):
    """A driver has reported that a device cannot be used."""


def has_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(one.binding_conditions for one in allocation.devices.results)


def is_ready_for_binding(claim: ResourceClaim) -> bool:
    """Whether all conditions are true. Raises ``DeviceBindingFailed``."""
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None:
            return False
        for name in result.binding_failure_conditions:
            failed = find_condition(status.conditions, name)
            if failed is not None and failed.status == "True":
                raise DeviceBindingFailed(
                    f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, "
                    f'message="{failed.message}"'
                )
        for name in result.binding_conditions:
            condition = find_condition(status.conditions, name)
            if condition is None or condition.status != "True":
                return False
    return True


def is_claim_timeout(claim: ResourceClaim, now: datetime.datetime) -> bool:
    """Whether its devices have been waited for too long."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions(claim):
        return False
    return allocation.allocation_timestamp + datetime.timedelta(seconds=BINDING_SECONDS) < now


def is_unavailable(claim: ResourceClaim, now: datetime.datetime) -> bool:
    """Whether an allocated claim should be deallocated, so that other devices can be tried."""
    try:
        return not is_ready_for_binding(claim) and is_claim_timeout(claim, now)
    except DeviceBindingFailed:
        return True


def _device_status(claim: ResourceClaim, result: AllocatedDevice) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.device, status.driver, status.pool) == (result.device, result.driver, result.pool):
            return status
    return None
