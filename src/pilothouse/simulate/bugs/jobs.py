"""Known bugs of Jobs."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.api.batch import Job
from pilothouse.api.core import Pod
from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.shared.own_writes import OwnWrites
from pilothouse.controllers.workloads.job import JobOptions, backoff, controller, orphans
from pilothouse.controllers.workloads.job.controller import JobController
from pilothouse.controllers.workloads.job.decide import Census, CreatePods, Observed, RemovePods, Wait, decide_pods
from pilothouse.controllers.workloads.job.pod_events import JobEvents
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import Requeue
from pilothouse.sim import Invariant, Simulation, SimulationOptions
from pilothouse.sim.invariants.jobs import TRACKING, Jobs
from pilothouse.simulate.bugs.declaration import Bug, Pattern, Unguarded, check, only_invariant
from pilothouse.simulate.bugs.user import PODS, Doc, User

ALL = "/apis/batch/v1/namespaces/default/jobs"
WORK = f"{ALL}/work"
CONTROLLER = "job-controller"
OPTIONS = SimulationOptions(controllers=("job", "garbagecollector"))
STALE = replace(OPTIONS, controller_options={CONTROLLER: JobOptions(wait_for_own_writes=False)})


def bounded() -> Sequence[Invariant]:
    """Where only the controller deletes pods, and Jobs are not changed."""
    return (Jobs(bounded=True),)


def unbounded() -> Sequence[Invariant]:
    """Where others do, too."""
    return (Jobs(bounded=False),)


def work(*, run: str = "3s", code: str = "0", template: Doc | None = None, **spec: Any) -> Doc:
    """The spec of a Job whose containers run this long and exit with this code."""
    pod = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    notes = {"simulated.pilothouse.dev/run-time": run, "simulated.pilothouse.dev/exit-code": code}
    whole = {"metadata": {"annotations": notes, **(template or {})}, "spec": pod}
    return {"metadata": {"name": "work"}, "spec": {"template": whole, **spec}}


class Employer(User):
    """Has a Job."""

    async def create(self, **job: Any) -> None:
        """The Job ``work``."""
        await self.request("POST", ALL, work(**job))

    async def delete(self, policy: str) -> None:
        """With its pods, or without."""
        await self.request("DELETE", WORK, {"propagationPolicy": policy})

    async def status(self) -> Doc:
        """Of the Job."""
        status: Doc = (await self.request("GET", WORK))["status"]
        return status

    async def finalizers(self) -> dict[str, list[str]]:
        """Of its pods, by name."""
        return {pod["metadata"]["name"]: pod["metadata"].get("finalizers", []) for pod in await self.items(PODS)}


SECOND_POD = Bug(
    "kubernetes#130683",
    "With one completion and parallelism 1, a second pod is created minutes later",
    controller=CONTROLLER,
    patterns=(Pattern.STALE, Pattern.TIME),
    upstream="closed (rotten)",
    mechanism="The expectation of the first pod expired after five minutes, before the cache showed the pod.",
    protection="The consistency store: syncs are skipped while the cache is older than the controller's own writes.",
)


@SECOND_POD.scenario(
    "lag of more than five minutes",
    options=OPTIONS,
    invariants=bounded,
    unguarded=Unguarded("active pod number 2", options=STALE),
)
async def lag_of_more_than_five_minutes(simulation: Simulation) -> None:
    """A Job with one pod, and no events of pods for five and a half minutes."""
    user = Employer(simulation.user)
    with simulation.held_watches("pods"):
        await user.create(run="20m", completions=1, parallelism=1)
        await asyncio.sleep(330.0)
    await simulation.run_until_idle(quiet=2400.0)
    check(only_invariant(simulation, Jobs).created == 1, "more than one pod was created")


OLD_JOB = Bug(
    "kubernetes#137210",
    "A cache with the status from before a pod was counted causes an extra pod",
    controller=CONTROLLER,
    patterns=(Pattern.STALE,),
    upstream="fixed in 1.36 (KEP-5647)",
    mechanism="The counted pod is gone, and by the old status one more completion remains.",
    protection="The consistency store: syncs are skipped until the cache has the controller's own status update.",
)


@OLD_JOB.scenario(
    "a counted pod is deleted while the watch lags",
    options=OPTIONS,
    invariants=bounded,
    unguarded=Unguarded("2 of 2 are done, 1 run", options=STALE),
)
async def counted_pod_is_deleted(simulation: Simulation) -> None:
    """The watch of Jobs is stalled, and the first pod is deleted as soon as it is counted."""
    user = Employer(simulation.user)
    await user.create(run="10s", completions=2, parallelism=1)
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
        await user.request("DELETE", f"{PODS}/{counted[0]}", {"gracePeriodSeconds": 0})
        await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    check(only_invariant(simulation, Jobs).created == 2, "not two pods were created")


BEYOND_REMAINING = Bug(
    "kubernetes#28486 kubernetes#99963",
    "After a restart more pods run than completions remain",
    controller=CONTROLLER,
    patterns=(Pattern.INTERMEDIATE, Pattern.STALE),
    upstream="fixed",
    mechanism="The controller only deleted pods beyond parallelism, and not those beyond the remaining completions.",
    protection="If all completions are reached, or fewer remain than pods are active, the excess pods are deleted.",
)


def beyond_parallelism_only(observed: Observed, census: Census) -> CreatePods | RemovePods | Wait | None:
    """As upstream before the fix."""
    action = decide_pods(observed, census)
    if isinstance(action, RemovePods) and len(census.active) <= (observed.job.spec.parallelism or 1):
        return None
    return action


@BEYOND_REMAINING.scenario(
    "two more pods while no manager ran",
    options=OPTIONS,
    invariants=unbounded,
    unguarded=Unguarded(
        "still run, and 3 of 3 have succeeded", ((controller, "decide_pods", beyond_parallelism_only),)
    ),
)
async def two_pods_more(simulation: Simulation) -> None:
    """All completions are reached while no manager runs, and two more pods, which the Job adopts, would run forever."""
    user = Employer(simulation.user)
    await user.create(run="30s", completions=3, parallelism=3)
    await asyncio.sleep(5.0)
    simulation.kill(down=60.0)
    await asyncio.sleep(1.0)
    (first, *_) = await user.items(PODS)
    for name in ("more-1", "more-2"):
        notes = {"simulated.pilothouse.dev/run-time": "forever"}
        meta = {"name": name, "labels": first["metadata"]["labels"], "annotations": notes}
        await user.request("POST", PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await asyncio.sleep(300.0)
    left = sorted({"more-1", "more-2"} & {pod["metadata"]["name"] for pod in await user.items(PODS)})
    check(not left, f"{left} still run, and {(await user.status()).get('succeeded')} of 3 have succeeded")
    await simulation.run_until_idle()
    status = await user.status()
    check((status["succeeded"], status.get("failed", 0)) == (3, 0), f"the status is {status}")


ALWAYS_FAILING = Bug(
    "kubernetes#27997",
    "84,000 pods of one Job",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC,),
    upstream="fixed (backoffLimit)",
    mechanism="Pods that always failed were replaced at once, without a limit.",
    protection="backoffLimit is 6 by default, and each replacement waits twice as long as the one before.",
)


@ALWAYS_FAILING.scenario(
    "pods that fail",
    options=OPTIONS,
    invariants=unbounded,
    unguarded=Unguarded(
        "pods were created for one completion",
        ((backoff, "get_remaining_time", lambda _failures, _now: 0.0),),
        arguments={"limit": 2**31 - 1},
    ),
)
async def pods_end_with_an_error(simulation: Simulation, limit: int | None = None) -> None:
    """Each pod fails with exit code 1 after a second."""
    user = Employer(simulation.user)
    began = simulation.env.monotonic()
    await user.create(run="1s", code="1", **({} if limit is None else {"backoffLimit": limit}))
    jobs = only_invariant(simulation, Jobs)
    for _ in range(1000):
        await asyncio.sleep(1.0)
        check(jobs.created <= 100, f"{jobs.created} pods were created for one completion")
        conditions = (await user.status()).get("conditions") or []
        if any(condition["type"] == "Failed" for condition in conditions):
            break
    check(jobs.created == 7, f"{jobs.created} pods were created, not 7")
    check(simulation.env.monotonic() - began > 10 + 20 + 40 + 80 + 160 + 320, "they were created too fast")
    await simulation.run_until_idle()
    check((await user.status())["failed"] == 7, "not all of them were counted")


TERMINATING_POD = Bug(
    "kubernetes#108645 kubernetes#108752",
    "A pod that was terminating when its Job was deleted keeps its finalizer, and its namespace stays",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="fixed",
    mechanism="Events of a pod with deletionTimestamp were handled as its deletion, before the check for orphans.",
    protection="Every event of a pod with the finalizer whose Job does not exist enqueues the pod to remove the "
    "finalizer, and so does the deletion of a Job for all its pods.",
)
enqueue_orphan, release_pods_of = JobEvents._enqueue_orphan_of_job, JobEvents._enqueue_orphans_of


def not_terminating(self: JobEvents, pod: Pod) -> None:
    """Terminating pods are ignored."""
    if pod.metadata.deletion_timestamp is None:
        enqueue_orphan(self, pod)


def no_pods_of(self: JobEvents, job: Job) -> None:
    """Only the pods that are not terminating."""
    for pod in self._pods.list(job.metadata.namespace):
        reference = controller_of(pod.metadata)
        if reference is not None and reference.uid == job.metadata.uid:
            not_terminating(self, pod)


@TERMINATING_POD.scenario(
    "a pod that takes 30 s to stop",
    options=OPTIONS,
    invariants=unbounded,
    unguarded=Unguarded(
        "still has the finalizer of work",
        ((JobEvents, "_enqueue_orphan_of_job", not_terminating), (JobEvents, "_enqueue_orphans_of", no_pods_of)),
    ),
    cases={
        "Background, with a manager": {"policy": "Background", "restarted": False},
        "Background, without a manager": {"policy": "Background", "restarted": True},
    },
    variations={
        "Foreground, with a manager": {"policy": "Foreground", "restarted": False},
        "Foreground, without a manager": {"policy": "Foreground", "restarted": True},
        "Orphan, with a manager": {"policy": "Orphan", "restarted": False},
        "Orphan, without a manager": {"policy": "Orphan", "restarted": True},
    },
)
async def slow_to_stop(simulation: Simulation, policy: str, restarted: bool) -> None:
    """One pod is terminating when the Job is deleted. Its finalizer is not removed before it has terminated."""
    user = Employer(simulation.user)
    job = work(run="10m", completions=2, parallelism=2, podReplacementPolicy="Failed")
    job["spec"]["template"]["metadata"]["annotations"]["simulated.pilothouse.dev/stop-delay"] = "30s"
    job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    await user.request("POST", ALL, job)
    await asyncio.sleep(5.0)
    (first, *_) = await user.items(PODS)
    await user.request("DELETE", f"{PODS}/{first['metadata']['name']}", {})
    await asyncio.sleep(2.0)
    check(TRACKING in (await user.finalizers())[first["metadata"]["name"]], "the pod has lost its finalizer too early")
    if restarted:
        simulation.kill(down=20.0)
    await user.delete(policy)
    await simulation.run_until_idle()
    check(await user.get(WORK) is None, "the Job is still there")
    left = await user.finalizers()
    check(first["metadata"]["name"] not in left, f"the pod is still there: {left}")
    check(len(left) == (1 if policy == "Orphan" else 0), f"these pods are left: {left}")


DELETION_RACE = Bug(
    "kubernetes#109429",
    "A Job is deleted before the finalizers of its pods are removed",
    controller=CONTROLLER,
    patterns=(Pattern.INTERMEDIATE, Pattern.UNOBSERVED),
    upstream="closed (rotten)",
    mechanism="The Job is gone before its pods were counted, and nothing removes their finalizers.",
    protection="The deletion of a Job enqueues all its pods that still have the finalizer.",
)


@DELETION_RACE.scenario(
    "deleted while pods terminate",
    options=OPTIONS,
    invariants=unbounded,
    unguarded=Unguarded(
        "still has the finalizer of work",
        (
            (JobEvents, "_enqueue_orphan_of_job", lambda _self, _pod: None),
            (JobEvents, "_enqueue_orphans_of", lambda _self, _job: None),
        ),
    ),
    cases={
        "Background, Jobs late": {"policy": "Background", "hold": "jobs"},
        "Background, pods late": {"policy": "Background", "hold": "pods"},
        "Background, all late": {"policy": "Background", "hold": ""},
    },
    variations={
        "Foreground, Jobs late": {"policy": "Foreground", "hold": "jobs"},
        "Foreground, pods late": {"policy": "Foreground", "hold": "pods"},
        "Foreground, all late": {"policy": "Foreground", "hold": ""},
    },
)
async def deleted_while_pods_end(simulation: Simulation, policy: str, hold: str) -> None:
    """The Job is deleted just before its pods terminate; events of Jobs, pods, or both arrive 90 s late."""
    user = Employer(simulation.user)
    await user.create(run="8s", completions=6, parallelism=3)
    await asyncio.sleep(7.5)
    with simulation.held_watches(hold):
        await user.delete(policy)
        await asyncio.sleep(90.0)
    await simulation.run_until_idle()
    check(await user.get(WORK) is None, "the Job is still there")
    left = await user.finalizers()
    check(not left, f"these pods are left: {left}")


STUCK_FINALIZER = Bug(
    "kubernetes#127917",
    "A pod is terminating forever, because of the finalizer",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="open",
    mechanism="Each patch of the pod was rejected as invalid, because of a change by a webhook or a user. When that "
    "was corrected, the patch was not retried.",
    protection="Failures are retried forever, with a backoff of at most a minute.",
)
release_orphan = JobController._sync_orphan_pod


async def try_once(self: JobController, key: str) -> Requeue | None:
    """Failures are not retried."""
    try:
        return await release_orphan(self, key)
    except ApiError:
        return None


@STUCK_FINALIZER.scenario(
    "patches are rejected for 15 minutes",
    options=OPTIONS,
    invariants=unbounded,
    unguarded=Unguarded("two minutes later 2 pods are left", ((JobController, "_sync_orphan_pod", try_once),)),
)
async def patches_are_rejected(simulation: Simulation) -> None:
    """The Job is deleted, and its pods' finalizers cannot be removed for fifteen minutes."""
    user = Employer(simulation.user)
    await user.create(run="10m", completions=2, parallelism=2)
    await asyncio.sleep(5.0)
    rejection = simulation.add_rule(Rule(fail(422, "Invalid"), verb="patch", resource="pods"))
    await user.delete("Background")
    await asyncio.sleep(900.0)
    simulation.remove_rule(rejection)
    await asyncio.sleep(120.0)
    left = await user.items(PODS)
    check(not left, f"patches succeed again, and two minutes later {len(left)} pods are left")
    await simulation.run_until_idle()


