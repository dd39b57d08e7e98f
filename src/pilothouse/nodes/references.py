"""The ConfigMaps, Secrets and keys that the containers and volumes of a pod need, and which of them are missing. Pure.

Messages: kubelet v1.36 ``pkg/kubelet/kubelet_pods.go`` (``makeEnvironmentVariables``), ``pkg/volume/configmap``,
``pkg/volume/secret`` and ``pkg/volume/projected``.

The ConfigMap ``kube-root-ca.crt``, which admission adds to nearly every pod, counts as present: a cluster publishes it
in every namespace, and each pod would cost a request.
"""

import math
from collections.abc import Iterator, Mapping

import msgspec

from pilothouse.nodes.views import KeyReference, NodeContainer, NodePod, NodeVolume, ObjectSource

CONFIG_MAP, SECRET = "configmap", "secret"
_PUBLISHED = "kube-root-ca.crt"
_NAMES = {CONFIG_MAP: "ConfigMap", SECRET: "Secret"}
_NO_KEY = {CONFIG_MAP: "configmap references non-existent config key: ", SECRET: "references non-existent secret key: "}

ObjectId = tuple[str, str]
"""``CONFIG_MAP`` or ``SECRET``, and the name."""


class Reference(msgspec.Struct, frozen=True):
    """A required object, with required keys. Optional ones are omitted."""

    kind: str
    name: str
    keys: tuple[str, ...] = ()

    @property
    def id(self) -> ObjectId:
        """Which object."""
        return self.kind, self.name


class Mount(msgspec.Struct, frozen=True):
    """A volume with content from API objects."""

    volume: str
    references: tuple[Reference, ...]


class References(msgspec.Struct, frozen=True):
    """The references of a pod. ``containers`` by index: init containers, then containers."""

    mounts: tuple[Mount, ...]
    containers: Mapping[int, tuple[Reference, ...]]


class Content(msgspec.Struct, frozen=True):
    """The result of reading an object: its keys, or the error."""

    keys: frozenset[str] = frozenset()
    error: str = ""


def references_of(pod: NodePod) -> References | None:
    """The required objects of the pod, None for most pods."""
    mounts = tuple(Mount(volume.name, sources) for volume in pod.spec.volumes if (sources := tuple(_of_volume(volume))))
    containers = {}
    for index, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        if container.env or container.env_from:
            references = tuple(_of_container(container))
            if references:
                containers[index] = references
    return References(mounts, containers) if mounts or containers else None


class Configuration(msgspec.Struct):
    """The objects that a pod still needs."""

    mounts: tuple[Mount, ...]
    """Volumes that are not set up."""
    containers: dict[int, tuple[Reference, ...]]
    """The objects for the environments of containers that have never started."""
    retry_at: float = math.inf
    """When to try again, in loop time."""
    mount_pause: float = 0.0
    tried: bool = False
    """Whether an environment has been found incomplete."""


def configuration_of(pod: NodePod, *, mounted: bool) -> Configuration | None:
    """The objects that a pod still needs, None for most pods. ``mounted``: its volumes were set up before."""
    references = references_of(pod)
    if references is None:
        return None
    return Configuration(() if mounted else references.mounts, dict(references.containers))


def mount_error(mount: Mount, contents: Mapping[ObjectId, Content]) -> str:
    """Why the volume can't be set up, "" if it can."""
    errors = []
    for reference in mount.references:
        content = contents[reference.id]
        missing = [key for key in reference.keys if key not in content.keys]
        if content.error:
            errors.append(content.error)
        elif missing:
            errors.append(f"{_NO_KEY[reference.kind]}{missing[0]}")
    return errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]" if errors else ""


def environment_error(references: tuple[Reference, ...], namespace: str, contents: Mapping[ObjectId, Content]) -> str:
    """Why the environment of a container cannot be created, the first error; "" if it can."""
    for reference in references:
        content = contents[reference.id]
        if content.error:
            return content.error
        for key in reference.keys:
            if key not in content.keys:
                return f"couldn't find key {key} in {_NAMES[reference.kind]} {namespace}/{reference.name}"
    return ""


def _of_volume(volume: NodeVolume) -> Iterator[Reference]:
    if volume.config_map is not None:
        yield from _of_source(CONFIG_MAP, volume.config_map.name, volume.config_map)
    if volume.secret is not None:
        yield from _of_source(SECRET, volume.secret.secret_name, volume.secret)
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        if source.config_map is not None and source.config_map.name != _PUBLISHED:
            yield from _of_source(CONFIG_MAP, source.config_map.name, source.config_map)
        if source.secret is not None:
            yield from _of_source(SECRET, source.secret.name, source.secret)


def _of_source(kind: str, name: str, source: ObjectSource) -> Iterator[Reference]:
    if not source.optional and name:
        yield Reference(kind, name, tuple(item.key for item in source.items or ()))


def _of_container(container: NodeContainer) -> Iterator[Reference]:
    # ``envFrom`` first, as upstream
    for source in container.env_from or ():
        for kind, whole in ((CONFIG_MAP, source.config_map_ref), (SECRET, source.secret_ref)):
            if whole is not None and whole.name and not whole.optional:
                yield Reference(kind, whole.name)
    for variable in container.env or ():
        if variable.value_from is not None:
            yield from _of_key(CONFIG_MAP, variable.value_from.config_map_key_ref)
            yield from _of_key(SECRET, variable.value_from.secret_key_ref)


def _of_key(kind: str, reference: KeyReference | None) -> Iterator[Reference]:
    if reference is not None and reference.name and not reference.optional:
        yield Reference(kind, reference.name, (reference.key,))
