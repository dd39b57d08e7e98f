"""Pod phases, availability, restarts and requests."""

import datetime

import pytest
from tests.tables import cases

from pilothouse.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.semantics import pods

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def pod(phase: str = "Running", *, deleted: bool = False, ready: str = "", since: int | None = None) -> Pod:
    at = None if since is None else NOW - datetime.timedelta(seconds=since)
    conditions = (PodCondition(type="Ready", status=ready, last_transition_time=at),) if ready else ()
    return Pod(
        metadata=ObjectMeta(deletion_timestamp=NOW if deleted else None),
        status=PodStatus(phase=phase, conditions=conditions),
    )


@cases(
    "pod_object, active, terminal, terminating",
    {
        "pending": (pod("Pending"), True, False, False),
        "running": (pod("Running"), True, False, False),
        "no phase yet": (pod(""), True, False, False),
        "succeeded": (pod("Succeeded"), False, True, False),
        "failed": (pod("Failed"), False, True, False),
        "being deleted": (pod("Running", deleted=True), False, False, True),
        "failed and being deleted": (pod("Failed", deleted=True), False, True, False),
    },
)
def test_pod_phases(pod_object: Pod, active: bool, terminal: bool, terminating: bool) -> None:
    assert (pods.is_active(pod_object), pods.is_terminal(pod_object), pods.is_terminating(pod_object)) == (
        active,
        terminal,
        terminating,
    )


@cases(
    "pod_object, min_ready_seconds, left",
    {
        "not ready": (pod(), 0, None),
        "ready is False": (pod(ready="False", since=60), 0, None),
        "Ready suffices without minReadySeconds": (pod(ready="True"), 0, 0),
        "Ready without a transition time": (pod(ready="True"), 5, None),
        "exactly long enough": (pod(ready="True", since=5), 5, 0),
        "two seconds remaining": (pod(ready="True", since=3), 5, 2),
        "ready in the future: clocks differ": (pod(ready="True", since=-10), 5, 15),
    },
)
def test_availability(pod_object: Pod, min_ready_seconds: int, left: float | None) -> None:
    assert pods.time_until_available(pod_object, min_ready_seconds, NOW) == left
    assert pods.is_available(pod_object, min_ready_seconds, NOW) is (left == 0)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("10", 10),
        ("-10", -10),
        ("0", 0),
        ("-008", -8),
        ("+10", 0),
        ("008", 0),
        ("", 0),
        ("1.5", 0),
        (" 1", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("9" * 5000, 0),
    ],
)
def test_deletion_cost(text: str, cost: int) -> None:
    assert pods.deletion_cost({pods.DELETION_COST: text}) == cost
    assert pods.deletion_cost({}) == 0


def test_restart_counts_of_containers_and_of_sidecars() -> None:
    observed_pod = Pod(
        spec=PodSpec(init_containers=(Container(name="init"), Container(name="side", restart_policy="Always"))),
        status=PodStatus(
            container_statuses=(ContainerStatus(name="a", restart_count=2), ContainerStatus(name="b", restart_count=5)),
            init_container_statuses=(
                ContainerStatus(name="init", restart_count=9),
                ContainerStatus(name="side", restart_count=3),
            ),
        ),
    )
    assert pods.max_restart_counts(observed_pod) == (5, 3)
    assert pods.max_restart_counts(Pod()) == (0, 0)


def container(cpu: str, *, sidecar: bool = False) -> Container:
    return Container(resources=ResourceRequirements(requests={"cpu": cpu}), restart_policy="Always" if sidecar else "")


@cases(
    "spec, cpu",
    {
        "containers add up": (PodSpec(containers=(container("1"), container("500m"))), 1500),
        "init containers run one after the other": (
            PodSpec(containers=(container("1"),), init_containers=(container("2"), container("3"))),
            3000,
        ),
        "init container with earlier sidecars": (
            PodSpec(containers=(container("1"),), init_containers=(container("1", sidecar=True), container("3"))),
            4000,
        ),
        "containers with sidecars": (
            PodSpec(containers=(container("3"),), init_containers=(container("3"), container("1", sidecar=True))),
            4000,
        ),
        "overhead is added": (PodSpec(containers=(container("1"),), overhead={"cpu": "250m"}), 1250),
        "pod-level request replaces the sum": (
            PodSpec(
                containers=(container("1"),),
                resources=ResourceRequirements(requests={"cpu": "2"}),
                overhead={"cpu": "1"},
            ),
            3000,
        ),
    },
)
def test_effective_requests(spec: PodSpec, cpu: int) -> None:
    assert pods.effective_requests(Pod(spec=spec)) == {"cpu": cpu}


def test_only_cpu_is_in_milli_units() -> None:
    spec = PodSpec(containers=(Container(resources=ResourceRequirements(requests={"cpu": "1", "memory": "1Ki"})),))
    assert pods.effective_requests(Pod(spec=spec)) == {"cpu": 1000, "memory": 1024}
