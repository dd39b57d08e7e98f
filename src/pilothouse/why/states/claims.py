"""PersistentVolumeClaims that are not bound."""

from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.why.evidence import Document
from pilothouse.why.states.lifetime import created, last_deletion, newest_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_SHOWN = 10
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_CLASSES = "storageclasses.storage.k8s.io"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BETA_DEFAULT = "storageclass.beta.kubernetes.io/is-default-class"
"""As ``pkg/volume/util/storageclass.go`` (``IsDefaultAnnotation``, v1.36) checks both."""


async def claim(view: View) -> Finding | None:
    """A claim in phase Pending or Lost."""
    phase = view.status.get("phase")
    if phase == "Lost":
        name = view.spec.get("volumeName") or ""
        volume = view.of("persistentvolumes", name, None, namespace="")
        deletion = await last_deletion(volume)
        because = [deletion] if deletion is not None else []
        return Finding("lost", (view.step(f"has lost its volume {name}, which is gone", root=STATE, because=because),))
    if phase != "Pending":
        return None
    return Finding("pending", tuple(await _pending(view)))


async def _pending(view: View) -> list[Step]:
    steps = []
    name = view.spec.get("storageClassName")
    if volume_name := view.spec.get("volumeName"):
        steps.append(await _named_volume(view, volume_name))
    elif name:
        class_ = await view.read(_CLASSES, name, namespace="")
        node = selected_node(view)
        if class_.is_unreadable:
            steps.append(view.step(f"waits for a volume of the class {name}, which can't be read", root=STATE))
        elif class_.now is None:
            steps.append(await _missing_class(view, name))
        elif class_.now.get("volumeBindingMode") == "WaitForFirstConsumer" and not node:
            steps += await _consumer(view, class_.now)
        else:
            steps.append(await _provisioning(view, class_, node))
    elif name == "":
        steps.append(view.step('has storageClassName "": no volume is provisioned', root=STATE))
    else:
        steps.append(view.step("has no storageClassName, and there is no default StorageClass", root=STATE))
        steps[0].because += await _default_class_removal(view)
    steps[0].table += await _event_lines(view)
    mismatches = await _volume_lines(view) if not volume_name else []
    if mismatches:
        steps[0].table += [f"it fits none of the {len(mismatches)} volumes:", *mismatches[:_SHOWN]]
    creation = await created(view)
    if creation is not None:
        steps[0].because.append(creation)
    return steps


async def _named_volume(view: View, name: str) -> Step:
    """A claim for one volume, by spec.volumeName. No other is bound to it or provisioned for it."""
    volume = await view.read("persistentvolumes", name, namespace="")
    text = f"asks for the volume {name} (spec.volumeName)"
    if volume.is_unreadable:
        return view.step(f"{text}, which can't be read", root=STATE)
    if volume.now is None:
        deletion = await last_deletion(volume)
        because = [deletion] if deletion is not None else []
        return view.step(f"{text}, which does not exist", root=STATE, because=because)
    reason = _mismatch(view.spec, volume.now, view.reference.namespace, view.reference.name)
    return view.step(f"{text}{f', which does not fit: {reason}' if reason else ''}", root=STATE)


def selected_node(claim_view: View) -> str:
    """The node that the scheduler has selected for the first pod that uses the claim; empty before."""
    return str((claim_view.metadata.get("annotations") or {}).get(_SELECTED_NODE) or "")


async def _provisioning(view: View, class_: View, node: str) -> Step:
    """A claim that waits for the provisioner of its class. If there is no CSIDriver of that name, the driver may not be
    installed, and the class is a cause. Provisioners without CSI have none either."""
    provisioner = str((class_.now or {}).get("provisioner") or "")
    within = f" on {node}" if node else ""
    step = view.step(
        f"waits for {provisioner} to provision a volume of the class {class_.reference.name}{within}", root=STATE
    )
    driver = await view.read("csidrivers.storage.k8s.io", provisioner, namespace="")
    if driver.now is None and not driver.is_unreadable:
        drivers = [found["metadata"]["name"] for found in await view.evidence.objects(driver.reference.resource, "")]
        verb = "is" if len(drivers) == 1 else "are"
        there = f"; there {verb} {', '.join(drivers[:_SHOWN])}" if drivers else ", nor any other"
        step.table = [f"there is no CSIDriver {provisioner}{there}"]
        last = await newest_change(class_)
        if last is not None:
            step.because = [last]
    return step


