"""Finds the mutating webhooks and policies that may have injected a container."""

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


async def injected_container(pod: View, container: str) -> Step | None:
    """Explain a container that is not in the pod template of its owner; None if it is in the template."""
    owner = await owner_of(pod)
    template = ((owner.spec if owner is not None else {}).get("template") or {}).get("spec")
    if owner is None or template is None or container in _names(template):
        return None
    text = f"has the container {container}, which is not in the template of {owner.title}: it is added on creation"
    step = pod.step(text, root=STATE)
    step.because = await _mutations(pod, container)
    creation = await lifetime.created(pod)
    step.because += [creation] if creation is not None else []
    return step


def _names(spec: Document) -> set[str]:
    return {
        container.get("name", "") for field in ("initContainers", "containers") for container in spec.get(field) or ()
    }


async def _mutations(pod: View, container: str) -> list[Step]:
    """The MutatingAdmissionPolicies and webhooks that match the creation of pods in the namespace. If some policies
    contain the container's name, only those."""
    namespace = await pod.read("namespaces", pod.reference.namespace, namespace="")
    labels = namespace.metadata.get("labels") or {}
    candidates: list[tuple[View, bool]] = []
    for document in await pod.evidence.objects(_POLICIES, ""):
        spec = document.get("spec") or {}
        source = pod.of(_POLICIES, document["metadata"]["name"], document, namespace="")
        if _matches(spec.get("matchConstraints") or {}, "resourceRules", labels) and await _bindings(source):
            candidates.append((source, f'"{container}"' in _spec_text(spec)))
    for document in await pod.evidence.objects(_WEBHOOKS, ""):
        hooks = document.get("webhooks") or ()
        if any(_matches(hook, "rules", labels) for hook in hooks):
            candidates.append((pod.of(_WEBHOOKS, document["metadata"]["name"], document, namespace=""), False))
    created = str(pod.metadata.get("creationTimestamp") or "")
    candidates = [
        candidate for candidate in candidates if str(candidate[0].metadata.get("creationTimestamp") or "") <= created
    ]
    named = [candidate for candidate in candidates if candidate[1]]
    return [await _last_change(source, names=names_it) for source, names_it in (named or candidates)[:_MAX_CANDIDATES]]


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
        {"pods", "*", "*/*"} & set(rule.get("resources") or ())
        and {"CREATE", "*"} & set(rule.get("operations") or ())
        and {"", "*"} & set(rule.get("apiGroups") or ())
        for rule in rules.get(field) or ()
    )


async def _bindings(policy: View) -> list[View]:
    return [
        policy.of(_BINDINGS, binding["metadata"]["name"], binding, namespace="")
        for binding in await policy.evidence.objects(_BINDINGS, "")
        if (binding.get("spec") or {}).get("policyName") == policy.reference.name
    ]


async def _last_change(source: View, *, names: bool) -> Step:
    """The last change of a policy or its bindings, since which it applies."""
    sources = [source, *(await _bindings(source) if source.reference.resource == _POLICIES else ())]
    changes = [change for view in sources if (change := await lifetime.last_change(view)) is not None]
    kind = "names the container" if names else "may add it (a guess): its rules match the creation of pods"
    step = source.step(kind, root=STATE)
    step.because = sorted(changes, key=lambda view: view.time)[-1:]
    return step
