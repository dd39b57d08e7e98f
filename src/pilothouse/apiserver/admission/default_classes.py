"""The class that a claim or an ingress gets when it names none: the default one, of several the newest.

After kubernetes' ``plugin/pkg/admission/storage/storageclass/setdefault`` and
``plugin/pkg/admission/network/defaultingressclass`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import all_records, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Store

STORAGE_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class _DefaultClass(Plugin):
    """For new objects that name no class, neither in the field nor in the annotation from before there was a field. The
    empty name is a name: that of no class."""

    resources: frozenset[str]
    field: str
    annotation: str
    classes: str
    defaults: tuple[str, ...]

    def __init__(self, store: Store) -> None:
        self._store = store

    def admit(self, write: AdmissionAttributes) -> None:
        obj = write.obj
        if obj is None or write.info.group_resource not in self.resources:
            return
        if write.operation != "CREATE" or write.subresource:
            return
        spec = obj.setdefault("spec", {})
        annotations = obj["metadata"].get("annotations") or {}
        if spec.get(self.field) is not None or self.annotation in annotations:
            return
        name = newest_default(self._store, self.classes, self.defaults)
        if name:
            spec[self.field] = name


class DefaultStorageClass(_DefaultClass):
    """Of claims."""

    resources = frozenset({"persistentvolumeclaims"})
    field = "storageClassName"
    annotation = "volume.beta.kubernetes.io/storage-class"
    classes = storage_prefix("storage.k8s.io", "storageclasses")
    defaults = STORAGE_ANNOTATIONS


class DefaultIngressClass(_DefaultClass):
    """Of ingresses."""

    resources = frozenset({"ingresses.networking.k8s.io"})
    field = "ingressClassName"
    annotation = "kubernetes.io/ingress.class"
    classes = storage_prefix("networking.k8s.io", "ingressclasses")
    defaults = ("ingressclass.kubernetes.io/is-default-class",)


def newest_default(store: Store, prefix: str, annotations: Sequence[str]) -> str:
    """The class that one of the annotations marks as default; the newest of several, by name where they are as old."""
    best = ("", "")
    for record in all_records(store, prefix):  # by name
        if b"is-default-class" not in record.value:
            continue
        meta = decode(record.value)["metadata"]
        marks = meta.get("annotations") or {}
        if any(marks.get(annotation) == "true" for annotation in annotations):
            created = meta.get("creationTimestamp") or ""
            if not best[1] or created > best[0]:
                best = (created, meta["name"])
    return best[1]
