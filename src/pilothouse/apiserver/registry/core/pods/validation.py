"""Pod specs, in pods and in templates: validation. ``semantics.pod_defaults`` has the defaults.

Follows ``ValidatePodSpec`` and ``ValidatePodTemplateSpec`` in kubernetes' ``pkg/apis/core/validation/validation.go``
(v1.36), in their order.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pilothouse.apiserver.field_errors import (
    ErrorList,
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
    validate_newer_fields,
    validate_pod_wide_fields,
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
_CLAIMED = frozenset(("persistentVolumeClaim", "ephemeral"))


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort (``pkg/apis/core/v1/helper/qos``)."""
    asked: set[str] = set()
    guaranteed = True
    # Resources of the pod as a whole, where there are any, take the place of those of its containers.
    bearers: list[Object] = [spec] if spec.get("resources") else []
    for field in () if bearers else ("initContainers", "containers"):
        bearers += spec.get(field) or ()
    for bearer in bearers:
        resources = bearer.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name, "0"), limits.get(name, "0")
            if request != "0" or limit != "0":
                asked.add(name)
            guaranteed = guaranteed and limit != "0" and request == limit
    if not asked:
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
    """The errors in a pod spec. ``meta`` is that of a pod; templates have none yet."""
    errors: ErrorList = []
    volumes = _validate_volumes(spec.get("volumes") or (), f"{path}.volumes", errors, meta)
    if spec.get("resourceClaims"):
        errors += _validate_claims(spec["resourceClaims"], f"{path}.resourceClaims", meta)
    plain = _validate_containers(spec, path, volumes, errors)
    if "resources" in spec:
        errors += validate_pod_resources(spec, path)
    if spec.get("hostNetwork"):
        errors += _validate_host_network(spec.get("containers") or (), f"{path}.containers", of_pod=meta is not None)
    policy = spec.get("restartPolicy")
    if policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        errors.append(not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES))
    if spec.get("nodeSelector"):
        errors += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    errors += validate_pod_wide_fields(spec, path, plain=plain)
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors += _names(f"{path}.{field}", spec[field], dns_subdomain_errors(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += _names(f"{path}.{field}", spec[field], dns_label_errors(spec[field]))
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    if spec.get("hostAliases"):
        errors += validate_host_aliases(spec["hostAliases"], f"{path}.hostAliases")
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        errors += _names(f"{path}.priorityClassName", name, dns_subdomain_errors(name))
    errors += validate_newer_fields(spec, path)
    return errors if plain else errors + validate_file_key_ref_volumes(spec, path)


def _names(field: str, value: str, detail: Iterable[str]) -> ErrorList:
    return [invalid(field, value, text) for text in detail]


def _validate_claims(claims: Sequence[Object], path: str, meta: Object | None) -> ErrorList:
    if meta is not None and MIRROR in (meta.get("annotations") or {}):
        # One error for each of them, without the field (validatePodResourceClaim).
        return [forbidden("[]", "static pods do not support resource claims") for _claim in claims]
    return validate_pod_resource_claims(claims, path)


def _validate_host_network(containers: Sequence[Object], path: str, *, of_pod: bool) -> ErrorList:
    """In the host's network a container has the host's ports. Templates get theirs when they become pods."""
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}[{position}].ports[{at}].hostPort", port.get("hostPort") or 0, detail)
        for position, container in enumerate(containers)
        for at, port in enumerate(container.get("ports") or ())
        if (of_pod or port.get("hostPort")) and (port.get("hostPort") or 0) != (port.get("containerPort") or 0)
    ]


def _validate_volumes(
    volumes: Sequence[Object], path: str, all_errors: ErrorList, meta: Object | None
) -> dict[str, bool]:
    """The names of the volumes that there is nothing to be said against, and whether they may be block devices; others
    can't be mounted."""
    right: dict[str, bool] = {}
    pod = (meta or {}).get("name") or ""
    for position, volume in enumerate(volumes):
        child_path = f"{path}[{position}]"
        name = volume.get("name") or ""
        found = validate_volume_source(volume, child_path)
        if pod and name and "ephemeral" in volume:
            claim = f"{pod}-{name}"
            detail = [f"PVC name {quote(claim)}: {text}" for text in dns_subdomain_errors(claim)]
            found += _names(f"{child_path}.name", name, detail)
        if not name:
            found.append(required(f"{child_path}.name"))
        else:
            found += _names(f"{child_path}.name", name, dns_label_errors(name))
        if name in right:
            found.append(duplicate(f"{child_path}.name", name))
        if found:
            all_errors += found
        else:
            right[name] = not _CLAIMED.isdisjoint(volume)
        if pod and "persistentVolumeClaim" in volume:
            all_errors += _validate_own_claims(volume, volumes, pod, child_path)
    return right


