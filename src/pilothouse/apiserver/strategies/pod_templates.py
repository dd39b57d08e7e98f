"""Pod specs, in pods and in templates: validation. ``semantics.pod_defaults`` has the defaults.

Follows ``ValidatePodSpec`` and ``ValidatePodTemplateSpec`` in kubernetes' ``pkg/apis/core/validation/validation.go``
(v1.36), in their order.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies import pod_annotations
from pilothouse.apiserver.strategies.amounts import requirement_problems
from pilothouse.apiserver.strategies.container_handlers import hook_problems, probe_problems
from pilothouse.apiserver.strategies.container_policies import init_resize_problems, resize_problems, restart_problems
from pilothouse.apiserver.strategies.filling import PORT_RANGE
from pilothouse.apiserver.strategies.mounts import device_problems, mount_problems
from pilothouse.apiserver.strategies.pod_resources import (
    claim_name_problems,
    claim_names,
    claim_problems,
    whole_pod_problems,
)
from pilothouse.apiserver.strategies.pod_rules import alias_problems, later_problems, pod_problems
from pilothouse.apiserver.strategies.security_contexts import container_context_problems
from pilothouse.apiserver.strategies.selectors import annotation_problems, label_problems_in
from pilothouse.apiserver.strategies.tolerations import toleration_problems
from pilothouse.apiserver.strategies.variables import file_volume_problems, variable_problems, whole_source_problems
from pilothouse.apiserver.strategies.volume_sources import pod_source_problems
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


def validate_template(
    template: Object, path: str, *, restart_policies: tuple[str, ...], claims: Iterable[str] = ()
) -> list[FieldError]:
    """What is wrong with the template of a workload that allows only these restart policies. ``claims`` are the names
    of volumes that its pods get besides."""
    meta = template.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    problems = label_problems_in(meta.get("labels") or {}, f"{path}.labels")
    problems += annotation_problems(annotations, f"{path}.annotations")
    spec = template.get("spec") or {}
    if annotations:
        problems += pod_annotations.annotation_problems(annotations, spec, f"{path}.annotations")
    problems += validate_pod_spec(spec, f"{path}.spec", claims)
    if annotations:
        problems += pod_annotations.profile_problems(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        told = "ephemeral containers not allowed in pod template"
        problems.append(errors.not_allowed(f"{path}.spec.ephemeralContainers", told))
    policy = spec.get("restartPolicy")
    if policy in _RESTART_POLICIES and policy not in restart_policies:
        problems.append(errors.not_supported(f"{path}.spec.restartPolicy", policy, restart_policies))
    return problems


def validate_pod_spec(
    spec: Object, path: str, claims: Iterable[str] = (), *, meta: Object | None = None
) -> list[FieldError]:
    """What is wrong with a pod spec, where there are volumes of these names too. ``meta`` is that of a pod; templates
    have none yet."""
    problems: list[FieldError] = []
    volumes = _validate_volumes(spec.get("volumes") or (), f"{path}.volumes", problems, meta)
    volumes.update(dict.fromkeys(claims, True))
    if spec.get("resourceClaims"):
        problems += _validate_claims(spec["resourceClaims"], f"{path}.resourceClaims", meta)
    plain = _validate_containers(spec, path, volumes, problems)
    if "resources" in spec:
        problems += whole_pod_problems(spec, path)
    if spec.get("hostNetwork"):
        problems += _host_network_problems(spec.get("containers") or (), f"{path}.containers", of_pod=meta is not None)
    policy = spec.get("restartPolicy")
    if policy not in _RESTART_POLICIES:
        problems.append(errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        problems.append(errors.not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES))
    if spec.get("nodeSelector"):
        problems += label_problems_in(spec["nodeSelector"], f"{path}.nodeSelector")
    problems += pod_problems(spec, path, plain=plain)
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            problems += _names(f"{path}.{field}", spec[field], dns_subdomain_errors(spec[field]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        told = "must be between 1 and 2147483647, inclusive"
        problems.append(errors.invalid_value(f"{path}.activeDeadlineSeconds", deadline, told))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            problems += _names(f"{path}.{field}", spec[field], dns_label_errors(spec[field]))
    if spec.get("tolerations"):
        problems += toleration_problems(spec["tolerations"], f"{path}.tolerations")
    if spec.get("hostAliases"):
        problems += alias_problems(spec["hostAliases"], f"{path}.hostAliases")
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        problems += _names(f"{path}.priorityClassName", name, dns_subdomain_errors(name))
    problems += later_problems(spec, path)
    return problems if plain else problems + file_volume_problems(spec, path)


def _names(field: str, value: str, told: Iterable[str]) -> list[FieldError]:
    return [errors.invalid_value(field, value, text) for text in told]


def _validate_claims(claims: Sequence[Object], path: str, meta: Object | None) -> list[FieldError]:
    if meta is not None and pod_annotations.MIRROR in (meta.get("annotations") or {}):
        # Told for each of them, and without the field (validatePodResourceClaim).
        return [errors.not_allowed("[]", "static pods do not support resource claims") for _claim in claims]
    return claim_problems(claims, path)


def _host_network_problems(containers: Sequence[Object], path: str, *, of_pod: bool) -> list[FieldError]:
    """In the host's network a container has the host's ports. Templates get theirs when they become pods."""
    told = "must match `containerPort` when `hostNetwork` is true"
    return [
        errors.invalid_value(f"{path}[{position}].ports[{at}].hostPort", port.get("hostPort") or 0, told)
        for position, container in enumerate(containers)
        for at, port in enumerate(container.get("ports") or ())
        if (of_pod or port.get("hostPort")) and (port.get("hostPort") or 0) != (port.get("containerPort") or 0)
    ]


def _validate_volumes(
    volumes: Sequence[Object], path: str, problems: list[FieldError], meta: Object | None
) -> dict[str, bool]:
    """The names of the volumes that there is nothing to be said against, and whether they may be block devices; others
    can't be mounted."""
    right: dict[str, bool] = {}
    pod = (meta or {}).get("name") or ""
    for position, volume in enumerate(volumes):
        where = f"{path}[{position}]"
        name = volume.get("name") or ""
        found = pod_source_problems(volume, where)
        if pod and name and "ephemeral" in volume:
            claim = f"{pod}-{name}"
            told = [f"PVC name {quote(claim)}: {text}" for text in dns_subdomain_errors(claim)]
            found += _names(f"{where}.name", name, told)
        if not name:
            found.append(errors.required(f"{where}.name"))
        else:
            found += _names(f"{where}.name", name, dns_label_errors(name))
        if name in right:
            found.append(errors.duplicate(f"{where}.name", name))
        if found:
            problems += found
        else:
            right[name] = not _CLAIMED.isdisjoint(volume)
        if pod and "persistentVolumeClaim" in volume:
            problems += _own_claim_problems(volume, volumes, pod, where)
    return right


