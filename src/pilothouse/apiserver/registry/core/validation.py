"""Validation shared by kinds of this and other groups: resources, tolerations, CSI driver names, IP addresses.

After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

import ipaddress
from collections.abc import Callable, Iterable

from pilothouse.apiserver.field_errors import (
    ErrorList,
    forbidden,
    invalid,
    not_supported,
    of_named_type,
    required,
    too_long,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import parse_ip_sloppy
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.names import dns_subdomain_errors, label_value_errors, qualified_name_errors
from pilothouse.machinery.quantities import QuantityError, parse_quantity

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_COMPARISON_OPERATORS = ("Lt", "Gt")


@bounded_cache(512)
def _key_errors(key: str) -> tuple[str, ...]:
    # Nearly every pod has the same two tolerations.
    return tuple(qualified_name_errors(key))


def validate_tolerations(tolerations: Iterable[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    for position, toleration in enumerate(tolerations):
        child_path = f"{path}[{position}]"
        operator = toleration.get("operator") or "Equal"
        effect = toleration.get("effect") or ""
        key = toleration.get("key")
        if key:
            errors += [invalid(f"{child_path}.key", key, msg) for msg in _key_errors(key)]
        if not key and operator != "Exists":
            errors.append(
                invalid(
                    f"{child_path}.operator",
                    of_named_type(toleration.get("operator") or ""),
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            errors.append(
                invalid(
                    f"{child_path}.effect",
                    of_named_type(effect),
                    "effect must be 'NoExecute' when `tolerationSeconds` is set",
                )
            )
        value = toleration.get("value") or ""
        if operator == "Equal":
            msgs = label_value_errors(value)
            if msgs:
                errors.append(invalid(f"{child_path}.operator", value, ";".join(msgs)))
        elif operator in _COMPARISON_OPERATORS:
            # Requires the gate ``TaintTolerationComparisonOperators``, which is off.
            errors.append(
                not_supported(f"{child_path}.operator", operator, (*_TOLERATION_OPERATORS, *_COMPARISON_OPERATORS))
            )
        elif operator != "Exists":
            errors.append(not_supported(f"{child_path}.operator", operator, _TOLERATION_OPERATORS))
        elif value:
            errors.append(invalid(f"{child_path}.operator", value, "value must be empty when `operator` is 'Exists'"))
        if effect and effect not in _TAINT_EFFECTS:
            errors.append(not_supported(f"{child_path}.effect", effect, _TAINT_EFFECTS))
    return errors


MAX_DRIVER_NAME_LENGTH = 63


def validate_csi_driver_name(name: str, path: str) -> ErrorList:
    """``ValidateCSIDriverName``."""
    if not name:
        return [required(path)]
    errors: ErrorList = []
    if len(name.encode()) > MAX_DRIVER_NAME_LENGTH:
        errors.append(too_long(path, MAX_DRIVER_NAME_LENGTH))
    return errors + [invalid(path, name, msg) for msg in dns_subdomain_errors(name.lower())]


NameValidator = Callable[[str, str], ErrorList]
"""(name, path) → the errors in the name of a resource."""

INTEGER_RESOURCES = frozenset(
    (
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    )
)
"""The resources whose quantities must be integers."""
_CONTAINER_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
_STANDARD_RESOURCES = (
    _CONTAINER_RESOURCES
    | INTEGER_RESOURCES
    | {"storage", "requests.storage"}
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER_RESOURCES}
)
_HUGE_PAGES_PREFIX = "hugepages-"
_QUOTA_HUGE_PAGES = (_HUGE_PAGES_PREFIX, f"requests.{_HUGE_PAGES_PREFIX}")


def validate_resource_quantity(name: str, value: object, path: str) -> ErrorList:
    """The errors in a quantity (``ValidateResourceQuantityValue``). Object counts of quotas (``count/pods``) are
    extended resources."""
    try:
        quantity = parse_quantity(str(value))
    except QuantityError as error:
        return [invalid(path, value, str(error))]
    errors = [invalid(path, value, NON_NEGATIVE)] if quantity.mantissa < 0 else []
    if not quantity.is_whole and (name in INTEGER_RESOURCES or is_extended_resource_name(name)):
        errors.append(invalid(path, value, "must be an integer"))
    return errors


def is_extended_resource_name(name: str) -> bool:
    """``IsExtendedResourceName``: a name with a domain other than ``kubernetes.io``, valid in quotas."""
    return (
        not _is_native_resource(name)
        and not name.startswith("requests.")
        and not qualified_name_errors(f"requests.{name}")
    )


def _is_native_resource(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_quota_huge_page_resource_name(name: str) -> bool:
    """``IsQuotaHugePageResourceName``."""
    return name.startswith(_QUOTA_HUGE_PAGES)


def resource_name_errors(name: str) -> list[str]:
    """The errors in the name of any resource (``validateResourceName``)."""
    errors = qualified_name_errors(name)
    if (
        not errors
        and "/" not in name
        and name not in _STANDARD_RESOURCES
        and not is_quota_huge_page_resource_name(name)
    ):
        return ["must be a standard resource type or fully qualified"]
    return errors


@bounded_cache(512)
def container_resource_name_errors(name: str) -> tuple[str, ...]:
    """The errors in the name of a container's resource (``validateContainerResourceName``)."""
    msgs = tuple(resource_name_errors(name))
    if "/" not in name:
        if name in _CONTAINER_RESOURCES or name.startswith(_HUGE_PAGES_PREFIX):
            return msgs
        return (*msgs, "must be a standard resource for containers")
    if not _is_native_resource(name) and not is_extended_resource_name(name):
        return (*msgs, "doesn't follow extended resource name standard")
    return msgs


