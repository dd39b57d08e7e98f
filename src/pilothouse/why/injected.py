"""What users request of simulated nodes by annotations (``docs/nodes.md``): faults of Nodes and Pods, and loads of
workloads."""

from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference, newest_spec_changes

_PREFIX = "simulated.pilothouse.dev/"
_HARMLESS = ("log", "cpu-usage", "start-delay", "stop-delay", "accept-delay", "remove-delay")
"""Annotations of pods that cause no failure."""


async def injected(evidence: Evidence, reference: Reference, *, until: int = 0) -> ObjectChange | None:
    """The change that set the fault annotations which an object has now, or had before the revision ``until``; None if
    it has none, or was created with them."""
    if reference.resource not in ("nodes", "pods"):
        return None
    changes = [change for change in await evidence.changes(reference) if not until or change.revision < until]
    for change in reversed(newest_spec_changes(evidence, changes)):
        after = await evidence.after(change)
        if change.type != "MODIFIED" or not _fault_annotations(after):
            return None
        if _fault_annotations(await evidence.before(change)) != _fault_annotations(after):
            return change
    return None


async def load_change(evidence: Evidence, workload: Reference, *, until: int = 0) -> ObjectChange | None:
    """The last change of the load on a workload, or the last before the revision ``until``; None if it had none, or was
    created with it."""
    changes = [change for change in await evidence.changes(workload) if not until or change.revision < until]
    for change in reversed(newest_spec_changes(evidence, changes)):
        if change.type != "MODIFIED":
            return None
        if _loads(await evidence.before(change)) != _loads(await evidence.after(change)):
            return change
    return None


def has_load(document: Document | None) -> bool:
    """Whether a load is requested of a workload."""
    return any(_loads(document))


def _loads(document: Document | None) -> list[str | None]:
    annotations = ((document or {}).get("metadata") or {}).get("annotations") or {}
    return [annotations.get(f"{_PREFIX}{resource}-load") for resource in ("cpu", "memory")]


def _fault_annotations(document: Document | None) -> dict[str, str]:
    annotations = ((document or {}).get("metadata") or {}).get("annotations") or {}
    return {
        key: value
        for key, value in annotations.items()
        if key.startswith(_PREFIX) and not key.removeprefix(_PREFIX).startswith(_HARMLESS)
    }
