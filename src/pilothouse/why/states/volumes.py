"""PersistentVolumes that no claim uses, and VolumeAttachments that are not attached."""

from typing import Any

from pilothouse.why.evidence import Document
from pilothouse.why.states.lifetime import created, last_deletion
from pilothouse.why.steps import FAULT, STATE, TIME, Step
from pilothouse.why.view import Finding, View

CLAIMS = "persistentvolumeclaims"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


async def volume(view: View) -> Finding | None:
    """A volume in another phase than Bound."""
    phase = str(view.status.get("phase") or "Pending")
    if phase == "Bound":
        return None
    step = await {"Available": _available, "Released": _released, "Failed": _released}.get(phase, _pending)(view)
    return Finding(phase.lower(), (step,))


async def _pending(view: View) -> Step:
    creation = await created(view)
    text = "has not been processed by persistentvolume-binder-controller yet"
    return view.step(text, root=STATE, because=[creation] if creation is not None else [])


async def _available(view: View) -> Step:
    reference = view.spec.get("claimRef")
    creation = await created(view)
    because = [creation] if creation is not None else []
    if not reference:
        return view.step("is available: no claim has been bound to it", root=STATE, because=because)
    claim = await _claim_of(view, reference)
    text = f"is reserved by spec.claimRef for {_title(claim)}"
    if claim.is_unreadable:
        return view.step(f"{text}, which can't be read", root=STATE, because=because)
    if claim.now is None:
        return view.step(f"{text}, which does not exist", root=STATE, because=because)
    if other := claim.spec.get("volumeName"):
        return view.step(f"{text}, which has the volume {other}", root=STATE, because=because)
    return view.step(text, root=STATE, because=list((await claim.finding()).steps) or because)


async def _released(view: View) -> Step:
    """The claim is gone. The reclaim policy decides what happens to the volume."""
    policy = str(view.spec.get("persistentVolumeReclaimPolicy") or "Retain")
    provisioner = (view.metadata.get("annotations") or {}).get(_PROVISIONED_BY) or ""
    root = STATE
    if reason := _reason(view.status):
        text, root = f"can't be reclaimed (persistentVolumeReclaimPolicy {policy}): {reason}", FAULT
    elif policy == "Delete":
        by = provisioner or "persistentvolume-binder-controller"
        text, root = f"waits until {by} deletes it (persistentVolumeReclaimPolicy Delete)", TIME
    else:
        text = (
            f"is kept (persistentVolumeReclaimPolicy {policy}): no other claim can be bound to it as long as it has "
            "spec.claimRef"
        )
    events = [event for event in await view.evidence.events(view.reference, view.uid) if event.type == "Warning"]
    table = [f"{events[-1].reason}: {events[-1].message}"] if events else []
    claim = await _claim_of(view, view.spec.get("claimRef") or {})
    deletion = await last_deletion(claim) if claim.now is None else None
    because = [deletion] if deletion is not None else []
    return view.step(f"was bound to {_title(claim)}, and {text}", root=root, table=table, because=because)


async def _claim_of(view: View, reference: Document) -> View:
    return await view.read(CLAIMS, str(reference.get("name") or ""), namespace=str(reference.get("namespace") or ""))


def _title(claim: View) -> str:
    return f"{claim.title} of namespace {claim.reference.namespace}"


def _reason(status: Document) -> str:
    return ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))


async def attachment(view: View) -> Finding | None:
    """A VolumeAttachment without ``attached``, and what the attacher, the node or the driver report."""
    if view.status.get("attached"):
        return None
    name, node_name = str(view.spec.get("attacher") or ""), str(view.spec.get("nodeName") or "")
    volume_name = (view.spec.get("source") or {}).get("persistentVolumeName")
    step = view.step(f"waits until {name} attaches {volume_name or 'its volume'} to {node_name}", root=STATE)
    if error := _error_text(view.status.get("attachError")):
        step.text, step.root = f"{view.title} can't be attached to {node_name} by {name}: {error}", FAULT
    for resource, other in (
        ("nodes", node_name),
        ("persistentvolumes", volume_name),
        ("csidrivers.storage.k8s.io", name),
    ):
        target = await view.read(resource, other, namespace="") if other else None
        if target is not None and target.now is None and not target.is_unreadable:
            step.table.append(f"{target.title} does not exist")
    creation = await created(view)
    step.because = [creation] if creation is not None and step.root == STATE else []
    step.root = "" if step.because else step.root
    return Finding("not attached", (step,))


def _error_text(error: dict[str, Any] | None) -> str:
    """The message of a VolumeError on one line; empty without one."""
    return " ".join(str((error or {}).get("message") or "").split())
