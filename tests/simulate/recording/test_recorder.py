"""What a recorder records of a run, without affecting it."""

import asyncio

import msgspec
import pytest
from tests.simulate.recording.clusters import Scenario, apply, recorded, workload

from pilothouse.api.apps import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from pilothouse.api.batch import JOBS
from pilothouse.api.core import NODES, PODS
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS
from pilothouse.client import merge_patch
from pilothouse.sim import Simulation, SimulationOptions, draw, simulate
from pilothouse.simulate.recording import ACTION, VIOLATION, Recorder, Recording, Workload
from pilothouse.simulate.recording.recorder import encode


def _find(recording: Recording, title: str) -> Workload:
    return next(candidate for candidate in recording.workloads if candidate.title == title)


async def _rollout(simulation: Simulation, recorder: Recorder) -> None:
    await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", replicas=8))
    budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"minAvailable": "50%"}}
    budget["spec"]["selector"] = {"matchLabels": {"app": "web"}}  # type: ignore[assignment]
    await apply(simulation, POD_DISRUPTION_BUDGETS, budget)
    await asyncio.sleep(60)
    recorder.mark(ACTION, "set image app:2", "deployment/web")
    await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", "app:2", replicas=8), exists=True)
    await asyncio.sleep(60)


def test_a_rollout_is_recorded() -> None:
    recording, _digest = recorded(_rollout)
    web = _find(recording, "deployment/web")
    assert [(revision.number, revision.image, revision.pods.last[-1]) for revision in web.revisions] == [
        ("1", "app:1", 0),
        ("2", "app:2", 8),
    ]
    assert web.ready.last[-1] == web.desired.last[-1] == 8
    assert (web.most_unavailable, web.pods_created, web.pods_deleted) == (2, 16, 8)
    assert web.deleted_by == {"replicaset-controller": 8}
    assert {bound.name: (bound.least.last[-1], bound.most_below) for bound in web.bounds} == {
        "maxUnavailable 25%": (6, 0),
        "PodDisruptionBudget web": (4, 0),
    }
    first, second = web.rollouts
    assert (first.began, first.number, second.began, second.number) == (0.0, "1", 60.0, "2")
    assert second.finished is not None
    assert second.began < second.finished < 70
    assert second.fewest_ready >= 6
    assert web.time_to_ready.count == 16
    assert 0 < web.time_to_ready.p50 <= web.time_to_ready.p99 < 10
    assert web.never_ready == 0
    assert [(mark.at, mark.kind, mark.object) for mark in recording.marks] == [(60.0, ACTION, "deployment/web")]


def test_a_recording_is_json() -> None:
    recording, _digest = recorded(_rollout)
    assert msgspec.json.decode(encode(recording), type=Recording) == recording


def test_all_writes_of_a_run_are_counted() -> None:
    counts: list[int] = []

    async def scenario(simulation: Simulation, _recorder: Recorder) -> None:
        await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", replicas=2))
        await asyncio.sleep(10)
        counts.append(simulation.log.writes)

    assert recorded(scenario)[0].total_writes == counts[0]


def test_requests_writes_queues_and_events_are_counted() -> None:
    recording, _digest = recorded(_rollout)
    requests = {name: sum(counts) for name, counts in recording.requests.counts.items()}
    assert requests["user create"] == 2
    assert requests["kube-scheduler create"] >= 16  # bindings
    assert requests["kube-controller-manager watch"] > 10
    writes = {(write.client, write.resource): write for write in recording.writes}
    assert writes["replicaset-controller", "pods"].created == 16
    assert writes["user", "deployments.apps"].total == 2
    assert recording.total_writes > 100
    assert recording.queues["replicaset"].most >= 1
    scheduled = [event for event in recording.events if event.reason == "Scheduled"]
    assert [(item.count, item.objects, item.object.partition("-")[0]) for item in scheduled] == [(16, 16, "pod/web")]
    assert recording.event_rates.total > 50
    assert {name: node_state.last[-1] for name, node_state in recording.node_states.items()} == {"ready": 3}


def test_a_pod_that_is_never_ready_is_counted() -> None:
    async def scenario(simulation: Simulation, _recorder: Recorder) -> None:
        body = workload("StatefulSet", "db", replicas=2, serviceName="db")
        body["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none"}
        await apply(simulation, STATEFUL_SETS, body)
        await asyncio.sleep(60)

    db = _find(recorded(scenario)[0], "statefulset/db")
    assert (db.never_ready, db.time_to_ready.count, db.most_unavailable) == (1, 1, 0)
    assert 59 < db.time_to_ready.most <= 60  # its age at the end
    assert db.pending.last[-1] == 1


def test_pods_that_go_away_are_missing_and_below_the_bound() -> None:
    async def scenario(simulation: Simulation, _recorder: Recorder) -> None:
        await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", replicas=4))
        await asyncio.sleep(60)
        for pod in (await simulation.user.list(PODS, "default")).items[:3]:
            await simulation.user.delete(PODS, pod.metadata.name, "default")
        await asyncio.sleep(60)

    web = _find(recorded(scenario)[0], "deployment/web")
    assert web.most_unavailable == 3
    assert web.deleted_by == {"user": 3}
    (bound,) = web.bounds
    assert bound.most_below == 2  # 25 % of 4 may be missing
    assert 0 < bound.seconds_below < 10


