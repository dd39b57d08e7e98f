"""managedFields of an object as those of its Scale, and back: both own the number of replicas, in different places.

After apimachinery ``pkg/util/managedfields/scalehandler.go`` (v1.36). A write that leaves the number as it is splits
the entry of an owner by update in two all the same.
"""

from collections.abc import Callable

import msgspec

from pilothouse.machinery.field_sets import Path, difference, encode_fields, has, of_paths
from pilothouse.machinery.managed_fields import Entries, Entry, settled

VERSION = "autoscaling/v1"
REPLICAS: Path = ("f:spec", "f:replicas")
_OWNED = msgspec.Raw(encode_fields(of_paths(REPLICAS)))

Paths = Callable[[str], Path | None]
"""Where a version of the object has its replicas; empty when it has none, None when there is no such version."""


def to_scale(entries: Entries, paths: Paths) -> Entries:
    """The entries of those who own the number of replicas, as they would stand in a Scale."""
    found = []
    for entry in entries:
        path = paths(entry.api_version)
        if path and has(entry.fields, path):
            found.append(msgspec.structs.replace(entry, api_version=VERSION, fieldsV1=_OWNED))
    return found


def to_object(entries: Entries, scale: Entries, paths: Paths, version: str) -> Entries:
    """The entries of the object after a write to its Scale has left these there; ``version`` is the object's."""
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
        # Times are not carried over, as upstream does not.
        result.append(msgspec.structs.replace(entry, api_version=version, fieldsV1=owned, time=""))
    return settled(result)


def _who(entry: Entry) -> tuple[str, str, str, str]:
    """Upstream's identifier of a manager: the version counts for updates. As a Scale has a version of its own, who owns
    the replicas by an update is never found again, and gets another entry."""
    version = "" if entry.operation == "Apply" else entry.api_version
    return (entry.manager, entry.operation, entry.subresource, version)
