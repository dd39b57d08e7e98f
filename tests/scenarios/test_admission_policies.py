"""Policies that two users change, delete and recreate, under faults: each status matches the current policy."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenarios.users import Doc, RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.policy.validatingadmissionpolicy_status import controller, decide
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.policies import PolicyStatuses

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
OPTIONS = SimulationOptions(nodes=1, controllers=("validatingadmissionpolicy-status-controller",))
RESOURCES = ("validatingadmissionpolicies.admissionregistration.k8s.io",)
SECONDS = 90.0

RIGHT = ("object.spec.leaseDurationSeconds < 5", "object.spec.holderIdentity == 'me'", "true", "variables.most > 3")
WRONG = ("object.spec.leaseDurationSecondz < 5", "object.spec.holderIdentity == 5", "variables.most == 'x'")
MESSAGES = ("", "", "'a lease of ' + object.metadata.name")
WRONG_MESSAGES = ("'a lease of ' + object.metadata.nickname",)


def invariant() -> PolicyStatuses:
    """The invariant with the expected type-checking results."""
    return PolicyStatuses(lambda text: text in (*WRONG, *WRONG_MESSAGES))


def policy(name: str, validations: list[Doc]) -> Doc:
    """A policy for Leases, which are small."""
    rule = {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "resources": ["leases"], "operations": ["*"]}
    variables = [{"name": "most", "expression": "object.spec.leaseDurationSeconds"}]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations, "variables": variables}
    return {"metadata": {"name": name}, "spec": spec}


def validation(expression: str, message: str = "") -> Doc:
    """A validation, with or without a message."""
    return {"expression": expression, **({"messageExpression": message} if message else {})}


class PolicyAuthor(RandomUser):
    """Writes valid and invalid policies, often one that the other user has just written."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.create,
            self.create,
            self.update_spec,
            self.update_spec,
            self.update_spec,
            self.label,
            self.delete,
            self.recreate,
        ]

    def _name(self) -> str:
        return f"p{self._rng.randrange(3)}"

    def _validations(self) -> list[Doc]:
        pick = self._rng.choice
        return [
            validation(pick((*RIGHT, *WRONG)), pick((*MESSAGES, *WRONG_MESSAGES)))
            for _ in range(self._rng.randrange(1, 4))
        ]

    async def create(self) -> None:
        """Create a policy with one of a few names."""
        await self.request("POST", POLICIES, policy(self._name(), self._validations()))

    async def update_spec(self) -> None:
        """Change the spec, sometimes twice in a row."""
        name = self._name()
        for _ in range(self._rng.choice((1, 1, 2))):
            await self.merge(f"{POLICIES}/{name}", {"spec": {"validations": self._validations()}})

    async def label(self) -> None:
        """Change the labels; the generation stays."""
        await self.merge(f"{POLICIES}/{self._name()}", {"metadata": {"labels": {"at": str(self._rng.random())}}})

    async def delete(self) -> None:
        """Delete a policy."""
        await self.request("DELETE", f"{POLICIES}/{self._name()}")

    async def recreate(self) -> None:
        """Delete a policy and create another one of that name, whose generation is 1."""
        name = self._name()
        await self.request("DELETE", f"{POLICIES}/{name}")
        await self.request("POST", POLICIES, policy(name, self._validations()))


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (invariant(),))
async def test_policy_status_matches_the_current_policy(simulation: Simulation, seed: int) -> None:
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), *(PolicyAuthor(simulation).run_actions(15) for _ in range(2)))
    await simulation.run_until_idle()
    (statuses,) = simulation.invariants
    assert isinstance(statuses, PolicyStatuses)
    assert statuses.reports


async def recreated(simulation: Simulation) -> None:
    """A policy is recreated while the manager, which has not observed it, writes the status."""
    user = PolicyAuthor(simulation)
    refused = simulation.add_rule(Rule(fail(500), verb="patch", resource="validatingadmissionpolicies"))
    await user.request("POST", POLICIES, policy("p", [validation(RIGHT[0])]))
    for _ in range(2):
        await user.merge(f"{POLICIES}/p", {"spec": {"validations": [validation(expression) for expression in RIGHT]}})
    await asyncio.sleep(3.0)
    with simulation.held_watches("validatingadmissionpolicies"):
        await user.request("DELETE", f"{POLICIES}/p")
        await user.request("POST", POLICIES, policy("p", [validation(WRONG[0])]))
        simulation.remove_rule(refused)
        await asyncio.sleep(30.0)
    await simulation.run_until_idle()


async def edited(simulation: Simulation) -> None:
    """A policy is changed, and the restarted manager begins with the previous state."""
    user = PolicyAuthor(simulation)
    refused = simulation.add_rule(Rule(fail(500), verb="patch", resource="validatingadmissionpolicies"))
    await user.request("POST", POLICIES, policy("p", [validation(RIGHT[0])]))
    await asyncio.sleep(3.0)
    simulation.replica.set_lag(None)
    simulation.remove_rule(refused)
    await asyncio.sleep(30.0)
    await user.merge(f"{POLICIES}/p", {"spec": {"validations": [validation(RIGHT[1])]}})
    await asyncio.sleep(3.0)
    simulation.kill(stale=True)
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()


def unconditional(*args: Any) -> Doc:
    """Upstream's controller writes the status to whatever policy has the name, and does not sync it again if its
    generation is smaller than the observed one."""
    body = decide.configuration(*args)
    return {**body, "metadata": {"name": body["metadata"]["name"]}}


@pytest.mark.parametrize(
    ("scenario", "wrong"),
    [(recreated, "the policy is at 1"), (edited, "was observed after")],
    ids=["recreated", "edited"],
)
@broken_without(
    (controller, "configuration", unconditional),
    fails=lambda wrong: wrong,
    options=OPTIONS,
    invariants=lambda: (invariant(),),
)
async def test_stale_policy_is_not_type_checked(simulation: Simulation, scenario: Any, wrong: str) -> None:
    await scenario(simulation)


def few_policies(spec: Any) -> Any:
    return [expression for expression in decide.expressions(spec) if expression[0].endswith(".expression")]


@pytest.mark.simulation(
    fails=r"invalid are \['spec.validations\[0\].messageExpression'\]",
    patches=[(controller, "expressions", few_policies)],
    options=OPTIONS,
    invariants=lambda: (invariant(),),
)
async def test_invariant_detects_missed_policies(simulation: Simulation) -> None:
    await PolicyAuthor(simulation).request("POST", POLICIES, policy("p", [validation(RIGHT[0], WRONG_MESSAGES[0])]))
    await asyncio.sleep(3.0)