def _validate_own_claims(volume: Object, volumes: Sequence[Object], pod: str, path: str) -> ErrorList:
    """A pod that mounts a claim which is made for another of its volumes."""
    name = (volume["persistentVolumeClaim"] or {}).get("claimName") or ""
    if not any(other.get("ephemeral") is not None and f"{pod}-{other.get('name') or ''}" == name for other in volumes):
        return []
    detail = "must not reference a PVC that gets created for an ephemeral volume"
    return [invalid(f"{path}.persistentVolumeClaim.claimName", name, detail)]


# Containers


def _validate_containers(spec: Object, path: str, volumes: Mapping[str, bool], all_errors: ErrorList) -> bool:
    """All three sorts. Regular containers first: an init container that has the name of one is the one too many.
    Says whether nothing in them rests on the rest of the pod."""
    names: set[str] = set()
    regular, first = spec.get("containers") or (), spec.get("initContainers") or ()
    plain = True
    if not regular:
        all_errors.append(required(f"{path}.containers"))
    for position, container in enumerate(regular):
        plain &= _validate_container(container, f"{path}.containers[{position}]", names, volumes, spec, all_errors)
        names.add(container.get("name") or "")
    all_errors += _check_host_port_conflicts(regular, f"{path}.containers")
    for position, container in enumerate(first):
        child_path = f"{path}.initContainers[{position}]"
        plain &= _validate_container(container, child_path, names, volumes, spec, all_errors, init=True)
        if container.get("name"):
            names.add(container["name"])
    later = spec.get("ephemeralContainers") or ()
    if later:
        plain = False
        names.update(container.get("name") or "" for container in first)
        others = frozenset(names)
        for position, container in enumerate(later):
            child_path = f"{path}.ephemeralContainers[{position}]"
            _validate_ephemeral(container, child_path, names, others, volumes, spec, all_errors)
            names.add(container.get("name") or "")
    return plain


def _validate_ephemeral(
    container: Object,
    path: str,
    names: set[str],
    others: frozenset[str],
    volumes: Mapping[str, bool],
    spec: Object,
    all_errors: ErrorList,
) -> None:
    _validate_common(container, path, volumes, spec, all_errors)
    all_errors += validate_image_whitespace(container, path)
    if (container.get("name") or "") in names:
        all_errors.append(duplicate(f"{path}.name", container.get("name") or ""))
    target = container.get("targetContainerName")
    if target and target not in others:
        all_errors.append(not_found(f"{path}.targetContainerName", target))
    all_errors += [forbidden(f"{path}.{field}", _NOT_OF_LATER) for field in _BARRED_LATER if container.get(field)]
    all_errors += [
        forbidden(f"{path}.volumeMounts[{position}].{field}", _NOT_OF_LATER)
        for position, mount in enumerate(container.get("volumeMounts") or ())
        for field in ("subPath", "subPathExpr")
        if mount.get(field)
    ]


_NOT_OF_LATER = "cannot be set for an Ephemeral Container"
_BARRED_LATER = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)


def _check_host_port_conflicts(containers: Sequence[Object], path: str) -> ErrorList:
    """Ports of the host that two of these containers want."""
    taken: set[str] = set()
    errors: ErrorList = []
    for position, container in enumerate(containers):
        for at, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if text in taken:
                errors.append(duplicate(f"{path}[{position}].ports[{at}].hostPort", text))
            taken.add(text)
    return errors


_OF_THOSE_THAT_GO_ON = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_OF_INIT = "may not be set for init containers without restartPolicy=Always"


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
    """Whether it is known to be right by itself, so that nothing in it rests on the rest of the pod."""
    # Pods are made by the thousand from a few templates, so what was found to be right is known again. What rests on
    # the rest of the pod is validated each time.
    text = b"" if "volumeDevices" in container else _encode((init, {**container, "volumeMounts": None}))
    if text in _right:
        if container.get("volumeMounts"):
            all_errors += validate_volume_mounts(container, f"{path}.volumeMounts", volumes)
        if container["name"] in names:
            all_errors.append(duplicate(f"{path}.name", container["name"]))
        return True
    before = len(all_errors)
    _validate_common(container, path, volumes, spec, all_errors)
    grace = spec.get("terminationGracePeriodSeconds")
    if init:
        all_errors += _validate_init_container(container, path, names, grace)
    else:
        all_errors += _validate_name(container, path, names) + validate_lifecycle(container, path, grace)
        all_errors += validate_probe(container, path) + validate_container_restart_policy(container, path)
    if any(sign in text for sign in _ON_THE_POD):
        return False
    if text and len(all_errors) == before and len(text) <= _MAX_RIGHT_SIZE:
        if len(_right) >= _MAX_RIGHT:
            _right.clear()
        _right.add(text)
    return bool(text)


