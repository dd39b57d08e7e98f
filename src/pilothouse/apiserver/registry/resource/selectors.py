"""Validation of the CEL selectors of devices.

After ``validateSelector`` in kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36); ``cel.devices``
compiles them.
"""

from functools import lru_cache

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.resource.validation import validate_slice
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.cel import devices as cel_devices

_MAX_SELECTORS = 32
_MAX_EXPRESSION_BYTES = 10 * 1024


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
    return [
        forbidden(child_path, detail) if detail == cel_devices.TOO_COMPLEX else invalid(child_path, expression, detail)
    ]


@lru_cache(maxsize=256)
def _compile_error(expression: str) -> str:
    """The error of an expression; "" if it is a valid selector."""
    return cel_devices.compile_error(expression)
