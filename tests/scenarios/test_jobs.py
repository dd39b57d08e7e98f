"""Jobs under faults: every pod is counted once, parallelism is not exceeded, and no finalizer leaks."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenarios.users import NAMESPACE, Doc, User

from pilothouse.client.errors import ApiError
from pilothouse.controllers.workloads.job import JobOptions
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import Crash, FaultPlan, JumpClock
from pilothouse.sim.invariants.jobs import Jobs

ALL = "/apis/batch/v1/namespaces/default/jobs"
WORK = f"{ALL}/work"
PODS = f"{NAMESPACE}/pods"
OPTIONS = SimulationOptions(controllers=("job", "garbagecollector"))
RESOURCES = ("jobs", "pods")
SECONDS = 60.0
STALE = replace(OPTIONS, controller_options={"job-controller": JobOptions(wait_for_own_writes=False)})
pytestmark = pytest.mark.simulation(options=OPTIONS, seed=1, invariants=lambda: (Jobs(bounded=True),))
UNBOUNDED = pytest.mark.simulation(invariants=lambda: (Jobs(bounded=False),))


def job_of(*, run: str = "3s", code: str = "0", template: Doc | None = None, **spec: Any) -> Doc:
    """A Job whose pods run for ``run`` and terminate with the exit code."""
    pod = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    notes = {"simulated.pilothouse.dev/run-time": run, "simulated.pilothouse.dev/exit-code": code}
    whole = {"metadata": {"annotations": notes, **(template or {})}, "spec": pod}
    return {"metadata": {"name": "work"}, "spec": {"template": whole, **spec}}


class JobUser(User):
    """Changes Jobs and their pods."""

    async def running(self) -> list[Doc]:
        return [pod for pod in await self.items(PODS) if pod["status"].get("phase") == "Running"]

    async def fail(self, rng: random.Random) -> None:
        """A pod fails, as when its node is out of memory."""
        result = await self.running()
        if result:
            path = f"{PODS}/{rng.choice(result)['metadata']['name']}/status"
            await self.merge(path, {"status": {"phase": "Failed", "reason": "Evicted"}})

    async def delete_pod(self, rng: random.Random) -> None:
        items = await self.items(PODS)
        if items:
            body = rng.choice(({}, {"gracePeriodSeconds": 0}))
            await self.request("DELETE", f"{PODS}/{rng.choice(items)['metadata']['name']}", body)

    async def delete(self, policy: str) -> None:
        await self.request("DELETE", WORK, {"propagationPolicy": policy})

    async def status(self) -> Doc:
        obj = await self.get(WORK)
        assert obj is not None
        status: Doc = obj["status"]
        return status

    async def finalizers(self) -> dict[str, list[str]]:
        return {pod["metadata"]["name"]: pod["metadata"].get("finalizers", []) for pod in await self.items(PODS)}


def plan_of(rng: random.Random) -> FaultPlan:
    """Whoever starts lists from a server that is up to date: names are generated, and a process that knows nothing of
    what was done before it, and is shown an old world, does it again. And clocks are not set back: the wait after a
    failure goes by what they say, as upstream's, and a pod would be made a day late."""
    plan = draw(rng, SECONDS, count=8, resources=RESOURCES, restarts=True)
    forward = [fault for fault in plan.faults if not (isinstance(fault, JumpClock) and fault.seconds < 0)]
    return FaultPlan(tuple(replace(item, stale=False) if isinstance(item, Crash) else item for item in forward))


async def under_faults(
    simulation: Simulation,
    first: Doc,
    actions: Callable[[JobUser, random.Random], list[Callable[[], Awaitable[None]]]],
    finish: Callable[[JobUser], Awaitable[None]] | None = None,
) -> None:
    user = JobUser(simulation.user)
    await user.request("POST", ALL, first)
    rng = simulation.env.stream("user")

    async def interfere() -> None:
        for _ in range(12):
            await asyncio.sleep(rng.choice((0.05, 0.5, 3.0, 10.0)))
            with contextlib.suppress(ApiError):  # rejected, or deleted
                await rng.choice(actions(user, rng))()

    await asyncio.gather(simulation.follow(plan_of(simulation.env.stream("plan"))), interfere())
    if finish is not None:
        simulation.end_faults()
        await finish(user)
    await simulation.run_until_idle()


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
async def test_job_counts_match_pod_outcomes(simulation: Simulation, seed: int, mode: str, policy: str) -> None:
    """Some pods fail. Exactly the requested number succeeds, and all are counted once."""
    job = job_of(completions=7, parallelism=3, backoffLimit=100, completionMode=mode, podReplacementPolicy=policy)
    await under_faults(simulation, job, lambda user, rng: [lambda: user.fail(rng)])


async def test_failures_are_counted_per_index(simulation: Simulation, seed: int) -> None:
    job = job_of(completions=5, parallelism=3, backoffLimitPerIndex=1, completionMode="Indexed")
    await under_faults(simulation, job, lambda user, rng: [lambda: user.fail(rng)])


def disruptive_actions(user: JobUser, rng: random.Random) -> list[Callable[[], Awaitable[None]]]:
    """Also deletes pods, and suspends, resizes or recreates the Job."""

    async def again() -> None:
        await user.delete(rng.choice(("Background", "Foreground", "Orphan")))
        await asyncio.sleep(rng.choice((0.0, 0.05, 3.0)))
        await user.request("POST", ALL, job_of(completions=4, parallelism=2, backoffLimit=100))

    return [
        lambda: user.fail(rng),
        lambda: user.delete_pod(rng),
        lambda: user.merge(WORK, {"spec": {"suspend": rng.choice((True, False))}}),
        lambda: user.merge(WORK, {"spec": {"parallelism": rng.choice((0, 1, 5))}}),
        again,
    ]


@UNBOUNDED
async def test_no_finalizers_leak_whatever_happens_to_pods_and_jobs(simulation: Simulation, seed: int) -> None:
    """No finalizer remains, counts do not exceed outcomes, and the last Job finishes."""

    async def finish(user: JobUser) -> None:
        await asyncio.sleep(60.0)
        if await user.get(WORK) is None:
            await user.request("POST", ALL, job_of(completions=1))
        with contextlib.suppress(ApiError):
            await user.merge(WORK, {"spec": {"suspend": False, "parallelism": 2}})

    job = job_of(completions=4, parallelism=2, backoffLimit=100)
    await under_faults(simulation, job, disruptive_actions, finish)
