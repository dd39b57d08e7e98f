"""The whole manager with the rights of v1.36's roles, and simulated nodes."""

import msgspec
from tests.traces.kubectl_user import OPTIONS, KubectlUser, replay

from pilothouse.controllermanager.options import Options
from pilothouse.controllers.node.node_ipam import DESCRIPTOR, NodeIpamOptions


def replayed(options: Options) -> tuple[list[list[str]], list[str]]:
    result: list[list[str]] = []

    async def steps(user: KubectlUser) -> None:
        await user.request("POST", "api/v1/nodes", {"metadata": {"name": "late"}})
        await user.at(1.0)
        items = (await user.request("GET", "api/v1/nodes"))["items"]
        result.extend(item["spec"].get("podCIDRs", []) for item in items)

    server = replay("nodes", steps, options=options)
    assert all(decision.allowed for _who, _asked, decision in server.decisions)
    recorded_requests = [
        f"{r.user} {r.verb} {r.resource} {r.body['spec']}" for r in server.records if "podCIDR" in str(r.body)
    ]
    return result, recorded_requests


def test_bootstrap_role_is_sufficient() -> None:
    chosen: dict[str, msgspec.Struct] = {
        DESCRIPTOR.name: NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/16,2001:db8::/48")
    }
    found, asked = replayed(msgspec.structs.replace(OPTIONS, controller_options=chosen))
    second = ("2001:db8::/64", "2001:db8:0:1::/64", "2001:db8:0:2::/64", "2001:db8:0:3::/64")
    assert sorted(found) == [[f"10.0.{number}.0/24", text] for number, text in enumerate(second)]
    spec = {"podCIDR": "10.0.3.0/24", "podCIDRs": ["10.0.3.0/24", "2001:db8:0:3::/64"]}
    assert asked == [f"node-controller patch nodes {spec}"]


def test_pod_cidrs_are_not_allocated_by_default() -> None:
    assert replayed(OPTIONS) == ([[]] * 4, [])