@STUCK_FINALIZER.scenario("patches are rejected, then a restart", options=OPTIONS, invariants=unbounded)
async def rejected_then_restarted(simulation: Simulation) -> None:
    """The same, and the next process has to find them."""
    user = Employer(simulation.user)
    await user.create(run="10m", completions=2, parallelism=2)
    await asyncio.sleep(5.0)
    rejection = simulation.add_rule(Rule(fail(422, "Invalid"), verb="patch", resource="pods"))
    await user.delete("Background")
    await asyncio.sleep(900.0)
    check(len(await user.items(PODS)) == 2, "the finalizers were not in force")
    simulation.kill(down=5.0)
    await asyncio.sleep(60.0)
    simulation.remove_rule(rejection)
    await asyncio.sleep(120.0)
    check(not await user.items(PODS), "the pods are still there")
    await simulation.run_until_idle()


FOREIGN_FINALIZER = Bug(
    "kubernetes#124798",
    "The finalizer is removed from pods of another kind of Job",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC,),
    upstream="fixed",
    mechanism="A pod whose controller is a Job of another API group has the same finalizer, which that controller "
    "uses. The Job controller found no Job with that name, and treated the pod as an orphan.",
    protection="Only pods whose controller is a Job of batch/v1, or that have none, are orphans of this controller.",
)


