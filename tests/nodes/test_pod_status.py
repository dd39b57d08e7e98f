"""What is written about a pod, field by field.

Mirrors kubelet v1.36 ``pkg/kubelet/kubelet_pods_test.go``, ``pkg/kubelet/status`` (``generate_test.go``,
``status_manager_test.go``).
"""

from typing import Any

import msgspec
import pytest
from tests.nodes.pods import PLAIN, instant, pod, runtime_pod
from tests.tables import cases

from pilothouse.nodes import Profile
from pilothouse.nodes.containers import KILLED_CODE, stop
from pilothouse.nodes.pod_status import PodFailure, rejected, status
from pilothouse.nodes.views import NodePod

NOW, BEFORE = "2026-01-01T12:00:05Z", "2026-01-01T11:00:00Z"
HOST, ADDRESS = "10.64.0.1", "10.128.0.1"
ORDER = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
SLOW = Profile(start_delay=9.0)
UNREADY = ("False", "ContainersNotReady", "containers with unready status: [a b]", NOW)
SCHEDULED = ("True", None, None, BEFORE)
YES, NO = ("True", None, None, NOW), ("False", None, None, NOW)
BOUND = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": BEFORE}]}
RAN = {
    "phase": "Running",
    "startTime": BEFORE,
    "podIP": ADDRESS,
    "conditions": [{"type": kind, "status": "True", "lastTransitionTime": BEFORE} for kind in ORDER],
}


def patch(
    pod_object: NodePod,
    profile: Profile = PLAIN,
    *,
    at: float = 5.0,
    stopped: int | None = None,
    ends: bool = False,
    failure: PodFailure | None = None,
) -> dict[str, Any]:
    """The status at five seconds after noon, of a pod admitted ``at``."""
    running_pod = runtime_pod(pod_object, profile, at=at, until=5.0)
    if ends or stopped is not None:
        stop(running_pod, 5.0, stopped)
    return status(pod_object, running_pod, instant(5.0), HOST, ADDRESS if running_pod.ran else "", failure)