def test_a_scale_up_is_no_disruption() -> None:
    async def scenario(simulation: Simulation, _recorder: Recorder) -> None:
        await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", replicas=2))
        await asyncio.sleep(60)
        await simulation.user.patch(DEPLOYMENTS, "web", merge_patch({"spec": {"replicas": 20}}), "default")
        await asyncio.sleep(60)

    web = _find(recorded(scenario)[0], "deployment/web")
    assert (web.most_unavailable, web.desired.last[-1], web.ready.last[-1]) == (0, 20, 20)
    assert [bound.most_below for bound in web.bounds] == [0]
    assert len(web.rollouts) == 1


def test_daemon_sets_stateful_sets_and_jobs_have_their_revisions() -> None:
    async def scenario(simulation: Simulation, _recorder: Recorder) -> None:
        await apply(simulation, DAEMON_SETS, workload("DaemonSet", "agent"))
        await apply(simulation, STATEFUL_SETS, workload("StatefulSet", "db", replicas=2, serviceName="db"))
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "job:1"}]}}
        job = {"metadata": {"name": "once", "namespace": "default"}, "spec": {"template": template, "completions": 2}}
        await apply(simulation, JOBS, job)
        await asyncio.sleep(60)
        await apply(simulation, DAEMON_SETS, workload("DaemonSet", "agent", "app:2"), exists=True)
        await apply(
            simulation, STATEFUL_SETS, workload("StatefulSet", "db", "app:2", replicas=2, serviceName="db"), exists=True
        )
        await asyncio.sleep(300)

    recording, _digest = recorded(scenario)
    for title, count in (("daemonset/agent", 3), ("statefulset/db", 2)):
        result = _find(recording, title)
        assert [(revision.number, revision.pods.last[-1]) for revision in result.revisions] == [
            ("1", 0),
            ("2", count),
        ], title
        assert [rollout.finished is not None for rollout in result.rollouts] == [True, True], title
        assert result.most_unavailable == 1, title
    once = _find(recording, "job/once")
    assert once.succeeded.last[-1] == 2
    assert once.desired.last[-1] == 0


def test_nodes_change_their_states() -> None:
    async def scenario(simulation: Simulation, _recorder: Recorder) -> None:
        await asyncio.sleep(10)
        await simulation.user.patch(NODES, "node-0", merge_patch({"spec": {"unschedulable": True}}))
        await simulation.user.delete(NODES, "node-1")
        await asyncio.sleep(10)

    recording, _digest = recorded(scenario)
    states = {node.name: node.states for node in recording.nodes}
    assert states["node-0"] == ["ready", "cordoned"]
    assert states["node-1"][:2] == ["ready", "gone"]
    assert recording.node_states["cordoned"].last[-1] == 1


def test_objects_from_before_the_recorder_are_known_and_not_counted() -> None:
    result: list[Recording] = []

    async def main(simulation: Simulation) -> None:
        await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", replicas=3))
        await asyncio.sleep(60)
        recorder = Recorder(simulation)
        await asyncio.sleep(60)
        result.append(recorder.finish())

    simulate(main, options=SimulationOptions())
    web = _find(result[0], "deployment/web")
    assert (web.ready.at, web.ready.last) == ([0.0], [3])
    assert (web.pods_created, web.time_to_ready.count, web.rollouts, web.never_ready) == (0, 0, [], 0)
    assert result[0].events == []
    assert 59 < result[0].seconds < 61


def test_marks_are_bounded_and_violations_are_kept() -> None:
    async def scenario(_simulation: Simulation, recorder: Recorder) -> None:
        for number in range(1500):
            recorder.mark(ACTION, f"action {number}")
        recorder.mark(VIOLATION, "too few pods are ready" * 1000, why="└─ because\n" * 10_000)

    recording, _digest = recorded(scenario)
    assert len(recording.marks) == 1001
    assert recording.more_marks == 500
    assert len(recording.marks[-1].text) == 1000
    assert len(recording.marks[-1].why) == 20_000


async def _faults(simulation: Simulation, recorder: Recorder | None) -> None:
    await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", replicas=6))
    await asyncio.sleep(30)
    plan = draw(simulation.env.stream("plan"), 60.0, count=8, resources=("pods", "replicasets", "deployments"))
    await apply(simulation, DEPLOYMENTS, workload("Deployment", "web", "app:2", replicas=6), exists=True)
    await simulation.follow(plan)
    await asyncio.sleep(60)
    await simulation.run_until_idle()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scenario", [_rollout, _faults])
def test_the_recorder_does_not_change_the_run(scenario: Scenario, seed: int) -> None:
    """The same writes at the same times, with and without."""

    async def unobserved(simulation: Simulation) -> None:
        class Nothing:
            def mark(self, *_arguments: object) -> None:
                pass

        await scenario(simulation, Nothing())  # type: ignore[arg-type]

    _recording, digest = recorded(scenario, seed=seed)
    assert digest == simulate(unobserved, seed=seed, options=SimulationOptions(nodes=3)).digest
