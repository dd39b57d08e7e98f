"""Warnings about pod specs: deprecated fields, duplicate and overlapping entries.

After kubernetes' ``pkg/api/pod/warnings.go`` (v1.36), in its order.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.nodes.warnings import DEPRECATED_NODE_LABELS, warnings_for_node_selector_term
from pilothouse.apiserver.registry.core.persistentvolumeclaims.warnings import (
    fractional_byte_warning,
    warnings_for_persistent_volume_claim_spec,
)
from pilothouse.apiserver.registry.core.pods import app_armor
from pilothouse.apiserver.registry.core.pods.volume_warnings import warnings_for_overlapping_virtual_paths
from pilothouse.apiserver.registry.generic.ip_validation import warnings_for_ip
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import dns_label_errors

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_VOLUMES = {
    # field: (upstream's name of it, message)
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}
_WHOLE_BYTES = ("memory", "ephemeral-storage")
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_DNS_LABEL = "which can result in surprising behavior; a DNS label is recommended"


def warnings_for_name(name: str, use: str = "in Pod names and hostnames") -> Iterator[str]:
    """A warning if a name of which names of pods are made is no DNS label."""
    msgs = dns_label_errors(name)
    if msgs:
        yield f"metadata.name: this is used {use}, {_DNS_LABEL}: [{' '.join(msgs)}]"


def warnings_for_pod(pod: Object) -> Iterator[str]:
    """``GetWarningsForPod``."""
    return _warnings_for_pod_spec_and_meta(pod["spec"], pod["metadata"], "", is_template=False)


def warnings_for_pod_template(template: Object | None, path: str) -> Iterator[str]:
    """``GetWarningsForPodTemplate``."""
    template = template or {}
    spec, meta = template.get("spec") or {}, template.get("metadata") or {}
    return _warnings_for_pod_spec_and_meta(spec, meta, f"{path}.", is_template=True)


def _warnings_for_pod_spec_and_meta(spec: Object, meta: Object, prefix: str, *, is_template: bool) -> Iterator[str]:
    annotations: Object = meta.get("annotations") or {}
    containers = list(_containers(spec, f"{prefix}spec"))
    yield from _warnings_for_placement(spec, f"{prefix}spec")
    for key, message in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{prefix}metadata.annotations[{key}]: {message}"
    if "volumes" in spec:
        yield from _warnings_for_volumes(spec["volumes"], f"{prefix}spec.volumes")
    yield from _warnings_for_duplicates(spec, f"{prefix}spec")
    for resource in _WHOLE_BYTES:
        yield from fractional_byte_warning(spec.get("overhead"), resource, f"{prefix}spec.overhead")
    if _SECCOMP_POD in annotations and (spec.get("securityContext") or {}).get("seccompProfile") is None:
        yield f"{prefix}metadata.annotations[{_SECCOMP_POD}]: {_SECCOMP}"
    pod_profile = (spec.get("securityContext") or {}).get("appArmorProfile")
    for path, container in containers:
        if annotations:
            context, name = container.get("securityContext") or {}, container.get("name") or ""
            if f"{_SECCOMP_CONTAINER}{name}" in annotations and context.get("seccompProfile") is None:
                yield f"{prefix}metadata.annotations[{_SECCOMP_CONTAINER}{name}]: {_SECCOMP}"
            # Those of pods are copied to the fields, with the same warning (``app_armor``).
            annotation = annotations.get(f"{app_armor.APP_ARMOR_PREFIX}{name}") if is_template else None
            if annotation is not None and context.get("appArmorProfile") is None:
                profile = app_armor.profile_of_annotation(annotation)
                if pod_profile is None or pod_profile != profile:
                    yield app_armor.deprecation_warning(name, prefix)
        yield from _warnings_for_container(container, path)
    yield from _warnings_for_ports(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        message = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{prefix}spec.terminationGracePeriodSeconds: {message}"
    yield from _warnings_for_pod_affinity(spec.get("affinity") or {}, f"{prefix}spec.affinity")
    for position, nameserver in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from warnings_for_ip(nameserver, f"{prefix}spec.dnsConfig.nameservers[{position}]")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        yield from warnings_for_ip(alias.get("ip") or "", f"{prefix}spec.hostAliases[{position}].ip")


def _containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{position}]", container


def _warnings_for_placement(spec: Object, path: str) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or ()):
        if key in DEPRECATED_NODE_LABELS:
            yield f"{path}.nodeSelector[{key}]: {DEPRECATED_NODE_LABELS[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    child_path = f"{path}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    for position, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from warnings_for_node_selector_term(term, f"{child_path}[{position}]")
    child_path = f"{path}.affinity.nodeAffinity.{_PREFERRED}"
    for position, term in enumerate(affinity.get(_PREFERRED) or ()):
        preference = term.get("preference") or {}
        yield from warnings_for_node_selector_term(preference, f"{child_path}[{position}].preference", values=True)
    for position, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        child_path, key = f"{path}.topologySpreadConstraints[{position}]", constraint.get("topologyKey") or ""
        if key in DEPRECATED_NODE_LABELS:
            yield f"{child_path}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}"
        yield from _warnings_for_label_selector(constraint, child_path)


def _warnings_for_label_selector(obj: Object, path: str) -> Iterator[str]:
    if obj.get("labelSelector") is None:
        yield f"{path}.labelSelector: a null labelSelector results in matching no pod"


def _warnings_for_pod_affinity(affinity: Object, path: str) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field) or {}
        for position, term in enumerate(terms.get(_REQUIRED) or ()):
            yield from _warnings_for_label_selector(term, f"{path}.{field}.{_REQUIRED}[{position}]")
        for position, weighted in enumerate(terms.get(_PREFERRED) or ()):
            term, child_path = weighted.get("podAffinityTerm") or {}, f"{path}.{field}.{_PREFERRED}[{position}]"
            yield from _warnings_for_label_selector(term, f"{child_path}.podAffinityTerm")


def _warnings_for_volumes(volumes: Iterable[Object], path: str) -> Iterator[str]:
    for position, volume in enumerate(volumes):
        for field in volume:
            if field in _VOLUMES:
                name, message = _VOLUMES[field]
                yield f"{path}[{position}].{name}: {message}"
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim is not None:
            child_path = f"{path}[{position}].ephemeral.volumeClaimTemplate.spec"
            yield from warnings_for_persistent_volume_claim_spec(claim.get("spec") or {}, child_path)
    yield from warnings_for_overlapping_virtual_paths(volumes)


def _warnings_for_duplicates(spec: Object, path: str) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        names_used: set[str] = set()
        for position, item in enumerate(spec.get(field) or ()):
            value = item.get(key) or ""
            if value in names_used:
                yield f"{path}.{field}[{position}].{key}: duplicate {key} {quote(value)}"
            names_used.add(value)
    for position, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{position}].name: invalid empty name ""'


def _warnings_for_container(container: Object, path: str) -> Iterator[str]:
    resources = container.get("resources")
    if resources:
        for resource in _WHOLE_BYTES:
            for field in ("limits", "requests"):
                yield from fractional_byte_warning(resources.get(field), resource, f"{path}.resources.{field}")
    names: set[str] = set()
    for position, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name in names and (variable.get("valueFrom") is not None or value == reference or reference not in value):
            message = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
            yield f"{path}.env[{position}]: {message}"
        names.add(name)


class _Definition(NamedTuple):
    order: int
    path: str
    ip: str
    host_port: int


class _Definitions:
    """The definitions of one port and protocol. Pairs without a warning are not compared: they may be many."""

    def __init__(self) -> None:
        self._all: list[_Definition] = []
        self._found: dict[tuple[int, str], list[_Definition]] = {}
        self._with_ip: dict[int, list[_Definition]] = {}

    def warnings(self, path: str, ip: str, host_port: int) -> Iterator[str]:
        for other in self._conflicting(ip, host_port):
            if ip == other.ip and host_port == other.host_port:
                yield f"{path}: duplicate port definition with {other.path}"
            elif not host_port or not other.host_port:
                yield f"{path}: overlapping port definition with {other.path}"
            else:
                yield f"{path}: dangerously ambiguous port definition with {other.path}"

    def _conflicting(self, ip: str, host_port: int) -> list[_Definition]:
        if not host_port:
            return self._all
        ambiguous = self._found.get((host_port, ""), ()) if ip else self._with_ip.get(host_port, ())
        redundant = (*self._found.get((0, ""), ()), *self._with_ip.get(0, ()))
        return sorted((*redundant, *self._found.get((host_port, ip), ()), *ambiguous))

    def add(self, path: str, ip: str, host_port: int) -> None:
        definition = _Definition(len(self._all), path, ip, host_port)
        self._all.append(definition)
        self._found.setdefault((host_port, ip), []).append(definition)
        if ip:
            self._with_ip.setdefault(host_port, []).append(definition)


def _warnings_for_ports(containers: Iterable[tuple[str, Object]]) -> Iterator[str]:
    known: dict[tuple[int, str], _Definitions] = {}
    names: dict[str, str] = {}
    duplicates: list[str] = []
    for container_path, container in containers:
        for position, port in enumerate(container.get("ports") or ()):
            path, ip, host_port = (
                f"{container_path}.ports[{position}]",
                port.get("hostIP") or "",
                port.get("hostPort") or 0,
            )
            if ip and not host_port:
                yield f"{path}: hostIP set without hostPort: {_go_port(port)}"
            key = (port.get("containerPort") or 0, port.get("protocol") or "")
            definitions = known.setdefault(key, _Definitions())
            yield from definitions.warnings(path, ip, host_port)
            definitions.add(path, ip, host_port)
            name = port.get("name")
            if name and names.setdefault(name, path) != path:
                used = names[name]
                duplicates.append(
                    f"{path}: duplicate port name {quote(name)} with {used}, services and probes that select ports by "
                    f"name will use {used}"
                )
    yield from duplicates


def _go_port(port: Object) -> str:
    """A ``core.ContainerPort`` as ``%+v`` prints it."""
    values = (
        f"{name}:{port.get(field) or empty}"
        for name, field, empty in (
            ("Name", "name", ""),
            ("HostPort", "hostPort", 0),
            ("ContainerPort", "containerPort", 0),
            ("Protocol", "protocol", ""),
            ("HostIP", "hostIP", ""),
        )
    )
    return "{" + " ".join(values) + "}"
