"""What is written at each stage, field by field.

Mirrors kubelet v1.36 ``pkg/kubelet/kubelet_pods_test.go``, ``pkg/kubelet/status`` (``generate_test.go``,
``status_manager_test.go``).
"""

import datetime
from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Pod
from pilothouse.nodes.pod_status import accepted, running, stopped

AT = datetime.datetime(2026, 1, 1, 12, 0, 5, 999999, tzinfo=datetime.UTC)
NOW, BEFORE = "2026-01-01T12:00:05Z", "2026-01-01T12:00:00Z"
HOST, ADDRESS = "10.64.0.1", "10.128.0.1"
ORDER = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]


def pod(*names: str, **parts: Any) -> Pod:
    spec = {"containers": [{"name": name, "image": "nginx:1"} for name in names or ("a", "b")], **parts.pop("spec", {})}
    status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": BEFORE}]}
    status |= parts.pop("status", {})
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "generation": 3}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def conditions(patch: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {
        c["type"]: (c["status"], c["reason"], c["message"], c["lastTransitionTime"])
        for c in patch["status"]["conditions"]
    }


def states(patch: dict[str, Any], field: str = "containerStatuses") -> list[tuple[Any, ...]]:
    return [(c["name"], c["state"], c["ready"], c["started"]) for c in patch["status"].get(field, ())]


UNREADY = ("False", "ContainersNotReady", "containers with unready status: [a b]", NOW)
SCHEDULED = ("True", None, None, BEFORE)
YES, NO = ("True", None, None, NOW), ("False", None, None, NOW)


def test_an_accepted_pod_is_written_whole() -> None:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    container = {
        "name": "a", "state": waiting, "lastState": {}, "ready": False, "restartCount": 0, "image": "nginx:1",
        "imageID": "", "started": False,
    }  # fmt: skip
    rest = {"observedGeneration": 3, "lastProbeTime": None}
    unready = {"reason": "ContainersNotReady", "message": "containers with unready status: [a]"}
    good: dict[str, Any] = {"reason": None, "message": None}
    assert accepted(pod("a"), AT, HOST) == {
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


INITS = {"initContainers": [{"name": "i", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}]}
GATED = {"readinessGates": [{"conditionType": "lb"}]}
CLOSED = 'corresponding condition of pod readiness gate "lb" does not exist.'
RAN = {
    "phase": "Running",
    "startTime": BEFORE,
    "podIP": ADDRESS,
    "conditions": [{"type": kind, "status": "True", "lastTransitionTime": BEFORE} for kind in ORDER],
}


@pytest.mark.parametrize(
    ("patch", "phase", "expected"),
    [
        pytest.param(
            accepted(pod(spec=INITS), AT, HOST),
            "Pending",
            [
                NO,
                ("False", "ContainersNotInitialized", "containers with incomplete status: [i s]", NOW),
                UNREADY,
                UNREADY,
            ],
            id="accepted, with init containers",
        ),
        pytest.param(
            running(pod(), AT, HOST, ADDRESS, ready=False), "Running", [YES, YES, UNREADY, UNREADY], id="running"
        ),
        pytest.param(running(pod(), AT, HOST, ADDRESS, ready=True), "Running", [YES] * 4, id="ready"),
        pytest.param(
            running(pod(status=RAN), AT, HOST, ADDRESS, ready=True),
            "Running",
            [SCHEDULED] * 4,
            id="ready again: what holds on keeps its time",
        ),
        pytest.param(
            running(pod(spec=GATED), AT, HOST, ADDRESS, ready=True),
            "Running",
            [YES, YES, ("False", "ReadinessGatesNotReady", CLOSED, NOW), YES],
            id="ready but for a gate",
        ),
        pytest.param(
            stopped(pod(status=RAN), AT, HOST, ran=True, killed=False),
            "Succeeded",
            [NO, ("True", "PodCompleted", None, BEFORE), *[("False", "PodCompleted", None, NOW)] * 2],
            id="stopped by itself",
        ),
        pytest.param(
            stopped(pod(status=RAN), AT, HOST, ran=True, killed=True),
            "Failed",
            [NO, SCHEDULED, *[("False", "PodFailed", None, NOW)] * 2],
            id="killed",
        ),
        pytest.param(
            stopped(pod(), AT, HOST, ran=False, killed=False),
            "Failed",
            [NO, YES, *[("False", "PodFailed", None, NOW)] * 2],
            id="never ran",
        ),
        pytest.param(
            stopped(pod(spec=INITS), AT, HOST, ran=False, killed=False),
            "Failed",
            [
                NO,
                ("False", "ContainersNotInitialized", "containers with incomplete status: [i s]", NOW),
                *[("False", "PodFailed", None, NOW)] * 2,
            ],
            id="never initialized",
        ),
    ],
)
def test_conditions_of_each_stage(patch: dict[str, Any], phase: str, expected: list[tuple[Any, ...]]) -> None:
    assert patch["status"]["phase"] == phase
    assert conditions(patch) == dict(zip(ORDER, [*expected, SCHEDULED], strict=True))


def test_running_containers() -> None:
    patch = running(pod(spec=INITS, status={"startTime": BEFORE}), AT, HOST, ADDRESS, ready=False)
    on = {"running": {"startedAt": NOW}}
    assert states(patch) == [("a", on, False, True), ("b", on, False, True)]
    (name, ended, ready, started), sidecar = states(patch, "initContainerStatuses")
    done = {"exitCode": 0, "reason": "Completed", "startedAt": BEFORE, "finishedAt": NOW}
    done["containerID"] = patch["status"]["initContainerStatuses"][0]["containerID"]
    assert (name, ended, ready, started) == ("i", {"terminated": done}, True, False)
    assert sidecar == ("s", on, True, True)
    assert (patch["status"]["podIP"], patch["status"]["podIPs"]) == (ADDRESS, [{"ip": ADDRESS}])


@pytest.mark.parametrize(("killed", "code", "reason"), [(False, 0, "Completed"), (True, 137, "Error")])
def test_ended_containers(killed: bool, code: int, reason: str) -> None:
    patch = stopped(pod(spec=INITS, status=RAN), AT, HOST, ran=True, killed=killed)
    for _name, state, ready, started in (*states(patch), states(patch, "initContainerStatuses")[1]):
        ended = dict(state["terminated"])
        assert ended.pop("containerID").startswith("simulated://")
        assert ended == {"exitCode": code, "reason": reason, "startedAt": BEFORE, "finishedAt": NOW}
        assert (ready, started) == (False, False)
    assert "podIP" not in patch["status"], "the address is kept"


def test_containers_that_never_ran_count_as_lost() -> None:
    patch = stopped(pod(), AT, HOST, ran=False, killed=False)
    message = "The container could not be located when the pod was terminated"
    lost = {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": message,
        "startedAt": None,
        "finishedAt": None,
    }
    assert states(patch) == [("a", {"terminated": lost}, False, False), ("b", {"terminated": lost}, False, False)]
    assert patch["status"]["startTime"] == NOW


def test_init_containers_that_never_ran_keep_the_others_waiting() -> None:
    patch = stopped(pod(spec=INITS), AT, HOST, ran=False, killed=False)
    waiting = {"waiting": {"reason": "PodInitializing"}}
    assert [state for _n, state, *_r in (*states(patch), *states(patch, "initContainerStatuses"))] == [waiting] * 4


def test_foreign_conditions_stand_in_front_and_are_not_sent() -> None:
    foreign = {"conditions": [{"type": "DisruptionTarget", "status": "True"}, {"type": "lb", "status": "True"}]}
    patch = running(pod(spec=GATED, status=foreign), AT, HOST, ADDRESS, ready=True)
    order = [item["type"] for item in patch["status"]["$setElementOrder/conditions"]]
    assert order == ["DisruptionTarget", "lb", *ORDER]
    assert list(conditions(patch)) == ORDER
    assert conditions(patch)["Ready"][0] == "True"


def test_a_server_without_generations_is_told_none() -> None:
    old = msgspec.structs.replace(pod(), metadata=msgspec.structs.replace(pod().metadata, generation=0))
    patch = accepted(old, AT, HOST)
    assert patch["status"]["observedGeneration"] is None
    assert {c["observedGeneration"] for c in patch["status"]["conditions"]} == {None}


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        pytest.param("nginx", "nginx", id="name"),
        pytest.param("nginx:1.2", "nginx", id="tag"),
        pytest.param("localhost:5000/a/b:1.2", "localhost:5000/a/b", id="registry with port"),
        pytest.param("localhost:5000/a/b", "localhost:5000/a/b", id="registry with port, no tag"),
    ],
)
def test_image_ids_name_repository_and_digest(image: str, repository: str) -> None:
    patch = running(pod(spec={"containers": [{"name": "a", "image": image}]}), AT, HOST, ADDRESS, ready=True)
    name, at, digest = patch["status"]["containerStatuses"][0]["imageID"].partition("@sha256:")
    assert (name, at, len(digest)) == (repository, "@sha256:", 64)


def test_resources_are_repeated_once_containers_exist() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    spec = {"containers": [{"name": "a", "image": "i", "resources": resources}]}
    status = running(pod(spec=spec), AT, HOST, ADDRESS, ready=True)["status"]["containerStatuses"][0]
    assert (status["allocatedResources"], status["resources"]) == ({"cpu": "1"}, resources)
    assert "resources" not in accepted(pod(spec=spec), AT, HOST)["status"]["containerStatuses"][0]
