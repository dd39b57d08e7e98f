"""09-service-endpoints, second part, replayed: custom Endpoints and their mirrored slice."""

import json
from typing import Any

from tests.traces.kubectl_user import OPTIONS, KubectlUser, replay
from tests.traces.records import Record, recorded

SCENARIO = "09-service-endpoints"
USER = "endpointslicemirroring-controller"


async def steps(user: KubectlUser) -> None:
    """Its steps from the service without selector on."""
    endpoints = f"api/v1/namespaces/{user.namespace}/endpoints"
    port = [{"port": 8080}]
    await user.at(25.261)
    await user.request("POST", user.path("Service"), {"metadata": {"name": "ext"}, "spec": {"ports": [{"port": 80}]}})
    both = [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]
    body = {"metadata": {"name": "ext"}, "subsets": [{"addresses": both, "ports": port}]}
    await user.request("POST", endpoints, body)
    await user.at(28.473)
    one = {"subsets": [{"addresses": both[:1], "ports": port}]}
    await user.request("PATCH", f"{endpoints}/ext", one, "application/merge-patch+json")
    await user.at(31.643)
    await user.request("DELETE", f"{endpoints}/ext")
    await user.at(34.787)
    await user.delete("Service", "ext")
    await user.at(40.0)


def essence(record: Record) -> str:
    """A write without what differs between any two runs."""
    if record.verb == "delete":
        return f"delete {record.resource} {record.name.partition('-')[0]}"
    body: dict[str, Any] = json.loads(json.dumps(record.body))
    body["metadata"].pop("name", None)
    for owner in body["metadata"]["ownerReferences"]:
        owner["uid"] = ""
    return json.dumps({"verb": record.verb, "code": record.code, "body": body}, sort_keys=True)


def test_custom_endpoints_are_mirrored_as_recorded(seed: int) -> None:
    """When the Endpoints go, the garbage collector deletes the slice as well: either may be first."""
    server = replay(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None, options=OPTIONS)
    actual = [record for record in server.records if record.user == USER and not record.is_read]
    expected = [item for item in recorded(SCENARIO) if item.user == USER and not item.is_read]
    assert [essence(item) for item in actual] == [essence(item) for item in expected]
    assert [item.verb for item in expected] == ["create", "update", "delete"]
    assert not [item for item in actual if item.is_event]
    names = {item.name for item in actual if item.name}
    assert len(names) == 1, "one slice"
