"""Objects without a status, such as ConfigMaps: their last change, and the pods that use them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why.changes import SPEC
from pilothouse.why.evidence import Document
from pilothouse.why.states.lifetime import newest_change, unrecorded
from pilothouse.why.steps import STORED, pluralize
from pilothouse.why.view import Finding, View, is_finished

WITHOUT_STATUS = frozenset(
    {
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "ingressclasses.networking.k8s.io",
        "ipaddresses.networking.k8s.io",
        "leasecandidates.coordination.k8s.io",
        "leases.coordination.k8s.io",
        "limitranges",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "networkpolicies.networking.k8s.io",
        "resourceslices.resource.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "workloads.scheduling.k8s.io",
    }
)
"""Built-in kinds with a spec that no controller reports on. Those without a spec have no status either."""
_REFERENCES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "configmaps": (frozenset({"configMap"}), frozenset({"configMapKeyRef", "configMapRef"})),
    "secrets": (
        frozenset({"secret", "secretRef", "azureFile", "nodePublishSecretRef"}),
        frozenset({"secretKeyRef", "secretRef"}),
    ),
}
"""Fields of volumes, and of the environment of containers, that refer to an object."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_SHOWN = 5


async def stored(view: View) -> Finding:
    """The last change, or the creation, of an object that has no state beyond its existence."""
    last = await newest_change(view) or unrecorded(view)
    last.table = [*last.table, *await _users(view)]
    return Finding(STORED, (last,))


async def _users(view: View) -> list[str]:
    """The pods that use a ConfigMap, a Secret or a ServiceAccount."""
    resource, name = view.reference.resource, view.reference.name
    if resource not in (*_REFERENCES, "serviceaccounts"):
        return []
    documents = await view.evidence.objects("pods", view.reference.namespace)
    if view.is_unlisted("pods"):
        return []
    pods = [pod for pod in documents if not is_finished(pod)]
    if resource == "serviceaccounts":
        named = [pod for pod in pods if ((pod.get("spec") or {}).get("serviceAccountName") or "default") == name]
        return _lines([("used by", named)])
    of_volumes, of_environment = _REFERENCES[resource]
    environment = [pod for pod in pods if any(_with_environment(pod, of_environment, name))]
    return [
        *_lines(
            [
                ("in volumes of", [pod for pod in pods if _refers(_spec(pod, "volumes"), of_volumes, name)]),
                ("in the environment of", environment),
                ("for image pulls of", [pod for pod in pods if resource == "secrets" and _pulls_with(pod, name)]),
            ]
        ),
        *await _stale_lines(view, environment, of_environment),
    ]


def _lines(uses: Sequence[tuple[str, Sequence[Document]]]) -> list[str]:
    lines = [f"{way} {pluralize(len(pods), 'pod')}: {_names(pods)}" for way, pods in uses if pods]
    return lines or ["no pod of the namespace uses it"]


def _names(pods: Sequence[Document]) -> str:
    names = [str(pod["metadata"]["name"]) for pod in pods]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


async def _stale_lines(view: View, pods: Sequence[Document], fields: frozenset[str]) -> list[str]:
    """Containers get their environment at their start, and keep it when the object changes."""
    change = await newest_change(view, weights=(SPEC,))
    stale = [pod for pod in pods if change is not None and _started_before(change.time, pod, fields, view)]
    if not stale or change is None:
        return []
    return [f"with the environment of before {change.time[:19]}Z, until their containers restart: {_names(stale)}"]


def _started_before(time: str, pod: Document, fields: frozenset[str], view: View) -> bool:
    containers = {container["name"] for container in _with_environment(pod, fields, view.reference.name)}
    status = pod.get("status") or {}
    try:
        changed_at = parse_time(f"{time[:19]}Z")  # start times have no fraction either
        return any(
            entry.get("name") in containers and parse_time(started) < changed_at
            for key in _CONTAINER_STATUSES
            for entry in status.get(key) or ()
            if (started := ((entry.get("state") or {}).get("running") or {}).get("startedAt"))
        )
    except TimeError:
        return False


def _with_environment(pod: Document, fields: frozenset[str], name: str) -> Iterator[dict[str, Any]]:
    """The containers whose environment refers to the object."""
    for container in (container for key in _CONTAINERS for container in _spec(pod, key)):
        if _refers([container.get("env"), container.get("envFrom")], fields, name):
            yield container


def _pulls_with(pod: Document, name: str) -> bool:
    return any(reference.get("name") == name for reference in _spec(pod, "imagePullSecrets"))


def _spec(pod: Document, key: str) -> list[Any]:
    return (pod.get("spec") or {}).get(key) or []


def _refers(value: Any, fields: frozenset[str], name: str) -> bool:
    """Whether one of these fields, at any depth, has the name."""
    if isinstance(value, list):
        return any(_refers(item, fields, name) for item in value)
    if not isinstance(value, dict):
        return False
    return any(
        (key in fields and isinstance(inner, dict) and name in (inner.get("name"), inner.get("secretName")))
        or _refers(inner, fields, name)
        for key, inner in value.items()
    )
