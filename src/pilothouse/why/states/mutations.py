"""Containers that are not in the pod template: which mutating webhooks or policies may have added them."""

import json

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.machinery.labels import SelectorError, selector_from
from pilothouse.why.evidence import Document
from pilothouse.why.states import lifetime
from pilothouse.why.states.owners import owner_of
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import View

_GROUP = "admissionregistration.k8s.io"
_POLICIES = f"mutatingadmissionpolicies.{_GROUP}"
_BINDINGS = f"mutatingadmissionpolicybindings.{_GROUP}"
_WEBHOOKS = f"mutatingwebhookconfigurations.{_GROUP}"
_MAX_CANDIDATES = 3


async def added_container(pod: View, container: str) -> Step | None:
    """Why a pod has a container that is not in the template of its owner; None if the template has it."""
    owner = await owner_of(pod)
    template = ((owner.spec if owner is not None else {}).get("template") or {}).get("spec")
    if owner is None or template is None or container in _names(template):
        return None
    text = f"has the container {container}, which is not in the template of {owner.title}: it is added on creation"
    step = pod.step(text, root=STATE)
    step.because = await _mutations(pod, container)
    made = await lifetime.created(pod)
    step.because += [made] if made is not None else []
    return step


def _names(spec: Document) -> set[str]:
    return {each.get("name", "") for field in ("initContainers", "containers") for each in spec.get(field) or ()}


async def _mutations(pod: View, container: str) -> list[Step]:
    """The MutatingAdmissionPolicies and webhooks that match the creation of pods in this namespace. If policies contain
    the container's name, only those; otherwise all, as candidates."""
    namespace = await pod.read("namespaces", pod.reference.namespace, namespace="")
    labels = namespace.metadata.get("labels") or {}
    found: list[tuple[View, bool]] = []
    for document in await pod.evidence.objects(_POLICIES, ""):
        spec = document.get("spec") or {}
        source = pod.of(_POLICIES, document["metadata"]["name"], document, namespace="")
        if _matches(spec.get("matchConstraints") or {}, "resourceRules", labels) and await _bindings(source):
            found.append((source, f'"{container}"' in _spec_text(spec)))
    for document in await pod.evidence.objects(_WEBHOOKS, ""):
        hooks = document.get("webhooks") or ()
        if any(_matches(hook, "rules", labels) for hook in hooks):
            found.append((pod.of(_WEBHOOKS, document["metadata"]["name"], document, namespace=""), False))
    created = str(pod.metadata.get("creationTimestamp") or "")
    found = [each for each in found if str(each[0].metadata.get("creationTimestamp") or "") <= created]
    named = [each for each in found if each[1]]
    return [await _last_change(source, names=names) for source, names in (named or found)[:_MAX_CANDIDATES]]


def _spec_text(spec: Document) -> str:
    """The spec of a policy as text, with all quotes as double quotes."""
    return json.dumps(spec).replace('\\"', '"').replace("'", '"')


def _matches(rules: Document, field: str, labels: dict[str, str]) -> bool:
    """Whether the rules match the creation of pods in a namespace with these labels."""
    try:
        selector = selector_from(msgspec.convert(rules.get("namespaceSelector") or {}, LabelSelector, strict=False))
    except (SelectorError, msgspec.ValidationError):
        return False
    return selector.matches(labels) and any(
        {"pods", "*", "*/*"} & set(each.get("resources") or ())
        and {"CREATE", "*"} & set(each.get("operations") or ())
        and {"", "*"} & set(each.get("apiGroups") or ())
        for each in rules.get(field) or ()
    )


async def _bindings(policy: View) -> list[View]:
    return [
        policy.of(_BINDINGS, each["metadata"]["name"], each, namespace="")
        for each in await policy.evidence.objects(_BINDINGS, "")
        if (each.get("spec") or {}).get("policyName") == policy.reference.name
    ]


async def _last_change(source: View, *, names: bool) -> Step:
    """The last change of a policy or its bindings, whichever was later: since then it has been in force."""
    sources = [source, *(await _bindings(source) if source.reference.resource == _POLICIES else ())]
    changes = [change for each in sources if (change := await lifetime.last_change(each)) is not None]
    kind = "names the container" if names else "may add it (a guess): its rules match the creation of pods"
    step = source.step(kind, root=STATE)
    step.because = sorted(changes, key=lambda each: each.time)[-1:]
    return step