def conditions(body: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {
        c["type"]: (c["status"], c["reason"], c["message"], c["lastTransitionTime"])
        for c in body["status"]["conditions"]
    }


def states(body: dict[str, Any], field: str = "containerStatuses") -> list[tuple[Any, ...]]:
    return [(c["name"], c["state"], c["ready"], c["started"]) for c in body["status"].get(field, ())]


def test_the_status_of_an_admitted_pod_is_written_completely() -> None:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    container = {
        "name": "a", "state": waiting, "lastState": {}, "ready": False, "restartCount": 0, "image": "nginx:1",
        "imageID": "", "started": False,
    }  # fmt: skip
    rest = {"observedGeneration": 3, "lastProbeTime": None}
    unready = {"reason": "ContainersNotReady", "message": "containers with unready status: [a]"}
    good: dict[str, Any] = {"reason": None, "message": None}
    assert patch(pod(status=BOUND), SLOW) == {
        "metadata": {"uid": "u"},
        "status": {
            "phase": "Pending",
            "startTime": NOW,
            "hostIP": HOST,
            "hostIPs": [{"ip": HOST}],
            "containerStatuses": [container],
            "$setElementOrder/conditions": [{"type": kind} for kind in ORDER],
            "conditions": [
                {"type": "PodReadyToStartContainers", "status": "False", **good, **rest, "lastTransitionTime": NOW},
                {"type": "Initialized", "status": "True", **good, **rest, "lastTransitionTime": NOW},
                {"type": "Ready", "status": "False", **unready, **rest, "lastTransitionTime": NOW},
                {"type": "ContainersReady", "status": "False", **unready, **rest, "lastTransitionTime": NOW},
                {"type": "PodScheduled", "status": "True", **good, **rest, "lastTransitionTime": BEFORE},
            ],
            "observedGeneration": 3,
        },
    }


INITS = ("i", "s*")
GATED = [{"conditionType": "lb"}]
CLOSED = 'corresponding condition of pod readiness gate "lb" does not exist.'
UNPREPARED = ("False", "ContainersNotInitialized", "containers with incomplete status: [i s]", NOW)
ENDED, DONE = ("False", "PodFailed", None, NOW), ("False", "PodCompleted", None, NOW)
AB = ("a", "b")


@pytest.mark.parametrize(
    ("body", "phase", "expected"),
    [
        pytest.param(
            patch(pod(*AB, inits=INITS, status=BOUND), SLOW), "Pending", [NO, UNPREPARED, UNREADY_S, UNREADY_S],
            id="accepted, with init containers",
        )
        for UNREADY_S in [("False", "ContainersNotReady", "containers with unready status: [s a b]", NOW)]
    ]
    + [
        pytest.param(
            patch(pod(*AB, status=BOUND), Profile(start_delay=0, ready_delay=9)), "Running",
            [YES, YES, UNREADY, UNREADY], id="running",
        ),
        pytest.param(patch(pod(*AB, status=BOUND)), "Running", [YES] * 4, id="ready"),
        pytest.param(
            patch(pod(*AB, status=RAN)), "Running", [SCHEDULED] * 4, id="ready again: transition times are kept"
        ),
        pytest.param(
            patch(pod(*AB, readinessGates=GATED, status=BOUND)), "Running",
            [YES, YES, ("False", "ReadinessGatesNotReady", CLOSED, NOW), YES], id="ready but for a gate",
        ),
        pytest.param(
            patch(pod(*AB, readinessGates=GATED, status=BOUND), Profile(start_delay=0, ready_delay=9)), "Running",
            [YES, YES, (*UNREADY[:2], f"{UNREADY[2]}, {CLOSED}", NOW), UNREADY], id="no containers ready, gate false",
        ),
        pytest.param(
            patch(pod(*AB, status=BOUND, annotations={"readiness-probe.b": "fail"})), "Running",
            [YES, YES, *[("False", "ContainersNotReady", "containers with unready status: [b]", NOW)] * 2],
            id="one of two not ready",
        ),
        pytest.param(
            patch(pod(*AB, status=RAN), ends=True), "Succeeded",
            [NO, ("True", "PodCompleted", None, BEFORE), DONE, DONE], id="terminated by itself",
        ),
        pytest.param(
            patch(pod(*AB, status=RAN), stopped=KILLED_CODE), "Failed", [NO, SCHEDULED, ENDED, ENDED], id="killed"
        ),
        pytest.param(
            patch(pod(*AB, status=BOUND), SLOW, ends=True), "Failed", [NO, YES, ENDED, ENDED], id="never started"
        ),
        pytest.param(
            patch(pod(*AB, inits=INITS, status=BOUND), SLOW, ends=True), "Failed", [NO, UNPREPARED, ENDED, ENDED],
            id="never initialized",
        ),
        pytest.param(
            patch(pod(policy="Never", status=BOUND, annotations={"exit-code": "0"}), at=1.0), "Succeeded",
            [NO, ("True", "PodCompleted", None, NOW), DONE, DONE], id="completed",
        ),
        pytest.param(
            patch(pod(policy="Never", status=BOUND, annotations={"exit-code": "1"}), at=1.0), "Failed",
            [NO, YES, ENDED, ENDED], id="failed",
        ),
    ],
)  # fmt: skip
def test_conditions_of_each_state(body: dict[str, Any], phase: str, expected: list[tuple[Any, ...]]) -> None:
    assert body["status"]["phase"] == phase
    assert conditions(body) == dict(zip(ORDER, [*expected, SCHEDULED], strict=True))


def test_running_containers() -> None:
    body = patch(pod("a", "b", inits=INITS, status={**BOUND, "startTime": BEFORE}))
    on = {"running": {"startedAt": NOW}}
    assert states(body) == [("a", on, True, True), ("b", on, True, True)]
    (name, ended, ready, started), sidecar = states(body, "initContainerStatuses")
    done = {"exitCode": 0, "reason": "Completed", "startedAt": NOW, "finishedAt": NOW}
    done["containerID"] = body["status"]["initContainerStatuses"][0]["containerID"]
    assert (name, ended, ready, started) == ("i", {"terminated": done}, True, False)
    assert sidecar == ("s", on, True, True)
    assert (body["status"]["podIP"], body["status"]["podIPs"]) == (ADDRESS, [{"ip": ADDRESS}])


@pytest.mark.parametrize(("code", "exit_code", "reason"), [(None, 0, "Completed"), (137, 137, "Error")])
def test_ended_containers(code: int | None, exit_code: int, reason: str) -> None:
    body = patch(pod("a", "b", inits=INITS, status=RAN), at=1.0, stopped=code, ends=True)
    for _name, state, ready, started in (*states(body), states(body, "initContainerStatuses")[1]):
        ended = dict(state["terminated"])
        assert ended.pop("containerID").startswith("simulated://")
        started_at = "2026-01-01T12:00:01Z"
        assert ended == {"exitCode": exit_code, "reason": reason, "startedAt": started_at, "finishedAt": NOW}
        assert (ready, started) == (False, False)


LOST = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}


def test_containers_that_never_ran_count_as_lost() -> None:
    body = patch(pod("a", "b", status=BOUND), SLOW, ends=True)
    assert states(body) == [("a", {"terminated": LOST}, False, False), ("b", {"terminated": LOST}, False, False)]
    assert body["status"]["startTime"] == NOW


def test_init_containers_that_never_ran_keep_the_others_waiting() -> None:
    body = patch(pod("a", "b", inits=INITS, status=BOUND), SLOW, ends=True)
    waiting = {"waiting": {"reason": "PodInitializing"}}
    assert [state for _n, state, *_r in (*states(body), *states(body, "initContainerStatuses"))] == [waiting] * 4


