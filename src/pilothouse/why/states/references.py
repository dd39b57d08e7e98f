"""Objects that have no effect, or less than expected, since something that they refer to does not exist: bindings of
roles and policies, webhook configurations, Ingresses."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pilothouse.why.states.lifetime import newest_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_SHOWN = 5
_SERVICES = "services"
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


class _Target(msgspec.Struct, frozen=True):
    resource: str
    name: str
    use: str
    """What the reference is for, and the effect: ``the role, without which it grants nothing``."""
    namespace: str = ""
    port: int | str = 0


async def binding(view: View) -> Finding | None:
    """A RoleBinding or ClusterRoleBinding whose role or ServiceAccounts do not exist."""
    document = view.now or {}
    role = document.get("roleRef") or {}
    is_cluster_role = role.get("kind") == "ClusterRole"
    targets = [
        _Target(
            f"{'clusterroles' if is_cluster_role else 'roles'}.{_RBAC}",
            str(role.get("name") or ""),
            "as its role: it grants nothing",
            "" if is_cluster_role else view.reference.namespace,
        )
    ]
    targets += [
        _Target("serviceaccounts", str(subject.get("name")), "as a subject", str(subject.get("namespace") or ""))
        for subject in document.get("subjects") or ()
        if subject.get("kind") == "ServiceAccount"
    ]
    return await _finding(view, await _missing(view, targets))


async def policy_binding(view: View) -> Finding | None:
    """The binding of an admission policy that does not exist."""
    kind = view.reference.plural.removesuffix("bindings")
    resource = f"{kind.removesuffix('policy')}policies.{_ADMISSION}"
    name = str(view.spec.get("policyName") or "")
    return await _finding(view, await _missing(view, [_Target(resource, name, "as its policy: it has no effect")]))


async def webhooks(view: View) -> Finding | None:
    """A webhook configuration with Services that do not exist or have no endpoints."""
    steps: list[Step] = []
    for webhook in (view.now or {}).get("webhooks") or ():
        reference = (webhook.get("clientConfig") or {}).get("service")
        if reference:
            policy = str(webhook.get("failurePolicy") or "Fail")
            effect = "rejected" if policy == "Fail" else "not checked"
            use = f"for the webhook {webhook.get('name')}: matching requests are {effect} (failurePolicy {policy})"
            target = _Target(_SERVICES, str(reference.get("name")), use, str(reference.get("namespace")))
            steps += await _missing(view, [target]) or await _without_endpoints(view, target)
    return await _finding(view, steps)


async def ingress(view: View) -> Finding | None:
    """An Ingress whose class, Services or Secrets do not exist, whose Services have no endpoints, or without an
    address."""
    steps: list[Step] = []
    class_ = str(view.spec.get("ingressClassName") or "")
    if class_:
        use = "as its class: no controller processes it"
        steps += await _missing(view, [_Target("ingressclasses.networking.k8s.io", class_, use)])
    for target in dict.fromkeys(_backends(view)):
        steps += await _missing(view, [target]) or await _without_endpoints(view, target)
    secrets = [str(entry["secretName"]) for entry in view.spec.get("tls") or () if entry.get("secretName")]
    namespace = view.reference.namespace
    steps += await _missing(view, [_Target("secrets", name, "for TLS", namespace) for name in secrets])
    if steps:
        return await _finding(view, steps)
    if (view.status.get("loadBalancer") or {}).get("ingress"):
        return None
    of_class = f" of the class {class_}" if class_ else ""
    text = f"has no address: no ingress controller{of_class} has reported one"
    return Finding("no address", await _with_change(view, [view.step(text, root=STATE)]))


def _backends(view: View) -> Iterator[_Target]:
    rules: list[dict[str, Any]] = [{"backend": view.spec.get("defaultBackend")}]
    rules += [path for rule in view.spec.get("rules") or () for path in (rule.get("http") or {}).get("paths") or ()]
    for rule in rules:
        service = (rule.get("backend") or {}).get("service")
        if service:
            port = service.get("port") or {}
            yield _Target(
                _SERVICES,
                str(service.get("name")),
                "as a backend",
                view.reference.namespace,
                port.get("name") or port.get("number") or 0,
            )


async def _missing(view: View, targets: Iterable[_Target]) -> list[Step]:
    """A step for each reference to an object that does not exist, with its deletion."""
    steps: list[Step] = []
    for target in targets:
        other = await view.read(target.resource, target.name, namespace=target.namespace)
        if other.now is not None or other.is_unreadable or not target.name:
            continue
        deletion = next((change for change in reversed(await other.changes()) if change.type == "DELETED"), None)
        step = view.step(_sentence(view, other, target, "which does not exist"))
        step.because = [await view.chain.step(deletion, text="was deleted")] if deletion is not None else []
        steps.append(step)
    return steps


def _sentence(view: View, other: View, target: _Target, state: str) -> str:
    use, colon, effect = target.use.partition(": ")
    return f"refers to {_title(view, other)} {use}, {state}{colon}{effect}"


def _title(view: View, other: View) -> str:
    namespace = other.reference.namespace
    return f"{other.title} of namespace {namespace}" if namespace not in ("", view.reference.namespace) else other.title


async def _without_endpoints(view: View, target: _Target) -> list[Step]:
    """A step for a Service that does not have the port, or has no endpoints."""
    service = await view.read(target.resource, target.name, namespace=target.namespace)
    if service.now is None:
        return []
    ports = [(port.get("port"), port.get("name")) for port in service.spec.get("ports") or ()]
    if target.port and not any(target.port in port for port in ports):
        shown = ", ".join(str(number) for number, _name in ports)
        state = f"which does not have the port {target.port}, but {shown or 'none'}"
        return [view.step(_sentence(view, service, target, state))]
    finding = await service.finding()
    if finding.state != "no endpoints":
        return []
    text = _sentence(view, service, target, "which has no endpoints")
    return [view.step(text, because=list(finding.steps))]


async def _finding(view: View, steps: list[Step]) -> Finding | None:
    return Finding("incomplete", await _with_change(view, steps[:_SHOWN])) if steps else None


async def _with_change(view: View, steps: list[Step]) -> tuple[Step, ...]:
    """Steps without another cause are there since the last change of the object."""
    changed = await newest_change(view)
    for step in steps:
        if not step.because and changed is not None:
            step.because = [changed]
        step.root = "" if step.because else STATE
    return tuple(steps)
