"""Pod specs, in pods and in templates: validation. ``semantics.pod_defaults`` has the defaults.

Follows kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36), as far as controllers and their tests rely
on it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.amounts import requirement_problems
from pilothouse.apiserver.strategies.container_handlers import hook_problems, probe_problems
from pilothouse.apiserver.strategies.filling import PORT_RANGE
from pilothouse.apiserver.strategies.pod_rules import container_problems, pod_problems
from pilothouse.apiserver.strategies.selectors import annotation_problems, label_problems_in
from pilothouse.apiserver.strategies.volume_sources import descending_path_problems, pod_source_problems
from pilothouse.machinery.names import (
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    port_name_errors,
    qualified_name_errors,
)

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CLAIMED = frozenset(("persistentVolumeClaim", "ephemeral"))
_ENV_NAME = re.compile(r"^[ -<>-~]+$")


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
    problems = label_problems_in(meta.get("labels") or {}, f"{path}.labels")
    problems += annotation_problems(meta.get("annotations") or {}, f"{path}.annotations")
    spec = template.get("spec") or {}
    problems += validate_pod_spec(spec, f"{path}.spec", claims)
    policy = spec.get("restartPolicy")
    if policy in _RESTART_POLICIES and policy not in restart_policies:
        problems.append(errors.not_supported(f"{path}.spec.restartPolicy", policy, restart_policies))
    return problems


def validate_pod_spec(spec: Object, path: str, claims: Iterable[str] = ()) -> list[FieldError]:
    """What is wrong with a pod spec, where there are volumes of these names too."""
    problems: list[FieldError] = []
    volumes = _validate_volumes(spec.get("volumes") or (), f"{path}.volumes", problems)
    volumes.update(dict.fromkeys(claims, True))
    if not spec.get("containers"):
        problems.append(errors.required(f"{path}.containers"))
    _validate_containers(spec, path, volumes, problems)
    policy = spec.get("restartPolicy")
    if policy not in _RESTART_POLICIES:
        problems.append(errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        problems.append(errors.not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES))
    if spec.get("nodeSelector"):
        problems += label_problems_in(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("tolerations"):
        problems += toleration_problems(spec["tolerations"], f"{path}.tolerations")
    for field in ("nodeName", "serviceAccountName", "priorityClassName"):
        if spec.get(field):
            problems += [
                errors.invalid_value(f"{path}.{field}", spec[field], text) for text in dns_subdomain_errors(spec[field])
            ]
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            problems += [
                errors.invalid_value(f"{path}.{field}", spec[field], text) for text in dns_label_errors(spec[field])
            ]
    problems += pod_problems(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2147483647:
        problems.append(
            errors.invalid_value(
                f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"
            )
        )
    return problems


def _validate_volumes(volumes: Iterable[Object], path: str, problems: list[FieldError]) -> dict[str, bool]:
    """The names of the volumes that there is nothing to be said against, and whether they may be block devices; others
    can't be mounted."""
    names: set[str] = set()
    right: dict[str, bool] = {}
    for position, volume in enumerate(volumes):
        where = f"{path}[{position}]"
        name = volume.get("name") or ""
        found = pod_source_problems(volume, where)
        if not name:
            found.append(errors.required(f"{where}.name"))
        else:
            found += [errors.invalid_value(f"{where}.name", name, text) for text in dns_label_errors(name)]
        if name in names:
            found.append(errors.duplicate(f"{where}.name", name))
        problems += found
        if not found:
            names.add(name)
            right[name] = not _CLAIMED.isdisjoint(volume)
    return right


def _validate_containers(spec: Object, path: str, volumes: Mapping[str, bool], problems: list[FieldError]) -> None:
    """All three sorts. Regular containers first: an init container that has the name of one is the one too many."""
    grace = spec.get("terminationGracePeriodSeconds")
    names: set[str] = set()
    regular, first = spec.get("containers") or (), spec.get("initContainers") or ()
    for position, container in enumerate(regular):
        where = f"{path}.containers[{position}]"
        _validate_container(container, where, names, volumes, grace, problems)
        names.add(container.get("name") or "")
    problems += _host_port_problems(regular, f"{path}.containers")
    for position, container in enumerate(first):
        where = f"{path}.initContainers[{position}]"
        barred = _barred(container)
        if barred:
            container = {name: value for name, value in container.items() if name not in barred}
        _validate_container(container, where, names, volumes, grace, problems)
        if container.get("name"):
            names.add(container["name"])
        # Each by itself, as they run one after the other, and each is called the first (validateInitContainers).
        problems += _host_port_problems((container,), f"{path}.initContainers")
        problems += [errors.not_allowed(f"{where}.{name}", _NOT_OF_INIT) for name in barred]
    later = spec.get("ephemeralContainers") or ()
    if later:
        names.update(container.get("name") or "" for container in first)
    for position, container in enumerate(later):
        _validate_container(container, f"{path}.ephemeralContainers[{position}]", names, volumes, grace, problems)
        names.add(container.get("name") or "")


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
    grace: int | None,
    problems: list[FieldError],
) -> None:
    # Pods are made by the thousand from a few templates, so what was found to be right is known again. What rests on
    # the rest of the pod is looked at each time.
    text = b"" if "volumeDevices" in container else _encode({**container, "volumeMounts": None})
    if text in _right:
        if container.get("volumeMounts"):
            _validate_mounts(container, f"{path}.volumeMounts", volumes, problems)
        if container["name"] in names:
            problems.append(errors.duplicate(f"{path}.name", container["name"]))
        return
    before = len(problems)
    _validate_whole_container(container, path, names, volumes, grace, problems)
    if text and len(problems) == before and len(text) <= _MAX_RIGHT_SIZE and b'"sleep"' not in text:
        if len(_right) >= _MAX_RIGHT:
            _right.clear()
        _right.add(text)


