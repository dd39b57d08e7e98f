"""The writes of users and their programs, without those of Kubernetes' components: ``pilothouse history`` without an
object."""

import msgspec

from pilothouse.machinery.api_resources import Discovery
from pilothouse.why.actors import actor_with_command, component_cause
from pilothouse.why.changes import summary
from pilothouse.why.evidence import ObjectChange, ServerEvidence
from pilothouse.why.trust import is_component

MAX_WRITES = 500
_IGNORED_RESOURCES = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
"""Heartbeats and events, which are no changes of the cluster's state."""


class Write(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One write of a user other than Kubernetes' components."""

    time: str
    user: str
    by: str
    """The user, with the program: ``jane with kubectl scale``."""
    object: str
    text: str
    resource_version: str
    namespace: str = ""


async def user_writes(
    evidence: ServerEvidence, discovery: Discovery, *, namespace: str = "", since: int = 0
) -> tuple[list[Write], int]:
    """The newest ``MAX_WRITES`` in a namespace, or of the whole cluster, after a resourceVersion, oldest first, and the
    number of older ones left out."""
    writes: dict[int, ObjectChange] = {}
    for resource in discovery.preferred_resources():
        name = resource.group_resource
        if name in _IGNORED_RESOURCES or not resource.supports("list") or (namespace and not resource.namespaced):
            continue
        changes = await evidence.changes_of_all(name, namespace, since=since)
        writes.update({change.revision: change for change in changes if _is_user_write(change)})
    newest = [writes[revision] for revision in sorted(writes)][-MAX_WRITES:]
    return [await _write(evidence, change) for change in newest], len(writes) - len(newest)


def _is_user_write(change: ObjectChange) -> bool:
    origin = change.origin
    if origin is None or component_cause(change) is not None or origin.subresource == "status":
        return False
    return bool(origin.sender) and not is_component(origin.sender)


async def _write(evidence: ServerEvidence, change: ObjectChange) -> Write:
    text = summary(change, await evidence.before(change), await evidence.after(change)).text
    reference = change.reference
    return Write(
        f"{change.time[:19]}Z",
        change.origin.user if change.origin is not None else "",
        actor_with_command(change, text),
        f"{evidence.kind_of(reference.resource)}/{reference.name}",
        text,
        change.resource_version,
        reference.namespace,
    )
