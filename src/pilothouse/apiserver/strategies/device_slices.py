"""What is wrong with ResourceSlices: which devices a node or a driver has.

After kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36).
"""

import re

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.affinities import node_selector_problems
from pilothouse.apiserver.strategies.device_capacities import capacity_problems
from pilothouse.apiserver.strategies.device_parts import (
    binding_problems,
    items_problems,
    label_problems,
    map_problems,
    pool_problems,
    qualified_problems,
    set_problems,
    taint_problems,
)
from pilothouse.apiserver.strategies.drivers import driver_problems
from pilothouse.apiserver.strategies.filling import fixed
from pilothouse.machinery.names import dns_subdomain_errors

_MOST_DEVICES, _MOST_ADVANCED = 128, 64
_MOST_MEMBERS = 32
_MOST_COUNTERS = 32
_MOST_COUNTER_SETS, _MOST_CONSUMED = 8, 2
_MOST_TAINTS = 16
_LONGEST_VALUE = 64
_LONGEST_LABEL = 63
_VALUES = ("bool", "int", "string", "version")
_PLACES = ("nodeName", "nodeSelector", "allNodes")
_NUMBER = r"(?:0|[1-9]\d*)"
_PRE = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)


def slice_problems(spec: Object, old: Object | None) -> list[FieldError]:
    """What is wrong with a slice. Of a device only what is new is looked at."""
    problems = driver_problems(spec.get("driver") or "", "spec.driver")
    pool = spec.get("pool") or {}
    problems += _pool_problems(pool, "spec.pool")
    if old is not None:
        problems += fixed(pool, old.get("pool") or {}, "spec.pool", ("name",))
        problems += fixed(spec, old, "spec", ("driver", "nodeName"))
    places, chosen = _slice_places(spec)
    problems += places
    which = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not chosen:
        problems.append(errors.required("spec", which))
    elif len(chosen) > 1:
        text = f"{which}, but multiple fields are set"
        problems.append(errors.invalid_value("spec", f"{{{', '.join(chosen)}}}", text))
    devices, shared = spec.get("devices") or [], spec.get("sharedCounters") or []
    if devices and shared:
        problems.append(errors.invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    known = {device.get("name"): device for device in (old or {}).get("devices") or ()}
    of_its_own = spec.get("perDeviceNodeSelection") is True
    problems += set_problems(
        devices,
        _MOST_ADVANCED if is_advanced else _MOST_DEVICES,
        "spec.devices",
        lambda device, where: _device_problems(device, known.get(device.get("name")), where, of_its_own),
        lambda device: device.get("name") or "",
    )
    return problems + set_problems(
        shared,
        _MOST_COUNTER_SETS,
        "spec.sharedCounters",
        lambda one, where: _counters_problems(one, where, "name"),
        lambda one: one.get("name") or "",
    )


def _pool_problems(pool: Object, path: str) -> list[FieldError]:
    problems = pool_problems(pool.get("name") or "", f"{path}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        problems.append(errors.invalid_value(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        text = "must be greater than or equal to zero"
        problems.append(errors.invalid_value(f"{path}.generation", generation, text))
    return problems


def _slice_places(spec: Object) -> tuple[list[FieldError], list[str]]:
    """Where all devices are, and by which fields that is said."""
    problems, chosen = _places(spec, "spec", "must be either unset or set to a non-empty string")
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if spec.get("nodeSelector") is not None and len(terms) != 1:
        where, text = "spec.nodeSelector.nodeSelectorTerms", "must have exactly one node selector term"
        problems.append(errors.invalid_value(where, [_shown(term) for term in terms], text))
    apart = spec.get("perDeviceNodeSelection")
    if apart:
        chosen.append("`perDeviceNodeSelection`")
    elif apart is not None:
        text = "must be either unset or set to true"
        problems.append(errors.invalid_value("spec.perDeviceNodeSelection", apart, text))
    return problems, chosen


def _shown(term: Object) -> Object:
    """A term as upstream's own type prints it."""
    parts = {}
    for name in ("matchExpressions", "matchFields"):
        wanted = term.get(name)
        parts[name[:1].upper() + name[1:]] = wanted and [
            {"Key": one.get("key"), "Operator": one.get("operator"), "Values": one.get("values")} for one in wanted
        ]
    return parts


def _places(holder: Object, path: str, empty: str) -> tuple[list[FieldError], list[str]]:
    problems: list[FieldError] = []
    chosen: list[str] = []
    name, selector, everywhere = (holder.get(field) for field in _PLACES)
    if name:
        chosen.append("`nodeName`")
        problems += [errors.invalid_value(f"{path}.nodeName", name, text) for text in dns_subdomain_errors(name)]
    elif name is not None:
        problems.append(errors.invalid_value(f"{path}.nodeName", name, empty))
    if selector is not None:
        chosen.append("`nodeSelector`")
        problems += node_selector_problems(selector, f"{path}.nodeSelector")
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        text = "must be either unset or set to true"
        problems.append(errors.invalid_value(f"{path}.allNodes", everywhere, text))
    return problems, chosen


def _device_problems(device: Object, old: Object | None, path: str, of_its_own: bool) -> list[FieldError]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    problems = label_problems(device.get("name") or "", f"{path}.name")
    if len(attributes) + len(capacity) > _MOST_MEMBERS:
        text = f"the total number of attributes and capacities must not exceed {_MOST_MEMBERS}"
        problems.append(errors.invalid_value(path, len(attributes) + len(capacity), text))
    problems += map_problems(attributes, f"{path}.attributes", qualified_problems, _attribute_problems)
    if old is None or capacity != (old.get("capacity") or {}):
        is_shared = device.get("allowMultipleAllocations") is True
        problems += map_problems(
            capacity,
            f"{path}.capacity",
            qualified_problems,
            lambda one, where: capacity_problems(one, where, is_shared=is_shared),
        )
    taints = device.get("taints") or []
    if old is None or taints != (old.get("taints") or []):
        problems += items_problems(taints, _MOST_TAINTS, f"{path}.taints", taint_problems)
    problems += set_problems(
        device.get("consumesCounters") or [],
        _MOST_CONSUMED,
        f"{path}.consumesCounters",
        lambda one, where: _counters_problems(one, where, "counterSet"),
        lambda one: one.get("counterSet") or "",
    )
    return problems + _place_problems(device, path, of_its_own) + binding_problems(device, path)


def _place_problems(device: Object, path: str, of_its_own: bool) -> list[FieldError]:
    """Where a device is that has a place ``of_its_own``."""
    if not of_its_own:
        if all(device.get(field) is None for field in _PLACES):
            return []
        text = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
            "the ResourceSlice spec"
        )
        return [errors.invalid_value(path, None, text)]
    problems, chosen = _places(device, path, "must not be empty")
    which = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    if not chosen:
        problems.append(errors.required(path, which))
    elif len(chosen) > 1:
        problems.append(errors.invalid_value(path, f"{{{', '.join(chosen)}}}", which))
    return problems


def _attribute_problems(attribute: Object, path: str) -> list[FieldError]:
    text, version = attribute.get("string"), attribute.get("version")
    problems: list[FieldError] = []
    if text is not None and len(text.encode()) > _LONGEST_VALUE:
        problems.append(errors.too_long(f"{path}.string", _LONGEST_VALUE))
    if version is not None:
        where = f"{path}.version"
        if _version.fullmatch(version) is None:
            told = "must be a string compatible with semver.org spec 2.0.0"
            problems.append(errors.invalid_value(where, version, told))
        if len(version.encode()) > _LONGEST_VALUE:
            problems.append(errors.too_long(where, _LONGEST_VALUE))
    given = sum(attribute.get(field) is not None for field in _VALUES)
    if given != 1:
        # Of several, upstream shows its own type, in which those that are not given are null.
        shown = "" if not given else _all_values(attribute)
        problems.append(errors.invalid_value(path, shown, "exactly one value must be specified"))
    return problems


def _all_values(attribute: Object) -> Object:
    scalars = {f"{name.capitalize()}Value": attribute.get(name) for name in ("int", "bool", "string", "version")}
    return {**scalars, **{f"{name.capitalize()}Values": None for name in ("int", "bool", "string", "version")}}


def _counters_problems(counters: Object, path: str, field: str) -> list[FieldError]:
    """Counters that are shared, or that a device takes of."""
    name, members = counters.get(field) or "", counters.get("counters") or {}
    problems = label_problems(name, f"{path}.{field}") if name else [errors.required(f"{path}.{field}")]
    if not members:
        return [*problems, errors.required(f"{path}.counters")]
    return problems + map_problems(
        members, f"{path}.counters", label_problems, most=_MOST_COUNTERS, longest=_LONGEST_LABEL
    )
