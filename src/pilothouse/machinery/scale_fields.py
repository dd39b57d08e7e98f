"""Converts managedFields of an object to those of its Scale, and back: replicas have different paths in both.

After apimachinery ``pkg/util/managedfields/scalehandler.go`` (v1.36). Even a write that does not change the replicas
splits the entry of an update manager in two.
"""

from collections.abc import Callable

import msgspec

from pilothouse.machinery.field_sets import Path, difference, encode_fields, has, of_paths
from pilothouse.machinery.managed_fields import Entries, Entry, sort_and_cap

VERSION = "autoscaling/v1"
REPLICAS: Path = ("f:spec", "f:replicas")
_OWNED = msgspec.Raw(encode_fields(of_paths(REPLICAS)))

Paths = Callable[[str], Path | None]
"""API version → the path of the replicas; empty if there is none, None for an unknown version."""


def to_scale(entries: Entries, paths: Paths) -> Entries:
    """The entries of the replicas' managers, for a Scale."""
    found = []
    for entry in entries:
        path = paths(entry.api_version)
        if path and has(entry.fields, path):
            found.append(msgspec.structs.replace(entry, api_version=VERSION, fieldsV1=_OWNED))
    return found


def to_object(entries: Entries, scale: Entries, paths: Paths, version: str) -> Entries:
    """The entries of the object after a write of its Scale; ``version`` is the object's."""
    left = {_who(entry): entry for entry in scale if has(entry.fields, REPLICAS)}
    result: Entries = []
    for entry in entries:
        path = paths(entry.api_version)
        if path is None:
            continue
        fields = entry.fields
        if not path or not has(fields, path):
            result.append(entry)
        elif _who(entry) in left:
            del left[_who(entry)]
            result.append(entry)
        else:
            kept = difference(fields, of_paths(path))
            if kept:
                result.append(msgspec.structs.replace(entry, fieldsV1=msgspec.Raw(encode_fields(kept))))
    own = paths(version)
    assert own, "what has a Scale has replicas"
    owned = msgspec.Raw(encode_fields(of_paths(own)))
    for entry in left.values():
        # Times are not kept, as upstream.
        result.append(msgspec.structs.replace(entry, api_version=version, fieldsV1=owned, time=""))
    return sort_and_cap(result)


def _who(entry: Entry) -> tuple[str, str, str, str]:
    """Upstream's identifier of a manager, which for updates includes the version. As a Scale has another version, an
    update manager of the replicas is never found again, and gets another entry."""
    version = "" if entry.operation == "Apply" else entry.api_version
    return (entry.manager, entry.operation, entry.subresource, version)
