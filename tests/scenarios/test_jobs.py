"""Jobs under faults: every pod counts once and as it ended, never more run than may, and no finalizer is left."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenarios.users import NAMESPACE, Doc, User
from tests.scenarios.variants import broken_without

from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.workloads.job import JobOptions, orphans
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import Crash, FaultPlan, JumpClock
from pilothouse.sim.invariants.jobs import TRACKING, Jobs

ALL = "/apis/batch/v1/namespaces/default/jobs"
WORK = f"{ALL}/work"
PODS = f"{NAMESPACE}/pods"
OPTIONS = SimulationOptions(controllers=("job", "garbagecollector"))
RESOURCES = ("jobs", "pods")
SECONDS = 60.0
STALE = replace(OPTIONS, controller_options={"job-controller": JobOptions(wait_for_own_writes=False)})
pytestmark = pytest.mark.simulation(options=OPTIONS, seed=1, invariants=lambda: (Jobs(bounded=True),))
UNBOUNDED = pytest.mark.simulation(invariants=lambda: (Jobs(bounded=False),))


def work(*, run: str = "3s", code: str = "0", template: Doc | None = None, **spec: Any) -> Doc:
    """A Job whose pods run so long and end with this code."""
    pod = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    notes = {"simulated.pilothouse.dev/run-time": run, "simulated.pilothouse.dev/exit-code": code}
    whole = {"metadata": {"annotations": notes, **(template or {})}, "spec": pod}
    return {"metadata": {"name": "work"}, "spec": {"template": whole, **spec}}


class Employer(User):
    """Has work done, and interferes."""

    async def running(self) -> list[Doc]:
        return [pod for pod in await self.items(PODS) if pod["status"].get("phase") == "Running"]

    async def fail(self, chance: random.Random) -> None:
        """A pod ends badly, as when its node runs out of memory."""
        found = await self.running()
        if found:
            path = f"{PODS}/{chance.choice(found)['metadata']['name']}/status"
            await self.merge(path, {"status": {"phase": "Failed", "reason": "Evicted"}})

    async def delete_pod(self, chance: random.Random) -> None:
        found = await self.items(PODS)
        if found:
            body = chance.choice(({}, {"gracePeriodSeconds": 0}))
            await self.ask("DELETE", f"{PODS}/{chance.choice(found)['metadata']['name']}", body)

    async def delete(self, policy: str) -> None:
        await self.ask("DELETE", WORK, {"propagationPolicy": policy})

    async def status(self) -> Doc:
        found = await self.get(WORK)
        assert found is not None
        status: Doc = found["status"]
        return status

    async def finalizers(self) -> dict[str, list[str]]:
        return {pod["metadata"]["name"]: pod["metadata"].get("finalizers", []) for pod in await self.items(PODS)}


def plan_of(chance: random.Random) -> FaultPlan:
    """Whoever starts lists from a server that is up to date: names are generated, and a process that knows nothing of
    what was done before it, and is shown an old world, does it again. And clocks are not set back: the wait after a
    failure goes by what they say, as upstream's, and a pod would be made a day late."""
    plan = draw(chance, SECONDS, count=8, resources=RESOURCES, restarts=True)
    forward = [each for each in plan.faults if not (isinstance(each, JumpClock) and each.seconds < 0)]
    return FaultPlan(tuple(replace(each, stale=False) if isinstance(each, Crash) else each for each in forward))


async def under_faults(
    simulation: Simulation,
    first: Doc,
    actions: Callable[[Employer, random.Random], list[Callable[[], Awaitable[None]]]],
    finish: Callable[[Employer], Awaitable[None]] | None = None,
) -> None:
    user = Employer(simulation.user)
    await user.ask("POST", ALL, first)
    chance = simulation.env.stream("user")

    async def interfere() -> None:
        for _ in range(12):
            await asyncio.sleep(chance.choice((0.05, 0.5, 3.0, 10.0)))
            with contextlib.suppress(ApiError):  # rejected, or gone
                await chance.choice(actions(user, chance))()

    await asyncio.gather(simulation.follow(plan_of(simulation.env.stream("plan"))), interfere())
    if finish is not None:
        simulation.heal()
        await finish(user)
    await simulation.settle()


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
async def test_what_is_counted_is_what_happened(simulation: Simulation, seed: int, mode: str, policy: str) -> None:
    """Some pods fail. Exactly as many succeed as were asked for, and all of them count, once."""
    job = work(completions=7, parallelism=3, backoffLimit=100, completionMode=mode, podReplacementPolicy=policy)
    await under_faults(simulation, job, lambda user, chance: [lambda: user.fail(chance)])


async def test_of_what_fails_each_index_has_its_own_count(simulation: Simulation, seed: int) -> None:
    job = work(completions=5, parallelism=3, backoffLimitPerIndex=1, completionMode="Indexed")
    await under_faults(simulation, job, lambda user, chance: [lambda: user.fail(chance)])


