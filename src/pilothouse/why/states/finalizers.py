"""Finalizers that block the deletion of an object, and the programs that remove them."""

import re
from typing import Any

from pilothouse.why.actors import actor_with_command, component_cause
from pilothouse.why.evidence import Document, ObjectChange, mapping_of
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import View

DEFINITION_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of CustomResourceDefinitions."""
_REMOVED_BY = {
    "foregroundDeletion": "garbage-collector-controller, until all dependents that block it are gone",
    "orphan": "garbage-collector-controller, until its dependents have no reference to it",
    "kubernetes.io/pvc-protection": "persistentvolumeclaim-protection-controller, as long as a pod uses the claim",
    "kubernetes.io/pv-protection": "persistentvolume-protection-controller, as long as a claim is bound to the volume",
    "batch.kubernetes.io/job-tracking": "job-controller, until the pod is counted in the status of its Job",
    "service.kubernetes.io/load-balancer-cleanup": "service-lb-controller, until the load balancer is gone",
    "external-attacher": "the volume attacher, until the volume is detached",
    DEFINITION_CLEANUP: "kube-apiserver, until all objects of the definition are gone",
    "resource.kubernetes.io/delete-protection": "resourceclaim-controller and scheduler, while the claim is allocated",
}
_WORKLOADS = ("deployments.apps", "statefulsets.apps")
_MAX_SEARCHED = 60
"""The last changes of objects of the same kind that are searched."""
_STOP_WORDS = frozenset(
    {"com", "controller", "finalizer", "finalizers", "io", "k8s", "kubernetes", "manager", "net", "operator", "org"}
)
_ACCOUNT = "system:serviceaccount:"


async def finalizer_step(view: View, finalizer: str) -> Step:
    """A step for a finalizer: who removes it, since when it is set, and a workload that should remove it and does not
    run."""
    known = _REMOVED_BY.get(finalizer) or _REMOVED_BY.get(finalizer.partition("/")[0])
    removed_by = known or "a program outside of Kubernetes, which has to remove it"
    step = view.step(f"is held by the finalizer {finalizer}: {removed_by}", root=STATE)
    if error := " ".join(str(mapping_of(view.status, "detachError").get("message") or "").split()):
        step.table.append(f"it can't be detached: {error}")
    if known is None:
        added = await _added_text(view, finalizer)
        step.table += [added] if added else []
        await _add_program(view, finalizer, step)
    return step


async def _added_text(view: View, finalizer: str) -> str:
    """When the finalizer was added; empty if not recorded."""
    for change in await view.changes():
        if change.uid != view.uid or finalizer not in _finalizers(await view.evidence.after(change)):
            continue
        if change.type != "ADDED":
            before = await view.evidence.before(change)
            # Without the state before, for example because it cannot be converted, an earlier change may have added it.
            if before is None or finalizer in _finalizers(before):
                return ""
        return f"has it since {change.time[:19]}Z, by {actor_with_command(change, '') or 'somebody unknown'}"
    return ""


async def _add_program(view: View, finalizer: str, step: Step) -> None:
    """Add the program that removed this finalizer from other objects, and a matching workload that does not run."""
    account = ""
    removal = await _removal(view, finalizer)
    if removal is not None and removal.origin is not None:
        account = removal.origin.user.removeprefix(_ACCOUNT)
        reference = removal.reference
        full_name = f"{view.evidence.kind_of(reference.resource)}/{reference.name}"
        step.table.append(
            f"{actor_with_command(removal, '')} removed this finalizer from {full_name} at {removal.time[:19]}Z"
        )
    workload = await _workload(view, finalizer, account)
    if workload is not None:
        step.because = [workload]


async def _removal(view: View, finalizer: str) -> ObjectChange | None:
    """The last change by which a program removed the finalizer from an object of the same kind."""
    changes = [
        change
        for change in await view.evidence.changes_of_all(view.reference.resource, "")
        if change.type != "ADDED" and change.origin is not None and change.origin.user.startswith("system:")
        if component_cause(change) is None
    ]
    for change in reversed(changes[-_MAX_SEARCHED:]):
        verb = change.origin.verb if change.origin is not None else ""
        if verb not in ("update", "patch") or finalizer not in _finalizers(await view.evidence.before(change)):
            continue
        # The removal of the last finalizer of a marked object is what deletes it.
        if change.type == "DELETED" or finalizer not in _finalizers(await view.evidence.after(change)):
            return change
    return None


async def _workload(view: View, finalizer: str, account: str) -> Step | None:
    """A workload without ready pods that uses the service account, or whose name matches best."""
    best: tuple[int, str, View] | None = None
    words = _words(finalizer) | _words(view.evidence.kind_of(view.reference.resource))
    for resource in _WORKLOADS:
        for document in await view.evidence.objects(resource, ""):
            metadata = document["metadata"]
            workload = view.of(resource, metadata["name"], document, namespace=metadata["namespace"])
            if workload.status.get("readyReplicas"):
                continue
            service_account = str(
                (workload.spec.get("template") or {}).get("spec", {}).get("serviceAccountName") or "default"
            )
            if account and account == f"{metadata['namespace']}:{service_account}":
                return await _not_running(
                    workload, f"uses the service account {service_account}, which removed it before"
                )
            shared = sorted(words & (_words(metadata["name"]) | _words(service_account)))
            if shared and (best is None or len(shared) > best[0]):
                best = (len(shared), ", ".join(shared), workload)
    if best is None:
        return None
    return await _not_running(best[2], f'may be the program that removes it (a guess, by "{best[1]}" in its name)')


async def _not_running(workload: View, text: str) -> Step:
    replicas = workload.spec.get("replicas", 1)
    full_name = f" of namespace {workload.reference.namespace}"
    state = "spec.replicas is 0" if not replicas else f"none of its {replicas} pods is ready"
    step = workload.step(f"{text}, and {state}", root=STATE)
    step.text = step.text.replace(workload.title, workload.title + full_name, 1)
    if replicas:
        step.because = list((await workload.finding()).steps)
    else:
        changed = await last_change(workload)
        step.because = [changed] if changed is not None else []
    return step


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[^a-z0-9]+", text.lower()) if len(word) > 2} - _STOP_WORDS


def _finalizers(document: Document | None) -> list[Any]:
    return ((document or {}).get("metadata") or {}).get("finalizers") or []
