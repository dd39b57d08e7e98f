"""Allocations of generated claims, recorded from the allocator of v1.36.2.

Each row has slices, classes, claims, the node, what is allocated, and the result or error.
"""

from pathlib import Path
from typing import Any

import msgspec
from tests.scheduler.plugins.dynamic_resources.structured.allocation import allocate

ROWS = (Path(__file__).parent / "data" / "allocations.jsonl").read_bytes().splitlines()


def test_recorded_allocations() -> None:
    for number, line in enumerate(ROWS):
        row: dict[str, Any] = msgspec.json.decode(line)
        classes = {
            one["metadata"]["name"]: {
                **one["spec"],
                "selectors": [selector["cel"]["expression"] for selector in one["spec"].get("selectors", ())],
            }
            for one in row["classes"]
        }
        result = allocate(
            row.get("slices", ()), *row["claims"], classes=classes, node=row["node"], allocated=_allocated(row)
        )
        expected = row.get("error") or row["result"]
        assert (result if isinstance(result, str) else msgspec.json.decode(msgspec.json.encode(result))) == expected, (
            f"row {number}"
        )


def _allocated(row: dict[str, Any]) -> list[dict[str, Any]]:
    consumed = {tuple(one["ID"]): one["Cap"] for one in row.get("capacities", ())}
    devices = [(*device, None) for device in row.get("devices", ())] + row.get("shared", [])
    return [
        {
            "driver": driver,
            "pool": pool,
            "device": device,
            "shareID": share,
            "consumedCapacity": consumed.get((driver, pool, device), {}),
        }
        for driver, pool, device, share in devices
    ]
