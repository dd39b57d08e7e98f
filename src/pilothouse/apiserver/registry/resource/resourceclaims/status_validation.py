"""Validation of the status of ResourceClaims: allocation, ``reservedFor``, device statuses.

After ``validateResourceClaimStatusUpdate`` in kubernetes' ``pkg/apis/resource/validation/validation.go`` and
``pkg/registry/resource/resourceclaim/strategy.go`` (v1.36). An allocation is immutable; it can only be removed.
"""

import ipaddress
from collections.abc import Mapping, Set

from pilothouse.apiserver.field_errors import (
    ErrorList,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    required,
    struct_value,
    too_long,
    too_many,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.affinity import validate_node_selector
from pilothouse.apiserver.registry.core.validation import validate_csi_driver_name
from pilothouse.apiserver.registry.generic.meta_validation import validate_conditions
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE
from pilothouse.apiserver.registry.resource.validation import (
    request_names,
    validate_device_binding_parameters,
    validate_device_configuration,
    validate_device_toleration,
    validate_label,
    validate_pool_name,
    validate_raw_extension,
    validate_request_reference,
    validate_request_references,
    validate_set,
    validate_slice,
    validate_uid,
)

RequestNames = Mapping[str, Set[str]]
DeviceKey = tuple[tuple[str, str], ...]

_MAX_RESERVED_FOR = 256
_MAX_RESULTS = 32
_MAX_CONFIGURATIONS = 64
_MAX_CONDITIONS = 8
_MAX_ADDRESSES = 16
_UNBOUNDED = 1 << 62
_SOURCES = ("FromClaim", "FromClass")
_MAX_LENGTHS = (("interfaceName", 256), ("hardwareAddress", 128))
_INVALID_INTERFACE_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


def _device_key(device: Object) -> DeviceKey:
    """The ID of a device or of a share of it, with the field names for messages."""
    fields = (("Driver", "driver"), ("Pool", "pool"), ("Device", "device"), ("ShareID", "shareID"))
    return tuple((name_in_message, device.get(field) or "") for name_in_message, field in fields)


def _allocated_devices(status: Object) -> set[DeviceKey]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return {_device_key(result) for result in devices.get("results") or ()}


def drop_deallocated_devices(status: Object, old_status: Object) -> None:
    """Drop the statuses of devices that are no longer allocated (``dropDeallocatedStatusDevices``)."""
    if not status.get("devices"):
        return
    deallocated = _allocated_devices(old_status) - _allocated_devices(status)
    status["devices"] = [device for device in status["devices"] if _device_key(device) not in deallocated]
    if not status["devices"]:
        del status["devices"]


def validate_resource_claim_status(obj: Object, old: Object) -> ErrorList:
    status, old_status = obj.get("status") or {}, old.get("status") or {}
    consumers, allocation = status.get("reservedFor") or [], status.get("allocation")
    errors = validate_set(
        consumers,
        _MAX_RESERVED_FOR,
        "status.reservedFor",
        _validate_consumer_reference,
        lambda consumer: consumer.get("uid") or "",
    )
    allocated = _allocated_devices(status)
    errors += validate_set(
        status.get("devices") or [],
        _UNBOUNDED,
        "status.devices",
        lambda device, path: _validate_allocated_device_status(device, path, allocated),
        _device_key,
    )
    if consumers and allocation is None:
        errors.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
    elif obj["metadata"].get("deletionTimestamp") and any(
        consumer not in (old_status.get("reservedFor") or ()) for consumer in consumers
    ):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden("status.reservedFor", detail))
    if allocation is None:
        return errors
    if old_status.get("allocation") is None:
        names = request_names(((obj.get("spec") or {}).get("devices") or {}).get("requests") or ())
        return errors + _validate_allocation(allocation, "status.allocation", names)
    if allocation != old_status["allocation"]:
        errors.append(invalid("status.allocation", internal_value("*resource.AllocationResult", allocation), IMMUTABLE))
    return errors


def _validate_consumer_reference(consumer: Object, path: str) -> ErrorList:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


def _validate_allocation(allocation: Object, path: str, names: RequestNames) -> ErrorList:
    devices = allocation.get("devices") or {}
    errors = validate_slice(
        devices.get("results") or [],
        _MAX_RESULTS,
        f"{path}.devices.results",
        lambda result, path: _validate_result(result, path, names),
    )
    errors += validate_slice(
        devices.get("config") or [],
        _MAX_CONFIGURATIONS,
        f"{path}.devices.config",
        lambda config, path: _validate_configuration(config, path, names),
    )
    if allocation.get("nodeSelector") is not None:
        errors += validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return errors


def _validate_result(result: Object, path: str, names: RequestNames) -> ErrorList:
    errors = validate_request_reference(result.get("request") or "", f"{path}.request", names)
    errors += _validate_device_id(result, path)
    errors += validate_device_binding_parameters(result, path)
    for position, toleration in enumerate(result.get("tolerations") or ()):
        errors += validate_device_toleration(toleration, f"{path}.tolerations[{position}]")
    return errors + _validate_share(result, path)


def _validate_device_id(device: Object, path: str) -> ErrorList:
    """Driver, pool and name of a device."""
    errors = validate_csi_driver_name(device.get("driver") or "", f"{path}.driver")
    errors += validate_pool_name(device.get("pool") or "", f"{path}.pool")
    return errors + validate_label(device.get("device") or "", f"{path}.device")


def _validate_share(device: Object, path: str) -> ErrorList:
    share = device.get("shareID")
    return validate_uid(share, f"{path}.shareID") if share is not None else []


def _validate_configuration(configuration: Object, path: str, names: RequestNames) -> ErrorList:
    source = configuration.get("source") or ""
    errors = [] if source else [required(f"{path}.source")]
    if source and source not in _SOURCES:
        errors.append(not_supported(f"{path}.source", source, _SOURCES))
    errors += validate_request_references(configuration.get("requests") or [], f"{path}.requests", names)
    return errors + validate_device_configuration(configuration, path)


def _validate_allocated_device_status(device: Object, path: str, allocated: Set[DeviceKey]) -> ErrorList:
    errors = _validate_device_id(device, path) + _validate_share(device, path)
    if _device_key(device) not in allocated:
        errors.append(invalid(path, struct_value(_device_key(device)), "must be an allocated device in the claim"))
    conditions, child_path = device.get("conditions") or [], f"{path}.conditions"
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(child_path, len(conditions), _MAX_CONDITIONS))
    errors += validate_conditions(conditions, child_path)
    if device.get("data") is not None:
        errors += validate_raw_extension(device["data"], f"{path}.data")
    return errors + _validate_network(device.get("networkData") or {}, f"{path}.networkData")


def _validate_network(data: Object, path: str) -> ErrorList:
    all_errors = [
        too_long(f"{path}.{field}", limit)
        for field, limit in _MAX_LENGTHS
        if len((data.get(field) or "").encode()) > limit
    ]
    ips = data.get("ips") or []
    return all_errors + validate_set(ips, _MAX_ADDRESSES, f"{path}.ips", _validate_address, lambda ip: ip)


def _validate_address(address: str, path: str) -> ErrorList:
    """``IsValidInterfaceAddress``: an IP address with a prefix length."""
    try:
        interface = ipaddress.ip_interface(address) if "/" in address else None
    except ValueError:
        interface = None
    if interface is None:
        return [invalid(path, address, _INVALID_INTERFACE_ADDRESS)]
    if str(interface) != address:
        return [invalid(path, address, f'must be in canonical form ("{interface}")')]
    return []
