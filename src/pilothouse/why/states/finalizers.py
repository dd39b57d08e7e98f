"""Finalizers that hold an object, and who was to remove them."""

import re
from typing import Any

from pilothouse.why.actors import act, acting
from pilothouse.why.evidence import Document, ObjectChange
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import View

_HOLDERS = {
    "foregroundDeletion": "garbage-collector-controller, until all dependents that block it are gone",
    "orphan": "garbage-collector-controller, until its dependents have no reference to it",
    "kubernetes.io/pvc-protection": "persistentvolumeclaim-protection-controller, as long as a pod uses the claim",
    "kubernetes.io/pv-protection": "persistentvolume-protection-controller, as long as a claim is bound to the volume",
    "batch.kubernetes.io/job-tracking": "job-controller, until the pod is counted in the status of its Job",
    "service.kubernetes.io/load-balancer-cleanup": "service-lb-controller, until the load balancer is gone",
    "external-attacher": "the volume attacher, until the volume is detached",
    "resource.kubernetes.io/delete-protection": "resourceclaim-controller and scheduler, while the claim is allocated",
}
_WORKLOADS = ("deployments.apps", "statefulsets.apps")
_MOST_SEARCHED = 60
"""So many of the last changes of objects of the same kind are looked at."""
_SAYING_NOTHING = frozenset(
    {"com", "controller", "finalizer", "finalizers", "io", "k8s", "kubernetes", "manager", "net", "operator", "org"}
)
_ACCOUNT = "system:serviceaccount:"


async def held_by(view: View, finalizer: str) -> Step:
    """That an object is held by a finalizer: since when, and which program was to remove it."""
    holder = _HOLDERS.get(finalizer, "a program outside of Kubernetes, which has to remove it")
    step = view.step(f"is held by the finalizer {finalizer}: {holder}", root=STATE)
    if finalizer not in _HOLDERS:
        since = await _since(view, finalizer)
        step.table = [since] if since else []
        await _add_program(view, finalizer, step)
    return step


async def _since(view: View, finalizer: str) -> str:
    """When an object got its finalizer, as far as history has it."""
    for change in await view.changes():
        if change.uid != view.uid or finalizer not in _finalizers(await view.evidence.after(change)):
            continue
        had = change.type != "ADDED" and finalizer in _finalizers(await view.evidence.before(change))
        return "" if had else f"has it since {change.time[:19]}Z, by {act(change, '') or 'somebody unknown'}"
    return ""


async def _add_program(view: View, finalizer: str, step: Step) -> None:
    """The program that removed such a finalizer before, and workloads that may be it and do not run."""
    account = ""
    removal = await _removal(view, finalizer)
    if removal is not None and removal.origin is not None:
        account = removal.origin.user.removeprefix(_ACCOUNT)
        reference = removal.reference
        place = f"{view.evidence.kind_of(reference.resource)}/{reference.name}"
        step.table.append(f"{act(removal, '')} removed this finalizer from {place} at {removal.time[:19]}Z")
    found = await _workload(view, finalizer, account)
    if found is not None:
        step.because = [found]


async def _removal(view: View, finalizer: str) -> ObjectChange | None:
    """The last time when a program removed the finalizer from an object of the same kind."""
    changes = [
        change
        for change in await view.evidence.changes_of_all(view.reference.resource, "")
        if change.type != "ADDED" and change.origin is not None and change.origin.user.startswith("system:")
        if acting(change) is None
    ]
    for change in reversed(changes[-_MOST_SEARCHED:]):
        verb = change.origin.verb if change.origin is not None else ""
        if verb not in ("update", "patch") or finalizer not in _finalizers(await view.evidence.before(change)):
            continue
        # The removal of the last finalizer of a marked object is what deletes it.
        if change.type == "DELETED" or finalizer not in _finalizers(await view.evidence.after(change)):
            return change
    return None


async def _workload(view: View, finalizer: str, account: str) -> Step | None:
    """The workload that the account belongs to, or whose name fits best: it is named only if it does not run."""
    best: tuple[int, str, View] | None = None
    wanted = _words(finalizer) | _words(view.evidence.kind_of(view.reference.resource))
    for resource in _WORKLOADS:
        for each in await view.evidence.objects(resource, ""):
            metadata = each["metadata"]
            about = view.of(resource, metadata["name"], each, namespace=metadata["namespace"])
            if about.status.get("readyReplicas"):
                continue
            uses = str((about.spec.get("template") or {}).get("spec", {}).get("serviceAccountName") or "default")
            if account and account == f"{metadata['namespace']}:{uses}":
                return await _not_running(about, f"uses the service account {uses}, which removed it before")
            shared = sorted(wanted & (_words(metadata["name"]) | _words(uses)))
            if shared and (best is None or len(shared) > best[0]):
                best = (len(shared), ", ".join(shared), about)
    if best is None:
        return None
    return await _not_running(best[2], f'may be the program that removes it (a guess, by "{best[1]}" in its name)')


async def _not_running(about: View, text: str) -> Step:
    replicas = about.spec.get("replicas", 1)
    place = f" of namespace {about.reference.namespace}"
    state = "spec.replicas is 0" if not replicas else f"none of its {replicas} pods is ready"
    step = about.step(f"{text}, and {state}", root=STATE)
    step.text = step.text.replace(about.title, about.title + place, 1)
    if replicas:
        step.because = list((await about.finding()).steps)
    else:
        changed = await last_change(about)
        step.because = [changed] if changed is not None else []
    return step


def _words(text: str) -> set[str]:
    return {part for part in re.split(r"[^a-z0-9]+", text.lower()) if len(part) > 2} - _SAYING_NOTHING


def _finalizers(document: Document | None) -> list[Any]:
    return ((document or {}).get("metadata") or {}).get("finalizers") or []
