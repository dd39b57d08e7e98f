"""The requirements of a claim, and the best volume for it.

The binder, the scheduler and the simulated provisioner decide by these. Sources: kubernetes v1.36,
``component-helpers/storage/volume/pv_helpers.go``, ``pkg/controller/volume/persistentvolume/pv_controller.go``
(``checkVolumeSatisfyClaim``), ``pkg/volume/util/storageclass.go``.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from pilothouse.api.core import EphemeralVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod
from pilothouse.api.meta import ObjectMeta
from pilothouse.api.storage import PersistentVolume, StorageClass, TopologySelectorTerm
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.labels import selector_from
from pilothouse.machinery.owners import is_controlled_by
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.semantics.node_affinity import selects_labels
from pilothouse.semantics.pods import is_terminal

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""On claims: they have been bound once. From then on a missing volume is a loss."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""On both: the controller created the binding, so that it may undo it. Without the annotation a user did."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PRE_RESIZE_CAPACITY = "volume.alpha.kubernetes.io/pre-resize-capacity"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
IN_TREE_FINALIZER = "kubernetes.io/pv-controller"
EXTERNAL_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are created manually."""

_CLASS = "volume.beta.kubernetes.io/storage-class"
_WAITS = "WaitForFirstConsumer"
_ZERO = parse_quantity("0")
_EARLY = datetime.datetime.min.replace(tzinfo=datetime.UTC)


# Classes


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Whether a class is specified; the empty class counts."""
    return _CLASS in claim.metadata.annotations or claim.spec.storage_class_name is not None


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The class of a claim: the old annotation wins."""
    return claim.metadata.annotations.get(_CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """The class of a volume: the old annotation wins."""
    return volume.metadata.annotations.get(_CLASS, volume.spec.storage_class_name)


def waits_for_consumer(class_: StorageClass | None) -> bool:
    """Whether claims of the class are bound only when a pod needs them. Claims of a class that is not there are not."""
    return class_ is not None and class_.volume_binding_mode == _WAITS


def is_default_class(class_: StorageClass) -> bool:
    """Whether claims that name no class get this one."""
    annotations = class_.metadata.annotations
    return annotations.get(DEFAULT_CLASS) == "true" or annotations.get(BETA_DEFAULT_CLASS) == "true"


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The default class: of several the newest, then the first by name."""
    defaults = sorted(
        (storage_class for storage_class in classes if is_default_class(storage_class)),
        key=lambda storage_class: storage_class.metadata.name,
    )
    return max(defaults, key=lambda storage_class: storage_class.metadata.creation_timestamp or _EARLY, default=None)


# One claim and one volume


def capacity_of(volume: PersistentVolume) -> Quantity:
    return _amount(volume.spec.capacity)


def request_of(claim: PersistentVolumeClaim) -> Quantity:
    """The requested size of a claim."""
    return _amount(claim.spec.resources.requests)


def capacity_now(claim: PersistentVolumeClaim) -> Quantity:
    """How large the claim's volume is, as reported in the status of the claim."""
    return _amount(claim.status.capacity)


def _amount(amounts: Mapping[str, str]) -> Quantity:
    text = amounts.get("storage")
    return parse_quantity(text) if text is not None else _ZERO


def refers_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to the claim, or reserved for it: by name, and by uid if it has one."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    return (
        reference is not None
        and (reference.namespace, reference.name) == (meta.namespace, meta.name)
        and reference.uid in ("", meta.uid)
    )


def modes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether one is for a file system and the other for raw blocks."""
    return (claim.spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem")


def attributes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (claim.spec.volume_attributes_class_name or "") != (volume.spec.volume_attributes_class_name or "")


def allows_access(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the volume supports all access modes of the claim."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def unsatisfied_reason(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a volume that a claim requests by name does not match, or an empty string."""
    if volume.metadata.deletion_timestamp is not None:
        return f"the volume is marked for deletion {quote(volume.metadata.name)}"
    if capacity_of(volume).value < request_of(claim).value:
        return "requested PV is too small"
    if volume_class(volume) != claim_class(claim):
        return "storageClassName does not match"
    if attributes_differ(claim, volume):
        return "volumeAttributesClassName does not match"
    if modes_differ(claim, volume):
        return "incompatible volumeMode"
    if not allows_access(claim, volume):
        return "incompatible accessMode"
    return ""


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume, and the binder is done with both."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


# Volumes and nodes


