"""Explains FailedCreate: the quota, webhook, policy or limit that rejected the pods, and who installed it."""

import re

from pilothouse.api.core import Event
from pilothouse.why.evidence import Reference
from pilothouse.why.states import lifetime
from pilothouse.why.states.pods import missing_object
from pilothouse.why.states.quotas import exceeded_quota
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import View

_QUOTA = re.compile(r"(?:exceeded|failed) quota: ([^,: ]+)")
_WEBHOOK = re.compile(r'(?:admission webhook|failed calling webhook) "([^"]+)"')
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']+)'(?: with binding '([^']+)')?")
_SECURITY = re.compile(r'violates PodSecurity "([^"]+)"')
_LIMITS = re.compile(r"(?:maximum|minimum) .{1,320} usage per|limit to request ratio")
_WEBHOOK_RESOURCES = (
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
)
_POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
_BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"


async def rejection(view: View) -> Step | None:
    """The last failure of the object's controller to create a pod or claim; None if there was none, or a later
    success."""
    message = str(view.condition("ReplicaFailure").get("message") or "")
    if not message:
        event = await _last_failure(view)
        message = event.message if event is not None else ""
    if not message:
        return None
    step = view.step(f"can't create what it needs: {_plain_message(message)}")
    step.because = await rejected_by(view, message)
    if not step.because:
        step.root = STATE
    return step


async def _last_failure(view: View) -> Event | None:
    """The last event FailedCreate, unless a SuccessfulCreate came later."""
    last = None
    for event in await view.evidence.events(view.reference, view.uid):
        if event.reason == "FailedCreate":
            last = event
        elif event.reason == "SuccessfulCreate":
            last = None
    return last


def _plain_message(message: str) -> str:
    text = " ".join(message.split())
    return re.sub(r"^.*?\bError creating: ", "", text).removeprefix("Error creating: ")


async def rejected_by(view: View, message: str) -> list[Step]:
    """The last changes of the objects named in a rejection."""
    if match := _QUOTA.search(message):
        return await exceeded_quota(view, message, match[1])
    if match := _WEBHOOK.search(message):
        return await _webhook(view, match[1])
    if match := _POLICY.search(message):
        steps = await _last_change_of(view, _POLICIES, match[1], "")
        return steps + (await _last_change_of(view, _BINDINGS, match[2], "") if match[2] else [])
    if _SECURITY.search(message):
        return await _last_change_of(view, "namespaces", view.reference.namespace, "")
    if _LIMITS.search(message):
        steps = []
        for limitrange in (await view.evidence.objects("limitranges", view.reference.namespace))[:2]:
            steps += await _last_change_of(
                view, "limitranges", limitrange["metadata"]["name"], view.reference.namespace
            )
        return steps
    missing = await missing_object(view, message)
    return [missing] if missing is not None else []


async def _webhook(view: View, name: str) -> list[Step]:
    for resource in _WEBHOOK_RESOURCES:
        for document in await view.evidence.objects(resource, ""):
            if any(hook.get("name") == name for hook in document.get("webhooks") or ()):
                return await _last_change_of(view, resource, document["metadata"]["name"], "")
    unreadable = any(view.evidence.is_unreadable(Reference(resource, "", "")) for resource in _WEBHOOK_RESOURCES)
    state = "can't be read" if unreadable else "does not exist any more"
    return [view.step(f"was rejected by the webhook {name}, whose configuration {state}", root=STATE)]


async def _last_change_of(view: View, resource: str, name: str, namespace: str) -> list[Step]:
    other = await view.read(resource, name, namespace=namespace)
    if other.now is None:
        return list((await other.finding()).steps)
    step = await lifetime.last_change(other)
    return [step if step is not None else lifetime.unrecorded(other)]
