"""The class that a claim or an ingress gets when it names none: the default one, of several the newest.

After kubernetes' ``plugin/pkg/admission/storage/storageclass/setdefault`` and
``plugin/pkg/admission/network/defaultingressclass`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.admission.chain import Admission, Plugin
from pilothouse.apiserver.objects import decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Store

STORAGE_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_OF_CLAIM = "volume.beta.kubernetes.io/storage-class"
_CLASS_OF_INGRESS = "kubernetes.io/ingress.class"


class DefaultStorageClass(Plugin):
    """For new claims that do not name a class. The empty name is a name: that of no class."""

    concerns = frozenset({"persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, write: Admission) -> None:
        info, claim = write.info, write.obj
        if info.resource != "persistentvolumeclaims" or info.group or claim is None:
            return
        if write.operation != "CREATE" or write.subresource:
            return
        spec = claim.setdefault("spec", {})
        annotations = claim["metadata"].get("annotations") or {}
        if spec.get("storageClassName") is not None or _CLASS_OF_CLAIM in annotations:
            return
        name = newest_default(self._store, storage_prefix("storage.k8s.io", "storageclasses"), STORAGE_ANNOTATIONS)
        if name:
            spec["storageClassName"] = name


class DefaultIngressClass(Plugin):
    """For new ingresses that name no class, neither in the spec nor in the annotation from before there was a field."""

    concerns = frozenset({"ingresses.networking.k8s.io"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, write: Admission) -> None:
        info, ingress = write.info, write.obj
        if info.resource != "ingresses" or info.group != "networking.k8s.io" or ingress is None:
            return
        if write.operation != "CREATE" or write.subresource:
            return
        spec = ingress.setdefault("spec", {})
        annotations = ingress["metadata"].get("annotations") or {}
        if spec.get("ingressClassName") is not None or _CLASS_OF_INGRESS in annotations:
            return
        prefix = storage_prefix("networking.k8s.io", "ingressclasses")
        name = newest_default(self._store, prefix, ("ingressclass.kubernetes.io/is-default-class",))
        if name:
            spec["ingressClassName"] = name


def newest_default(store: Store, prefix: str, annotations: Sequence[str]) -> str:
    """The class that one of the annotations marks as default; the newest of several, by name where they are as old."""
    best = ("", "")
    for record in store.list(prefix).records:  # by name
        if b"is-default-class" not in record.value:
            continue
        meta = decode(record.value)["metadata"]
        marks = meta.get("annotations") or {}
        if any(marks.get(annotation) == "true" for annotation in annotations):
            created = meta.get("creationTimestamp") or ""
            if not best[1] or created > best[0]:
                best = (created, meta["name"])
    return best[1]
