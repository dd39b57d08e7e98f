"""Expressions that choose devices.

After k8s.io/dynamic-resource-allocation ``cel/compile.go`` (v0.36) and ``validateSelector`` in kubernetes'
``pkg/apis/resource/validation/validation.go`` (v1.36). What an attribute is nobody knows before it is read.
"""

from functools import lru_cache
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.device_parts import items_problems

_MOST = 32
_LONGEST = 10 * 1024
_MOST_COST = 1_000_000
_MOST_MEMBERS, _LONGEST_VALUE, _LONGEST_DRIVER = 32, 64, 63
_TOO_COMPLEX = "too complex, exceeds cost limit"


def selectors_problems(selectors: list[Object], path: str, *, stored: bool = False) -> list[FieldError]:
    """What is wrong with selectors. Expressions that are ``stored`` were valid before."""
    return items_problems(selectors, _MOST, path, lambda one, where: _selector_problems(one, where, stored))


def _selector_problems(selector: Object, path: str, stored: bool) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [errors.required(f"{path}.cel")]
    text, where = cel.get("expression") or "", f"{path}.cel.expression"
    if stored:
        return []
    if len(text.encode()) > _LONGEST:
        return [errors.too_long(where, _LONGEST)]
    fault = _fault(text)
    if not fault:
        return []
    return [errors.not_allowed(where, fault) if fault == _TOO_COMPLEX else errors.invalid_value(where, text, fault)]


@lru_cache(maxsize=256)
def _fault(text: str) -> str:
    """Why an expression is no selector; "" when it is one."""
    # Strategies are made before what evaluates expressions can be imported.
    from pilothouse.apiserver.cel.environment import CompileError

    environment, sizes = _environment()
    try:
        program = environment.compile(text, gives=("bool", "dyn"))
    except CompileError as error:
        told = str(error)
        if told.startswith("ERROR: "):
            return f"compilation failed: {told}"
        return f"must evaluate to bool or the unknown type, not {told}"
    return _TOO_COMPLEX if program.cost(sizes) > _MOST_COST else ""


@lru_cache(maxsize=1)
def _environment() -> tuple[Any, Any]:
    """Where they are compiled, and how large the parts of a device can be."""
    from pilothouse.apiserver.cel.environment import Environment
    from pilothouse.apiserver.cel.schemas import PACKAGE, Kind, Types
    from pilothouse.apiserver.cel.sizes import Sized

    types, members = Types(), ("map", ("map", "dyn"))
    device: dict[str, Kind] = {
        "driver": "string",
        "allowMultipleAllocations": "bool",
        "attributes": members,
        "capacity": members,
    }
    types.messages.append(("Device", device))
    value = Sized(1, _LONGEST_VALUE)
    values = Sized(2, _MOST_MEMBERS, of=value, is_map=True, every=value)
    domains = Sized(2, _MOST_MEMBERS, of=values, is_map=True)
    fields = {
        "driver": Sized(2, _LONGEST_DRIVER),
        "allowMultipleAllocations": Sized(4, 1),
        "attributes": domains,
        "capacity": domains,
    }
    return Environment({"device": f"{PACKAGE}.Device"}, types.serialized()), Sized(2, fields=fields).size