async def _default_class_removal(view: View) -> list[Step]:
    """The last change that left the cluster without a default class: removal of the annotation, or the deletion."""
    for change in reversed(await view.evidence.changes_of_all("storageclasses.storage.k8s.io", "")):
        old, new = await view.evidence.before(change), await view.evidence.after(change)
        if _is_default(old) and (change.type == "DELETED" or not _is_default(new)):
            return [await view.chain.step(change)]
    return []


def _is_default(class_: Document | None) -> bool:
    annotations = ((class_ or {}).get("metadata") or {}).get("annotations") or {}
    return any(annotations.get(name) == "true" for name in (_DEFAULT, _BETA_DEFAULT))


async def _missing_class(view: View, name: str) -> Step:
    deletion = await last_deletion(view.of(_CLASSES, name, None, namespace=""))
    because = [deletion] if deletion is not None else []
    return view.step(f"has the StorageClass {name}, which does not exist", root=STATE, because=because)


async def _consumer(view: View, class_: Document) -> list[Step]:
    """WaitForFirstConsumer: the pods that use the claim and are not scheduled."""
    name = view.reference.name
    users = [
        pod["metadata"]["name"]
        for pod in await view.evidence.objects("pods", view.reference.namespace)
        if any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == name
            for volume in (pod.get("spec") or {}).get("volumes") or ()
        )
    ]
    mode = f"the class {class_['metadata']['name']} binds with the first consumer (WaitForFirstConsumer)"
    if not users and view.is_unlisted("pods"):
        return [view.step(f"waits for a pod: {mode}, and pods can't be read", root=STATE)]
    if not users:
        return [view.step(f"waits for a pod: {mode}, and no pod uses the claim", root=STATE)]
    return [view.step(f"waits until {', '.join(users[:_SHOWN])} is scheduled: {mode}", root=STATE)]


async def _event_lines(view: View) -> list[str]:
    """The newest warning about the claim, unless its provisioner was called later: the warning is over then."""
    events = [
        event
        for event in await view.evidence.events(view.reference, view.uid)
        if event.type == "Warning" or event.reason == "ExternalProvisioning"
    ]
    return [f"{event.reason}: {event.message}" for event in events[-1:] if event.type == "Warning"]


async def _volume_lines(view: View) -> list[str]:
    """Why each existing volume does not match."""
    lines = []
    for volume in await view.evidence.objects("persistentvolumes", ""):
        reason = _mismatch(view.spec, volume, view.reference.namespace, view.reference.name)
        if reason:
            lines.append(f"{volume['metadata']['name']}: {reason}")
    return lines


def _mismatch(claim_spec: Document, volume: Document, namespace: str, name: str) -> str:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    claim = spec.get("claimRef") or {}
    is_reserved = bool(claim) and (claim.get("namespace"), claim.get("name")) != (namespace, name)
    if status.get("phase") != "Available" or is_reserved:
        return f"{status.get('phase')}, for {claim.get('namespace')}/{claim.get('name')}" if claim else "not available"
    if (spec.get("storageClassName") or "") != (claim_spec.get("storageClassName") or ""):
        return f'its class is "{spec.get("storageClassName") or ""}"'
    missing = set(claim_spec.get("accessModes") or ()) - set(spec.get("accessModes") or ())
    if missing:
        return f"it does not offer {', '.join(sorted(missing))}"
    if (claim_spec.get("volumeMode") or "Filesystem") != (spec.get("volumeMode") or "Filesystem"):
        return f"its mode is {spec.get('volumeMode')}"
    requested = ((claim_spec.get("resources") or {}).get("requests") or {}).get("storage")
    capacity = (spec.get("capacity") or {}).get("storage")
    try:
        if requested and capacity and parse_quantity(capacity) < parse_quantity(requested):
            return f"it has {capacity}, and {requested} are asked for"
    except QuantityError:
        return f"its capacity {capacity} can't be compared"
    return "its labels or node affinity do not fit" if claim_spec.get("selector") else ""
