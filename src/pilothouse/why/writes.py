"""What people and their programs wrote, without what Kubernetes' components did: ``pilothouse history`` without an
object."""

import msgspec

from pilothouse.machinery.api_resources import Discovery
from pilothouse.why.actors import act, acting
from pilothouse.why.changes import summary
from pilothouse.why.evidence import ObjectChange, ServerEvidence
from pilothouse.why.trust import is_component

MOST_WRITES = 500
_NO_ACTS = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
"""Programs write these to say that they are there."""


class Write(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One write of a user who is no component."""

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
    """The newest ``MOST_WRITES`` in a namespace, or of the whole cluster, after a resourceVersion, oldest first; and
    how many older ones are left out."""
    found: dict[int, ObjectChange] = {}
    for resource in discovery.preferred_resources():
        name = resource.group_resource
        if name in _NO_ACTS or not resource.supports("list") or (namespace and not resource.namespaced):
            continue
        changes = await evidence.changes_of_all(name, namespace, since=since)
        found.update({change.revision: change for change in changes if _is_users(change)})
    newest = [found[revision] for revision in sorted(found)][-MOST_WRITES:]
    return [await _write(evidence, each) for each in newest], len(found) - len(newest)


def _is_users(change: ObjectChange) -> bool:
    origin = change.origin
    if origin is None or acting(change) is not None or origin.subresource == "status":
        return False
    return bool(origin.user) and not is_component(origin.user)


async def _write(evidence: ServerEvidence, change: ObjectChange) -> Write:
    text = summary(change, await evidence.before(change), await evidence.after(change)).text
    reference = change.reference
    return Write(
        f"{change.time[:19]}Z",
        change.origin.user if change.origin is not None else "",
        act(change, text),
        f"{evidence.kind_of(reference.resource)}/{reference.name}",
        text,
        change.resource_version,
        reference.namespace,
    )
