"""Validation shared by ResourceClaims, DeviceClasses and ResourceSlices: names, configuration, taints.

After kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

from pilothouse.apiserver.field_errors import (
    ErrorList,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    repeated,
    required,
    struct_value,
    too_long,
    too_many,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import validate_csi_driver_name
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.go_text import compact_json
from pilothouse.machinery.names import (
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
    regex_error,
)

Item = TypeVar("Item")

MAX_RAW_EXTENSION_BYTES = 10 * 1024
_MAX_POOL_LENGTH = 253
_MAX_ID_LENGTH = 32
_MAX_KEY_LENGTH = 63 + 1 + _MAX_ID_LENGTH
_MAX_CONDITIONS = 4
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATORS = ("Equal", "Exists")
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_identifier = re.compile(_IDENTIFIER)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_'"
)
_uid = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UID_LENGTHS = {32: re.compile(r"[0-9a-fA-F]{32}"), 38: re.compile(r"\{.*\}"), 45: re.compile(r"urn:uuid:.*")}


# Lists and maps ------------------------------------------------------------------------------------------------------


def validate_slice(
    items: Sequence[Item], max_size: int, path: str, validate: Callable[[Item, str], Iterable[FieldError]]
) -> ErrorList:
    """``validateSlice``: the errors in each item, or only TooMany if there are more than ``max_size``."""
    if len(items) > max_size:
        return [too_many(path, len(items), max_size)]
    return [error for position, item in enumerate(items) for error in validate(item, f"{path}[{position}]")]


def validate_set(
    items: Sequence[Item],
    max_size: int,
    path: str,
    validate: Callable[[Item, str], Iterable[FieldError]],
    key: Callable[[Item], Hashable],
) -> ErrorList:
    """``validateSet``: ``validate_slice``, with unique keys. A key that is a tuple of pairs is reported as a struct."""
    all_errors = validate_slice(items, max_size, path, validate)
    if len(items) > max_size:
        return all_errors
    all_keys = set[Hashable]()
    for position, item in enumerate(items):
        item_key = key(item)
        if item_key in all_keys:
            bad_value = struct_value(item_key) if isinstance(item_key, tuple) else item_key
            all_errors.append(duplicate(f"{path}[{position}]", bad_value))
        all_keys.add(item_key)
    return all_errors


def validate_map(
    members: Mapping[str, Any],
    path: str,
    validate_key: Callable[[str, str], ErrorList],
    validate: Callable[[Any, str], ErrorList] | None = None,
    *,
    max_size: int | None = None,
    max_key_length: int = _MAX_KEY_LENGTH,
) -> ErrorList:
    """``validateMap``: the errors in keys, with the path of the map, and in values."""
    if max_size is not None and len(members) > max_size:
        return [too_many(path, len(members), max_size)]
    all_errors: ErrorList = []
    for name, member in members.items():
        all_errors += validate_key(name, path)
        if validate is not None:
            all_errors += validate(member, f"{path}[{_truncate_if_too_long(name, max_key_length)}]")
    return all_errors


def _truncate_if_too_long(name: str, max_key_length: int) -> str:
    if len(name) <= max_key_length:
        return name
    remaining = max_key_length - 3
    return f"{name[: (remaining + 1) // 2]}...{name[len(name) - remaining // 2 :]}"


# Names ---------------------------------------------------------------------------------------------------------------


def validate_label(name: str, path: str) -> ErrorList:
    """The name of a device, request or counter."""
    return [invalid(path, name, msg) for msg in _label_errors(name)]


@bounded_cache(4096)
def _label_errors(name: str) -> tuple[str, ...]:
    return tuple(dns_label_errors(name))


def validate_pool_name(name: str, path: str) -> ErrorList:
    """``validatePoolName``: DNS subdomains separated by slashes."""
    if not name:
        return [required(path)]
    all_errors = [too_long(path, _MAX_POOL_LENGTH)] if len(name.encode()) > _MAX_POOL_LENGTH else []
    return all_errors + [
        invalid(path, segment, msg) for segment in name.split("/") for msg in dns_subdomain_errors(segment)
    ]


def validate_qualified_name(name: str, path: str) -> ErrorList:
    """``validateQualifiedName``: the name of an attribute or capacity, with an optional domain."""
    return [FieldError(path, reason, msg) for reason, msg in _qualified_name_errors(name)]


@bounded_cache(4096)
def _qualified_name_errors(name: str) -> tuple[tuple[str, str], ...]:
    domain, slash, identifier = name.partition("/")
    all_errors: ErrorList = []
    if not slash:
        all_errors = _validate_c_identifier(domain, "")
    elif "/" not in identifier:  # upstream does not reject more than one slash
        detail = "the domain must not be empty"
        all_errors += validate_csi_driver_name(domain, "") if domain else [invalid("", "", detail)]
        detail = "the name must not be empty"
        all_errors += _validate_c_identifier(identifier, "") if identifier else [invalid("", "", detail)]
    return tuple((error.reason, error.text) for error in all_errors)


def validate_fully_qualified_name(name: str, path: str) -> ErrorList:
    """``validateFullyQualifiedName``: the name of an attribute in a constraint, with a domain."""
    all_errors = validate_qualified_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        all_errors.append(invalid(path, name, detail))
    return all_errors


def _validate_c_identifier(name: str, path: str) -> ErrorList:
    all_errors = [too_long(path, _MAX_ID_LENGTH)] if len(name.encode()) > _MAX_ID_LENGTH else []
    if _identifier.fullmatch(name) is None:
        detail = regex_error(_IDENTIFIER_TEXT, _IDENTIFIER, ("my_name", "MY_NAME", "MyName"))
        all_errors.append(invalid(path, name, detail))
    return all_errors


def validate_uid(uid: str, path: str) -> ErrorList:
    if _uid.fullmatch(uid) is None:
        pattern = _UID_LENGTHS.get(len(uid))
        if len(uid) != 36 and pattern is None:
            return [invalid(path, uid, f"error validating uid: invalid UUID length: {len(uid)}")]
        if pattern is None or pattern.fullmatch(uid) is None:
            return [invalid(path, uid, "error validating uid: invalid UUID format")]
    elif uid == uid.lower():
        return []
    detail = (
        "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
        "characters"
    )
    return [invalid(path, uid, detail)]


# Configuration, taints and conditions --------------------------------------------------------------------------------


def validate_device_configuration(configuration: Object, path: str) -> ErrorList:
    """``validateDeviceConfiguration``."""
    opaque = configuration.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    all_errors = validate_csi_driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    return all_errors + validate_raw_extension(opaque.get("parameters"), f"{path}.opaque.parameters")


def validate_raw_extension(value: Any, path: str) -> ErrorList:
    if value is None:
        return [required(path)]
    if len(compact_json(value).encode()) > MAX_RAW_EXTENSION_BYTES:
        return [too_long(path, MAX_RAW_EXTENSION_BYTES)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def validate_device_taint(taint: Object, path: str) -> ErrorList:
    key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
    all_errors = validate_condition_name(key, f"{path}.key")
    all_errors += [invalid(f"{path}.value", value, msg) for msg in label_value_errors(value)]
    if not effect:
        all_errors.append(required(f"{path}.effect"))
    elif effect not in _EFFECTS:
        all_errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return all_errors


def validate_device_toleration(toleration: Object, path: str) -> ErrorList:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    all_errors = validate_condition_name(key, f"{path}.key") if key else []
    if not operator:
        all_errors.append(required(f"{path}.operator"))
    elif operator not in _OPERATORS:
        all_errors.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    elif operator == "Equal":
        all_errors += [invalid(f"{path}.value", value, msg) for msg in label_value_errors(value)]
    elif value:
        all_errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    if effect and effect not in _EFFECTS:
        all_errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return all_errors


def validate_condition_name(name: str, path: str) -> ErrorList:
    return [invalid(path, name, msg) for msg in qualified_name_errors(name)]


def validate_device_binding_parameters(device_or_result: Object, path: str) -> ErrorList:
    """``bindingConditions`` and ``bindingFailureConditions``."""
    lists = {name: device_or_result.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions")}
    all_errors: ErrorList = []
    for name, conditions in lists.items():
        all_errors += validate_slice(conditions, _MAX_CONDITIONS, f"{path}.{name}", validate_condition_name)
    binding, failures = lists.values()
    for name, conditions in lists.items():
        duplicates = repeated(conditions)
        for position, condition in enumerate(conditions):
            child_path = f"{path}.{name}[{position}]"
            if position in duplicates:
                all_errors.append(duplicate(child_path, condition))
            if conditions is failures and condition in binding:
                detail = "bindingFailureConditions must not overlap with bindingConditions"
                all_errors.append(invalid(child_path, condition, detail))
    for name, conditions, other_field in (
        ("bindingConditions", binding, "bindingFailureConditions"),
        ("bindingFailureConditions", failures, "bindingConditions"),
    ):
        if not conditions and lists[other_field]:
            # Upstream reports the missing list as value.
            all_errors.append(invalid(f"{path}.{name}", None, f"{name} are required to use {other_field}"))
    return all_errors


_MAX_REFERENCES = 32
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def request_names(requests: Iterable[Object]) -> dict[str, Set[str]]:
    """Request name → the names of its subrequests (``gatherRequestNames``)."""
    return {
        request.get("name") or "": {subrequest.get("name") or "" for subrequest in request.get("firstAvailable") or ()}
        for request in requests
    }


def validate_request_references(references: list[str], path: str, names: Mapping[str, Set[str]]) -> ErrorList:
    return validate_set(
        references,
        _MAX_REFERENCES,
        path,
        lambda reference, path: validate_request_reference(reference, path, names),
        lambda reference: reference,
    )


def validate_request_reference(reference: str, path: str, names: Mapping[str, Set[str]]) -> ErrorList:
    """``validateRequestNameRef``: ``<request>`` or ``<request>/<subrequest>``."""
    segments = reference.split("/")
    if len(segments) > 2:
        return [invalid(path, reference, _UNKNOWN_REQUEST)]
    errors = [error for segment in segments for error in validate_label(segment, path)]
    if segments[0] not in names or (len(segments) == 2 and segments[1] not in names[segments[0]]):
        errors.append(invalid(path, reference, _UNKNOWN_REQUEST))
    return errors
