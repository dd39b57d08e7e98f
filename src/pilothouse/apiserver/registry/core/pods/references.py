"""The Secrets, ConfigMaps, claims and other objects in its namespace that a pod refers to.

After ``VisitPodSecretNames``, ``VisitPodConfigmapNames`` and ``HasAPIObjectReference`` in kubernetes'
``pkg/api/pod/util.go`` (v1.36). Used by the Node authorizer and the admission plugin NodeRestriction.
"""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SECRET_REFS = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_WITHOUT_API_OBJECTS = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)
_VOLUME_REFERENCES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTION_REFERENCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class UnknownSource(ValueError):
    """A volume type for which it is unknown whether it refers to an API object."""


def secret_names(spec: Object) -> Iterator[str]:
    for reference in spec.get("imagePullSecrets") or ():
        yield from _referenced_name(reference)
    for container in _containers(spec):
        yield from _environment_references(container, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _referenced_name(volume.get("azureFile"), "secretName")
        yield from _referenced_name(volume.get("secret"), "secretName")
        for field in _SECRET_REFS:
            yield from _referenced_name((volume.get(field) or {}).get("secretRef"))
        yield from _referenced_name((volume.get("csi") or {}).get("nodePublishSecretRef"))
        for source in _projections(volume):
            yield from _referenced_name(source.get("secret"))


def config_map_names(spec: Object) -> Iterator[str]:
    for container in _containers(spec):
        yield from _environment_references(container, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _referenced_name(volume.get("configMap"))
        for source in _projections(volume):
            yield from _referenced_name(source.get("configMap"))


def claim_names(pod_name: str, spec: Object) -> Iterator[str]:
    """The names of the PersistentVolumeClaims, including those of ephemeral volumes."""
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield from _referenced_name(volume["persistentVolumeClaim"], "claimName")
        elif volume.get("ephemeral") is not None:
            yield f"{pod_name}-{volume['name']}"


def api_object_reference(spec: Object) -> str:
    """A resource that the pod refers to, for error messages; empty if it refers to no API object.

    Raises ``UnknownSource`` for a volume of unknown type.
    """
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if any(True for _name in secret_names(spec)):
        return "secrets"
    if any(True for _name in config_map_names(spec)):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        resource = _volume_reference(volume)
        if resource:
            return resource
    return ""


def _volume_reference(volume: Object) -> str:
    sources = [field for field, value in volume.items() if field != "name" and value is not None]
    if not _WITHOUT_API_OBJECTS.isdisjoint(sources):
        return ""
    for field, reference in _VOLUME_REFERENCES.items():
        if field in sources:
            return reference
    if "projected" not in sources:
        # Upstream's message has two spaces here.
        raise UnknownSource(f'unknown volume type for volume  "{volume.get("name", "")}"')
    for source in _projections(volume):
        for field, reference in _PROJECTION_REFERENCES.items():
            if source.get(field) is not None:
                return reference
        if source.get("downwardAPI") is None:
            raise UnknownSource(f'unknown source for projected volume "{volume.get("name", "")}"')
    return ""


def _containers(spec: Object) -> Iterator[Object]:
    for field in _CONTAINERS:
        yield from spec.get(field) or ()


def _environment_references(container: Object, ref: str, key_ref: str) -> Iterator[str]:
    for source in container.get("envFrom") or ():
        yield from _referenced_name(source.get(ref))
    for variable in container.get("env") or ():
        yield from _referenced_name((variable.get("valueFrom") or {}).get(key_ref))


def _projections(volume: Object) -> Iterator[Object]:
    yield from (volume.get("projected") or {}).get("sources") or ()


def _referenced_name(reference: Object | None, field: str = "name") -> Iterator[str]:
    name: str = (reference or {}).get(field) or ""
    if name:
        yield name
