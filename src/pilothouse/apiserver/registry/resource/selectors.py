"""Validation of the CEL selectors of devices.

After k8s.io/dynamic-resource-allocation ``cel/compile.go`` (v0.36) and ``validateSelector`` in kubernetes'
``pkg/apis/resource/validation/validation.go`` (v1.36). Attributes have the type ``dyn``.
"""

from functools import lru_cache
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.resource.validation import validate_slice
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.cel import environment as cel_environment
    from pilothouse.cel import schemas, sizes


_MAX_SELECTORS = 32
_MAX_EXPRESSION_BYTES = 10 * 1024
_MAX_COST = 1_000_000
_MAX_MEMBERS, _MAX_VALUE_LENGTH, _MAX_DRIVER_LENGTH = 32, 64, 63
_TOO_COMPLEX = "too complex, exceeds cost limit"


def validate_selectors(selectors: list[Object], path: str, *, is_unchanged: bool = False) -> ErrorList:
    """The errors in selectors. Expressions of unchanged selectors are not compiled again."""
    return validate_slice(
        selectors, _MAX_SELECTORS, path, lambda selector, path: _validate_selector(selector, path, is_unchanged)
    )


def _validate_selector(selector: Object, path: str, is_unchanged: bool) -> ErrorList:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    expression, child_path = cel.get("expression") or "", f"{path}.cel.expression"
    if is_unchanged:
        return []
    if len(expression.encode()) > _MAX_EXPRESSION_BYTES:
        return [too_long(child_path, _MAX_EXPRESSION_BYTES)]
    detail = _compile_error(expression)
    if not detail:
        return []
    return [forbidden(child_path, detail) if detail == _TOO_COMPLEX else invalid(child_path, expression, detail)]


@lru_cache(maxsize=256)
def _compile_error(expression: str) -> str:
    """The error of an expression; "" if it is a valid selector."""
    environment, sizes = _environment()
    try:
        program = environment.compile(expression, return_types=("bool", "dyn"))
    except cel_environment.CompileError as error:
        detail = str(error)
        if detail.startswith("ERROR: "):
            return f"compilation failed: {detail}"
        return f"must evaluate to bool or the unknown type, not {detail}"
    return _TOO_COMPLEX if program.cost(sizes) > _MAX_COST else ""


@lru_cache(maxsize=1)
def _environment() -> tuple[Any, Any]:
    """The CEL environment, and the maximum sizes of the fields of a device, for cost estimates."""
    types, members = schemas.Types(), ("map", ("map", "dyn"))
    device: dict[str, schemas.Kind] = {
        "driver": "string",
        "allowMultipleAllocations": "bool",
        "attributes": members,
        "capacity": members,
    }
    types.messages.append(("Device", device))
    value = sizes.Sized(1, _MAX_VALUE_LENGTH)
    values = sizes.Sized(2, _MAX_MEMBERS, of=value, is_map=True, every=value)
    domains = sizes.Sized(2, _MAX_MEMBERS, of=values, is_map=True)
    fields = {
        "driver": sizes.Sized(2, _MAX_DRIVER_LENGTH),
        "allowMultipleAllocations": sizes.Sized(4, 1),
        "attributes": domains,
        "capacity": domains,
    }
    variables = {"device": f"{schemas.PACKAGE}.Device"}
    return cel_environment.Environment(variables, types.serialized(), bindings=True), sizes.Sized(2, fields=fields).size
