"""Type checking of policies and its status, on the embedded API server."""

import asyncio
from typing import Any

from tests.controllers.node_world import World, started

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.policy.validatingadmissionpolicy_status import DESCRIPTOR

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


world = started(DESCRIPTOR)


async def policy(world: World, *expressions: str, name: str = "p", **more: Any) -> dict[str, Any]:
    """Create a policy about Deployments."""
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": e} for e in expressions]}
    created = await world.request("POST", POLICIES, {"metadata": {"name": name}, "spec": {**spec, **more}})
    await asyncio.sleep(1)
    return created


async def status(world: World, name: str = "p") -> dict[str, Any]:
    """The status of the policy."""
    obj: dict[str, Any] = (await world.must_get(f"{POLICIES}/{name}")).get("status") or {}
    return obj


async def test_type_checking_warnings_are_in_the_status(world: World) -> None:
    await policy(world, "object.spec.replicas < 5", "object.spec.replicaz < 5", "object.spec.replicas == 'x'")
    result = await status(world)
    assert result["observedGeneration"] == 1
    first, second = result["typeChecking"]["expressionWarnings"]
    assert first == {
        "fieldRef": "spec.validations[1].expression",
        "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'\n"
        " | object.spec.replicaz < 5\n | ...........^\n",
    }
    assert second["fieldRef"] == "spec.validations[2].expression"
    assert "found no matching overload for '_==_' applied to '(int, string)'" in second["warning"]
    assert world.requests(reads=False) == ["patch validatingadmissionpolicies/status p"]


async def test_policy_without_matching_kinds_has_no_warnings(world: World) -> None:
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]
    await policy(world, "object.anything == 1", matchConstraints={"resourceRules": rules})
    rules = [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "resources": ["xs"], "operations": ["*"]}]
    await policy(world, "object.anything == 1", name="q", matchConstraints={"resourceRules": rules})
    for name in ("p", "q"):
        assert await status(world, name) == {"observedGeneration": 1, "typeChecking": {}}


async def test_each_generation_is_type_checked_once(world: World) -> None:
    created = await policy(world, "object.spec.replicaz < 5")
    await world.merge(f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(60)
    assert world.requests(reads=False) == ["patch validatingadmissionpolicies/status p"]
    better = [{"expression": "object.spec.replicas < 5"}]
    await world.merge(f"{POLICIES}/p", {"spec": {"validations": better}})
    await asyncio.sleep(1)
    assert created["metadata"]["generation"] == 1
    result = await status(world)
    assert (result["observedGeneration"], result.get("typeChecking") or {}) == (2, {})


async def test_every_served_kind_has_a_declared_type(world: World) -> None:
    """Also kinds with quantities, ports, and recursive schemas."""
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "services"], "operations": ["*"]},
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "apiVersions": ["v1"],
            "resources": ["customresourcedefinitions"],
            "operations": ["*"],
        },
    ]
    constraints = {"resourceRules": rules}
    await policy(world, "object.metadata.labels['a'] == 'b'", matchConstraints=constraints)
    assert await status(world) == {"observedGeneration": 1, "typeChecking": {}}
    await policy(world, "object.metadata.labelz == 'b'", name="q", matchConstraints=constraints)
    (warnings,) = (await status(world, "q"))["typeChecking"]["expressionWarnings"]
    kinds = [line.partition(": ")[0] for line in warnings["warning"].splitlines() if "Kind=" in line]
    assert kinds == ["/v1, Kind=Pod", "/v1, Kind=Service", "apiextensions.k8s.io/v1, Kind=CustomResourceDefinition"]


async def test_params_and_variables_have_types(world: World) -> None:
    await policy(
        world,
        "variables.most == params.data",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "most", "expression": "object.spec.replicas"}],
    )
    (warnings,) = (await status(world))["typeChecking"]["expressionWarnings"]
    assert "found no matching overload for '_==_' applied to '(int, map(string, string))'" in warnings["warning"]


async def test_params_of_an_unknown_kind_are_dyn(world: World) -> None:
    """A policy that is applied before the definition of its paramKind: v1.36 ``typechecking.go`` (``buildEnvSet``,
    ``createVariableOpts``) declares ``params`` all the same."""
    expressions = "object.spec.replicas <= params.limit.most", "params == null || object.spec.replicaz < 5"
    kind = {"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"}
    await policy(world, *expressions, paramKind=kind)
    (warnings,) = (await status(world))["typeChecking"]["expressionWarnings"]
    assert warnings["fieldRef"] == "spec.validations[1].expression"
    assert "undefined field 'replicaz'" in warnings["warning"]
    assert "undeclared reference" not in warnings["warning"]


async def test_failed_status_update_is_retried(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="patch", resource="validatingadmissionpolicies", nth=1))
    await policy(world, "true")
    await asyncio.sleep(5)
    assert await status(world) == {"observedGeneration": 1, "typeChecking": {}}
    assert world.requests(reads=False) == ["patch validatingadmissionpolicies/status p"] * 2