def rough(user: Employer, chance: random.Random) -> list[Callable[[], Awaitable[None]]]:
    """Also pods that are deleted, a Job that rests, is made wider or made again."""

    async def again() -> None:
        await user.delete(chance.choice(("Background", "Foreground", "Orphan")))
        await asyncio.sleep(chance.choice((0.0, 0.05, 3.0)))
        await user.ask("POST", ALL, work(completions=4, parallelism=2, backoffLimit=100))

    return [
        lambda: user.fail(chance),
        lambda: user.delete_pod(chance),
        lambda: user.merge(WORK, {"spec": {"suspend": chance.choice((True, False))}}),
        lambda: user.merge(WORK, {"spec": {"parallelism": chance.choice((0, 1, 5))}}),
        again,
    ]


@UNBOUNDED
async def test_whatever_happens_to_pods_and_jobs_nothing_is_left_behind(simulation: Simulation, seed: int) -> None:
    """No finalizer stays, no count runs ahead of what happened, and the Job that is there at last comes to its end."""

    async def finish(user: Employer) -> None:
        await asyncio.sleep(60.0)
        if await user.get(WORK) is None:
            await user.ask("POST", ALL, work(completions=1))
        with contextlib.suppress(ApiError):
            await user.merge(WORK, {"spec": {"suspend": False, "parallelism": 2}})

    job = work(completions=4, parallelism=2, backoffLimit=100)
    await under_faults(simulation, job, rough, finish)


# Named bugs


def invariant_of(simulation: Simulation) -> Jobs:
    (invariant,) = simulation.invariants
    assert isinstance(invariant, Jobs)
    return invariant


@broken_without(fails="active pod number 2", instead=STALE)
async def test_130683_one_pod_minutes_after_the_other(simulation: Simulation) -> None:
    """kubernetes#130683: one completion, one at a time, and a second pod five minutes later: the expectation of the
    first had expired before the cache showed it."""
    user = Employer(simulation.user)
    with simulation.held_watches("pods"):
        await user.ask("POST", ALL, work(run="20m", completions=1, parallelism=1))
        await asyncio.sleep(330.0)
    await simulation.settle(quiet=2400.0)
    assert invariant_of(simulation).made == 1


@broken_without(fails="2 of 2 are done, 1 run", instead=STALE)
async def test_137210_a_job_as_it_was_before_its_pod_was_counted(simulation: Simulation) -> None:
    """kubernetes#137210: the cache shows the Job as of before a pod was counted, and that pod is gone: by what is seen
    one completion more is missing."""
    user = Employer(simulation.user)
    await user.ask("POST", ALL, work(run="10s", completions=2, parallelism=1))
    await asyncio.sleep(5.0)
    with simulation.held_watches("jobs"):
        for _ in range(60):
            await asyncio.sleep(0.5)
            names = await user.finalizers()
            counted = [name for name, finalizers in names.items() if TRACKING not in finalizers]
            if counted:
                break
        else:
            raise AssertionError(f"no pod was counted: {names}")
        await user.ask("DELETE", f"{PODS}/{counted[0]}", {"gracePeriodSeconds": 0})
        await asyncio.sleep(60.0)
    await simulation.settle()
    assert invariant_of(simulation).made == 2


