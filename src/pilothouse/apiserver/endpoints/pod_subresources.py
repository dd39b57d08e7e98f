"""pods/ephemeralcontainers and pods/resize.

After kubernetes' ``pkg/registry/core/pod/strategy.go`` (``podEphemeralContainersStrategy``, ``podResizeStrategy``) and
``ValidatePodEphemeralContainersUpdate``, ``ValidatePodResize`` in ``pkg/apis/core/validation`` (v1.36). Other changes
of a body are dropped, except added or removed containers in a resize.
"""

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.endpoints.update import SubresourceStrategy
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object, next_generation
from pilothouse.apiserver.registry.core.pods.validation import qos_class, validate_pod_spec
from pilothouse.apiserver.registry.generic.strategy import Step

_MIRROR = "kubernetes.io/config.mirror"
_RESIZABLE = ("cpu", "memory")


def _keep_only_spec(obj: Object, old: Object, spec: Object) -> None:
    """Replace everything but the spec by the stored pod."""
    meta = {**old["metadata"], "resourceVersion": obj["metadata"]["resourceVersion"]}
    if "managedFields" in obj["metadata"]:
        meta["managedFields"] = obj["metadata"]["managedFields"]
    obj["metadata"] = meta
    obj["spec"] = spec
    obj["status"] = old["status"]
    if spec != old["spec"]:
        meta["generation"] = next_generation(old["metadata"])


def _is_static(pod: Object) -> bool:
    return _MIRROR in (pod["metadata"].get("annotations") or {})


# Ephemeral containers


def _prepare_ephemeral_containers(obj: Object, old: Object) -> None:
    ephemeral_containers: list[Object] = (obj.get("spec") or {}).get("ephemeralContainers") or []
    spec = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
    if ephemeral_containers:
        spec["ephemeralContainers"] = ephemeral_containers
    _keep_only_spec(obj, old, spec)


