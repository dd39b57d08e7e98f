"""Faults that somebody asked simulated nodes for: annotations of Nodes and Pods (``docs/nodes.md``)."""

from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference, newest_of_spec

_PREFIX = "simulated.pilothouse.dev/"
_HARMLESS = ("log", "cpu-usage", "start-delay", "stop-delay", "accept-delay", "remove-delay")
"""Keys of pods that make nothing fail."""


async def injected(evidence: Evidence, reference: Reference, *, until: int = 0) -> ObjectChange | None:
    """The change that gave an object the annotations which it has now, or had at the revision ``until``; None if it has
    none that makes something fail, or has had them from the beginning."""
    if reference.resource not in ("nodes", "pods"):
        return None
    changes = [change for change in await evidence.changes(reference) if not until or change.revision < until]
    for each in reversed(newest_of_spec(evidence, changes)):
        after = await evidence.after(each)
        if each.type != "MODIFIED" or not _fault_annotations(after):
            return None
        if _fault_annotations(await evidence.before(each)) != _fault_annotations(after):
            return each
    return None


def _fault_annotations(document: Document | None) -> dict[str, str]:
    annotations = ((document or {}).get("metadata") or {}).get("annotations") or {}
    return {
        key: value
        for key, value in annotations.items()
        if key.startswith(_PREFIX) and not key.removeprefix(_PREFIX).startswith(_HARMLESS)
    }
