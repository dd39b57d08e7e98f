"""What is wrong with the status of a pod.

After ``ValidatePodStatusUpdate`` and what it calls in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Mapping, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.container_policies import all_may_run_again, runs_again
from pilothouse.apiserver.strategies.filling import fixed
from pilothouse.apiserver.strategies.network_forms import address_problems, family_of
from pilothouse.apiserver.strategies.security_contexts import IDS, is_id
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, qualified_name_errors

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_NOT_NEGATIVE = "must be a non-negative integer"
_ONE_EACH = "may specify no more than one IP for each IP family"
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_MAX_HEALTH_MESSAGE = 1024
_SORTS = (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers"))
_LATER = "ephemeralContainerStatuses"
_RARE = frozenset(("user", "allocatedResourcesStatus"))


def status_problems(pod: Object, old: Object) -> list[FieldError]:
    """What is wrong with a change of the status; the spec is the stored one."""
    spec, status, before = old["spec"], pod.get("status") or {}, old.get("status") or {}
    problems: list[FieldError] = []
    for position, condition in enumerate(status.get("conditions") or ()):
        if condition.get("type") not in _SYSTEM_CONDITIONS or "observedGeneration" in condition:
            problems += _condition_problems(condition, f"status.conditions[{position}]")
    node = status.get("nominatedNodeName")
    if node and node != before.get("nominatedNodeName"):
        where = "status.nominatedNodeName"
        problems += [errors.invalid_value(where, node, text) for text in dns_subdomain_errors(node)]
        if spec.get("nodeName"):
            told = "may not be set on pods that are already bound to a node"
            problems.append(errors.not_allowed(where, told))
    if (status.get("observedGeneration") or 0) < 0:
        problems.append(errors.invalid_value("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    problems += fixed(status, before, "status", ("qosClass",))
    for field, of_spec in (*_SORTS, (_LATER, "")):
        if field in before:
            problems += _transition_problems(status, before, field, spec, of_spec)
    if "resourceClaimStatuses" in status:
        problems += _claim_problems(status["resourceClaimStatuses"] or (), spec.get("resourceClaims") or ())
    if status.get("extendedResourceClaimStatus") is not None:
        problems += _extended_problems(status["extendedResourceClaimStatus"], spec)
    problems += _pod_address_problems(status, before) + _host_address_problems(status, before)
    return problems + _container_problems(status, spec)


def _condition_problems(condition: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        problems.append(errors.invalid_value(f"{path}.observedGeneration", generation, _NOT_NEGATIVE))
    kind = condition.get("type") or ""
    if kind in _SYSTEM_CONDITIONS:
        return problems
    return problems + [errors.invalid_value(f"{path}.Type", kind, text) for text in qualified_name_errors(kind)]


def _transition_problems(status: Object, before: Object, field: str, spec: Object, of_spec: str) -> list[FieldError]:
    """What has ended does not run again unless it is to, and the old status is the one named. Those that were added
    later never do."""
    known: Sequence[Object] = before.get(field) or ()
    if not any((was.get("state") or {}).get("terminated") for was in known):
        return []
    if of_spec and all_may_run_again(spec):
        return []
    containers: Sequence[Object] = spec.get(of_spec) or () if of_spec else ()
    problems: list[FieldError] = []
    now = {each.get("name"): each for each in reversed(status.get(field) or ())}
    for position, was in enumerate(known):
        ended = (was.get("state") or {}).get("terminated")
        found = None if ended is None else now.get(was.get("name"))
        if ended is None or found is None or (found.get("state") or {}).get("terminated") is not None:
            continue
        container = next((each for each in containers if each.get("name") == was.get("name")), None)
        if container is None or not runs_again(container, spec.get("restartPolicy"), ended.get("exitCode") or 0):
            told = "may not be transitioned to non-terminated state"
            problems.append(errors.not_allowed(f"status.{field}[{position}].state", told))
    return problems


def _claim_problems(statuses: Sequence[Object], claims: Sequence[Object]) -> list[FieldError]:
    problems: list[FieldError] = []
    known = {claim.get("name") for claim in claims}
    seen: set[str] = set()
    for position, status in enumerate(statuses):
        where, name = f"status.resourceClaimStatuses[{position}]", status.get("name") or ""
        if name not in known:
            told = "must match the name of an entry in `spec.resourceClaims`"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if name in seen:
            problems.append(errors.duplicate(f"{where}.name", name))
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            told_of = dns_subdomain_errors(claim)
            problems += [errors.invalid_value(f"{where}.resourceClaimName", claim, text) for text in told_of]
    return problems


def _extended_problems(status: Object, spec: Object) -> list[FieldError]:
    """The claim that was made for extended resources (``validatePodExtendedResourceClaimStatus``)."""
    path = "status.extendedResourceClaimStatus"
    containers: Mapping[str, Object] = {
        container.get("name") or "": container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
    }
    mappings: Sequence[Object] = status.get("requestMappings") or ()
    problems: list[FieldError] = []
    if not mappings:
        problems.append(errors.required(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, ...]] = set()
    parts = ("containerName", "resourceName", "requestName")
    for position, mapping in enumerate(mappings):
        where = f"{path}.requestMappings[{position}]"
        name, resource, request = key = tuple(mapping.get(part) or "" for part in parts)
        if name not in containers:
            told = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            problems.append(errors.invalid_value(f"{where}.containerName", name, told))
        elif resource not in ((containers[name].get("resources") or {}).get("requests") or {}):
            told = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            problems.append(errors.invalid_value(f"{where}.resourceName", resource, told))
        told_of = dns_label_errors(request)
        problems += [errors.invalid_value(f"{path}.requestName", request, text) for text in told_of]
        if key in seen:
            problems += [errors.duplicate(f"{where}.{part}", value) for part, value in zip(parts, key, strict=True)]
        seen.add(key)
    claim = status.get("resourceClaimName") or ""
    if not claim:
        return [*problems, errors.required(f"{path}.resourceClaimName")]
    told_of = dns_subdomain_errors(claim)
    return problems + [errors.invalid_value(f"{path}.resourceClaimName", claim, text) for text in told_of]


# Addresses ----------------------------------------------------------------------------------------------------------


def _texts(addresses: Sequence[Object] | None) -> list[str]:
    return [address.get("ip") or "" for address in addresses or ()]


def _pod_address_problems(status: Object, before: Object) -> list[FieldError]:
    addresses: Sequence[Object] = status.get("podIPs") or ()
    known = before.get("podIPs")
    return [] if not addresses or addresses == known else _family_problems(addresses, known, "status.podIPs")


def _host_address_problems(status: Object, before: Object) -> list[FieldError]:
    addresses: Sequence[Object] = status.get("hostIPs") or ()
    if not addresses:
        return []
    problems: list[FieldError] = []
    first = addresses[0].get("ip") or ""
    if (status.get("hostIP") or "") != first:
        problems.append(errors.invalid_value("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
    known = before.get("hostIPs")
    return problems if addresses == known else problems + _family_problems(addresses, known, "status.hostIPs")


def _family_problems(addresses: Sequence[Object], known: Sequence[Object] | None, path: str) -> list[FieldError]:
    """At most one address of each family."""
    found, before = _texts(addresses), _texts(known)
    problems: list[FieldError] = []
    for position, text in enumerate(found):
        problems += address_problems(text, f"{path}[{position}]", before)
    if len(found) > 1 and sorted(family_of(text) for text in found) != [4, 6]:
        shown = [{"IP": text} for text in found]
        problems.append(errors.invalid_value(path, shown, _ONE_EACH))
    return problems


# Containers ---------------------------------------------------------------------------------------------------------


def _container_problems(status: Object, spec: Object) -> list[FieldError]:
    """The rarer parts of the containers' statuses."""
    if not _has_rare(status):
        return []
    fields = (*_SORTS, (_LATER, ""))
    problems: list[FieldError] = []
    system = (spec.get("os") or {}).get("name") or "linux"
    for field, _of_spec in fields:
        for position, each in enumerate(status.get(field) or ()):
            linux = (each.get("user") or {}).get("linux")
            if linux is not None:
                problems += _user_problems(linux, f"status.{field}[{position}].user.linux", system)
    for field, of_spec in fields:
        for position, each in enumerate(status.get(field) or ()):
            allocated, where = each.get("allocatedResourcesStatus"), f"status.{field}[{position}]"
            if allocated and not of_spec:
                told = "must not be specified in container status"
                problems.append(errors.not_allowed(f"{where}.allocatedResourcesStatus", told))
            elif allocated:
                name = each.get("name")
                own = next((one for one in spec.get(of_spec) or () if one.get("name") == name), None)
                for at, resource in enumerate(allocated):
                    problems += _health_problems(resource, own, f"{where}.allocatedResourcesStatus[{at}]")
    return problems


