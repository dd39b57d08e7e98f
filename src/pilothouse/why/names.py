"""Names that begin as one that is not there: what a user may have meant, also objects that are gone."""

from pilothouse.why.evidence import Evidence, Reference

_MOST = 5


async def names_alike(evidence: Evidence, reference: Reference) -> list[str]:
    """The names in the namespace that begin with the one asked for, else with the same words as it but for the last
    (``web-7d8f`` for ``web-2``); those of objects that are gone, the newest first, are marked."""
    listed = await evidence.objects(reference.resource, reference.namespace)
    there = [str((each.get("metadata") or {}).get("name") or "") for each in listed]
    changes = await evidence.changes_of_all(reference.resource, reference.namespace)
    gone = dict.fromkeys(change.reference.name for change in reversed(changes) if change.type == "DELETED")
    titles = {name: f"{name} (gone)" for name in gone} | {name: name for name in there}
    for start in dict.fromkeys((reference.name, reference.name.rpartition("-")[0])):
        found = [title for name, title in titles.items() if name.startswith(start)] if start else []
        if found:
            return [*found[:_MOST], *([f"and {len(found) - _MOST} more"] if len(found) > _MOST else [])]
    return []
