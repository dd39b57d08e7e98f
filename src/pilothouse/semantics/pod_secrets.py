"""The Secrets that a pod uses. Pure, with a view of its own, because the usual views of pods do not have these fields.

Upstream: ``VisitPodSecretNames``, v1.36 ``pkg/api/v1/pod/util.go``.
"""

from collections.abc import Iterator

import msgspec

from pilothouse.api.meta import ObjectMeta, View


class Reference(View, frozen=True):
    """An object of the same namespace."""

    name: str = ""


class NamedSecret(View, frozen=True):
    """A volume that names its secret outright."""

    secret_name: str = ""


class ReferringVolume(View, frozen=True):
    secret_ref: Reference | None = None


class CsiVolume(View, frozen=True):
    node_publish_secret_ref: Reference | None = None


class ProjectedSource(View, frozen=True):
    """One source of a projected volume."""

    secret: Reference | None = None


class ProjectedVolume(View, frozen=True):
    sources: tuple[ProjectedSource, ...] | None = ()


class SecretsOfVolume(View, frozen=True):
    secret: NamedSecret | None = None
    azure_file: NamedSecret | None = None
    projected: ProjectedVolume | None = None
    csi: CsiVolume | None = None
    cephfs: ReferringVolume | None = None
    cinder: ReferringVolume | None = None
    flex_volume: ReferringVolume | None = None
    iscsi: ReferringVolume | None = None
    rbd: ReferringVolume | None = None
    scale_io: ReferringVolume | None = msgspec.field(default=None, name="scaleIO")
    storageos: ReferringVolume | None = None


class ValueSource(View, frozen=True):
    secret_key_ref: Reference | None = None


class Variable(View, frozen=True):
    value_from: ValueSource | None = None


class SecretsOfContainer(View, frozen=True):
    env: tuple[Variable, ...] | None = ()
    env_from: tuple[ReferringVolume, ...] | None = ()


class SecretsOfSpec(View, frozen=True):
    """All fields of a pod that can refer to a Secret."""

    volumes: tuple[SecretsOfVolume, ...] | None = ()
    image_pull_secrets: tuple[Reference, ...] | None = ()
    containers: tuple[SecretsOfContainer, ...] | None = ()
    init_containers: tuple[SecretsOfContainer, ...] | None = ()
    ephemeral_containers: tuple[SecretsOfContainer, ...] | None = ()


class SecretsOfPod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SecretsOfSpec = SecretsOfSpec()


def secrets_of(pod: SecretsOfPod) -> frozenset[str]:
    """The names of the secrets, all of the pod's own namespace."""
    return frozenset(name for name in _names(pod.spec) if name)


def _names(spec: SecretsOfSpec) -> Iterator[str]:
    for pull in spec.image_pull_secrets or ():
        yield pull.name
    for containers in (spec.init_containers, spec.containers, spec.ephemeral_containers):
        for container in containers or ():
            yield from _of_container(container)
    for volume in spec.volumes or ():
        yield from _of_volume(volume)


def _of_container(container: SecretsOfContainer) -> Iterator[str]:
    for source in container.env_from or ():
        if source.secret_ref is not None:
            yield source.secret_ref.name
    for variable in container.env or ():
        if variable.value_from is not None and variable.value_from.secret_key_ref is not None:
            yield variable.value_from.secret_key_ref.name


def _of_volume(volume: SecretsOfVolume) -> Iterator[str]:
    for named in (volume.secret, volume.azure_file):
        if named is not None:
            yield named.secret_name
    if volume.projected is not None:
        for source in volume.projected.sources or ():
            if source.secret is not None:
                yield source.secret.name
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        yield volume.csi.node_publish_secret_ref.name
    for referring in (
        volume.cephfs,
        volume.cinder,
        volume.flex_volume,
        volume.iscsi,
        volume.rbd,
        volume.scale_io,
        volume.storageos,
    ):
        if referring is not None and referring.secret_ref is not None:
            yield referring.secret_ref.name
