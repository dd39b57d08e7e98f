"""StorageObjectInUseProtection and PersistentVolumeClaimResize.

After kubernetes' ``plugin/pkg/admission/storage/storageobjectinuseprotection`` and
``plugin/pkg/admission/storage/persistentvolume/resize`` (v1.36).
"""

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.storage import Store

_FINALIZERS = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"


class StorageObjectInUseProtection(Plugin):
    """Adds a finalizer to new objects, which a protection controller removes when they are not in use."""

    resources = frozenset(f"{name}.{group}" if group else name for group, name in _FINALIZERS)

    def admit(self, write: AdmissionAttributes) -> None:
        if write.operation != "CREATE" or write.subresource or write.obj is None:
            return
        finalizer = _FINALIZERS.get((write.info.group, write.info.resource))
        if finalizer is None:
            return
        meta = write.obj["metadata"]
        present = meta.get("finalizers") or []
        if finalizer not in present:
            meta["finalizers"] = [*present, finalizer]


class PersistentVolumeClaimResize(Plugin):
    """Allows the expansion of claims only if they are bound and their class has ``allowVolumeExpansion``."""

    resources = frozenset({"persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def validate(self, write: AdmissionAttributes) -> None:
        info, claim, old = write.info, write.obj, write.old
        if info.resource != "persistentvolumeclaims" or info.group or write.subresource:
            return
        if write.operation != "UPDATE" or claim is None or old is None or _size(claim) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise new_forbidden(write, "Only bound persistent volume claims can be expanded")
        if not self._allows_expansion(claim, old):
            raise new_forbidden(
                write,
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize",
            )

    def _allows_expansion(self, claim: Object, old: Object) -> bool:
        name = _get_claim_class(claim)
        if not name or name != _get_claim_class(old):
            return False
        record = self._store.staged(storage_prefix("storage.k8s.io", "storageclasses") + name)
        return record is not None and bool(decode(record.value).get("allowVolumeExpansion"))


def _size(claim: Object) -> Quantity:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return parse_quantity(str(requests.get("storage", "0")))


def _get_claim_class(claim: Object) -> str:
    annotated = (claim["metadata"].get("annotations") or {}).get(_CLASS)
    return str(annotated if annotated is not None else (claim.get("spec") or {}).get("storageClassName") or "")
