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
    scale_entries = []
    for entry in entries:
        path = paths(entry.api_version)
        if path and has(entry.fields, path):
            scale_entries.append(msgspec.structs.replace(entry, api_version=VERSION, fieldsV1=_OWNED))
    return scale_entries


def to_object(entries: Entries, scale: Entries, paths: Paths, version: str) -> Entries:
    """The entries of the object after a write of its Scale; ``version`` is the object's."""
    scale_entries = {_manager_key(entry): entry for entry in scale if has(entry.fields, REPLICAS)}
    result: Entries = []
    for entry in entries:
        path = paths(entry.api_version)
        if path is None:
            continue
        fields = entry.fields
        if not path or not has(fields, path):
            result.append(entry)
        elif _manager_key(entry) in scale_entries:
            del scale_entries[_manager_key(entry)]
            result.append(entry)
        else:
            remaining = difference(fields, of_paths(path))
            if remaining:
                result.append(msgspec.structs.replace(entry, fieldsV1=msgspec.Raw(encode_fields(remaining))))
    replicas_path = paths(version)
    assert replicas_path, "what has a Scale has replicas"
    replicas_set = msgspec.Raw(encode_fields(of_paths(replicas_path)))
    for entry in scale_entries.values():
        # Times are not kept, as upstream.
        result.append(msgspec.structs.replace(entry, api_version=version, fieldsV1=replicas_set, time=""))
    return sort_and_cap(result)


def _manager_key(entry: Entry) -> tuple[str, str, str, str]:
    """Upstream's identifier of a manager, which for updates includes the version. As a Scale has another version, an
    update manager of the replicas is never found again, and gets another entry."""
    version = "" if entry.operation == "Apply" else entry.api_version
    return (entry.manager, entry.operation, entry.subresource, version)
