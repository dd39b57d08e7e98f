"""What a container is asked with: probes and hooks.

After ``validateProbe``, ``validateLifecycle`` and ``validateHandler`` in kubernetes'
``pkg/apis/core/validation/validation.go``
(v1.36). ``pod_templates`` calls the two functions below for each container.
"""

import re
from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import PORT_RANGE, number_problems
from pilothouse.machinery.names import port_name_errors, regex_error
from pilothouse.semantics.pod_defaults import PROBES

_OF_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_OF_HOOKS = ("exec", "httpGet", "tcpSocket", "sleep")
_SCHEMES = ("HTTP", "HTTPS")
_HEADER = "[-A-Za-z0-9]+"
_header = re.compile(_HEADER)
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def probe_problems(container: Object, path: str) -> list[FieldError]:
    """What is wrong with the probes of a container."""
    problems: list[FieldError] = []
    for name in PROBES:
        probe, where = container.get(name), f"{path}.{name}"
        if probe is None:
            continue
        problems += _handler_problems(probe, where, _OF_PROBES, None) + number_problems(probe, where, _NUMBERS)
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            field = f"{where}.terminationGracePeriodSeconds"
            problems.append(errors.invalid_value(field, grace, "must be greater than 0"))
        if name != "readinessProbe":
            times = probe.get("successThreshold")
            if times != 1:
                problems.append(errors.invalid_value(f"{where}.successThreshold", times, "must be 1"))
        elif grace is not None:
            field = f"{where}.terminationGracePeriodSeconds"
            problems.append(errors.invalid_value(field, grace, "must not be set for readinessProbes"))
    return problems


def hook_problems(container: Object, path: str, grace: int | None) -> list[FieldError]:
    """What is wrong with the hooks of a container whose pod has this grace period."""
    hooks = container.get("lifecycle") or {}
    problems: list[FieldError] = []
    for name in ("postStart", "preStop"):
        if hooks.get(name) is not None:
            problems += _handler_problems(hooks[name], f"{path}.lifecycle.{name}", _OF_HOOKS, grace)
    return problems


def _handler_problems(holder: Object, path: str, kinds: Sequence[str], grace: int | None) -> list[FieldError]:
    """Exactly one handler, and what is wrong with it. Of what is too much only that is said."""
    given = [kind for kind in kinds if holder.get(kind) is not None]
    if not given:
        return [errors.required(path, "must specify a handler type")]
    first, more = given[0], given[1:]
    problems = _one_problems(first, holder[first], f"{path}.{first}", grace)
    return problems + [
        errors.not_allowed(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in more
    ]


def _one_problems(kind: str, handler: Object, path: str, grace: int | None) -> list[FieldError]:
    match kind:
        case "exec":
            return [] if handler.get("command") else [errors.required(f"{path}.command")]
        case "httpGet":
            return _http_problems(handler, path)
        case "tcpSocket":
            return _port_problems(handler.get("port"), f"{path}.port")
        case "grpc":
            return _port_problems(handler.get("port"), f"{path}.port")
        case _:
            return _sleep_problems(handler.get("seconds") or 0, path, grace)


def _http_problems(handler: Object, path: str) -> list[FieldError]:
    problems = _port_problems(handler.get("port"), f"{path}.port")
    if handler.get("scheme") not in _SCHEMES:
        problems.append(errors.not_supported(f"{path}.scheme", handler.get("scheme"), _SCHEMES))
    for header in handler.get("httpHeaders") or ():
        name = header.get("name") or ""
        if not _header.fullmatch(name):
            told = "a valid HTTP header must consist of alphanumeric characters or '-'"
            text = regex_error(told, _HEADER, ("X-Header-Name",))
            problems.append(errors.invalid_value(f"{path}.httpHeaders", name, text))
    return problems


def _port_problems(port: Any, path: str) -> list[FieldError]:
    """A number, or the name of a port."""
    if isinstance(port, str):
        return [errors.invalid_value(path, port, text) for text in port_name_errors(port)]
    number = port or 0
    return [] if 1 <= number <= 65535 else [errors.invalid_value(path, number, PORT_RANGE)]


def _sleep_problems(seconds: int, path: str, grace: int | None) -> list[FieldError]:
    if grace is None or 0 <= seconds <= grace:
        return []
    told = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [errors.invalid_value(path, seconds, told)]
