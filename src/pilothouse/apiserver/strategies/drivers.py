"""Names of drivers, those of volumes and those of devices."""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.machinery.names import dns_subdomain_errors

LONGEST_DRIVER = 63


def driver_problems(name: str, path: str) -> list[FieldError]:
    """What is wrong with the name of a driver (``ValidateCSIDriverName``, kubernetes
    ``pkg/apis/core/validation/validation.go``, v1.36)."""
    problems = [] if name else [errors.required(path)]
    if len(name.encode()) > LONGEST_DRIVER:
        problems.append(errors.too_long(path, LONGEST_DRIVER))
    return problems + [errors.invalid_value(path, name, text) for text in dns_subdomain_errors(name.lower())]
