"""Validation of pod-level resources and resource claims.

After ``validatePodResources``, ``validatePodResourceClaims`` and ``validateResourceClaimNames`` in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Mapping, Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    FieldError,
    duplicate,
    forbidden,
    internal_value,
    invalid,
    not_found,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import validate_pod_resource_name, validate_resource_requirements
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors
from pilothouse.machinery.quantities import Quantity, QuantityError, parse_quantity

_CLAIM_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")
_HUGE_PAGES_PREFIX = "hugepages-"
ResourceList = dict[str, Quantity]


def validate_pod_resources(spec: Object, path: str) -> ErrorList:
    resources: Object | None = spec.get("resources")
    if resources is None:
        return []
    child_path = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(child_path, "may not be set for a windows pod")]
    errors: ErrorList = []
    if resources.get("claims") is not None:
        errors.append(forbidden(f"{child_path}.claims", "claims may not be set for Resources at pod-level"))
    errors += validate_resource_requirements(resources, child_path, validate_name=validate_pod_resource_name)
    errors += validate_container_claims(resources.get("claims") or (), f"{child_path}.claims", claim_names(spec))
    try:
        return errors + _validate_pod_resource_consistency(spec, resources, child_path)
    except QuantityError:
        return errors  # which include the invalid quantity


def _validate_pod_resource_consistency(spec: Object, resources: Object, path: str) -> ErrorList:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    errors: ErrorList = []
    for name, quantity in _aggregate_container_resources(spec, "requests").items():
        if name in requests and quantity > parse_quantity(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {quantity}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], detail))
    if any(name.startswith(_HUGE_PAGES_PREFIX) for name in limits):
        for name, quantity in _aggregate_container_resources(spec, "limits").items():
            if name.startswith(_HUGE_PAGES_PREFIX) and name in limits and quantity > parse_quantity(limits[name]):
                detail = f"must be greater than or equal to aggregate container limits of {quantity}"
                errors.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for position, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and parse_quantity(limit) > parse_quantity(limits[name]):
                # Upstream's path has this order.
                field = f"{path}.containers[{position}][{name}].limits"
                errors.append(invalid(field, limit, f"must be less than or equal to pod limits of {limits[name]}"))
    return errors


def _aggregate_container_resources(spec: Object, field: str) -> ResourceList:
    """The resources of all containers (``AggregateContainerRequests``, k8s.io/component-helpers v0.36): the sum of
    containers and sidecars, or the maximum of an init container with the sidecars started before it."""
    total: ResourceList = {}
    sidecars: ResourceList = {}
    init_containers_max: ResourceList = {}
    for container in spec.get("containers") or ():
        _add_resource_list(total, _resource_list(container, field))
    for container in spec.get("initContainers") or ():
        container_resources = _resource_list(container, field)
        if container.get("restartPolicy") == "Always":
            _add_resource_list(total, container_resources)
            _add_resource_list(sidecars, container_resources)
            container_resources = dict(sidecars)
        else:
            _add_resource_list(container_resources, sidecars)
        for name, quantity in container_resources.items():
            init_containers_max[name] = max(quantity, init_containers_max.get(name, quantity))
    for name, quantity in init_containers_max.items():
        total[name] = max(quantity, total.get(name, quantity))
    return total


def _resource_list(container: Object, field: str) -> ResourceList:
    quantities: Mapping[str, str] = (container.get("resources") or {}).get(field) or {}
    return {name: parse_quantity(str(quantity)) for name, quantity in quantities.items()}


def _add_resource_list(total: ResourceList, new_list: ResourceList) -> None:
    for name, quantity in new_list.items():
        total[name] = total[name] + quantity if name in total else quantity


# Claims -------------------------------------------------------------------------------------------------------------


def claim_names(spec: Object) -> frozenset[str]:
    return frozenset(claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name"))


def validate_pod_resource_claims(claims: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    pod_claim_names: set[str] = set()
    for position, claim in enumerate(claims):
        child_path, name = f"{path}[{position}]", claim.get("name") or ""
        if not name:
            errors.append(required(f"{child_path}.name"))
        elif name in pod_claim_names:
            errors.append(duplicate(f"{child_path}.name", name))
        else:
            errors += [invalid(f"{child_path}.name", name, msg) for msg in dns_label_errors(name)]
            pod_claim_names.add(name)
        fields = [field for field in _CLAIM_REFERENCES if claim.get(field) is not None]
        if len(fields) != 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                if fields
                else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
            errors.append(invalid(child_path, internal_value("core.PodResourceClaim", claim), detail))
        errors += [
            invalid(f"{child_path}.{field}", claim[field], msg)
            for field in fields
            for msg in dns_subdomain_errors(claim[field])
        ]
    return errors


def validate_container_claims(claims: Sequence[Object], path: str, pod_claim_names: frozenset[str]) -> ErrorList:
    errors: ErrorList = []
    names: set[str] = set()
    request_counts: dict[str, int] = {}
    """The number of different requests of each claim."""
    for position, claim in enumerate(claims):
        child_path, name, request = f"{path}[{position}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.append(required(child_path))
            continue
        if name in names:
            errors.append(duplicate(child_path, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                msgs = dns_label_errors(request)
                errors += [invalid(f"{child_path}.request", request, msg) for msg in msgs]
            if key in names:
                errors.append(duplicate(child_path, key))
            elif not request:
                errors += [duplicate(child_path, name)] * request_counts.get(name, 0)
            if request and key not in names:
                request_counts[name] = request_counts.get(name, 0) + 1
            names.add(key)
        if name not in pod_claim_names:
            errors.append(_claim_not_found(child_path, name, pod_claim_names))
    return errors


def _claim_not_found(path: str, name: str, pod_claim_names: frozenset[str]) -> FieldError:
    error = not_found(path, name)
    names_detail = ": " + ", ".join(sorted(pod_claim_names)) if pod_claim_names else " which is empty"
    return FieldError(
        error.field,
        error.reason,
        f"{error.text}: must be one of the names in pod.spec.resourceClaims{names_detail}",
    )
