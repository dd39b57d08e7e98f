"""Validation shared by FlowSchemas and PriorityLevelConfigurations."""

from functools import lru_cache

from pilothouse.apiserver.field_errors import ErrorList, duplicate, required
from pilothouse.apiserver.objects import Object
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.flowcontrol import bootstrap


@lru_cache(maxsize=1)
def mandatory_specs() -> dict[str, Object]:
    """``<resource>/<name>`` → the spec of a mandatory object, which is fixed."""
    specs = {
        (resource, obj["metadata"]["name"]): obj["spec"] for _group, resource, obj in bootstrap.flow_control_objects("")
    }
    return {f"{resource}/{name}": specs[resource, name] for resource, name in specs if name in ("catch-all", "exempt")}


def validate_status_conditions(obj: Object) -> ErrorList:
    errors: ErrorList = []
    condition_types = set[str]()
    for position, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{position}].type", condition.get("type") or ""
        if kind in condition_types:
            errors.append(duplicate(path, kind))
        condition_types.add(kind)
        if not kind:
            errors.append(required(path))
    return errors