def _validate_name(container: Object, path: str, names: set[str]) -> ErrorList:
    name = container.get("name") or ""
    return [duplicate(f"{path}.name", name)] if name in names else []


def _validate_init_container(container: Object, path: str, names: set[str], grace: int | None) -> ErrorList:
    """What is said of init containers only, after what is common to all sorts (``validateInitContainers``)."""
    errors = validate_init_container_restart_policy(container, path) + _validate_name(container, path, names)
    # Each by itself, as they run one after the other, and each is called the first.
    errors += _check_host_port_conflicts((container,), path.rpartition("[")[0])
    if container.get("restartPolicy") == "Always":
        return errors + validate_lifecycle(container, path, grace) + validate_probe(container, path)
    errors += [
        forbidden(f"{path}.{name}", _NOT_OF_INIT) for name in _OF_THOSE_THAT_GO_ON if container.get(name) is not None
    ]
    return errors + validate_init_container_resize_policy(container, path)


_encode = msgspec.json.Encoder().encode
_right: set[bytes] = set()
"""Containers with nothing wrong in them, without what they mount."""
_MAX_RIGHT = 512
_MAX_RIGHT_SIZE = 16 * 1024
_ON_THE_POD = (b'"sleep"', b'"resizePolicy"', b'"claims"', b'"procMount"', b'"fileKeyRef"', b'"windowsOptions"')
"""Fields that are right or wrong by what else the pod has."""


def _validate_common(
    container: Object, path: str, volumes: Mapping[str, bool], spec: Object, all_errors: ErrorList
) -> None:
    name = container.get("name") or ""
    if not name:
        all_errors.append(required(f"{path}.name"))
    else:
        all_errors += _names(f"{path}.name", name, dns_label_errors(name))
    if not container.get("image"):
        all_errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        all_errors.append(not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    if container.get("ports"):
        _validate_ports(container["ports"], f"{path}.ports", all_errors)
    if container.get("env"):
        all_errors += validate_env(container["env"], f"{path}.env")
    if container.get("envFrom"):
        all_errors += validate_env_from(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts"):
        all_errors += validate_volume_mounts(container, f"{path}.volumeMounts", volumes)
    if container.get("volumeDevices"):
        all_errors += validate_volume_devices(container, f"{path}.volumeDevices", volumes)
    pull = container.get("imagePullPolicy")
    if pull not in _PULL_POLICIES:
        all_errors.append(not_supported(f"{path}.imagePullPolicy", pull, _PULL_POLICIES))
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


def _validate_ports(ports: Iterable[Object], path: str, all_errors: ErrorList) -> None:
    names: set[str] = set()
    for position, port in enumerate(ports):
        child_path = f"{path}[{position}]"
        if port.get("name"):
            name = port["name"]
            found = port_name_errors(name)
            all_errors += _names(f"{child_path}.name", name, found)
            if not found and name in names:
                all_errors.append(duplicate(f"{child_path}.name", name))
            names.add(name)
        number = port.get("containerPort") or 0
        if not number:
            all_errors.append(required(f"{child_path}.containerPort"))
        elif not 1 <= number <= 65535:
            all_errors.append(invalid(f"{child_path}.containerPort", number, PORT_RANGE))
        host = port.get("hostPort") or 0
        if host and not 1 <= host <= 65535:
            all_errors.append(invalid(f"{child_path}.hostPort", host, PORT_RANGE))
        protocol = port.get("protocol")
        if protocol not in _PROTOCOLS:
            all_errors.append(not_supported(f"{child_path}.protocol", protocol, _PROTOCOLS))


def validate_pod_create(pod: Object) -> ErrorList:
    """The errors in a pod. Not all of it applies to templates (``validatePodMetadataAndSpec``)."""
    spec, meta = pod["spec"], pod["metadata"]
    errors: ErrorList = []
    if meta.get("annotations"):
        errors += validate_pod_annotations(meta["annotations"], spec, "metadata.annotations")
    errors += validate_pod_spec(spec, "spec", meta=meta)
    for at, volume in enumerate(() if spec.get("serviceAccountName") else spec.get("volumes") or ()):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                field = f"spec.volumes[{at}].projected.sources[{position}].serviceAccountToken"
                errors.append(forbidden(field, "must not be specified when serviceAccountName is not set"))
    for field in ("containers", "initContainers"):
        for position, container in enumerate(spec.get(field) or ()):
            errors += validate_image_whitespace(container, f"spec.{field}[{position}]")
    return errors


def _validate_annotations_update(pod: Object, old: Object) -> ErrorList:
    annotations, before = (each["metadata"].get("annotations") or {} for each in (pod, old))
    return validate_pod_annotations_update(annotations, before, pod["spec"], "metadata.annotations")


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
