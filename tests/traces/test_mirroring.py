"""09-service-endpoints, second part, replayed: custom Endpoints and their mirrored slice."""

import json
from typing import Any

from tests.traces.records import Record, recorded
from tests.traces.stage import OPTIONS, Stage, play

SCENARIO = "09-service-endpoints"
USER = "endpointslicemirroring-controller"


async def steps(stage: Stage) -> None:
    """Its steps from the service without selector on."""
    endpoints = f"api/v1/namespaces/{stage.namespace}/endpoints"
    port = [{"port": 8080}]
    await stage.at(25.261)
    await stage.request("POST", stage.path("Service"), {"metadata": {"name": "ext"}, "spec": {"ports": [{"port": 80}]}})
    both = [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]
    body = {"metadata": {"name": "ext"}, "subsets": [{"addresses": both, "ports": port}]}
    await stage.request("POST", endpoints, body)
    await stage.at(28.473)
    one = {"subsets": [{"addresses": both[:1], "ports": port}]}
    await stage.request("PATCH", f"{endpoints}/ext", one, "application/merge-patch+json")
    await stage.at(31.643)
    await stage.request("DELETE", f"{endpoints}/ext")
    await stage.at(34.787)
    await stage.delete("Service", "ext")
    await stage.at(40.0)


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
    server = play(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None, options=OPTIONS)
    ours = [each for each in server.records if each.user == USER and not each.is_read]
    theirs = [each for each in recorded(SCENARIO) if each.user == USER and not each.is_read]
    assert [essence(each) for each in ours] == [essence(each) for each in theirs]
    assert [each.verb for each in theirs] == ["create", "update", "delete"]
    assert not [each for each in ours if each.is_event]
    names = {each.name for each in ours if each.name}
    assert len(names) == 1, "one slice"
