"""Validation of the status of pods.

After ``ValidatePodStatusUpdate`` and the functions it calls in kubernetes' ``pkg/apis/core/validation/validation.go``
(v1.36).
"""

from collections.abc import Mapping, Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
    required,
    too_long,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.restart_policies import (
    all_containers_could_restart,
    container_should_restart,
)
from pilothouse.apiserver.registry.core.pods.security_context import ID_RANGE, is_valid_id
from pilothouse.apiserver.registry.generic.ip_validation import family_of, validate_ip_for_legacy_field
from pilothouse.apiserver.registry.generic.object_fields import validate_immutable_fields
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, qualified_name_errors

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_NOT_NEGATIVE = "must be a non-negative integer"
_ONE_OF_EACH_FAMILY = "may specify no more than one IP for each IP family"
_HEALTH_STATUSES = ("Healthy", "Unhealthy", "Unknown")
_MAX_HEALTH_MESSAGE = 1024
_STATUS_AND_SPEC_FIELDS = (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers"))
_EPHEMERAL_CONTAINER_STATUSES = "ephemeralContainerStatuses"
_LESS_COMMON_FIELDS = frozenset(("user", "allocatedResourcesStatus"))


def validate_pod_status_fields(pod: Object, old: Object) -> ErrorList:
    """The errors in an update of the status."""
    spec, status, old_status = old["spec"], pod.get("status") or {}, old.get("status") or {}
    errors: ErrorList = []
    for position, condition in enumerate(status.get("conditions") or ()):
        if condition.get("type") not in _SYSTEM_CONDITIONS or "observedGeneration" in condition:
            errors += _validate_pod_conditions(condition, f"status.conditions[{position}]")
    node = status.get("nominatedNodeName")
    if node and node != old_status.get("nominatedNodeName"):
        path = "status.nominatedNodeName"
        errors += [invalid(path, node, msg) for msg in dns_subdomain_errors(node)]
        if spec.get("nodeName"):
            errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    if (status.get("observedGeneration") or 0) < 0:
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    errors += validate_immutable_fields(status, old_status, "status", {"qosClass": "named"})
    for field, spec_field in (*_STATUS_AND_SPEC_FIELDS, (_EPHEMERAL_CONTAINER_STATUSES, "")):
        if field in old_status:
            errors += _validate_container_state_transition(status, old_status, field, spec, spec_field)
    if "resourceClaimStatuses" in status:
        errors += _validate_resource_claim_statuses(
            status["resourceClaimStatuses"] or (), spec.get("resourceClaims") or ()
        )
    if status.get("extendedResourceClaimStatus") is not None:
        errors += _validate_extended_resource_claim_status(status["extendedResourceClaimStatus"], spec)
    errors += _validate_pod_ips(status, old_status) + _validate_host_ips(status, old_status)
    return errors + _validate_container_statuses(status, spec)


def _validate_pod_conditions(condition: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, _NOT_NEGATIVE))
    kind = condition.get("type") or ""
    if kind in _SYSTEM_CONDITIONS:
        return errors
    return errors + [invalid(f"{path}.Type", kind, msg) for msg in qualified_name_errors(kind)]


def _validate_container_state_transition(
    status: Object, old_status: Object, field: str, spec: Object, spec_field: str
) -> ErrorList:
    """``ValidateContainerStateTransition``: a terminated container may run again only if it should restart; ephemeral
    containers (``spec_field`` is "") never do. The path has the index in the old status."""
    old_statuses: Sequence[Object] = old_status.get(field) or ()
    if not any((old_container_status.get("state") or {}).get("terminated") for old_container_status in old_statuses):
        return []
    if spec_field and all_containers_could_restart(spec):
        return []
    containers: Sequence[Object] = spec.get(spec_field) or () if spec_field else ()
    errors: ErrorList = []
    new_statuses = {
        container_status.get("name"): container_status for container_status in reversed(status.get(field) or ())
    }
    for position, old_container_status in enumerate(old_statuses):
        terminated = (old_container_status.get("state") or {}).get("terminated")
        new_container_status = None if terminated is None else new_statuses.get(old_container_status.get("name"))
        if (
            terminated is None
            or new_container_status is None
            or (new_container_status.get("state") or {}).get("terminated") is not None
        ):
            continue
        container = next((c for c in containers if c.get("name") == old_container_status.get("name")), None)
        exit_code = terminated.get("exitCode") or 0
        if container is None or not container_should_restart(container, spec.get("restartPolicy"), exit_code):
            detail = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"status.{field}[{position}].state", detail))
    return errors


