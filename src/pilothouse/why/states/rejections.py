"""Explains FailedCreate and FailedDelete: the quota, webhook, policy or limit that rejected the creation or deletion of
pods, and who installed it, or that their namespace is terminating."""

import re

from pilothouse.api.core import Event
from pilothouse.why.deletions import deletion_request
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
_PREFIX = re.compile(
    r"^.{0,400}?\bError (?:creating|deleting): |^[Dd]elete Pod \S+ in StatefulSet \S+ failed error: "
    r"|^unable to delete pods: "
)
_LIMITS = re.compile(r"(?:maximum|minimum) .{1,320} usage per|limit to request ratio")
_WEBHOOK_RESOURCES = (
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
)
_POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
_BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"


async def rejection(view: View) -> Step | None:
    """Why the object's controller creates no pod or claim: the namespace is terminating, or the last attempt failed;
    None if there was none, or a later success."""
    terminating = await _terminating_namespace(view)
    if terminating is not None:
        return terminating
    message = await _failure_message(view, "Create")
    return await _rejected(view, "can't create what it needs", message) if message else None


async def deletion_rejection(view: View) -> Step | None:
    """The last failure of the object's controller to delete a pod; None if there was none, or a later success."""
    message = await _failure_message(view, "Delete")
    return await _rejected(view, "can't delete pods", message) if message else None


async def _terminating_namespace(view: View) -> Step | None:
    """That no pods can be created in the object's namespace, of which controllers record no event."""
    namespace = await view.read("namespaces", view.reference.namespace, namespace="")
    since = namespace.metadata.get("deletionTimestamp")
    if not since:
        return None
    request = await deletion_request(view.evidence, await namespace.own_changes())
    because = [await view.chain.step(request)] if request is not None else []
    text = f"is terminating since {since}, no pods can be created in it"
    return namespace.step(text, root=STATE, because=because)


async def _rejected(view: View, effect: str, message: str) -> Step:
    step = view.step(f"{effect}: {_plain_message(message)}")
    step.because = await rejected_by(view, message)
    if not step.because:
        step.root = STATE
    return step


async def _failure_message(view: View, verb: str) -> str:
    """The message of the last failure to create or delete (``verb``) pods, by the condition ReplicaFailure or an event;
    empty if there was none, or a later success."""
    condition = view.condition("ReplicaFailure")
    if condition.get("message"):
        return str(condition["message"]) if condition.get("reason") == f"Failed{verb}" else ""
    event = await _last_failure(view, verb)
    return event.message if event is not None else ""


async def _last_failure(view: View, verb: str) -> Event | None:
    """The last event FailedCreate (or FailedDelete), unless a SuccessfulCreate (or SuccessfulDelete) came later."""
    last = None
    for event in await view.evidence.events(view.reference, view.uid):
        if event.reason == f"Failed{verb}":
            last = event
        elif event.reason == f"Successful{verb}":
            last = None
    return last


def _plain_message(message: str) -> str:
    text = " ".join(message.split())
    return _PREFIX.sub("", text)


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