def test_a_crash_loop_reports_its_backoff_and_the_last_termination() -> None:
    pod_object = pod(status=BOUND, annotations={"exit-code": "3", "exit-reason": "OOMKilled", "run-time": "0s"})
    container = patch(pod_object, at=0.0)["status"]["containerStatuses"][0]
    message = "back-off 10s restarting failed container=a pod=p_ns(u)"
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    ended = container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["startedAt"]) == (3, "OOMKilled", "2026-01-01T12:00:01Z")
    assert (container["restartCount"], container["containerID"]) == (1, ended["containerID"])


def test_every_run_has_its_own_id_and_the_previous_one() -> None:
    pod_object = pod(status=BOUND, annotations={"exit-code": "1", "run-time": "1s,forever"})
    first = patch(pod_object, at=4.5)["status"]["containerStatuses"][0]
    second = patch(pod_object, at=0.0)["status"]["containerStatuses"][0]
    assert first["containerID"] != second["containerID"]
    assert second["lastState"]["terminated"]["containerID"] == first["containerID"]
    assert second["state"] == {"running": {"startedAt": "2026-01-01T12:00:02Z"}}


def test_an_evicted_pod_has_reason_and_message() -> None:
    failure = PodFailure("Evicted", "The node was low on resource: memory. ", disruption=True)
    body = patch(pod("a", "b", status=RAN), stopped=KILLED_CODE, failure=failure)
    result = body["status"]
    assert (result["phase"], result["reason"], result["message"]) == ("Failed", "Evicted", failure.message)
    assert conditions(body)["DisruptionTarget"] == ("True", "TerminationByKubelet", failure.message, NOW)
    order = [item["type"] for item in result["$setElementOrder/conditions"]]
    assert order == ["DisruptionTarget", *ORDER]


def test_a_running_pod_is_not_reported_as_evicted_yet() -> None:
    result = patch(pod(status=RAN), failure=PodFailure("Evicted", "m", disruption=True))["status"]
    assert (result["phase"], "reason" in result) == ("Running", False)


def test_a_rejected_pod_has_a_reason_and_no_containers() -> None:
    body = rejected(pod(status=BOUND), instant(5.0), PodFailure("OutOfcpu", "Node didn't have enough resource: cpu"))
    result = body["status"]
    assert (result["phase"], result["reason"], result["startTime"]) == ("Failed", "OutOfcpu", NOW)
    assert result["message"] == "Pod was rejected: Node didn't have enough resource: cpu"
    assert "containerStatuses" not in result
    assert conditions(body) == {"Ready": ENDED, "ContainersReady": ENDED, "PodScheduled": SCHEDULED}


def test_a_new_address_replaces_the_old_one() -> None:
    """After a boot. The list is merged by address, and a pod may have one of a family."""
    result = patch(pod(status={**RAN, "podIP": "10.128.0.9"}))["status"]
    assert result["podIPs"] == [{"ip": ADDRESS}, {"$patch": "replace"}]
    assert patch(pod(status=RAN))["status"]["podIPs"] == [{"ip": ADDRESS}]


def test_foreign_conditions_come_first_and_are_not_sent() -> None:
    foreign = {"conditions": [{"type": "DisruptionTarget", "status": "True"}, {"type": "lb", "status": "True"}]}
    body = patch(pod(readinessGates=GATED, status=foreign))
    order = [item["type"] for item in body["status"]["$setElementOrder/conditions"]]
    assert order == ["DisruptionTarget", "lb", *ORDER]
    assert list(conditions(body)) == ORDER
    assert conditions(body)["Ready"][0] == "True"


def test_no_generation_is_sent_to_a_server_without_generations() -> None:
    pod_object = pod(status=BOUND)
    old = msgspec.structs.replace(pod_object, metadata=msgspec.structs.replace(pod_object.metadata, generation=0))
    body = patch(old)
    assert body["status"]["observedGeneration"] is None
    assert {c["observedGeneration"] for c in body["status"]["conditions"]} == {None}


@cases(
    "image, repository",
    {
        "name": ("nginx", "nginx"),
        "tag": ("nginx:1.2", "nginx"),
        "registry with port": ("localhost:5000/a/b:1.2", "localhost:5000/a/b"),
        "registry with port, no tag": ("localhost:5000/a/b", "localhost:5000/a/b"),
    },
)
def test_image_ids_name_repository_and_digest(image: str, repository: str) -> None:
    body = patch(pod(containers=[{"name": "a", "image": image}]))
    name, at, digest = body["status"]["containerStatuses"][0]["imageID"].partition("@sha256:")
    assert (name, at, len(digest)) == (repository, "@sha256:", 64)


def test_resources_are_repeated_once_containers_exist() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    pod_object = pod(containers=[{"name": "a", "image": "i", "resources": resources}])
    result = patch(pod_object)["status"]["containerStatuses"][0]
    assert (result["allocatedResources"], result["resources"]) == ({"cpu": "1"}, resources)
    assert "resources" not in patch(pod_object, SLOW)["status"]["containerStatuses"][0]