def _own_claim_problems(volume: Object, volumes: Sequence[Object], pod: str, path: str) -> list[FieldError]:
    """A pod that mounts a claim which is made for another of its volumes."""
    name = (volume["persistentVolumeClaim"] or {}).get("claimName") or ""
    if not any(other.get("ephemeral") is not None and f"{pod}-{other.get('name') or ''}" == name for other in volumes):
        return []
    told = "must not reference a PVC that gets created for an ephemeral volume"
    return [errors.invalid_value(f"{path}.persistentVolumeClaim.claimName", name, told)]


# Containers


def _validate_containers(spec: Object, path: str, volumes: Mapping[str, bool], problems: list[FieldError]) -> bool:
    """All three sorts. Regular containers first: an init container that has the name of one is the one too many.
    Says whether nothing in them rests on the rest of the pod."""
    names: set[str] = set()
    regular, first = spec.get("containers") or (), spec.get("initContainers") or ()
    plain = True
    if not regular:
        problems.append(errors.required(f"{path}.containers"))
    for position, container in enumerate(regular):
        where = f"{path}.containers[{position}]"
        plain &= _validate_container(container, where, names, volumes, spec, problems)
        names.add(container.get("name") or "")
    problems += _host_port_problems(regular, f"{path}.containers")
    for position, container in enumerate(first):
        where = f"{path}.initContainers[{position}]"
        barred = _barred(container)
        if barred:
            container = {name: value for name, value in container.items() if name not in barred}
        plain &= _validate_container(container, where, names, volumes, spec, problems)
        if container.get("name"):
            names.add(container["name"])
        # Each by itself, as they run one after the other, and each is called the first (validateInitContainers).
        problems += _host_port_problems((container,), f"{path}.initContainers")
        problems += [errors.not_allowed(f"{where}.{name}", _NOT_OF_INIT) for name in barred]
        if "resizePolicy" in container:
            problems += init_resize_problems(container, where)
    later = spec.get("ephemeralContainers") or ()
    if later:
        plain = False
        names.update(container.get("name") or "" for container in first)
        others = frozenset(names)
        for position, container in enumerate(later):
            where = f"{path}.ephemeralContainers[{position}]"
            _validate_ephemeral(container, where, names, others, volumes, spec, problems)
            names.add(container.get("name") or "")
    return plain