def is_reachable(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels can use the volume."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return selects_labels(affinity.required, labels)


def fits_topologies(terms: Collection[TopologySelectorTerm], labels: Mapping[str, str]) -> bool:
    """Whether a class with these ``allowedTopologies`` provisions volumes for a node with these labels."""
    return not terms or any(
        all(labels.get(requirement.key) in requirement.values for requirement in term.match_label_expressions)
        for term in terms
    )


# The best volume


def find_match(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    *,
    node: Mapping[str, str] | None = None,
    used_volumes: Collection[str] = (),
    delayed: bool = False,
    ascending: bool = False,
) -> PersistentVolume | None:
    """The volume that is reserved for the claim, or the smallest of those that are free and do.

    With the labels of a ``node``, for the scheduler: one that can be used there. Without, for the binder: if binding is
    ``delayed`` only reserved volumes match. ``used_volumes`` are names that were assumed in the meantime. If the
    volumes are ``ascending``, i.e. reserved ones first, then by size, the search stops at the first match. Raises
    ``SelectorError``.
    """
    selector = selector_from(claim.spec.selector) if claim.spec.selector is not None else None
    requested, class_ = request_of(claim), claim_class(claim)
    best: PersistentVolume | None = None
    size = _ZERO
    for volume in volumes:
        reserved = refers_to(volume, claim)
        if volume.metadata.name in used_volumes or (volume.spec.claim_ref is not None and not reserved):
            continue
        capacity = capacity_of(volume)
        if capacity < requested or modes_differ(claim, volume) or attributes_differ(claim, volume):
            continue
        if volume.metadata.deletion_timestamp is not None:
            continue
        reachable = node is None or is_reachable(volume, node)
        if reserved:
            return volume if reachable else None
        if node is None and delayed:
            continue
        if volume.status.phase != "Available" or volume_class(volume) != class_ or not reachable:
            continue
        if selector is not None and not selector.matches(volume.metadata.labels):
            continue
        if node is not None and not allows_access(claim, volume):
            continue
        if ascending:
            return volume
        if best is None or capacity < size:
            best, size = volume, capacity
    return best


# Pods


class Named(Protocol):
    """A pod, whatever else a view shows of it."""

    @property
    def metadata(self) -> ObjectMeta:
        """The unique name."""
        ...


class Listed(Protocol):
    """A volume as a pod lists it, whatever else a view shows of it."""

    @property
    def name(self) -> str: ...

    @property
    def persistent_volume_claim(self) -> PersistentVolumeClaimVolumeSource | None:
        """The claim, if it has one."""
        ...

    @property
    def ephemeral(self) -> EphemeralVolumeSource | None:
        """The name of its generic ephemeral claim, if it has one."""
        ...


class _HasVolumes(Protocol):
    @property
    def volumes(self) -> Sequence[Listed]: ...


class UsesVolumes(Named, Protocol):
    @property
    def spec(self) -> _HasVolumes:
        """Where they are listed."""
        ...


def ephemeral_claim_name(pod: Named, volume: Listed) -> str:
    return f"{pod.metadata.name}-{volume.name}"


def is_claim_for_pod(claim: PersistentVolumeClaim, pod: Named) -> bool:
    """Whether the pod owns the claim. The name is not sufficient (``VolumeIsForPod``, v1.36
    component-helpers ``storage/ephemeral/ephemeral.go``)."""
    return is_controlled_by(claim.metadata, pod.metadata.uid)


def volume_for(
    pod: Named,
    volume: Listed,
    find_claim: Callable[[str], PersistentVolumeClaim | None],
    find_volume: Callable[[str], PersistentVolume | None],
) -> PersistentVolume | None:
    """The PersistentVolume of a pod's volume; None if the volume has no claim or the claim is not bound.

    Claims are found by namespace and name, volumes by name (``CreateVolumeSpec``, v1.36
    ``pkg/controller/volume/attachdetach/util/util.go``).
    """
    if volume.persistent_volume_claim is not None:
        name = volume.persistent_volume_claim.claim_name
    elif volume.ephemeral is not None:
        name = ephemeral_claim_name(pod, volume)
    else:
        return None
    claim = find_claim(f"{pod.metadata.namespace}/{name}")
    if claim is None or claim.status.phase != "Bound" or not claim.spec.volume_name:
        return None
    if volume.ephemeral is not None and not is_claim_for_pod(claim, pod):
        return None
    bound = find_volume(claim.spec.volume_name)
    if bound is None or bound.spec.claim_ref is None or bound.spec.claim_ref.uid != claim.metadata.uid:
        return None
    return bound


def claim_names(pod: UsesVolumes) -> tuple[str, ...]:
    """The claims that a pod uses, those of its ephemeral volumes included, in their order."""
    names: list[str] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(ephemeral_claim_name(pod, volume))
    return tuple(names)


def has_ended(pod: Pod) -> bool:
    """Whether the pod does not use its volumes any more: finished, or being deleted without running containers (v1.36
    ``pkg/volume/util/util.go``, ``IsPodTerminated``)."""
    if is_terminal(pod):
        return True
    statuses = pod.status.container_statuses
    return pod.metadata.deletion_timestamp is not None and all(status.state.terminated for status in statuses)
