"""Containers that a pod has and its template has not: what adds them when pods are created."""

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
_MOST = 3


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
    """The policies and webhooks that see pods of this namespace before they are created: those that name the container,
    or all, as a guess."""
    namespace = await pod.read("namespaces", pod.reference.namespace, namespace="")
    labels = namespace.metadata.get("labels") or {}
    found: list[tuple[View, bool]] = []
    for document in await pod.evidence.objects(_POLICIES, ""):
        spec = document.get("spec") or {}
        about = pod.of(_POLICIES, document["metadata"]["name"], document, namespace="")
        if _sees(spec.get("matchConstraints") or {}, "resourceRules", labels) and await _bindings(about):
            found.append((about, f'"{container}"' in _plain(spec)))
    for document in await pod.evidence.objects(_WEBHOOKS, ""):
        hooks = document.get("webhooks") or ()
        if any(_sees(each, "rules", labels) for each in hooks):
            found.append((pod.of(_WEBHOOKS, document["metadata"]["name"], document, namespace=""), False))
    born = str(pod.metadata.get("creationTimestamp") or "")
    found = [each for each in found if str(each[0].metadata.get("creationTimestamp") or "") <= born]
    named = [each for each in found if each[1]]
    return [await _installed(about, names=names) for about, names in (named or found)[:_MOST]]


def _plain(spec: Document) -> str:
    """The expressions of a policy, with their quotes."""
    return json.dumps(spec).replace('\\"', '"').replace("'", '"')


def _sees(rules: Document, field: str, labels: dict[str, str]) -> bool:
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


async def _installed(about: View, *, names: bool) -> Step:
    """The last change of a policy or its binding, whichever was later: since then it is in force as it is."""
    abouts = [about, *(await _bindings(about) if about.reference.resource == _POLICIES else ())]
    changes = [change for each in abouts if (change := await lifetime.last_change(each)) is not None]
    kind = "names the container" if names else "may add it (a guess): its rules match the creation of pods"
    step = about.step(kind, root=STATE)
    step.because = sorted(changes, key=lambda each: each.time)[-1:]
    return step
