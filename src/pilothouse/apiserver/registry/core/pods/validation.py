"""Validation of pods and pod templates. ``semantics.pod_defaults`` has the defaults.

After ``ValidatePodSpec`` and ``ValidatePodTemplateSpec`` in kubernetes' ``pkg/apis/core/validation/validation.go``
(v1.36), in their order.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from pilothouse.apiserver.field_errors import (
    ErrorList,
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.annotations import (
    MIRROR,
    validate_pod_annotations,
    validate_pod_annotations_update,
    validate_profile_annotations,
)
from pilothouse.apiserver.registry.core.pods.env import validate_env, validate_env_from, validate_file_key_ref_volumes
from pilothouse.apiserver.registry.core.pods.pod_spec import (
    validate_host_aliases,
    validate_image_whitespace,
    validate_leading_fields,
    validate_trailing_fields,
)
from pilothouse.apiserver.registry.core.pods.probes import validate_lifecycle, validate_probe
from pilothouse.apiserver.registry.core.pods.resources import (
    claim_names,
    validate_container_claims,
    validate_pod_resource_claims,
    validate_pod_resources,
)
from pilothouse.apiserver.registry.core.pods.restart_policies import (
    validate_container_restart_policy,
    validate_init_container_resize_policy,
    validate_init_container_restart_policy,
    validate_resize_policy,
)
from pilothouse.apiserver.registry.core.pods.security_context import validate_security_context
from pilothouse.apiserver.registry.core.pods.status_validation import validate_pod_status_fields
from pilothouse.apiserver.registry.core.pods.update_validation import validate_pod_spec_update
from pilothouse.apiserver.registry.core.pods.volume_mounts import validate_volume_devices, validate_volume_mounts
from pilothouse.apiserver.registry.core.validation import validate_resource_requirements, validate_tolerations
from pilothouse.apiserver.registry.core.volume_sources import validate_volume_source
from pilothouse.apiserver.registry.generic.meta_validation import validate_annotations, validate_labels
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, port_name_errors

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_BLOCK_DEVICE_SOURCES = frozenset(("persistentVolumeClaim", "ephemeral"))


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort (``pkg/apis/core/v1/helper/qos``)."""
    specified: set[str] = set()
    guaranteed = True
    # Pod-level resources override those of containers.
    resource_owners: list[Object] = [spec] if spec.get("resources") else []
    for field in () if resource_owners else ("initContainers", "containers"):
        resource_owners += spec.get(field) or ()
    for owner in resource_owners:
        resources = owner.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            if request != "0" or limit != "0":
                specified.add(name)
            guaranteed = guaranteed and limit != "0" and request == limit
    if not specified:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


# Validation


def validate_pod_template_spec(template: Object, path: str) -> ErrorList:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    spec = template.get("spec") or {}
    errors = validate_pod_template_metadata(template, path) + validate_pod_spec(spec, f"{path}.spec")
    if annotations:
        errors += validate_profile_annotations(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def validate_pod_template_metadata(template: Object, path: str) -> ErrorList:
    meta = template.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    errors = validate_labels(meta.get("labels") or {}, f"{path}.labels")
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        spec = template.get("spec") or {}
        errors += validate_pod_annotations(annotations, spec, f"{path}.annotations")
    return errors


def validate_pod_spec(spec: Object, path: str, *, meta: Object | None = None) -> ErrorList:
    """``ValidatePodSpec``. ``meta`` is the metadata of a pod, None for templates."""
    errors: ErrorList = []
    volumes = _validate_volumes(spec.get("volumes") or (), f"{path}.volumes", errors, meta)
    if spec.get("resourceClaims"):
        errors += _validate_resource_claims(spec["resourceClaims"], f"{path}.resourceClaims", meta)
    independent = _validate_containers(spec, path, volumes, errors)
    if "resources" in spec:
        errors += validate_pod_resources(spec, path)
    if spec.get("hostNetwork"):
        errors += _validate_host_network(spec.get("containers") or (), f"{path}.containers", is_pod=meta is not None)
    policy = spec.get("restartPolicy")
    if policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        errors.append(not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES))
    if spec.get("nodeSelector"):
        errors += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    errors += validate_leading_fields(spec, path, independent=independent)
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors += all_invalid(f"{path}.{field}", spec[field], dns_subdomain_errors(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += all_invalid(f"{path}.{field}", spec[field], dns_label_errors(spec[field]))
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    if spec.get("hostAliases"):
        errors += validate_host_aliases(spec["hostAliases"], f"{path}.hostAliases")
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        errors += all_invalid(f"{path}.priorityClassName", name, dns_subdomain_errors(name))
    errors += validate_trailing_fields(spec, path)
    return errors if independent else errors + validate_file_key_ref_volumes(spec, path)


def _validate_resource_claims(claims: Sequence[Object], path: str, meta: Object | None) -> ErrorList:
    if meta is not None and MIRROR in (meta.get("annotations") or {}):
        # As upstream, one error per claim, without the path (validatePodResourceClaim).
        return [forbidden("[]", "static pods do not support resource claims") for _claim in claims]
    return validate_pod_resource_claims(claims, path)


def _validate_host_network(containers: Sequence[Object], path: str, *, is_pod: bool) -> ErrorList:
    """With ``hostNetwork``, ``hostPort`` must be equal to ``containerPort``. In templates ``hostPort`` may be unset: it
    is defaulted in pods."""
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}[{position}].ports[{index}].hostPort", port.get("hostPort") or 0, detail)
        for position, container in enumerate(containers)
        for index, port in enumerate(container.get("ports") or ())
        if (is_pod or port.get("hostPort")) and (port.get("hostPort") or 0) != (port.get("containerPort") or 0)
    ]


