"""DefaultStorageClass and DefaultIngressClass: set the default class on claims and ingresses without a class.

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
    """Sets the field of new objects that have neither the field nor the legacy annotation. An empty string counts as
    set: it requests no class."""

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
        name = default_class(self._store, self.classes, self.defaults)
        if name:
            spec[self.field] = name


class DefaultStorageClass(_DefaultClass):
    """Sets ``storageClassName`` of PersistentVolumeClaims."""

    resources = frozenset({"persistentvolumeclaims"})
    field = "storageClassName"
    annotation = "volume.beta.kubernetes.io/storage-class"
    classes = storage_prefix("storage.k8s.io", "storageclasses")
    defaults = STORAGE_ANNOTATIONS


class DefaultIngressClass(_DefaultClass):
    """Sets ``ingressClassName`` of Ingresses."""

    resources = frozenset({"ingresses.networking.k8s.io"})
    field = "ingressClassName"
    annotation = "kubernetes.io/ingress.class"
    classes = storage_prefix("networking.k8s.io", "ingressclasses")
    defaults = ("ingressclass.kubernetes.io/is-default-class",)


def default_class(store: Store, prefix: str, annotations: Sequence[str]) -> str:
    """The name of the default class (``GetDefaultClass``): the newest with one of the annotations, the first by name if
    several were created in the same second; "" if there is none."""
    default = ("", "")
    for record in all_records(store, prefix):  # by name
        if b"is-default-class" not in record.value:
            continue
        meta = decode(record.value)["metadata"]
        class_annotations = meta.get("annotations") or {}
        if any(class_annotations.get(annotation) == "true" for annotation in annotations):
            created = meta.get("creationTimestamp") or ""
            if not default[1] or created > default[0]:
                default = (created, meta["name"])
    return default[1]
