"""Warnings about PersistentVolumes. After kubernetes' ``pkg/api/persistentvolume/util.go`` (v1.36)."""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.nodes.warnings import warnings_for_node_selector_term

_ANNOTATIONS = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
_SOURCES = {
    # field: (upstream's name of it, message)
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "photonPersistentDisk": ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}


def warnings_for_persistent_volume(obj: Object) -> Iterator[str]:
    """``GetWarningsForPersistentVolume``."""
    spec, annotations = obj["spec"], obj["metadata"].get("annotations") or ()
    for key, message in _ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {message}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for position, term in enumerate(terms):
        yield from warnings_for_node_selector_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{position}]")
    for field, (name, message) in _SOURCES.items():
        if spec.get(field) is not None:
            yield f"spec.{name}: {message}"