def _validate_volumes(
    volumes: Sequence[Object], path: str, all_errors: ErrorList, meta: Object | None
) -> dict[str, bool]:
    """Append the errors; return the names of the valid volumes, and whether they can be block devices. Mounts of other
    volumes are reported as not found."""
    valid_volumes: dict[str, bool] = {}
    pod_name = (meta or {}).get("name") or ""
    created_claims = {
        f"{pod_name}-{volume.get('name') or ''}" for volume in volumes if volume.get("ephemeral") is not None
    }
    for position, volume in enumerate(volumes):
        child_path = f"{path}[{position}]"
        name = volume.get("name") or ""
        volume_errors = validate_volume_source(volume, child_path)
        if pod_name and name and "ephemeral" in volume:
            claim_name = f"{pod_name}-{name}"
            msgs = [f"PVC name {quote(claim_name)}: {msg}" for msg in dns_subdomain_errors(claim_name)]
            volume_errors += all_invalid(f"{child_path}.name", name, msgs)
        if not name:
            volume_errors.append(required(f"{child_path}.name"))
        else:
            volume_errors += all_invalid(f"{child_path}.name", name, dns_label_errors(name))
        if name in valid_volumes:
            volume_errors.append(duplicate(f"{child_path}.name", name))
        if volume_errors:
            all_errors += volume_errors
        else:
            valid_volumes[name] = not _BLOCK_DEVICE_SOURCES.isdisjoint(volume)
        if pod_name and "persistentVolumeClaim" in volume:
            all_errors += _validate_ephemeral_claim_conflict(volume, created_claims, child_path)
    return valid_volumes


def _validate_ephemeral_claim_conflict(volume: Object, created_claims: Set[str], path: str) -> ErrorList:
    """A volume must not refer to the claim that is created for an ephemeral volume of the pod."""
    claim_name = (volume["persistentVolumeClaim"] or {}).get("claimName") or ""
    if claim_name not in created_claims:
        return []
    detail = "must not reference a PVC that gets created for an ephemeral volume"
    return [invalid(f"{path}.persistentVolumeClaim.claimName", claim_name, detail)]


# Containers


def _validate_containers(spec: Object, path: str, volumes: Mapping[str, bool], all_errors: ErrorList) -> bool:
    """Validate containers, init containers and ephemeral containers, in this order: of two with the same name the
    latter is the duplicate. Returns whether no container has fields whose validation depends on the pod."""
    names: set[str] = set()
    containers, init_containers = spec.get("containers") or (), spec.get("initContainers") or ()
    independent = True
    if not containers:
        all_errors.append(required(f"{path}.containers"))
    for position, container in enumerate(containers):
        independent &= _validate_container(
            container, f"{path}.containers[{position}]", names, volumes, spec, all_errors
        )
        names.add(container.get("name") or "")
    all_errors += _check_host_port_conflicts(containers, f"{path}.containers")
    for position, container in enumerate(init_containers):
        child_path = f"{path}.initContainers[{position}]"
        independent &= _validate_container(container, child_path, names, volumes, spec, all_errors, init=True)
        if container.get("name"):
            names.add(container["name"])
    ephemeral_containers = spec.get("ephemeralContainers") or ()
    if ephemeral_containers:
        independent = False
        names.update(container.get("name") or "" for container in init_containers)
        other_names = frozenset(names)
        for position, container in enumerate(ephemeral_containers):
            child_path = f"{path}.ephemeralContainers[{position}]"
            _validate_ephemeral_container(container, child_path, names, other_names, volumes, spec, all_errors)
            names.add(container.get("name") or "")
    return independent


