"""Claims, volumes and classes as in upstream's tests, and a binder without an API server."""

from typing import Any

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, StorageClass
from pilothouse.controllers.shared.volume_links import Decoded, bound_volume, decode_object
from pilothouse.controllers.volumes.persistentvolume_binder import links
from pilothouse.controllers.volumes.persistentvolume_binder.claims import (
    AssignDefaultStorageClass,
    Bind,
    ClaimStep,
    InvalidClaim,
    MarkLost,
    StayPending,
    decide_claim,
)
from pilothouse.controllers.volumes.persistentvolume_binder.stores import ClaimStore, Store, VolumeStore
from pilothouse.controllers.volumes.persistentvolume_binder.volumes import (
    Reclaim,
    SetPhase,
    Unbind,
    VolumeStep,
    decide_volume,
)
from pilothouse.semantics.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, PROVISIONED_BY, default_class

Doc = dict[str, Any]

CONTROLLER, COMPLETED, MADE = BOUND_BY_CONTROLLER, BIND_COMPLETED, PROVISIONED_BY


def volume(
    name: str,
    size: str = "1Gi",
    uid: str = "",
    claim: str = "",
    phase: str = "Available",
    *annotations: str,
    policy: str = "Retain",
    class_name: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Doc:
    """A volume; ``claim`` is the name in its claimRef, ``uid`` the uid."""
    meta: Doc = {"name": name, "uid": f"of-{name}", "resourceVersion": "1"}
    if annotations:
        meta["annotations"] = {
            annotation: "vendor.com/x" if annotation == MADE else "yes" for annotation in annotations
        }
    if labels:
        meta["labels"] = labels
    whole: Doc = {
        "capacity": {"storage": size},
        "accessModes": list(modes),
        "persistentVolumeReclaimPolicy": policy,
        "volumeMode": "Filesystem",
        **spec,
    }
    if claim:
        whole["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": claim}
        if uid:
            whole["claimRef"]["uid"] = uid
    if class_name:
        whole["storageClassName"] = class_name
    return {"metadata": meta, "spec": whole, "status": {"phase": phase}}


def claim(
    name: str,
    uid: str = "u",
    size: str = "1Gi",
    wants: str = "",
    phase: str = "Pending",
    *annotations: str,
    class_name: str | None = None,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    selects: dict[str, str] | None = None,
    **spec: Any,
) -> Doc:
    """A claim; ``wants`` is its volumeName."""
    meta: Doc = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": "1"}
    if annotations:
        meta["annotations"] = dict.fromkeys(annotations, "yes")
    whole: Doc = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    if wants:
        whole["volumeName"] = wants
    if class_name is not None:
        whole["storageClassName"] = class_name
    if selects is not None:
        whole["selector"] = {"matchLabels": selects}
    status: Doc = {"phase": phase}
    if phase == "Bound":
        status |= {"accessModes": list(modes), "capacity": {"storage": size}}
    return {"metadata": meta, "spec": whole, "status": status}


def storage_class(
    name: str, provisioner: str = "vendor.com/x", *, default: bool = False, created: str = "", **more: Any
) -> StorageClass:
    """A class."""
    meta: Doc = {"name": name}
    if default:
        meta["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    if created:
        meta["creationTimestamp"] = created
    return msgspec.convert({"metadata": meta, "provisioner": provisioner, **more}, StorageClass)


def as_volume(doc: Doc) -> PersistentVolume:
    """The view of a volume."""
    return decode_object(msgspec.json.encode(doc), PersistentVolume).object


def as_claim(doc: Doc) -> PersistentVolumeClaim:
    """The view of a claim."""
    return decode_object(msgspec.json.encode(doc), PersistentVolumeClaim).object


class FakeBinder:
    """A binder that applies its decisions to local objects."""

    def __init__(self, volumes: list[Doc], claims: list[Doc], classes: list[StorageClass], pods: list[str]) -> None:
        self.volumes, self.claims = VolumeStore(), ClaimStore()
        self._classes = {item.metadata.name: item for item in classes}
        self._pods = pods
        self.told: list[str] = []
        for doc in volumes:
            self.volumes.put(decode_object(msgspec.json.encode(doc), PersistentVolume))
        for doc in claims:
            self.claims.put(decode_object(msgspec.json.encode(doc), PersistentVolumeClaim))

    def volume(self, name: str) -> PersistentVolume | None:
        obj = self.volumes.get(name)
        return obj.object if obj else None

    def find_best_match_for_claim(self, claim: PersistentVolumeClaim, *, delayed: bool) -> PersistentVolume | None:
        return self.volumes.find_best_match_for_claim(claim, delayed=delayed)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def default_class(self) -> StorageClass | None:
        return default_class(self._classes.values())

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> list[str]:
        return self._pods

    def sync_claim(self, name: str) -> ClaimStep:
        """Sync a claim once."""
        obj = self.claims.get(f"ns/{name}")
        assert obj is not None
        step = decide_claim(obj.object, self)
        match step:
            case Bind(volume=wanted):
                self._bind(wanted, obj)
            case StayPending(event=event):
                if event is not None:
                    self.told.append(f"{event.type} {event.reason}")
                _write(self.claims, obj, links.claim_phase(obj, "Pending"))
            case AssignDefaultStorageClass(name=class_name):
                _write(self.claims, obj, links.claim_with_class(obj, class_name))
            case MarkLost(reason=reason):
                if obj.object.status.phase != "Lost":
                    self.told.append(f"Warning {reason}")
                    _write(self.claims, obj, links.claim_phase(obj, "Lost"))
            case InvalidClaim(event=event):
                self.told.append(f"{event.type} {event.reason}")
        return step

    def _bind(self, name: str, claim: Decoded[PersistentVolumeClaim]) -> None:
        volume = self.volumes.get(name)
        assert volume is not None
        volume = _write(self.volumes, volume, bound_volume(volume, claim.object))
        volume = _write(self.volumes, volume, links.volume_phase(volume, "Bound"))
        claim = _write(self.claims, claim, links.bound_claim(claim, volume.object))
        _write(self.claims, claim, links.bound_status(claim, volume.object))

    def sync_volume(self, name: str) -> VolumeStep:
        """Sync a volume once."""
        volume_object = self.volumes.get(name)
        assert volume_object is not None
        reference = volume_object.object.spec.claim_ref
        of_name = self.claims.get(f"ns/{reference.name}") if reference is not None else None
        same = of_name is not None and reference is not None and of_name.object.metadata.uid == reference.uid
        step = decide_volume(volume_object.object, of_name.object if of_name is not None and same else None)
        match step:
            case SetPhase(phase=phase):
                _write(self.volumes, volume_object, links.volume_phase(volume_object, phase))
            case Reclaim(release=True):
                _write(self.volumes, volume_object, links.volume_phase(volume_object, "Released"))
            case Unbind():
                volume_object = _write(self.volumes, volume_object, links.unbound_volume(volume_object))
                _write(self.volumes, volume_object, links.volume_phase(volume_object, "Available"))
        return step

    def volume_text(self, name: str) -> str:
        """``phase, claim#uid, annotations`` of a volume."""
        obj = self.volumes.get(name)
        assert obj is not None
        view, reference = obj.object, obj.object.spec.claim_ref
        of = f"{reference.name}#{reference.uid}" if reference is not None else ""
        return f"{view.status.phase} {of} {_marks(view.metadata.annotations)}".strip()

    def claim_text(self, name: str) -> str:
        """``phase, volume, capacity, annotations`` of a claim."""
        obj = self.claims.get(f"ns/{name}")
        assert obj is not None
        view = obj.object
        size = view.status.capacity.get("storage", "")
        return f"{view.status.phase} {view.spec.volume_name} {size} {_marks(view.metadata.annotations)}".strip()


def _marks(annotations: dict[str, str]) -> str:
    names = {CONTROLLER: "controller", COMPLETED: "completed", MADE: "made"}
    return "+".join(names[name] for name in names if name in annotations)


def _write(store: Store[Any], obj: Decoded[Any], body: bytes | None) -> Decoded[Any]:
    if body is None:
        return obj
    written = decode_object(body, type(obj.object))
    store.put(written)
    return written