def _validate_ephemeral(
    container: Object,
    path: str,
    names: set[str],
    others: frozenset[str],
    volumes: Mapping[str, bool],
    spec: Object,
    problems: list[FieldError],
) -> None:
    _validate_common(container, path, volumes, spec, problems)
    problems += image_space_problems(container, path)
    if (container.get("name") or "") in names:
        problems.append(errors.duplicate(f"{path}.name", container.get("name") or ""))
    target = container.get("targetContainerName")
    if target and target not in others:
        problems.append(errors.value_not_found(f"{path}.targetContainerName", target))
    problems += [
        errors.not_allowed(f"{path}.{field}", _NOT_OF_LATER) for field in _BARRED_LATER if container.get(field)
    ]
    problems += [
        errors.not_allowed(f"{path}.volumeMounts[{position}].{field}", _NOT_OF_LATER)
        for position, mount in enumerate(container.get("volumeMounts") or ())
        for field in ("subPath", "subPathExpr")
        if mount.get(field)
    ]


_NOT_OF_LATER = "cannot be set for an Ephemeral Container"
_BARRED_LATER = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)


def image_space_problems(container: Object, path: str) -> list[FieldError]:
    """Of pods only: templates may have spaces around the names of images."""
    image = container.get("image") or ""
    if image.strip() == image:
        return []
    return [errors.invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _host_port_problems(containers: Sequence[Object], path: str) -> list[FieldError]:
    """Ports of the host that two of these containers want."""
    taken: set[str] = set()
    problems: list[FieldError] = []
    for position, container in enumerate(containers):
        for at, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if text in taken:
                problems.append(errors.duplicate(f"{path}[{position}].ports[{at}].hostPort", text))
            taken.add(text)
    return problems


def _barred(container: Object) -> list[str]:
    """What an init container has that only those may have that go on (validateInitContainers)."""
    if container.get("restartPolicy") == "Always":
        return []
    return [name for name in _OF_THOSE_THAT_GO_ON if container.get(name) is not None]


_OF_THOSE_THAT_GO_ON = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_OF_INIT = "may not be set for init containers without restartPolicy=Always"


def _validate_container(
    container: Object,
    path: str,
    names: set[str],
    volumes: Mapping[str, bool],
    spec: Object,
    problems: list[FieldError],
) -> bool:
    """Whether it is known to be right by itself, so that nothing in it rests on the rest of the pod."""
    # Pods are made by the thousand from a few templates, so what was found to be right is known again. What rests on
    # the rest of the pod is looked at each time.
    text = b"" if "volumeDevices" in container else _encode({**container, "volumeMounts": None})
    if text in _right:
        if container.get("volumeMounts"):
            problems += mount_problems(container, f"{path}.volumeMounts", volumes)
        if container["name"] in names:
            problems.append(errors.duplicate(f"{path}.name", container["name"]))
        return True
    before = len(problems)
    _validate_common(container, path, volumes, spec, problems)
    # What is said of regular containers only comes after what is common to all sorts (validateContainers).
    name = container.get("name") or ""
    if name in names:
        problems.append(errors.duplicate(f"{path}.name", name))
    problems += hook_problems(container, path, spec.get("terminationGracePeriodSeconds"))
    problems += probe_problems(container, path) + restart_problems(container, path)
    if any(sign in text for sign in _ON_THE_POD):
        return False
    if text and len(problems) == before and len(text) <= _MAX_RIGHT_SIZE:
        if len(_right) >= _MAX_RIGHT:
            _right.clear()
        _right.add(text)
    return bool(text)


_encode = msgspec.json.Encoder().encode
_right: set[bytes] = set()
"""Containers with nothing wrong in them, without what they mount."""
_MAX_RIGHT = 512
_MAX_RIGHT_SIZE = 16 * 1024
_ON_THE_POD = (b'"sleep"', b'"resizePolicy"', b'"claims"', b'"procMount"', b'"fileKeyRef"', b'"windowsOptions"')
"""Fields that are right or wrong by what else the pod has."""


def _validate_common(
    container: Object, path: str, volumes: Mapping[str, bool], spec: Object, problems: list[FieldError]
) -> None:
    """What all sorts of containers have (``validateContainerCommon``)."""
    name = container.get("name") or ""
    if not name:
        problems.append(errors.required(f"{path}.name"))
    else:
        problems += _names(f"{path}.name", name, dns_label_errors(name))
    if not container.get("image"):
        problems.append(errors.required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        problems.append(errors.not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    if container.get("ports"):
        _validate_ports(container["ports"], f"{path}.ports", problems)
    if container.get("env"):
        problems += variable_problems(container["env"], f"{path}.env")
    if container.get("envFrom"):
        problems += whole_source_problems(container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts"):
        problems += mount_problems(container, f"{path}.volumeMounts", volumes)
    if container.get("volumeDevices"):
        problems += device_problems(container, f"{path}.volumeDevices", volumes)
    pull = container.get("imagePullPolicy")
    if pull not in _PULL_POLICIES:
        problems.append(errors.not_supported(f"{path}.imagePullPolicy", pull, _PULL_POLICIES))
    resources = container.get("resources")
    if resources:
        problems += requirement_problems(resources, f"{path}.resources")
        if resources.get("claims"):
            problems += claim_name_problems(resources["claims"], f"{path}.resources.claims", claim_names(spec))
    if container.get("resizePolicy"):
        problems += resize_problems(container["resizePolicy"], f"{path}.resizePolicy", spec.get("restartPolicy"))
    context = container.get("securityContext")
    if context:
        host_users = spec.get("hostUsers") is not False
        problems += container_context_problems(context, f"{path}.securityContext", host_users=host_users)


def _validate_ports(ports: Iterable[Object], path: str, problems: list[FieldError]) -> None:
    names: set[str] = set()
    for position, port in enumerate(ports):
        where = f"{path}[{position}]"
        if port.get("name"):
            name = port["name"]
            found = port_name_errors(name)
            problems += _names(f"{where}.name", name, found)
            if not found and name in names:
                problems.append(errors.duplicate(f"{where}.name", name))
            names.add(name)
        number = port.get("containerPort") or 0
        if not number:
            problems.append(errors.required(f"{where}.containerPort"))
        elif not 1 <= number <= 65535:
            problems.append(errors.invalid_value(f"{where}.containerPort", number, PORT_RANGE))
        host = port.get("hostPort") or 0
        if host and not 1 <= host <= 65535:
            problems.append(errors.invalid_value(f"{where}.hostPort", host, PORT_RANGE))
        protocol = port.get("protocol")
        if protocol not in _PROTOCOLS:
            problems.append(errors.not_supported(f"{where}.protocol", protocol, _PROTOCOLS))