def _validate_ephemeral_container(
    container: Object,
    path: str,
    names: set[str],
    other_names: frozenset[str],
    volumes: Mapping[str, bool],
    spec: Object,
    all_errors: ErrorList,
) -> None:
    _validate_container_common(container, path, volumes, spec, all_errors)
    all_errors += validate_image_whitespace(container, path)
    if (container.get("name") or "") in names:
        all_errors.append(duplicate(f"{path}.name", container.get("name") or ""))
    target = container.get("targetContainerName")
    if target and target not in other_names:
        all_errors.append(not_found(f"{path}.targetContainerName", target))
    all_errors += [
        forbidden(f"{path}.{field}", _FORBIDDEN_IN_EPHEMERAL_TEXT)
        for field in _FORBIDDEN_IN_EPHEMERAL
        if container.get(field)
    ]
    all_errors += [
        forbidden(f"{path}.volumeMounts[{position}].{field}", _FORBIDDEN_IN_EPHEMERAL_TEXT)
        for position, mount in enumerate(container.get("volumeMounts") or ())
        for field in ("subPath", "subPathExpr")
        if mount.get(field)
    ]


_FORBIDDEN_IN_EPHEMERAL_TEXT = "cannot be set for an Ephemeral Container"
_FORBIDDEN_IN_EPHEMERAL = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)


def _check_host_port_conflicts(containers: Sequence[Object], path: str) -> ErrorList:
    """``checkHostPortConflicts``: host ports used twice by these containers."""
    host_ports: set[str] = set()
    errors: ErrorList = []
    for position, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if key in host_ports:
                errors.append(duplicate(f"{path}[{position}].ports[{index}].hostPort", key))
            host_ports.add(key)
    return errors


_FORBIDDEN_IN_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_FORBIDDEN_IN_INIT_TEXT = "may not be set for init containers without restartPolicy=Always"


def _validate_container(
    container: Object,
    path: str,
    names: set[str],
    volumes: Mapping[str, bool],
    spec: Object,
    all_errors: ErrorList,
    *,
    init: bool = False,
) -> bool:
    """Append the errors; returns whether the container has no fields whose validation depends on the pod."""
    # Pods are created in large numbers from few templates, so valid containers are cached. Fields whose validation
    # depends on the pod are validated each time.
    encoded = b"" if "volumeDevices" in container else _encode((init, {**container, "volumeMounts": None}))
    if encoded in _valid_containers:
        if container.get("volumeMounts"):
            all_errors += validate_volume_mounts(container, f"{path}.volumeMounts", volumes)
        if container["name"] in names:
            all_errors.append(duplicate(f"{path}.name", container["name"]))
        return True
    error_count = len(all_errors)
    _validate_container_common(container, path, volumes, spec, all_errors)
    grace_period = spec.get("terminationGracePeriodSeconds")
    if init:
        all_errors += _validate_init_container(container, path, names, grace_period)
    else:
        all_errors += _validate_name(container, path, names) + validate_lifecycle(container, path, grace_period)
        all_errors += validate_probe(container, path) + validate_container_restart_policy(container, path)
    if any(field in encoded for field in _DEPENDS_ON_POD):
        return False
    if encoded and len(all_errors) == error_count and len(encoded) <= _MAX_VALID_CONTAINER_SIZE:
        if len(_valid_containers) >= _MAX_VALID_CONTAINERS:
            _valid_containers.clear()
        _valid_containers.add(encoded)
    return bool(encoded)


def _validate_name(container: Object, path: str, names: set[str]) -> ErrorList:
    name = container.get("name") or ""
    return [duplicate(f"{path}.name", name)] if name in names else []


def _validate_init_container(container: Object, path: str, names: set[str], grace_period: int | None) -> ErrorList:
    """The rules for init containers, after the common ones (``validateInitContainers``)."""
    errors = validate_init_container_restart_policy(container, path) + _validate_name(container, path, names)
    # As upstream, each init container is checked separately, and reported with index 0.
    errors += _check_host_port_conflicts((container,), path.rpartition("[")[0])
    if container.get("restartPolicy") == "Always":
        return errors + validate_lifecycle(container, path, grace_period) + validate_probe(container, path)
    errors += [
        forbidden(f"{path}.{name}", _FORBIDDEN_IN_INIT_TEXT)
        for name in _FORBIDDEN_IN_INIT
        if container.get(name) is not None
    ]
    return errors + validate_init_container_resize_policy(container, path)


_encode = msgspec.json.Encoder().encode
_valid_containers: set[bytes] = set()
"""JSON of valid containers, without volume mounts."""
_MAX_VALID_CONTAINERS = 512
_MAX_VALID_CONTAINER_SIZE = 16 * 1024
_DEPENDS_ON_POD = (b'"sleep"', b'"resizePolicy"', b'"claims"', b'"procMount"', b'"fileKeyRef"', b'"windowsOptions"')
"""Fields whose validation depends on other fields of the pod."""