def validate_container_resource_name(name: str, path: str) -> ErrorList:
    return [invalid(path, name, msg) for msg in container_resource_name_errors(name)]


def validate_pod_resource_name(name: str, path: str) -> ErrorList:
    msgs = resource_name_errors(name)
    if msgs:
        return [invalid(path, name, msg) for msg in msgs]
    if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES_PREFIX):
        return []
    return [not_supported(path, name, ("cpu", _HUGE_PAGES_PREFIX, "memory"))]


def validate_resource_requirements(
    resources: Object, path: str, *, validate_name: NameValidator = validate_container_resource_name
) -> ErrorList:
    """``ValidateContainerResourceRequirements``. ``validate_name``: pods have fewer resources than containers."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    all_errors: ErrorList = []
    for field, resource_list in (("limits", limits), ("requests", requests)):
        for name, quantity in resource_list.items():
            child_path = f"{path}.{field}[{name}]"
            all_errors += validate_name(name, child_path)
            all_errors += validate_resource_quantity(name, quantity, child_path)
            if name.startswith(_HUGE_PAGES_PREFIX) and not _is_multiple_of_page_size(name, quantity):
                all_errors.append(
                    invalid(child_path, quantity, f"{quantity} is not positive integer multiple of {name}")
                )
            if field == "requests":
                all_errors += _validate_against_limit(name, quantity, limits, path)
    all_names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES_PREFIX) for name in all_names) and not all_names & {"cpu", "memory"}:
        all_errors.append(forbidden(path, "HugePages require cpu or memory"))
    return all_errors


def is_overcommit_allowed(name: str) -> bool:
    """``IsOvercommitAllowed``: whether the request may be lower than the limit."""
    return _is_native_resource(name) and not name.startswith(_HUGE_PAGES_PREFIX)


def _validate_against_limit(name: str, request_value: object, limits: Object, path: str) -> ErrorList:
    may_overcommit = is_overcommit_allowed(name)
    limit = limits.get(name)
    if limit is None:
        if may_overcommit:
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if request_value == limit:
        return []
    try:
        request, max_request = parse_quantity(str(request_value)), parse_quantity(str(limit))
    except QuantityError:
        return []  # reported already
    if not may_overcommit and request != max_request:
        return [invalid(f"{path}.requests", request_value, f"must be equal to {name} limit of {limit}")]
    if request > max_request:
        return [invalid(f"{path}.requests", request_value, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _is_multiple_of_page_size(name: str, value: object) -> bool:
    """``IsHugePageResourceValueDivisible``."""
    try:
        size = parse_quantity(name.removeprefix(_HUGE_PAGES_PREFIX))
        quantity = parse_quantity(str(value))
    except QuantityError:
        return True  # the invalid name or quantity is reported elsewhere
    return size.value > 0 and quantity.is_whole and quantity.value % size.value == 0


@bounded_cache(8192)
def non_special_ip_errors(value: str) -> tuple[str, ...]:
    """The errors in the IP address of an endpoint (``ValidateEndpointIP``)."""
    parsed = None if "%" in value else parse_ip_sloppy(value)
    if parsed is None:
        return ("must be a valid IP address",)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return tuple(
        detail.format(value)
        for ip_property, detail in _NON_SPECIAL_RANGES
        if getattr(parsed, ip_property)
        and (ip_property != "is_multicast" or parsed in _LINK_LOCAL_MULTICAST[parsed.version])
    )


_LINK_LOCAL_MULTICAST = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}
_NON_SPECIAL_RANGES = (
    ("is_unspecified", "may not be unspecified ({})"),
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ("is_multicast", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
)
