"""Objects that have no effect, or less than expected, since something that they refer to does not exist: bindings of
roles and policies, webhook configurations, Ingresses."""

from collections.abc import Callable, Iterator

import msgspec

from pilothouse.why.evidence import Document, Reference
from pilothouse.why.states.lifetime import change_that_set, last_deletion, newest_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_SHOWN = 5
_MAX_READ = 100
_SERVICES = "services"
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


class _Target(msgspec.Struct, frozen=True):
    """An object that another one refers to."""

    reference: Reference
    use: str
    """What the reference is for, and the effect if there is no such object: ``as its role: it grants nothing``."""
    port: int | str = 0


_Targets = Callable[[View, Document], Iterator[_Target]]
"""All targets of a version of the object."""


async def binding(view: View) -> Finding | None:
    """A RoleBinding or ClusterRoleBinding whose role or ServiceAccounts do not exist."""
    return await _incomplete(view, _of_binding)


def _of_binding(view: View, document: Document) -> Iterator[_Target]:
    role = document.get("roleRef") or {}
    is_cluster_role = role.get("kind") == "ClusterRole"
    resource = f"{'clusterroles' if is_cluster_role else 'roles'}.{_RBAC}"
    namespace = "" if is_cluster_role else view.reference.namespace
    yield _Target(Reference(resource, namespace, str(role.get("name") or "")), "as its role: it grants nothing")
    for subject in document.get("subjects") or ():
        if subject.get("kind") == "ServiceAccount":
            account = Reference("serviceaccounts", str(subject.get("namespace") or ""), str(subject.get("name")))
            yield _Target(account, "as a subject")


async def policy_binding(view: View) -> Finding | None:
    """The binding of an admission policy that does not exist."""
    return await _incomplete(view, _of_policy_binding)


def _of_policy_binding(view: View, document: Document) -> Iterator[_Target]:
    kind = view.reference.plural.removesuffix("bindings")
    resource = f"{kind.removesuffix('policy')}policies.{_ADMISSION}"
    name = str((document.get("spec") or {}).get("policyName") or "")
    yield _Target(Reference(resource, "", name), "as its policy: it has no effect")


async def webhooks(view: View) -> Finding | None:
    """A webhook configuration with Services that do not exist, do not have the port, or have no endpoints."""
    return await _incomplete(view, _of_webhooks)


def _of_webhooks(_view: View, document: Document) -> Iterator[_Target]:
    for webhook in document.get("webhooks") or ():
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            policy = str(webhook.get("failurePolicy") or "Fail")
            effect = "rejected" if policy == "Fail" else "not checked"
            use = f"for the webhook {webhook.get('name')}: matching requests are {effect} (failurePolicy {policy})"
            reference = Reference(_SERVICES, str(service.get("namespace")), str(service.get("name")))
            yield _Target(reference, use, service.get("port") or 0)


async def ingress(view: View) -> Finding | None:
    """An Ingress whose class, Services or Secrets do not exist, whose Services have no endpoints, or without an
    address."""
    incomplete = await _incomplete(view, _of_ingress)
    if incomplete is not None or (view.status.get("loadBalancer") or {}).get("ingress"):
        return incomplete
    class_ = view.spec.get("ingressClassName")
    of_class = f" of the class {class_}" if class_ else ""
    changed = await newest_change(view)
    text = f"has no address: no ingress controller{of_class} has reported one"
    return Finding("no address", (view.step(text, root=STATE, because=[changed] if changed is not None else []),))


def _of_ingress(view: View, document: Document) -> Iterator[_Target]:
    namespace, spec = view.reference.namespace, document.get("spec") or {}
    if class_ := spec.get("ingressClassName"):
        reference = Reference("ingressclasses.networking.k8s.io", "", str(class_))
        yield _Target(reference, "as its class: no controller processes it")
    paths = [path for rule in spec.get("rules") or () for path in (rule.get("http") or {}).get("paths") or ()]
    for backend in (spec.get("defaultBackend"), *(path.get("backend") for path in paths)):
        service = (backend or {}).get("service")
        if service:
            port = service.get("port") or {}
            reference = Reference(_SERVICES, namespace, str(service.get("name")))
            yield _Target(reference, "as a backend", port.get("name") or port.get("number") or 0)
    for entry in spec.get("tls") or ():
        if entry.get("secretName"):
            yield _Target(Reference("secrets", namespace, str(entry["secretName"])), "for TLS")


async def _incomplete(view: View, targets: _Targets) -> Finding | None:
    """The first references to objects that do not exist, or to Services without the port or without endpoints."""
    steps: list[Step] = []
    all_targets = list(dict.fromkeys(targets(view, view.now or {})))
    for target in all_targets[:_MAX_READ]:
        step = await _step(view, targets, target)
        steps += [step] if step is not None else []
        if len(steps) == _SHOWN:
            break
    else:
        if len(all_targets) > _MAX_READ:
            view.evidence.unseen[f"what {view.title} refers to, beyond the first {_MAX_READ}"] = None
    return Finding("incomplete", tuple(steps)) if steps else None


async def _step(view: View, targets: _Targets, target: _Target) -> Step | None:
    """What is wrong with a target, because of what happened to it, otherwise of the change that set the reference."""
    reference = target.reference
    other = await view.read(reference.resource, reference.name, namespace=reference.namespace)
    is_missing = other.now is None
    step = await (_missing if is_missing else _without_endpoints)(view, other, target)
    if step is None or step.because:
        return step

    def is_set(document: Document) -> bool:
        same = (each for each in targets(view, document) if each.reference == reference)
        return any(is_missing or each.port == target.port for each in same)

    changed = await change_that_set(view, is_set)
    step.because = [changed] if changed is not None else []
    step.root = "" if step.because else STATE
    return step


async def _missing(view: View, other: View, target: _Target) -> Step | None:
    """A step for an object that does not exist, with its deletion."""
    if other.is_unreadable or not target.reference.name:
        return None
    deletion = await last_deletion(other)
    because = [deletion] if deletion is not None else []
    return view.step(_sentence(view, other, target, "which does not exist"), because=because)


async def _without_endpoints(view: View, other: View, target: _Target) -> Step | None:
    """A step for a Service that does not have the port, or has no endpoints."""
    if target.reference.resource != _SERVICES:
        return None
    ports = [(port.get("port"), port.get("name")) for port in other.spec.get("ports") or ()]
    if target.port and not any(target.port in port for port in ports):
        shown = ", ".join(str(number) for number, _name in ports)
        state = f"which does not have the port {target.port}, but {shown or 'none'}"
        return view.step(_sentence(view, other, target, state))
    finding = await other.finding()
    if finding.state != "no endpoints":
        return None
    return view.step(_sentence(view, other, target, "which has no endpoints"), because=list(finding.steps))


def _sentence(view: View, other: View, target: _Target, state: str) -> str:
    use, colon, effect = target.use.partition(": ")
    return f"refers to {_title(view, other)} {use}, {state}{colon}{effect}"


def _title(view: View, other: View) -> str:
    namespace = other.reference.namespace
    return f"{other.title} of namespace {namespace}" if namespace not in ("", view.reference.namespace) else other.title
