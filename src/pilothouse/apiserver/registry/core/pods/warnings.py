"""Warnings about valid pod specs: deprecated fields, and duplicate entries.

After kubernetes' ``pkg/api/{pod,service}/warnings.go`` (v1.36). Clients show warnings and never depend on them.
"""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_DEPRECATED_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def warnings_for_pod_spec(spec: Object, path: str) -> Iterator[str]:
    """Warnings about a pod spec, in a pod or a template."""
    for key in sorted(spec.get("nodeSelector") or {}):
        if key in _DEPRECATED_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_DEPRECATED_LABELS[key]}"
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"  # noqa: E501
    for position, volume in enumerate(spec.get("volumes") or ()):
        for name, message in _DEPRECATED_VOLUMES.items():
            if volume.get(name) is not None:
                yield f"{path}.volumes[{position}].{name}: {message}"
    for field in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(field) or ()):
            yield from _warnings_for_container(container, f"{path}.{field}[{position}]")


def _warnings_for_container(container: Object, path: str) -> Iterator[str]:
    if len(container.get("env") or ()) < 2 and len(container.get("ports") or ()) < 2:
        return  # duplicates need at least two entries
    names: set[str] = set()
    for position, variable in enumerate(container.get("env") or ()):
        name = variable.get("name") or ""
        if name in names and f"$({name})" not in (variable.get("value") or ""):
            yield (
                f'{path}.env[{position}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        names.add(name)
    ports: dict[tuple[object, ...], int] = {}
    for position, port in enumerate(container.get("ports") or ()):
        key = (port.get("containerPort"), port.get("protocol"), port.get("hostPort"), port.get("hostIP"))
        if key in ports:
            yield f"{path}.ports[{position}]: duplicate port definition with {path}.ports[{ports[key]}]"
        ports.setdefault(key, position)
