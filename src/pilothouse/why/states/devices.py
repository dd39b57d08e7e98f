"""ResourceClaims that are not allocated."""

from pilothouse.why.evidence import Document
from pilothouse.why.states.lifetime import created
from pilothouse.why.steps import STATE
from pilothouse.why.view import Finding, View, is_finished

_CLASSES = "deviceclasses.resource.k8s.io"
_SHOWN = 5


async def resource_claim(view: View) -> Finding | None:
    """A claim without an allocation: its device classes, and the pods with which it is allocated."""
    if view.status.get("allocation"):
        return None
    steps = []
    names = {
        str((option.get("exactly") or option).get("deviceClassName") or "")
        for entry in (view.spec.get("devices") or {}).get("requests") or ()
        for option in (entry.get("firstAvailable") or [entry])
    }
    for name in sorted(names - {""}):
        class_ = await view.read(_CLASSES, name, namespace="")
        if class_.now is None and not class_.is_unreadable:
            steps.append(view.step(f"requests the device class {name}, which does not exist", root=STATE))
    pods = await view.evidence.objects("pods", view.reference.namespace)
    users = [pod for pod in pods if _uses(pod, view) and not is_finished(pod)]
    if not users:
        text = "is not allocated: the scheduler does so with the first pod that uses it, and "
        text += "pods can't be read" if view.is_unlisted("pods") else "there is none"
        steps.append(view.step(text, root=STATE))
    elif not steps:
        shown = ", ".join(pod["metadata"]["name"] for pod in users[:_SHOWN])
        step = view.step(f"is not allocated: the scheduler does so when it schedules {shown}", root=STATE)
        step.because = list((await view.of("pods", users[0]["metadata"]["name"], users[0]).finding()).steps)
        steps.append(step)
    creation = await created(view)
    if creation is not None and not steps[0].because:
        steps[0].because = [creation]
    return Finding("pending", tuple(steps))


def _uses(pod: Document, view: View) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    entries = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    return any(entry.get("resourceClaimName") == view.reference.name for entry in entries)