_encode = msgspec.json.Encoder().encode
_right: set[bytes] = set()
"""Containers with nothing wrong in them, without what they mount."""
_MAX_RIGHT = 512
_MAX_RIGHT_SIZE = 16 * 1024


def _validate_whole_container(
    container: Object,
    path: str,
    names: set[str],
    volumes: Mapping[str, bool],
    grace: int | None,
    problems: list[FieldError],
) -> None:
    name = container.get("name") or ""
    if not name:
        problems.append(errors.required(f"{path}.name"))
    else:
        problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_label_errors(name)]
    if not container.get("image"):
        problems.append(errors.required(f"{path}.image"))
    if container.get("ports"):
        _validate_ports(container["ports"], f"{path}.ports", problems)
    for position, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            problems.append(errors.required(f"{path}.env[{position}].name"))
        elif not _ENV_NAME.match(variable["name"]):
            problems.append(
                errors.invalid_value(
                    f"{path}.env[{position}].name",
                    variable["name"],
                    "a valid environment variable name must consist only of printable ASCII characters other than '='",
                )
            )
    if container.get("volumeMounts"):
        _validate_mounts(container, f"{path}.volumeMounts", volumes, problems)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        problems.append(
            errors.not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
        )
    if container.get("resources"):
        problems += requirement_problems(container["resources"], f"{path}.resources")
    problems += container_problems(container, path, volumes)
    # What is said of regular containers only comes after what is common to all sorts (kubernetes
    # pkg/apis/core/validation/validation.go, validateContainers).
    if name in names:
        problems.append(errors.duplicate(f"{path}.name", name))
    problems += hook_problems(container, path, grace) + probe_problems(container, path)


def _validate_mounts(container: Object, path: str, volumes: Mapping[str, bool], problems: list[FieldError]) -> None:
    mounted: set[str] = set()
    devices = container.get("volumeDevices") or ()
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}[{position}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            problems.append(errors.required(f"{where}.name"))
        if name not in volumes:
            problems.append(errors.value_not_found(f"{where}.name", name))
        if not target:
            problems.append(errors.required(f"{where}.mountPath"))
        if target in mounted:
            problems.append(errors.invalid_value(f"{where}.mountPath", target, "must be unique"))
        mounted.add(target)
        if any(device.get("name") == name for device in devices):
            told = "must not already exist in volumeDevices"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if any(device.get("devicePath") == target for device in devices):
            told = "must not already exist as a path in volumeDevices"
            problems.append(errors.invalid_value(f"{where}.mountPath", target, told))
        if len(mount) > 2:
            problems += _mount_problems(container, mount, path)


def _mount_problems(container: Object, mount: Object, path: str) -> list[FieldError]:
    """The rarer parts of a mount. Upstream does not say of which one."""
    problems: list[FieldError] = []
    below, expanded = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if below:
        problems += descending_path_problems(below, f"{path}.subPath")
    if expanded:
        if below:
            told = "subPathExpr and subPath are mutually exclusive"
            problems.append(errors.invalid_value(f"{path}.subPathExpr", expanded, told))
        problems += descending_path_problems(expanded, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in _PROPAGATIONS:
        problems.append(errors.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and (container.get("securityContext") or {}).get("privileged") is not True:
        told = "Bidirectional mount propagation is available only to privileged containers"
        problems.append(errors.not_allowed(f"{path}.mountPropagation", told))
    return problems


def _validate_ports(ports: Iterable[Object], path: str, problems: list[FieldError]) -> None:
    names: set[str] = set()
    for position, port in enumerate(ports):
        where = f"{path}[{position}]"
        if port.get("name"):
            name = port["name"]
            problems += [errors.invalid_value(f"{where}.name", name, text) for text in port_name_errors(name)]
            if name in names:
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


@lru_cache(maxsize=512)
def _key_errors(key: str) -> tuple[str, ...]:
    # Nearly every pod tolerates the same two taints.
    return tuple(qualified_name_errors(key))


def toleration_problems(tolerations: Iterable[Object], path: str) -> list[FieldError]:
    """What is wrong with tolerations."""
    problems: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        where = f"{path}[{position}]"
        operator = toleration.get("operator") or "Equal"
        effect = toleration.get("effect") or ""
        key = toleration.get("key")
        if key:
            problems += [errors.invalid_value(f"{where}.key", key, text) for text in _key_errors(key)]
        if not key and operator != "Exists":
            problems.append(
                errors.invalid_value(
                    f"{where}.operator",
                    toleration.get("operator") or "",
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            problems.append(
                errors.invalid_value(
                    f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
                )
            )
        if operator not in ("Exists", "Equal"):
            problems.append(errors.not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        elif operator == "Equal":
            value = toleration.get("value") or ""
            problems += [errors.invalid_value(f"{where}.operator", value, text) for text in label_value_errors(value)]
        elif toleration.get("value"):
            problems.append(
                errors.invalid_value(f"{where}.operator", toleration, "value must be empty when `operator` is 'Exists'")
            )
        if effect and effect not in _TAINT_EFFECTS:
            problems.append(errors.not_supported(f"{where}.effect", effect, _TAINT_EFFECTS))
    return problems
