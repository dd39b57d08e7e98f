"""Validation of probes and lifecycle hooks.

After ``validateProbe``, ``validateLifecycle`` and ``validateHandler`` in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE, validate_nonnegative_fields
from pilothouse.machinery.names import port_name_errors, regex_error
from pilothouse.semantics.pod_defaults import PROBES

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = "[-A-Za-z0-9]+"
_header = re.compile(_HEADER)
_NON_NEGATIVE_FIELDS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_probe(container: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    for name in PROBES:
        probe, child_path = container.get(name), f"{path}.{name}"
        if probe is None:
            continue
        errors += _validate_handler(probe, child_path, _PROBE_HANDLERS, None) + validate_nonnegative_fields(
            probe, child_path, _NON_NEGATIVE_FIELDS
        )
        grace_period = probe.get("terminationGracePeriodSeconds")
        if grace_period is not None and grace_period <= 0:
            field = f"{child_path}.terminationGracePeriodSeconds"
            errors.append(invalid(field, grace_period, "must be greater than 0"))
        if name != "readinessProbe":
            success_threshold = probe.get("successThreshold")
            if success_threshold != 1:
                errors.append(invalid(f"{child_path}.successThreshold", success_threshold, "must be 1"))
        elif grace_period is not None:
            field = f"{child_path}.terminationGracePeriodSeconds"
            errors.append(invalid(field, grace_period, "must not be set for readinessProbes"))
    return errors


def validate_lifecycle(container: Object, path: str, grace_period: int | None) -> ErrorList:
    lifecycle = container.get("lifecycle") or {}
    errors: ErrorList = []
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            errors += _validate_handler(lifecycle[name], f"{path}.lifecycle.{name}", _HOOK_HANDLERS, grace_period)
    return errors


def _validate_handler(handler: Object, path: str, handler_types: Sequence[str], grace_period: int | None) -> ErrorList:
    """``validateHandler``: exactly one handler is allowed; only the first is validated."""
    types_set = [type_ for type_ in handler_types if handler.get(type_) is not None]
    if not types_set:
        return [required(path, "must specify a handler type")]
    handler_type, other_types = types_set[0], types_set[1:]
    all_errors = _validate_action(handler_type, handler[handler_type], f"{path}.{handler_type}", grace_period)
    return all_errors + [
        forbidden(f"{path}.{type_}", "may not specify more than 1 handler type") for type_ in other_types
    ]


def _validate_action(handler_type: str, handler: Object, path: str, grace_period: int | None) -> ErrorList:
    match handler_type:
        case "exec":
            return [] if handler.get("command") else [required(f"{path}.command")]
        case "httpGet":
            return _validate_http_get_action(handler, path)
        case "tcpSocket":
            return _validate_port_num_or_name(handler.get("port"), f"{path}.port")
        case "grpc":
            return _validate_port_num_or_name(handler.get("port"), f"{path}.port")
        case _:
            return _validate_sleep_action(handler.get("seconds") or 0, path, grace_period)


def _validate_http_get_action(handler: Object, path: str) -> ErrorList:
    errors = _validate_port_num_or_name(handler.get("port"), f"{path}.port")
    if handler.get("scheme") not in _SCHEMES:
        errors.append(not_supported(f"{path}.scheme", handler.get("scheme"), _SCHEMES))
    for header in handler.get("httpHeaders") or ():
        name = header.get("name") or ""
        if not _header.fullmatch(name):
            detail = "a valid HTTP header must consist of alphanumeric characters or '-'"
            errors.append(invalid(f"{path}.httpHeaders", name, regex_error(detail, _HEADER, ("X-Header-Name",))))
    return errors


def _validate_port_num_or_name(port: Any, path: str) -> ErrorList:
    if isinstance(port, str):
        return [invalid(path, port, msg) for msg in port_name_errors(port)]
    number = port or 0
    return [] if 1 <= number <= 65535 else [invalid(path, number, PORT_RANGE)]


def _validate_sleep_action(seconds: int, path: str, grace_period: int | None) -> ErrorList:
    if grace_period is None or 0 <= seconds <= grace_period:
        return []
    return [
        invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})")
    ]