@FOREIGN_FINALIZER.scenario(
    "a Job of another group",
    options=replace(OPTIONS, controllers=("job",)),
    unguarded=Unguarded(
        "the pod has the finalizers \\[\\]",
        ((orphans, "is_of_a_job", lambda reference: reference.kind == "Job"),),
    ),
)
async def job_of_another_group(simulation: Simulation) -> None:
    """The pod keeps its finalizer, also when the manager is restarted."""
    user = Employer(simulation.user)
    owner = {"apiVersion": "batch.example.com/v1", "kind": "Job", "name": "theirs", "uid": "u", "controller": True}
    meta = {"name": "p", "finalizers": [TRACKING], "ownerReferences": [owner]}
    await user.request("POST", PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await asyncio.sleep(10.0)
    simulation.kill(down=1.0)
    await asyncio.sleep(60.0)
    finalizers = (await user.finalizers())["p"]
    check(finalizers == [TRACKING], f"the pod has the finalizers {finalizers}")


SAME_NAME = Bug(
    "kubernetes#142142 kubernetes#131917",
    "A Job that is deleted and created again while its pods are counted never gets pods",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED, Pattern.INTERMEDIATE),
    upstream="open",
    mechanism="State that was kept by the Job's name (expectations, versions of writes, its completion) blocked the "
    "next Job with that name.",
    protection="That state is dropped when the Job is deleted or replaced, and is compared by uid.",
)


