"""The remaining status of a StorageVersion: rows mirror ``pkg/controller/storageversiongc/gc_controller_test.go`` and
the apiserver library's ``storageversion/updater_test.go`` of v1.36."""

import datetime
import json
from pathlib import Path
from typing import Any

import msgspec
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.api.apiserverinternal import StorageVersion
from pilothouse.controllers.cleanup.storageversion_garbage_collector.decide import api_server_ids, remove_servers

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
EARLIER = "2025-01-01T00:00:00Z"

_UPDATED, _ON = "Test_StorageVersionUpdatedWith", "EncodingVersions"
COVERED: Cases = {
    f"{_UPDATED}All{_ON}EqualOnLeaseDeletion": "test_common_encoding_version_of_the_remaining_servers",
    f"{_UPDATED}Different{_ON}OnLeaseDeletion": "test_lease_of_an_unlisted_server_changes_nothing",
    "Test_StorageVersionContainsInvalidLeaseID": "test_server_without_a_lease_is_removed",
    "Test_StorageVersionDeletedOnLeaseDeletion": "test_status_without_servers_is_empty",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def entry(number: int, version: str) -> dict[str, Any]:
    """How a server stores it, with something that no view shows."""
    return {"apiServerID": f"s{number}", "encodingVersion": version, "decodableVersions": [version]}


def condition(status: str, at: str = EARLIER) -> dict[str, Any]:
    """Whether all agree."""
    word = {"True": "Set", "False": "Unset"}[status]
    return {
        "type": "AllEncodingVersionsEqual",
        "status": status,
        "observedGeneration": 3,
        "reason": f"CommonEncodingVersion{word}",
        "message": f"Common encoding version {word.lower()}",
        "lastTransitionTime": at,
    }


OTHER = {"type": "Other", "status": "True", "reason": "x"}
NEW = "2026-01-01T00:00:00Z"


def left(entries: list[dict[str, Any]], deleted: set[str], *conditions: Any, common: str | None = None) -> Any:
    """Its status afterwards; None without entries."""
    status: dict[str, Any] = {"storageVersions": entries, "conditions": list(conditions)}
    if common is not None:
        status["commonEncodingVersion"] = common
    raw = json.dumps({"metadata": {"name": "x", "generation": 3}, "spec": {}, "status": status}).encode()
    body = remove_servers(raw, msgspec.json.decode(raw, type=StorageVersion), deleted, NOW)
    return None if body is None else json.loads(body)["status"]


@cases(
    "versions, before, common, expected",
    {
        "equal, no condition": (("v2", "v2"), (), "v1", ("v2", condition("True", NEW))),
        "equal, condition False": (("v2", "v2"), (condition("False"),), None, ("v2", condition("True", NEW))),
        "equal, no change": (("v2", "v2"), (condition("True"),), "v2", ("v2", condition("True"))),
        "equal, another version": (("v2", "v2"), (condition("True"),), "v1", ("v2", condition("True", NEW))),
        "different, condition True": (("v1", "v2"), (condition("True"),), "v1", (None, condition("False", NEW))),
        "different, condition False": (("v1", "v2"), (condition("False"),), None, (None, condition("False"))),
    },
)
def test_common_encoding_version(
    versions: tuple[str, str], before: tuple[Any, ...], common: str | None, expected: tuple[str | None, Any]
) -> None:
    entries = [entry(0, "v9"), *(entry(number, version) for number, version in enumerate(versions, 1))]
    result = left(entries, {"s0"}, OTHER, *before, common=common)
    assert result["storageVersions"] == entries[1:]
    assert (result.get("commonEncodingVersion"), result["conditions"]) == (expected[0], [OTHER, expected[1]])


def test_status_without_servers_is_empty() -> None:
    assert left([entry(1, "v1")], {"s1"}) is None
    assert left([], {"s1"}) is None


def test_servers_of_a_storage_version() -> None:
    result = msgspec.convert({"status": {"storageVersions": [entry(2, "v1"), entry(1, "v1")]}}, StorageVersion)
    assert api_server_ids(result) == ("s2", "s1")