def _has_rare(status: Object) -> bool:
    for field in ("containerStatuses", "initContainerStatuses", _LATER):
        for each in status.get(field) or ():
            if not _RARE.isdisjoint(each):
                return True
    return False


def _user_problems(user: Object, path: str, system: str) -> list[FieldError]:
    if system == "windows":
        return [errors.not_allowed(path, "cannot be set for a windows pod")]
    numbers = [(field, user.get(field)) for field in ("uid", "gid")]
    numbers += [
        (f"supplementalGroups[{position}]", group)
        for position, group in enumerate(user.get("supplementalGroups") or ())
    ]
    return [errors.invalid_value(f"{path}.{field}", number, IDS) for field, number in numbers if not is_id(number)]


def _health_problems(resource: Object, container: Object | None, path: str) -> list[FieldError]:
    """The health of a device that a container was given."""
    problems: list[FieldError] = []
    name = resource.get("name") or ""
    # Statuses of containers that are not there are let pass upstream.
    if container is not None and name not in _asked(container, claims=name.startswith("claim:")):
        told = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
            if name.startswith("claim:")
            else "must match one of the container's resource requests"
        )
        problems.append(errors.invalid_value(f"{path}.name", name, told))
    seen: set[str] = set()
    for position, device in enumerate(resource.get("resources") or ()):
        where, health = f"{path}.resources[{position}]", device.get("health") or ""
        if health not in _HEALTH:
            problems.append(errors.not_supported(f"{where}.health", health, _HEALTH))
        message = device.get("message")
        if message == "":
            problems.append(errors.required(f"{where}.message", "must be non-empty if specified"))
        elif message is not None and len(message.encode()) > _MAX_HEALTH_MESSAGE:
            problems.append(errors.too_long(f"{where}.message", _MAX_HEALTH_MESSAGE))
        own = device.get("resourceID") or ""
        if own in seen:
            problems.append(errors.duplicate(f"{where}.resourceID", own))
        seen.add(own)
    return problems


def _asked(container: Object, *, claims: bool) -> set[str]:
    resources = container.get("resources") or {}
    if not claims:
        return set(resources.get("requests") or ())
    return {
        "claim:" + claim["name"] + (f"/{claim['request']}" if claim.get("request") else "")
        for claim in resources.get("claims") or ()
        if claim.get("name")
    }
