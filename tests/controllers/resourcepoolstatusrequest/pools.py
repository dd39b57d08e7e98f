"""Builders of slices, claims and requests: manifests for the server, and views for decisions."""

from typing import Any

import msgspec

from pilothouse.api.resource import ResourceClaim, ResourceSlice
from pilothouse.apiserver import ServerOptions

Doc = dict[str, Any]

DRIVER = "test.example.com"
GATES = ServerOptions(gates=("DRAResourcePoolStatus",))
"""Server options with the feature gate of ResourcePoolStatusRequests."""
REQUESTS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLAIM_SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}


def slice_doc(
    name: str,
    pool: str = "pool-1",
    devices: int = 4,
    *,
    driver: str = DRIVER,
    node: str | None = "node-1",
    generation: int = 1,
    expected: int = 1,
    taints: dict[int, str] | None = None,
) -> Doc:
    """A slice with devices ``device-0`` and so on; ``taints`` are effects by number of the device."""
    effects = taints or {}
    listed: list[Doc] = [
        {"name": f"device-{number}", "taints": [{"key": "broken", "effect": effects[number]}]}
        if number in effects
        else {"name": f"device-{number}"}
        for number in range(devices)
    ]
    spec: Doc = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": expected},
        "devices": listed,
    }
    spec |= {"allNodes": True} if node is None else {"nodeName": node}
    return {"metadata": {"name": name}, "spec": spec}


def slice_of(name: str, pool: str = "pool-1", devices: int = 4, **more: Any) -> ResourceSlice:
    """The view of a slice."""
    return msgspec.convert(slice_doc(name, pool, devices, **more), ResourceSlice)


def allocation(*devices: str, pool: str = "pool-1", driver: str = DRIVER, **more: Any) -> Doc:
    """An allocation of a claim."""
    results = [{"request": "gpu", "driver": driver, "pool": pool, "device": device, **more} for device in devices]
    return {"devices": {"results": results}}


def claim_of(*devices: str, **more: Any) -> ResourceClaim:
    """A claim with these allocated devices, or unallocated."""
    status = {"allocation": allocation(*devices, **more)} if devices else {}
    return msgspec.convert({"metadata": {"name": "claim", "namespace": "default"}, "status": status}, ResourceClaim)
