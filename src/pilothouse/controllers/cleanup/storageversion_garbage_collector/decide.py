"""What is left of a StorageVersion when API servers are gone. Pure. Upstream: v1.36
``pkg/controller/storageversiongc/gc_controller.go`` and the apiserver library's ``storageversion/updater.go``."""

import datetime
from collections.abc import Set
from typing import Any

import msgspec

from pilothouse.api.apiserverinternal import ServerStorageVersion, StorageVersion
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.times import format_time

AGREE = "AllEncodingVersionsEqual"

_json = msgspec.json.Encoder().encode
_entries = msgspec.json.Decoder(list[msgspec.Raw])
_entry = msgspec.json.Decoder(ServerStorageVersion)
_conditions = msgspec.json.Decoder(list[dict[str, Any]])


def servers(found: StorageVersion) -> tuple[str, ...]:
    return tuple(entry.api_server_id for entry in found.status.storage_versions)


def without(raw: bytes | msgspec.Raw, found: StorageVersion, gone: Set[str], now: datetime.datetime) -> bytes | None:
    """The object without the entries of those servers; None if no entry is left. ``raw`` is the object as it was
    read."""
    listed = _entries.decode(take_field(raw, "status.storageVersions") or b"[]")
    left = [entry for entry in listed if _entry.decode(entry).api_server_id not in gone]
    if not left:
        return None
    versions = [_entry.decode(entry).encoding_version for entry in left]
    common = versions[0] if all(version == versions[0] for version in versions) else None
    conditions = _conditions.decode(take_field(raw, "status.conditions") or b"[]")
    return replace_fields(
        raw,
        {
            "status.storageVersions": _json(left),
            "status.commonEncodingVersion": None if common is None else _json(common),
            "status.conditions": _json(_with_agreement(conditions, found, common, now)),
        },
    )


def _with_agreement(
    conditions: list[dict[str, Any]], found: StorageVersion, common: str | None, now: datetime.datetime
) -> list[dict[str, Any]]:
    """The conditions with ``AllEncodingVersionsEqual``. Its time is that of the last change of its status or of the
    common version."""
    said = {
        "status": "False" if common is None else "True",
        "observedGeneration": found.metadata.generation,
        "reason": "CommonEncodingVersionUnset" if common is None else "CommonEncodingVersionSet",
        "message": f"Common encoding version {'unset' if common is None else 'set'}",
    }
    before = next((one for one in conditions if one.get("type") == AGREE), None)
    if before is None:
        return [*conditions, {"type": AGREE, **said, "lastTransitionTime": format_time(now)}]
    earlier = found.status.common_encoding_version
    is_another = earlier is not None and common is not None and earlier != common
    if before.get("status") != said["status"] or is_another:
        said["lastTransitionTime"] = format_time(now)
    return [one | said if one is before else one for one in conditions]