def _validate_ephemeral_containers(obj: Object, old: Object) -> ErrorList:
    """``ValidatePodEphemeralContainersUpdate``."""
    spec: Object = obj["spec"]
    if _is_static(old):
        return [field_errors.forbidden("[]", "static pods do not support ephemeral containers")]
    errors = validate_pod_spec(spec, "spec", meta=old["metadata"]) if spec != old["spec"] else []
    path = "spec.ephemeralContainers"
    by_name = {container.get("name"): container for container in spec.get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if name not in by_name:
            errors.append(
                field_errors.forbidden(
                    path, f"existing ephemeral containers {field_errors.format_value(name)} may not be removed\n"
                )
            )
        elif by_name[name] != container:
            diff = field_errors.internal_diff("core.EphemeralContainer", container, by_name[name])
            detail = f"existing ephemeral containers {field_errors.format_value(name)} may not be changed\n{diff}"
            errors.append(field_errors.forbidden(path, detail))
    return errors


_STEPS: tuple[Step, ...] = ("object meta update", "object meta", "update")
EPHEMERAL_CONTAINERS = SubresourceStrategy(_prepare_ephemeral_containers, _validate_ephemeral_containers, _STEPS)


# Resize


def _prepare_resize(obj: Object, old: Object) -> None:
    """Keep only changes of resources (``dropNonResizeUpdates``). If containers are added, removed, renamed or reordered
    they are kept as sent, for validation to reject."""
    new_spec, old_spec = obj.get("spec") or {}, old["spec"]
    if any(len(new_spec.get(field) or ()) != len(old_spec.get(field) or ()) for field in _CONTAINERS):
        obj["spec"] = new_spec
        obj["metadata"]["generation"] = next_generation(old["metadata"])
        return
    spec = dict(old_spec)
    for field in _CONTAINERS:
        if spec.get(field):
            spec[field] = _with_new_resources(spec[field], new_spec[field])
    spec.pop("resources", None)
    if new_spec.get("resources") is not None:
        spec["resources"] = new_spec["resources"]
    _keep_only_spec(obj, old, spec)


def _validate_resize(obj: Object, old: Object) -> ErrorList:
    """``ValidatePodResize``."""
    spec, old_spec = obj["spec"], old["spec"]
    if _is_static(old):
        return [field_errors.forbidden("[]", "static pods cannot be resized")]
    if (old_spec.get("os") or {}).get("name") == "windows":
        return [field_errors.forbidden("[]", "windows pods cannot be resized")]
    errors = validate_pod_spec(spec, "spec", meta=old["metadata"]) if spec != old_spec else []
    status = old.get("status") or {}
    if qos_class(spec) != (status.get("qosClass") or qos_class(old_spec)):
        # The value is the QoS class of the pod.
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(field_errors.invalid("spec", field_errors.of_named_type(status.get("qosClass") or ""), detail))
    if not _is_resize_request_supported(status):
        errors.append(field_errors.forbidden("spec", "Pod running on node without support for resize"))
    if _has_resources(spec) or _has_resources(old_spec):
        errors += _validate_pod_level(spec.get("resources"), old_spec.get("resources"))
    if status.get("nodeAllocatableResourceClaimStatuses"):
        errors.append(field_errors.forbidden("spec", "pods with node allocatable resource claims cannot be resized"))
    reordered = _validate_container_ordering(spec, old_spec)
    if reordered:
        return errors + reordered
    for field in ("initContainers", "containers"):
        pairs = zip(spec.get(field) or (), old_spec.get(field) or (), strict=True)
        for position, (container, old_container) in enumerate(pairs):
            path = f"spec.{field}[{position}].resources"
            errors += _validate_removal(
                container.get("resources") or {}, old_container.get("resources") or {}, path, "resource"
            )
    errors += [
        field_errors.forbidden("spec", "only cpu and memory resources are mutable")
        for container, old_container in zip(spec["containers"], old_spec["containers"], strict=True)
        if _without_resizable(container) != _with_comparable_claims(old_container)
    ]
    for position, old_container in enumerate(old_spec.get("initContainers") or ()):
        errors += _validate_init(spec["initContainers"][position], old_container, f"spec.initContainers[{position}]")
    return errors


RESIZE = SubresourceStrategy(_prepare_resize, _validate_resize, _STEPS)
_CONTAINERS = ("containers", "initContainers")


def _validate_container_ordering(spec: Object, old_spec: Object) -> ErrorList:
    """``validatePodResizeContainerOrdering``."""
    errors: ErrorList = []
    for field in _CONTAINERS:
        containers, old_containers = spec.get(field) or (), old_spec.get(field) or ()
        if len(containers) != len(old_containers):
            errors.append(field_errors.forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
            continue
        errors += [
            field_errors.forbidden(
                f"spec.{field}[{position}].name", f"{field} may not be renamed or reordered on resize"
            )
            for position, container in enumerate(containers)
            if container.get("name") != old_containers[position].get("name")
        ]
    return errors


def _is_resize_request_supported(status: Object) -> bool:
    """Whether the node reports the resources of containers: a node that does not cannot resize them."""
    running = (
        container_status
        for container_status in status.get("containerStatuses") or ()
        if "running" in (container_status.get("state") or {})
    )
    first_running = next(running, None)
    return first_running is None or first_running.get("resources") is not None


def _has_resources(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _validate_pod_level(resources: Object | None, old_resources: Object | None) -> ErrorList:
    if old_resources is not None and resources is None:
        return [field_errors.forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors = _validate_removal(resources or {}, old_resources or {}, "spec.resources", "pod-level resource")
    if _not_resizable(resources or {}) != _not_resizable(old_resources or {}):
        errors.append(field_errors.forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return errors


def _validate_init(container: Object, old_container: Object, path: str) -> ErrorList:
    errors = []
    if _without_resizable(container) != _with_comparable_claims(old_container):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(field_errors.forbidden(path, detail))
    if old_container.get("restartPolicy") != "Always" and container != old_container:
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors += [
            field_errors.forbidden(path, detail)
            for policy in container.get("resizePolicy") or ()
            if policy.get("restartPolicy") == "RestartContainer"
        ]
    return errors


def _with_new_resources(containers: list[Object], new_containers: list[Object]) -> list[Object]:
    """The stored containers with the new resources and resize policies; the new containers if the names differ."""
    if any(
        new_container.get("name") != container.get("name")
        for container, new_container in zip(containers, new_containers, strict=True)
    ):
        return new_containers
    result = []
    for container, new_container in zip(containers, new_containers, strict=True):
        resized = {**container, "resources": new_container.get("resources") or {}}
        if new_container.get("resizePolicy"):
            resized["resizePolicy"] = new_container["resizePolicy"]
        else:
            resized.pop("resizePolicy", None)
        result.append(resized)
    return result


def _validate_removal(resources: Object, old_resources: Object, path: str, noun: str) -> ErrorList:
    return [
        field_errors.forbidden(f"{path}.{field}", f"{noun} {field} cannot be removed")
        for field in ("requests", "limits")
        if any(name not in (resources.get(field) or {}) for name in old_resources.get(field) or ())
    ]


def _not_resizable(resources: Object) -> Object:
    """Resources other than the resizable ones."""
    other_amounts = {
        field: {name: amount for name, amount in (resources.get(field) or {}).items() if name not in _RESIZABLE}
        for field in ("requests", "limits")
    }
    return {**resources, **other_amounts}


def _with_comparable_claims(container: Object) -> Object:
    """The old container in the form of ``_without_resizable``, with its claims or an empty list."""
    return {**container, "resources": {"claims": [], **_not_resizable(container.get("resources") or {})}}


def _without_resizable(container: Object) -> Object:
    """The container without resizable fields. Upstream drops its resource claims
    (``dropCPUMemoryResourcesFromContainer``): a container with claims is not resized."""
    return {**container, "resources": {**_not_resizable(container.get("resources") or {}), "claims": []}}