@UNBOUNDED
async def test_28486_after_a_restart_no_more_run_than_are_missing(simulation: Simulation) -> None:
    """kubernetes#28486: while nobody looked all completions were reached, and two more pods came along."""
    user = Employer(simulation.user)
    await user.ask("POST", ALL, work(run="30s", completions=3, parallelism=3))
    await asyncio.sleep(5.0)
    simulation.kill(down=60.0)
    await asyncio.sleep(1.0)
    (first, *_) = await user.items(PODS)
    for name in ("more-1", "more-2"):
        notes = {"simulated.pilothouse.dev/run-time": "forever"}
        meta = {"name": name, "labels": first["metadata"]["labels"], "annotations": notes}
        await user.ask("POST", PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await simulation.settle()
    status = await user.status()
    assert (status["succeeded"], status.get("failed", 0)) == (3, 0)
    assert not {"more-1", "more-2"} & {pod["metadata"]["name"] for pod in await user.items(PODS)}


async def test_27997_pods_that_always_fail_are_few_and_far_between(simulation: Simulation) -> None:
    """kubernetes#27997: 84,000 pods of one Job. By default seven are made, each after twice the time."""
    user = Employer(simulation.user)
    began = simulation.env.monotonic()
    await user.ask("POST", ALL, work(run="1s", code="1"))
    for _ in range(1000):
        await asyncio.sleep(1.0)
        conditions = (await user.status()).get("conditions") or []
        if any(each["type"] == "Failed" for each in conditions):
            break
    assert invariant_of(simulation).made == 7
    assert simulation.env.monotonic() - began > 10 + 20 + 40 + 80 + 160 + 320
    await simulation.settle()
    assert (await user.status())["failed"] == invariant_of(simulation).made == 7


@UNBOUNDED
@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("restarted", [False, True], ids=["seen", "while it was away"])
async def test_108645_a_pod_that_was_going_already_when_its_job_went(
    simulation: Simulation, policy: str, restarted: bool
) -> None:
    """kubernetes#108645: nobody took its finalizer, and its namespace could not go."""
    user = Employer(simulation.user)
    # Nobody takes the finalizer until the pod has ended: it is still there when the Job goes.
    job = work(run="10m", completions=2, parallelism=2, podReplacementPolicy="Failed")
    job["spec"]["template"]["metadata"]["annotations"]["simulated.pilothouse.dev/stop-delay"] = "30s"
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    await user.ask("POST", ALL, job)
    await asyncio.sleep(5.0)
    (first, *_) = await user.items(PODS)
    await user.ask("DELETE", f"{PODS}/{first['metadata']['name']}", {})
    await asyncio.sleep(2.0)
    assert TRACKING in (await user.finalizers())[first["metadata"]["name"]]
    if restarted:
        simulation.kill(down=20.0)
    await user.delete(policy)
    await simulation.settle()
    assert await user.get(WORK) is None
    left = await user.finalizers()
    assert first["metadata"]["name"] not in left
    assert len(left) == (1 if policy == "Orphan" else 0)


@UNBOUNDED
@pytest.mark.parametrize("held", ["jobs", "pods", ""], ids=["Jobs late", "pods late", "all late"])
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_109429_a_deletion_that_overtakes_the_counting(simulation: Simulation, policy: str, held: str) -> None:
    """kubernetes#109429: the garbage collector deletes the pods of a Job that goes, and whoever is to take their
    finalizers hears of one of the two late."""
    user = Employer(simulation.user)
    await user.ask("POST", ALL, work(run="8s", completions=6, parallelism=3))
    await asyncio.sleep(7.5)
    with simulation.held_watches(held):
        await user.delete(policy)
        await asyncio.sleep(90.0)
    await simulation.settle()
    assert await user.get(WORK) is None
    assert await user.items(PODS) == []


@UNBOUNDED
@pytest.mark.parametrize("restarted", [False, True], ids=["by the same process", "by the next"])
async def test_127917_a_finalizer_that_could_not_be_taken_is_taken_when_it_can(
    simulation: Simulation, restarted: bool
) -> None:
    """kubernetes#127917: every patch of the pod was refused as invalid, for what somebody else had made of it."""
    user = Employer(simulation.user)
    await user.ask("POST", ALL, work(run="10m", completions=2, parallelism=2))
    await asyncio.sleep(5.0)
    refusal = simulation.add_rule(Rule(fail(422, "Invalid"), verb="patch", resource="pods"))
    await user.delete("Background")
    await asyncio.sleep(900.0)
    assert len(await user.items(PODS)) == 2
    if restarted:
        simulation.kill(down=5.0)
        await asyncio.sleep(60.0)
    simulation.remove_rule(refusal)
    await asyncio.sleep(120.0)
    assert await user.items(PODS) == []
    await simulation.settle()


@broken_without(
    (orphans, "is_of_a_job", lambda reference: reference.kind == "Job"),
    fails="AssertionError",
    options=replace(OPTIONS, controllers=("job",)),
)
async def test_124798_the_finalizer_of_another_kind_of_job_is_not_ours(simulation: Simulation) -> None:
    """kubernetes#124798: a pod whose owner is a Job of another group has the same finalizer, for its own ends."""
    user = Employer(simulation.user)
    owner = {"apiVersion": "batch.example.com/v1", "kind": "Job", "name": "theirs", "uid": "u", "controller": True}
    meta = {"name": "p", "finalizers": [TRACKING], "ownerReferences": [owner]}
    await user.ask("POST", PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await asyncio.sleep(10.0)
    simulation.kill(down=1.0)
    await asyncio.sleep(60.0)
    assert await user.finalizers() == {"p": [TRACKING]}


async def test_142142_a_job_of_the_same_name_is_another_one(simulation: Simulation) -> None:
    """kubernetes#142142: deleted and made again while its pods were being counted, it never got any pods."""
    user = Employer(simulation.user)
    slow = simulation.add_rule(Rule(delay(3.0, 3.0), verb="update", resource="jobs"))
    await user.ask("POST", ALL, work(run="2s", completions=2, parallelism=2))
    await asyncio.sleep(8.0)  # the first count is on its way
    await user.delete("Background")
    await user.ask("POST", ALL, work(run="2s", completions=2, parallelism=2))
    await asyncio.sleep(60.0)
    simulation.remove_rule(slow)
    await simulation.settle()
    assert (await user.status())["succeeded"] == 2