def _validate_container_common(
    container: Object, path: str, volumes: Mapping[str, bool], spec: Object, all_errors: ErrorList
) -> None:
    name = container.get("name") or ""
    if not name:
        all_errors.append(required(f"{path}.name"))
    else:
        all_errors += all_invalid(f"{path}.name", name, dns_label_errors(name))
    if not container.get("image"):
        all_errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        all_errors.append(not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    if container.get("ports"):
        _validate_container_ports(container["ports"], f"{path}.ports", all_errors)
    if container.get("env"):
        all_errors += validate_env(container["env"], f"{path}.env")
    if container.get("envFrom"):
        all_errors += validate_env_from(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts"):
        all_errors += validate_volume_mounts(container, f"{path}.volumeMounts", volumes)
    if container.get("volumeDevices"):
        all_errors += validate_volume_devices(container, f"{path}.volumeDevices", volumes)
    pull_policy = container.get("imagePullPolicy")
    if pull_policy not in _PULL_POLICIES:
        all_errors.append(not_supported(f"{path}.imagePullPolicy", pull_policy, _PULL_POLICIES))
    resources = container.get("resources")
    if resources:
        all_errors += validate_resource_requirements(resources, f"{path}.resources")
        if resources.get("claims"):
            all_errors += validate_container_claims(resources["claims"], f"{path}.resources.claims", claim_names(spec))
    if container.get("resizePolicy"):
        all_errors += validate_resize_policy(
            container["resizePolicy"], f"{path}.resizePolicy", spec.get("restartPolicy")
        )
    context = container.get("securityContext")
    if context:
        host_users = spec.get("hostUsers") is not False
        all_errors += validate_security_context(context, f"{path}.securityContext", host_users=host_users)


def _validate_container_ports(ports: Iterable[Object], path: str, all_errors: ErrorList) -> None:
    names: set[str] = set()
    for position, port in enumerate(ports):
        child_path = f"{path}[{position}]"
        if port.get("name"):
            name = port["name"]
            msgs = port_name_errors(name)
            all_errors += all_invalid(f"{child_path}.name", name, msgs)
            if not msgs and name in names:
                all_errors.append(duplicate(f"{child_path}.name", name))
            names.add(name)
        number = port.get("containerPort") or 0
        if not number:
            all_errors.append(required(f"{child_path}.containerPort"))
        elif not 1 <= number <= 65535:
            all_errors.append(invalid(f"{child_path}.containerPort", number, PORT_RANGE))
        host_port = port.get("hostPort") or 0
        if host_port and not 1 <= host_port <= 65535:
            all_errors.append(invalid(f"{child_path}.hostPort", host_port, PORT_RANGE))
        protocol = port.get("protocol")
        if protocol not in _PROTOCOLS:
            all_errors.append(not_supported(f"{child_path}.protocol", protocol, _PROTOCOLS))


def validate_pod_create(pod: Object) -> ErrorList:
    """``validatePodMetadataAndSpec``; some rules do not apply to templates."""
    spec, meta = pod["spec"], pod["metadata"]
    errors: ErrorList = []
    if meta.get("annotations"):
        errors += validate_pod_annotations(meta["annotations"], spec, "metadata.annotations")
    errors += validate_pod_spec(spec, "spec", meta=meta)
    for volume_index, volume in enumerate(() if spec.get("serviceAccountName") else spec.get("volumes") or ()):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                field = f"spec.volumes[{volume_index}].projected.sources[{position}].serviceAccountToken"
                errors.append(forbidden(field, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(field) or ()):
            errors += validate_image_whitespace(container, f"spec.{field}[{position}]")
    return errors


def _validate_annotations_update(pod: Object, old: Object) -> ErrorList:
    annotations, old_annotations = (o["metadata"].get("annotations") or {} for o in (pod, old))
    return validate_pod_annotations_update(annotations, old_annotations, pod["spec"], "metadata.annotations")


def validate_pod(obj: Object) -> ErrorList:
    spec, annotations = obj["spec"], obj["metadata"].get("annotations") or {}
    errors = validate_pod_create(obj)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors + validate_profile_annotations(annotations, spec, "spec") if annotations else errors


def validate_pod_update(obj: Object, old: Object) -> ErrorList:
    annotations = _validate_annotations_update(obj, old)
    if obj["spec"] == old["spec"]:
        return annotations
    return validate_pod_create(obj) + annotations + validate_pod_spec_update(obj["spec"], old["spec"])


def validate_pod_status_update(obj: Object, old: Object) -> ErrorList:
    all_errors = _validate_annotations_update(obj, old)
    return all_errors + validate_pod_status_fields(obj, old)
