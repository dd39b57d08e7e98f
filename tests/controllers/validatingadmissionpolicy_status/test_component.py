"""Policies and what is said of them, before the embedded API server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.controllers.node_world import World, play

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.policy.validatingadmissionpolicy_status import DESCRIPTOR

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def running(story: Callable[[World], Awaitable[None]]) -> None:
    async def with_controller(world: World) -> None:
        await world.start(DESCRIPTOR)
        await story(world)

    play(with_controller)


async def policy(world: World, *expressions: str, name: str = "p", **more: Any) -> dict[str, Any]:
    """Make a policy about Deployments."""
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": e} for e in expressions]}
    made = await world.request("POST", POLICIES, {"metadata": {"name": name}, "spec": {**spec, **more}})
    await asyncio.sleep(1)
    return made


async def status(world: World, name: str = "p") -> dict[str, Any]:
    """What is said of it."""
    found: dict[str, Any] = (await world.see(f"{POLICIES}/{name}")).get("status") or {}
    return found


def test_what_is_found_stands_in_the_status() -> None:
    async def story(world: World) -> None:
        await policy(world, "object.spec.replicas < 5", "object.spec.replicaz < 5", "object.spec.replicas == 'x'")
        told = await status(world)
        assert told["observedGeneration"] == 1
        first, second = told["typeChecking"]["expressionWarnings"]
        assert first == {
            "fieldRef": "spec.validations[1].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicaz'\n"
            " | object.spec.replicaz < 5\n | ...........^\n",
        }
        assert second["fieldRef"] == "spec.validations[2].expression"
        assert "found no matching overload for '_==_' applied to '(int, string)'" in second["warning"]
        assert world.requests(reads=False) == ["patch validatingadmissionpolicies/status p"]

    running(story)


def test_a_policy_about_nothing_has_nothing_wrong() -> None:
    async def story(world: World) -> None:
        rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]
        await policy(world, "object.anything == 1", matchConstraints={"resourceRules": rules})
        rules = [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "resources": ["xs"], "operations": ["*"]}]
        await policy(world, "object.anything == 1", name="q", matchConstraints={"resourceRules": rules})
        for name in ("p", "q"):
            assert await status(world, name) == {"observedGeneration": 1, "typeChecking": {}}

    running(story)


def test_each_generation_is_looked_at_once() -> None:
    async def story(world: World) -> None:
        made = await policy(world, "object.spec.replicaz < 5")
        await world.merge(f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(60)
        assert world.requests(reads=False) == ["patch validatingadmissionpolicies/status p"]
        better = [{"expression": "object.spec.replicas < 5"}]
        await world.merge(f"{POLICIES}/p", {"spec": {"validations": better}})
        await asyncio.sleep(1)
        assert made["metadata"]["generation"] == 1
        told = await status(world)
        assert (told["observedGeneration"], told.get("typeChecking") or {}) == (2, {})

    running(story)


def test_whole_objects_of_every_served_kind_have_types() -> None:
    """Also those with quantities, ports, and schemas that contain themselves."""

    async def story(world: World) -> None:
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
        (told,) = (await status(world, "q"))["typeChecking"]["expressionWarnings"]
        kinds = [line.partition(": ")[0] for line in told["warning"].splitlines() if "Kind=" in line]
        assert kinds == ["/v1, Kind=Pod", "/v1, Kind=Service", "apiextensions.k8s.io/v1, Kind=CustomResourceDefinition"]

    running(story)


def test_parameters_and_variables_have_types() -> None:
    async def story(world: World) -> None:
        await policy(
            world,
            "variables.most == params.data",
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            variables=[{"name": "most", "expression": "object.spec.replicas"}],
        )
        (told,) = (await status(world))["typeChecking"]["expressionWarnings"]
        assert "found no matching overload for '_==_' applied to '(int, map(string, string))'" in told["warning"]

    running(story)


def test_what_fails_is_tried_again() -> None:
    async def story(world: World) -> None:
        world.faults.add(Rule(fail(500), verb="patch", resource="validatingadmissionpolicies", nth=1))
        await policy(world, "true")
        await asyncio.sleep(5)
        assert await status(world) == {"observedGeneration": 1, "typeChecking": {}}
        assert world.requests(reads=False) == ["patch validatingadmissionpolicies/status p"] * 2

    running(story)
