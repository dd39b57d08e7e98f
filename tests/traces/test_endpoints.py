"""09-service-endpoints, replayed: the Endpoints that upstream wrote of a service, one by one.

Two pods that become ready in the same moment are one write or two, and when Ready changed is told by the simulated
nodes in their own seconds: which writes carry the time of a change is not compared.
"""

import json

from tests.traces.kubectl_user import OPTIONS, replay
from tests.traces.records import Record, recorded
from tests.traces.test_endpointslices import SCENARIO, steps

USER = "endpoint-controller"


def essence(record: Record) -> str:
    """A write without what differs between any two runs."""
    if record.body is None or record.verb == "delete":
        return f"{record.verb} {record.resource}"
    meta = record.body["metadata"]
    subsets = [
        {
            "ready": sorted(address["targetRef"]["name"] for address in subset.get("addresses") or ()),
            "bad": sorted(address["targetRef"]["name"] for address in subset.get("notReadyAddresses") or ()),
            "ports": subset["ports"],
            "fields": sorted({name for address in subset.get("addresses") or () for name in address}),
        }
        for subset in record.body.get("subsets") or ()
    ]
    known = {
        "verb": record.verb,
        "code": record.code,
        "labels": meta["labels"],
        "keys": sorted(set(meta) - {"annotations"}),
    }
    return json.dumps({**known, "subsets": subsets}, sort_keys=True)


def test_endpoints_writes_are_upstreams(seed: int) -> None:
    server = replay(SCENARIO, steps, seed=seed, latency=(0.001, 0.004) if seed else None, options=OPTIONS)
    actual = [
        essence(record)
        for record in server.records
        if record.user == USER and not record.is_read and not record.is_event
    ]
    own_records = [item for item in recorded(SCENARIO) if item.user == USER and item.namespace == SCENARIO]
    expected = [essence(item) for item in own_records if item.name == "web"]
    first_of_two = expected.pop(1)
    assert '"ready": ["a"]' in first_of_two
    one_by_one = [item for item in actual if '"ready": ["b"]' in item or '"ready": ["a"]' in item][:1]
    if len([item for item in actual if item.startswith("{")]) > len(
        [item for item in expected if item.startswith("{")]
    ):
        actual.remove(one_by_one[0])
    assert [item for item in actual if item.startswith("{")] == [item for item in expected if item.startswith("{")]
    assert 1 <= len([item for item in actual if not item.startswith("{")]) <= 2, "the service's end, and its Endpoints'"
