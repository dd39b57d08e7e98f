"""Validation shared by FlowSchemas and PriorityLevelConfigurations."""

from functools import lru_cache

from pilothouse.apiserver.field_errors import ErrorList, duplicate, required
from pilothouse.apiserver.objects import Object
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.flowcontrol import bootstrap


@lru_cache(maxsize=1)
def mandatory() -> dict[str, Object]:
    """``<resource>/<name>`` → the spec of a mandatory object, which is fixed."""
    found = {(resource, obj["metadata"]["name"]): obj["spec"] for _group, resource, obj in bootstrap.flow_control("")}
    return {f"{resource}/{name}": found[resource, name] for resource, name in found if name in ("catch-all", "exempt")}


def validate_status_conditions(obj: Object) -> ErrorList:
    errors: ErrorList = []
    seen = set[str]()
    for position, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{position}].type", condition.get("type") or ""
        if kind in seen:
            errors.append(duplicate(path, kind))
        seen.add(kind)
        if not kind:
            errors.append(required(path))
    return errors