def _validate_resource_claim_statuses(statuses: Sequence[Object], claims: Sequence[Object]) -> ErrorList:
    errors: ErrorList = []
    claim_names = {claim.get("name") for claim in claims}
    names: set[str] = set()
    for position, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{position}]", status.get("name") or ""
        if name not in claim_names:
            errors.append(invalid(f"{path}.name", name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            msgs = dns_subdomain_errors(claim)
            errors += [invalid(f"{path}.resourceClaimName", claim, msg) for msg in msgs]
    return errors


def _validate_extended_resource_claim_status(status: Object, spec: Object) -> ErrorList:
    """``validatePodExtendedResourceClaimStatus``: the claim created for extended resources."""
    path = "status.extendedResourceClaimStatus"
    containers: Mapping[str, Object] = {
        container.get("name") or "": container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
    }
    mappings: Sequence[Object] = status.get("requestMappings") or ()
    errors: ErrorList = []
    if not mappings:
        errors.append(required(f"{path}.requestMappings", "at least one request mapping is required"))
    keys: set[tuple[str, ...]] = set()
    fields = ("containerName", "resourceName", "requestName")
    for position, mapping in enumerate(mappings):
        child_path = f"{path}.requestMappings[{position}]"
        name, resource, request = key = tuple(mapping.get(field) or "" for field in fields)
        if name not in containers:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(f"{child_path}.containerName", name, detail))
        elif resource not in ((containers[name].get("resources") or {}).get("requests") or {}):
            detail = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            errors.append(invalid(f"{child_path}.resourceName", resource, detail))
        errors += [invalid(f"{path}.requestName", request, msg) for msg in dns_label_errors(request)]
        if key in keys:
            errors += [duplicate(f"{child_path}.{field}", value) for field, value in zip(fields, key, strict=True)]
        keys.add(key)
    claim = status.get("resourceClaimName") or ""
    if not claim:
        return [*errors, required(f"{path}.resourceClaimName")]
    child_path = f"{path}.resourceClaimName"
    return errors + [invalid(child_path, claim, msg) for msg in dns_subdomain_errors(claim)]


# Addresses ----------------------------------------------------------------------------------------------------------


def _ips(addresses: Sequence[Object] | None) -> list[str]:
    return [address.get("ip") or "" for address in addresses or ()]


def _validate_pod_ips(status: Object, old_status: Object) -> ErrorList:
    addresses: Sequence[Object] = status.get("podIPs") or ()
    old_addresses = old_status.get("podIPs")
    return (
        []
        if not addresses or addresses == old_addresses
        else _validate_one_of_each_family(addresses, old_addresses, "status.podIPs")
    )


def _validate_host_ips(status: Object, old_status: Object) -> ErrorList:
    addresses: Sequence[Object] = status.get("hostIPs") or ()
    if not addresses:
        return []
    errors: ErrorList = []
    first_ip = addresses[0].get("ip") or ""
    if (status.get("hostIP") or "") != first_ip:
        errors.append(invalid("status.hostIPs[0].ip", first_ip, "must be equal to `hostIP`"))
    old_addresses = old_status.get("hostIPs")
    return (
        errors
        if addresses == old_addresses
        else errors + _validate_one_of_each_family(addresses, old_addresses, "status.hostIPs")
    )


def _validate_one_of_each_family(
    addresses: Sequence[Object], old_addresses: Sequence[Object] | None, path: str
) -> ErrorList:
    ips, valid_old_ips = _ips(addresses), _ips(old_addresses)
    errors: ErrorList = []
    for position, ip in enumerate(ips):
        errors += validate_ip_for_legacy_field(ip, f"{path}[{position}]", valid_old_ips)
    if len(ips) > 1 and sorted(family_of(ip) for ip in ips) != [4, 6]:
        errors.append(invalid(path, internal_value("[]core.PodIP", addresses), _ONE_OF_EACH_FAMILY))
    return errors


# Containers ---------------------------------------------------------------------------------------------------------


def _validate_container_statuses(status: Object, spec: Object) -> ErrorList:
    if not _has_less_common_fields(status):
        return []
    fields = (*_STATUS_AND_SPEC_FIELDS, (_EPHEMERAL_CONTAINER_STATUSES, ""))
    errors: ErrorList = []
    os_name = (spec.get("os") or {}).get("name") or "linux"
    for field, _spec_field in fields:
        for position, container_status in enumerate(status.get(field) or ()):
            linux = (container_status.get("user") or {}).get("linux")
            if linux is not None:
                errors += _validate_container_status_users(linux, f"status.{field}[{position}].user.linux", os_name)
    for field, spec_field in fields:
        for position, container_status in enumerate(status.get(field) or ()):
            allocated, path = container_status.get("allocatedResourcesStatus"), f"status.{field}[{position}]"
            if allocated and not spec_field:
                detail = "must not be specified in container status"
                errors.append(forbidden(f"{path}.allocatedResourcesStatus", detail))
            elif allocated:
                name = container_status.get("name")
                container = next(
                    (candidate for candidate in spec.get(spec_field) or () if candidate.get("name") == name), None
                )
                for index, resource in enumerate(allocated):
                    errors += _validate_allocated_resources_status(
                        resource, container, f"{path}.allocatedResourcesStatus[{index}]"
                    )
    return errors


def _has_less_common_fields(status: Object) -> bool:
    for field in ("containerStatuses", "initContainerStatuses", _EPHEMERAL_CONTAINER_STATUSES):
        for container_status in status.get(field) or ():
            if not _LESS_COMMON_FIELDS.isdisjoint(container_status):
                return True
    return False


def _validate_container_status_users(user: Object, path: str, os_name: str) -> ErrorList:
    if os_name == "windows":
        return [forbidden(path, "cannot be set for a windows pod")]
    ids = [(field, user.get(field)) for field in ("uid", "gid")]
    ids += [
        (f"supplementalGroups[{position}]", group)
        for position, group in enumerate(user.get("supplementalGroups") or ())
    ]
    return [invalid(f"{path}.{field}", value, ID_RANGE) for field, value in ids if not is_valid_id(value)]


def _validate_allocated_resources_status(resource: Object, container: Object | None, path: str) -> ErrorList:
    """``validateContainerStatusAllocatedResourcesStatus``: the health of the devices of a container."""
    errors: ErrorList = []
    name = resource.get("name") or ""
    # Upstream accepts statuses of containers that are not in the spec.
    if container is not None and name not in _requested_names(container, claims=name.startswith("claim:")):
        detail = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
            if name.startswith("claim:")
            else "must match one of the container's resource requests"
        )
        errors.append(invalid(f"{path}.name", name, detail))
    resource_ids: set[str] = set()
    for position, device in enumerate(resource.get("resources") or ()):
        child_path, health = f"{path}.resources[{position}]", device.get("health") or ""
        if health not in _HEALTH_STATUSES:
            errors.append(not_supported(f"{child_path}.health", health, _HEALTH_STATUSES))
        message = device.get("message")
        if message == "":
            errors.append(required(f"{child_path}.message", "must be non-empty if specified"))
        elif message is not None and len(message.encode()) > _MAX_HEALTH_MESSAGE:
            errors.append(too_long(f"{child_path}.message", _MAX_HEALTH_MESSAGE))
        resource_id = device.get("resourceID") or ""
        if resource_id in resource_ids:
            errors.append(duplicate(f"{child_path}.resourceID", of_named_type(resource_id)))
        resource_ids.add(resource_id)
    return errors


def _requested_names(container: Object, *, claims: bool) -> set[str]:
    resources = container.get("resources") or {}
    if not claims:
        return set(resources.get("requests") or ())
    return {
        "claim:" + claim["name"] + (f"/{claim['request']}" if claim.get("request") else "")
        for claim in resources.get("claims") or ()
        if claim.get("name")
    }