def keep_what_is_known(self: JobEvents, owner: Job, _final_state_unknown: bool) -> None:
    """Nothing is dropped when a Job is deleted."""
    self._immediate_queue.add(f"{owner.metadata.namespace}/{owner.metadata.name}")
    self._enqueue_orphans_of(owner)


@SAME_NAME.scenario(
    "deleted and created again",
    options=OPTIONS,
    invariants=unbounded,
    unguarded=Unguarded(
        "a minute later the second Job has no pods",
        (
            (JobEvents, "delete_owner", keep_what_is_known),
            (OwnWrites, "_lower_passed_creations", lambda _self, _key: None),
        ),
    ),
)
async def deleted_and_created_again(simulation: Simulation) -> None:
    """Events of pods are stalled: the first Job's creations are still expected when it is deleted and created again."""
    user = Employer(simulation.user)
    with simulation.held_watches("pods"):
        await user.create(run="2s", completions=2, parallelism=2)
        await asyncio.sleep(3.0)
        await user.delete("Background")
        await asyncio.sleep(1.0)
        for pod in await user.items(PODS):
            path = f"{PODS}/{pod['metadata']['name']}"
            await user.merge(path, {"metadata": {"finalizers": None}})
            await user.request("DELETE", path, {"gracePeriodSeconds": 0})
        simulation.end_watches("pods", "gone")
        await user.create(run="2s", completions=2, parallelism=2)
    await asyncio.sleep(60.0)
    check((await user.status()).get("succeeded"), "a minute later the second Job has no pods")
    await simulation.run_until_idle()
    check((await user.status())["succeeded"] == 2, f"the status is {await user.status()}")


@SAME_NAME.scenario("created again during a status update", options=OPTIONS, invariants=unbounded)
async def status_on_its_way(simulation: Simulation) -> None:
    """The first status update of the first Job is in flight."""
    user = Employer(simulation.user)
    slow = simulation.add_rule(Rule(delay(3.0, 3.0), verb="update", resource="jobs"))
    await user.create(run="2s", completions=2, parallelism=2)
    await asyncio.sleep(8.0)
    await user.delete("Background")
    await user.create(run="2s", completions=2, parallelism=2)
    await asyncio.sleep(60.0)
    simulation.remove_rule(slow)
    await simulation.run_until_idle()
    check((await user.status())["succeeded"] == 2, f"the status is {await user.status()}")


BUGS = (
    SECOND_POD,
    OLD_JOB,
    BEYOND_REMAINING,
    ALWAYS_FAILING,
    TERMINATING_POD,
    DELETION_RACE,
    STUCK_FINALIZER,
    FOREIGN_FINALIZER,
    SAME_NAME,
)
