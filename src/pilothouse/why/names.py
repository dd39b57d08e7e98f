"""Suggests names and namespaces of existing or deleted objects for a name that was not found."""

import difflib
from itertools import islice

from pilothouse.why.evidence import Evidence, Reference

_MAX_NAMES = 5
_MAX_COMPARED = 2_000
"""A comparison of two names takes tens of microseconds."""


async def names_alike(evidence: Evidence, reference: Reference) -> list[str]:
    """Names in the namespace that start with the given one, otherwise with the part of it before the last hyphen
    (``web-7d8f`` for ``web-2``), the newest deleted ones first and marked ``(gone)``; otherwise those that resemble
    it, the most similar first."""
    objects = await evidence.objects(reference.resource, reference.namespace)
    existing = [str((document.get("metadata") or {}).get("name") or "") for document in objects]
    changes = await evidence.changes_of_all(reference.resource, reference.namespace)
    deleted = dict.fromkeys(change.reference.name for change in reversed(changes) if change.type == "DELETED")
    titles = {name: f"{name} (gone)" for name in deleted} | {name: name for name in existing}
    for prefix in dict.fromkeys((reference.name, reference.name.rpartition("-")[0])):
        matching = [title for name, title in titles.items() if name.startswith(prefix)] if prefix else []
        if matching:
            return _abbreviated(matching)
    similar = difflib.get_close_matches(reference.name, list(islice(titles, _MAX_COMPARED)), _MAX_NAMES)
    return [titles[name] for name in similar]


async def namespaces_with(evidence: Evidence, reference: Reference) -> list[str]:
    """Other namespaces with an object of this name, in alphabetical order, and after them those in which it was deleted
    or that are deleted themselves, the newest first and marked ``(gone)``."""
    if not reference.namespace:
        return []
    objects = [document.get("metadata") or {} for document in await evidence.objects(reference.resource, "")]
    existing = {str(found.get("namespace") or "") for found in objects if found.get("name") == reference.name}
    changes = await evidence.changes_of_all(reference.resource, "")
    deleted = [
        change.reference.namespace
        for change in reversed(changes)
        if change.type == "DELETED" and change.reference.name == reference.name
    ]
    others = [*sorted(existing), *(f"{name} (gone)" for name in dict.fromkeys(deleted) if name not in existing)]
    own = {reference.namespace, f"{reference.namespace} (gone)"}
    return _abbreviated([title for title in others if title not in own])


def _abbreviated(titles: list[str]) -> list[str]:
    more = len(titles) - _MAX_NAMES
    return [*titles[:_MAX_NAMES], *([f"and {more} more"] if more > 0 else [])]
