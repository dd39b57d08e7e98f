"""The status of ResourceClaims: which devices a claim has got, who uses them, and what drivers say of them.

After ``validateResourceClaimStatusUpdate`` in kubernetes' ``pkg/apis/resource/validation/validation.go`` and
``pkg/registry/resource/resourceclaim/strategy.go`` (v1.36). An allocation never changes; it goes as a whole.
"""

import ipaddress
from collections.abc import Mapping, Set

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.affinities import node_selector_problems
from pilothouse.apiserver.strategies.conditions import condition_problems
from pilothouse.apiserver.strategies.device_parts import (
    binding_problems,
    configuration_problems,
    device_toleration_problems,
    items_problems,
    json_problems,
    label_problems,
    pool_problems,
    set_problems,
    uid_problems,
)
from pilothouse.apiserver.strategies.device_requests import reference_fault, reference_problems, request_names
from pilothouse.apiserver.strategies.drivers import driver_problems
from pilothouse.apiserver.strategies.filling import IMMUTABLE

Names = Mapping[str, Set[str]]
DeviceKey = tuple[tuple[str, str], ...]

_MOST_USERS = 256
_MOST_RESULTS = 32
_MOST_CONFIGURATIONS = 64
_MOST_CONDITIONS = 8
_MOST_ADDRESSES = 16
_UNBOUNDED = 1 << 62
_SOURCES = ("FromClaim", "FromClass")
_LENGTHS = (("interfaceName", 256), ("hardwareAddress", 128))
_AN_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


def _key(device: Object) -> DeviceKey:
    """What tells a device, or a share of one, from others, as messages show it."""
    fields = (("Driver", "driver"), ("Pool", "pool"), ("Device", "device"), ("ShareID", "shareID"))
    return tuple((shown, device.get(field) or "") for shown, field in fields)


def _allocated(status: Object) -> set[DeviceKey]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return {_key(result) for result in devices.get("results") or ()}


def keep_allocated(status: Object, before: Object) -> None:
    """Forget what drivers say of devices that the claim has no more."""
    if not status.get("devices"):
        return
    gone = _allocated(before) - _allocated(status)
    status["devices"] = [device for device in status["devices"] if _key(device) not in gone]
    if not status["devices"]:
        del status["devices"]


def status_problems(obj: Object, old: Object) -> list[FieldError]:
    """What is wrong with a new status."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    users, allocation = status.get("reservedFor") or [], status.get("allocation")
    problems = set_problems(
        users, _MOST_USERS, "status.reservedFor", _user_problems, lambda user: user.get("uid") or ""
    )
    allocated = _allocated(status)
    problems += set_problems(
        status.get("devices") or [],
        _UNBOUNDED,
        "status.devices",
        lambda device, where: _device_problems(device, where, allocated),
        _key,
    )
    if users and allocation is None:
        told = "may not be specified when `allocated` is not set"
        problems.append(errors.not_allowed("status.reservedFor", told))
    elif obj["metadata"].get("deletionTimestamp") and any(
        user not in (before.get("reservedFor") or ()) for user in users
    ):
        told = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        problems.append(errors.not_allowed("status.reservedFor", told))
    if allocation is None:
        return problems
    if before.get("allocation") is None:
        names = request_names(((obj.get("spec") or {}).get("devices") or {}).get("requests") or ())
        return problems + _allocation_problems(allocation, "status.allocation", names)
    if allocation != before["allocation"]:
        problems.append(errors.invalid_value("status.allocation", allocation, IMMUTABLE))
    return problems


def _user_problems(user: Object, path: str) -> list[FieldError]:
    return [errors.required(f"{path}.{field}") for field in ("resource", "name", "uid") if not user.get(field)]


def _allocation_problems(allocation: Object, path: str, names: Names) -> list[FieldError]:
    devices = allocation.get("devices") or {}
    problems = items_problems(
        devices.get("results") or [],
        _MOST_RESULTS,
        f"{path}.devices.results",
        lambda result, where: _result_problems(result, where, names),
    )
    problems += items_problems(
        devices.get("config") or [],
        _MOST_CONFIGURATIONS,
        f"{path}.devices.config",
        lambda one, where: _configuration_problems(one, where, names),
    )
    if allocation.get("nodeSelector") is not None:
        problems += node_selector_problems(allocation["nodeSelector"], f"{path}.nodeSelector")
    return problems


def _result_problems(result: Object, path: str, names: Names) -> list[FieldError]:
    problems = reference_fault(result.get("request") or "", f"{path}.request", names)
    problems += _place_problems(result, path)
    problems += binding_problems(result, path)
    for position, toleration in enumerate(result.get("tolerations") or ()):
        problems += device_toleration_problems(toleration, f"{path}.tolerations[{position}]")
    return problems + _share_problems(result, path)


def _place_problems(device: Object, path: str) -> list[FieldError]:
    """Of which driver it is, in which pool, and how it is called there."""
    problems = driver_problems(device.get("driver") or "", f"{path}.driver")
    problems += pool_problems(device.get("pool") or "", f"{path}.pool")
    return problems + label_problems(device.get("device") or "", f"{path}.device")


def _share_problems(device: Object, path: str) -> list[FieldError]:
    share = device.get("shareID")
    return uid_problems(share, f"{path}.shareID") if share is not None else []


def _configuration_problems(configuration: Object, path: str, names: Names) -> list[FieldError]:
    source = configuration.get("source") or ""
    problems = [] if source else [errors.required(f"{path}.source")]
    if source and source not in _SOURCES:
        problems.append(errors.not_supported(f"{path}.source", source, _SOURCES))
    problems += reference_problems(configuration.get("requests") or [], f"{path}.requests", names)
    return problems + configuration_problems(configuration, path)


def _device_problems(device: Object, path: str, allocated: Set[DeviceKey]) -> list[FieldError]:
    """What a driver says of an allocated device."""
    problems = _place_problems(device, path) + _share_problems(device, path)
    if _key(device) not in allocated:
        problems.append(errors.invalid_value(path, dict(_key(device)), "must be an allocated device in the claim"))
    conditions, where = device.get("conditions") or [], f"{path}.conditions"
    if len(conditions) > _MOST_CONDITIONS:
        problems.append(errors.too_many(where, len(conditions), _MOST_CONDITIONS))
    problems += condition_problems(conditions, where)
    if device.get("data") is not None:
        problems += json_problems(device["data"], f"{path}.data")
    return problems + _network_problems(device.get("networkData") or {}, f"{path}.networkData")


def _network_problems(data: Object, path: str) -> list[FieldError]:
    problems = [
        errors.too_long(f"{path}.{field}", limit)
        for field, limit in _LENGTHS
        if len((data.get(field) or "").encode()) > limit
    ]
    ips = data.get("ips") or []
    return problems + set_problems(ips, _MOST_ADDRESSES, f"{path}.ips", _address_problems, lambda ip: ip)


def _address_problems(text: str, path: str) -> list[FieldError]:
    """``IsValidInterfaceAddress``: an address, and the size of its network."""
    try:
        interface = ipaddress.ip_interface(text) if "/" in text else None
    except ValueError:
        interface = None
    if interface is None:
        return [errors.invalid_value(path, text, _AN_ADDRESS)]
    if str(interface) != text:
        return [errors.invalid_value(path, text, f'must be in canonical form ("{interface}")')]
    return []
