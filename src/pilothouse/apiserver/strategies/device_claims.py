"""What is wrong with ResourceClaims, their templates, and DeviceClasses: which devices are wished for.

After kubernetes' ``pkg/apis/resource/validation`` (v1.36). What a claim has got is ``device_allocations``'.
"""

from collections.abc import Mapping, Set

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.amounts import is_extended
from pilothouse.apiserver.strategies.device_parts import (
    configuration_problems,
    device_toleration_problems,
    full_name_problems,
    items_problems,
    label_problems,
    set_problems,
)
from pilothouse.apiserver.strategies.device_requests import reference_problems, request_names
from pilothouse.apiserver.strategies.device_selectors import selectors_problems
from pilothouse.apiserver.strategies.selectors import annotation_problems, label_problems_in
from pilothouse.machinery.names import dns_subdomain_errors

_MOST = 32
_MOST_CHOICES = 8
_MODES = ("All", "ExactCount")
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"


def template_problems(spec: Object) -> list[FieldError]:
    """What is wrong with a template."""
    metadata = spec["metadata"]
    problems = annotation_problems(metadata.get("annotations") or {}, "spec.metadata.annotations")
    problems += label_problems_in(metadata.get("labels") or {}, "spec.metadata.labels")
    problems += [
        errors.not_allowed(f"spec.metadata.{name}", "cannot be set")
        for name, value in metadata.items()
        if value and name not in ("annotations", "labels")
    ]
    return problems + claim_problems(spec["spec"].get("devices") or {}, "spec.spec.devices")


def class_problems(spec: Object, old: Object | None) -> list[FieldError]:
    """What is wrong with a class. What is as it was is not looked at again."""
    selectors = spec.get("selectors") or []
    stored = old is not None and selectors == (old.get("selectors") or [])
    problems = selectors_problems(selectors, "spec.selectors", stored=stored)
    problems += items_problems(spec.get("config") or [], _MOST, "spec.config", configuration_problems)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        text = "must be a valid extended resource name"
        problems.append(errors.invalid_value("spec.extendedResourceName", name, text))
    return problems


def claim_problems(claim: Object, path: str) -> list[FieldError]:
    """What is wrong with a claim."""
    requests = claim.get("requests") or []
    names = request_names(requests)
    problems = set_problems(
        requests, _MOST, f"{path}.requests", _request_problems, lambda request: request.get("name") or ""
    )
    problems += items_problems(
        claim.get("constraints") or [],
        _MOST,
        f"{path}.constraints",
        lambda constraint, where: _constraint_problems(constraint, where, names),
    )
    return problems + items_problems(
        claim.get("config") or [],
        _MOST,
        f"{path}.config",
        lambda one, where: (
            reference_problems(one.get("requests") or [], f"{where}.requests", names)
            + configuration_problems(one, where)
        ),
    )


def _request_problems(request: Object, path: str) -> list[FieldError]:
    """One wish, or several of which the first that can be had is taken."""
    problems = label_problems(request.get("name") or "", f"{path}.name")
    exactly, choices = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and choices:
        text = f"{_ONE_KIND}, but multiple fields are set"
        return [*problems, errors.invalid_value(path, None, text)]
    if exactly is not None:
        return problems + _wish_problems(exactly, f"{path}.exactly")
    if not choices:
        return [*problems, errors.required(path, _ONE_KIND)]
    return problems + set_problems(
        choices,
        _MOST_CHOICES,
        f"{path}.firstAvailable",
        lambda one, where: label_problems(one.get("name") or "", f"{where}.name") + _wish_problems(one, where),
        lambda one: one.get("name") or "",
    )


def _wish_problems(wish: Object, path: str) -> list[FieldError]:
    class_name, where = wish.get("deviceClassName") or "", f"{path}.deviceClassName"
    problems = [] if class_name else [errors.required(where)]
    if class_name:
        problems += [errors.invalid_value(where, class_name, text) for text in dns_subdomain_errors(class_name)]
    problems += selectors_problems(wish.get("selectors") or [], f"{path}.selectors")
    mode, count = wish.get("allocationMode"), wish.get("count") or 0
    if mode not in _MODES:
        problems.append(errors.not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        text = "must not be specified when allocationMode is 'All'"
        problems.append(errors.invalid_value(f"{path}.count", count, text))
    elif mode == "ExactCount" and count <= 0:
        problems.append(errors.invalid_value(f"{path}.count", count, "must be greater than zero"))
    for position, toleration in enumerate(wish.get("tolerations") or ()):
        problems += device_toleration_problems(toleration, f"{path}.tolerations[{position}]")
    return problems


def _constraint_problems(constraint: Object, path: str, names: Mapping[str, Set[str]]) -> list[FieldError]:
    problems = reference_problems(constraint.get("requests") or [], f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return problems + full_name_problems(constraint[field], f"{path}.{field}")
    # Upstream's words, which are about another mistake.
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*problems, errors.required(path, text)]
