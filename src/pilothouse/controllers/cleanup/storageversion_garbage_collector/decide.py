"""Removes the entries of API servers that no longer exist from a StorageVersion. Pure. Upstream: v1.36
``pkg/controller/storageversiongc/gc_controller.go`` and the apiserver library's ``storageversion/updater.go``."""

import datetime
from collections.abc import Set
from typing import Any

import msgspec

from pilothouse.api.apiserverinternal import ServerStorageVersion, StorageVersion
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.times import format_time

ALL_ENCODING_VERSIONS_EQUAL = "AllEncodingVersionsEqual"

_json = msgspec.json.Encoder().encode
_entries = msgspec.json.Decoder(list[msgspec.Raw])
_entry = msgspec.json.Decoder(ServerStorageVersion)
_conditions = msgspec.json.Decoder(list[dict[str, Any]])


def api_server_ids(storage_version: StorageVersion) -> tuple[str, ...]:
    return tuple(entry.api_server_id for entry in storage_version.status.storage_versions)


def remove_servers(
    raw: bytes | msgspec.Raw, storage_version: StorageVersion, removed: Set[str], now: datetime.datetime
) -> bytes | None:
    """The object without the entries of these servers; None if no entry remains. ``raw`` is the object's JSON."""
    listed = _entries.decode(take_field(raw, "status.storageVersions") or b"[]")
    remaining = [entry for entry in listed if _entry.decode(entry).api_server_id not in removed]
    if not remaining:
        return None
    versions = [_entry.decode(entry).encoding_version for entry in remaining]
    common = versions[0] if all(version == versions[0] for version in versions) else None
    conditions = _conditions.decode(take_field(raw, "status.conditions") or b"[]")
    return replace_fields(
        raw,
        {
            "status.storageVersions": _json(remaining),
            "status.commonEncodingVersion": None if common is None else _json(common),
            "status.conditions": _json(_set_status_condition(conditions, storage_version, common, now)),
        },
    )


def _set_status_condition(
    conditions: list[dict[str, Any]], storage_version: StorageVersion, common: str | None, now: datetime.datetime
) -> list[dict[str, Any]]:
    """The conditions with an updated ``AllEncodingVersionsEqual``. Its time changes with its status and with the common
    version (``SetCommonEncodingVersion``)."""
    new_condition = {
        "status": "False" if common is None else "True",
        "observedGeneration": storage_version.metadata.generation,
        "reason": "CommonEncodingVersionUnset" if common is None else "CommonEncodingVersionSet",
        "message": f"Common encoding version {'unset' if common is None else 'set'}",
    }
    existing = next(
        (condition for condition in conditions if condition.get("type") == ALL_ENCODING_VERSIONS_EQUAL), None
    )
    if existing is None:
        return [
            *conditions,
            {"type": ALL_ENCODING_VERSIONS_EQUAL, **new_condition, "lastTransitionTime": format_time(now)},
        ]
    old_common = storage_version.status.common_encoding_version
    force_transition = old_common is not None and common is not None and old_common != common
    if existing.get("status") != new_condition["status"] or force_transition:
        new_condition["lastTransitionTime"] = format_time(now)
    return [condition | new_condition if condition is existing else condition for condition in conditions]
